"""Surfaces made of triangles: OFF files, and which voxels a surface fills."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ccnn.tasks.task import DataDamaged

MARGIN = 3  # empty voxels around a shape, as in the published grids
STEP = 0.25  # of a voxel: no two neighbouring points on a triangle are further apart


@dataclass(frozen=True)
class Mesh:
    """A surface.

    Shapes
    ------
    vertices : (V, 3)
    triangles : (T, 3), places in vertices
    """

    vertices: np.ndarray
    triangles: np.ndarray

    def corners(self) -> np.ndarray:
        """Return the three corners of every triangle, (T, 3, 3)."""
        corners: np.ndarray = self.vertices[self.triangles]
        return corners


def read_off(path: Path) -> Mesh:
    """Read a mesh in the Object File Format; faces of more than three corners become triangles.

    Some files of ModelNet have no line break after the word OFF ("OFF490 518 0"); they are read.

    Raises
    ------
    DataDamaged
        If the file is cut or holds anything else.
    """
    try:
        text = path.read_text(encoding="ascii")
    except PermissionError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        raise DataDamaged(_damaged(path, str(error))) from error
    if "#" in text:  # comments go to the end of their line
        text = "\n".join(line.partition("#")[0] for line in text.splitlines())
    text = text.lstrip()
    if not text.startswith("OFF"):
        raise DataDamaged(_damaged(path, "it does not begin with OFF"))
    try:
        numbers = np.array(text[3:].split(), dtype=np.float64)
    except ValueError as error:
        raise DataDamaged(_damaged(path, str(error))) from error
    if len(numbers) < 3 or not np.isfinite(numbers).all():
        raise DataDamaged(_damaged(path, "it does not say how many vertices and faces it has"))
    points, faces = numbers[0], numbers[1]
    begin = 3 + 3 * int(points)
    whole = points.is_integer() and faces.is_integer()
    if not whole or points < 3 or faces < 1 or begin + 4 * faces > len(numbers):
        raise DataDamaged(
            _damaged(path, f"{points:g} vertices and {faces:g} faces do not fit into it")
        )
    vertices = numbers[3:begin].reshape(-1, 3)
    triangles = _triangles(path, numbers[begin:], int(faces))
    if triangles.min() < 0 or triangles.max() >= len(vertices):
        raise DataDamaged(_damaged(path, "a face has a corner that is no vertex"))
    return Mesh(vertices, triangles)


def _triangles(path: Path, numbers: np.ndarray, faces: int) -> np.ndarray:
    """Return the corners of faces, each of which is its number of corners and then those."""
    words = numbers.astype(np.int64)
    if (words != numbers).any():
        raise DataDamaged(_damaged(path, "a corner of a face is no whole number"))
    if len(words) == 4 * faces and (words[::4] == 3).all():
        return words.reshape(-1, 4)[:, 1:]
    fans, place = [], 0
    for _ in range(faces):
        count = int(words[place]) if place < len(words) else 0
        corners = words[place + 1 : place + 1 + count]
        if count < 3 or len(corners) < count:
            raise DataDamaged(_damaged(path, "its faces are cut"))
        fans += [(corners[0], *corners[i : i + 2]) for i in range(1, count - 1)]
        place += 1 + count
    if place != len(words):
        raise DataDamaged(_damaged(path, "there is something after its last face"))
    return np.array(fans)


def _damaged(path: Path, why: str) -> str:
    return f"{path} is damaged ({why}): delete it and fetch it again"


def voxelise(mesh: Mesh, side: int = 30) -> np.ndarray:
    """Return the voxels that a surface touches, as in the published grids of ModelNet.

    The longest edge of the shape's box fills all but three voxels at each end; the other two are
    centred.

    Shapes
    ------
    result : (side, side, side), bool
    """
    used = mesh.corners()  # a vertex without a face does not count
    low, high = used.min(axis=(0, 1)), used.max(axis=(0, 1))
    extent = float((high - low).max())
    if extent == 0:
        raise ValueError("all vertices of the mesh are at one place")
    inner = side - 2 * MARGIN - 1
    triangles = (used - (low + high) / 2) * (inner / extent) + (side - 1) / 2
    grid = np.zeros((side, side, side), dtype=bool)
    edges = np.linalg.norm(triangles - np.roll(triangles, 1, axis=1), axis=-1)
    parts = np.maximum(np.ceil(edges.max(axis=1) / STEP), 1).astype(int)
    for count in np.unique(parts):
        weights = _lattice(count)
        some = triangles[parts == count]
        for begin in range(0, len(some), 1 + 1_000_000 // len(weights)):
            batch = some[begin : begin + 1 + 1_000_000 // len(weights)]
            points = np.einsum("pk,tkd->tpd", weights, batch).reshape(-1, 3)
            # Half a voxel is rounded up on both sides alike, whatever the last bits say.
            grid[tuple(np.floor(points + 0.5 + 1e-9).astype(int).T)] = True
    return grid


def _lattice(count: int) -> np.ndarray:
    """Return the weights of the corners at points that part each edge into `count`, (P, 3)."""
    first, second = np.meshgrid(np.arange(count + 1), np.arange(count + 1), indexing="ij")
    inside = first + second <= count
    first, second = first[inside], second[inside]
    return np.stack([first, second, count - first - second], axis=1) / count
