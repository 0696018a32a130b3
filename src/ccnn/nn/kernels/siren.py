"""SIREN: a network with sine activations, the kernel network of CKConv.

Sitzmann et al. 2020, Implicit neural representations with periodic activation functions
(https://arxiv.org/abs/2006.09661).
"""

import itertools

import torch
from torch import Tensor, nn

from ccnn.nn.kernels.base import AbstractKernelNet, Omega, check_at_least
from ccnn.nn.kernels.weight_norm import NormedLinear, set_weight_, weight_of

# What "auto" multiplies by, as Sitzmann et al. do; the first layer is then fitted to the grid.
_DEFAULT_OMEGA = 30.0


class SIREN(AbstractKernelNet):
    """A multi-layer perceptron with h_{i+1} = sin(ω₀ (W_i h_i + b_i)).

    Initially W_0 ~ U(±1/D), further ones U(±√(6/H)/ω₀), biases 0. ω₀ multiplies in every
    forward pass, and so speeds up learning in every layer.

    Parameters
    ----------
    dim, out_channels, hidden, omega_0, band
        As for `MAGNet`.
    layers
        The number of linear layers in all, the output layer included; at least 2.
    weight_norm
        Whether the layers are `NormedLinear`, as in CKConv: W = g v/‖v‖, g and v being learned.

    Shapes
    ------
    coords : (*K, D)
    result : (*K, C)
    """

    def __init__(
        self,
        dim: int,
        out_channels: int,
        *,
        hidden: int = 32,
        layers: int = 3,
        omega_0: Omega = "auto",
        band: float = 1.0,
        weight_norm: bool = False,
    ) -> None:
        super().__init__(dim, out_channels, omega_0=omega_0, band=band)
        check_at_least(2, layers=layers)
        self.multiplier = _DEFAULT_OMEGA if isinstance(omega_0, str) else float(omega_0)
        widths = [dim] + [hidden] * (layers - 1)
        self.sines = nn.ModuleList()
        for i, (before, after) in enumerate(itertools.pairwise(widths)):
            bound = 1 / dim if i == 0 else (6 / hidden) ** 0.5 / self.multiplier
            self.sines.append(_linear(before, after, bound, weight_norm=weight_norm))
        bound = (3 / hidden) ** 0.5
        self.output = _linear(hidden, out_channels, bound, weight_norm=weight_norm)

    @property
    def last(self) -> nn.Linear:
        """The output layer."""
        return self.output

    def forward(self, coords: Tensor) -> Tensor:
        """(*K, D) -> (*K, C)."""
        h = coords
        for layer in self.sines:
            h = torch.sin(self.multiplier * layer(h))
        out: Tensor = self.output(h)
        return out

    def frequencies(self) -> Tensor:
        """Return the largest possible derivative of the last sine's phase, (D,).

        Each layer can speed the phase up by at most Σ|ω₀ W|. Sidebands beyond this
        instantaneous frequency exist but are weak.
        """
        bound = torch.eye(self.dim, device=self.output.weight.device)
        for layer in self._linears():
            steepest = (self.multiplier * weight_of(layer).detach()).abs()
            bound = steepest @ bound.to(steepest.dtype)
        return bound.amax(dim=0)

    def scale_frequencies_(self, factor: Tensor) -> None:
        """Multiply the first layer's weights for each axis by a factor (D,)."""
        first = self._linears()[0]
        set_weight_(first, weight_of(first) * factor)

    def _linears(self) -> list[nn.Linear]:
        return [layer for layer in self.sines if isinstance(layer, nn.Linear)]


def _linear(before: int, after: int, bound: float, *, weight_norm: bool) -> nn.Linear:
    """Return a linear layer with weights U(±bound) and no bias yet."""
    layer = NormedLinear(before, after) if weight_norm else nn.Linear(before, after)
    set_weight_(layer, torch.empty_like(layer.weight).uniform_(-bound, bound))
    nn.init.zeros_(layer.bias)
    return layer
