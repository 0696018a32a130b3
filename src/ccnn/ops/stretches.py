"""A signal of scattered samples cut into stretches that are transformed one at a time."""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

# A stretch spans about so many points, which fit a cache, and so many radii, that its overlap with
# the next is a small part of it.
_POINTS = 1 << 13
_RADII = 8


class Stretches:
    """The first axis cut into stretches: the outputs of each, and the inputs that they see.

    Parameters
    ----------
    positions, query
        Where the inputs and the outputs lie.
    alive
        Which inputs exist; None where all do.
    radius
        Half the edge of the box around an output in which inputs are seen, per axis.

    Attributes
    ----------
    box
        L per axis: going round, no output of a stretch meets one of its inputs a second time.

    Shapes
    ------
    positions : (B, N, D), query : (B, M, D), float64, N > 0, M > 0
    alive : (B, N), bool
    """

    def __init__(
        self, positions: Tensor, alive: Tensor | None, query: Tensor, radius: Sequence[float]
    ) -> None:
        self.inputs = positions.flatten(0, 1)
        self.outputs = query.flatten(0, 1)
        if alive is None:
            alive = torch.ones_like(positions[..., 0], dtype=torch.bool)
        self._signals = (positions[..., 0].masked_fill(~alive, torch.inf), query[..., 0])
        self._radius = radius[0]
        span = _span(positions, alive, query)
        count = max(positions.shape[1], query.shape[1])
        self._length = min(max(_RADII * radius[0], span[0] * _POINTS / count), span[0])
        seen = [min(self._length + radius[0], span[0]), *span[1:]]
        self.box = [max(s, r) + r for s, r in zip(seen, radius, strict=True)]

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the indices of each stretch's inputs, into B·N, and outputs, into B·M."""
        inputs, outputs = self._signals
        for b, (p, q) in enumerate(zip(inputs, outputs, strict=True)):
            for seen, own in self._of_signal(p, q):
                yield seen + b * len(p), own + b * len(q)

    def _of_signal(self, p: Tensor, q: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        p, inputs = p.sort()
        q, outputs = q.sort()
        number = ((q - q[0]) / self._length).floor() if self._length > 0 else torch.zeros_like(q)
        counts = torch.unique_consecutive(number, return_counts=True)[1]
        ends = counts.cumsum(dim=0)
        begins = ends - counts
        low = torch.searchsorted(p, q[begins] - self._radius)
        high = torch.searchsorted(p, q[ends - 1] + self._radius, right=True)
        for bounds in torch.stack([low, high, begins, ends], dim=1).tolist():
            if bounds[1] > bounds[0]:
                yield inputs[bounds[0] : bounds[1]], outputs[bounds[2] : bounds[3]]

    def angles(self, seen: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
        """Return 2π/L times the positions of a stretch's inputs and outputs, (P, D) each."""
        p, q = self.inputs.index_select(0, seen), self.outputs.index_select(0, own)
        # Around the middle they are small and exact, and the inputs lie within half a turn.
        middle = (q.amin(dim=0) + q.amax(dim=0)) / 2
        scale = 2 * math.pi / q.new_tensor(self.box)
        return (p - middle) * scale, (q - middle) * scale


def _span(positions: Tensor, alive: Tensor, query: Tensor) -> list[float]:
    """Return the longest distance between any two points of one signal, per axis."""
    places = torch.where(alive[..., None], positions, query[:, :1])
    places = torch.cat([places, query], dim=1)
    span: list[float] = (places.amax(dim=1) - places.amin(dim=1)).amax(dim=0).tolist()
    return span
