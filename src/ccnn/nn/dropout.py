"""Dropout of whole channels, in any dimension."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ChannelDropout(nn.Module):
    """Zero whole channels of a signal with probability p, and scale the others by 1/(1-p).

    Shapes
    ------
    x : (B, C, *S)
    result : (B, C, *S)
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, *S) -> (B, C, *S)."""
        if not self.training or self.p == 0:
            return x
        factor = torch.ones(x.shape[:2] + (1,) * (x.ndim - 2), dtype=x.dtype, device=x.device)
        return x * F.dropout(factor, self.p)

    def extra_repr(self) -> str:
        """Return the settings shown by ``print``."""
        return f"p={self.p}"
