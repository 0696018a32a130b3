"""The meshes of ModelNet, as voxels: made once, then kept in the cache folder."""

import hashlib
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ccnn.tasks.arrays import ANY, read_npz
from ccnn.tasks.generating import cache_folder, in_order, whole_file
from ccnn.tasks.meshes import read_off, voxelise
from ccnn.tasks.task import DataDamaged

FEW = 100  # files, for which no further processes are started


def mesh_files(folder: Path, name: str, part: str) -> list[Path]:
    """Return the files of a class in a part, in the order of their names."""
    return sorted((folder / name / part).glob("*.off"))


def read_meshes(
    folder: Path, classes: Sequence[str], part: str, side: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the shapes of a part as voxels, with their classes.

    Shapes
    ------
    result : (n, side, side, side) of bytes that are 0 or 1, and (n,)
    """
    files = [mesh_files(folder, name, part) for name in classes]
    labels = np.repeat(np.arange(len(classes)), [len(f) for f in files])
    every = [path for some in files for path in some]
    cache = _cache_file(every, side)
    packed = _read_cache(cache, len(every), side)
    if packed is None:
        title = f"voxels of {len(every):,} meshes ({part})"
        processes = 1 if len(every) < FEW else None
        jobs = [(path, side) for path in every]
        packed = np.stack(list(in_order(_packed, jobs, title=title, processes=processes)))
        _write_cache(cache, packed)
    voxels = np.unpackbits(packed, axis=1, count=side**3)
    return voxels.reshape(-1, side, side, side), labels


def _packed(job: tuple[Path, int]) -> np.ndarray:
    """Return the voxels of one file, a bit each."""
    path, side = job
    try:
        return np.packbits(voxelise(read_off(path), side))
    except ValueError as error:
        if isinstance(error, DataDamaged):
            raise
        raise DataDamaged(f"{path} is damaged ({error}): delete it and fetch it again") from error


def _cache_file(files: Sequence[Path], side: int) -> Path:
    """Return where the voxels of some files are kept: elsewhere when one of them changes."""
    facts = [(str(p.resolve()), p.stat().st_size, p.stat().st_mtime_ns) for p in files]
    name = hashlib.sha256(repr((side, facts)).encode()).hexdigest()[:16]
    return cache_folder() / f"voxels-{name}.npz"


def _read_cache(path: Path, count: int, side: int) -> np.ndarray | None:
    if not path.is_file():
        return None
    try:
        (packed,) = read_npz(path, {"packed": (np.uint8, (ANY, -(-(side**3) // 8)))})
    except (DataDamaged, PermissionError):
        return None  # it is made again
    return packed if len(packed) == count else None


def _write_cache(path: Path, packed: np.ndarray) -> None:
    try:
        with whole_file(path) as temporary, temporary.open("wb") as file:
            np.savez(file, packed=packed)
    except OSError as error:
        warnings.warn(
            f"cannot keep the voxels in {path} ({error}): every run makes them again; set "
            "CCNN_CACHE to a folder that can be written",
            stacklevel=2,
        )
