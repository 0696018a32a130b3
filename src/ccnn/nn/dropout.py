"""Dropout in any dimension, of whole channels or of elements."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

DropoutKind = Literal["channel", "element"]
DROPOUT_KINDS = ("channel", "element")


class Dropout(nn.Module):
    """Multiply by zero with probability p, and by 1/(1-p) otherwise.

    Parameters
    ----------
    p
        The rate.
    kind
        Whether whole channels are dropped together, or each element on its own.

    Shapes
    ------
    x : (B, C, *S)
    result : (B, C, *S)
    """

    def __init__(self, p: float, *, kind: DropoutKind = "channel") -> None:
        super().__init__()
        self.p = p
        self.kind = kind

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, *S) -> (B, C, *S)."""
        factor = self.factor(x)
        return x if factor is None else x * factor

    def factor(self, x: Tensor) -> Tensor | None:
        """Return what a signal like x is multiplied by now, or None where nothing is dropped."""
        if not self.training or self.p == 0:
            return None
        shape = x.shape if self.kind == "element" else x.shape[:2] + (1,) * (x.ndim - 2)
        return F.dropout(torch.ones(shape, dtype=x.dtype, device=x.device), self.p)

    def extra_repr(self) -> str:
        """Return the settings shown by ``print``."""
        return f"p={self.p}, kind={self.kind!r}"
