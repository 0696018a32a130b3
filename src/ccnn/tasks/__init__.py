"""Data sets: what they are, where they come from, and how they are split."""

from collections.abc import Callable
from pathlib import Path

from ccnn.tasks.chartrajectories import CHARTRAJECTORIES
from ccnn.tasks.cifar import CIFAR10, CIFAR100, IMAGE, IMAGE2D, SCIFAR10
from ccnn.tasks.digits import DIGITS, DIGITS2D
from ccnn.tasks.listops import LISTOPS
from ccnn.tasks.mnist import MNIST, PMNIST, SMNIST
from ccnn.tasks.modelnet import MODELNET10
from ccnn.tasks.modelnet_points import MODELNET10_POINTS
from ccnn.tasks.own import folder_task, npz_task
from ccnn.tasks.pathfinder import PATHFINDER, PATHFINDER2D, PATHX
from ccnn.tasks.physionet import PHYSIONET2012
from ccnn.tasks.scaling import Scaling
from ccnn.tasks.speech import SPEECH_MFCC, SPEECH_RAW
from ccnn.tasks.stl10 import STL10
from ccnn.tasks.task import DataDamaged, DataMissing, Samples, Splits, Task
from ccnn.tasks.text import RETRIEVAL, TEXT

TASKS: dict[str, Task] = {
    "smnist": SMNIST,
    "pmnist": PMNIST,
    "scifar10": SCIFAR10,
    "speech_raw": SPEECH_RAW,
    "speech_mfcc": SPEECH_MFCC,
    "listops": LISTOPS,
    "text": TEXT,
    "retrieval": RETRIEVAL,
    "image": IMAGE,
    "pathfinder": PATHFINDER,
    "pathx": PATHX,
    "cifar10": CIFAR10,
    "cifar100": CIFAR100,
    "stl10": STL10,
    "image2d": IMAGE2D,
    "pathfinder2d": PATHFINDER2D,
    "mnist": MNIST,
    "digits": DIGITS,
    "digits2d": DIGITS2D,
    "modelnet10": MODELNET10,
    "modelnet10_points": MODELNET10_POINTS,
    "chartrajectories": CHARTRAJECTORIES,
    "physionet2012": PHYSIONET2012,
}

# Tasks whose facts are read from the user's own data, wherever those are.
OWN: dict[str, Callable[[Path, Scaling | None], Task]] = {
    "npz": npz_task,
    "folder": folder_task,
}

__all__ = ["OWN", "TASKS", "DataDamaged", "DataMissing", "Samples", "Splits", "Task"]
