"""From values at every position to one vector per signal, over valid positions only."""

import torch
from torch import Tensor


def mean_over_positions(
    x: Tensor, mask: Tensor | None = None, weights: Tensor | None = None
) -> Tensor:
    """Return the mean over valid positions: (B, C, *S), mask (B, 1, *S) -> (B, C).

    With weights (B, 1, *S), zero where there is no sample, it is Σwx/Σw.
    """
    if weights is not None:
        return mean_over_points(x.flatten(start_dim=2), weights.flatten(start_dim=1))
    if mask is None:
        return x.flatten(start_dim=2).mean(dim=-1)
    count = mask.flatten(start_dim=2).sum(dim=-1)  # (B, 1)
    # A sum in half precision overflows where its mean does not.
    wide = torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype
    total = torch.where(mask, x, 0.0).flatten(start_dim=2).sum(dim=-1, dtype=wide)
    return (total / count).to(x.dtype)


def mean_over_points(x: Tensor, weights: Tensor) -> Tensor:
    """Return Σwx/Σw: (B, C, N), weights (B, N), zero where there is no sample -> (B, C)."""
    wide = torch.promote_types(x.dtype, torch.float32)
    weights = weights[:, None].to(wide)
    # 0 · NaN would be NaN.
    total = torch.where(weights == 0, 0.0, x * weights).sum(dim=-1)
    return (total / weights.sum(dim=-1)).to(x.dtype)


def latest_points(x: Tensor, times: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the values at the latest time, the mean where several samples share it.

    (B, C, N), times (B, N), mask (B, 1, N) -> (B, C)
    """
    times = times[:, None]
    times = times if mask is None else torch.where(mask, times, -torch.inf)
    return mean_over_positions(x, times == times.amax(dim=-1, keepdim=True))


def last_position(x: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the values at the last valid position of a sequence: (B, C, S) -> (B, C)."""
    if mask is None:
        return x[..., -1]
    positions = torch.arange(x.shape[-1], device=x.device)
    last = torch.where(mask, positions, 0).amax(dim=-1, keepdim=True)  # (B, 1, 1)
    return x.gather(-1, last.expand(-1, x.shape[1], -1)).squeeze(-1)
