"""Where the samples of a kernel lie: kernel sizes, offsets and coordinates.

An *offset* δ is (position of the input sample) - (position of the output sample), measured in
training samples. A *coordinate* is what a kernel network sees, in [-1, 1]^D
(App. B.1 "Normalized relative positions").
"""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

KernelSize = Literal["same", "full"] | int | Sequence[int]

# Offsets are compared with bounds that went through a division; this absorbs its rounding.
_SLACK = 1e-6


def resolve_kernel_size(
    size: Sequence[int], kernel_size: KernelSize, *, causal: bool
) -> tuple[int, ...]:
    """Return K for every axis of a signal of the given training size.

    Parameters
    ----------
    size
        The training size of the signal, one number per axis.
    kernel_size
        ``"same"`` (the size, rounded up to odd where the kernel is centred), ``"full"``
        (2·size - 1), one number for all axes, or one per axis.
    causal
        Whether the kernel looks back only; centred kernels need an odd number of samples.
    """
    if kernel_size == "same":
        return tuple(n if causal else n + 1 - n % 2 for n in size)
    if kernel_size == "full":
        return tuple(2 * n - 1 for n in size)
    if isinstance(kernel_size, int):
        sizes: tuple[int, ...] = (kernel_size,) * len(size)
    elif isinstance(kernel_size, Sequence) and not isinstance(kernel_size, str):
        sizes = tuple(kernel_size)
    else:
        raise ValueError(
            f'kernel_size is {kernel_size!r}; expected "same", "full", an integer or one per axis'
        )
    if len(sizes) != len(size):
        raise ValueError(
            f"kernel_size has {len(sizes)} entries {sizes}, but size {tuple(size)} has {len(size)} "
            "axes; expected one number, or one per axis"
        )
    for n in sizes:
        if not isinstance(n, int) or n < 1:
            raise ValueError(f"kernel_size must hold positive integers, got {kernel_size!r}")
        if not causal and n % 2 == 0:
            raise ValueError(
                f"kernel_size {n} is even, but a centred kernel needs a middle sample; "
                f"use {n + 1} (or {n - 1}), or causal=True"
            )
    return sizes


def furthest_offset(kernel_size: int, *, causal: bool) -> float:
    """Return the largest |δ| that a kernel of K training samples reaches."""
    return float(kernel_size - 1) if causal else (kernel_size - 1) / 2


def samples_within(distance: float, spacing: float) -> int:
    """Return how many steps of ``spacing`` fit into a distance (both in training samples)."""
    return math.floor(distance / spacing + _SLACK)


def with_slack(distance: float) -> float:
    """Return a bound that an offset which lies exactly at the distance does not pass."""
    return distance + _SLACK


def bucket(reach: int) -> int:
    """Round a number of samples up to one of four sizes per octave (exact up to 8).

    While a window's width moves during training, the sampled kernel keeps one of a few
    shapes, so that compiled graphs and FFT plans are reused.
    """
    if reach <= 8:
        return reach
    step = 1 << ((reach - 1).bit_length() - 3)
    return -(-reach // step) * step


def lag_zero(*, causal: bool) -> float:
    """Return the coordinate of δ = 0: the middle of [-1, 1], or its end where causal."""
    return 1.0 if causal else 0.0


def relative_axis(reach: int, kernel_size: int, spacing: float, *, causal: bool) -> Tensor:
    """Return the coordinates of one axis of the kernel, relative to lag zero.

    δ = spacing · j for j = -reach … reach (… 0 where causal), and 2δ/(K - 1) for each: the
    coordinate is this plus `lag_zero`. In float64, so that a later cast is the only rounding.

    Shapes
    ------
    result : (2·reach + 1,), or (reach + 1,) where causal
    """
    steps = torch.arange(-reach, 1 if causal else reach + 1, dtype=torch.float64)
    # In this order an offset that exists at spacing 1 has bit for bit the same coordinate.
    return (steps * spacing) * step_in_coordinates(kernel_size)


def step_in_coordinates(kernel_size: int) -> float:
    """Return the distance between two training samples in coordinates, 2/(K - 1)."""
    return 2.0 / max(kernel_size - 1, 1)


def nyquist(kernel_size: int) -> float:
    """Return the highest angular frequency, in rad per unit coordinate, that K samples hold.

    Half a period per sample: π / (2/(K - 1)).
    """
    return math.pi / step_in_coordinates(kernel_size)


def coordinate_grid(axes: Sequence[Tensor]) -> Tensor:
    """Return the grid spanned by one coordinate vector per axis, shape (*K, D)."""
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1)
