"""Downloads: files with a published checksum, going on where an earlier download stopped."""

import logging
import os
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ccnn.tasks.archive import unpack
from ccnn.tasks.checksum import check_published, split_checksum
from ccnn.tasks.task import DataDamaged, DataMissing

if TYPE_CHECKING:
    import requests
    from rich.progress import Progress

ATTEMPTS = 3  # in a row without a byte, from one address
SECONDS = 30.0  # that a server may say nothing


@dataclass(frozen=True, kw_only=True)
class Download:
    """A published file, and its place in the data folder.

    Parameters
    ----------
    urls
        Where it is published; the next is asked if one does not have it.
    checksum
        ``"md5:…"`` or ``"sha256:…"``, as published.
    path
        Where it goes, relative to the data folder: the file, or the folder an archive becomes.
    unpacked
        Of an archive, the most bytes it may hold; None leaves a file as it is.
    keep
        The entries of the archive that are wanted; None is all of them.
    """

    urls: tuple[str, ...]
    checksum: str
    path: str
    unpacked: int | None = None
    keep: Collection[str] | None = None

    def __post_init__(self) -> None:
        split_checksum(self.checksum)


def fetcher(*downloads: Download) -> Callable[[Path], None]:
    """Return a function that puts files into a folder: the ``fetch`` of a `Task`."""

    def fetch_all(root: Path) -> None:
        for download in downloads:
            fetch(download, root)

    return fetch_all


def fetch(download: Download, root: Path) -> None:
    """Put one published file into a data folder, unless it is there.

    Raises
    ------
    DataMissing
        If nobody answers. What has come stays as ``.part``, and the next call goes on with it.
    DataDamaged
        If what came, or what was there, is not the published file.
    """
    from filelock import FileLock  # comes with torch

    root.mkdir(parents=True, exist_ok=True)
    target = root / download.path
    # Several processes may start with the same empty folder.
    with FileLock(root / ".fetch.lock"):
        if download.unpacked is None:
            target.parent.mkdir(parents=True, exist_ok=True)
            _retrieve(download, target)
        elif not target.exists():
            archive = root / download.urls[0].rpartition("/")[2]
            had = archive.exists()
            _retrieve(download, archive)
            unpack(archive, target, limit=download.unpacked, keep=download.keep)
            if not had:  # somebody else's archive is theirs
                archive.unlink()


def _retrieve(download: Download, path: Path) -> None:
    """Have pooch make a path the published file, or find that it is."""
    import requests

    if path.exists():
        check_published(path, download.checksum)
        return
    problems, damaged = [], False
    for url in download.urls:
        try:
            _ask_pooch(url, download.checksum, path)
            return
        except requests.RequestException as error:
            problems.append(f"{url}: {_reason(error)}")
        except ValueError:  # pooch's, of a wrong checksum; it has deleted the file
            problems.append(f"{url}: not the published file, whose checksum is {download.checksum}")
            damaged = True
    kind = DataDamaged if damaged else DataMissing
    raise kind(
        f"could not fetch {path.name} ({'; '.join(problems)}). Try again, which goes on where "
        "this stopped; or point data.root, or the variable CCNN_DATA, at a folder that holds the "
        "data; or try task=digits, which needs no files"
    )


def _ask_pooch(url: str, checksum: str, path: Path) -> None:
    import pooch  # type: ignore[import-untyped]  # it has no types

    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)  # the bar says what is being fetched
    try:
        pooch.retrieve(
            url,
            known_hash=checksum,
            fname=path.name,
            path=path.parent,
            downloader=Resuming(path.with_name(f"{path.name}.part")),
        )
    finally:
        logger.setLevel(level)


class Resuming:
    """A downloader for pooch that goes on with what an earlier download left.

    Parameters
    ----------
    part
        Where bytes are kept until all have come.
    """

    def __init__(self, part: Path) -> None:
        self.part = part

    def __call__(self, url: str, output_file: str, pooch: object) -> None:
        """Download a file to where pooch wants it."""
        import requests

        failures = 0
        while True:
            before = self._size()
            try:
                self._go_on(url)
                break
            except requests.HTTPError:  # the server has answered, and will not answer otherwise
                raise
            except requests.RequestException:
                failures = failures + 1 if self._size() <= before else 1
                if failures == ATTEMPTS:
                    raise
                time.sleep(failures / 2)
        os.replace(self.part, output_file)

    def _size(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _go_on(self, url: str) -> None:
        """Ask for what is missing, and keep what comes."""
        import requests

        have = self._size()
        # As it is: a compressed answer would have other positions.
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
        with requests.get(url, headers=headers, stream=True, timeout=SECONDS) as response:
            if response.status_code == 416:  # there is nothing behind what is here
                if response.headers.get("Content-Range") == f"bytes */{have}":
                    return
                self.part.unlink()
                raise requests.ConnectionError("what was here is longer than the file")
            response.raise_for_status()
            self._keep(response, have)

    def _keep(self, response: "requests.Response", have: int) -> None:
        import requests

        start = 0  # a server that knows no ranges sends all of it
        if response.status_code == 206:
            start = have
            if not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
                self.part.unlink()
                raise requests.ConnectionError("the server sent another piece than it was asked")
        length = response.headers.get("Content-Length")
        total = start + int(length) if length else None
        name = self.part.name.removesuffix(".part")
        with self.part.open("ab" if start else "wb") as file, _bar() as bar:
            shown = bar.add_task(name, total=total, completed=start)
            # Small ones: of a block that breaks off, requests gives nothing.
            for block in response.iter_content(1 << 14):
                file.write(block)
                bar.advance(shown, len(block))
        if total is not None and self._size() != total:
            raise requests.ConnectionError(f"it ended after {self._size():,} of {total:,} bytes")


@contextmanager
def _bar() -> Iterator["Progress"]:
    """Yield a progress bar, which is silent where nobody looks."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not sys.stderr.isatty()) as progress:
        yield progress


def _reason(error: Exception) -> str:
    """Say in one line what requests says in several."""
    return " ".join(str(error).split())[:200] or type(error).__name__
