"""The kernels of all layers of a network, side by side."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from ccnn.nn.conv import AbstractContinuousConv
from ccnn.plots.kernels import plot_kernel


def plot_layers(
    layers: Sequence[AbstractContinuousConv],
    *,
    spacing: float | Sequence[float] = 1.0,
    channels: int | Sequence[int] = 0,
    axes: Sequence[Axes] | None = None,
) -> list[Axes]:
    """Draw the kernels that each layer uses now, a panel each, as `plot_kernel` does.

    Parameters
    ----------
    layers
        Continuous convolutions, the stem first.
    spacing
        As for `plot_kernel`.
    channels
        Which kernels, as for `plot_kernel`. Of a layer that has fewer, those that it has; its
        first one if that is none.
    axes
        Where to draw, one for each layer; a new figure unless given.

    Returns
    -------
    The axes.
    """
    if not layers:
        raise ValueError("layers is empty; expected at least one continuous convolution")
    if axes is None:
        size = (3.2 * len(layers), 2.6)
        _, grid = plt.subplots(1, len(layers), figsize=size, squeeze=False, layout="constrained")
        axes = list(grid[0])
    if len(axes) != len(layers):
        raise ValueError(f"there are {len(axes)} axes for {len(layers)} layers; give one for each")
    for place, (layer, ax) in enumerate(zip(layers, axes, strict=True)):
        asked = [channels] if isinstance(channels, int) else channels
        there = [channel for channel in asked if channel < layer.kernel_count] or [0]
        plot_kernel(layer, spacing=spacing, channels=there, colorbar=False, ax=ax)
        ax.set_title("stem" if place == 0 else f"block {place}")
        if place > 0:
            ax.set_ylabel("")
    return list(axes)
