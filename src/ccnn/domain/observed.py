"""The paper's way to tell a network of missing samples: one more channel."""

import torch
from torch import Tensor

from ccnn.domain.checks import check_bool


def with_observed(x: Tensor, mask: Tensor) -> Tensor:
    """Return x with zeros where samples are missing, and a channel that says which are there.

    The network then has one input channel more, and is called without a mask: to it, a hole is a
    zero beside a zero. `ccnn.Grid(mask=…)` is the other way.

    Parameters
    ----------
    x
        The signals. What missing samples hold, NaN included, does not matter.
    mask
        True where a sample exists; a signal without any is all zeros.

    Shapes
    ------
    x : (B, C, *S)
    mask : (B, 1, *S) or (B, *S), bool
    result : (B, C + 1, *S)
    """
    check_bool(mask)
    shape = (x.shape[0], 1, *x.shape[2:])
    if mask.shape not in (shape, shape[:1] + shape[2:]):
        raise ValueError(
            f"mask has shape {tuple(mask.shape)}; expected {shape} or {shape[:1] + shape[2:]} for "
            f"x of shape {tuple(x.shape)}"
        )
    mask = mask.view(shape)
    return torch.cat([torch.where(mask, x, 0.0), mask.to(x.dtype)], dim=1)
