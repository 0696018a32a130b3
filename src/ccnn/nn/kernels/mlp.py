"""A plain multi-layer perceptron: the smoothest kernel network, with no notion of frequency."""

import itertools

from torch import Tensor, nn

from ccnn.nn.kernels.base import AbstractKernelNet, check_at_least, linear

# He et al. 2015: half of the units are silent at the start.
_GAIN = 2**0.5


class MLP(AbstractKernelNet):
    """Linear layers with GELU in between.

    Parameters
    ----------
    dim, out_channels, hidden
        As for `MAGNet`.
    layers
        The number of linear layers in all, the output layer included; at least 2.

    Shapes
    ------
    coords : (*K, D)
    result : (*K, C)

    Notes
    -----
    The reference implementation's default nonlinearity is the identity, which makes the whole
    network linear in its coordinates; this one is not.
    """

    def __init__(self, dim: int, out_channels: int, *, hidden: int = 32, layers: int = 3) -> None:
        super().__init__(dim, out_channels, omega_0=None)
        check_at_least(2, layers=layers)
        self.trunk = trunk(dim, hidden, layers - 1)
        self.output = linear(hidden, out_channels)

    @property
    def last(self) -> nn.Linear:
        """The output layer."""
        return self.output

    def forward(self, coords: Tensor) -> Tensor:
        """(*K, D) -> (*K, C)."""
        out: Tensor = self.output(self.trunk(coords))
        return out


def trunk(in_features: int, hidden: int, layers: int) -> nn.Sequential:
    """Return ``layers`` times linear and GELU."""
    widths = [in_features] + [hidden] * layers
    modules: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        modules += [linear(before, after, gain=_GAIN), nn.GELU()]
    return nn.Sequential(*modules)
