"""The residual block of the networks before the CCNN: two convolutions, a norm after each."""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from ccnn.domain import Grid
from ccnn.nn.conv import AbstractContinuousConv
from ccnn.nn.norm import BatchNorm, LayerNorm
from ccnn.nn.pointwise import Pointwise

Norm = BatchNorm | LayerNorm


class PostNormBlock(nn.Module):
    """The post-norm residual block: y = ReLU(f(x) + shortcut(x)).

    f is, in the CKCNN and the FlexTCN, twice Dropout(ReLU(Norm(Conv(·)))); in the FlexNet, as in a
    residual network for images, the second time Norm(Conv(·)) only. The shortcut is the identity,
    or a linear map of the channels where their number changes.

    Parameters
    ----------
    conv1, conv2
        The convolutions, from C_in to C_out and from C_out to C_out channels.
    norm1, norm2
        What follows each.
    dropout
        The rate; elements are dropped.
    open_end
        Whether f ends with the norm, without an activation and a dropout of its own.

    Shapes
    ------
    x : (B, C_in, *S)
    result : (B, C_out, *S)
    """

    def __init__(
        self,
        conv1: AbstractContinuousConv,
        conv2: AbstractContinuousConv,
        norm1: Norm,
        norm2: Norm,
        *,
        dropout: float = 0.0,
        open_end: bool = False,
    ) -> None:
        super().__init__()
        self.conv1, self.conv2 = conv1, conv2
        self.norm1, self.norm2 = norm1, norm2
        self.dropout = nn.Dropout(dropout)
        self.open_end = open_end
        before, after = conv1.in_channels, conv2.out_channels
        self.shortcut = None if before == after else Pointwise(before, after)

    def forward(
        self,
        x: Tensor,
        grid: Grid | None = None,
        *,
        reaches: Sequence[Sequence[int] | None] = (None, None),
    ) -> Tensor:
        """(B, C_in, *S) -> (B, C_out, *S); ``reaches`` are those of the two convolutions."""
        grid = Grid() if grid is None else grid.on(x)
        h = self.norm1(self.conv1(x, grid, reach=reaches[0]), grid.mask)
        h = self.dropout(F.relu(h))
        h = self.norm2(self.conv2(h, grid, reach=reaches[1]), grid.mask)
        if not self.open_end:
            h = self.dropout(F.relu(h))
        return F.relu(h + (x if self.shortcut is None else self.shortcut(x)))
