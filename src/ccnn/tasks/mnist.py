"""MNIST as a sequence, as a shuffled sequence, and as images (App. A)."""

import gzip
import hashlib
import math
import struct
import zlib
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import torch

from ccnn.tasks.fetch import Download, fetcher
from ccnn.tasks.task import DataDamaged, Samples, Splits, Task, hold_out

IMAGES = {"train": "train-images-idx3-ubyte", "test": "t10k-images-idx3-ubyte"}
LABELS = {"train": "train-labels-idx1-ubyte", "test": "t10k-labels-idx1-ubyte"}
COUNTS = (55_000, 5_000, 10_000)
MEAN, STD = 0.1307, 0.3081
FOLDER = "MNIST/raw"  # torchvision's
# Of each file: the first axis of its array, the md5 of what it holds, and that of it compressed.
PUBLISHED = {
    IMAGES["train"]: (
        60_000,
        "6bbc9ace898e44ae57da46a324031adb",
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    ),
    LABELS["train"]: (
        60_000,
        "a25bea736e30d166cdddb491f175f624",
        "d53e105ee54ea40749a09fcbcd1e9432",
    ),
    IMAGES["test"]: (
        10_000,
        "2646ac647ad5339dbf082846283269ea",
        "9fb629c4189551a2d022fa330f9573f3",
    ),
    LABELS["test"]: (
        10_000,
        "27ae3e4e09519cfbb04c329615203637",
        "ec29112dd5afa0611ce80d1b7f02629c",
    ),
}


def find_file(root: Path, name: str) -> Path | None:
    """Return the file of that name in ``root/MNIST/raw`` or ``root``, compressed or not."""
    for folder in (root / FOLDER, root):
        for path in (folder / f"{name}.gz", folder / name):
            if path.is_file():
                return path
    return None


def find(root: Path) -> bool:
    """Tell whether all four files are there."""
    return all(find_file(root, name) for name in (*IMAGES.values(), *LABELS.values()))


def read_idx(path: Path, dim: int) -> np.ndarray:
    """Read a file of unsigned bytes in the IDX format.

    Its header is two zeros, 8 (the type), the number of axes, and each axis as 4 bytes.
    """
    try:
        with cast(IO[bytes], gzip.open(path) if path.suffix == ".gz" else path.open("rb")) as file:
            start = file.read(4 + 4 * dim)
            if len(start) < 4 + 4 * dim:
                raise DataDamaged(_damaged(path, f"it ends after {len(start)} bytes"))
            if start[:4] != bytes([0, 0, 8, dim]):
                raise DataDamaged(_damaged(path, f"it does not begin like IDX with {dim} axes"))
            shape = struct.unpack(f">{dim}I", start[4:])
            if not 0 < math.prod(shape) <= 2**30:
                raise DataDamaged(_damaged(path, f"it says that its shape is {shape}"))
            content = file.read(math.prod(shape) + 1)  # never more than one byte too many
    except (OSError, EOFError, zlib.error) as error:
        if isinstance(error, PermissionError):
            raise
        raise DataDamaged(_damaged(path, str(error))) from error
    if len(content) != math.prod(shape):
        raise DataDamaged(_damaged(path, f"it should hold {math.prod(shape)} values, and does not"))
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)


def check_content(path: Path, array: np.ndarray) -> None:
    """Refuse an array as long as a published one that is another.

    What is compared is what the file holds, so that it may be compressed anew, or not at all.
    """
    count, md5, _ = PUBLISHED[path.name.removesuffix(".gz")]
    if len(array) == count and _idx_digest(array) != md5:
        why = f"what it holds is not what was published, with the md5 {md5}"
        raise DataDamaged(_damaged(path, why))


def _idx_digest(array: np.ndarray) -> str:
    head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    digest = hashlib.md5(head, usedforsecurity=False)
    digest.update(array.tobytes())
    return digest.hexdigest()


def _damaged(path: Path, why: str) -> str:
    return f"{path} is damaged ({why}): delete it and fetch it again"


def read_part(root: Path, part: str) -> Samples:
    """Return one part as sequences, (n, 1, 784)."""
    image_file, label_file = find_file(root, IMAGES[part]), find_file(root, LABELS[part])
    assert image_file is not None  # `find` has seen them
    assert label_file is not None
    images, labels = read_idx(image_file, 3), read_idx(label_file, 1)
    if images.shape[1:] != (28, 28):
        raise DataDamaged(_damaged(image_file, f"its images are {images.shape[1:]}, not 28 x 28"))
    if len(images) != len(labels):
        raise DataDamaged(
            f"{image_file} holds {len(images)} images and {label_file} {len(labels)} labels: they "
            "do not belong together; delete both and fetch them again"
        )
    if labels.max() > 9:
        raise DataDamaged(_damaged(label_file, f"it holds the label {labels.max()}"))
    check_content(image_file, images)
    check_content(label_file, labels)
    x = torch.from_numpy(images.astype(np.float32)).flatten(1)[:, None]
    return Samples(x.div_(255).sub_(MEAN).div_(STD), torch.from_numpy(labels.astype(np.int64)))


def read(root: Path) -> Splits:
    """Return digits as sequences of pixels, row by row."""
    train = read_part(root, "train")
    kept, val = hold_out(train, len(train) // 12)  # 5,000 of 60,000
    return Splits(kept, val, read_part(root, "test"))


def read_permuted(root: Path) -> Splits:
    """Return the sequences with their pixels in one random order, the published one."""
    order = torch.from_numpy(np.random.RandomState(0).permutation(784))
    return read(root).map(lambda x: x[..., order])


def read_images(root: Path) -> Splits:
    """Return digits as images."""
    return read(root).map(lambda x: x.reshape(-1, 1, 28, 28))


# What the three tasks share.
_SHARED: dict[str, Any] = {
    "in_channels": 1,
    "classes": 10,
    "counts": COUNTS,
    "source": "the four IDX files of MNIST, yann.lecun.com/exdb/mnist and its mirrors",
    "files": "train-images-idx3-ubyte and its three fellows (.gz or not; or in MNIST/raw)",
    "find": find,
    "fetch": fetcher(
        *(
            Download(
                urls=(
                    f"https://ossci-datasets.s3.amazonaws.com/mnist/{name}.gz",
                    f"https://storage.googleapis.com/cvdf-datasets/mnist/{name}.gz",
                ),
                checksum=f"md5:{md5}",
                path=f"{FOLDER}/{name}.gz",
            )
            for name, (_, _, md5) in PUBLISHED.items()
        )
    ),
}
SMNIST = Task(
    name="smnist",
    title="sequential MNIST",
    size=(784,),
    paper={"ccnn_4_140": 99.72, "ccnn_6_380": 99.72},
    read=read,
    **_SHARED,
)
PMNIST = Task(
    name="pmnist",
    title="permuted MNIST",
    size=(784,),
    paper={"ccnn_4_140": 98.82, "ccnn_6_380": 98.84},
    read=read_permuted,
    **_SHARED,
)
MNIST = Task(
    name="mnist",
    title="MNIST, as images",
    size=(28, 28),
    read=read_images,
    **_SHARED,
)
