"""From a user's arrays to a task: checked, split, standardised, its facts read off them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from ccnn.tasks.scaling import Scaling
from ccnn.tasks.splitting import stratified
from ccnn.tasks.task import DataDamaged, Kind, Samples, Splits, Task

HELD_OUT = 0.15  # the share of the samples for validation, and for the test
NOT_COUNTED = -100  # the class of a position that is not learned


@dataclass(frozen=True)
class Arrays:
    """One part of a user's data; ``end`` is what its arrays' names end in, for messages.

    Shapes
    ------
    x : (n, C, *S), or (n, S) where there is one channel
    y : (n,), (n, K), (n, *S) or (n, K, *S)
    lengths : (n,) or (n, D), or None
    """

    x: np.ndarray
    y: np.ndarray
    lengths: np.ndarray | None
    end: str

    def inside(self) -> np.ndarray:
        """Return where samples exist, (n, *S)."""
        n, _, *size = self.x.shape
        mask = np.ones((n, *size), dtype=bool)
        if self.lengths is not None:
            for axis, length in enumerate(self.lengths.reshape(n, -1).T):
                shape = [n] + [1] * len(size)
                shape[1 + axis] = size[axis]
                mask &= (np.arange(size[axis]) < length[:, None]).reshape(shape)
        return mask


def make_task(
    name: str,
    root: Path,
    parts: Mapping[str, Arrays],
    scaling: Scaling | None = None,
    rate: int | None = None,
) -> Task:
    """Return the task of a user's arrays, with its samples in memory.

    Parameters
    ----------
    name
        What the task is called.
    root
        Where the arrays come from, for messages.
    parts
        ``train``, and ``val`` and ``test`` if the user has them; else 15 % of the training samples
        each are split off, of every class its share, and always the same ones.
    scaling
        How to prepare the signals; None is by what remains for training.
    rate
        Samples per second, where the signals are sound.
    """
    checked = {part: _clean(root, _check(root, arrays)) for part, arrays in parts.items()}
    kind = kind_of(root, checked["train"])
    for arrays in checked.values():
        _check_alike(root, checked["train"], arrays, kind)
    if scaling is not None and bool(scaling.labels) != (not kind.endswith("value")):
        raise DataDamaged(f"{root}: the run's targets are {'not ' * (not scaling.labels)}classes")
    labels: tuple[str, ...] = ()
    if not kind.endswith("value"):
        labels = scaling.labels if scaling else _labels(root, checked["train"], kind)
    ready = {p: replace(a, y=_targets(root, a, kind, labels)) for p, a in checked.items()}
    ready = _split(root, ready)
    if scaling is None:
        scaling = replace(measure(ready["train"], kind), labels=labels, rate=rate)
    samples = [_samples(ready[part], kind, scaling) for part in ("train", "val", "test")]
    splits = Splits(*samples)
    _, channels, *size = ready["train"].x.shape
    return Task(
        name=name,
        title=f"your own data, {root.name}",
        size=tuple(size),
        in_channels=channels,
        classes=len(labels) or len(scaling.target_mean),
        counts=(len(splits.train), len(splits.val), len(splits.test)),
        source=str(root),
        kind=kind,
        find=lambda root: True,
        read=lambda root: splits,
        scaling=scaling,
    )


# What is refused


def _check(root: Path, arrays: Arrays) -> Arrays:
    """Return the arrays with a channel axis, or say what is wrong with them."""
    x, y, end = arrays.x, arrays.y, arrays.end
    if x.dtype.kind not in "biuf":
        raise DataDamaged(f"{root}: X{end} holds {x.dtype}, expected real numbers")
    if x.ndim < 2 or 0 in x.shape:
        raise DataDamaged(
            f"{root}: X{end} has shape {x.shape}; expected (n, channels, *size), or (n, length)"
        )
    if x.ndim == 2:
        x = x[:, None]
    if y.dtype.kind == "S":
        y = np.char.decode(y, "utf-8", "replace")
    if y.ndim < 1 or len(y) != len(x):
        raise DataDamaged(
            f"{root}: X{end} has {len(x)} signals and y{end} has shape {y.shape}; expected a "
            "target for each signal"
        )
    lengths = arrays.lengths
    if lengths is not None:
        lengths = _check_lengths(f"{root}: lengths{end}", lengths, x)
    return Arrays(x, y, lengths, end)


def _check_lengths(name: str, lengths: np.ndarray, x: np.ndarray) -> np.ndarray:
    n, _, *size = x.shape
    if lengths.dtype.kind not in "iu" or lengths.shape not in ([(n,)] * (len(size) == 1)) + [
        (n, len(size))
    ]:
        wanted = f"({n},)" if len(size) == 1 else f"({n}, {len(size)})"
        raise DataDamaged(
            f"{name} holds {lengths.dtype} of shape {lengths.shape}; expected integers {wanted}"
        )
    if lengths.min() < 1 or (lengths.reshape(n, -1) > np.array(size)).any():
        raise DataDamaged(f"{name} goes from {lengths.min()} to {lengths.max()}; X has size {size}")
    return lengths


def _clean(root: Path, arrays: Arrays) -> Arrays:
    """Return signals in float32 that are zero where there is no sample, all others finite."""
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused
        x = arrays.x.astype(np.float32)
    if arrays.lengths is not None:
        x = np.where(arrays.inside()[:, None], x, np.float32(0))
    if not np.isfinite(x).all():
        sample = int(np.flatnonzero(~np.isfinite(x).reshape(len(x), -1).all(axis=1))[0])
        raise DataDamaged(
            f"{root}: X{arrays.end} holds NaN or infinite numbers, first in sample {sample}; "
            "repair or leave out such samples"
        )
    return replace(arrays, x=x)


def kind_of(root: Path, arrays: Arrays) -> Kind:
    """Return what is learned: strings and integers are classes, floating numbers are numbers."""
    y, size = arrays.y, arrays.x.shape[2:]
    at_positions = y.ndim > 1 and (y.shape[1:] == size or y.shape[2:] == size)
    if y.dtype.kind in "Ubiu":
        if y.shape[1:] == size and y.dtype.kind in "biu":
            return "position"
        if y.ndim == 1 or y.shape == (len(y), 1):
            return "class"
    elif y.dtype.kind == "f" and (at_positions or y.ndim <= 2):
        return "position_value" if at_positions else "value"
    raise DataDamaged(
        f"{root}: y{arrays.end} holds {y.dtype} of shape {y.shape}; expected integers or strings "
        f"(n,), numbers (n,) or (n, K), or a target for each of the positions {size}"
    )


def _check_alike(root: Path, train: Arrays, other: Arrays, kind: Kind) -> None:
    if other.x.shape[1:] != train.x.shape[1:]:
        raise DataDamaged(
            f"{root}: X{other.end} has shape {other.x.shape}; expected (n, "
            f"{', '.join(map(str, train.x.shape[1:]))}) as in training"
        )
    if kind_of(root, other) != kind or other.y.shape[1:] != train.y.shape[1:]:
        raise DataDamaged(
            f"{root}: y{other.end} holds {other.y.dtype} of shape {other.y.shape}, but in training "
            f"{train.y.dtype} of shape {train.y.shape}"
        )


# Targets


def _labels(root: Path, train: Arrays, kind: Kind) -> tuple[str, ...]:
    """Return the names of the classes, in order."""
    y = train.y[train.inside()] if kind == "position" else train.y
    names = tuple(str(value) for value in np.unique(y) if not _skipped(value, kind))
    if len(names) < 2:
        raise DataDamaged(
            f"{root}: all targets are of one class ({', '.join(names)}); expected two or more"
        )
    return names


def _skipped(value: object, kind: Kind) -> bool:
    return kind == "position" and str(value) == str(NOT_COUNTED)


def _targets(root: Path, arrays: Arrays, kind: Kind, labels: tuple[str, ...]) -> np.ndarray:
    """Return classes as places in labels, (n,) or (n, *S); or numbers, (n, K) or (n, K, *S)."""
    y = arrays.y
    if kind.endswith("value"):
        rows = y.reshape(len(y), -1) if kind == "value" else y
        rows = rows[:, None] if rows.ndim < arrays.x.ndim and kind == "position_value" else rows
        if kind == "position_value":
            rows = np.where(arrays.inside()[:, None], rows, 0)
        if not np.isfinite(rows).all():
            raise DataDamaged(f"{root}: y{arrays.end} holds NaN or infinite numbers")
        return rows.astype(np.float32)
    values, index = np.unique(y, return_inverse=True)
    place = {label: i for i, label in enumerate(labels)}
    codes = [NOT_COUNTED if _skipped(v, kind) else place.get(str(v), -1) for v in values]
    found = np.array(codes)[index].reshape(y.shape if kind == "position" else len(y))
    if kind == "position":
        found = np.where(arrays.inside(), found, NOT_COUNTED)
    if (found == -1).any():
        strange = str(y.reshape(found.shape)[found == -1][0])
        raise DataDamaged(
            f"{root}: y{arrays.end} has the class {strange!r}, which the training targets do not "
            f"have; they have {', '.join(labels[:10])}{' …' * (len(labels) > 10)}"
        )
    return found.astype(np.int64)


# Parts


def _split(root: Path, parts: dict[str, Arrays]) -> dict[str, Arrays]:
    """Return all three parts, those that are missing split off the training samples."""
    train = parts["train"]
    missing = [part for part in ("val", "test") if part not in parts]
    n = len(train.y)
    strata = train.y if train.y.ndim == 1 else np.zeros(n, dtype=int)
    # One sample of each class stays for training, however few there are.
    others = np.delete(np.arange(n), np.unique(strata, return_index=True)[1])
    counts = [max(1, round(HELD_OUT * n))] * len(missing)
    if sum(counts) > len(others):
        raise DataDamaged(
            f"{root}: {n} samples are too few to split off {' and '.join(missing)} samples, with "
            f"{len(np.unique(strata))} classes (numbers to be learned are saved as floats)"
        )
    kept = np.arange(n)
    for part, index in zip(missing, stratified(strata[others], counts), strict=True):
        parts = parts | {part: _take(train, others[index])}
        kept = np.setdiff1d(kept, others[index])
    # In no order: data.limit takes the first.
    return parts | {"train": _take(train, np.random.RandomState(0).permutation(kept))}


def _take(arrays: Arrays, index: np.ndarray) -> Arrays:
    lengths = None if arrays.lengths is None else arrays.lengths[index]
    return Arrays(arrays.x[index], arrays.y[index], lengths, arrays.end)


def measure(train: Arrays, kind: Kind) -> Scaling:
    """Return mean and deviation of each channel and of each number, where samples exist."""
    inside = train.inside()
    mean, std = _moments([train.x[:, c][inside] for c in range(train.x.shape[1])])
    if not kind.endswith("value"):
        return Scaling(mean=mean, std=std)
    columns = [train.y[:, k] for k in range(train.y.shape[1])]
    if kind == "position_value":
        columns = [column[inside] for column in columns]
    target_mean, target_std = _moments(columns)
    return Scaling(mean=mean, std=std, target_mean=target_mean, target_std=target_std)


def _moments(columns: list[np.ndarray]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return means and deviations; a constant has deviation 1, by which it can be divided."""
    mean = tuple(float(c.mean(dtype=np.float64)) for c in columns)
    return mean, tuple(float(c.std(dtype=np.float64)) or 1.0 for c in columns)


def _samples(arrays: Arrays, kind: Kind, scaling: Scaling) -> Samples:
    x, y = scaling.apply(torch.from_numpy(arrays.x)), torch.from_numpy(arrays.y)
    if kind.endswith("value"):
        y = scaling.scale_targets(y)
    lengths = None if arrays.lengths is None else torch.from_numpy(arrays.lengths.astype(np.int64))
    return Samples(x, y, lengths)
