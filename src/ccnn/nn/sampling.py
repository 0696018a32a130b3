"""A continuous kernel on a regular grid."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ccnn.nn.kernels.base import AbstractKernelNet
from ccnn.nn.masks import GaussianMask
from ccnn.ops import grids
from ccnn.ops.lowpass import thin_out


def sample_kernel(
    kernel: AbstractKernelNet,
    mask: GaussianMask | None,
    kernel_size: Sequence[int],
    *,
    spacings: Sequence[float],
    finer: Sequence[int],
    reach: Sequence[int],
    causal: bool,
) -> Tensor:
    """Return spacing^D · G(c) · w(c) on a grid: Eq. (1).

    Parameters
    ----------
    kernel, mask, kernel_size, causal
        Of the layer.
    spacings
        Of the grid, in training samples.
    finer
        How many times as finely G and w are sampled before the low-pass; 1 is no low-pass.
    reach
        The furthest of those samples.

    Shapes
    ------
    result : (kernel_count, *K)
    """
    last = kernel.last.weight

    def cast(axis: Tensor) -> Tensor:
        return axis.to(device=last.device, dtype=last.dtype)

    # In half precision a kernel network's phases would be noise.
    with torch.autocast(last.device.type, enabled=False):
        relative = [
            grids.relative_axis(n, k, s / m, causal=causal)
            for n, k, s, m in zip(reach, kernel_size, spacings, finer, strict=True)
        ]
        zero = grids.lag_zero(causal=causal)
        coords = [cast(axis + zero) for axis in relative]
        factor = math.prod(spacings)
        if mask is None:
            values = kernel.on_grid(coords).movedim(-1, 0)
            return thin_out(values if factor == 1 else values * factor, finer, causal=causal)
        keep = [grids.step_in_coordinates(k) for k in kernel_size]
        window = mask.on_grid([cast(axis) for axis in relative], keep=keep)
        values = kernel.windowed_on_grid(coords, window * factor)
        return thin_out(values, finer, causal=causal)
