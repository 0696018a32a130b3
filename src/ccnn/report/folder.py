"""Read a run folder, whatever of it is there; what is missing or damaged is said, not raised."""

import csv
import json
import math
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml  # type: ignore[import-untyped]  # its stubs are a package of their own
from numpy.typing import NDArray
from torch import nn

from ccnn.saving import load

FILES = ("config.yaml", "command.txt", "metrics.csv", "result.json", "predictions.npz", "model")


@dataclass(frozen=True)
class Metrics:
    """The rows of metrics.csv: the epochs, and for each column one number per epoch."""

    epochs: list[int]
    columns: dict[str, list[float]]
    sizes: NDArray[np.float64] | None  # (epochs, layers, D)
    sigmas: NDArray[np.float64] | None

    def has(self, name: str) -> bool:
        """Tell whether a column holds at least one number."""
        return any(math.isfinite(value) for value in self.columns.get(name, ()))


@dataclass
class Run:
    """What a run folder holds; None where it is missing, `notes` saying so."""

    folder: Path
    config_text: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    command: str | None = None
    metrics: Metrics | None = None
    result: Mapping[str, Any] = field(default_factory=dict)
    logits: NDArray[Any] | None = None
    targets: NDArray[Any] | None = None
    model: nn.Module | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def task(self) -> str:
        """The name of the task, or of the folder where nobody says."""
        return self._name("task") or self.folder.resolve().name

    @property
    def model_name(self) -> str:
        """The name of the model."""
        return self._name("model") or "unnamed model"

    def _name(self, group: str) -> str:
        value = self.result.get(group) or self.config.get(group)
        if isinstance(value, Mapping):
            value = value.get("name")
        return str(value) if value else ""

    def score(self, split: str, name: str) -> float | None:
        """Return ``result[split][name]`` if it is a number."""
        values = self.result.get(split)
        return number(values.get(name)) if isinstance(values, Mapping) else None

    @property
    def accuracy(self) -> float | None:
        """The accuracy on the test set, in percent."""
        value = self.score("test", "accuracy")
        return None if value is None else 100 * value


def read(folder: str | os.PathLike[str]) -> Run:
    """Read a run folder; a folder that is none is refused."""
    path = Path(folder)
    if not path.is_dir():
        what = "is a file" if path.exists() else "does not exist"
        raise FileNotFoundError(f"{path} {what}: give the folder of a run, as `ccnn train` made it")
    if not any((path / name).exists() for name in FILES):
        raise ValueError(
            f"{path} is no run: it holds none of {', '.join(FILES)}; "
            "give the folder that `ccnn train` made"
        )
    run = Run(path)
    _read_config(run)
    run.command = _text(run, "command.txt", "the command to repeat the run")
    _read_result(run)
    _read_metrics(run)
    _read_predictions(run)
    _read_model(run)
    return run


def number(value: object) -> float | None:
    """Return a finite number as float, and None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _text(run: Run, name: str, what: str) -> str | None:
    try:
        text = (run.folder / name).read_text(encoding="utf-8", errors="replace").strip()
    except OSError as error:
        reason = (
            "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read: {error}"
        )
        run.notes.append(f"{name} {reason}: {what} is not shown.")
        return None
    if not text:
        run.notes.append(f"{name} is empty: {what} is not shown.")
    return text or None


def _read_config(run: Run) -> None:
    run.config_text = _text(run, "config.yaml", "the configuration")
    try:
        config = yaml.safe_load(run.config_text or "")
    except yaml.YAMLError:
        run.notes.append("config.yaml is damaged: it is shown as it is, but not understood.")
        return
    run.config = config if isinstance(config, dict) else {}


def _read_result(run: Run) -> None:
    text = _text(run, "result.json", "the result (the run may not be finished)")
    if text is None:
        return
    try:
        result = json.loads(text)
    except ValueError:
        result = None
    if isinstance(result, dict):
        run.result = result
    else:
        run.notes.append("result.json is damaged: the result is not shown.")


def _read_metrics(run: Run) -> None:
    text = _text(run, "metrics.csv", "the course of the training")
    if text is None:
        return
    header, *rows = [*csv.reader(text.replace("\0", "").splitlines())] or [[]]
    whole = [row for row in rows if len(row) == len(header) and _parse(row[0]) is not None]
    if len(whole) < len(rows):
        run.notes.append(
            f"metrics.csv has {len(rows) - len(whole)} incomplete line(s), left out here "
            "(the run may have been interrupted, or be writing now)."
        )
    if "epoch" not in header or not whole:
        run.notes.append("metrics.csv holds no epoch yet: the training is not shown.")
        return
    run.metrics = _metrics(header, whole)


def _metrics(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Metrics:
    at = list(header).index("epoch")
    # After a resumed run an epoch may stand there twice: the later one counts.
    by_epoch = {int(_parse(row[at]) or 0): row for row in rows}
    epochs = sorted(by_epoch)
    cells = {name: [by_epoch[e][i] for e in epochs] for i, name in enumerate(header)}
    plain = {
        name: [math.nan if (v := _parse(cell)) is None else v for cell in column]
        for name, column in cells.items()
        if not name.startswith(("kernel_size_", "sigma_"))
    }
    return Metrics(epochs, plain, _layers(cells, "kernel_size_"), _layers(cells, "sigma_"))


def _parse(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _layers(cells: Mapping[str, Sequence[str]], prefix: str) -> NDArray[np.float64] | None:
    """Turn columns of `5x5` into (epochs, layers, D), NaN where a cell says nothing."""
    columns: list[list[list[float]]] = []
    while f"{prefix}{len(columns)}" in cells:
        columns.append([_axes(cell) for cell in cells[f"{prefix}{len(columns)}"]])
    dim = max((len(axes) for column in columns for axes in column), default=0)
    if not dim:
        return None
    values = np.full((len(columns[0]), len(columns), dim), np.nan)
    for layer, column in enumerate(columns):
        for epoch, axes in enumerate(column):
            values[epoch, layer, : len(axes)] = axes
    return values


def _axes(cell: str) -> list[float]:
    values = [_parse(part) for part in cell.split("x")]
    return [value for value in values if value is not None]


def _read_predictions(run: Run) -> None:
    path = run.folder / "predictions.npz"
    missing = "predictions.npz is missing (the run may not be finished)"
    try:
        # Opened here, because np.load leaves a damaged file open.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            logits, targets = arrays["logits"], arrays["targets"]
        if len(logits) != len(targets) or not len(targets) or logits.ndim < 1:
            raise ValueError(f"{logits.shape} logits, {targets.shape} targets")
    except FileNotFoundError:
        run.notes.append(f"{missing}: the test set is not shown.")
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as error:
        run.notes.append(f"predictions.npz is damaged ({error}): the test set is not shown.")
    else:
        run.logits, run.targets = logits, targets


def _read_model(run: Run) -> None:
    try:
        run.model = load(run.folder / "model")
    except FileNotFoundError:
        run.notes.append("model/ is missing: its kernels and parameters are not shown.")
    except (OSError, ValueError) as error:
        run.notes.append(f"model/ cannot be loaded ({error}): its kernels are not shown.")
