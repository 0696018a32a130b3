"""The user's own data: arrays in one file, or files in class folders.

What other tasks declare, size, channels and classes, is read from the data here: `npz_task` and
`folder_task` return a `Task` for a place.
"""

from collections import Counter
from pathlib import Path

import numpy as np

from ccnn.tasks.arrays import ERRORS
from ccnn.tasks.scaling import Scaling
from ccnn.tasks.signal_files import SUFFIXES, Signal, read_signal
from ccnn.tasks.task import DataDamaged, DataMissing, Task
from ccnn.tasks.user_arrays import Arrays, make_task

PARTS = ("train", "val", "test")
NOT_DATA = ("thumbs.db", "desktop.ini")  # what Windows leaves in folders of images


def npz_task(root: Path, scaling: Scaling | None = None) -> Task:
    """Return the task of the arrays ``X`` and ``y`` in an NPZ file.

    Parameters
    ----------
    root
        The file.
    scaling
        How to prepare the signals; None is by the training part.

    Raises
    ------
    DataMissing
        If there is no such file.
    DataDamaged
        If it does not hold what it should.
    """
    if not root.is_file():
        raise DataMissing(
            f"task=npz: {root.absolute()} is no file; say data.root=FILE.npz, which holds signals "
            "X (n, channels, *size) and targets y (n,), as numpy.savez(FILE, X=X, y=y) writes it"
        )
    arrays = read_npz(root)
    parts = {"train": _part(root, arrays, "")}
    for part in PARTS[1:]:
        if f"X_{part}" in arrays or f"y_{part}" in arrays:
            parts[part] = _part(root, arrays, f"_{part}")
    return make_task("npz", root, parts, scaling)


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an NPZ file that are ours by name; no pickle is loaded."""
    ours = [f"{name}{end}" for name in ("X", "y", "lengths") for end in ("", "_val", "_test")]
    name = ""
    try:
        # Opened here, because np.load leaves a file open that turns out to be no archive.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {}
            for name in [n for n in archive.files if n in ours]:
                arrays[name] = archive[name]
            others = [n for n in archive.files if n not in ours]
    except ValueError as error:
        if "allow_pickle" not in str(error) or not name:
            raise DataDamaged(_unreadable(path, error)) from error
        raise DataDamaged(
            f"{path}: {name} holds Python objects, which are never unpickled; save numbers, or "
            f"strings as {name}.astype(str)"
        ) from error
    except PermissionError:
        raise
    except (*ERRORS, AttributeError) as error:  # the last if it is a single array
        raise DataDamaged(_unreadable(path, error)) from error
    missing = [name for name in ("X", "y") if name not in arrays]
    if missing:
        found = ", ".join([*arrays, *others]) or "nothing"
        raise DataDamaged(
            f"{path} has no array {missing[0]}; it holds {found}, expected X and y, beside them if "
            "you like lengths, and the same with _val and _test"
        )
    return arrays


def _unreadable(path: Path, error: Exception) -> str:
    why = (str(error).splitlines() or [type(error).__name__])[0]
    return f"{path} is no NPZ file that can be read ({why}): save it again with numpy.savez"


def _part(path: Path, arrays: dict[str, np.ndarray], end: str) -> Arrays:
    for name in (f"X{end}", f"y{end}"):
        if name not in arrays:
            raise DataDamaged(f"{path} has no array {name}; X{end} and y{end} belong together")
    return Arrays(arrays[f"X{end}"], arrays[f"y{end}"], arrays.get(f"lengths{end}"), end)


# Folders


def folder_task(root: Path, scaling: Scaling | None = None) -> Task:
    """Return the task of class folders that hold WAV, PNG or NPY files.

    Parameters
    ----------
    root
        ``root/CLASS/FILE``, or ``root/train/CLASS/FILE`` beside ``val`` and ``test``.
    scaling
        How to prepare the signals; None is by the training part.

    Raises
    ------
    DataMissing
        If there is no such folder.
    DataDamaged
        If it does not hold what it should.
    """
    if not root.is_dir():
        raise DataMissing(
            f"task=folder: {root.absolute()} is no folder; say data.root=FOLDER, which holds a "
            "folder for each class with WAV, PNG or NPY files"
        )
    names = [path.name for path in _folders(root)]
    given = [part for part in PARTS if part in names]
    if "train" in given and set(names) <= set(PARTS):
        files = {part: _class_files(root / part) for part in given}
    else:
        files = {"train": _class_files(root)}
    signals = {part: [read_signal(path) for path, _ in found] for part, found in files.items()}
    rate = _check_alike(files, signals)
    if scaling is not None and scaling.rate != rate:
        raise DataDamaged(
            f"{root} is sampled {rate} times a second, and the run's data {scaling.rate} times"
        )
    longest = max(s.values.shape[-1] for part in signals.values() for s in part)
    parts = {
        part: _stack(signals[part], [label for _, label in files[part]], longest, part)
        for part in files
    }
    return make_task("folder", root, parts, scaling, rate=rate)


def _folders(root: Path) -> list[Path]:
    return sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))


def _class_files(root: Path) -> list[tuple[Path, str]]:
    """Return the files of all classes, each with its class, in the order of their names."""
    folders = _folders(root)
    if not folders:
        raise DataDamaged(f"{root} holds no folders; expected one for each class")
    found = []
    for folder in folders:
        files = sorted(p for p in folder.iterdir() if not p.name.startswith("."))
        files = [p for p in files if p.name.lower() not in NOT_DATA]
        strange = [p for p in files if p.suffix.lower() not in SUFFIXES or not p.is_file()]
        if strange:
            raise DataDamaged(f"{strange[0]} is neither WAV nor PNG nor NPY: convert or remove it")
        if not files:
            raise DataDamaged(f"the class folder {folder} is empty: fill or remove it")
        found += [(path, folder.name) for path in files]
    return found


def _check_alike(
    files: dict[str, list[tuple[Path, str]]], signals: dict[str, list[Signal]]
) -> int | None:
    """Return the sampling rate of all files, which must have one, and the same shape."""
    paths = [path for part in files.values() for path, _ in part]
    every = [signal for part in signals.values() for signal in part]
    kinds = Counter(path.suffix.lower() for path in paths)
    if len(kinds) > 1:
        raise DataDamaged(
            f"the class folders hold files of different kinds ({', '.join(sorted(kinds))}), as "
            f"{paths[0]}; expected all WAV, all PNG or all NPY"
        )
    first = every[0]
    sequence = first.values.ndim == 2  # whose length may differ
    for path, signal in zip(paths, every, strict=True):
        same = signal.values.shape == first.values.shape
        if not same and not (sequence and _axes(signal) == _axes(first)):
            raise DataDamaged(
                f"{path} has {_shown(signal)}, but {paths[0]} has {_shown(first)}; all must have "
                "the same number of channels and, unless they are sequences, the same size"
            )
        if signal.rate != first.rate:
            raise DataDamaged(
                f"{path} is sampled {signal.rate} times a second, but {paths[0]} {first.rate} "
                "times; resample them to one rate"
            )
        if not np.isfinite(signal.values).all():
            raise DataDamaged(f"{path} holds NaN or infinite numbers")
    return first.rate


def _axes(signal: Signal) -> tuple[int, int]:
    return signal.values.ndim, len(signal.values)


def _shown(signal: Signal) -> str:
    channels, *size = signal.values.shape
    return f"{channels} channel(s) of size {' x '.join(map(str, size))}"


def _stack(signals: list[Signal], labels: list[str], longest: int, part: str) -> Arrays:
    """Return signals as one array, sequences padded with zeros at the end."""
    lengths = np.array([s.values.shape[-1] for s in signals])
    x = np.zeros((len(signals), *signals[0].values.shape[:-1], longest), np.float32)
    for row, signal in zip(x, signals, strict=True):
        row[..., : signal.values.shape[-1]] = signal.values
    unequal = bool((lengths != longest).any())
    return Arrays(x, np.array(labels), lengths if unequal else None, f" of {part}")
