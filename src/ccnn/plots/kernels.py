"""Figures of continuous kernels: their shape, resolutions, spectrum and windows."""

import math
from collections.abc import Sequence

import torch
from matplotlib.axes import Axes
from torch import Tensor

from ccnn.domain import Grid
from ccnn.nn.conv import AbstractContinuousConv
from ccnn.ops import grids
from ccnn.plots.canvas import axes_or_new
from ccnn.plots.colours import depth_colours

_POSITION = "position (training samples)"

# A grid of this many samples per training sample is drawn as a line.
_FINE = 16

# Samples per training sample for a spectrum: from, to. The ω₀ of the paper needs hundreds.
_OVERSAMPLING = (8, 1024)


def plot_kernel(
    layer: AbstractContinuousConv,
    *,
    spacing: float | Sequence[float] = 1.0,
    channels: int | Sequence[int] = 0,
    colorbar: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the kernel a layer uses now: a line in 1-D, an image in 2-D, a middle slice above.

    Parameters
    ----------
    layer
        A continuous convolution.
    spacing
        Distance between the samples, in training samples; one number or one per axis.
    channels
        Which kernels. A dense layer has one per pair, number out · in_channels + in. An image
        shows one kernel, a line plot as many as given.
    colorbar
        Whether an image gets the scale of its colours beside it.
    ax
        Where to draw; a new figure unless given.

    Returns
    -------
    The axes.
    """
    spacings = Grid(spacing).spacings(layer.dim)
    chosen = _pick_channels(layer, channels)
    kernels = _sample(layer, spacings)  # (kernel_count, *K)
    ax = axes_or_new(ax)
    if layer.dim == 1:
        for channel in chosen:
            style = "-" if kernels.shape[1] > 60 else ".-"
            ax.plot(_positions(layer, kernels, spacings)[0], kernels[channel], style)
        ax.axhline(0, color="0.8", linewidth=0.8, zorder=0)
        ax.set_xlabel(_POSITION)
        ax.set_ylabel("kernel value")
    else:
        _draw_slice(layer, kernels[chosen[0]], spacings, ax)
        if colorbar:
            ax.figure.colorbar(ax.get_images()[-1], ax=ax, label="kernel value")
    return ax


def plot_resolutions(
    layer: AbstractContinuousConv,
    spacings: Sequence[float],
    *,
    channel: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Draw one kernel at several spacings: its samples, over spacing^D, lie on one curve (Eq. (1)).

    Where D > 1, along the last axis and through lag zero on the others.

    Parameters
    ----------
    layer
        A continuous convolution.
    spacings
        Distances between samples, in training samples.
    channel
        Which kernel.
    ax
        Where to draw; a new figure unless given.

    Returns
    -------
    The axes.
    """
    if not spacings:
        raise ValueError("spacings is empty; expected at least one, such as (0.5, 1, 2)")
    (chosen,) = _pick_channels(layer, channel)
    ax = axes_or_new(ax)
    position, values = _profile(layer, min(spacings) / _FINE)
    ax.plot(position, values[chosen], color="0.7", linewidth=1, zorder=0)
    for spacing, marker in zip(sorted(spacings), _markers(len(spacings)), strict=True):
        position, values = _profile(layer, spacing)
        size = 3.5 + 2.5 * math.log2(1 + spacing / min(spacings))
        ax.plot(
            position,
            values[chosen],
            marker,
            markersize=size,
            markerfacecolor="none",
            label=f"spacing {spacing:g}",
        )
    ax.set_xlabel(_POSITION)
    ax.set_ylabel("kernel value / spacing" + ("" if layer.dim == 1 else f"$^{layer.dim}$"))
    ax.legend(frameon=False)
    return ax


def plot_spectrum(
    layer: AbstractContinuousConv, *, label: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the amplitude spectrum of a layer's kernels, beyond what the training grid can hold.

    The kernels are sampled as finely as their frequencies ask for. To the right of the Nyquist
    frequency, half a cycle per training sample, is what the training grid folds back. Where
    D > 1, along the last axis and through lag zero on the others.

    Parameters
    ----------
    layer
        A continuous convolution.
    label
        Its name in the legend; the share of energy up to Nyquist is added.
    ax
        Where to draw; a new figure unless given. Several layers may share it.

    Returns
    -------
    The axes.
    """
    ax = axes_or_new(ax)
    frequency, amplitude = _spectrum(layer)
    energy = amplitude.square()
    share = float(energy[frequency <= 0.5].sum() / energy.sum())
    text = f"{share:.1%} of the energy up to Nyquist"
    ax.plot(frequency[1:], amplitude[1:], label=f"{label}: {text}" if label else text)
    if "Nyquist" not in ax.get_legend_handles_labels()[1]:
        ax.axvline(0.5, color="0.3", linestyle="--", linewidth=1, label="Nyquist")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("frequency (cycles per training sample)")
    ax.set_ylabel("amplitude, RMS over kernels")
    ax.legend(fontsize="small", loc="lower left", edgecolor="none")
    return ax


def plot_masks(layers: Sequence[AbstractContinuousConv], *, ax: Axes | None = None) -> Axes:
    """Draw the windows of several layers above each other, the first one lowest.

    Each ends where it is cut. Where D > 1 the further axes are drawn as broken lines.

    Parameters
    ----------
    layers
        Continuous convolutions, in order of depth; one without a window is drawn as a flat line.
    ax
        Where to draw; a new figure unless given.

    Returns
    -------
    The axes.
    """
    if not layers:
        raise ValueError("layers is empty; expected at least one continuous convolution")
    ax = axes_or_new(ax)
    for depth, (layer, colour) in enumerate(zip(layers, depth_colours(len(layers)), strict=True)):
        for axis in range(layer.dim):
            position, window = _window(layer, axis)
            style = ("-", "--", ":")[min(axis, 2)]
            ax.plot(position, depth + 0.85 * window, style, color=colour, linewidth=1.6)
            if axis == 0:
                ax.fill_between(position, depth, depth + 0.85 * window, color=colour, alpha=0.22)
    ax.set_yticks(range(len(layers)), ["stem", *(f"block {i}" for i in range(1, len(layers)))])
    ax.set_ylim(-0.15, len(layers))
    ax.set_xlabel(_POSITION)
    ax.set_ylabel("window")
    return ax


@torch.no_grad()
def _window(layer: AbstractContinuousConv, axis: int) -> tuple[Tensor, Tensor]:
    """Return positions in training samples and the window there, along one axis, (N,) each."""
    size = layer.kernel_size[axis]
    most = grids.furthest_offset(size, causal=layer.causal)
    step = grids.step_in_coordinates(size)
    extent = most * 1.0
    if layer.mask is not None:
        extent = min(max(float(layer.mask.extent()[axis]) / step, 1.0), most)
    position = torch.linspace(-extent, 0.0 if layer.causal else extent, 201)
    if layer.mask is None:
        return position, torch.ones_like(position)
    coords = torch.zeros(len(position), layer.dim)
    coords[:, axis] = position * step
    keep = [grids.step_in_coordinates(k) for k in layer.kernel_size]
    mask = layer.mask(coords.to(layer.mask.sigma), keep=keep)
    return position, mask[:, 0].float().cpu()


def _pick_channels(layer: AbstractContinuousConv, channels: int | Sequence[int]) -> list[int]:
    chosen = [channels] if isinstance(channels, int) else list(channels)
    for channel in chosen:
        if not 0 <= channel < layer.kernel_count:
            raise ValueError(f"there is no kernel {channel}: the layer has {layer.kernel_count}")
    if not chosen or (layer.dim > 1 and len(chosen) > 1):
        raise ValueError(
            f"channels is {channels!r}; expected "
            + ("at least one" if layer.dim == 1 else "exactly one, as an image shows one kernel")
        )
    return chosen


@torch.no_grad()
def _sample(layer: AbstractContinuousConv, spacings: Sequence[float]) -> Tensor:
    """Return the kernels on the host, dense ones in one row: (kernel_count, *K)."""
    kernel = layer.sampled_kernel(spacings).cpu()
    return kernel if layer.depthwise else kernel.flatten(0, 1)


def _positions(
    layer: AbstractContinuousConv, kernels: Tensor, spacings: Sequence[float]
) -> list[Tensor]:
    """Return where the samples of each axis lie, in training samples from lag zero."""
    result = []
    for taps, spacing in zip(kernels.shape[1:], spacings, strict=True):
        origin = taps - 1 if layer.causal else taps // 2
        result.append((torch.arange(taps) - origin) * spacing)
    return result


def _profile(layer: AbstractContinuousConv, spacing: float) -> tuple[Tensor, Tensor]:
    """Return positions and values / spacing^D along the last axis: (K,), (kernel_count, K)."""
    spacings = (*(1.0,) * (layer.dim - 1), spacing)
    kernels = _sample(layer, spacings)
    position = _positions(layer, kernels, spacings)[-1]
    for taps in kernels.shape[1:-1]:
        kernels = kernels.select(1, taps // 2)  # lag zero of the other axes
    return position, kernels / spacing


def _draw_slice(
    layer: AbstractContinuousConv, kernel: Tensor, spacings: Sequence[float], ax: Axes
) -> None:
    """Draw the last two axes of (*K) as an image, the others at lag zero."""
    image = kernel
    for _ in range(layer.dim - 2):
        image = image[image.shape[0] // 2]
    limit = float(image.abs().max())
    rows, columns = _positions(layer, kernel[None], spacings)[-2:]
    half_row, half_column = spacings[-2] / 2, spacings[-1] / 2
    ax.imshow(
        image.numpy(),
        cmap="RdBu_r",
        vmin=-limit,
        vmax=limit,
        extent=(
            float(columns[0]) - half_column,
            float(columns[-1]) + half_column,
            float(rows[-1]) + half_row,
            float(rows[0]) - half_row,
        ),
    )
    ax.set_xlabel(_POSITION)
    ax.set_ylabel(_POSITION)


def _spectrum(layer: AbstractContinuousConv) -> tuple[Tensor, Tensor]:
    """Return frequencies in cycles per training sample, and RMS amplitudes over the kernels."""
    size = layer.kernel_size[-1]
    # In multiples of Nyquist; twice that, because windows widen every line.
    highest = 2 * float(layer.kernel.frequencies()[-1]) / grids.nyquist(size)
    low, high = _OVERSAMPLING
    spacing = 1 / min(max(2 ** math.ceil(math.log2(highest + 1)), low), high)
    _, values = _profile(layer, spacing)
    length = 2 * values.shape[1]  # zeros, for a smooth line
    amplitude = torch.fft.rfft(values.double() * spacing, n=length).abs()
    return torch.fft.rfftfreq(length, d=spacing), amplitude.square().mean(dim=0).sqrt()


def _markers(count: int) -> list[str]:
    return [("o", "s", "D", "^", "v")[i % 5] for i in range(count)]
