"""CharacterTrajectories: the paths of a pen that writes letters, of unequal lengths.

Williams 2008, https://archive.ics.uci.edu/dataset/175/character+trajectories
"""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ccnn.tasks.splitting import stratified
from ccnn.tasks.task import DataDamaged, Samples, Splits, Task

FILES = ("mixoutALL_shifted.mat", "character_trajectories_train.mat")
CLASSES = 20
LONGEST = 205
RATE = 200  # samples per second
SHARES = (0.15, 0.15)  # of all trajectories, for validation and for the test

Trajectories = tuple[list[np.ndarray], np.ndarray]


def find_file(root: Path) -> Path | None:
    """Return the file in a folder, the whole set before a part of it."""
    return next((root / name for name in FILES if (root / name).is_file()), None)


def read(root: Path) -> Splits:
    """Return trajectories, (n, 3, 205), standardised by the training part, with their lengths."""
    path = find_file(root)
    assert path is not None  # `find` has seen it
    paths, labels = read_mat(path)
    lengths = np.array([p.shape[1] for p in paths])
    x = np.zeros((len(paths), 3, LONGEST), np.float32)
    for row, trajectory in zip(x, paths, strict=True):
        row[:, : trajectory.shape[1]] = trajectory
    counts = [round(share * len(labels)) for share in SHARES]
    val, test, train = stratified(labels, [*counts, len(labels) - sum(counts)])
    inside = np.arange(LONGEST) < lengths[:, None]  # (n, 205)
    kept = x[train].transpose(1, 0, 2)[:, inside[train]]  # (3, samples)
    mean, std = kept.mean(axis=1, dtype=np.float64), kept.std(axis=1, dtype=np.float64)
    x = ((x - mean[:, None]) / std[:, None] * inside[:, None]).astype(np.float32)
    whole = Samples(
        torch.from_numpy(x),
        torch.from_numpy(labels.astype(np.int64)),
        torch.from_numpy(lengths.astype(np.int64)),
    )
    return Splits(*(whole.take(torch.from_numpy(i)) for i in (train, val, test)))


def times(count: int) -> Tensor:
    """Return when the first samples of a trajectory were taken, in seconds, (count,)."""
    return torch.arange(count) / RATE


def read_mat(path: Path) -> Trajectories:
    """Read trajectories, each (3, length), and their letters from 0 to 19, of either file.

    The original has ``mixout`` and, in ``consts``, ``charlabels``; the other ``xtrain`` and
    ``ytrain``. Letters count from 1 in both.
    """
    # Importing it takes a while, and only this task needs it.
    from scipy.io import loadmat  # type: ignore[import-untyped]  # it has no types

    try:
        content = loadmat(path)
        if "mixout" in content:
            cells, labels = content["mixout"], content["consts"]["charlabels"][0, 0]
        else:
            cells, labels = content["xtrain"], content["ytrain"]
        return _checked(path, [np.asarray(c) for c in cells.ravel()], np.asarray(labels).ravel())
    except (PermissionError, DataDamaged):
        raise
    # Of a damaged file scipy complains in many ways, and they are not documented.
    except Exception as error:
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        raise DataDamaged(_damaged(path, why)) from error


def _checked(path: Path, paths: list[np.ndarray], labels: np.ndarray) -> Trajectories:
    """Return what was read if it can be trajectories and letters."""
    if len(paths) != len(labels) or not len(labels):
        raise DataDamaged(_damaged(path, f"{len(paths)} trajectories and {len(labels)} letters"))
    whole = labels.dtype.kind in "biuf" and bool((labels == np.round(labels)).all())
    if not whole or labels.min() < 1 or labels.max() > CLASSES:
        raise DataDamaged(_damaged(path, f"its letters are not numbers from 1 to {CLASSES}"))
    for place, p in enumerate(paths):
        fits = p.ndim == 2 and p.shape[0] == 3 and 0 < p.shape[1] <= LONGEST
        if not fits or p.dtype.kind != "f" or not np.isfinite(p).all():
            raise DataDamaged(
                _damaged(path, f"trajectory {place} is {p.dtype} {p.shape}, not 3 x 1 … {LONGEST}")
            )
    return paths, labels.astype(np.int64) - 1


def _damaged(path: Path, why: str) -> str:
    return f"{path} is damaged ({why}): delete it and fetch it again"


CHARTRAJECTORIES = Task(
    name="chartrajectories",
    title="CharacterTrajectories, letters by the way of the pen",
    size=(LONGEST,),
    in_channels=3,
    classes=CLASSES,
    counts=(2_000, 429, 429),
    source="UCI Character Trajectories, archive.ics.uci.edu/dataset/175",
    files=" or ".join(FILES),
    find=lambda root: find_file(root) is not None,
    read=read,
)
