"""Axes to draw on, and the file they end up in."""

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure


def panels(count: int = 1, *, width: float = 4.0, height: float = 3.0) -> list[Axes]:
    """Return ``count`` axes side by side in a new figure, for the ``ax`` of the plot functions."""
    figure = Figure(figsize=(count * width, height), layout="constrained")
    return list(figure.subplots(1, count, squeeze=False)[0])


def save_figure(ax: Axes, path: str | Path, *, dpi: int = 100) -> None:
    """Write the whole figure that an axes belongs to; the suffix of the path says the format."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.savefig(path, dpi=dpi)


def axes_or_new(ax: Axes | None) -> Axes:
    """Return the axes, or those of a new pyplot figure where there are none."""
    return plt.subplots(layout="constrained")[1] if ax is None else ax
