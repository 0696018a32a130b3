"""From what a task reads to what a network is fed: fewer samples, coarser grids, plain numbers."""

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from ccnn.tasks.task import Samples, Splits, Task


def feed(
    splits: Splits, dim: int, *, embedded: bool, limit: int | None = None, factors: Sequence[int]
) -> Splits:
    """Return the samples as they are fed to a network.

    Parameters
    ----------
    splits
        What a task reads.
    dim
        The number of axes, D.
    embedded
        Whether the network embeds symbols; else they become one channel of numbers.
    limit
        How many training samples are kept; None is all.
    factors
        How many samples of each axis become one.
    """
    train = splits.train if limit is None else splits.train.take(slice(limit))
    parts = (train, splits.val, splits.test)
    return Splits(*(coarsen(as_signals(s, dim, embedded=embedded), factors) for s in parts))


def as_signals(samples: Samples, dim: int, *, embedded: bool) -> Samples:
    """Return symbols as one channel of numbers where the network has no embedding."""
    if embedded or samples.x.is_floating_point():
        return samples
    return replace(samples, x=samples.x.float().unsqueeze(-1 - dim))


def coarser(task: Task, factor: int) -> Task:
    """Return a task whose signals have so many times fewer samples along each axis."""
    if factor == 1:
        return task
    size = tuple(n // factor for n in task.size)
    if min(size) < 1:
        raise ValueError(
            f"data.coarsen is {factor}, but task={task.name} has signals of size {task.size}"
        )
    return replace(task, size=size)


def coarsen(samples: Samples, factors: Sequence[int]) -> Samples:
    """Return signals whose samples are means of blocks of the old ones.

    A mean, because a sample stands for all of its cell: a coarse grid and a fine one with the
    right `ccnn.Grid(spacing=…)` then give a kernel the same sums. Samples that fill no block at
    the end of an axis are left out.
    """
    if all(factor == 1 for factor in factors):
        return samples
    if not samples.x.is_floating_point():
        raise ValueError("symbols cannot be averaged; data.coarsen must be 1 for this task")
    if samples.lengths is not None or samples.positions is not None:
        raise ValueError(
            "data.coarsen must be 1 for this task: its signals have different lengths or times"
        )
    if samples.y.ndim > 2 or (samples.y.ndim == 2 and not samples.y.is_floating_point()):
        raise ValueError("data.coarsen must be 1 for this task: it has a target at every position")
    return replace(samples, x=block_means(samples.x, factors))


def block_means(x: Tensor, factors: Sequence[int]) -> Tensor:
    """Return the means of blocks of samples, (n, C, *S) -> (n, C, *S')."""
    for axis, factor in enumerate(factors, start=2):
        if factor > 1:
            count = x.shape[axis] // factor
            x = x.narrow(axis, 0, count * factor).unflatten(axis, (count, factor)).mean(axis + 1)
    return x


def finer_steps(
    factor: int, spacing: float | Sequence[float], dim: int
) -> tuple[list[int], list[float]]:
    """Return how to reach a spacing from data that were made coarser for training.

    Where real samples of the finer grid are there, they are taken and nothing is drawn between.

    Parameters
    ----------
    factor
        How much coarser than the data the training grid is.
    spacing
        What is wanted, in training samples.
    dim
        The number of axes, D.

    Returns
    -------
    tuple of list
        By how much the data are made coarser along each axis, and the spacing, in samples of
        what that gives, at which they are sampled then.
    """
    wanted = list(spacing) if isinstance(spacing, Sequence) else [spacing] * dim
    factors, steps = [], []
    for s in wanted:
        cells = factor * s  # of the data in one sample of the finer grid
        exact = s < 1 and cells >= 1 and float(cells).is_integer()
        factors.append(int(cells) if exact else factor)
        steps.append(1.0 if exact else float(s))
    return factors, steps
