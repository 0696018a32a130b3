"""CIFAR-10 and CIFAR-100 as images and sequences, in colour and in grey (App. A)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ccnn.tasks.augment import crop_and_flip, crop_and_flip_sequence
from ccnn.tasks.cifar_files import CIFAR10_FILES, CIFAR100_FILES, CifarFiles
from ccnn.tasks.fetch import Download, fetcher
from ccnn.tasks.task import Samples, Splits, Task, hold_out

MEAN10, STD10 = (0.4914, 0.4822, 0.4465), (0.247, 0.243, 0.261)
MEAN100, STD100 = (0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)
GREY = (0.299, 0.587, 0.114)  # ITU-R 601
GREY_MEAN, GREY_STD = 122.6 / 255, 61 / 255

Prepare = Callable[[Tensor], Tensor]


def colour(mean: tuple[float, ...], std: tuple[float, ...]) -> Prepare:
    """Return what standardises bytes (n, 3, 32, 32) by channel."""
    scale = 1 / (255 * torch.tensor(std).view(3, 1, 1))
    shift = torch.tensor(mean).view(3, 1, 1) / torch.tensor(std).view(3, 1, 1)
    return lambda images: images.float().mul_(scale).sub_(shift)


def grey(images: Tensor) -> Tensor:
    """Return bytes (n, 3, 32, 32) in grey, (n, 1, 32, 32), standardised."""
    weights = torch.tensor(GREY).view(3, 1, 1) / (255 * GREY_STD)
    return images.float().mul_(weights).sum(1, keepdim=True).sub_(GREY_MEAN / GREY_STD)


def reader(files: CifarFiles, prepare: Prepare, *, flat: bool) -> Callable[[Path], Splits]:
    """Return a function that reads a folder; flat makes sequences, row by row, of the images."""

    def read(root: Path) -> Splits:
        load = files.find(root)
        assert load is not None  # the task has seen it
        train, test = (
            Samples(torch.from_numpy(x), torch.from_numpy(y.astype(np.int64))) for x, y in load()
        )
        # Split as bytes, which are a quarter of the numbers that are made of them.
        kept, val = hold_out(train, len(train) // 10)  # 5,000 of 50,000
        splits = Splits(kept, val, test).map(prepare)
        return splits.map(lambda x: x.flatten(-2)) if flat else splits

    return read


def _download(name: str, folder: str, md5: str) -> Download:
    return Download(
        urls=(
            f"https://www.cs.toronto.edu/~kriz/{name}",
            f"https://cave.cs.toronto.edu/kriz/{name}",
        ),
        checksum=f"md5:{md5}",
        path=folder,
        unpacked=200_000_000,
    )


_CIFAR10: dict[str, Any] = {
    "classes": 10,
    "counts": (45_000, 5_000, 10_000),
    "source": "CIFAR-10, cs.toronto.edu/~kriz/cifar.html, binary version",
    "files": "cifar-10-batches-bin, cifar-10-batches-py, cifar10.npz or cifar10_subset.npz",
    "find": lambda root: CIFAR10_FILES.find(root) is not None,
    "fetch": fetcher(
        _download(
            "cifar-10-binary.tar.gz", CIFAR10_FILES.binary, "c32a1d4ab5d03f1284b67883e8d87530"
        )
    ),
}
CIFAR10 = Task(
    name="cifar10",
    title="CIFAR-10",
    size=(32, 32),
    in_channels=3,
    paper={"ccnn_4_140": 92.78, "ccnn_6_380": 95.20},
    read=reader(CIFAR10_FILES, colour(MEAN10, STD10), flat=False),
    augment=crop_and_flip,
    **_CIFAR10,
)
SCIFAR10 = Task(
    name="scifar10",
    title="sequential CIFAR-10",
    size=(1024,),
    in_channels=3,
    paper={"ccnn_4_140": 90.30, "ccnn_6_380": 93.08},
    read=reader(CIFAR10_FILES, colour(MEAN10, STD10), flat=True),
    augment=crop_and_flip_sequence,
    **_CIFAR10,
)
IMAGE = Task(
    name="image",
    title="LRA Image, grey CIFAR-10 pixel by pixel",
    size=(1024,),
    in_channels=1,
    paper={"ccnn_4_140": 87.62, "ccnn_6_380": 88.90},
    read=reader(CIFAR10_FILES, grey, flat=True),
    augment=crop_and_flip_sequence,
    **_CIFAR10,
)
IMAGE2D = Task(
    name="image2d",
    title="LRA Image in 2-D, grey CIFAR-10",
    size=(32, 32),
    in_channels=1,
    paper={"ccnn_4_140": 89.48, "ccnn_6_380": 91.12},
    read=reader(CIFAR10_FILES, grey, flat=False),
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
    source="CIFAR-100, cs.toronto.edu/~kriz/cifar.html, binary version",
    files="cifar-100-binary, cifar-100-python or cifar100.npz",
    find=lambda root: CIFAR100_FILES.find(root) is not None,
    read=reader(CIFAR100_FILES, colour(MEAN100, STD100), flat=False),
    fetch=fetcher(
        _download(
            "cifar-100-binary.tar.gz", CIFAR100_FILES.binary, "03b5dce01913d631647c71ecec9e9cb8"
        )
    ),
    paper={"ccnn_4_140": 66.86, "ccnn_6_380": 73.16},
    augment=crop_and_flip,
)
