"""Points on the surface of a shape, drawn at random."""

import numpy as np
import torch
from torch import Tensor

from ccnn.tasks.meshes import Mesh


def sample_points(shape: Mesh | np.ndarray, count: int, *, seed: int) -> Tensor:
    """Return points on the surface of a shape, the longest edge of whose box goes from -1 to 1.

    Parameters
    ----------
    shape
        A mesh, on which points are spread evenly by area; or a grid of voxels, of which those
        that are filled and have an empty neighbour hold the points, each anywhere in its cell.
    count
        How many points.
    seed
        The same seed gives the same points.

    Shapes
    ------
    shape : (X, Y, Z), if it is a grid
    result : (count, 3)
    """
    if count < 1:
        raise ValueError(f"count is {count}; expected 1 or more")
    random = np.random.RandomState(seed)
    if isinstance(shape, Mesh):
        points, low, high = _on_mesh(shape, count, random)
    else:
        points, low, high = _on_voxels(np.asarray(shape), count, random)
    half = float((high - low).max()) / 2
    return torch.from_numpy(((points - (low + high) / 2) / half).astype(np.float32))


def _on_mesh(
    mesh: Mesh, count: int, random: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return points on the triangles, and the box around these."""
    corners = mesh.corners()
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1).cumsum()
    if not area[-1] > 0:
        raise ValueError("the mesh has no area, so there is nothing to draw points from")
    chosen = np.searchsorted(area, random.rand(count) * area[-1], side="right")
    # The root makes points in a triangle even: there is less of it near a corner.
    u, v = np.sqrt(random.rand(count, 1)), random.rand(count, 1)
    points = (1 - u) * a[chosen] + u * (1 - v) * b[chosen] + u * v * c[chosen]
    return points, corners.min(axis=(0, 1)), corners.max(axis=(0, 1))


def points_in_voxels(grid: np.ndarray, count: int, random: np.random.RandomState) -> np.ndarray:
    """Return points drawn evenly from the voxels of a surface, each anywhere in its voxel.

    Positions are measured in voxels: that with index i reaches from i - ½ to i + ½.

    Shapes
    ------
    grid : (X, Y, Z)
    result : (count, 3), float32
    """
    points, _, _ = _on_voxels(grid, count, random)
    return (points - 0.5).astype(np.float32)


def _on_voxels(
    grid: np.ndarray, count: int, random: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return points in the cells of the surface, and the box around these."""
    if grid.ndim != 3 or not grid.any():
        raise ValueError(f"expected a grid (X, Y, Z) with filled voxels, got shape {grid.shape}")
    cells = np.argwhere(surface(grid.astype(bool)))
    # All cells equally often: each one once before any is taken twice.
    rounds = [random.permutation(len(cells)) for _ in range(-(-count // len(cells)))]
    chosen = cells[np.concatenate(rounds)[:count]]
    return chosen + random.rand(count, 3), cells.min(axis=0), cells.max(axis=0) + 1


def surface(grid: np.ndarray) -> np.ndarray:
    """Return the filled voxels that have an empty one, or the border, at one of six sides."""
    wide = np.pad(grid, 1)
    inner = np.ones_like(grid)
    for axis in range(3):
        for shift in (-1, 1):
            inner &= np.roll(wide, shift, axis)[1:-1, 1:-1, 1:-1]
    outer: np.ndarray = grid & ~inner
    return outer
