"""Figures of results: which class is taken for which, and runs beside each other."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from ccnn.plots.canvas import axes_or_new
from ccnn.plots.colours import BLUE, SERIES, fading

_MOST_NUMBERS = 12  # classes; with more, numbers in the cells cannot be read


def plot_confusion(
    matrix: ArrayLike, *, labels: Sequence[str] | None = None, ax: Axes | None = None
) -> Axes:
    """Draw a confusion matrix: rows are the true classes, columns the predicted ones.

    The colour is the share of the row; the number, where cells are large enough, the count.

    Parameters
    ----------
    matrix
        Counts, (classes, classes).
    labels
        Names of the classes; their numbers unless given.
    ax
        Where to draw; a new figure unless given.

    Returns
    -------
    The axes.
    """
    counts = np.asarray(matrix)
    if counts.ndim != 2 or counts.shape[0] != counts.shape[1]:
        raise ValueError(f"matrix must have shape (classes, classes), got {counts.shape}")
    names = [str(i) for i in range(len(counts))] if labels is None else list(labels)
    if len(names) != len(counts):
        raise ValueError(f"there are {len(counts)} classes, but {len(names)} labels")
    ax = axes_or_new(ax)
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    ax.imshow(share, cmap=fading(BLUE), vmin=0, vmax=1, interpolation="none")
    if len(names) <= _MOST_NUMBERS:
        for row, column in zip(*np.nonzero(counts), strict=True):
            text = ax.text(column, row, f"{counts[row, column]:g}", ha="center", va="center")
            text.set_fontsize("x-small")
            if share[row, column] > 0.6:
                text.set_color("white")
    step = 1 + (len(names) - 1) // 20
    ax.set_xticks(range(0, len(names), step), names[::step])
    ax.set_yticks(range(0, len(names), step), names[::step])
    ax.tick_params(length=0)
    ax.set_xlabel("predicted class")
    ax.set_ylabel("true class")
    return ax


def plot_agreement(targets: ArrayLike, values: ArrayLike, *, ax: Axes | None = None) -> Axes:
    """Draw predicted values over true ones, with the line on which both are equal.

    Parameters
    ----------
    targets, values
        True and predicted numbers, of the same shape.
    ax
        Where to draw; a new figure unless given.

    Returns
    -------
    The axes.
    """
    x, y = np.asarray(targets, dtype=float).ravel(), np.asarray(values, dtype=float).ravel()
    if x.shape != y.shape or not len(x):
        raise ValueError(f"{len(x)} targets and {len(y)} values; expected equally many, at least 1")
    ax = axes_or_new(ax)
    ends = [float(min(x.min(), y.min())), float(max(x.max(), y.max()))]
    ax.plot(ends, ends, color="0.6", linewidth=1, zorder=0)
    ax.plot(x, y, ".", color=BLUE, alpha=0.5, markersize=4)
    ax.set_xlabel("true value")
    ax.set_ylabel("predicted value")
    return ax


def plot_dimensions(
    accuracies: Mapping[str, Mapping[str, float]], *, ax: Axes | None = None
) -> Axes:
    """Draw the accuracy of one data set's models beside each other: the 1-D against the 2-D one.

    Parameters
    ----------
    accuracies
        For each data set, name of the model (such as ``"1-D"``) and accuracy in percent.
    ax
        Where to draw; a new figure unless given.

    Returns
    -------
    The axes.
    """
    if not any(accuracies.values()):
        raise ValueError("accuracies is empty; expected such as {'MNIST': {'1-D': 99, '2-D': 99}}")
    ax = axes_or_new(ax)
    names = list(dict.fromkeys(name for row in accuracies.values() for name in row))
    colours = {name: SERIES[i % len(SERIES)] for i, name in enumerate(names)}
    for height, row in enumerate(accuracies.values()):
        ax.plot([min(row.values()), max(row.values())], [height] * 2, color="0.6", zorder=0)
        for rank, (name, value) in enumerate(sorted(row.items(), key=lambda item: item[1])):
            ax.plot([value], [height], "o", color=colours[name], markersize=9, label=name)
            ax.annotate(
                f"{name}  {value:.2f} %",
                (value, height),
                (0, 12 if rank % 2 == 0 else -12),
                textcoords="offset points",
                ha="center",
                va="bottom" if rank % 2 == 0 else "top",
                color=colours[name],
                fontsize="small",
            )
    ax.set_yticks(range(len(accuracies)), list(accuracies))
    ax.set_ylim(len(accuracies) - 0.4, -0.6)
    ax.margins(x=0.35)
    low, high = ax.get_xlim()
    ax.set_xlim(max(low, 0), min(high, 102))
    ax.set_xlabel("test accuracy (%)")
    return ax
