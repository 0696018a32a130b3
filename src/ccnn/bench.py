"""``ccnn bench crossover``: which way to convolve is fastest on this machine, measured."""

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ccnn.ops import convolve
from ccnn.ops import costs as stored
from ccnn.ops.costs import Costs, PerDimension
from ccnn.ops.plan import FAST_TAPS, FFT_FITS, Method, Work, direct_cost, fft_cost

CHANNELS = 110
# Batch, side and taps, of D axes each.
Case = tuple[int, int, int, int]
CASES: list[Case] = [
    (dim, batch, side, taps)
    for dim, batch, side, kernels in [
        (1, 16, 784, (3, 9, 17, 33, 65, 129, 783)),
        (1, 2, 16000, (3, 9, 33, 129, 1289, 15999)),
        (1, 1, 131072, (3, 9, 129, 1025, 8193)),
        (2, 16, 32, (3, 5, 7, 9, 15, 33)),
        (2, 4, 96, (3, 5, 7, 9, 15, 33)),
        (2, 1, 256, (5, 15, 33)),
        (3, 1, 16, (3, 5, 9)),
        (3, 1, 24, (3, 5, 9)),
    ]
    for taps in kernels
]
QUICK: list[Case] = [c for c in CASES if c[2] in (784, 32, 16)]
# A direct convolution with more multiplications than this takes long and never wins.
_MOST_DIRECT = 4e9


@dataclass(frozen=True)
class Row:
    """What was measured of one case: seconds of every way."""

    case: Case
    work: Work
    seconds: dict[Method, float]

    def ratio(self, costs: Costs) -> float:
        """Return the time of what a rule with these costs takes, relative to the best."""
        expected = self.work.nanoseconds(costs)
        chosen = min(self.seconds, key=lambda m: expected[m])
        return self.seconds[chosen] / min(self.seconds.values())

    def text(self) -> str:
        """Return the case, the times and the best, in a line."""
        dim, batch, side, taps = self.case
        times = {m: f"{1e3 * self.seconds[m]:9.2f}" for m in self.seconds}
        cells = [f"{times.get(m, '-'):>9}" for m in ("direct", "fft", "blocks")]
        kind = "training" if self.work.training else "forward"
        best = min(self.seconds, key=lambda m: self.seconds[m])
        return f"{dim}-D {batch:3} × {side:6} K {taps:5} {kind:8} {' '.join(cells)}  {best}"


def crossover(
    *,
    store: bool = False,
    forget: bool = False,
    quick: bool = False,
    rounds: int = 3,
    say: Callable[[str], object] = lambda _: None,
) -> list[Row]:
    """Measure every way to convolve over a grid of shapes, and fit the rule's costs to it.

    Parameters
    ----------
    store
        Write the fitted costs to the user's cache folder, for all later processes.
    forget
        Measure nothing; remove what was stored.
    quick
        Small shapes only.
    rounds
        How often each is run; the shortest time counts.
    say
        Where the lines of the table go.
    """
    if forget:
        stored.stored_at().unlink(missing_ok=True)
        say(f"nothing stored at {stored.stored_at()} any more")
        return []
    say("milliseconds, 110 channels                direct       fft    blocks  best")
    rows = []
    for case in QUICK if quick else CASES:
        for training in (False, True):
            rows.append(_measure(case, rounds=rounds, training=training))
            say(rows[-1].text())
    fitted = fit(rows)
    say(f"the rule with stored costs: {summary(rows, stored.CURRENT)}")
    say(f"the rule with these costs:  {summary(rows, fitted)}")
    if store:
        say(f"written to {stored.store(fitted)}")
    return rows


def summary(rows: Sequence[Row], costs: Costs) -> str:
    """Say how much slower than the best way a rule with these costs is."""
    ratios = sorted(row.ratio(costs) for row in rows)
    wrong = sum(r > 1.15 for r in ratios)
    return f"{statistics.mean(ratios):.3f} × the best on average, {ratios[-1]:.2f} × at worst, " + (
        f"above 1.15 in {wrong} of {len(ratios)} cases"
    )


def fit(rows: Sequence[Row]) -> Costs:
    """Return the costs that explain what was measured; ours where nothing was."""
    costs = stored.MEASURED
    start, tap = _per_dimension(costs.direct_start), _per_dimension(costs.direct_tap)
    slow, fft = _per_dimension(costs.direct_slow), _per_dimension(costs.fft)
    for d in range(3):
        mine = [r for r in rows if r.case[0] == d + 1]
        forward = [(r, r.seconds["direct"] * 1e9 / r.work.results) for r in _direct(mine, False)]
        fast = [(math.prod(r.work.taps), ns) for r, ns in forward if r.case[3] <= FAST_TAPS]
        if len(fast) > 1:
            start[d], tap[d] = _line(fast)
        far = [ns / math.prod(r.work.taps) for r, ns in forward if r.case[3] > FAST_TAPS]
        slow[d] = statistics.median(far) if far else slow[d]
        small = [r for r in mine if math.prod(r.work.lengths) <= FFT_FITS]
        fft[d] = _rate(small, replace(costs, fft=(1.0, 1.0, 1.0))) or fft[d]
    costs = replace(
        costs,
        direct_start=_triple(start),
        direct_tap=_triple(tap),
        direct_slow=_triple(slow),
        fft=_triple(fft),
    )
    large = [r for r in rows if math.prod(r.work.lengths) > FFT_FITS]
    costs = replace(costs, fft_large=_rate(large, replace(costs, fft_large=1.0)) or costs.fft_large)
    return _fit_blocks(rows, _fit_gradients(rows, costs))


def _fit_gradients(rows: Sequence[Row], costs: Costs) -> Costs:
    start, tap = _per_dimension(costs.gradient_start), _per_dimension(costs.gradient_tap)
    for d in range(3):
        points = [
            (
                math.prod(r.work.taps),
                r.seconds["direct"] * 1e9 / r.work.results
                - 2 * direct_cost(r.work.taps, costs, training=False),
            )
            for r in _direct(rows, True)
            if r.case[0] == d + 1 and r.case[3] <= FAST_TAPS
        ]
        if len(points) > 1:
            start[d], tap[d] = _line(points)
    return replace(costs, gradient_start=_triple(start), gradient_tap=_triple(tap))


def _fit_blocks(rows: Sequence[Row], costs: Costs) -> Costs:
    def cut(training: bool, otherwise: float) -> float:
        found = [
            (
                r.seconds["blocks"] * 1e9 / (r.work.transforms * r.work.pieces)
                - fft_cost(r.work.piece_lengths, costs)
            )
            / math.prod(r.work.piece_lengths)
            for r in rows
            if r.work.training == training and r.work.pieces > 1
        ]
        return max(0.0, statistics.median(found)) if found else otherwise

    return replace(
        costs,
        blocks_forward=cut(False, costs.blocks_forward),
        blocks_training=cut(True, costs.blocks_training),
    )


def _direct(rows: Sequence[Row], training: bool) -> Iterator[Row]:
    return (r for r in rows if r.work.training == training and "direct" in r.seconds)


def _rate(rows: Sequence[Row], unit: Costs) -> float | None:
    """Return the median of the measured over the expected time of an FFT."""
    found = [
        r.seconds["fft"] * 1e9 / (r.work.transforms * fft_cost(r.work.lengths, unit)) for r in rows
    ]
    return statistics.median(found) if found else None


def _line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return start ≥ 0 and slope ≥ 0 of the line with the least relative errors."""
    points = [(x, y) for x, y in points if y > 0]
    if not points:
        return 0.0, 0.0
    # Least squares of start/y + slope·x/y = 1: two equations for two numbers.
    a, b, c = (sum(x**n / y**2 for x, y in points) for n in range(3))
    u, v = (sum(x**n / y for x, y in points) for n in range(2))
    determinant = a * c - b * b
    if determinant <= 0 or a * v < b * u:  # one number of taps only, or a falling line
        return statistics.median(y for _, y in points), 0.0
    if c * u < b * v:
        return 0.0, statistics.median(y / x for x, y in points)
    return (c * u - b * v) / determinant, (a * v - b * u) / determinant


def _per_dimension(costs: PerDimension) -> list[float]:
    return list(costs)


def _triple(costs: Sequence[float]) -> PerDimension:
    one, two, three = costs
    return one, two, three


def _measure(case: Case, *, rounds: int, training: bool) -> Row:
    dim, batch, side, taps = case
    x = torch.randn(batch, CHANNELS, *(side,) * dim, requires_grad=training)
    kernel = torch.randn(CHANNELS, *(taps,) * dim, requires_grad=training)
    work = Work.of(x.shape, kernel.shape, training=training)
    methods: list[Method] = ["fft", "blocks"]
    if work.results * math.prod(work.taps) < _MOST_DIRECT:
        methods.append("direct")
    seconds: dict[Method, float] = dict.fromkeys(methods, math.inf)
    for i in range(rounds + 1):  # in turn, so that all share the weather; the first warms up
        for method in methods:
            begin = time.perf_counter()
            _run(x, kernel, method, training)
            if i > 0:
                seconds[method] = min(seconds[method], time.perf_counter() - begin)
    return Row(case, work, seconds)


def _run(x: Tensor, kernel: Tensor, method: Method, training: bool) -> None:
    with torch.set_grad_enabled(training):
        y = convolve(x, kernel, method=method)
    if training:
        torch.autograd.grad(y, (x, kernel), y.detach())
