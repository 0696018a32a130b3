"""What does a convolution of scattered samples cost, and how far is each way of doing it off?

    python benchmarks/points.py [--only CASE] [--out FILE]

Every case runs in a process of its own, which is how its memory is known; ways that are compared
run in turn. 32 channels, float32, samples at random times; a support of n samples is 2 r = n.
Errors are ‖y - exact‖ / ‖exact‖ on 200 outputs.

long        100,000 samples, smooth window with a support of 500: the series
table       10,000 samples, support 500: the table, causal, cut and smooth; the series
growth      10,000 to 1,000,000 samples, support 50: the table and the series
network     4 blocks on 10,000 samples, support 500: cut and smooth
clouds      16 clouds of 1,024 points on a sphere in a box of 16³: exact, and rounded to a lattice
windows     the sum of 1,000 samples against that of 16,000, cut and smooth
"""

import argparse
import csv
import json
import math
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from timing import interleaved, write_csv
from torch import Tensor

import ccnn
from ccnn.nn import GaussianMask, SeparableFlexConv
from ccnn.nn.conv import read_radii
from ccnn.nn.masks import Window
from ccnn.nn.scattered import OffsetKernel, convolve_scattered, lay
from ccnn.ops.points import PointMethod

CHANNELS = 32
RADIUS_IN_SIGMA = math.sqrt(2 * math.log(10))
Row = dict[str, object]


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def layer_of(support: float, *, window: Window = "cut", causal: bool = False) -> SeparableFlexConv:
    """A layer whose window has the given support in training samples."""
    size = 2 * math.ceil(support) + 1
    reach = support if causal else support / 2
    span = size - 1 if causal else (size - 1) / 2  # training samples, 2 or 1 in coordinates
    sigma = reach / span * (2 if causal else 1) / RADIUS_IN_SIGMA
    mask = GaussianMask(1, sigma=sigma, window=window)
    return SeparableFlexConv(
        CHANNELS, CHANNELS, size=(size,), kernel_size=size, mask=mask, causal=causal
    )


def times(count: int) -> Tensor:
    return (count * torch.rand(1, count, dtype=torch.float64)).sort().values


class Case:
    """One layer over some points, by any method."""

    def __init__(self, layer: SeparableFlexConv, positions: Tensor) -> None:
        self.layer = layer
        self.x = torch.randn(len(positions), CHANNELS, positions.shape[1], requires_grad=True)
        self.points = ccnn.Points(positions)

    def run(self, method: PointMethod, query: Tensor | None = None) -> Tensor:
        layer = self.layer
        # Laid anew each time, so that a single layer finds its neighbours itself.
        points = lay(self.points, self.x, layer.dim, causal=layer.causal)
        return convolve_scattered(
            self.x,
            points,
            query,
            OffsetKernel(layer.kernel, layer.mask, layer.kernel_size, causal=layer.causal),
            radius=read_radii([layer])[0],
            out_channels=None,
            causal=layer.causal,
            method=method,
        )

    @torch.no_grad()
    def forward(self, method: PointMethod) -> Tensor:
        return self.run(method)

    def step(self, method: PointMethod) -> None:
        self.run(method).square().sum().backward()

    @torch.no_grad()
    def error(self, method: PointMethod) -> float:
        chosen = torch.randint(0, self.x.shape[2], (200,))
        exact = self.run("exact", self.points.positions[:, chosen])
        return float((self.run(method)[..., chosen] - exact).norm() / exact.norm())


def compared(variants: dict[str, tuple[Case, PointMethod]], *, rounds: int) -> list[Row]:
    """Return one row per variant; all run in turn."""
    forward = interleaved(
        {name: lambda c=c, m=m: c.forward(m) for name, (c, m) in variants.items()}, rounds=rounds
    )
    step = interleaved(
        {name: lambda c=c, m=m: c.step(m) for name, (c, m) in variants.items()}, rounds=rounds
    )
    return [
        {
            "way": name,
            "samples": case.x.shape[2],
            "forward s": round(forward[name], 3),
            "forward and backward s": round(step[name], 3),
            "error": f"{case.error(method):.1e}",
        }
        for name, (case, method) in variants.items()
    ]


def long() -> list[Row]:
    case = Case(layer_of(500, window="smooth"), times(100_000))
    before = peak_megabytes()
    case.forward("nufft")
    peak = peak_megabytes() - before
    rows = compared({"smooth, series": (case, "nufft")}, rounds=3)
    rows[0]["forward peak MB"] = round(peak)
    return rows


def table() -> list[Row]:
    t = times(10_000)
    return compared(
        {
            "causal, table": (Case(layer_of(500, causal=True), t), "table"),
            "cut, table": (Case(layer_of(500), t), "table"),
            "smooth, table": (Case(layer_of(500, window="smooth"), t), "table"),
            "smooth, series": (Case(layer_of(500, window="smooth"), t), "nufft"),
        },
        rounds=2,
    )


def growth() -> list[Row]:
    counts = (10_000, 100_000, 1_000_000)
    rows: list[Row] = []
    for name, window, method in (
        ("cut, table", "cut", "table"),
        ("smooth, series", "smooth", "nufft"),
    ):
        layer = layer_of(50, window=window)
        Case(layer, times(1_000)).forward(method)  # to warm up
        seconds = []
        for count in counts:
            case = Case(layer, times(count))
            found = interleaved({"": lambda c=case, m=method: c.forward(m)}, rounds=1, warmup=0)
            seconds.append(found[""])
            rows.append({"way": name, "samples": count, "forward s": round(seconds[-1], 3)})
        rows[-1]["exponent"] = round(math.log(seconds[-1] / seconds[0]) / math.log(100), 2)
    return rows


def step_of(model: ccnn.CCNN, x: Tensor, points: ccnn.Points) -> Callable[[], None]:
    def step() -> None:
        model(x, points).square().sum().backward()

    return step


def network() -> list[Row]:
    t, x = times(10_000), torch.randn(1, 1, 10_000)
    sigma = 250 / 500 / RADIUS_IN_SIGMA
    models: dict[str, ccnn.CCNN] = {}
    for window in ("cut", "smooth"):
        models[window] = ccnn.CCNN(
            1,
            10,
            (10_000,),
            channels=CHANNELS,
            kernel_size=1001,
            mask_sigma=sigma,
            window=window,
        )
    seconds = interleaved(
        {name: step_of(model, x, ccnn.Points(t)) for name, model in models.items()}, rounds=1
    )
    return [
        {"way": f"4 blocks, {n}", "samples": 10_000, "forward and backward s": round(s, 2)}
        for n, s in seconds.items()
    ]


def clouds() -> list[Row]:
    direction = torch.randn(16, 1024, 3)
    sphere = 8 + 7 * direction / direction.norm(dim=-1, keepdim=True)
    x = torch.ones(16, 1, 1024)
    variants: dict[str, tuple[Case, PointMethod]] = {}
    steps: dict[str, Callable[[], None]] = {}
    model = ccnn.CCNN(1, 10, (16, 16, 16), channels=CHANNELS)
    layer = SeparableFlexConv(CHANNELS, CHANNELS, size=(16, 16, 16))
    for name, grain in {
        "anywhere, exact": 0.0,
        "of 1/8, lattice": 8.0,
        "of 1/4, lattice": 4.0,
    }.items():
        places = (sphere * grain).round() / grain if grain else sphere
        variants[name] = Case(layer, places), "lattice" if grain else "exact"
        steps[name] = step_of(model, x, ccnn.Points(places))
    rows = compared(variants, rounds=1)
    seconds = interleaved(steps, rounds=1, warmup=0)
    original, _ = variants["anywhere, exact"]
    y = original.forward("exact")
    for row, (case, method) in zip(rows, variants.values(), strict=True):
        row["4 blocks, forward and backward s"] = round(seconds[str(row["way"])], 2)
        case.x = original.x
        row["change by rounding"] = f"{float((case.forward(method) - y).norm() / y.norm()):.1e}"
    return rows


@torch.no_grad()
def windows() -> list[Row]:
    """How far a sum over few samples is from the integral, for either end of the window."""
    rows: list[Row] = []
    for window in ("cut", "smooth"):
        torch.manual_seed(0)
        layer = layer_of(60, window=window).double()
        coarse, fine = times_between(1_000), times_between(16_000)
        found, exact = (
            layer(signal(t), ccnn.Points(t), query=coarse[:, 300:700]) for t in (coarse, fine)
        )
        error = float((found - exact).norm() / exact.norm())
        rows.append({"way": window, "samples": 1_000, "error": f"{error:.1e}"})
    return rows


def times_between(count: int) -> Tensor:
    """Times that are denser and thinner in turn, the same at every count."""
    t = torch.linspace(0, 1000, count, dtype=torch.float64)
    return (t + 0.9 * torch.sin(t / 5))[None]


def signal(t: Tensor) -> Tensor:
    """Slow waves, one per channel."""
    frequency = torch.linspace(0.01, 0.3, CHANNELS, dtype=torch.float64)[:, None]
    return torch.sin(frequency * t[:, None] + frequency)


CASES = {f.__name__: f for f in (long, table, windows, clouds, network, growth)}


def in_a_process(case: str) -> list[Row]:
    command = [sys.executable, __file__, "--one", case]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    rows: list[Row] = json.loads(done.stdout)
    return rows


def other_rows(path: Path, case: str) -> list[Row]:
    """Return what a file already holds about other cases."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        rows = [{k: v for k, v in row.items() if v} for row in csv.DictReader(file)]
    return [dict(row) for row in rows if row["case"] != case]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--one", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=Path("docs/measured/points.csv"))
    args = parser.parse_args()
    torch.manual_seed(0)
    if args.one:
        print(json.dumps(CASES[args.one]()))
        return
    rows = other_rows(args.out, args.only) if args.only else []
    for case in [args.only] if args.only else CASES:
        for row in in_a_process(case):
            rows.append({"case": case, **row})
            print(*[f"{k}={v}" for k, v in rows[-1].items()], flush=True)
        write_csv(args.out, rows)


if __name__ == "__main__":
    main()
