"""The data of `irregular.py`: folds, dropped samples, and how each fold is standardised."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ccnn.tasks.chartrajectories import CHARTRAJECTORIES
from ccnn.tasks.physionet import PHYSIONET2012, SERIES, SIZE, STATIC
from ccnn.tasks.splitting import stratified
from ccnn.tasks.task import Samples, Task

FOLDS = 5
DROPS = (0.0, 0.3, 0.5, 0.7)
_DROP_SEED = 2022


def characters(root: Path) -> Samples:
    """Return all labelled trajectories: x (n, 3, 205) and lengths."""
    return whole(CHARTRAJECTORIES, root)


def patients(root: Path) -> Samples:
    """Return all patients at the times of their measurements: x (n, 81, N), lengths, positions."""
    return whole(PHYSIONET2012, root)


def whole(task: Task, root: Path) -> Samples:
    """Return the three parts of a task's data behind each other."""
    splits = task.load(root)
    parts = (splits.train, splits.val, splits.test)
    positions = [p.positions for p in parts if p.positions is not None]
    return Samples(
        torch.cat([p.x for p in parts]),
        torch.cat([p.y for p in parts]),
        torch.cat([p.lengths for p in parts]),
        torch.cat(positions) if positions else None,
    )


def folds(labels: Tensor, count: int = FOLDS) -> list[tuple[Tensor, Tensor]]:
    """Return the indices (train, test) of each fold; every class has its share in each."""
    n = len(labels)
    sizes = [n // count + (i < n % count) for i in range(count)]
    tests = stratified(labels.numpy(), sizes)
    everything = np.arange(n)
    return [
        (torch.from_numpy(np.setdiff1d(everything, test)), torch.from_numpy(np.sort(test)))
        for test in tests
    ]


def inside(lengths: Tensor, room: int) -> Tensor:
    """Return which of `room` samples lie before each length, (n, 1, room)."""
    return (torch.arange(room) < lengths[:, None]).unsqueeze(1)


def kept(lengths: Tensor, room: int, share: float) -> Tensor:
    """Return which samples are left when a share of each series is dropped, (n, 1, room).

    At random, always the same for a series; what 30 % drop, 50 % drop too.
    """
    generator = torch.Generator().manual_seed(_DROP_SEED)
    noise = torch.rand(len(lengths), room, generator=generator)
    noise = torch.where(inside(lengths, room)[:, 0], noise, torch.inf)
    rank = noise.argsort(dim=1).argsort(dim=1)
    count = ((1 - share) * lengths).round().clamp(min=1)
    return (rank < count[:, None]).unsqueeze(1)


def standardised(samples: Samples, seen: Tensor, train: Tensor, channels: Sequence[int]) -> Samples:
    """Return samples whose given channels have mean 0 and deviation 1 in the training part.

    Only values that were seen are counted; the others are zero, which is the mean.

    Shapes
    ------
    seen : (n, C, S), or (n, 1, S) for all channels alike
    """
    x = samples.x.clone()
    for channel in channels:
        there = seen[:, channel % seen.shape[1]]
        known = samples.x[train, channel][there[train]].double()
        if not len(known):
            continue  # it says nothing that can be learned
        scaled = (samples.x[:, channel] - known.mean()) / known.std(correction=0).clamp(min=1e-6)
        x[:, channel] = torch.where(there, scaled, 0.0).float()
    return replace(samples, x=x)


def seen_characters(samples: Samples) -> Tensor:
    """Return where trajectories exist, (n, 1, 205)."""
    return inside(samples.lengths, samples.x.shape[-1])


def seen_patients(samples: Samples) -> Tensor:
    """Return which values of patients were measured, (n, 81, N)."""
    seen = samples.x != 0  # a static value that is missing is zero
    count = len(SERIES)
    seen[:, :count] = samples.x[:, count : 2 * count] > 0
    return seen


def patient_channels() -> list[int]:
    """Return the channels of patients that are measured numbers."""
    first = 2 * len(SERIES)
    return [*range(len(SERIES)), *range(first, first + len(STATIC))]


def on_grid(samples: Samples) -> Samples:
    """Return patients on a grid of 240 steps with holes: what falls into one step is averaged."""
    n, channels, room = samples.x.shape
    exists = inside(samples.lengths, room)
    step = samples.positions[..., 0].floor().long().clamp(0, SIZE - 1)
    place = step[:, None].expand(n, channels, room)
    counted = exists.expand(n, channels, room).float()
    counted[:, : len(SERIES)] *= samples.x[:, len(SERIES) : 2 * len(SERIES)]  # measured ones only
    sums = torch.zeros(n, channels, SIZE).scatter_add_(2, place, samples.x * counted)
    counts = torch.zeros(n, channels, SIZE).scatter_add_(2, place, counted)
    x = sums / counts.clamp(min=1)
    observed = x[:, len(SERIES) : 2 * len(SERIES)]
    x[:, len(SERIES) : 2 * len(SERIES)] = (observed > 0).float()
    mask = torch.zeros(n, SIZE).scatter_add_(1, step, exists[:, 0].float()) > 0
    return Samples(x, samples.y, mask=mask.unsqueeze(1))
