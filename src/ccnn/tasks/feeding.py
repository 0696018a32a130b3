"""From what a task reads to what a network is fed."""

from dataclasses import replace

from torch import Tensor

from ccnn.tasks.task import Samples, Splits


def feed(
    splits: Splits, dim: int, *, embedded: bool, limit: int | None = None, balance: bool = False
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
    balance
        Whether each class counts as much as each other in training, however many samples it has.
    """
    train = splits.train if limit is None else splits.train.take(slice(limit))
    if balance:
        train = replace(train, weights=balanced_weights(train.y))
    parts = (train, splits.val, splits.test)
    return Splits(*(as_signals(samples, dim, embedded=embedded) for samples in parts))


def balanced_weights(classes: Tensor) -> Tensor:
    """Return weights under which all classes that occur have the same sum, and the mean is 1.

    Shapes
    ------
    classes : (n,), integers
    result : (n,)
    """
    if classes.is_floating_point() or classes.ndim != 1:
        raise ValueError("data.balance is for one class per signal; this task's targets are others")
    counts = classes.bincount()
    present = int((counts > 0).sum())
    return (len(classes) / (present * counts.clamp(min=1).double()))[classes].float()


def as_signals(samples: Samples, dim: int, *, embedded: bool) -> Samples:
    """Return symbols as one channel of numbers where the network has no embedding."""
    if embedded and samples.x.is_floating_point():
        raise ValueError("model.embedding is for symbols, and the signals of this task are numbers")
    if embedded or samples.x.is_floating_point():
        return samples
    return replace(samples, x=samples.x.float().unsqueeze(-1 - dim))
