"""Read arrays of plain numbers from NumPy's files, and nothing else: no pickle, no lying header."""

import math
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import numpy as np

from ccnn.tasks.task import DataDamaged

# An axis of any length.
ANY = -1
# What damaged archives make zipfile, zlib and NumPy raise.
ERRORS = (
    *(OSError, EOFError, ValueError, KeyError, TypeError, RuntimeError, SyntaxError),
    *(zipfile.BadZipFile, zlib.error, struct.error, MemoryError),
)


def read_npz(path: Path, wanted: Mapping[str, tuple[type, tuple[int, ...]]]) -> list[np.ndarray]:
    """Read arrays of known type and shape from an NPZ file, in the order of `wanted`.

    Parameters
    ----------
    path
        The file.
    wanted
        Name, type and shape of each array; `ANY` stands for an axis of any length.

    Raises
    ------
    DataDamaged
        If an array is missing, has another type or shape, or does not fit its checksum.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return [
                _member(archive, f"{name}.npy", np.dtype(kind), shape)
                for name, (kind, shape) in wanted.items()
            ]
    except PermissionError:
        raise
    except ERRORS as error:
        why = str(error).strip("'\"") or type(error).__name__
        raise DataDamaged(f"{path} is damaged ({why}): delete it and make it again") from error


def _member(
    archive: zipfile.ZipFile, name: str, dtype: np.dtype, wanted: tuple[int, ...]
) -> np.ndarray:
    info = archive.getinfo(name)
    with archive.open(info) as file:
        shape, order, found = read_header(file)
        fits = len(shape) == len(wanted) and all(
            w in (ANY, n) for n, w in zip(shape, wanted, strict=True)
        )
        if found != dtype or order or not fits:
            raise ValueError(f"{name} is {found} {shape}, expected {dtype} {_words(wanted)}")
        # Before any memory is taken: the header and the archive must agree.
        if math.prod(shape) * dtype.itemsize != info.file_size - file.tell():
            raise ValueError(f"{name} does not hold the {shape} that it announces")
        return np.frombuffer(bytearray(file.read()), dtype).reshape(shape)


def read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Return shape, whether the order is Fortran's, and type, as an NPY file announces them."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    return np.lib.format.read_array_header_2_0(file)


def _words(shape: tuple[int, ...]) -> str:
    return f"({', '.join('n' if n == ANY else str(n) for n in shape)})"
