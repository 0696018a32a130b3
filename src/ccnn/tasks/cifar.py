"""CIFAR-10 and CIFAR-100 as images and sequences, in colour and in grey (App. A)."""

import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ccnn.tasks.augment import crop_and_flip, crop_and_flip_sequence
from ccnn.tasks.task import DataDamaged, Samples, Splits, Task, hold_out

FILES = ("cifar10.npz", "cifar10_subset.npz")
MEAN = torch.tensor([0.4914, 0.4822, 0.4465]).view(3, 1, 1)
STD = torch.tensor([0.247, 0.243, 0.261]).view(3, 1, 1)
GREY = torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)  # ITU-R 601
GREY_MEAN, GREY_STD = 122.6 / 255, 61 / 255


def find_file(root: Path) -> Path | None:
    """Return the file of arrays in a folder, the whole set before a part of it."""
    return next((root / name for name in FILES if (root / name).is_file()), None)


def colour(x: Tensor) -> Tensor:
    """(n, 3, 32, 32) in [0, 1] -> the same, standardised by channel."""
    return (x - MEAN) / STD


def grey(x: Tensor) -> Tensor:
    """(n, 3, 32, 32) in [0, 1] -> (n, 1, 32, 32), standardised."""
    return ((x * GREY).sum(1, keepdim=True) - GREY_MEAN) / GREY_STD


def reader(prepare: Callable[[Tensor], Tensor], *, flat: bool) -> Callable[[Path], Splits]:
    """Return a function that reads a folder; flat makes sequences, row by row, of the images."""

    def read(root: Path) -> Splits:
        path = find_file(root)
        assert path is not None  # `find` has seen it
        arrays = read_arrays(path)
        parts = []
        for part in ("train", "test"):
            x = prepare(torch.from_numpy(arrays[f"x_{part}"]).float() / 255)
            y = torch.from_numpy(arrays[f"y_{part}"].astype(np.int64))
            parts.append(Samples(x.flatten(-2) if flat else x, y))
        train, val = hold_out(parts[0], len(parts[0]) // 10)  # 5,000 of 50,000
        return Splits(train, val, parts[1])

    return read


def read_arrays(path: Path) -> dict[str, np.ndarray]:
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
        raise DataDamaged(f"{path} is damaged ({error}): delete it and fetch it again") from error
    for name, shape in wanted.items():
        array = arrays[name]
        if array.dtype != np.uint8 or array.shape[1:] != shape or array.ndim != 1 + len(shape):
            raise DataDamaged(
                f"{path}: {name} is {array.dtype} {array.shape}; expected uint8 "
                f"({', '.join(map(str, ('n', *shape)))}): make it again"
            )
    for part in ("train", "test"):
        images, labels = arrays[f"x_{part}"], arrays[f"y_{part}"]
        if len(images) != len(labels) or not len(labels) or labels.max() > 9:
            raise DataDamaged(
                f"{path}: {len(images)} images and {len(labels)} labels in the {part} part; "
                "expected as many, with labels from 0 to 9: make it again"
            )
    return arrays


_CIFAR10: dict[str, Any] = {
    "classes": 10,
    "counts": (45_000, 5_000, 10_000),
    "source": "CIFAR-10, cs.toronto.edu/~kriz/cifar.html, its arrays saved as cifar10.npz",
    "files": " or ".join(FILES) + " (x_train, y_train, x_test, y_test as bytes)",
    "find": lambda root: find_file(root) is not None,
}
CIFAR10 = Task(
    name="cifar10",
    title="CIFAR-10",
    size=(32, 32),
    in_channels=3,
    paper={"ccnn_4_140": 92.78, "ccnn_6_380": 95.20},
    read=reader(colour, flat=False),
    augment=crop_and_flip,
    **_CIFAR10,
)
SCIFAR10 = Task(
    name="scifar10",
    title="sequential CIFAR-10",
    size=(1024,),
    in_channels=3,
    paper={"ccnn_4_140": 90.30, "ccnn_6_380": 93.08},
    read=reader(colour, flat=True),
    augment=crop_and_flip_sequence,
    **_CIFAR10,
)
IMAGE = Task(
    name="image",
    title="LRA Image, grey CIFAR-10 pixel by pixel",
    size=(1024,),
    in_channels=1,
    paper={"ccnn_4_140": 87.62, "ccnn_6_380": 88.90},
    read=reader(grey, flat=True),
    augment=crop_and_flip_sequence,
    **_CIFAR10,
)
IMAGE2D = Task(
    name="image2d",
    title="LRA Image in 2-D, grey CIFAR-10",
    size=(32, 32),
    in_channels=1,
    paper={"ccnn_4_140": 89.48, "ccnn_6_380": 91.12},
    read=reader(grey, flat=False),
    augment=crop_and_flip,
    **_CIFAR10,
)
CIFAR100 = Task(
    name="cifar100",
    title="CIFAR-100",
    size=(32, 32),
    in_channels=3,
    classes=100,
    counts=(45_000, 5_000, 10_000),
    source="CIFAR-100, cs.toronto.edu/~kriz/cifar.html",
    paper={"ccnn_4_140": 66.86, "ccnn_6_380": 73.16},
    augment=crop_and_flip,
)
