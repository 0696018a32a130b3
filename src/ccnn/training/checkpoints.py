"""Checkpoints that are whole or not there: written beside, synced, moved, and checked on reading.

A checkpoint is a ``torch.save`` of tensors and plain values with its SHA-256 behind it. The one
before is kept: should the newest be damaged all the same, the run goes back to it.
"""

import hashlib
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

_MARK = b"ccnn-sha256:"
_FOOTER = len(_MARK) + 64

LAST = "last.ckpt"
PREVIOUS = "previous.ckpt"
BEST = "best.ckpt"


class Damaged(ValueError):  # noqa: N818 (what it says is a sentence)
    """A file that is not what was written."""


def write_checkpoint(path: Path, state: dict[str, Any], *, keep: Path | None = None) -> None:
    """Write a checkpoint so that a crash at any moment leaves the old one or the new one.

    Parameters
    ----------
    path
        Where it goes.
    state
        Tensors and values that ``torch.load(weights_only=True)`` reads.
    keep
        Where the checkpoint that is at ``path`` now goes.
    """
    buffer = io.BytesIO()
    torch.save(state, buffer)
    content = buffer.getvalue()
    digest = hashlib.sha256(content).hexdigest().encode()
    write_file(path, content + _MARK + digest, keep=keep)


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read what `write_checkpoint` wrote, or raise `Damaged`."""
    content = path.read_bytes()
    body, footer = content[:-_FOOTER], content[-_FOOTER:]
    if not footer.startswith(_MARK):
        raise Damaged(f"{path.name} is cut off")
    if hashlib.sha256(body).hexdigest().encode() != footer[len(_MARK) :]:
        raise Damaged(f"{path.name} is not what was written (its checksum differs)")
    state: dict[str, Any] = torch.load(io.BytesIO(body), map_location="cpu", weights_only=True)
    return state


def newest_checkpoint(folder: Path, warn: Callable[[str], None]) -> dict[str, Any] | None:
    """Return the newest whole checkpoint of a folder, None where there is none.

    ``warn`` is told of each damaged one that was passed over.
    """
    for name in (LAST, PREVIOUS):
        path = folder / name
        if not path.exists():
            continue
        try:
            return read_checkpoint(path)
        except (Damaged, OSError) as error:
            then = "the one before it" if name == LAST else "the beginning"
            warn(f"checkpoint {error}; going back to {then}")
    return None


def write_file(path: Path, content: bytes, *, keep: Path | None = None) -> None:
    """Replace a file by new content in one move, after the content has reached the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if keep is not None and path.exists():
            _keep(path, keep)
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OSError(
            error.errno,
            f"could not write {path.name} ({error.strerror or error}); what was there before is "
            "untouched. Make room and go on with resume=true",
        ) from error
    _sync_folder(path.parent)


def _keep(path: Path, keep: Path) -> None:
    """Give a file a second name, so that at no moment the first one is missing."""
    keep.unlink(missing_ok=True)
    try:
        os.link(path, keep)
    except OSError:  # a file system without hard links
        os.replace(path, keep)


def remove_leftovers(folder: Path) -> None:
    """Remove what processes that were killed while writing have left."""
    for path in folder.glob(".*.tmp"):
        path.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
