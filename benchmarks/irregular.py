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
import csv
import statistics
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
KEY = ("data", "way", "fold", "drop", "score", "seed")
COLUMNS = (*KEY[:5], "value", "seconds", "parameters", "epochs", "seed")
Row = dict[str, str]


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


def read_rows(path: Path) -> list[Row]:
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def append_rows(path: Path, rows: list[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.is_file()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if new:
            writer.writeheader()
        writer.writerows(rows)


def is_done(rows: list[Row], data: str, way: Way, fold: int, seed: int) -> bool:
    """Tell whether every name under which a way is tested has its rows."""
    problem = PROBLEMS[data]
    there = {(r["way"], float(r["drop"])) for r in rows if _same(r, data, fold, seed)}
    return all((name, drop) in there for name in way.tested for drop in problem.drops)


def _same(row: Row, data: str, fold: int, seed: int) -> bool:
    return (row["data"], row["fold"], row["seed"]) == (data, str(fold), str(seed))


def table(rows: list[Row]) -> Iterator[str]:
    """Yield lines: for each data set and way the mean over folds, and the deviation."""
    groups: dict[tuple[str, str, str, str], list[float]] = {}
    for r in rows:
        groups.setdefault((r["data"], r["way"], r["score"], r["drop"]), []).append(
            float(r["value"])
        )
    for (data, way, score, drop), values in groups.items():
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        value = f"{statistics.mean(values):.4g} ± {spread:.2g} ({len(values)})"
        yield f"{data:17} {way:26} drop {drop:4} {score:11} {value}"


def plot(rows: list[Row], path: Path) -> None:
    """Draw accuracy over the share that was dropped, a line for each way."""
    from ccnn import plots
    from ccnn.plots.colours import SERIES

    (ax,) = plots.panels(width=6, height=3.8)
    mine = [r for r in rows if r["score"] == "accuracy %"]
    for i, way in enumerate(dict.fromkeys(r["way"] for r in mine)):
        drops = sorted({float(r["drop"]) for r in mine if r["way"] == way})
        values = [
            [float(r["value"]) for r in mine if r["way"] == way and float(r["drop"]) == d]
            for d in drops
        ]
        colour, style = SERIES[i % len(SERIES)], "--" if "," in way else "-"
        means = [statistics.mean(v) for v in values]
        ax.plot([100 * d for d in drops], means, f"o{style}", color=colour, label=way)
    ax.set_xlabel("samples dropped (%)")
    ax.set_ylabel("accuracy (%)")
    ax.set_title("CharacterTrajectories")
    ax.legend(frameon=False)
    plots.save_figure(ax, path, dpi=90)


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the data")
    parser.add_argument("--only", choices=PROBLEMS, help="one of the data sets")
    parser.add_argument("--ways", help="names, separated by commas")
    parser.add_argument("--folds", type=numbers, default=list(range(FOLDS)))
    parser.add_argument("--seeds", type=numbers, default=[0])
    parser.add_argument("--minutes", type=float, help="begin no training after so many")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--plot", action="store_true", help="only draw what was measured")
    args = parser.parse_args()
    if args.plot:
        plot(read_rows(args.out), FIGURE)
        return
    keep_freed_memory()
    begin = time.monotonic()
    for data in [args.only] if args.only else PROBLEMS:
        problem = PROBLEMS[data]
        wanted = args.ways.split(",") if args.ways else list(problem.ways)
        if unknown := set(wanted) - set(problem.ways):
            parser.error(f"no way {sorted(unknown)}; choose from {', '.join(problem.ways)}")
        samples = problem.load(args.data)
        for seed, fold, name in ((s, f, n) for s in args.seeds for f in args.folds for n in wanted):
            way = problem.ways[name]
            if way.folds is not None and fold >= way.folds:
                continue
            if is_done(read_rows(args.out), data, way, fold, seed):
                continue
            if args.minutes is not None and time.monotonic() - begin > 60 * args.minutes:
                break
            rows = [{"data": data} | r for r in measure(problem, way, samples, fold, seed)]
            append_rows(args.out, rows)
            print(f"{data}, {name}, fold {fold}:", *(r["value"] for r in rows), flush=True)
    for line in table(read_rows(args.out)):
        print(line)


if __name__ == "__main__":
    main()
