"""What the networks before the CCNN share: post-norm blocks, one after the other, and a head."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ccnn.domain import Domain, Grid, as_domain
from ccnn.models.arguments import check_arguments
from ccnn.models.symbols import embed
from ccnn.nn.conv import AbstractContinuousConv
from ccnn.nn.init import INITS
from ccnn.nn.pointwise import Pointwise
from ccnn.nn.pool import last_position, mean_over_positions
from ccnn.nn.post_norm import Norm, PostNormBlock
from ccnn.nn.reach import read_reaches
from ccnn.nn.signal import check_signal, check_size, lay_grid, weights_of

Reach = Sequence[int] | None


class AbstractPostNormNet(nn.Module):
    """Blocks of two dense continuous convolutions with a norm after each.

    The final classes (`CKCNN`, `FlexTCN`, `FlexNet`) say which convolutions and which norm.

    Parameters
    ----------
    arguments
        Those of the final class's constructor, by name, ready for JSON (`ccnn.save`).
    widths
        The channels of each block.
    conv, norm
        Make a convolution from the channels before and after it, and what follows it.
    stem
        Whether a convolution, a norm and a ReLU stand before the blocks.
    open_end
        As in `PostNormBlock`.

    Shapes
    ------
    x : (B, C_in, *S), or (B, *S) integers with an embedding
    result : (B, C_out), or (B, C_out, *S) with ``head="none"``
    """

    def __init__(
        self,
        arguments: Mapping[str, Any],
        *,
        widths: Sequence[int],
        conv: Callable[[int, int], AbstractContinuousConv],
        norm: Callable[[int], Norm],
        stem: bool = False,
        open_end: bool = False,
    ) -> None:
        super().__init__()
        self.arguments = dict(arguments)
        self.size = check_size(arguments["size"])
        self.in_channels: int = arguments["in_channels"]
        self.out_channels: int = arguments["out_channels"]
        self.head: str = arguments["head"]
        symbols = arguments["embedding"]
        self.embedding = None if symbols is None else nn.Embedding(symbols, self.in_channels)
        self.dropout_in = nn.Dropout(arguments["dropout_in"])
        self.stem = conv(self.in_channels, widths[0]) if stem else None
        self.stem_norm = norm(widths[0]) if stem else None
        before = widths[0] if stem else self.in_channels
        self.blocks = nn.ModuleList()
        for width in widths:
            self.blocks.append(
                PostNormBlock(
                    conv(before, width),
                    conv(width, width),
                    norm(width),
                    norm(width),
                    dropout=arguments["dropout"],
                    open_end=open_end,
                )
            )
            before = width
        self.output = Pointwise(before, self.out_channels)
        nn.init.normal_(self.output.weight, std=0.01)

    def forward(self, x: Tensor, domain: Domain | None = None) -> Tensor:
        """(B, C_in, *S) -> (B, C_out), or (B, C_out, *S) with ``head="none"``."""
        grid, layers = as_domain(domain), self.convolutions()
        if not isinstance(grid, Grid):
            raise TypeError(f"{type(self).__name__} reads signals on a Grid; CCNN reads Points too")
        if self.embedding is not None:
            x = embed(x, self.embedding, grid, len(self.size))
        check_signal(x, self.in_channels, len(self.size), self.output.weight)
        grid = lay_grid(grid, x, causal=layers[0].causal)
        if layers[0].cache is not None:  # inside ccnn.cached
            with torch.no_grad():
                return self._run(x, grid, [None] * len(layers))
        # The windows of all layers in one host read, before any of the work.
        return self._run(x, grid, read_reaches(layers, grid.spacings(len(self.size))))

    def _run(self, x: Tensor, grid: Grid, reaches: Sequence[Reach]) -> Tensor:
        if grid.mask is not None:
            x = torch.where(grid.mask, x, 0.0)
        x = self.dropout_in(x)
        rest = list(reaches)
        if self.stem is not None and self.stem_norm is not None:
            x = F.relu(self.stem_norm(self.stem(x, grid, reach=rest.pop(0)), grid.mask))
        for i, block in enumerate(self.blocks):
            x = block(x, grid, reaches=rest[2 * i : 2 * i + 2])
        return self._head(x, grid)

    def _head(self, x: Tensor, grid: Grid) -> Tensor:
        mask = grid.mask
        if self.head == "none":
            y: Tensor = self.output(x)
            return y if mask is None else torch.where(mask, y, 0.0)
        if self.head == "pool":
            pooled = mean_over_positions(x, mask, weights_of(grid))
        else:
            pooled = last_position(x, mask)
        return F.linear(pooled, self.output.weight, self.output.bias)

    def convolutions(self) -> list[AbstractContinuousConv]:
        """Return all continuous convolutions, in order."""
        first = [] if self.stem is None else [self.stem]
        blocks = [block for block in self.blocks if isinstance(block, PostNormBlock)]
        return [*first, *(conv for block in blocks for conv in (block.conv1, block.conv2))]


def check_ancestor(
    name: str, arguments: Mapping[str, Any], *, sequences_only: bool
) -> tuple[int, ...]:
    """Refuse arguments that make no sense, and return the size."""
    size = check_size(arguments["size"])
    if sequences_only and len(size) != 1:
        raise ValueError(
            f"{name} reads sequences (D = 1), but size {size} has {len(size)} axes; "
            "FlexNet and CCNN read them"
        )
    check_arguments(arguments, len(size))
    if arguments["init"] not in INITS:
        raise ValueError(f"init is {arguments['init']!r}; expected one of {', '.join(INITS)}")
    return size
