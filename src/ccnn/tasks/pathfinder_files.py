"""The files of Pathfinder as the Long Range Arena publishes them: lists, and images as PNG."""

import io
import re
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ccnn.tasks.arrays import ERRORS, read_header
from ccnn.tasks.generating import in_order
from ccnn.tasks.task import DataDamaged

_FOLDER, _NAME = re.compile(r"imgs/\d+"), re.compile(r"sample_\d+\.png")
_SIGNATURE = b"\x89PNG\r\n\x1a\n"


class Listing(NamedTuple):
    """One file of the folder ``metadata``, and how large the images are that it lists."""

    path: Path
    side: int


def read_arena(folder: Path, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Read a folder such as ``pathfinder32/curv_contour_length_14``, with a progress bar.

    Shapes
    ------
    result : (n, side, side) bytes and (n,) labels, in the order of the lists
    """
    lists = [path for path in (folder / "metadata").glob("*.npy") if path.stem.isdecimal()]
    jobs = [Listing(path, side) for path in sorted(lists, key=lambda path: int(path.stem))]
    parts = list(in_order(read_listed, jobs, title=f"reading {folder.parent.name}", processes=1))
    return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])


def read_listed(listing: Listing) -> tuple[np.ndarray, np.ndarray]:
    """Read the images of one list, (n, side, side), and their labels, (n,)."""
    rows = read_list(listing.path)
    folder = listing.path.parents[1]
    x = np.stack([read_png(folder / name, listing.side) for name, _ in rows])
    return x, np.array([label for _, label in rows], dtype=np.uint8)


def read_list(path: Path) -> list[tuple[str, int]]:
    """Return the name and the label of each image in a list.

    The published lists are texts of which a line has the folder, the name, a number, the label and
    the parameters; the published generator writes the same words as an array. Both end in .npy.
    """
    try:
        content = path.read_bytes()
        text = content.startswith(b"\x93NUMPY")
        rows = _array_rows(content) if text else [line.split() for line in content.splitlines()]
        found = [_image(row) for row in rows if row]
    except PermissionError:
        raise
    except ERRORS as error:
        raise DataDamaged(_damaged(path, str(error))) from error
    if not found:
        raise DataDamaged(_damaged(path, "it lists no image"))
    return found


def _array_rows(content: bytes) -> list[list[bytes]]:
    file = io.BytesIO(content)
    shape, _, dtype = read_header(file)
    if dtype.kind not in "US" or len(shape) != 2:
        raise ValueError(f"it holds {dtype} {shape} and not a table of words")
    file.seek(0)
    table = np.load(file, allow_pickle=False)
    return [[str(word).encode() for word in row] for row in table.tolist()]


def _image(row: list[bytes]) -> tuple[str, int]:
    """Return name and label from the words of a line, if they are such."""
    words = [word.decode("ascii") for word in row]
    # Nothing else: a name may not lead out of the folder.
    if len(words) < 4 or not _FOLDER.fullmatch(words[0]) or not _NAME.fullmatch(words[1]):
        raise ValueError(f"it has the line {' '.join(words)[:60]!r}")
    if words[3] not in ("0", "1"):
        raise ValueError(f"it has the label {words[3][:20]!r}")
    return f"{words[0]}/{words[1]}", int(words[3])


def read_png(path: Path, side: int) -> np.ndarray:
    """Read a square grey image of known size, (side, side), as bytes."""
    from PIL import Image

    try:
        content = path.read_bytes()
        _check_png(content, side)
        with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
            return np.array(image.convert("L"))
    except PermissionError:
        raise
    except FileNotFoundError as error:
        raise DataDamaged(
            f"{path} is listed and not there: delete its data set and unpack it again"
        ) from error
    except ERRORS as error:
        raise DataDamaged(_damaged(path, str(error))) from error


def _check_png(content: bytes, side: int) -> None:
    """Raise if a file is no PNG of that size or any checksum is wrong: Pillow skips some."""
    if content[:8] != _SIGNATURE:
        raise ValueError("it is no PNG")
    if content[12:16] != b"IHDR" or struct.unpack(">2I", content[16:24]) != (side, side):
        raise ValueError(f"it is not {side} x {side}")
    position, kind = 8, b""
    while kind != b"IEND":
        length, kind = struct.unpack(">I4s", content[position : position + 8])
        end = position + 8 + length
        (checksum,) = struct.unpack(">I", content[end : end + 4])
        if checksum != zlib.crc32(content[position + 4 : end]):
            raise ValueError("a checksum is wrong")
        position = end + 4


def _damaged(path: Path, why: str) -> str:
    return f"{path} is damaged ({why}): delete its data set and unpack it again"
