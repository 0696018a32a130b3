"""A kernel of one coordinate, sampled finely once and interpolated at every pair."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

# Entries per training sample to start with: 32 to the shortest period of a kernel at Nyquist.
_START = 16
_FEWEST = 65

# Multiples of it, modulo 1, are spread evenly and never repeat.
_GOLDEN = (math.sqrt(5) - 1) / 2


class Table(NamedTuple):
    """Cubics through 4 of T entries at equal distances, the first at low, the last at high."""

    low: float
    high: float

    def at(self, offset: Tensor, entries: Tensor) -> Tensor:
        """Return the function with the given entries at offsets: (P, 1), (T, C) -> (P, C)."""
        first, weights = self._locate(offset, entries)
        result = entries.index_select(0, first) * weights[0]
        for i, weight in enumerate(weights[1:], start=1):
            result = result.addcmul_(entries.index_select(0, first + i), weight)
        return result

    def add_gradient(self, offset: Tensor, grad: Tensor, total: Tensor) -> None:
        """Add to the gradient (T, C) of the entries, from that of the function, (P, C)."""
        first, weights = self._locate(offset, total)
        for i, weight in enumerate(weights):
            total.index_add_(0, first + i, grad * weight)

    def _locate(self, offset: Tensor, entries: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return the first of four entries, (P,), and the weight of each, (P, 1)."""
        last = len(entries) - 1
        place = (offset - self.low) * (last / (self.high - self.low))
        # Two entries to each side, but at the ends.
        first = (place.floor() - 1).clamp(0, last - 3)
        a = place - first
        b, c, d = a - 1, a - 2, a - 3
        weights = [-b * c * d / 6, a * c * d / 2, -a * b * d / 2, a * b * c / 6]
        return first.squeeze(1).long(), [w.to(entries.dtype) for w in weights]

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

    The step h is halved until, in the middle between any two entries and for every channel, the
    table is within ``tolerance`` of the kernel, as a fraction of the channel's largest |K|. For a
    smooth kernel the error of a cubic is 3/128 · h⁴ times the fourth derivative, largest in the
    middle. Then odd places near the middles are looked at as well.

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
    if not table.high > table.low or count > most:
        return None
    with torch.no_grad():
        values = kernel(table.places(count, device), *parameters)

        def is_near(places: Tensor, exact: Tensor) -> bool:
            error = (exact - table.at(places, values)).abs().amax(dim=0)
            return bool((error <= tolerance * values.abs().amax(dim=0)).all())

        while True:
            places = table.places(2 * count - 1, device)[1::2]
            middles = kernel(places, *parameters)
            if is_near(places, middles):
                # A frequency that happens to look slow on both grids does not at odd places.
                odd = places + _odd_steps(table, count, device)
                if is_near(odd, kernel(odd, *parameters)):
                    break
            if 2 * count - 1 > most:
                return None
            finer = torch.stack([values[:-1], middles], dim=1).flatten(0, 1)
            values, count = torch.cat([finer, values[-1:]]), 2 * count - 1
    if torch.is_grad_enabled() and any(p.requires_grad for p in parameters):
        return kernel(table.places(count, device), *parameters)
    return values


def _odd_steps(table: Table, count: int, device: torch.device) -> Tensor:
    """Return steps away from the middles, at most a quarter of h, all different: (T-1, 1)."""
    number = torch.arange(count - 1, dtype=torch.float64, device=device)[:, None]
    return ((number * _GOLDEN) % 1 - 0.5) / 2 * (table.high - table.low) / (count - 1)
