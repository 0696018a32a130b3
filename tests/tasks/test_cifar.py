"""CIFAR-10 and CIFAR-100 from every form they are found in, and from no damaged one."""

import hashlib
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from ccnn.tasks import TASKS, DataDamaged
from ccnn.tasks.cifar_files import (
    CIFAR10_FILES,
    CIFAR100_FILES,
    CifarFiles,
    read_cifar_binary,
    read_cifar_pickle,
)
from ccnn.tasks.unpickle import read_pickle

FILES = {"cifar10": CIFAR10_FILES, "cifar100": CIFAR100_FILES}


def images_of(files: CifarFiles, n: int = 4) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return n random images and labels for every file."""
    random = np.random.RandomState(1)
    return {
        name: (
            random.randint(0, 256, (n, 3, 32, 32)).astype(np.uint8),
            random.randint(0, files.classes, n).astype(np.uint8),
        )
        for name in (*files.train, *files.test)
    }


def write_binary(folder: Path, files: CifarFiles, n: int = 4) -> dict:
    """Write the binary files; in CIFAR-100 the coarse label is another than the fine one."""
    (folder / files.binary).mkdir(parents=True)
    made = images_of(files, n)
    for name, (x, y) in made.items():
        labels = np.stack([y // 5, y], axis=1) if files.label_bytes == 2 else y[:, None]
        records = np.concatenate([labels.astype(np.uint8), x.reshape(n, -1)], axis=1)
        (folder / files.binary / f"{name}.bin").write_bytes(records.tobytes())
    return made


@pytest.mark.parametrize("name", FILES)
def test_binary_files_are_read_in_their_order(name, tmp_path):
    made = write_binary(tmp_path, FILES[name])
    load = FILES[name].find(tmp_path)
    assert load is not None
    for part, files in zip(load(), (FILES[name].train, FILES[name].test), strict=True):
        np.testing.assert_array_equal(part[0], np.concatenate([made[f][0] for f in files]))
        np.testing.assert_array_equal(part[1], np.concatenate([made[f][1] for f in files]))


def test_a_record_is_red_then_green_then_blue_row_by_row(tmp_path):
    record = np.zeros(3073, np.uint8)
    record[0] = 7
    record[1 + 1024 * 2 + 32 * 5 + 9] = 200  # blue, row 5, column 9
    (tmp_path / "a.bin").write_bytes(record.tobytes())
    images, labels = read_cifar_binary(tmp_path / "a.bin")
    assert labels.tolist() == [7]
    assert np.argwhere(images).tolist() == [[0, 2, 5, 9]]
    assert images[0, 2, 5, 9] == 200


@pytest.mark.parametrize(
    ("name", "mean", "std"),
    [
        ("cifar10", (0.4914, 0.4822, 0.4465), (0.247, 0.243, 0.261)),
        ("cifar100", (0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)),
    ],
)
def test_colours_are_standardised_as_published(name, mean, std, tmp_path):
    made = write_binary(tmp_path, FILES[name])
    splits = TASKS[name].load(tmp_path)
    (test,) = FILES[name].test
    for c in range(3):
        expected = (made[test][0][:, c] / 255.0 - mean[c]) / std[c]
        np.testing.assert_allclose(splits.test.x[:, c], expected, atol=1e-5)
    np.testing.assert_array_equal(splits.test.y, made[test][1])


def test_no_image_is_in_two_parts_and_none_is_lost(tmp_path):
    made = write_binary(tmp_path, CIFAR10_FILES, n=10)
    splits = TASKS["cifar10"].load(tmp_path)
    assert (len(splits.train), len(splits.val), len(splits.test)) == (45, 5, 10)
    first = torch.cat([splits.train.x, splits.val.x])[:, 0, 0, :8]
    whole = np.concatenate([made[name][0] for name in CIFAR10_FILES.train])[:, 0, 0, :8]
    back = (first * 0.247 + 0.4914) * 255
    assert sorted(map(tuple, back.round().int().tolist())) == sorted(map(tuple, whole.tolist()))


def write_full(folder: Path, files: CifarFiles) -> None:
    """Write random files of the published sizes."""
    (folder / files.binary).mkdir()
    for name, count in (files.train | files.test).items():
        records = np.frombuffer(os.urandom(1 << 20), np.uint8)
        records = np.resize(records, (count, files.label_bytes + 3072))
        records[:, : files.label_bytes] = 3
        records.tofile(folder / files.binary / f"{name}.bin")


def test_files_of_the_published_sizes_are_the_whole_set_or_damaged(tmp_path):
    write_full(tmp_path, CIFAR10_FILES)
    splits = TASKS["cifar10"].load(tmp_path)
    assert (len(splits.train), len(splits.val), len(splits.test)) == TASKS["cifar10"].counts

    # As long as they should be, but for one: it is damaged, even at the end of a record.
    path = tmp_path / CIFAR10_FILES.binary / "data_batch_3.bin"
    os.truncate(path, 9_999 * 3073)
    with pytest.raises(DataDamaged, match=r"data_batch_3\.bin .*9999 images"):
        TASKS["cifar10"].load(tmp_path)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("how", ["cut", "empty", "longer", "page", "label"])
def test_a_damaged_binary_file_is_named_with_what_to_do(name, how, tmp_path):
    write_binary(tmp_path, FILES[name])
    path = tmp_path / FILES[name].binary / f"{next(iter(FILES[name].train))}.bin"
    content = path.read_bytes()
    at = FILES[name].label_bytes - 1
    changed = {
        "cut": content[:-1],
        "empty": b"",
        "longer": content + b"1",
        "page": b"<html>404</html>",
        "label": content[:at] + bytes([FILES[name].classes]) + content[at + 1 :],
    }
    path.write_bytes(changed[how])
    with pytest.raises(DataDamaged, match="delete it and fetch it again") as refusal:
        TASKS[name].load(tmp_path)
    assert str(path) in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_cifar100_is_no_cifar10(tmp_path):
    """The records of one are a byte longer, and 50,000 of them no whole number of the other's."""
    assert 50_000 * 3074 % 3073
    write_binary(tmp_path, CIFAR100_FILES)
    with pytest.raises(DataDamaged, match="records of 3073"):
        read_cifar_binary(tmp_path / CIFAR100_FILES.binary / "train.bin")


def test_the_whole_set_goes_before_a_part_of_it(tmp_path):
    write_binary(tmp_path, CIFAR10_FILES)
    (tmp_path / "cifar10_subset.npz").write_bytes(b"not looked at")
    assert len(TASKS["cifar10"].load(tmp_path).test) == 4


# The pickles that torchvision leaves


def write_pickles(folder: Path, files: CifarFiles, protocol: int = 4) -> dict:
    """Write pickles like the published ones, and return their images."""
    (folder / files.pickled).mkdir()
    made = images_of(files)
    for name, (x, y) in made.items():
        content = {b"data": x.reshape(len(x), -1), files.key: y.tolist(), b"batch_label": b"1"}
        (folder / files.pickled / name).write_bytes(pickle.dumps(content, protocol=protocol))
    return made


def md5_of(path: Path) -> str:
    return hashlib.md5(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("protocol", [3, 4])
def test_a_pickle_with_the_right_md5_is_read(name, protocol, tmp_path):
    files = FILES[name]
    made = write_pickles(tmp_path, files, protocol)
    for file, (x, y) in made.items():
        path = tmp_path / files.pickled / file
        images, labels = read_cifar_pickle(path, md5_of(path), files.key, files.classes)
        np.testing.assert_array_equal(images, x)
        np.testing.assert_array_equal(labels, y)


def test_a_pickle_as_python_2_wrote_it_is_read(tmp_path):
    """The opcodes of the published files, byte by byte: texts and pixels are BINSTRINGs."""
    pixels = np.arange(3072, dtype=np.int64).astype(np.uint8).tobytes()
    state = b"K\x01K\x01M\x00\x0c\x86q\x0b" + dtype_opcodes() + b"\x89"
    state += b"T" + len(pixels).to_bytes(4, "little") + pixels
    content = b"\x80\x02}q\x01(U\x04dataq\x02"
    content += b"cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04"
    content += b"K\x00\x85U\x01b\x87Rq\x05(" + state + b"tb"
    content += b"U\x06labelsq\x11]q\x12K\x06au."
    path = tmp_path / "data_batch_1"
    path.write_bytes(content)
    images, labels = read_cifar_pickle(path, md5_of(path), b"labels", 10)
    assert labels.tolist() == [6]
    assert images.tobytes() == pixels


def dtype_opcodes() -> bytes:
    make = b"cnumpy\ndtype\nq\x0cU\x02u1K\x00K\x01\x87Rq\x0d"
    return make + b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"


@pytest.mark.parametrize("name", FILES)
def test_a_pickle_that_nobody_published_is_not_opened(name, tmp_path):
    write_pickles(tmp_path, FILES[name])
    assert TASKS[name].present(tmp_path)
    with pytest.raises(DataDamaged, match="not the published file") as refusal:
        TASKS[name].load(tmp_path)
    assert next(iter(FILES[name].train)) in str(refusal.value)
    assert "data.fetch=true" in str(refusal.value)
    assert "\n" not in str(refusal.value)


class Evil:
    def __reduce__(self):
        return os.mkdir, (os.environ["CCNN_TEST_EVIL"],)


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("inside", [Evil(), np.float64, Path("a"), print])
def test_even_then_nothing_but_arrays_comes_out(inside, protocol, tmp_path, monkeypatch):
    monkeypatch.setenv("CCNN_TEST_EVIL", str(tmp_path / "made"))
    path = tmp_path / "train"
    path.write_bytes(pickle.dumps({b"data": inside}, protocol=protocol))
    with pytest.raises(DataDamaged, match="is not allowed"):
        read_pickle(path, md5_of(path))
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html>",
        pickle.dumps([1], protocol=4),
        pickle.dumps({b"data": 1, b"labels": [1]}, protocol=4),
        pickle.dumps({b"data": np.zeros((1, 3072), np.uint8), b"labels": [10]}, protocol=4),
        pickle.dumps({b"data": np.zeros((1, 3072), np.uint8), b"labels": [1, 2]}, protocol=4),
        pickle.dumps({b"data": np.zeros((1, 3072)), b"labels": [1]}, protocol=4),
        pickle.dumps({b"data": np.zeros((1, 3071), np.uint8), b"labels": [1]}, protocol=4),
    ],
)
def test_a_pickle_with_something_else_in_it_is_refused(content, tmp_path):
    path = tmp_path / "data_batch_1"
    path.write_bytes(content)
    with pytest.raises(DataDamaged, match="data_batch_1"):
        read_cifar_pickle(path, md5_of(path), b"labels", 10)
