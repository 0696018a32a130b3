"""Whether a signal and its domain fit a layer or a network, before either looks at them."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ccnn.domain import Domain, Grid, Points
from ccnn.nn.scattered import lay as lay_points
from ccnn.ops.conv import check_dtype
from ccnn.ops.holes import hole_weights


def signal_axes(domain: Domain, dim: int) -> int:
    """Return how many axes a signal has after its channels: D, or one of scattered points."""
    return 1 if isinstance(domain, Points) else dim


def check_size(size: Sequence[int]) -> tuple[int, ...]:
    """Return a signal's training size as a tuple of positive integers."""
    if isinstance(size, int) or not all(isinstance(n, int) and n > 0 for n in size) or not size:
        raise ValueError(
            f"size must be a tuple of positive integers, one per axis of the signal, such as "
            f"(784,) or (32, 32); got {size!r}"
        )
    return tuple(size)


def check_signal(x: Tensor, channels: int, dim: int, weight: Tensor) -> None:
    """Refuse a signal that does not fit a layer with the given weights."""
    check_dtype(x, "x")
    if x.ndim != dim + 2 or x.shape[1] != channels:
        axes = ", ".join("SHWTUV"[0] + (str(d + 1) if dim > 1 else "") for d in range(dim))
        raise ValueError(
            f"x must have shape (B, {channels}, {axes}): {channels} channel(s) and {dim} "
            f"axis/axes, got {tuple(x.shape)}"
        )
    if x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
        raise TypeError(
            f"x is {x.dtype} but the layer's parameters are {weight.dtype}; cast x, or the "
            "module with .double() or .float()"
        )


def lay(domain: Domain, x: Tensor, dim: int, *, causal: bool) -> Domain:
    """Return a domain laid under a signal, with the weights of its samples where it has any.

    Raises where they do not fit. Laying twice changes nothing.
    """
    if isinstance(domain, Points):
        return lay_points(domain, x, dim, causal=causal)
    return lay_grid(domain, x, causal=causal)


def lay_grid(grid: Grid, x: Tensor, *, causal: bool) -> Grid:
    """As `lay`, for a grid: ``"density"`` becomes weights (B, 1, *S)."""
    grid = grid.on(x)
    if grid.mask is None or not isinstance(grid.weights, str):
        return grid
    return grid.with_weights(hole_weights(grid.mask, causal=causal).to(x.dtype))


def weights_of(grid: Grid) -> Tensor | None:
    """Return the weights of a grid that was laid, (B, 1, *S), or None where all samples count 1."""
    if isinstance(grid.weights, str):
        raise TypeError('weights="density" of a grid are known once it is laid; see lay_grid')
    return grid.weights
