"""A kernel of one coordinate, sampled finely once and interpolated at every pair."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

# Entries per training sample to start with: eight to the shortest period of a kernel at Nyquist.
_START = 16
_FEWEST = 129


class Table(NamedTuple):
    """Straight lines between T entries at equal distances, the first at low, the last at high."""

    low: float
    high: float

    def at(self, offset: Tensor, entries: Tensor) -> Tensor:
        """Return the function with the given entries at offsets: (P, 1), (T, C) -> (P, C)."""
        index, part = self._locate(offset, entries)
        left, right = entries.index_select(0, index), entries.index_select(0, index + 1)
        return torch.lerp(left, right, part)

    def add_gradient(self, offset: Tensor, grad: Tensor, total: Tensor) -> None:
        """Add to the gradient (T, C) of the entries, from that of the function, (P, C)."""
        index, part = self._locate(offset, total)
        right = grad * part
        total.index_add_(0, index + 1, right)
        total.index_add_(0, index, grad - right)

    def _locate(self, offset: Tensor, entries: Tensor) -> tuple[Tensor, Tensor]:
        """Return the entry to the left, (P,), and the way to the next one, (P, 1) in [0, 1]."""
        last = len(entries) - 1
        place = (offset[:, 0] - self.low) * (last / (self.high - self.low))
        index = place.floor().clamp(0, last - 1)
        part = (place - index).clamp(0.0, 1.0).to(entries.dtype)
        return index.long(), part[:, None]

    def places(self, count: int, device: torch.device) -> Tensor:
        """Return where so many entries lie, (T, 1), in float64."""
        return torch.linspace(self.low, self.high, count, dtype=torch.float64, device=device)[
            :, None
        ]


def tabulate(
    kernel: Callable[..., Tensor],
    parameters: Sequence[Tensor],
    table: Table,
    *,
    tolerance: float,
    most: int,
    device: torch.device,
) -> Tensor | None:
    """Return the entries of a table of a kernel, or None where it takes too many.

    The step is halved until, in the middle between any two entries and for every channel, the
    straight line is within ``tolerance`` of the kernel, as a fraction of the channel's largest
    |K|. The middles then become entries too. For a smooth kernel the error of a straight line is
    h²/8 · |K''|, largest in the middle, so that the final table is off by a quarter of the
    tolerance.

    Parameters
    ----------
    kernel, parameters
        As for `ccnn.ops.convolve_points`; gradients flow from the entries to the parameters.
    table
        The interval, in training samples.
    tolerance
        See above.
    most
        The largest number of entries.
    device
        Where the kernel is evaluated.

    Shapes
    ------
    result : (T, C)
    """
    count = max(_FEWEST, math.ceil((table.high - table.low) * _START) + 1)
    if not table.high > table.low or 2 * count - 1 > most:
        return None
    with torch.no_grad():
        values = kernel(table.places(count, device), *parameters)
        fine = False
        while not fine:
            if 2 * count - 1 > most:
                return None
            count = 2 * count - 1
            middles = kernel(table.places(count, device)[1::2], *parameters)
            error = (middles - (values[:-1] + values[1:]) / 2).abs().amax(dim=0)
            fine = bool((error <= tolerance * values.abs().amax(dim=0)).all())
            finer = torch.stack([values[:-1], middles], dim=1).flatten(0, 1)
            values = torch.cat([finer, values[-1:]])
    if torch.is_grad_enabled() and any(p.requires_grad for p in parameters):
        return kernel(table.places(count, device), *parameters)
    return values
