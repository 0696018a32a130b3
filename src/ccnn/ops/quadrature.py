"""How much of space each scattered sample stands for, so that sums over them are integrals."""

import torch
from torch import Tensor

from ccnn.ops.neighbours import Neighbours

# The weight of a sample where no gap is known: one training sample.
_ALONE = 1.0


def gap_weights(positions: Tensor, mask: Tensor | None = None, *, causal: bool) -> Tensor:
    """Return the length that each sample of a sequence stands for.

    Centred: half the distance between its two neighbours, the ends counting their one gap fully.
    Causal: the gap to the previous sample; the first counts one training sample, since the
    second is not known yet when it comes. On a regular grid of spacing 1 all are 1.

    Samples at one position share its weight equally. A sample alone counts 1.

    Shapes
    ------
    positions : (B, N)
    mask : (B, N), bool, or None
    result : (B, N), zero where there is no sample
    """
    alive = torch.ones_like(positions, dtype=torch.bool) if mask is None else mask
    # What does not exist goes to the end, where it is nobody's neighbour.
    times, order = torch.where(alive, positions, torch.inf).sort(dim=1)
    exists = times.isfinite()
    new = torch.ones_like(exists)
    new[:, 1:] = times[:, 1:] != times[:, :-1]
    place = (new.cumsum(dim=1) - 1) * exists  # which of the distinct positions a sample is at
    sharing = torch.zeros_like(times).scatter_add_(1, place, exists.to(times.dtype))
    distinct = torch.full_like(times, torch.inf).scatter_reduce_(1, place, times, "amin")
    shares = _gaps(distinct, causal=causal) / sharing.clamp(min=1.0)
    weights = torch.where(exists, shares.gather(1, place), 0.0)
    return torch.zeros_like(weights).scatter_(1, order, weights)


def _gaps(times: Tensor, *, causal: bool) -> Tensor:
    """Return the weights of distinct sorted times, (B, N), of which the last may be infinite."""
    gap = times.diff(dim=1)
    gap = torch.where(gap.isfinite(), gap, torch.nan)  # NaN: there is no such neighbour
    missing = times.new_full((len(times), 1), torch.nan)
    before, after = torch.cat([missing, gap], dim=1), torch.cat([gap, missing], dim=1)
    if causal:
        return before.nan_to_num(_ALONE)
    before, after = (
        torch.where(before.isnan(), after, before),
        torch.where(after.isnan(), before, after),
    )
    return ((before + after) / 2).nan_to_num(_ALONE)


def density_weights(positions: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return an estimate of the volume that each point of a cloud stands for.

    The volume of a box around the point, divided by the number of points in it. The box has an
    edge of 3 h, h being the mean distance of the signal's points on an axis, and only its part
    inside of the cloud's own box counts. On a regular grid of spacing s all are s^D.

    Shapes
    ------
    positions : (B, N, D)
    mask : (B, N), bool, or None
    result : (B, N), zero where there is no point
    """
    alive = positions.new_ones(positions.shape[:2], dtype=torch.bool) if mask is None else mask
    low = torch.where(alive[..., None], positions, torch.inf).amin(dim=1)  # (B, D)
    high = torch.where(alive[..., None], positions, -torch.inf).amax(dim=1)
    step = _mean_distance(high - low, alive.sum(dim=1))[:, None]  # (B, 1)
    # In units of h the boxes of all signals are equal.
    points = positions / step[..., None]
    low, high = (low / step)[:, None], (high / step)[:, None]
    half = 1.5
    near = Neighbours(points, alive, points, [half] * points.shape[-1])
    count = torch.zeros_like(points[..., 0]).flatten()
    for target, _, _ in near.pairs(1 << 16):
        count.index_add_(0, target, torch.ones_like(target, dtype=count.dtype))
    edges = torch.minimum(points + half, high + 0.5) - torch.maximum(points - half, low - 0.5)
    volume = (edges * step[..., None]).prod(dim=-1)
    return torch.where(alive, volume / count.view_as(volume).clamp(min=1.0), 0.0)


def _mean_distance(extent: Tensor, count: Tensor) -> Tensor:
    """Return h with Π_d (L_d + h) = N h^D, (B,): N cubes of edge h fill the cloud's box.

    extent (B, D), count (B,). One point alone, or all at one place, have h = 1.
    """
    longest = extent.amax(dim=1)
    alone = (longest == 0) | (count < 2)
    count = count.clamp(min=2)
    low = longest / count
    high = longest / (count ** (1 / extent.shape[1]) - 1)
    for _ in range(60):  # bisection; the left side divided by h^D falls with h
        h = (low + high) / 2
        small = (1 + extent / h[:, None]).prod(dim=1) > count
        low, high = torch.where(small, h, low), torch.where(small, high, h)
    return torch.where(alone, _ALONE, high)
