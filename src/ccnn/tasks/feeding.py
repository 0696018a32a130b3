"""From what a task reads to what a network is fed."""

from dataclasses import replace

from ccnn.tasks.task import Samples, Splits


def feed(splits: Splits, dim: int, *, embedded: bool, limit: int | None = None) -> Splits:
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
    """
    train = splits.train if limit is None else splits.train.take(slice(limit))
    parts = (train, splits.val, splits.test)
    return Splits(*(as_signals(samples, dim, embedded=embedded) for samples in parts))


def as_signals(samples: Samples, dim: int, *, embedded: bool) -> Samples:
    """Return symbols as one channel of numbers where the network has no embedding."""
    if embedded and samples.x.is_floating_point():
        raise ValueError("model.embedding is for symbols, and the signals of this task are numbers")
    if embedded or samples.x.is_floating_point():
        return samples
    return replace(samples, x=samples.x.float().unsqueeze(-1 - dim))
