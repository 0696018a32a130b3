"""Downloads go on where they stopped, are what was published, and unpack to where they should."""

import gzip
import hashlib
import http.server
import io
import os
import pty
import stat
import sys
import tarfile
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ccnn.conf import compose
from ccnn.run import load_splits
from ccnn.tasks import TASKS, DataDamaged, DataMissing
from ccnn.tasks.archive import unpack
from ccnn.tasks.checksum import split_checksum
from ccnn.tasks.fetch import Download, fetch, fetcher

CONTENT = np.random.RandomState(0).bytes(300_000)


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves bytes, by ranges, and breaks off where it is told to."""

    def do_GET(self):
        server = self.server
        wanted = self.headers.get("Range")
        server.seen.append((self.path, wanted))
        content = server.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and server.ranges else 0
        if start >= len(content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(content)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        stop = server.breaks.pop(0) if server.breaks else None
        self.wfile.write(content[start:stop])
        self.close_connection = True

    def log_message(self, format, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.files, served.seen, served.breaks, served.ranges = {}, [], [], True
    served.url = f"http://127.0.0.1:{served.server_address[1]}"
    thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield served
    served.shutdown()
    served.server_close()
    thread.join()


def offer(server, name: str, content: bytes, **more) -> Download:
    """Publish a file on the server, with its checksum."""
    server.files[f"/{name}"] = content
    fields = {
        "urls": (f"{server.url}/{name}",),
        "checksum": f"md5:{hashlib.md5(content).hexdigest()}",
        "path": f"raw/{name}",
    }
    return Download(**(fields | more))


def names(folder: Path) -> list[str]:
    """Return what is in a folder, without the lock."""
    return sorted(p.name for p in folder.rglob("*") if p.is_file() and p.name != ".fetch.lock")


def test_a_file_comes_once_and_quietly(server, tmp_path, capfd):
    download = offer(server, "a.gz", CONTENT)
    fetch(download, tmp_path / "new" / "folder")
    fetch(download, tmp_path / "new" / "folder")
    assert (tmp_path / "new" / "folder" / "raw" / "a.gz").read_bytes() == CONTENT
    assert server.seen == [("/a.gz", None)]
    assert names(tmp_path) == ["a.gz"]
    assert capfd.readouterr() == ("", "")  # no terminal, no bar


def test_a_sha256_is_a_checksum_too(server, tmp_path):
    download = offer(server, "a", b"abc", checksum=f"sha256:{hashlib.sha256(b'abc').hexdigest()}")
    fetch(download, tmp_path)
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize(
    "text", ["", "md5:", "md5:xyz", "abc", "sha1:" + "0" * 40, "md5:" + "0" * 31]
)
def test_what_is_no_checksum_is_refused_before_any_download(text):
    with pytest.raises(ValueError, match="no checksum"):
        Download(urls=("http://127.0.0.1/",), checksum=text, path="a")
    with pytest.raises(ValueError, match="no checksum"):
        split_checksum(text)


def test_a_download_that_breaks_off_goes_on_at_the_same_byte(server, tmp_path):
    server.breaks = [100_000, 200_000]
    fetch(offer(server, "a", CONTENT), tmp_path)
    assert (tmp_path / "raw" / "a").read_bytes() == CONTENT
    starts = [int(r.removeprefix("bytes=")[:-1]) if r else 0 for _, r in server.seen]
    assert starts[0] == 0
    # A block that breaks off is lost, and no more.
    assert all(
        0 <= end - s < 1 << 14 for end, s in zip((100_000, 200_000), starts[1:], strict=True)
    )


def test_a_later_call_goes_on_with_what_an_earlier_one_left(server, tmp_path):
    download = offer(server, "a", CONTENT)
    server.breaks = [120_000, 0, 0]  # the second and third bring nothing
    with pytest.raises(DataMissing, match="goes on where this stopped") as refusal:
        fetch(download, tmp_path)
    assert all(
        part in str(refusal.value) for part in (download.urls[0], "data.root", "task=digits")
    )
    assert "\n" not in str(refusal.value)
    left = (tmp_path / "raw" / "a.part").read_bytes()
    assert len(left) > 100_000
    assert CONTENT.startswith(left)
    server.seen.clear()
    fetch(download, tmp_path)
    assert server.seen == [("/a", f"bytes={len(left)}-")]
    assert (tmp_path / "raw" / "a").read_bytes() == CONTENT
    assert names(tmp_path) == ["a"]


def test_a_server_without_ranges_sends_all_of_it_again(server, tmp_path):
    server.ranges, server.breaks = False, [100_000]
    fetch(offer(server, "a", CONTENT), tmp_path)
    assert (tmp_path / "raw" / "a").read_bytes() == CONTENT
    assert len(server.seen) == 2


@pytest.mark.parametrize("left", [CONTENT, CONTENT + b"more"])
def test_what_was_left_may_be_all_of_it_or_too_much(left, server, tmp_path):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.part").write_bytes(left)
    fetch(offer(server, "a", CONTENT), tmp_path)
    assert (tmp_path / "raw" / "a").read_bytes() == CONTENT
    assert names(tmp_path) == ["a"]


def test_another_file_than_the_published_one_is_refused_and_not_kept(server, tmp_path):
    download = offer(server, "a", CONTENT)
    server.files["/a"] = b"<html>moved</html>"
    with pytest.raises(DataDamaged, match="not the published file") as refusal:
        fetch(download, tmp_path)
    assert download.urls[0] in str(refusal.value)
    assert download.checksum in str(refusal.value)
    assert names(tmp_path) == []


def test_what_was_left_of_another_file_is_thrown_away(server, tmp_path):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.part").write_bytes(b"of an older version")
    download = offer(server, "a", CONTENT)
    with pytest.raises(DataDamaged, match="not the published file"):
        fetch(download, tmp_path)
    assert names(tmp_path) == []
    fetch(download, tmp_path)
    assert (tmp_path / "raw" / "a").read_bytes() == CONTENT


def test_the_next_address_is_asked_if_one_does_not_have_it(server, tmp_path):
    server.files["/wrong"] = b"something else"
    urls = tuple(f"{server.url}/{name}" for name in ("absent", "wrong", "a"))
    fetch(offer(server, "a", CONTENT, urls=urls), tmp_path)
    assert (tmp_path / "raw" / "a").read_bytes() == CONTENT
    assert [path for path, _ in server.seen] == ["/absent", "/wrong", "/a"]


def test_where_nobody_answers_the_ways_out_are_named(server, tmp_path):
    download = offer(server, "a", CONTENT)
    del server.files["/a"]
    with pytest.raises(DataMissing, match="404") as refusal:
        fetch(download, tmp_path)
    assert all(p in str(refusal.value) for p in ("Try again", "data.root", "task=digits"))


def test_a_file_of_the_users_is_never_written_over(server, tmp_path):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a").write_bytes(b"mine")
    with pytest.raises(DataDamaged, match="delete it"):
        fetch(offer(server, "a", CONTENT), tmp_path)
    assert (tmp_path / "raw" / "a").read_bytes() == b"mine"
    assert server.seen == []


def test_several_at_once_download_once(server, tmp_path):
    download = offer(server, "a", CONTENT)
    threads = [threading.Thread(target=fetch, args=(download, tmp_path)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.seen == [("/a", None)]
    assert (tmp_path / "raw" / "a").read_bytes() == CONTENT


def test_a_terminal_shows_what_is_coming(server, tmp_path, monkeypatch):
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        fetch(offer(server, "photographs.bin", CONTENT), tmp_path)
        shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert "photographs.bin" in shown
    assert "300.0/300.0 kB" in shown


# Archives


def tar_of(**files: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tape:
        for name, content in files.items():
            member = tarfile.TarInfo(name.replace("__", "/"))
            member.size = len(content)
            tape.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def zip_of(**files: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as pack:
        for name, content in files.items():
            pack.writestr(name.replace("__", "/"), content)
    return buffer.getvalue()


@pytest.mark.parametrize(("name", "pack"), [("a.tar.gz", tar_of), ("a.zip", zip_of)])
def test_an_archive_becomes_its_folder(name, pack, server, tmp_path):
    content = pack(set__x=b"one", set__deep__y=b"two")
    fetch(offer(server, name, content, path="set", unpacked=100), tmp_path)
    assert (tmp_path / "set" / "x").read_bytes() == b"one"
    assert (tmp_path / "set" / "deep" / "y").read_bytes() == b"two"
    assert names(tmp_path) == ["x", "y"]  # not the archive, which has done its work
    fetch(offer(server, name, content, path="set", unpacked=100), tmp_path)
    assert len(server.seen) == 1


def test_an_archive_without_a_folder_gets_one(server, tmp_path):
    content = tar_of(yes__1=b"one", no__2=b"two")
    fetch(offer(server, "a.tar.gz", content, path="words/v2", unpacked=100), tmp_path)
    assert (tmp_path / "words" / "v2" / "yes" / "1").read_bytes() == b"one"
    modes = [(tmp_path / name).stat().st_mode for name in ("words", "words/v2")]
    assert modes[0] == modes[1]  # what a temporary folder lets nobody else read


def test_only_what_is_wanted_is_unpacked(server, tmp_path):
    content = tar_of(set__x=b"one", set__large=b"two")
    download = offer(server, "a.tar.gz", content, path="set", unpacked=100, keep=["set/x"])
    fetch(download, tmp_path)
    assert names(tmp_path) == ["x"]


def test_an_archive_that_was_there_is_used_and_left(server, tmp_path):
    content = tar_of(set__x=b"one")
    (tmp_path / "a.tar.gz").write_bytes(content)
    fetch(offer(server, "a.tar.gz", content, path="set", unpacked=100), tmp_path)
    assert names(tmp_path) == ["a.tar.gz", "x"]
    assert server.seen == []


def evil_tar(path: Path, how: str) -> None:
    member = tarfile.TarInfo("set/inner")
    match how:
        case "link":
            member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        case "hard link":
            member.type, member.linkname = tarfile.LNKTYPE, "set/x"
        case "device":
            member.type = tarfile.CHRTYPE
        case "pipe":
            member.type = tarfile.FIFOTYPE
        case "below a file":
            member.name = "set/x/y"
        case _:
            member.name = how
    with tarfile.open(path, "w:gz") as tape:
        good = tarfile.TarInfo("set/x")
        good.size = 3
        tape.addfile(good, io.BytesIO(b"one"))
        tape.addfile(member)


def evil_zip(path: Path, how: str) -> None:
    info = zipfile.ZipInfo("set/inner")
    match how:
        case "link":
            info.external_attr = (stat.S_IFLNK | 0o777) << 16
        case "device":
            info.external_attr = (stat.S_IFCHR | 0o777) << 16
        case _:
            info.filename = how
    with zipfile.ZipFile(path, "w") as pack:
        pack.writestr("set/x", "one")
        pack.writestr(info, "/etc/passwd")


OUTSIDE = ["../evil", "set/../../evil", "/tmp/evil", "..\\evil", "C:/evil", "set/.."]


@pytest.mark.parametrize(
    ("make", "name", "how"),
    [
        *((evil_tar, "a.tar.gz", how) for how in OUTSIDE),
        *((evil_zip, "a.zip", how) for how in OUTSIDE),
        *((evil_tar, "a.tar.gz", how) for how in ("link", "hard link", "device", "pipe")),
        *((evil_tar, "a.tar.gz", how) for how in ("below a file",)),
        *((evil_zip, "a.zip", how) for how in ("link", "device")),
    ],
)
def test_an_archive_that_would_write_elsewhere_is_refused_whole(make, name, how, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    make(folder / name, how)
    before = names(tmp_path)
    with pytest.raises(DataDamaged, match=name) as refusal:
        unpack(folder / name, folder / "set", limit=1000)
    assert "fetch it again" in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert names(tmp_path) == before
    assert [p.name for p in folder.iterdir()] == [name]


def test_an_evil_archive_is_not_unpacked_even_if_it_is_the_published_one(server, tmp_path):
    evil_tar(tmp_path / "made", "../../evil")
    content = (tmp_path / "made").read_bytes()
    root = tmp_path / "deep" / "data"
    with pytest.raises(DataDamaged, match="does not stay in the folder"):
        fetch(offer(server, "a.tar.gz", content, path="set", unpacked=100), root)
    assert names(tmp_path) == ["a.tar.gz", "made"]


def test_what_a_killed_attempt_left_is_cleared_away(tmp_path):
    (tmp_path / ".unpacking-set" / "set").mkdir(parents=True)
    (tmp_path / ".unpacking-set" / "set" / "half").write_bytes(b"12")
    (tmp_path / "a.tar.gz").write_bytes(tar_of(set__x=b"one"))
    unpack(tmp_path / "a.tar.gz", tmp_path / "set", limit=3)
    assert names(tmp_path) == ["a.tar.gz", "x"]


@pytest.mark.parametrize(("name", "pack"), [("a.tar.gz", tar_of), ("a.zip", zip_of)])
@pytest.mark.parametrize("how", ["large", "cut", "empty", "page", "flipped", "lacks"])
def test_a_damaged_archive_is_named_and_leaves_nothing(name, pack, how, tmp_path):
    path = tmp_path / name
    content = pack(set__x=CONTENT[:5000], set__y=b"two")
    middle = len(content) // 2
    match how:
        case "cut":
            content = content[:middle]
        case "empty":
            content = b""
        case "page":
            content = b"<html>404</html>"
        case "flipped":
            content = content[:middle] + bytes(8) + content[middle + 8 :]
    path.write_bytes(content)
    limit = 5002 if how == "large" else 5003
    keep = ["set/z"] if how == "lacks" else None
    with pytest.raises(DataDamaged, match=name):
        unpack(path, tmp_path / "set", limit=limit, keep=keep)
    assert names(tmp_path) == [name]
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_no_size_is_believed_before_it_is_added_up(tmp_path):
    """A megabyte that would become a gigabyte is refused without being looked through."""
    with gzip.open(tmp_path / "a.tar.gz", "wb", compresslevel=1) as file:
        member = tarfile.TarInfo("set/zeros")
        member.size = 2**40
        file.write(member.tobuf())
        file.write(bytes(1 << 20))
    with pytest.raises(DataDamaged, match="more than 1,000 bytes"):
        unpack(tmp_path / "a.tar.gz", tmp_path / "set", limit=1000)


# Tasks


def small_cifar() -> bytes:
    """An archive like CIFAR-10's, with four images in each file."""
    random = np.random.RandomState(0)
    files = {}
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        records = random.randint(0, 256, (4, 3073)).astype(np.uint8)
        records[:, 0] = np.arange(4)
        files[f"cifar-10-batches-bin__{name}.bin"] = records.tobytes()
    return tar_of(**files)


@pytest.fixture
def offered(server, monkeypatch):
    """The task cifar10, published on the server of the test."""
    download = offer(
        server,
        "cifar-10-binary.tar.gz",
        small_cifar(),
        path="cifar-10-batches-bin",
        unpacked=200_000,
    )
    task = replace(TASKS["cifar10"], fetch=fetcher(download))
    monkeypatch.setitem(TASKS, "cifar10", task)
    return task


def test_a_task_is_fetched_only_if_asked_and_only_if_absent(offered, server, tmp_path):
    with pytest.raises(DataMissing, match=r"data\.fetch=true"):
        offered.load(tmp_path)
    assert server.seen == []
    first = offered.load(tmp_path, fetch=True)
    assert (len(first.train), len(first.val), len(first.test)) == (18, 2, 4)
    offered.load(tmp_path, fetch=True)
    assert len(server.seen) == 1


def test_one_word_of_the_command_fetches(offered, tmp_path):
    words = ["task=cifar10", f"data.root={tmp_path / 'data'}"]
    assert compose(words).data.fetch is False
    config = compose([*words, "data.fetch=true"])
    assert len(load_splits(config, offered).test) == 4
    assert names(tmp_path / "data") == sorted(
        [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
    )


def test_a_folder_that_lacks_files_is_not_written_into(offered, tmp_path):
    (tmp_path / "cifar-10-batches-bin").mkdir()
    (tmp_path / "cifar-10-batches-bin" / "data_batch_1.bin").write_bytes(b"mine")
    with pytest.raises(DataMissing, match="move that away"):
        offered.load(tmp_path, fetch=True)
    assert names(tmp_path) == ["data_batch_1.bin"]


FETCHED = [
    "smnist",
    "pmnist",
    "mnist",
    "cifar10",
    "scifar10",
    "image",
    "image2d",
    "cifar100",
    "stl10",
]


@pytest.mark.parametrize("name", FETCHED)
def test_these_tasks_can_be_fetched(name, tmp_path):
    assert TASKS[name].fetch is not None
    with pytest.raises(DataMissing) as refusal:
        TASKS[name].load(tmp_path)
    message = str(refusal.value)
    assert all(p in message for p in ("data.fetch=true", "data.root", "task=digits"))
    assert "\n" not in message
