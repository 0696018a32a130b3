"""SIREN: a network with sine activations, the kernel network of CKConv.

Sitzmann et al. 2020, Implicit neural representations with periodic activation functions
(https://arxiv.org/abs/2006.09661).
"""

import itertools

import torch
from torch import Tensor, nn

from ccnn.nn.kernels.base import AbstractKernelNet, Omega, check_at_least, linear

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
    ) -> None:
        super().__init__(dim, out_channels, omega_0=omega_0, band=band)
        check_at_least(2, layers=layers)
        self.multiplier = _DEFAULT_OMEGA if isinstance(omega_0, str) else float(omega_0)
        widths = [dim] + [hidden] * (layers - 1)
        self.sines = nn.ModuleList()
        for i, (before, after) in enumerate(itertools.pairwise(widths)):
            layer = nn.Linear(before, after)
            bound = 1 / dim if i == 0 else (6 / hidden) ** 0.5 / self.multiplier
            nn.init.uniform_(layer.weight, -bound, bound)
            nn.init.zeros_(layer.bias)
            self.sines.append(layer)
        self.output = linear(hidden, out_channels)

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
            bound = (self.multiplier * layer.weight.detach()).abs() @ bound.to(layer.weight.dtype)
        return bound.amax(dim=0)

    def scale_frequencies_(self, factor: Tensor) -> None:
        """Multiply the first layer's weights for each axis by a factor (D,)."""
        self._linears()[0].weight.data.mul_(factor)

    def _linears(self) -> list[nn.Linear]:
        return [layer for layer in self.sines if isinstance(layer, nn.Linear)]
