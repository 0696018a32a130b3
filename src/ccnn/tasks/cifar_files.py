"""The files of CIFAR-10 and CIFAR-100: binary, as torchvision leaves them, and as arrays."""

import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ccnn.tasks.task import DataDamaged
from ccnn.tasks.unpickle import read_pickle

PIXELS = 3 * 32 * 32

Part = tuple[np.ndarray, np.ndarray]  # images (n, 3, 32, 32) and labels (n,), both of bytes


@dataclass(frozen=True, kw_only=True)
class CifarFiles:
    """How one of the two data sets lies in a folder.

    Parameters
    ----------
    classes
        10 or 100.
    binary, pickled
        The folders of the binary files and of the pickles.
    train, test
        The files of the two parts, and how many images the published ones hold; binary ones end
        in ``.bin``.
    label_bytes
        How many bytes of a binary record are labels, of which the last is read.
    key
        The name of the labels in a pickle.
    md5
        The published md5 of each pickle.
    whole, part
        Files of arrays: all of the set, or a part of it.
    """

    classes: int
    binary: str
    pickled: str
    train: Mapping[str, int]
    test: Mapping[str, int]
    label_bytes: int
    key: bytes
    md5: Mapping[str, str]
    whole: str
    part: str | None = None

    def find(self, root: Path) -> Callable[[], tuple[Part, Part]] | None:
        """Return what reads training and test images in a folder, or None if nothing is there."""
        names = (*self.train, *self.test)
        binary, pickled = root / self.binary, root / self.pickled
        if all((binary / f"{name}.bin").is_file() for name in names):
            return lambda: self._binary(binary)
        if (root / self.whole).is_file():
            return lambda: read_arrays(root / self.whole, self.classes)
        if all((pickled / name).is_file() for name in names):
            return lambda: (self._unpickle(pickled, self.train), self._unpickle(pickled, self.test))
        if self.part is not None and (part := root / self.part).is_file():
            return lambda: read_arrays(part, self.classes)
        return None

    def _binary(self, folder: Path) -> tuple[Part, Part]:
        parts: dict[str, Part] = {}
        counts = {**self.train, **self.test}
        for name in counts:
            path = folder / f"{name}.bin"
            parts[name] = read_cifar_binary(path, self.label_bytes, self.classes)
        # If one is as long as published, these are no small ones made by hand: all must be.
        if any(len(parts[name][1]) == count for name, count in counts.items()):
            for name, count in counts.items():
                if (found := len(parts[name][1])) != count:
                    why = f"it holds {found} images, not {count}"
                    raise DataDamaged(_damaged(folder / f"{name}.bin", why))
        return _join([parts[n] for n in self.train]), _join([parts[n] for n in self.test])

    def _unpickle(self, folder: Path, names: Iterable[str]) -> Part:
        return _join(
            [read_cifar_pickle(folder / n, self.md5[n], self.key, self.classes) for n in names]
        )


def _join(parts: list[Part]) -> Part:
    return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])


def read_cifar_binary(path: Path, label_bytes: int = 1, classes: int = 10) -> Part:
    """Read a file of records: labels, then 1024 bytes each of red, green and blue, row by row.

    Parameters
    ----------
    path
        The file.
    label_bytes
        1, or 2 in CIFAR-100, whose coarse label stands before the fine one.
    classes
        How many of them the last label knows.

    Shapes
    ------
    result : images (n, 3, 32, 32) and labels (n,), both of unsigned bytes

    Raises
    ------
    DataDamaged
        If it is not such a file.
    """
    record = label_bytes + PIXELS
    size = path.stat().st_size
    if size == 0 or size % record:
        raise DataDamaged(
            _damaged(path, f"it has {size} bytes, which is no number of records of {record}")
        )
    records = np.fromfile(path, np.uint8).reshape(-1, record)
    labels = records[:, label_bytes - 1]
    if labels.max() >= classes:
        raise DataDamaged(_damaged(path, f"it has the label {labels.max()} of {classes}"))
    return records[:, label_bytes:].reshape(-1, 3, 32, 32), labels


def read_cifar_pickle(path: Path, md5: str, key: bytes, classes: int) -> Part:
    """Read a pickle with that md5: images under ``data``, labels under a key; see `read_pickle`."""
    content: dict[bytes, Any] = read_pickle(path, md5)
    images, labels = content.get(b"data"), content.get(key)
    right = (
        isinstance(images, np.ndarray)
        and (images.dtype, images.ndim) == (np.uint8, 2)
        and images.shape[1] == PIXELS
        and isinstance(labels, list)
        and len(labels) == len(images)
        and all(isinstance(label, int) and 0 <= label < classes for label in labels)
    )
    if not right or not isinstance(images, np.ndarray):
        raise DataDamaged(_damaged(path, "it does not hold images and labels"))
    return images.reshape(-1, 3, 32, 32), np.array(labels, np.uint8)


def read_arrays(path: Path, classes: int = 10) -> tuple[Part, Part]:
    """Read images (n, 3, 32, 32) and labels (n,) of both parts, both of unsigned bytes."""
    wanted = {"x_train": (3, 32, 32), "y_train": (), "x_test": (3, 32, 32), "y_test": ()}
    try:
        # Opened here, because np.load leaves a file open that turns out to be no archive.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in wanted}
    except KeyError as error:
        raise DataDamaged(
            f"{path} has no array {error}; expected {', '.join(wanted)}: make it again"
        ) from error
    except (OSError, EOFError, ValueError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        if isinstance(error, PermissionError):
            raise
        raise DataDamaged(_damaged(path, str(error))) from error
    for name, shape in wanted.items():
        array = arrays[name]
        if array.dtype != np.uint8 or array.shape[1:] != shape or array.ndim != 1 + len(shape):
            raise DataDamaged(
                f"{path}: {name} is {array.dtype} {array.shape}; expected uint8 "
                f"({', '.join(map(str, ('n', *shape)))}): make it again"
            )
    for part in ("train", "test"):
        images, labels = arrays[f"x_{part}"], arrays[f"y_{part}"]
        if len(images) != len(labels) or not len(labels) or labels.max() >= classes:
            raise DataDamaged(
                f"{path}: {len(images)} images and {len(labels)} labels in the {part} part; "
                f"expected as many, with labels from 0 to {classes - 1}: make it again"
            )
    return (arrays["x_train"], arrays["y_train"]), (arrays["x_test"], arrays["y_test"])


def _damaged(path: Path, why: str) -> str:
    return f"{path} is damaged ({why}): delete it and fetch it again"


_BATCHES = {f"data_batch_{i}": 10_000 for i in range(1, 6)}
CIFAR10_FILES = CifarFiles(
    classes=10,
    binary="cifar-10-batches-bin",
    pickled="cifar-10-batches-py",
    train=_BATCHES,
    test={"test_batch": 10_000},
    label_bytes=1,
    key=b"labels",
    md5={
        "data_batch_1": "c99cafc152244af753f735de768cd75f",
        "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "data_batch_4": "634d18415352ddfa80567beed471001a",
        "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
        "test_batch": "40351d587109b95175f43aff81a1287e",
    },
    whole="cifar10.npz",
    part="cifar10_subset.npz",
)
CIFAR100_FILES = CifarFiles(
    classes=100,
    binary="cifar-100-binary",
    pickled="cifar-100-python",
    train={"train": 50_000},
    test={"test": 10_000},
    label_bytes=2,
    key=b"fine_labels",
    md5={
        "train": "16019d7e3df5f24257cddd939b257f8d",
        "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
    },
    whole="cifar100.npz",
)
