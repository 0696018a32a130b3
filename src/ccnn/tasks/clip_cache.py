"""Many sound clips in one file, which is mapped into memory instead of read.

The file is a line of JSON, filled up with blanks, then all clips and then their labels, both in
16 bits. The line tells which files the clips were made of and has a checksum of what follows: a
file that is stale, cut or damaged counts as absent.
"""

import hashlib
import json
import os
import warnings
import zlib
from pathlib import Path

import numpy as np

from ccnn.tasks.generating import cache_folder, whole_file

Clips = tuple[np.ndarray, np.ndarray]

FORMAT = "ccnn clips 1"
HEADER = 512
BLOCK = 1 << 24  # bytes that are checked at once


def place_of(folder: Path) -> Path:
    """Return the file for the clips of a folder."""
    name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16]
    return cache_folder() / f"clips-{name}.bin"


def load(path: Path, key: str) -> Clips | None:
    """Return clips and labels of a file, or None if it has to be made.

    Parameters
    ----------
    path
        The file.
    key
        Says what the clips must have been made of.

    Shapes
    ------
    result : (n, length) and (n,), both int16
    """
    try:
        with path.open("rb") as file:
            header = json.loads(file.read(HEADER))
            if (header["format"], header["key"]) != (FORMAT, key):
                return None
            count, length = header["shape"]
            # Mapped from the open file: another process may put a new one in its place.
            content = np.memmap(file, "<i2", "r", offset=HEADER, shape=(count * (length + 1),))
            whole = file.seek(0, os.SEEK_END) == HEADER + content.nbytes
        if not whole or header["checksum"] != _checksum(content):
            return None
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None
    return content[: count * length].reshape(count, length), content[count * length :]


def store(path: Path, key: str, clips: np.ndarray, labels: np.ndarray) -> None:
    """Write clips and labels, all or nothing; a disk that takes none is only warned of."""
    parts = [clips.ravel().astype("<i2", copy=False), labels.astype("<i2", copy=False)]
    header = {"format": FORMAT, "key": key, "shape": clips.shape, "checksum": _checksum(*parts)}
    try:
        with whole_file(path) as temporary, temporary.open("wb") as file:
            file.write(json.dumps(header).encode().ljust(HEADER))
            for part in parts:
                part.tofile(file)
    except OSError as error:
        warnings.warn(
            f"cannot keep the clips in {path} ({error}): every run reads all files again; set "
            "CCNN_CACHE to a folder that can be written",
            stacklevel=2,
        )


def _checksum(*arrays: np.ndarray) -> int:
    value = 0
    for array in arrays:
        data = array.view(np.uint8)
        for begin in range(0, len(data), BLOCK):
            value = zlib.crc32(data[begin : begin + BLOCK].data, value)
    return value
