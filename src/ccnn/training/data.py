"""Batches of samples that are in memory: shuffled by seed and epoch, resumable at any batch."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from ccnn.training.settings import Batching


class Samples(Protocol):
    """One part of a data set.

    Shapes
    ------
    x : (n, C, *S), or (n, *S) integers
    y : (n,), (n, C) or (n, C, *S)
    lengths : (n,) or (n, D), or None
    positions : (n, N, D), or None
    mask : (n, 1, *S), bool, or None
    weights : (n,), or None
    """

    @property
    def x(self) -> Tensor:
        """The signals."""

    @property
    def y(self) -> Tensor:
        """The targets."""

    @property
    def lengths(self) -> Tensor | None:
        """How many samples of each padded signal exist."""

    @property
    def positions(self) -> Tensor | None:
        """Where the samples of each signal lie, if not on a grid."""

    @property
    def mask(self) -> Tensor | None:
        """Which samples exist, where some of those within the lengths do not."""

    @property
    def weights(self) -> Tensor | None:
        """How much each signal counts; all alike without."""


class Splits(Protocol):
    """Training, validation and test samples."""

    @property
    def train(self) -> Samples:
        """What is learned from."""

    @property
    def val(self) -> Samples | None:
        """What chooses the best epoch; None keeps the last."""

    @property
    def test(self) -> Samples | None:
        """What is tested once, at the end."""


class Batch(NamedTuple):
    """Some of the samples."""

    x: Tensor
    y: Tensor
    lengths: Tensor | None = None
    positions: Tensor | None = None
    mask: Tensor | None = None
    weights: Tensor | None = None

    def to(self, device: torch.device) -> "Batch":
        """Return the same samples on another device."""
        x, y, *optional = self
        return Batch(
            x.to(device), y.to(device), *(None if t is None else t.to(device) for t in optional)
        )


def take(samples: Samples, index: Tensor | slice) -> Batch:
    """Return the samples at some indices."""
    optional = (samples.lengths, samples.positions, samples.mask, samples.weights)
    return Batch(
        samples.x[index], samples.y[index], *(None if t is None else t[index] for t in optional)
    )


class TrainingBatches:
    """The batches of one epoch, from a given one on, for one of several processes.

    The order is a function of seed and epoch alone. A step takes ``batch_size`` samples for
    every process; the samples left over at the end of an epoch are dropped, as the authors do.
    Micro-batch i of an epoch is part i mod ``accumulate`` of step i // ``accumulate``.

    Parameters
    ----------
    samples, batching, seed, epoch
        What to draw from, and in which order.
    start
        The first micro-batch.
    rank, world
        Which of how many processes this is.
    """

    def __init__(
        self,
        samples: Samples,
        batching: Batching,
        *,
        seed: int,
        epoch: int,
        start: int = 0,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.samples = samples
        self.batching = batching
        self.start = start
        self.rank, self.world = rank, world
        self.order = epoch_order(len(samples.x), seed, epoch)

    def __len__(self) -> int:
        steps = steps_per_epoch(len(self.samples.x), self.batching, self.world)
        return steps * self.batching.accumulate - self.start

    def __iter__(self) -> Iterator[Batch]:
        size, parts = self.batching.batch_size, self.batching.accumulate
        small = size // parts
        for i in range(self.start, self.start + len(self)):
            step, part = divmod(i, parts)
            begin = (step * self.world + self.rank) * size + part * small
            yield take(self.samples, self.order[begin : begin + small])


class EvaluationBatches:
    """All samples in order, or every ``world``-th of them.

    Every process has as many batches as the others, the last of which may be empty: processes
    that wait for each other at every batch then never wait in vain.
    """

    def __init__(self, samples: Samples, size: int, *, rank: int = 0, world: int = 1) -> None:
        self.samples = samples
        self.size = size
        self.index = torch.arange(rank, len(samples.x), world)
        self.most = -(-len(samples.x) // world)

    def __len__(self) -> int:
        return -(-self.most // self.size)

    def __iter__(self) -> Iterator[Batch]:
        for begin in range(0, self.most, self.size):
            yield take(self.samples, self.index[begin : begin + self.size])


def epoch_order(n: int, seed: int, epoch: int) -> Tensor:
    """Return the order of n samples in one epoch: a permutation from seed and epoch."""
    # Not seed + epoch, with which epoch 1 of seed 0 would be epoch 0 of seed 1.
    mixed = int(np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0] >> 1)
    return torch.randperm(n, generator=torch.Generator().manual_seed(mixed))


def steps_per_epoch(n: int, batching: Batching, world: int = 1) -> int:
    """Return how many optimiser steps an epoch has."""
    steps = n // (batching.batch_size * world)
    if steps == 0:
        each = f" for each of {world} processes" if world > 1 else ""
        raise ValueError(
            f"data.batch_size is {batching.batch_size}{each}, but there are only {n} training "
            f"samples; use data.batch_size={max(n // world, 1)} or less"
        )
    return steps


def check_samples(samples: Samples, name: str) -> None:
    """Refuse samples whose parts do not belong together."""
    n = len(samples.x)
    if n == 0 or len(samples.y) != n:
        raise ValueError(
            f"the {name} set has {n} signals and {len(samples.y)} targets; expected as many, "
            "and at least one"
        )
    optional = {
        "lengths": samples.lengths,
        "positions": samples.positions,
        "masks": samples.mask,
        "weights": samples.weights,
    }
    for what, tensor in optional.items():
        if tensor is not None and len(tensor) != n:
            raise ValueError(f"the {name} set has {n} signals and {len(tensor)} {what}")
    if samples.weights is not None and not (
        torch.isfinite(samples.weights).all() and (samples.weights >= 0).all()
    ):
        raise ValueError(f"the weights of the {name} set must be finite and not negative")
    if samples.y.is_floating_point() and not torch.isfinite(samples.y).all():
        raise ValueError(f"the targets of the {name} set hold NaN or infinite numbers")
