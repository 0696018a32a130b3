"""ModelNet10 as clouds of points, drawn from the voxels of its surfaces."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ccnn.tasks.modelnet import MODELNET10, SIDE, find, read
from ccnn.tasks.points import points_in_voxels
from ccnn.tasks.task import Samples, Splits, Task

POINTS = 1_024
# Positions lie on a lattice of half voxels. The data say no more than in which voxel a surface is,
# and pairs of points then have few distinct offsets, at each of which a kernel is evaluated once.
LATTICE = 2
STRETCH = 0.05  # an axis of a training shape becomes longer or shorter by up to this share


def read_points(root: Path, count: int = POINTS) -> Splits:
    """Return the shapes as points, see `clouds`; the split is that of the voxels."""
    splits = read(root)
    parts = (splits.train, splits.val, splits.test)
    return Splits(*(clouds(part, count, seed=i) for i, part in enumerate(parts)))


def clouds(voxels: Samples, count: int, *, seed: int) -> Samples:
    """Return shapes as so many points each, drawn evenly from the voxels of their surfaces.

    A point is somewhere in its voxel, on a lattice of half voxels. Positions are measured in
    voxels: the middle of shape and grid is at 14.5, and a network of the grids has the same units.
    A shape without any voxel is left out.

    Parameters
    ----------
    voxels
        Shapes as `ccnn.tasks.modelnet.read` returns them.
    count
        How many points.
    seed
        The same seed gives the same points.

    Shapes
    ------
    voxels.x : (n, 1, X, Y, Z)
    result.x : (n, 1, count), of ones
    result.positions : (n, count, 3)
    """
    filled = voxels.x.flatten(1).any(dim=1)  # eight of the published grids are empty
    voxels = voxels.take(filled.nonzero().squeeze(1))
    random = np.random.RandomState(seed)
    each = [points_in_voxels(grid.numpy(), count, random) for grid in voxels.x[:, 0]]
    positions = on_lattice(torch.from_numpy(np.stack(each)))
    return Samples(torch.ones(len(each), 1, count), voxels.y, positions=positions)


def on_lattice(positions: Tensor) -> Tensor:
    """Return the nearest places of the lattice."""
    return (positions * LATTICE).round() / LATTICE


def vary(positions: Tensor) -> Tensor:
    """Mirror shapes as the voxels are, stretch them, and move every point within half a voxel.

    Each axis gets a factor of its own, up to 5 % more or less than 1. The random numbers are
    torch's own, on the CPU.

    Shapes
    ------
    positions : (B, N, 3)
    result : (B, N, 3)
    """
    batch = len(positions)
    middle = (SIDE - 1) / 2
    factor = 1 + STRETCH * (2 * torch.rand(batch, 1, 3) - 1)
    factor[..., :2] *= torch.where(torch.rand(batch, 1, 2) < 0.5, -1.0, 1.0)  # up stays up
    moved = torch.rand(positions.shape) - 0.5
    varied = middle + (positions - middle) * factor.to(positions) + moved.to(positions)
    return on_lattice(varied)


MODELNET10_POINTS = Task(
    name="modelnet10_points",
    title="ModelNet10, furniture as 1,024 points",
    size=(SIDE, SIDE, SIDE),
    in_channels=1,
    classes=MODELNET10.classes,
    counts=MODELNET10.counts,
    source=MODELNET10.source,
    files=MODELNET10.files,
    find=find,
    read=read_points,
    draw=read_points,
    augment=vary,
)
