"""How much of a grid with holes each of its samples stands for."""

import torch
from torch import Tensor

from ccnn.ops.quadrature import gap_weights

# The edge of the box in which samples are counted. With a share p of the samples there, the mean
# weight is (1 - (1 - p)^n)/p in a box of n: in 2-D 5² are off by 0.08 % at p = 0.25, 3² by 7.5 %.
_EDGE = 5


def hole_weights(mask: Tensor, *, causal: bool) -> Tensor:
    """Return how many cells of a grid each sample stands for, those of the holes included.

    In 1-D half the distance between its neighbours or, where causal, the distance to the previous
    one: `gap_weights` of the indices. In D > 1 one over the share of samples that exist in a box
    of 5 per axis around it. Only positions between the first and the last sample of each axis are
    holes where they are empty: what lies beyond is no part of the signal.

    Where there is no hole in reach the weight is exactly 1.

    Shapes
    ------
    mask : (B, 1, *S), bool
    result : (B, 1, *S), float64, zero where there is no sample
    """
    if mask.ndim == 3:
        index = torch.arange(mask.shape[-1], dtype=torch.float64, device=mask.device)
        return gap_weights(index.expand(len(mask), -1), mask.squeeze(1), causal=causal).unsqueeze(1)
    positions = torch.ones_like(mask)
    for axis in range(2, mask.ndim):
        positions = positions & _between_samples(mask, axis)
    return torch.where(mask, _count(positions) / _count(mask).clamp(min=1), 0.0)


def _between_samples(mask: Tensor, axis: int) -> Tensor:
    """Return which places of an axis lie between the first and the last sample: (B, 1, …, S, …)."""
    others = [d for d in range(2, mask.ndim) if d != axis]
    found = mask.sum(dim=others, keepdim=True)
    before = found.cumsum(dim=axis) > 0
    after = found.flip(axis).cumsum(dim=axis).flip(axis) > 0
    return before & after


def _count(there: Tensor) -> Tensor:
    """Return how many are there in the box around each position: (B, 1, *S) -> the same."""
    count = there.double()  # exact for whole numbers
    for axis in range(2, there.ndim):
        size = there.shape[axis]
        place = torch.arange(size, device=there.device)
        first = (place - _EDGE // 2).clamp(min=0)
        behind = (place + _EDGE // 2 + 1).clamp(max=size)
        start = torch.zeros_like(count.narrow(axis, 0, 1))
        total = torch.cat([start, count.cumsum(dim=axis)], dim=axis)
        count = total.index_select(axis, behind) - total.index_select(axis, first)
    return count
