"""Which default keeps its accuracy when the sampling rate changes?

    python benchmarks/resolution.py --data FOLDER [--problems mnist28 …] [--ways "band 1" …]
                                    [--seeds 0 1 2] [--part val | test] [--minutes 12]
    python benchmarks/resolution.py --plot     # the figure of docs/resolution.md
    python benchmarks/resolution.py --table    # its tables

Small networks learn real signals at one sampling rate and are tested at that one and at others,
told the spacing, not told, and with low-passed kernels. ``--part val`` is for choosing among the
ways, ``--part test`` for reporting. Every accuracy is written to docs/measured/resolution.csv at
once, and what stands there is not measured again; trained weights are kept in
benchmarks/results/resolution.
"""

import argparse
import bisect
import csv
import functools
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from baselines import PlainCNN
from resolution_problems import PROBLEMS, Problem, Rate
from resolution_report import LOWPASS, NOTHING, RESIZED, SPACING, draw, tables
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

import ccnn
from ccnn.fitting import fit
from ccnn.tasks.task import Samples, Splits
from ccnn.training.evaluation import score
from ccnn.training.losses import LOSSES
from ccnn.training.settings import Batching, Machine, Optim

REPO = Path(__file__).resolve().parent.parent
MEASURED = REPO / "docs" / "measured" / "resolution.csv"
FIGURE = REPO / "docs" / "figures" / "resolution.png"
WEIGHTS = REPO / "benchmarks" / "results" / "resolution"


@dataclass(frozen=True, kw_only=True)
class Way:
    """A default that may keep accuracy across rates.

    ``band=None`` is the paper's ω₀; ``wider`` multiplies the initial window; ``mask_lr_ratio`` the
    learning rate of the windows; ``lowpass`` is for training at several spacings, since at one of 1
    it changes nothing.
    """

    band: float | None = 1.0
    aliasing: float = 0.0
    window: str = "cut"
    wider: float = 1.0
    mask_lr_ratio: float = 1.0
    spacings: tuple[float, ...] = ()
    lowpass: bool = False
    plain: bool = False


WAYS = {
    "band 1": Way(),
    "band 0.5": Way(band=0.5),
    "band 0.25": Way(band=0.25),
    "aliasing 0.1": Way(aliasing=0.1),
    "smooth window": Way(window="smooth"),
    "wide window": Way(wider=2.0),
    "slow window": Way(mask_lr_ratio=0.1),
    "wide, slow window": Way(wider=2.0, mask_lr_ratio=0.1),
    "wide window, aliasing 0.1": Way(wider=2.0, aliasing=0.1),
    "spacings 1, 2": Way(spacings=(1.0, 2.0)),
    "spacings 1, 2, low-pass": Way(spacings=(1.0, 2.0), lowpass=True),
    "paper's ω₀": Way(band=None),
    "plain CNN": Way(plain=True),
}


@dataclass(frozen=True)
class Test:
    """One accuracy: signals at a rate, and how the network hears of it."""

    rate: Rate
    told: str


def tests_of(problem: Problem, way: Way) -> list[Test]:
    """Return what is measured of one trained network; the rate of training comes first."""
    tests = [Test(problem.trained, NOTHING)]
    for rate in problem.others:
        ways_to_tell = [NOTHING, RESIZED] if way.plain else [NOTHING, SPACING, LOWPASS]
        coarser = rate.spacing > 1
        tests += [
            Test(rate, told) for told in ways_to_tell if coarser or told in (NOTHING, SPACING)
        ]
    return tests


# Networks


def build(problem: Problem, way: Way, *, lowpass: bool = False) -> nn.Module:
    """Return a fresh network; the caller has seeded torch."""
    ours = _ccnn(problem, way, lowpass=lowpass)
    return _plain(problem, count(ours)) if way.plain else ours


def _ccnn(problem: Problem, way: Way, *, lowpass: bool) -> ccnn.CCNN:
    settings = {"dropout": 0.1, "window": way.window, "lowpass": lowpass} | dict(problem.network)
    if way.wider != 1:
        fresh = ccnn.CCNN(1, 1, problem.size, blocks=1, channels=1)
        settings["mask_sigma"] = [way.wider * s for s in fresh.stem.mask.sigma.tolist()]
    return ccnn.CCNN(
        problem.in_channels,
        problem.classes,
        problem.size,
        omega_0=problem.omega_0 if way.band is None else "auto",
        band=way.band or 1.0,
        **settings,
    )


def _plain(problem: Problem, parameters: int) -> nn.Module:
    """Return the narrowest plain CNN that has as many parameters."""

    def network(channels: int) -> nn.Module:
        return PlainCNN(
            problem.in_channels,
            problem.classes,
            len(problem.size),
            channels,
            problem.network["blocks"],
            dropout=0.1,
            **problem.plain,
        )

    widths = range(2, 256)
    place = bisect.bisect_left(widths, parameters, key=lambda width: count(network(width)))
    return network(widths[place])


def count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


# Training and testing


def train(model: nn.Module, problem: Problem, way: Way, samples: Samples, seed: int) -> float:
    """Train a network and return the seconds it took."""
    result = fit(
        model,
        Splits(samples, None, None),  # no validation: the last weights count, the schedule ends
        optim=Optim(
            lr=problem.lr,
            epochs=problem.epochs,
            warmup_epochs=problem.epochs / 10,
            aliasing=way.aliasing,
            mask_lr_ratio=way.mask_lr_ratio,
        ),
        batching=Batching(batch_size=problem.batch_size, spacings=way.spacings),
        machine=Machine(progress="none", accelerator="cpu"),
        seed=seed,
        augment=problem.augment,
    )
    return result.seconds


def accuracy(model: nn.Module, problem: Problem, test: Test, samples: Samples) -> float:
    """Return the share of signals that are classified rightly, in per cent."""
    samples = test.rate.thin(samples)
    spacing = test.rate.spacing if test.told in (SPACING, LOWPASS) else 1.0
    if test.told == RESIZED:
        mode = {1: "linear", 2: "bilinear"}[len(problem.size)]
        x = F.interpolate(samples.x, problem.size, mode=mode)
        lengths = samples.lengths
        samples = replace(
            samples, x=x, lengths=None if lengths is None else lengths * int(test.rate.spacing)
        )
    model.eval()
    with ccnn.cached(model):
        scores = score(
            model,
            samples,
            LOSSES["cross_entropy"],
            batch_size=problem.batch_size,
            device=torch.device("cpu"),
            spacing=spacing,
        )
    return 100 * scores.score


@dataclass(frozen=True)
class Run:
    """One network to train and to test."""

    problem: str
    way: str
    seed: int
    part: str

    def key(self, test: Test) -> tuple[str, ...]:
        return (self.problem, self.way, str(self.seed), self.part, test.rate.name, test.told)

    @property
    def weights(self) -> Path:
        name = f"{self.problem}-{self.way}-{self.seed}".replace(" ", "_")
        return WEIGHTS / f"{name}.safetensors"


COLUMNS = (
    "problem", "way", "seed", "part", "tested at", "told", "accuracy",
    "trained at", "seconds", "parameters", "epochs",
)  # fmt: skip


def read_rows() -> list[dict[str, str]]:
    if not MEASURED.is_file():
        return []
    with MEASURED.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def key_of(row: dict[str, str]) -> tuple[str, ...]:
    return tuple(row[column] for column in COLUMNS[:6])


def append(row: Sequence[object]) -> None:
    fresh = not MEASURED.is_file()
    with MEASURED.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        if fresh:
            writer.writerow(COLUMNS)
        writer.writerow(row)


def measure(run: Run, data: Splits) -> None:
    """Train unless the weights are there, and write every accuracy that is not there."""
    problem, way = PROBLEMS[run.problem], WAYS[run.way]
    done = {key_of(row) for row in read_rows()}
    missing = [t for t in tests_of(problem, way) if run.key(t) not in done]
    if not missing:
        return
    if not run.weights.is_file():
        torch.manual_seed(run.seed)
        model = build(problem, way, lowpass=way.lowpass)
        seconds = train(model, problem, way, problem.trained.thin(data.train), run.seed)
        WEIGHTS.mkdir(parents=True, exist_ok=True)
        save_file(model.state_dict(), run.weights, metadata={"seconds": f"{seconds:.0f}"})
    with safe_open(run.weights, framework="pt") as file:
        seconds = file.metadata()["seconds"]
    samples = data.val if run.part == "val" else data.test
    for test in missing:
        model = build(problem, way, lowpass=test.told == LOWPASS)
        model.load_state_dict(load_file(run.weights))
        value = accuracy(model, problem, test, samples)
        trained = (problem.trained.name, seconds, count(model), problem.epochs)
        append((*run.key(test), f"{value:.2f}", *trained))
        print(*run.key(test), f"{value:.2f}", f"({seconds} s)", flush=True)


def load(name: str, root: Path) -> Splits:
    return PROBLEMS[name].read(root)


def measure_all(runs: Sequence[Run], root: Path, minutes: float) -> None:
    """Measure one run after the other; none is begun after so many minutes."""
    begin, data = time.monotonic(), functools.cache(load)
    for run in runs:
        if time.monotonic() - begin > 60 * minutes:
            print("time is over; the same command goes on", flush=True)
            return
        measure(run, data(run.problem, root))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="the folder of the data sets")
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--part", choices=("val", "test"), default="test")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no run later than that")
    parser.add_argument("--plot", action="store_true", help="draw what is measured")
    parser.add_argument("--table", action="store_true", help="print what is measured")
    args = parser.parse_args()
    if args.plot:
        draw(read_rows(), FIGURE)
    elif args.table:
        print(tables(read_rows()))
    elif args.data is None:
        parser.error("--data is missing: the folder that holds the data sets")
    else:
        order = itertools.product(args.problems, args.seeds, args.ways)
        runs = [Run(problem, way, seed, args.part) for problem, seed, way in order]
        measure_all(runs, args.data, args.minutes)


if __name__ == "__main__":
    main()
