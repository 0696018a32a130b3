"""scikit-learn's digits: 1,797 real images of 8 × 8 pixels that come with the package."""

from pathlib import Path

import numpy as np
import torch

from ccnn.tasks.task import Samples, Splits, Task

COUNTS = (1297, 200, 300)
SOURCE = "inside scikit-learn, nothing to fetch"


def read(root: Path) -> Splits:
    """Return the images, standardised, in a fixed split with each digit's share in every part."""
    # Importing it takes a second, and only these two tasks need it.
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    parts = np.zeros(len(labels), dtype=int)
    # Sorted by digit, and at random within each: every k-th sample then is a fair share.
    order = np.lexsort((np.random.RandomState(0).rand(len(labels)), labels))
    test = order[_evenly(len(order), COUNTS[2])]
    parts[test] = 2
    rest = order[parts[order] == 0]
    parts[rest[_evenly(len(rest), COUNTS[1])]] = 1

    train = images[parts == 0]
    x = torch.tensor((images - train.mean()) / train.std(), dtype=torch.float32)[:, None]
    samples = Samples(x, torch.tensor(labels, dtype=torch.int64))
    train_part, val, test_part = (samples.take(torch.tensor(parts == i)) for i in range(3))
    return Splits(train_part, val, test_part)


def read_images(root: Path) -> Splits:
    """Return the same as images."""
    return read(root).map(lambda x: x.reshape(-1, 1, 8, 8))


def _evenly(n: int, count: int) -> np.ndarray:
    """Return `count` of n positions, at equal distances."""
    return (np.arange(count) * n + n // 2) // count


DIGITS = Task(
    name="digits",
    title="scikit-learn's digits, pixel by pixel",
    size=(64,),
    in_channels=1,
    classes=10,
    counts=COUNTS,
    source=SOURCE,
    find=lambda root: True,
    read=read,
)
DIGITS2D = Task(
    name="digits2d",
    title="scikit-learn's digits, as images",
    size=(8, 8),
    in_channels=1,
    classes=10,
    counts=COUNTS,
    source=SOURCE,
    find=lambda root: True,
    read=read_images,
)
