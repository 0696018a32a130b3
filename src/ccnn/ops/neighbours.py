"""Which scattered samples lie near which positions, without comparing all with all."""

import itertools
import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ccnn.ops.lattice import Lattice

# Candidates are found a little further out than asked for, and then compared exactly.
_SLACK = 1e-6

# Cells per axis and batch are numbered by one int64.
_BITS = 40

# Pairs up to this many are listed once and kept, 40 bytes each in 3-D; more are listed in pieces.
_KEPT = 1 << 21

# Neighbours that several layers share are looked for a little further out, since each learns its
# own radius, and are shared as long as at least so many of them are wanted.
_MARGIN = 1.05
_WANTED = 0.5


class Neighbours:
    """The inputs within a box around each output, as ranges of the sorted inputs.

    What is kept grows with the number of points, not of pairs: unless they are few, pairs are
    listed in pieces, as often as needed.

    Parameters
    ----------
    positions, query
        Where the inputs and the outputs lie.
    alive
        Which inputs exist; None where all do.
    radius
        Half the edge of the box, one number per axis.
    causal
        Whether inputs after the output are left out; those at the same time are kept. D = 1.

    Shapes
    ------
    positions : (B, N, D), float64
    query : (B, M, D), float64
    alive : (B, N), bool
    """

    def __init__(
        self,
        positions: Tensor,
        alive: Tensor | None,
        query: Tensor,
        radius: Sequence[float],
        *,
        causal: bool = False,
    ) -> None:
        self.inputs = positions.flatten(0, 1)
        self.outputs = query.flatten(0, 1)
        self.reach = tuple(radius)
        self.radius = self.inputs.new_tensor(list(radius))
        if alive is None:
            alive = torch.ones_like(positions[..., 0], dtype=torch.bool)
        if positions.shape[-1] == 1:
            found = _by_sorting(positions[..., 0], alive, query[..., 0], radius[0], causal)
        else:
            found = _by_cells(positions, alive, query, radius)
        # Row r holds the candidates order[low[r] : high[r]] of output r // rows.
        self.order, self.low, high = found
        self.rows = len(self.low) // max(len(self.outputs), 1)
        self.ends = (high - self.low).clamp(min=0).cumsum(dim=0)
        self.starts = torch.cat([self.ends.new_zeros(1), self.ends[:-1]])
        self.total = int(self.ends[-1]) if len(self.ends) else 0
        self._kept: Pairs | None = None
        self._numbers: tuple[Lattice, Tensor] | None = None

    def pairs(self, most: int) -> Iterator["Pairs"]:
        """Yield all pairs as (output, input, offset), at most so many at a time.

        Offsets are p_input - p_output. Always the same pairs in the same order.

        Shapes
        ------
        output, input : (P,), indices into B·M and B·N
        offset : (P, D), float64
        """
        if self.total > _KEPT:
            yield from self._pieces(most)
        else:
            yield from _slices(self._all(), most)

    def numbered(self, lattice: Lattice, most: int) -> Iterator["Pairs"]:
        """As pairs, with the number of the offset in a lattice, (P,), instead of the offset."""
        if self.total > _KEPT:
            for target, source, offset in self._pieces(most):
                yield target, source, lattice.number(offset)
            return
        target, source, offset = self._all()
        if self._numbers is None or self._numbers[0] != lattice:
            self._numbers = lattice, lattice.number(offset)
        yield from _slices((target, source, self._numbers[1]), most)

    def _all(self) -> "Pairs":
        if self._kept is None:
            pieces = list(self._pieces(_KEPT))
            self._kept = pieces[0] if pieces else self._between(0, 0, slice(0, 0))
        return self._kept

    def _pieces(self, most: int) -> Iterator["Pairs"]:
        begins = range(0, self.total, most)
        ends = [min(begin + most, self.total) for begin in begins]
        first = self._rows_of(list(begins))
        last = self._rows_of([end - 1 for end in ends])
        for begin, end, r, s in zip(begins, ends, first, last, strict=True):
            yield self._between(begin, end, slice(r, s + 1))

    def _rows_of(self, pairs: list[int]) -> list[int]:
        wanted = torch.tensor(pairs, dtype=torch.int64, device=self.ends.device)
        rows: list[int] = torch.searchsorted(self.ends, wanted, right=True).tolist()
        return rows

    def _between(self, begin: int, end: int, rows: slice) -> "Pairs":
        starts = self.starts[rows]
        counts = self.ends[rows].clamp(max=end) - starts.clamp(min=begin)
        row = torch.arange(len(starts), device=counts.device).repeat_interleave(counts)
        place = (self.low[rows] - starts).index_select(0, row)
        place += torch.arange(begin, end, device=counts.device)
        source = self.order.index_select(0, place)
        target = (row + rows.start) // self.rows if self.rows > 1 else row + rows.start
        offset = self.inputs.index_select(0, source) - self.outputs.index_select(0, target)
        return only((offset.abs() <= self.radius).all(dim=-1), (target, source, offset))


Pairs = tuple[Tensor, Tensor, Tensor]


def _slices(pairs: Pairs, most: int) -> Iterator[Pairs]:
    target, source, offset = pairs
    for begin in range(0, len(target), most):
        piece = slice(begin, begin + most)
        yield target[piece], source[piece], offset[piece]


class SharedNeighbours:
    """The neighbours found last among some points, for the next layer over the same points."""

    def __init__(self) -> None:
        self._last: tuple[Tensor, Neighbours] | None = None

    def find(
        self,
        positions: Tensor,
        alive: Tensor | None,
        query: Tensor,
        radius: Sequence[float],
        *,
        causal: bool,
    ) -> Neighbours:
        """Return `Neighbours` at least as far out as asked for; ``query`` is known by identity."""
        if self._last is not None and self._last[0] is query:
            share = [r / found for r, found in zip(radius, self._last[1].reach, strict=True)]
            if max(share) <= 1 and math.prod(share) >= _WANTED:
                return self._last[1]
        further = [_MARGIN * r for r in radius]
        near = Neighbours(positions.double(), alive, query.double(), further, causal=causal)
        self._last = query, near
        return near


def only(wanted: Tensor, pairs: Pairs) -> Pairs:
    """Return the wanted ones of some pairs; often these are all, which is cheap to see."""
    if bool(wanted.all()):
        return pairs
    target, source, offset = pairs
    kept = wanted.nonzero().squeeze(1)
    return target[kept], source[kept], offset.index_select(0, kept)


Ranges = tuple[Tensor, Tensor, Tensor]


def _by_sorting(
    positions: Tensor, alive: Tensor, query: Tensor, radius: float, causal: bool
) -> Ranges:
    """Return the order of the inputs and the range of it for every output, D = 1.

    Shapes
    ------
    positions, alive : (B, N), query : (B, M)
    result : (B·N,), (B·M,), (B·M,)
    """
    batch, count = positions.shape
    query = query.contiguous()
    times, order = torch.where(alive, positions, torch.inf).sort(dim=1)
    slack = _SLACK * radius + 1e-12 * query.abs()
    low = torch.searchsorted(times, query - radius - slack)
    high = torch.searchsorted(times, query if causal else query + radius + slack, right=True)
    first = torch.arange(0, batch * count, count, device=order.device)[:, None]
    return (order + first).flatten(), (low + first).flatten(), (high + first).flatten()


def _by_cells(positions: Tensor, alive: Tensor, query: Tensor, radius: Sequence[float]) -> Ranges:
    """Return the inputs in the order of their cells, and ranges of it for every output, D > 1.

    Cells are at least as large as the radius, so that neighbours lie in 3^D of them. Along the
    last axis three cells follow each other: 3^(D-1) ranges.

    Shapes
    ------
    positions : (B, N, D), alive : (B, N), query : (B, M, D)
    result : (B·N,), (B·M·3^(D-1),), (B·M·3^(D-1),)
    """
    batch, _, dim = positions.shape
    low = torch.where(alive[..., None], positions, torch.inf).amin(dim=(0, 1))
    high = torch.where(alive[..., None], positions, -torch.inf).amax(dim=(0, 1))
    least = (high - low) / 2 ** (_BITS // dim)
    edge = torch.maximum(low.new_tensor([r * (1 + _SLACK) for r in radius]), least)
    cells = [math.floor(n) + 1 for n in ((high - low) / edge).tolist()]
    limit = torch.tensor(cells, device=low.device)

    def cell_of(p: Tensor) -> Tensor:
        # Clamped before it becomes an integer; one cell outside is as good as far outside.
        return ((p - low) / edge).floor().clamp(low.new_tensor(-2.0), limit + 1.0).long()

    def number(first: Tensor, last: Tensor) -> Tensor:
        """Return one integer per cell (B, ?, D-1), (B, ?); those of a batch follow each other."""
        lead = torch.arange(batch, device=low.device)[:, None]
        for axis, n in zip(first.unbind(dim=-1), cells[:-1], strict=True):
            lead = lead * n + axis
        result: Tensor = lead * cells[-1] + last
        return result

    at = cell_of(torch.where(alive[..., None], positions, low))
    keys = number(at[..., :-1], at[..., -1])
    keys = torch.where(alive, keys, torch.iinfo(torch.int64).max).flatten()
    keys, order = keys.sort()
    begins, ends = [], []
    around = cell_of(query)
    for step in itertools.product((-1, 0, 1), repeat=dim - 1):
        lead = around[..., :-1] + torch.tensor(step, device=low.device)
        fits = ((lead >= 0) & (lead < limit[:-1])).all(dim=-1)
        first = (around[..., -1] - 1).clamp(min=0)
        last = (around[..., -1] + 1).clamp(max=cells[-1] - 1)
        fits = fits & (first <= last)
        begins.append(torch.searchsorted(keys, number(lead, first)))
        end = torch.searchsorted(keys, number(lead, last), right=True)
        ends.append(torch.where(fits, end, begins[-1]))
    return order, torch.stack(begins, dim=-1).flatten(), torch.stack(ends, dim=-1).flatten()
