"""What is each default of the estimators worth? Cross-validation on training parts only.

    python benchmarks/estimator_search.py [--data FOLDER] [--only OSULeaf,ACSF1] [--ways …]
                                          [--folds 2] [--minutes 30]
    python benchmarks/estimator_search.py --table

One default at a time is changed (`WAYS`). The score on the part of the training signals that was
left out, accuracy or R², is written to docs/measured/estimator_search.csv, and what has a row there
is not run again. Test signals are never looked at. Problems are those of `estimator.py`.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from estimator import append, read_results
from problems import Problem, load_problem
from sklearn.model_selection import KFold, StratifiedKFold

import ccnn.estimator.base
from ccnn import CCNNClassifier, CCNNRegressor
from ccnn.estimator.defaults import Facts, Settings, choose

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "measured" / "estimator_search.csv"
CLASSES = ("ArrowHead", "GunPoint", "ItalyPowerDemand", "OSULeaf", "ACSF1", "MNIST-1D")
PROBLEMS = (*CLASSES, "Covid3Month", "CardanoSentiment", "Tecator")

# What is changed, by name.
WAYS: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "no mixup": {"mixup": 0.0},
    "mixup for all": {"mixup": 0.4},
    "dropout 0.3": {"dropout": 0.3},
    "mixup for all, dropout 0.3": {"mixup": 0.4, "dropout": 0.3},
    "no warped clock": {"augment": None},
    "a warped clock for all": {"augment": "warp"},
    "wide windows": {"mask_sigma": 0.075},
    "ω₀ 30": {"omega_0": 30.0},
    "ω₀ auto": {"omega_0": "auto"},
    "64 channels": {"channels": 64},
    "600 steps": {"steps": 600},
}


def cross_validate(problem: Problem, way: str, fold: int, folds: int) -> dict[str, Any]:
    """Train on all folds but one with one default changed, and judge on that one."""
    classes = problem.kind == "class"
    parts = (StratifiedKFold if classes else KFold)(folds, shuffle=True, random_state=0)
    train, left_out = list(parts.split(np.zeros(len(problem.y)), problem.y))[fold]
    changes = WAYS[way]

    def changed(facts: Facts) -> Settings:
        return replace(choose(facts), **changes)

    ccnn.estimator.base.choose = changed  # what no parameter of the estimators says
    begin = time.process_time()
    estimator = (CCNNClassifier if classes else CCNNRegressor)(random_state=fold)
    estimator.fit(problem.x[train], problem.y[train])
    return {
        "problem": problem.name,
        "way": way,
        "fold": fold,
        "score": f"{estimator.score(problem.x[left_out], problem.y[left_out]):.4f}",
        "cpu_seconds": f"{time.process_time() - begin:.0f}",
        "train": len(train),
        "left_out": len(left_out),
    }


def table(rows: list[dict[str, str]]) -> Iterator[str]:
    """Yield a Markdown table: ways down, problems across, the mean score over folds."""
    names = [p for p in PROBLEMS if any(r["problem"] == p for r in rows)]
    yield "| " + " | ".join(["", *names]) + " |"
    yield "|---" + "|---:" * len(names) + "|"
    for way in WAYS:
        cells = [[r for r in rows if r["problem"] == p and r["way"] == way] for p in names]
        if any(cells):
            yield "| " + " | ".join([way, *(_cell(found) for found in cells)]) + " |"


def _cell(rows: list[dict[str, str]]) -> str:
    if not rows:
        return ""
    folds = "" if len(rows) > 1 else " (one fold)"
    return f"{np.mean([float(r['score']) for r in rows]):.3f}{folds}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="a folder of .npz files")
    parser.add_argument("--only", default=",".join(PROBLEMS), help="names, with commas")
    parser.add_argument("--ways", default=";".join(WAYS), help="names, with semicolons")
    parser.add_argument("--folds", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if args.table:
        print("\n".join(table(read_results(RESULTS))))
        return
    end = time.monotonic() + 60 * args.minutes
    for way in args.ways.split(";"):
        for name in args.only.split(","):
            problem = load_problem(name, args.data)
            for fold in range(args.folds):
                known = {(r["problem"], r["way"], r["fold"]) for r in read_results(RESULTS)}
                if (name, way, str(fold)) not in known and time.monotonic() < end:
                    append(RESULTS, cross_validate(problem, way, fold, args.folds))
                    print(read_results(RESULTS)[-1], flush=True)


if __name__ == "__main__":
    main()
