"""The residual block of the CCNN."""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from ccnn.domain import Grid
from ccnn.nn.conv import SeparableFlexConv
from ccnn.nn.norm import BatchNorm
from ccnn.nn.pointwise import Pointwise


class ResidualBlock(nn.Module):
    """The pre-norm residual block: y = x + GELU(W · Dropout(GELU(Conv(Norm(x)))) + b).

    §3 "An improved residual block", Fig. 2: pre-norm, one convolution, no activation on the
    shortcut.

    Parameters
    ----------
    conv
        The convolution, from C to C channels.
    dropout
        What is dropped after the first activation; it never sees the domain.

    Shapes
    ------
    x : (B, C, *S)
    result : (B, C, *S)
    """

    def __init__(self, conv: SeparableFlexConv, dropout: nn.Module) -> None:
        super().__init__()
        self.norm = BatchNorm(conv.in_channels)
        self.conv = conv
        self.dropout = dropout
        self.linear = Pointwise(conv.out_channels, conv.in_channels)

    def forward(
        self, x: Tensor, grid: Grid | None = None, *, reach: Sequence[int] | None = None
    ) -> Tensor:
        """(B, C, *S) -> (B, C, *S); ``grid`` already laid under x."""
        h = self.norm(x, None if grid is None else grid.mask)
        h = F.gelu(self.conv(h, grid, reach=reach))
        return x + F.gelu(self.linear(self.dropout(h)))
