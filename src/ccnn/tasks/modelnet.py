"""ModelNet10: ten kinds of furniture as voxels, from grids or from the original meshes.

Wu et al. 2015, https://modelnet.cs.princeton.edu
"""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ccnn.tasks.arrays import ANY, read_npz
from ccnn.tasks.modelnet_meshes import mesh_files, read_meshes
from ccnn.tasks.splitting import stratified
from ccnn.tasks.task import DataDamaged, Samples, Splits, Task

GRIDS = "modelnet10_voxel30.npz"
FOLDER = "ModelNet10"
CLASSES = (
    *("bathtub", "bed", "chair", "desk", "dresser"),
    *("monitor", "night_stand", "sofa", "table", "toilet"),
)
SIDE = 30
HELD_OUT = 0.1  # of the training shapes, for validation


def find(root: Path) -> bool:
    """Tell whether the grids, or meshes of all classes for training and test, are there."""
    if (root / GRIDS).is_file():
        return True
    return all(
        mesh_files(root / FOLDER, name, part) for name in CLASSES for part in ("train", "test")
    )


def read(root: Path) -> Splits:
    """Return the shapes as occupied (1) and empty (0) voxels, (n, 1, 30, 30, 30)."""
    grids = root / GRIDS
    if grids.is_file():
        x_train, y_train, x_test, y_test = read_grids(grids)
    else:
        x_train, y_train = read_meshes(root / FOLDER, CLASSES, "train", SIDE)
        x_test, y_test = read_meshes(root / FOLDER, CLASSES, "test", SIDE)
    held = round(HELD_OUT * len(y_train))
    val, train = stratified(y_train, [held, len(y_train) - held])
    return Splits(
        _samples(x_train[train], y_train[train]),
        _samples(x_train[val], y_train[val]),
        _samples(x_test, y_test),
    )


def read_grids(path: Path) -> list[np.ndarray]:
    """Read voxels (n, 30, 30, 30) and labels (n,) for training, and then for the test."""
    grid, row = (np.int32, (ANY, SIDE, SIDE, SIDE)), (np.int64, (ANY,))
    wanted = {"X_train": grid, "y_train": row, "X_test": grid, "y_test": row}
    x_train, y_train, x_test, y_test = read_npz(path, wanted)
    for part, x, y in (("train", x_train, y_train), ("test", x_test, y_test)):
        if len(x) != len(y) or not len(y):
            why = f"{len(x)} shapes and {len(y)} labels in the {part} part"
        elif y.min() < 0 or y.max() >= len(CLASSES):
            why = f"labels from {y.min()} to {y.max()}, expected 0 to {len(CLASSES) - 1}"
        elif x.min() < 0 or x.max() > 1:
            why = f"voxels from {x.min()} to {x.max()}, expected 0 and 1"
        else:
            continue
        raise DataDamaged(f"{path} is damaged ({why}): delete it and fetch it again")
    return [x_train.astype(np.uint8), y_train, x_test.astype(np.uint8), y_test]


def _samples(x: np.ndarray, y: np.ndarray) -> Samples:
    return Samples(torch.from_numpy(x).float().unsqueeze(1), torch.from_numpy(y))


def resize(x: Tensor, side: int) -> Tensor:
    """Return coarser grids, each voxel the mean of a cube: (n, 1, 30, 30, 30) -> (n, 1, *side³).

    The mean, not the largest, because a sample stands for all of its cell: a coarse grid and the
    fine one with ``Grid(spacing=…)`` then give a kernel the same sums.
    """
    whole = x.shape[-1]
    if side > whole or whole % side:
        sides = [str(n) for n in range(2, whole + 1) if whole % n == 0]
        raise ValueError(f"data.size is {side}, but task=modelnet10 has {', '.join(sides)}")
    return torch.nn.functional.avg_pool3d(x, whole // side)


def mirror(x: Tensor) -> Tensor:
    """Mirror shapes left to right, front to back, both or not, at random: (B, 1, X, Y, Z).

    Up (Z) stays up. The random numbers are torch's own, on the CPU.
    """
    for axis in (-3, -2):
        flip = torch.rand(len(x), 1, 1, 1, 1).to(x.device) < 0.5
        x = torch.where(flip, x.flip(axis), x)
    return x


MODELNET10 = Task(
    name="modelnet10",
    title="ModelNet10, furniture as voxels",
    size=(SIDE, SIDE, SIDE),
    in_channels=1,
    classes=len(CLASSES),
    counts=(3_592, 399, 908),
    source="ModelNet10, modelnet.cs.princeton.edu, the meshes or grids made of them",
    files=f"{GRIDS}, nor {FOLDER}/CLASS/{{train,test}}/*.off",
    find=find,
    read=read,
    resize=resize,
    augment=mirror,
)
