"""How much accuracy do missing and irregular samples cost, on real data?

    python benchmarks/irregular.py [--data FOLDER] [--only chartrajectories] [--ways points,gru]
                                   [--folds 0,1,2,3,4] [--minutes 12] [--plot]

CharacterTrajectories: 0, 30, 50 and 70 % of the samples of each series dropped at random, the same
for every way; one network per fold and way, trained with up to 70 % dropped. PhysioNet 2012:
the area under the ROC curve (AUC) of death in hospital, from measurements at times of their own.

Ways: ``points`` (`ccnn.Points` at the samples that are there), ``density`` and ``mask`` (a grid
with holes, the sum corrected by the density or not), ``observed`` (zeros, and one more channel that
says what is there), ``gru``. Each result is appended to docs/measured/irregular.csv, and what
stands there is not measured again.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from irregular_data import (
    DROPS,
    FOLDS,
    characters,
    folds,
    kept,
    on_grid,
    patient_channels,
    patients,
    seen_characters,
    seen_patients,
    standardised,
)
from irregular_report import Row, append_rows, plot, read_rows, table
from irregular_ways import LETTERS, PATIENTS, Way
from torch import Tensor, nn

from ccnn.allocator import keep_freed_memory
from ccnn.fitting import fit
from ccnn.tasks.task import Samples
from ccnn.training.evaluation import outputs_of_samples
from ccnn.training.results import Result
from ccnn.training.settings import Machine

DOCS = Path(__file__).resolve().parent.parent / "docs"
RESULTS = DOCS / "measured" / "irregular.csv"
FIGURE = DOCS / "figures" / "irregular.png"


@dataclass(frozen=True)
class Problem:
    """A data set, how a fold of it is prepared for a way, and how outputs are judged."""

    load: Callable[[Path], Samples]
    prepare: Callable[[Samples, Tensor, Way], Samples]
    ways: Mapping[str, Way]
    drops: tuple[float, ...]
    score: str
    judge: Callable[[Tensor, Tensor], float]


@dataclass(frozen=True)
class Fold:
    """What `fit` learns from: nothing chooses among epochs, and tests are made afterwards."""

    train: Samples
    val: None = None
    test: None = None


def prepare_letters(samples: Samples, train: Tensor, way: Way) -> Samples:
    return standardised(samples, seen_characters(samples), train, range(samples.x.shape[1]))


def prepare_patients(samples: Samples, train: Tensor, way: Way) -> Samples:
    scaled = standardised(samples, seen_patients(samples), train, patient_channels())
    return scaled if way.batching.missing == "points" else on_grid(scaled)


def accuracy(outputs: Tensor, y: Tensor) -> float:
    return 100 * float((outputs.argmax(dim=1) == y).double().mean())


def auc(outputs: Tensor, y: Tensor) -> float:
    """Return how often the one that died has the higher score, over all pairs of unlike ends."""
    score = (outputs[:, 1] - outputs[:, 0]).double()
    apart = score[y == 1][:, None] - score[y == 0]
    return float(((apart > 0).double() + 0.5 * (apart == 0).double()).mean())


PROBLEMS = {
    "chartrajectories": Problem(
        characters, prepare_letters, LETTERS, DROPS, "accuracy %", accuracy
    ),
    "physionet2012": Problem(patients, prepare_patients, PATIENTS, (0.0,), "AUC", auc),
}


def train_network(way: Way, train: Samples, seed: int) -> tuple[nn.Module, Result]:
    torch.manual_seed(seed)
    model = way.network()
    machine = Machine(progress="none")
    return model, fit(
        model, Fold(train), optim=way.optim, batching=way.batching, machine=machine, seed=seed
    )


def without(samples: Samples, share: float) -> Samples:
    """Return samples of which a share is dropped, the same for all who ask."""
    if samples.mask is not None or samples.positions is not None:
        return samples  # what they lack they have always lacked
    return replace(samples, mask=kept(samples.lengths, samples.x.shape[-1], share))


def measure(problem: Problem, way: Way, samples: Samples, fold: int, seed: int) -> Iterator[Row]:
    """Train on all folds but one, and yield a row for each test on that one."""
    train, test = folds(samples.y)[fold]
    ready = problem.prepare(samples, train, way)
    model, result = train_network(way, ready.take(train), seed)
    about = {
        "fold": str(fold),
        "seconds": f"{result.seconds:.0f}",
        "parameters": str(result.parameters),
        "epochs": str(result.epochs),
        "seed": str(seed),
    }
    for drop in problem.drops:
        # Dropped before the test part is taken, so that folds do not change what is dropped.
        part = without(ready, drop).take(test)
        found: dict[str, Tensor] = {}
        for name, missing in way.tested.items():
            found[name] = outputs_of_samples(model, part, batch_size=32, missing=missing)
            value = problem.judge(found[name], part.y)
            yield about | {
                "way": name,
                "drop": f"{drop:g}",
                "score": problem.score,
                "value": f"{value:.4f}",
            }
        if len(found) == 2:
            one, two = found.values()
            apart = float((one - two).abs().max())
            yield about | {
                "way": " and ".join(found),
                "drop": f"{drop:g}",
                "score": "largest difference of an output",
                "value": f"{apart:.2e}",
            }


def is_done(rows: list[Row], data: str, way: Way, fold: int, seed: int) -> bool:
    """Tell whether every name under which a way is tested has its rows."""
    problem = PROBLEMS[data]
    there = {(r["way"], float(r["drop"])) for r in rows if _same(r, data, fold, seed)}
    return all((name, drop) in there for name in way.tested for drop in problem.drops)


def _same(row: Row, data: str, fold: int, seed: int) -> bool:
    return (row["data"], row["fold"], row["seed"]) == (data, str(fold), str(seed))


def todo(args: argparse.Namespace, data: str) -> Iterator[tuple[str, int, int]]:
    """Yield way, fold and seed of what was asked for and is not measured yet."""
    ways = PROBLEMS[data].ways
    for seed, fold in ((s, f) for s in args.seeds for f in args.folds):
        for name in args.ways.split(",") if args.ways else ways:
            if name not in ways:
                raise SystemExit(f"{data} has no way {name!r}; choose from {', '.join(ways)}")
            beside = ways[name].folds is not None and fold >= ways[name].folds
            if not beside and not is_done(read_rows(args.out), data, ways[name], fold, seed):
                yield name, fold, seed


def run(args: argparse.Namespace) -> None:
    """Measure what is missing, one training after the other."""
    end = math.inf if args.minutes is None else time.monotonic() + 60 * args.minutes
    for data in [args.only] if args.only else PROBLEMS:
        problem = PROBLEMS[data]
        samples = problem.load(args.data)
        for name, fold, seed in todo(args, data):
            if time.monotonic() > end:
                return
            found = measure(problem, problem.ways[name], samples, fold, seed)
            rows = [{"data": data} | row for row in found]
            append_rows(args.out, rows)
            print(f"{data}, {name}, fold {fold}:", *(r["value"] for r in rows), flush=True)


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def fold_numbers(text: str) -> list[int]:
    found = numbers(text)
    if not set(found) <= set(range(FOLDS)):
        raise argparse.ArgumentTypeError(f"{text}: folds count from 0 to {FOLDS - 1}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the data")
    parser.add_argument("--only", choices=PROBLEMS, help="one of the data sets")
    parser.add_argument("--ways", help="names, separated by commas")
    parser.add_argument("--folds", type=fold_numbers, default=list(range(FOLDS)))
    parser.add_argument("--seeds", type=numbers, default=[0])
    parser.add_argument("--minutes", type=float, help="begin no training after so many")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--plot", action="store_true", help="only draw what was measured")
    args = parser.parse_args()
    if args.plot:
        plot(read_rows(args.out), FIGURE)
    else:
        keep_freed_memory()
        run(args)
    for data, problem in PROBLEMS.items():
        print(*table(read_rows(args.out), data, problem.score), sep="\n")


if __name__ == "__main__":
    main()
