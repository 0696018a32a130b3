"""Unpacking tar and zip: every entry is looked at before one is written, and none may leave."""

import gzip
import lzma
import os
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from ccnn.tasks.task import DataDamaged

MOST_ENTRIES = 500_000
_PADDING = 1 << 20  # bytes that may follow the last entry
# What reading an archive raises if it is damaged. Not OSError: a full disk is no damage.
_DAMAGE = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, EOFError, zlib.error),
    *(lzma.LZMAError, NotImplementedError, ValueError, OverflowError, struct.error),
    *(FileExistsError, NotADirectoryError, IsADirectoryError),  # two entries with one name
)
_REMEDY = "delete it and fetch it again"


class Entry(NamedTuple):
    """One entry of an archive; ``kind`` is "file", "folder", or what else it is."""

    name: str
    size: int
    kind: str
    open: Callable[[], IO[bytes]]


def unpack(archive: Path, target: Path, *, limit: int, keep: Collection[str] | None = None) -> None:
    """Unpack an archive, which becomes a folder in one step or not at all.

    Parameters
    ----------
    archive
        A zip if its name says so, else a tar, compressed or not.
    target
        The folder that it becomes, which may not be there; one process at a time may do this. If
        all entries lie in one folder of that name, that is the folder.
    limit
        The most bytes that all entries together may hold.
    keep
        The only entries that are written; None is all of them.

    Raises
    ------
    DataDamaged
        If the archive is damaged, larger than that, or has an entry that points out of its folder
        or is a link or a device. Nothing is left behind then.
    """
    # One name for all attempts, so that one that was killed is cleared away by the next.
    content = target.with_name(f".unpacking-{target.name}")
    shutil.rmtree(content, ignore_errors=True)
    content.mkdir(parents=True)
    try:
        with _reading(archive), _entries(archive) as entries:
            files = _checked(archive, entries, limit)
            for name in files if keep is None else keep:
                if name not in files:
                    raise DataDamaged(f"{archive} has no entry {name}: {_REMEDY}")
                _write(files[name], content / name, archive)
        inner = content / target.name
        alone = inner.is_dir() and len(list(content.iterdir())) == 1
        os.replace(inner if alone else content, target)
    finally:
        shutil.rmtree(content, ignore_errors=True)


@contextmanager
def _reading(archive: Path) -> Iterator[None]:
    try:
        yield
    except DataDamaged:
        raise
    except _DAMAGE as error:
        raise DataDamaged(f"{archive} is damaged ({error}): {_REMEDY}") from error


@contextmanager
def _entries(archive: Path) -> Iterator[Iterable[Entry]]:
    """Open an archive and yield what is in it."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as pack:
            yield (_zip_entry(pack, info) for info in pack.infolist())
    else:
        with tarfile.open(archive) as tape:
            yield _tar_entries(tape)


def _zip_entry(pack: zipfile.ZipFile, info: zipfile.ZipInfo) -> Entry:
    mode = stat.S_IFMT(info.external_attr >> 16)  # 0 where the packer's system has no modes
    if info.flag_bits & 1:
        kind = "encrypted"
    elif info.is_dir():
        kind = "folder"
    elif mode in (0, stat.S_IFREG):
        kind = "file"
    else:
        kind = "a link" if mode == stat.S_IFLNK else "no plain file"
    return Entry(info.filename, info.file_size, kind, lambda: pack.open(info))


def _tar_entries(tape: tarfile.TarFile) -> Iterator[Entry]:
    # One after the other, so that sizes are added up before the next is looked for.
    for member in tape:
        yield _tar_entry(tape, member)
    # To the end of the stream, which is where a compressed one has its checksum.
    assert tape.fileobj is not None
    if len(tape.fileobj.read(_PADDING + 1)) > _PADDING:
        raise tarfile.ReadError("there is something behind its end")


def _tar_entry(tape: tarfile.TarFile, member: tarfile.TarInfo) -> Entry:
    if member.isdir():
        kind = "folder"
    elif member.type in (tarfile.REGTYPE, tarfile.AREGTYPE):
        kind = "file"
    else:
        kind = "a link" if member.issym() or member.islnk() else "no plain file"

    def open_member() -> IO[bytes]:
        content = tape.extractfile(member)
        assert content is not None  # it is a plain file
        return content

    return Entry(member.name, member.size, kind, open_member)


def _checked(archive: Path, entries: Iterable[Entry], limit: int) -> dict[str, Entry]:
    """Return the files by their names, or refuse the archive for one entry of it."""
    files: dict[str, Entry] = {}
    total = 0
    for count, entry in enumerate(entries, start=1):
        if entry.kind not in ("file", "folder"):
            raise _refusal(archive, f"its entry {entry.name!r} is {entry.kind}")
        if _leaves(entry.name):
            raise _refusal(archive, f"its entry {entry.name!r} does not stay in the folder")
        total += max(entry.size, 0)
        if total > limit or count > MOST_ENTRIES:
            raise _refusal(archive, f"it holds more than {limit:,} bytes, or too many entries")
        if entry.kind == "file":
            files[str(PurePosixPath(entry.name))] = (
                entry  # of two with one name the later one counts, as in tar
            )
    return files


def _refusal(archive: Path, why: str) -> DataDamaged:
    return DataDamaged(f"{archive} is not unpacked, because {why}: {_REMEDY} from its publisher")


def _leaves(name: str) -> bool:
    """Tell whether a name points out of its folder, on this system or another."""
    parts = name.split("/")
    return name.startswith("/") or ".." in parts or "\\" in name or ":" in parts[0]


def _write(entry: Entry, path: Path, archive: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with entry.open() as source, path.open("xb") as sink:
        shutil.copyfileobj(source, sink, 1 << 20)
        written = sink.tell()
    if written != entry.size:
        raise DataDamaged(
            f"{archive} is damaged ({entry.name} has {written} of {entry.size} bytes): {_REMEDY}"
        )
