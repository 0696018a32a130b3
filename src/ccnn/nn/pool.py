"""From values at every position to one vector per signal, over valid positions only."""

import torch
from torch import Tensor


def mean_over_positions(x: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the mean over valid positions: (B, C, *S), mask (B, 1, *S) -> (B, C)."""
    if mask is None:
        return x.flatten(start_dim=2).mean(dim=-1)
    count = mask.flatten(start_dim=2).sum(dim=-1)  # (B, 1)
    # A sum in half precision overflows where its mean does not.
    wide = torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype
    total = torch.where(mask, x, 0.0).flatten(start_dim=2).sum(dim=-1, dtype=wide)
    return (total / count).to(x.dtype)


def last_position(x: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the values at the last valid position of a sequence: (B, C, S) -> (B, C)."""
    if mask is None:
        return x[..., -1]
    positions = torch.arange(x.shape[-1], device=x.device)
    last = torch.where(mask, positions, 0).amax(dim=-1, keepdim=True)  # (B, 1, 1)
    return x.gather(-1, last.expand(-1, x.shape[1], -1)).squeeze(-1)
