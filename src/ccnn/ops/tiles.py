"""Cutting a batch into what fits the cache: groups of signals, tiles of their positions."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

# Signals go through the branch in groups of about this many bytes. Measured on workload a of
# benchmarks/speed.py, 2 to 32 MB differ by less than the noise; smaller ones keep less memory.
GROUP_BYTES = 1 << 22


def groups_of(x: Tensor) -> Iterator[slice]:
    """Cut a batch into groups of signals that fit the cache, of about equal size."""
    groups = max(1, round(x.numel() * x.element_size() / GROUP_BYTES))
    step = max(1, -(-len(x) // groups))
    if step > 1:  # one signal uses all threads, of several each takes its own
        threads = torch.get_num_threads()
        step = -(-step // threads) * threads
    for b in range(0, len(x), step):
        yield slice(b, b + step)


# Columns of a matrix product: wider ones are slower, many at once are faster.
_WIDEST, _NARROWEST = 2048, 256


class Tile(NamedTuple):
    """Some positions of a group of signals, as a batch: (B, C, P) -> (B', C, P').

    Several signals are a batch already, and are taken as they are. The positions of a single one
    are cut into ``columns`` blocks of equal size, of which a tile has some.
    """

    columns: int
    part: slice

    def __call__(self, x: Tensor) -> Tensor:
        """Return a view of x (B, C, P) or (C, P); numbers that hold everywhere pass as they are."""
        if self.columns == 0 or x.shape[-1] == 1:
            return x
        x = x.view(x.shape[-2], -1) if x.is_contiguous() else x.flatten(0, -2)  # (C, P)
        if self.columns == 1:
            return x[None, :, self.part]
        return x.view(len(x), self.columns, -1).movedim(1, 0)[self.part]


def tiles_of(u: Tensor) -> Iterator[Tile]:
    """Cut a group, (B, C, P), into tiles that fit the cache."""
    batch, channels, count = u.shape
    per_position = channels * u.element_size()
    if batch > 1 or count * per_position <= GROUP_BYTES // 4:
        yield Tile(0, slice(None))
        return
    columns = _columns(count)
    # Without a fitting divisor a tile is one block of any size.
    width = count // columns if columns > 1 else 1
    step = max(1, GROUP_BYTES // (per_position * width))
    for i in range(0, columns if columns > 1 else count, step):
        yield Tile(columns, slice(i, i + step))


def _columns(count: int) -> int:
    """Return into how many equal blocks to cut: an even number if possible, or 1 if none fits."""
    fitting = range(-(-count // _WIDEST), count // _NARROWEST + 1)
    divisors = [n for n in fitting if count % n == 0]
    even = [n for n in divisors if n % 2 == 0]
    return next(iter([*even, *divisors]), 1)
