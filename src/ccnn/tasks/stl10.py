"""STL-10: 13,000 photographs of ten classes (App. A)."""

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ccnn.tasks.arrays import ANY, read_npz
from ccnn.tasks.augment import turn_crop_and_flip
from ccnn.tasks.checksum import check_published
from ccnn.tasks.fetch import Download, fetcher
from ccnn.tasks.splitting import stratified
from ccnn.tasks.task import DataDamaged, Samples, Splits, Task, hold_out

FOLDER, SUBSET = "stl10_binary", "stl10_subset.npz"
SIDE = 96
MEAN = torch.tensor([0.44671097, 0.4398105, 0.4066468]).view(3, 1, 1)
STD = torch.tensor([0.2603405, 0.25657743, 0.27126738]).view(3, 1, 1)
# The length of each published file, and its md5.
PUBLISHED = {
    "train_X.bin": (5_000 * 3 * SIDE**2, "918c2871b30a85fa023e0c44e0bee87f"),
    "train_y.bin": (5_000, "5a34089d4802c674881badbb80307741"),
    "test_X.bin": (8_000 * 3 * SIDE**2, "7f263ba9f9e0b06b93213547f721ac82"),
    "test_y.bin": (8_000, "36f9794fa4beb8a2c72628de14fa638e"),
}


def find(root: Path) -> bool:
    """Tell whether the binary files or a part of the set are there."""
    return _has_binary(root) or (root / SUBSET).is_file()


def _has_binary(root: Path) -> bool:
    return all((root / FOLDER / name).is_file() for name in PUBLISHED)


def read_stl_images(path: Path) -> np.ndarray:
    """Read images of bytes: red, green and blue, each column by column.

    Shapes
    ------
    result : (n, 3, 96, 96), rows before columns

    Raises
    ------
    DataDamaged
        If it is not such a file.
    """
    size = path.stat().st_size
    if size == 0 or size % (3 * SIDE**2):
        raise DataDamaged(_damaged(path, f"{size} bytes are no images of 3 x {SIDE} x {SIDE}"))
    columns = np.fromfile(path, np.uint8).reshape(-1, 3, SIDE, SIDE)
    return np.ascontiguousarray(columns.swapaxes(-1, -2))


def read_stl_labels(path: Path) -> np.ndarray:
    """Read labels, which are from 1 to 10 in the file, as 0 to 9.

    Raises
    ------
    DataDamaged
        If it is not such a file.
    """
    labels = np.fromfile(path, np.uint8)
    if not len(labels) or labels.min() < 1 or labels.max() > 10:
        raise DataDamaged(_damaged(path, "labels are from 1 to 10, and there is at least one"))
    return labels - 1


def _damaged(path: Path, why: str) -> str:
    return f"{path} is damaged ({why}): delete it and fetch it again"


def _read_part(folder: Path, part: str) -> Samples:
    """Read one part as bytes, and compare files as long as the published ones with those."""
    paths = [folder / f"{part}_X.bin", folder / f"{part}_y.bin"]
    for path in paths:
        size, md5 = PUBLISHED[path.name]
        if path.stat().st_size == size:
            check_published(path, f"md5:{md5}")
    images, labels = read_stl_images(paths[0]), read_stl_labels(paths[1])
    if len(images) != len(labels):
        raise DataDamaged(
            f"{paths[0]} holds {len(images)} images and {paths[1]} {len(labels)} labels: they do "
            "not belong together; delete both and fetch them again"
        )
    return Samples(torch.from_numpy(images), torch.from_numpy(labels.astype(np.int64)))


def _read_subset(path: Path) -> Splits:
    """Read a part of the set, which has no parts of its own: 70, 10 and 20 per cent."""
    wanted = {"x": (np.uint8, (ANY, SIDE, SIDE, 3)), "y": (np.uint8, (ANY,))}
    images, labels = read_npz(path, wanted)
    if len(images) != len(labels) or len(labels) < 10 or labels.max() > 9:
        raise DataDamaged(
            f"{path}: {len(images)} images and {len(labels)} labels; expected as many, at least "
            "ten, with labels from 0 to 9: make it again"
        )
    x = torch.from_numpy(images).permute(0, 3, 1, 2).contiguous()
    samples = Samples(x, torch.from_numpy(labels.astype(np.int64)))
    val, test = len(labels) // 10, len(labels) // 5
    parts = stratified(labels, (len(labels) - val - test, val, test))
    return Splits(*(samples.take(torch.from_numpy(index)) for index in parts))


def standardise(images: Tensor) -> Tensor:
    """Return bytes (n, 3, 96, 96), standardised by channel."""
    return images.float().mul_(1 / (255 * STD)).sub_(MEAN / STD)


def read(root: Path) -> Splits:
    """Return the photographs, a tenth of those for training held out."""
    if not _has_binary(root):
        return _read_subset(root / SUBSET).map(standardise)
    train, test = (_read_part(root / FOLDER, part) for part in ("train", "test"))
    kept, val = hold_out(train, len(train) // 10)  # 500 of 5,000
    return Splits(kept, val, test).map(standardise)


def enlarge(images: Tensor, side: int) -> Tensor:
    """Return images with another number of rows and columns, (n, C, side, side)."""
    return F.interpolate(images, size=(side, side), mode="bilinear", align_corners=False)


def augment(x: Tensor) -> Tensor:
    """Turn, crop and flip at random; what comes from outside an image is black."""
    return turn_crop_and_flip(x, outside=-MEAN / STD)


STL10 = Task(
    name="stl10",
    title="STL-10",
    size=(SIDE, SIDE),
    in_channels=3,
    classes=10,
    counts=(4_500, 500, 8_000),
    source="STL-10, cs.stanford.edu/~acoates/stl10, binary files",
    paper={"ccnn_4_140": 81.80, "ccnn_6_380": 83.00},
    files=f"{FOLDER} or {SUBSET}",
    find=find,
    read=read,
    fetch=fetcher(
        Download(
            urls=(
                "http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz",
                "https://cs.stanford.edu/~acoates/stl10/stl10_binary.tar.gz",
            ),
            checksum="md5:91f7769df0f17e558f3565bffb0c7dfb",
            path=FOLDER,
            unpacked=3_200_000_000,
            keep=[f"{FOLDER}/{name}" for name in PUBLISHED],  # not the 100,000 without labels
        )
    ),
    resize=enlarge,
    augment=augment,
)
