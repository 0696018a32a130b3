"""Mean and variance of every channel, in one pass through the cache."""

from typing import Any

import torch
from torch import Tensor

from ccnn.ops.branch import groups_of


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
        count = flat.shape[0] * flat.shape[2]
        # Sums of x - pivot: E[x²] - E[x]² would cancel where the mean is large.
        pivot = flat[0].mean(dim=-1, keepdim=True)  # (C, 1)
        first = torch.zeros(len(pivot), dtype=torch.float64)
        second = torch.zeros_like(first)
        for group in groups_of(flat):
            centred = flat[group] - pivot
            first += centred.sum(dim=-1).sum(dim=0)
            second += torch.linalg.vector_norm(centred, dim=-1).double().square().sum(dim=0)
        offset = first / count
        mean = (offset + pivot[:, 0]).to(x.dtype)
        var = (second / count - offset.square()).clamp(min=0).to(x.dtype)
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
