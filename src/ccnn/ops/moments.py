"""Mean and variance of every channel, in one pass through the cache."""

from typing import Any

import torch
from torch import Tensor

from ccnn.ops.tiles import groups_of

# E[x²] - E[x]² cancels where the mean is large. Up to this many variances the square of the mean
# costs less than one digit, and a pass is saved; beyond it the sums are those of x - mean.
_OFF_CENTRE = 4.0


def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and the (biased) variance of each channel.

    Shapes
    ------
    x : (B, C, *S)
    result : (C,), (C,)
    """
    mean, var = _Moments.apply(x)  # type: ignore[no-untyped-call]  # torch does not type it
    return mean, var


class _Moments(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        flat = x.flatten(2)
        mean, var = _from_sums(flat, None)
        if bool((mean.square() > _OFF_CENTRE * var).any()):
            mean, var = _from_sums(flat, mean.to(x.dtype))
        mean, var = mean.to(x.dtype), var.to(x.dtype)
        ctx.save_for_backward(x, mean)
        return mean, var

    @staticmethod
    def backward(ctx: Any, of_mean: Tensor, of_var: Tensor) -> Tensor:
        x, mean = ctx.saved_tensors
        count = x.numel() / x.shape[1]
        slope = of_var * (2 / count)
        level = of_mean / count - slope * mean
        shape = (-1, *(1,) * (x.ndim - 2))
        return torch.mul(x, slope.view(shape)).add_(level.view(shape))


def _from_sums(x: Tensor, pivot: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return mean and variance of x (B, C, P) in float64, from sums of x, or of x - pivot (C,)."""
    first = torch.zeros(x.shape[1], dtype=torch.float64)
    second = torch.zeros_like(first)
    for group in groups_of(x):
        part = x[group] if pivot is None else x[group] - pivot[:, None]
        first += part.sum(dim=-1).sum(dim=0)
        second += torch.linalg.vector_norm(part, dim=-1).double().square().sum(dim=0)
    count = x.shape[0] * x.shape[2]
    offset = first / count
    var = (second / count - offset.square()).clamp(min=0)
    return offset if pivot is None else offset + pivot, var
