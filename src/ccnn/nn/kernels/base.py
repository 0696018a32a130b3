"""The contract of a kernel network: a small network that is a kernel, as a function of position."""

import abc
import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from ccnn.ops.grids import coordinate_grid

Omega = float | Literal["auto"]


class AbstractKernelNet(nn.Module, abc.ABC):
    """A continuous kernel G: R^D -> R^C (§2).

    Parameters
    ----------
    dim
        D, the number of coordinates.
    out_channels
        C, the number of kernels generated at once.
    omega_0
        The prior on frequency, or ``"auto"``: the layer that receives the network then fits
        its initial frequencies to the layer's grid (see `band`). ``None`` where it has none.
    band
        With ``omega_0="auto"``, the fraction of the Nyquist frequency that the initial kernel
        may reach.
    """

    def __init__(
        self, dim: int, out_channels: int, *, omega_0: Omega | None, band: float = 1.0
    ) -> None:
        super().__init__()
        check_at_least(1, dim=dim, out_channels=out_channels)
        if isinstance(omega_0, str):
            if omega_0 != "auto":
                raise ValueError(f'omega_0 is {omega_0!r}; expected a positive number or "auto"')
        elif omega_0 is not None and not 0 < omega_0 < math.inf:
            raise ValueError(f'omega_0 must be a positive number or "auto", got {omega_0}')
        if not band > 0:
            raise ValueError(f"band must be positive, got {band}")
        self.dim = dim
        self.out_channels = out_channels
        self.omega_0 = omega_0
        self.band = band

    @property
    @abc.abstractmethod
    def last(self) -> nn.Linear:
        """The output layer, which the initialisation re-weights."""

    @abc.abstractmethod
    def forward(self, coords: Tensor) -> Tensor:
        """Return the kernels at any coordinates: (*K, D) -> (*K, C)."""

    def on_grid(self, axes: Sequence[Tensor]) -> Tensor:
        """Return the kernels on the grid spanned by D coordinate vectors: (*K, C).

        The same as ``forward(coordinate_grid(axes))``; a network that separates over the axes
        is faster here.
        """
        return self.forward(coordinate_grid(axes))

    def windowed_on_grid(self, axes: Sequence[Tensor], window: Tensor) -> Tensor:
        """Return `on_grid` times a window, channels first: window (*K, 1) -> (C, *K)."""
        return (self.on_grid(axes) * window).movedim(-1, 0)

    def frequencies(self) -> Tensor:
        """Return the highest angular frequency on each axis, in rad per unit coordinate: (D,).

        Zero where a network has no notion of frequency.
        """
        return torch.zeros(self.dim)

    def scale_frequencies_(self, factor: Tensor) -> None:
        """Multiply the frequencies of each axis by a factor (D,), in place."""

    def extra_repr(self) -> str:
        """Return the settings shown by ``print``."""
        omega = "" if self.omega_0 is None else f", omega_0={self.omega_0}"
        return f"dim={self.dim}, out_channels={self.out_channels}{omega}"


def check_at_least(least: int, **values: int) -> None:
    """Raise a ValueError for the first of the named numbers that is too small."""
    for name, value in values.items():
        if value < least:
            raise ValueError(f"{name} must be at least {least}, got {value}")


def initial_omega(omega_0: Omega) -> float:
    """Return the number to initialise with; "auto" starts at 1 and is scaled by the layer."""
    if not isinstance(omega_0, str | int | float):
        raise TypeError(f'omega_0 must be a positive number or "auto", got {omega_0!r}')
    return 1.0 if isinstance(omega_0, str) else omega_0


def per_axis(value: float | Sequence[float], dim: int, name: str) -> tuple[float, ...]:
    """Return one number per axis from one number for all, or from D of them."""
    values = tuple(value) if isinstance(value, Sequence) else (value,) * dim
    if len(values) != dim:
        raise ValueError(f"{name} must be one number or {dim}, one per axis, got {value!r}")
    if not all(math.isfinite(v) for v in values):
        raise ValueError(f"{name} must be finite, got {value!r}")
    return values


def linear(
    in_features: int, out_features: int, *, gain: float = 1.0, bias: float = 0.0
) -> nn.Linear:
    """Return a linear layer, Kaiming-uniform with the given gain and a constant bias."""
    layer = nn.Linear(in_features, out_features)
    bound = gain * (3.0 / in_features) ** 0.5
    nn.init.uniform_(layer.weight, -bound, bound)
    nn.init.constant_(layer.bias, bias)
    return layer
