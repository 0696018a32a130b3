"""How far kernels reach: the windows' bounds, read from their device for all layers at once."""

import math
from collections.abc import Sequence
from typing import Protocol

import torch

from ccnn.nn.masks import GaussianMask
from ccnn.ops import grids

# How far a kernel reaches per axis, in samples: those of its grid, or training ones at points.
Reach = Sequence[float]


class Reaching(Protocol):
    """What decides how far a layer reaches; `AbstractContinuousConv` has it."""

    dim: int
    causal: bool
    kernel_size: tuple[int, ...]
    mask: GaussianMask | None

    def oversampling(self, spacing: Sequence[float]) -> tuple[int, ...]:
        """Return how many times as finely the kernel is sampled as the signal, on each axis."""


def read_reaches(layers: Sequence[Reaching], spacing: Sequence[float]) -> list[tuple[int, ...]]:
    """Return `AbstractContinuousConv.reach` of several layers with a single host read."""
    return [
        tuple(
            _reach(window, k, s / finer, causal=layer.causal)
            for window, k, s, finer in zip(
                windows, layer.kernel_size, spacing, layer.oversampling(spacing), strict=True
            )
        )
        for layer, windows in zip(layers, _read_windows(layers), strict=True)
    ]


def read_radii(layers: Sequence[Reaching]) -> list[tuple[float, ...]]:
    """Return how far each layer reaches on each axis, in training samples, with one host read."""
    return [
        tuple(
            grids.with_slack(min(window, grids.furthest_offset(k, causal=layer.causal)))
            for window, k in zip(windows, layer.kernel_size, strict=True)
        )
        for layer, windows in zip(layers, _read_windows(layers), strict=True)
    ]


def _read_windows(layers: Sequence[Reaching]) -> list[list[float]]:
    """Return how far the window of each layer lets it reach, in training samples."""
    masks = [layer.mask for layer in layers if layer.mask is not None]
    extents = iter(torch.stack([m.extent() for m in masks]).tolist() if masks else [])
    result = []
    for layer in layers:
        window = [math.inf] * layer.dim if layer.mask is None else next(extents)
        steps = [grids.step_in_coordinates(k) for k in layer.kernel_size]
        # The direct neighbours are always kept. A NaN, which is below nothing, is no bound.
        result.append(
            [
                max(w / step, 1.0) if w < math.inf else math.inf
                for w, step in zip(window, steps, strict=True)
            ]
        )
    return result


# The bounds decide shapes, so they must be known on the host; a compiled graph would be made anew
# for every value of σ instead of for its bucket. This is the mark that torch.compiler.disable
# sets; calling it would import torch's compiler with us, as long as importing torch takes.
read_reaches._torchdynamo_disable = True  # type: ignore[attr-defined]


def _reach(window: float, kernel_size: int, spacing: float, *, causal: bool) -> int:
    most = grids.furthest_offset(kernel_size, causal=causal)
    limit = grids.samples_within(most, spacing)
    if not window < most:
        return limit
    return min(grids.bucket(grids.samples_within(window, spacing)), limit)
