"""Which ways of convolving scattered samples are open to a kernel, and which of them are worth it.

Each function returns what its way needs, or None where it is not worth it. Asked for by name it
raises where it is impossible, and is worth it anywhere else.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ccnn.ops import nufft
from ccnn.ops.lattice import FINEST, Lattice, evaluate_once, find_lattice
from ccnn.ops.neighbours import Neighbours
from ccnn.ops.pairs import PairKernel
from ccnn.ops.series import fourier_series
from ccnn.ops.stretches import Stretches
from ccnn.ops.table import Table, tabulate

# With fewer pairs per entry a table costs as much as it saves; a lattice, which is read once per
# pair instead of four times, saves sooner.
_PAIRS_PER_ENTRY = 4
_PAIRS_PER_PLACE = 2

# With fewer pairs per point, inputs and outputs counted, a series costs more than a table: 0.25 s
# and 0.29 s were measured at 15, for 10,000 samples of 32 channels, forward and backward.
_PAIRS_PER_POINT = 16

# By name tables, lattices and series may be as large as this; more would not fit a small machine.
_LARGEST = 1 << 22


class Request(NamedTuple):
    """What was asked for, as far as it decides the way; see `ccnn.ops.convolve_points`.

    Shapes
    ------
    positions : (B, N, D), query : (B, M, D), float64
    """

    kernel: PairKernel
    parameters: Sequence[Tensor]
    radius: tuple[float, ...]
    inside: Callable[[Tensor], Tensor] | None
    positions: Tensor
    alive: Tensor | None
    query: Tensor
    near: Neighbours
    causal: bool
    dtype: torch.dtype
    tolerance: float

    def wide(self) -> list[Tensor]:
        """Return the parameters in float64: at high frequencies float32 is off by too much."""
        return [p.double() if p.is_floating_point() else p for p in self.parameters]


def lattice_of(request: Request, *, by_name: bool) -> tuple[Lattice, Tensor] | None:
    """Return a lattice that holds all offsets and the kernel's entries there, (T, C)."""
    near, positions = request.near, request.positions
    if request.alive is not None:
        positions = torch.where(request.alive[..., None], positions, 0.0)
    lattice = find_lattice(
        positions, request.query, near.reach, exact=request.dtype == torch.float64
    )
    if lattice is None:
        if by_name:
            raise ValueError(
                f"positions are not multiples of {FINEST:g}, so they form no lattice; round them, "
                'or use method="exact"'
            )
        return None
    if lattice.size > (_LARGEST if by_name else near.total // _PAIRS_PER_PLACE):
        if by_name:
            raise ValueError(
                f"a lattice of step {lattice.step:g} has {lattice.size} offsets within the "
                f'kernel; at most {_LARGEST} are allowed: use method="exact", or rounder positions'
            )
        return None
    places = lattice.places(positions.device)
    entries = evaluate_once(request.kernel, places, request.parameters)
    kept = (places.abs() <= places.new_tensor(request.radius)).all(dim=-1)
    if request.inside is not None:
        kept &= request.inside(places)
    return lattice, torch.where(kept[:, None], entries, 0.0).to(request.dtype)


def table_of(request: Request, *, by_name: bool) -> tuple[Table, Tensor] | None:
    """Return a table of a kernel of one coordinate and its entries, (T, C)."""
    if len(request.radius) > 1 or (request.dtype == torch.float64 and not by_name):
        return None
    table = Table(-request.radius[0], 0.0 if request.causal else request.radius[0])
    most = _LARGEST if by_name else min(_LARGEST, request.near.total // _PAIRS_PER_ENTRY)
    entries = tabulate(
        request.kernel,
        request.wide(),
        table,
        tolerance=request.tolerance,
        most=most,
        device=request.positions.device,
    )
    if entries is None and by_name:
        raise ValueError(
            f"the kernel varies too fast for a table: {most} entries between {table.low:g} and "
            f"{table.high:g} are not within {request.tolerance:g} of it; use "
            'method="exact", or a larger tolerance'
        )
    return None if entries is None else (table, entries.to(request.dtype))


def series_of(request: Request, *, by_name: bool) -> tuple[Stretches, Tensor] | None:
    """Return the stretches of the signals and the kernel's Fourier series, (C, *M)."""
    if request.near.total == 0:  # nothing to sum; any other way knows
        return None
    if by_name:
        _refuse(request)
    elif not _is_promising(request):
        return None
    stretches = Stretches(request.positions, request.alive, request.query, request.radius)
    series = fourier_series(
        request.kernel,
        request.wide(),
        radius=request.radius,
        box=stretches.box,
        tolerance=request.tolerance,
        most=_LARGEST if by_name else min(_LARGEST, request.near.total // _PAIRS_PER_ENTRY),
    )
    if series is None and by_name:
        raise ValueError(
            f"the kernel does not vanish smoothly at its radius {request.radius}, or varies too "
            f'fast for a Fourier series of {_LARGEST} samples; use GaussianMask(window="smooth"), '
            "or another method"
        )
    return None if series is None else (stretches, series)


def _is_promising(request: Request) -> bool:
    points = len(request.near.inputs) + len(request.near.outputs)
    return (
        request.dtype == torch.float32
        and len(request.radius) == 1
        and request.near.total >= _PAIRS_PER_POINT * points
        and not request.causal
        and request.inside is None
        and math.isfinite(request.radius[0])
        and request.positions.device.type == "cpu"
        and nufft.is_installed()
    )


def _refuse(request: Request) -> None:
    """Raise where there is no series."""
    if request.causal:
        raise ValueError('method="nufft" needs a centred kernel: a causal one jumps at lag zero')
    if request.inside is not None:
        raise ValueError(
            'method="nufft" needs a kernel that ends smoothly, but inside cuts it; use '
            'GaussianMask(window="smooth"), or another method'
        )
    if not all(math.isfinite(r) for r in request.radius) or len(request.radius) > 3:
        raise ValueError(
            f'method="nufft" needs a finite radius on up to three axes, got {request.radius}'
        )
    if request.positions.device.type != "cpu":
        raise ValueError(
            f'method="nufft" runs on the CPU, but positions are on {request.positions.device}'
        )
    if not nufft.is_installed():
        raise ImportError("method=\"nufft\" needs finufft: pip install 'ccnn[points]'")
