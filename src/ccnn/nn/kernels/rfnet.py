"""RFNet: random Fourier features, then a multi-layer perceptron.

Tancik et al. 2020, Fourier features let networks learn high frequency functions
(https://arxiv.org/abs/2006.10739).
"""

import torch
from torch import Tensor, nn

from ccnn.nn.kernels.base import (
    AbstractKernelNet,
    Omega,
    check_at_least,
    initial_omega,
    linear,
)
from ccnn.nn.kernels.mfn import TWO_PI
from ccnn.nn.kernels.mlp import trunk


class RFNet(AbstractKernelNet):
    """Cosines and sines of random frequencies, mixed by a perceptron with GELU.

    Initially W ~ N(0, (2π ω₀)²) with H/2 rows; they are learned like the rest.

    Parameters
    ----------
    dim, out_channels, omega_0, band
        As for `MAGNet`.
    hidden
        H, an even number.
    layers
        The number of linear layers in all, W and the output layer included; at least 2.

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
        if hidden % 2:
            raise ValueError(f"hidden must be even (half cosines, half sines), got {hidden}")
        self.features = nn.Linear(dim, hidden // 2)
        nn.init.normal_(self.features.weight, std=TWO_PI * initial_omega(omega_0))
        self.trunk = trunk(hidden, hidden, layers - 2)
        self.output = linear(hidden, out_channels)

    @property
    def last(self) -> nn.Linear:
        """The output layer."""
        return self.output

    def forward(self, coords: Tensor) -> Tensor:
        """(*K, D) -> (*K, C)."""
        phase = self.features(coords)
        h = torch.cat([torch.cos(phase), torch.sin(phase)], dim=-1)
        out: Tensor = self.output(self.trunk(h))
        return out

    def frequencies(self) -> Tensor:
        """Return the highest frequency of the features, (D,); GELU's harmonics are not counted."""
        return self.features.weight.detach().abs().amax(dim=0)

    def scale_frequencies_(self, factor: Tensor) -> None:
        """Multiply the features' frequencies on each axis by a factor (D,)."""
        self.features.weight.data.mul_(factor)
