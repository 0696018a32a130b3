"""Figures of a training: curves, learning rate, and what happens to the kernels meanwhile."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

from ccnn.plots.canvas import axes_or_new
from ccnn.plots.colours import SERIES, depth_colours

_LABEL_GAP = 0.085  # of the axes' height, between the names of two curves


def plot_history(
    epochs: Sequence[int],
    curves: Mapping[str, Sequence[float]],
    *,
    ylabel: str,
    best: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw quantities over the epochs of a training, each named at its end.

    Parameters
    ----------
    epochs
        The number of each epoch.
    curves
        Name and values, one per epoch; NaN where nothing was measured.
    ylabel
        What is measured, with its unit.
    best
        The epoch to mark on the last curve: the one whose weights were kept.
    ax
        Where to draw; a new figure unless given.

    Returns
    -------
    The axes.
    """
    _check_lengths(epochs, curves)
    ax = axes_or_new(ax)
    marker = "o" if len(epochs) == 1 else ""
    for i, (name, values) in enumerate(curves.items()):
        colour = SERIES[i % len(SERIES)]
        ax.plot(epochs, values, marker=marker, color=colour, linewidth=1.8, label=name)
    if best is not None and best in epochs:
        value = list(curves.values())[-1][list(epochs).index(best)]
        ax.plot(
            [best],
            [value],
            "o",
            color=SERIES[(len(curves) - 1) % len(SERIES)],
            markersize=6,
            zorder=3,
            label="_best",
        )
    if len(curves) > 1:
        _name_ends(ax)
    return _finish(ax, ylabel)


def plot_kernel_sizes(epochs: Sequence[int], sizes: ArrayLike, *, ax: Axes | None = None) -> Axes:
    """Draw how many taps each layer's kernel had at each epoch; further axes as broken lines.

    Parameters
    ----------
    epochs
        The number of each epoch.
    sizes
        Taps, (epochs, layers, D), the stem first; NaN where unknown.
    ax
        Where to draw; a new figure unless given.

    Returns
    -------
    The axes.
    """
    return _draw_layers(epochs, sizes, "kernel size (taps)", ax)


def plot_sigmas(epochs: Sequence[int], sigmas: ArrayLike, *, ax: Axes | None = None) -> Axes:
    """Draw the width σ of each layer's window at each epoch, as `plot_kernel_sizes` does sizes."""
    return _draw_layers(epochs, np.abs(np.asarray(sigmas, dtype=float)), "window width σ", ax)


def _draw_layers(epochs: Sequence[int], values: ArrayLike, ylabel: str, ax: Axes | None) -> Axes:
    array = np.asarray(values, dtype=float)
    if array.ndim != 3 or len(array) != len(epochs):
        raise ValueError(
            f"expected values of shape (epochs, layers, D) with {len(epochs)} epochs, "
            f"got {array.shape}"
        )
    ax = axes_or_new(ax)
    marker = "o" if len(epochs) == 1 else ""
    layers = array.shape[1]
    for layer, colour in enumerate(depth_colours(layers)):
        for axis in range(array.shape[2]):
            ax.plot(
                epochs,
                array[:, layer, axis],
                ("-", "--", ":")[min(axis, 2)],
                marker=marker,
                color=colour,
                linewidth=1.6,
                label=("stem" if layer == 0 else f"block {layer}") if axis == 0 else "_axis",
            )
    _name_ends(ax)
    return _finish(ax, ylabel)


def _check_lengths(epochs: Sequence[int], curves: Mapping[str, Sequence[float]]) -> None:
    if not curves:
        raise ValueError("curves is empty; expected at least one, such as {'train': losses}")
    for name, values in curves.items():
        if len(values) != len(epochs):
            raise ValueError(f"{name} has {len(values)} values for {len(epochs)} epochs")


def _finish(ax: Axes, ylabel: str) -> Axes:
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    ax.set_xlabel("epoch")
    ax.set_ylabel(ylabel)
    return ax


def _name_ends(ax: Axes) -> None:
    """Write each curve's name beside its last value, moved so that no two names touch."""
    named = []
    for line in ax.get_lines():
        values: NDArray[np.float64] = np.asarray(line.get_ydata(), dtype=float)
        finite = values[np.isfinite(values)]
        if not str(line.get_label()).startswith("_") and len(finite):
            named.append((float(finite[-1]), line))
    low, high = ax.get_ylim()
    heights = _spread([(value - low) / (high - low) for value, _ in named])
    for height, (_, line) in zip(heights, named, strict=True):
        ax.annotate(
            str(line.get_label()),
            (1.02, height),
            xycoords="axes fraction",
            va="center",
            color=line.get_color(),
            fontsize="small",
            annotation_clip=False,
        )


def _spread(heights: Sequence[float]) -> list[float]:
    """Move heights apart to at least the gap, keeping their order and their middle."""
    order = np.argsort(heights, kind="stable")
    placed = np.asarray(heights, dtype=float)[order]
    for _ in range(100):
        gaps = np.diff(placed)
        short = np.clip(_LABEL_GAP - gaps, 0.0, None) / 2
        if not len(gaps) or short.max() < 1e-4:
            break
        placed[:-1] -= short
        placed[1:] += short
    result = np.empty_like(placed)
    result[order] = placed
    return [float(value) for value in result]
