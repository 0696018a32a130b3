"""What grids and points refuse alike: masks that are none, weights that cannot be."""

from typing import Literal

import torch
from torch import Tensor

# How much each sample counts: as given, estimated, or by default.
Weights = Tensor | Literal["density"] | None


def check_mask(mask: Tensor) -> None:
    """Refuse what is no mask of a batch, and one that leaves a signal without any sample."""
    check_bool(mask)
    if mask.ndim < 2:
        raise ValueError(f"mask must have shape (B, 1, *S) or (B, *S), got {tuple(mask.shape)}")
    empty = (~mask.flatten(1).any(dim=1)).nonzero().flatten().tolist()
    if empty:
        raise ValueError(
            f"mask leaves no sample at all in signal(s) {empty[:10]} of the batch; "
            "each signal needs at least one"
        )


def check_bool(mask: Tensor) -> None:
    """Refuse what is no bool tensor."""
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        kind = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(f"mask must be a bool tensor (True = the sample exists), got {kind}")


def check_weights(weights: Tensor) -> None:
    """Refuse weights (B, …), zero where there is no sample, of which no mean can be taken."""
    if not weights.isfinite().all():
        raise ValueError("weights hold NaN or infinity where a sample exists")
    if (weights.detach().flatten(1).sum(dim=1) == 0).any():
        raise ValueError("weights of a signal sum to zero; a mean over its samples needs more")
