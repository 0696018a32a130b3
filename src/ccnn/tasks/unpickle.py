"""The one place where a pickle is read: a published one, and of it nothing but arrays.

CIFAR is published as pickles too, and torchvision leaves them behind. A pickle can run anything, so
a file is read only if it is the published one to the last bit, and even then whatever it asks
for besides NumPy arrays is refused.
"""

import hashlib
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ccnn.tasks.task import DataDamaged


def _empty(kind: type, shape: tuple[int, ...], code: bytes) -> np.ndarray:
    """Return the array that a pickle fills in its next step; NumPy 1 and 2 name it differently."""
    if kind is not np.ndarray:
        raise pickle.UnpicklingError(f"{kind} is not allowed")
    return np.ndarray.__new__(np.ndarray, shape, code.decode())


def _dtype(code: bytes | str, align: object, copy: object) -> np.dtype:
    """Return a type of numbers that a pickle may set up; NumPy 2.4 dislikes how pickles ask."""
    return np.dtype(code.decode() if isinstance(code, bytes) else code, copy=True)


ALLOWED: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy.core.multiarray", "_reconstruct"): _empty,
    ("numpy._core.multiarray", "_reconstruct"): _empty,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): _dtype,
}


class _Unpickler(pickle.Unpickler):
    """Knows arrays, and whatever needs no name: numbers, texts, lists, dicts."""

    def find_class(self, module: str, name: str) -> Callable[..., Any]:
        """Return what a pickle may call."""
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed")
        return ALLOWED[module, name]


def read_pickle(path: Path, md5: str) -> dict[bytes, Any]:
    """Read a dict of arrays and lists that Python 2 has pickled, with bytes for its texts.

    Parameters
    ----------
    path
        The file.
    md5
        The published md5 of that very file.

    Raises
    ------
    DataDamaged
        If it is another file, which is not opened as a pickle then, or holds something else.
    """
    content = path.read_bytes()
    if hashlib.md5(content, usedforsecurity=False).hexdigest() != md5:
        raise DataDamaged(
            f"{path} is not the published file (md5 {md5}), and a pickle that nobody vouches for "
            "is not read: delete it and fetch it again, best as binary files (data.fetch=true)"
        )
    return _load(content, path)


def _load(content: bytes, path: Path) -> dict[bytes, Any]:
    try:
        found = _Unpickler(io.BytesIO(content), encoding="bytes").load()
    except Exception as error:  # a damaged pickle may raise any
        raise DataDamaged(f"{path} is not read ({error}): fetch the binary files") from error
    if not isinstance(found, dict):
        raise DataDamaged(f"{path} holds no dict: fetch the binary files")
    return found
