"""Parts of a data set in which every class has its share."""

from collections.abc import Sequence

import numpy as np


def stratified(labels: np.ndarray, counts: Sequence[int]) -> list[np.ndarray]:
    """Return the positions of the samples of each part, in a random order that is always the same.

    Parameters
    ----------
    labels
        The class of every sample.
    counts
        How many samples each part gets; all together at most as many as there are. Each class is
        in each part with its share, rounded up or down.

    Shapes
    ------
    labels : (n,)
    """
    if sum(counts) > len(labels):
        raise ValueError(f"{sum(counts)} samples are asked for, and there are {len(labels)}")
    random = np.random.RandomState(0)
    # By class, and at random within each: samples at equal distances then are a fair share.
    rest = np.lexsort((random.rand(len(labels)), labels))
    parts = []
    for count in counts:
        picked = (np.arange(count) * len(rest) + len(rest) // 2) // max(count, 1)
        parts.append(random.permutation(rest[picked]))
        rest = np.delete(rest, picked)
    return parts
