"""Figures of a search: how it went, and which values matter."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes

from ccnn.plots.canvas import axes_or_new
from ccnn.plots.colours import BLUE, SERIES


def plot_trials(
    values: Mapping[int, float],
    *,
    pruned: Mapping[int, float] | None = None,
    maximize: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the value of each trial over its number, and the best so far as a line.

    Parameters
    ----------
    values
        Values of the finished trials by their numbers.
    pruned
        Last values of the trials that were stopped early.
    maximize
        Whether more is better.
    ax
        Where to draw; a new figure unless given.

    Returns
    -------
    The axes.
    """
    if not values:
        raise ValueError("values is empty; expected such as {0: 95.0, 1: 96.5}")
    ax = axes_or_new(ax)
    numbers = sorted(values)
    heights = [values[n] for n in numbers]
    best = np.maximum.accumulate(heights) if maximize else np.minimum.accumulate(heights)
    ax.step(numbers, best, where="post", color="0.6", zorder=0, label="best so far")
    ax.plot(numbers, heights, "o", color=BLUE, markersize=5, label="finished")
    if pruned:
        ax.plot(list(pruned), list(pruned.values()), "x", color=SERIES[1], label="stopped early")
    ax.set_xlabel("trial")
    ax.legend(frameon=False, fontsize="small")
    return ax


def plot_importances(importances: Mapping[str, float], *, ax: Axes | None = None) -> Axes:
    """Draw each key's share in the differences between trials as a bar.

    Parameters
    ----------
    importances
        Shares by key.
    ax
        Where to draw; a new figure unless given.

    Returns
    -------
    The axes.
    """
    if not importances:
        raise ValueError("importances is empty; expected such as {'optim.lr': 0.8}")
    ax = axes_or_new(ax)
    names = sorted(importances, key=lambda name: importances[name])
    ax.barh(names, [100 * importances[name] for name in names], color=BLUE, height=0.6)
    ax.set_xlabel("importance (%)")
    return ax
