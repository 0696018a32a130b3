"""Published checksums: whether a file is the one that was published."""

import hashlib
import re
from pathlib import Path

from ccnn.tasks.task import DataDamaged

# md5 is what most data sets are published with. It finds damage, which is what it is for here.
_LENGTHS = {"md5": 32, "sha256": 64}


def digest(path: Path, algorithm: str) -> str:
    """Return the md5 or sha256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(
            file, lambda: hashlib.new(algorithm, usedforsecurity=False)
        ).hexdigest()


def is_published(path: Path, checksum: str) -> bool:
    """Tell whether a file has a checksum, ``"md5:…"`` or ``"sha256:…"``."""
    algorithm, published = split_checksum(checksum)
    return digest(path, algorithm) == published


def split_checksum(checksum: str) -> tuple[str, str]:
    """Return ``("md5", "…")`` for ``"md5:…"``, and refuse what is no checksum."""
    algorithm, _, published = checksum.partition(":")
    if not re.fullmatch(rf"[0-9a-f]{{{_LENGTHS.get(algorithm, 0)}}}", published) or not published:
        raise ValueError(f"{checksum!r} is no checksum; expected 'md5:…' or 'sha256:…'")
    return algorithm, published


def check_published(path: Path, checksum: str) -> None:
    """Refuse a file that is not the published one.

    Raises
    ------
    DataDamaged
        It names the file, the checksum and what to do.
    """
    if not is_published(path, checksum):
        raise DataDamaged(
            f"{path} is not the published file, whose checksum is {checksum}: delete it and fetch "
            "it again"
        )
