"""Windows on continuous kernels, whose width is the learned size of the kernel."""

import math
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from ccnn.nn.kernels.base import check_at_least, per_axis

Window = Literal["cut", "smooth"]
WINDOWS = ("cut", "smooth")

# Keeps c/σ finite for σ = 0, and is below the σ of one sample even for a kernel of a million.
_EPSILON = 1e-6

# The coordinate of a neighbour and the bound it is compared with are rounded apart.
_SLACK = 1 + 1e-5

# Where a smooth window ends, its exponent stops here instead of at -∞, for finite gradients.
# exp(-150) is zero in float32 and 1e-65 in float64.
_DEEPEST = 150.0


class GaussianMask(nn.Module):
    """A Gaussian window whose width is learned.

    w(c) = Π_d exp(-½ u_d²),  u_d = (c_d - μ_d) / σ_d, cut to zero on every axis where its factor is
    below the threshold τ: at the radius r = σ √(2 ln 1/τ). With ``window="smooth"`` a factor is

    exp(-½ u² / (1 - (σu/r)²)),

    which vanishes at the same r with all its derivatives.

    §2.1 "Learning of hyperparameters". Multiplying a kernel by w learns the kernel's size.

    Parameters
    ----------
    dim
        D, the number of coordinates.
    sigma
        Initial width, one number or one per axis; 0.075 in most of the paper's tasks.
    mean
        The middle of the window, relative to lag zero.
    learn_mean
        Whether the middle is learned too (FlexConv does, the CCNN does not).
    threshold
        τ, the fraction of the peak below which the window is cut.
    window
        ``"cut"``, the paper's, or ``"smooth"``.

    Shapes
    ------
    coords : (*K, D), relative to lag zero
    result : (*K, 1)

    Notes
    -----
    The sign of σ does not matter, σ = 0 leaves lag zero alone with finite gradients, and a huge
    σ is no window. Both windows are 1 at μ, have the same curvature there and the same radius, and
    grow everywhere with σ: a learned σ means the same size. In powers of τ, with s = (c - μ)/r,
    they are τ^(s²) and τ^(s²/(1-s²)); the square of (τ^(s²) - τ)₊ would be C¹ only, and two
    thirds as wide at half its height.

    The cut keeps the direct neighbours of lag zero. A smooth window does not: it is zero there
    once r is less than a sample, and a grid then gives σ no gradient.
    """

    sigma: Tensor
    mean: Tensor

    def __init__(
        self,
        dim: int,
        *,
        sigma: float | Sequence[float] = 0.075,
        mean: float | Sequence[float] = 0.0,
        learn_mean: bool = False,
        threshold: float = 0.1,
        window: Window = "cut",
    ) -> None:
        super().__init__()
        check_at_least(1, dim=dim)
        if not 0 < threshold < 1:
            raise ValueError(f"threshold must lie between 0 and 1, got {threshold}")
        if window not in WINDOWS:
            raise ValueError(f"window is {window!r}; expected one of {', '.join(WINDOWS)}")
        self.dim = dim
        self.threshold = threshold
        self.window: Window = window
        self.sigma = nn.Parameter(
            torch.tensor(per_axis(sigma, dim, "sigma"), dtype=torch.get_default_dtype())
        )
        middle = torch.tensor(per_axis(mean, dim, "mean"), dtype=torch.get_default_dtype())
        if learn_mean:
            self.mean = nn.Parameter(middle)
        else:
            self.register_buffer("mean", middle)

    def forward(self, coords: Tensor, *, keep: Sequence[float] | None = None) -> Tensor:
        """(*K, D) -> (*K, 1); coordinates within ``keep`` of lag zero, per axis, are never cut."""
        self._check(coords.shape[-1])
        factors = [
            self._factor(coords[..., d], d, 0.0 if keep is None else keep[d])
            for d in range(self.dim)
        ]
        return torch.stack(factors, dim=-1).prod(dim=-1, keepdim=True)

    def on_grid(self, axes: Sequence[Tensor], *, keep: Sequence[float] | None = None) -> Tensor:
        """As forward on the grid spanned by the axes: (*K, 1)."""
        self._check(len(axes))
        window = torch.ones((), dtype=self.sigma.dtype, device=self.sigma.device)
        for d, axis in enumerate(axes):
            window = window.unsqueeze(-1) * self._factor(axis, d, 0.0 if keep is None else keep[d])
        return window.unsqueeze(-1)

    def _check(self, axes: int) -> None:
        if axes != self.dim:
            raise ValueError(f"expected coordinates with {self.dim} axes, got {axes}")

    def smooth(self, coords: Tensor) -> Tensor:
        """Return the window before it is cut: (*K, D) -> (*K, 1).

        A smooth window is its own: what a cut would take away is zero.
        """
        self._check(coords.shape[-1])
        factors = [self._value(coords[..., d], d) for d in range(self.dim)]
        return torch.stack(factors, dim=-1).prod(dim=-1, keepdim=True)

    def cut(self, *, keep: Sequence[float]) -> Callable[[Tensor], Tensor]:
        """Return a function that says where the window, as it is now, is not cut.

        (*K, D) -> (*K,), bool; ``keep`` as in forward.
        """
        mean, radius = self.mean.detach().clone(), self.radius()
        kept = radius.new_tensor(list(keep))
        return lambda coords: _within(coords, mean, radius, kept).all(dim=-1)

    def _factor(self, coord: Tensor, d: int, keep: float) -> Tensor:
        value = self._value(coord, d)
        inside = _within(coord, self.mean[d], self.radius()[d], keep)
        return torch.where(inside, value, torch.zeros_like(value))

    def _value(self, coord: Tensor, d: int) -> Tensor:
        # hypot, because σ² would overflow or vanish long before σ does.
        width = torch.hypot(self.sigma[d], self.sigma.new_tensor(_EPSILON))
        square = ((coord - self.mean[d]) / width).square()
        if self.window == "smooth":
            end = -2 * math.log(self.threshold)  # what it is at the radius
            square = square / (1 - square / end).clamp(min=0.5 * end / _DEEPEST)
        return torch.exp(-0.5 * square)

    def radius(self) -> Tensor:
        """Return the distance from the mean at which the window ends, (D,), no gradient."""
        return self.sigma.detach().abs() * math.sqrt(-2 * math.log(self.threshold))

    def extent(self) -> Tensor:
        """Return the distance from lag zero beyond which the window is cut, (D,), no gradient."""
        return self.mean.detach().abs() + self.radius()

    def extra_repr(self) -> str:
        """Return the settings shown by ``print``."""
        sigma = [round(s, 4) for s in self.sigma.tolist()]
        return f"dim={self.dim}, sigma={sigma}" + (", smooth" if self.window == "smooth" else "")


@torch.no_grad()
def _within(coord: Tensor, mean: Tensor, radius: Tensor, keep: Tensor | float) -> Tensor:
    return ((coord - mean).abs() <= radius) | (coord.abs() <= keep * _SLACK)


def default_sigma(kernel_size: int) -> float:
    """Return the width a kernel of K samples starts with: 0.075, but at least one sample.

    A narrower window would start as a single tap, whose σ gets no gradient.
    """
    return max(0.075, 2.0 / max(kernel_size - 1, 1))
