"""What a data set is: its facts, and how it is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from ccnn.tasks.scaling import Scaling

Kind = Literal["class", "value", "position", "position_value"]


class DataMissing(FileNotFoundError):  # noqa: N818 (what it says is a sentence)
    """The files of a task are not there."""


class DataDamaged(ValueError):  # noqa: N818
    """A file is there, and is not what it should be."""


@dataclass(frozen=True)
class Samples:
    """One part of a data set, in memory.

    Shapes
    ------
    x : (n, C, *S), or integers (n, *S) where the task has a vocabulary, (n, 2, *S) in pairs
    y : (n,); numbers (n, K); at every position (n, *S) or (n, K, *S)
    lengths : (n,), (n, D), (n, 2) in pairs, or None
    positions : (n, N, D) in training samples, or None where samples lie on a grid
    mask : (n, 1, *S), bool, which samples exist where some do not, or None
    weights : (n,), how much each signal counts, or None where all count alike
    """

    x: Tensor
    y: Tensor
    lengths: Tensor | None = None
    positions: Tensor | None = None
    mask: Tensor | None = None
    weights: Tensor | None = None

    def __len__(self) -> int:
        return len(self.y)

    def take(self, index: Tensor | slice) -> "Samples":
        """Return the samples at some indices."""
        optional = (self.lengths, self.positions, self.mask, self.weights)
        return Samples(
            self.x[index], self.y[index], *(None if t is None else t[index] for t in optional)
        )


@dataclass(frozen=True)
class Splits:
    """Training, validation and test samples."""

    train: Samples
    val: Samples
    test: Samples

    def map(self, change: Callable[[Tensor], Tensor]) -> "Splits":
        """Return the same samples with other signals."""
        parts = (self.train, self.val, self.test)
        return Splits(*(replace(s, x=change(s.x)) for s in parts))


@dataclass(frozen=True, kw_only=True)
class Task:
    """The facts of a task, and how its data are found and read.

    Parameters
    ----------
    name, title
        What is typed, and what is meant.
    size
        Samples per axis; its length is D.
    in_channels, classes
        Channels of a signal (1 where symbols are fed as numbers); classes, or where targets are
        numbers how many of them.
    counts
        Samples for training, validation and test, where all data are there.
    source
        Where the data come from, in one line.
    kind
        One class, numbers, or a class or numbers at every position.
    vocabulary
        The number of symbols where signals are integers.
    pair
        Whether a sample is two signals that are judged together.
    paper
        Test accuracy in per cent by size of the model (Table 1 to Table 4); empty if not there.
    files
        The files that are looked for, for people to read.
    find
        Tells whether a folder holds them.
    read
        Reads the three parts from such a folder.
    fetch
        Puts the files into such a folder, as `ccnn.tasks.fetch.fetcher` returns it; None where
        nobody publishes them with a checksum.
    resize
        Gives images another number of rows and columns, for ``data.size``; None where there is
        one size only.
    augment
        Changes a batch of training signals at random, as the authors' commands do with
        ``data.augment=true``; None if they never do.
    scaling
        How signals and targets were prepared, where the data are the user's own.
    """

    name: str
    title: str
    size: tuple[int, ...]
    in_channels: int
    classes: int
    counts: tuple[int, int, int]
    source: str
    read: Callable[[Path], Splits]
    kind: Kind = "class"
    vocabulary: int | None = None
    pair: bool = False
    paper: Mapping[str, float] = field(default_factory=dict)
    files: str = ""
    find: Callable[[Path], bool] = lambda root: False
    fetch: Callable[[Path], None] | None = None
    resize: Callable[[Tensor, int], Tensor] | None = None
    augment: Callable[[Tensor], Tensor] | None = None
    scaling: Scaling | None = None

    @property
    def at_positions(self) -> bool:
        """Whether there is a target at every position."""
        return self.kind.startswith("position")

    @property
    def score(self) -> str:
        """What the best of several networks is chosen by: ``"accuracy"`` or ``"mse"``."""
        return "mse" if self.kind.endswith("value") else "accuracy"

    def at(self, side: int | None) -> "Task":
        """Return the same task with images of so many rows and columns; None leaves them."""
        if side is None or set(self.size) == {side}:
            return self
        read, resize = self.read, self.resize
        if resize is None:
            raise ValueError(f"data.size is {side}, but task={self.name} has one size: {self.size}")
        return replace(
            self,
            size=(side,) * len(self.size),
            read=lambda root: read(root).map(lambda x: resize(x, side)),
        )

    def present(self, root: Path) -> bool:
        """Tell whether `load` would find its files in a folder."""
        return self.read is not None and self.find(Path(root).expanduser())

    def load(self, root: Path, *, fetch: bool = False) -> Splits:
        """Read the data in a folder.

        Parameters
        ----------
        root
            The folder.
        fetch
            Whether files that are not there are fetched into it.

        Raises
        ------
        DataMissing
            If they are not there.
        DataDamaged
            If a file is not what it should be.
        """
        root = Path(root).expanduser()
        if fetch and self.fetch is not None and not self.present(root):
            self.fetch(root)
        if not self.present(root):
            raise DataMissing(self._ways_out(root, fetched=fetch))
        return self.read(root)

    def _ways_out(self, root: Path, *, fetched: bool) -> str:
        if self.fetch is None:
            way = f"Fetch them ({self.source}), which data.fetch=true cannot do for this task"
        elif fetched:
            way = "They were fetched, but something else has their name: move that away"
        else:
            way = f"Fetch them with data.fetch=true ({self.source})"
        return (
            f"task={self.name}: no {self.files} in {root.absolute()}. {way}; or point data.root, "
            "or the variable CCNN_DATA, at the folder that holds them; or try task=digits, which "
            "needs no files"
        )


def hold_out(samples: Samples, count: int) -> tuple[Samples, Samples]:
    """Split off `count` samples at random, always the same: what remains, and those."""
    generator = torch.Generator().manual_seed(42)
    order = torch.randperm(len(samples), generator=generator)
    kept = len(samples) - count
    return samples.take(order[:kept]), samples.take(order[kept:])
