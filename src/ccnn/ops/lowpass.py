"""Band-limiting a kernel before it is sampled on a coarse grid.

A grid of spacing s holds frequencies up to 1/(2s). What a kernel has above them would come back
as something else, so the kernel is sampled m times as finely, filtered, and thinned out: every
m-th sample is kept.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

# Lobes of the sinc on either side. The filter passes frequencies up to 0.6 of the cut-off and
# stops those above 1.4 of it; more lobes are steeper, and make kernels longer by as many samples.
_LOBES = 4

# A spacing that was computed may miss an integer by its rounding.
_SLACK = 1e-6


def oversampling(spacing: float) -> int:
    """Return how many times as finely a kernel is sampled before its low-pass: m = ⌈s⌉.

    The fine spacing s/m is at most that of the training grid, on which the kernel was learned. At
    s ≤ 1, where nothing is lost, m = 1.
    """
    return max(1, math.ceil(spacing - _SLACK))


def lowpass_taps(factor: int) -> Tensor:
    """Return the low-pass for every m-th sample: a sinc under a Hann window, with unit sum.

    Its cut-off, where half of a tone is left, is the coarse Nyquist frequency: 1/(2m) of the fine
    sampling rate.

    Shapes
    ------
    result : (2·lobes·m - 1,), float64
    """
    half = _LOBES * factor - 1
    n = torch.arange(-half, half + 1, dtype=torch.float64)
    taps = torch.sinc(n / factor) * (1 + torch.cos(torch.pi * n / (half + 1)))
    return taps / taps.sum()


def thin_out(kernel: Tensor, factors: Sequence[int], *, causal: bool) -> Tensor:
    """Low-pass a kernel along its last axes and keep every m-th sample, lag zero included.

    The result is longer by the filter's reach: a band-limited kernel has no sharp ends, and without
    its tails the response would not be that of the fine grid. A causal one ends at lag zero all the
    same: what the filter would spread over later samples is left out.

    Parameters
    ----------
    kernel
        Sampled m times as finely as wanted; zero beyond its ends.
    factors
        m of each axis; 1 leaves an axis as it is.
    causal
        Whether lag zero is the last sample, or the one in the middle.

    Shapes
    ------
    kernel : (…, *K)
    result : (…, *K'), K' = 2⌊(r + lobes·m - 1)/m⌋ + 1 for a reach of r fine samples
    """
    for axis, factor in enumerate(factors, start=-len(factors)):
        if factor > 1:
            kernel = _thin_out_axis(kernel, axis, factor, causal=causal)
    return kernel


def _thin_out_axis(kernel: Tensor, axis: int, factor: int, *, causal: bool) -> Tensor:
    taps = lowpass_taps(factor).to(device=kernel.device, dtype=kernel.dtype)
    half = len(taps) // 2
    fine = kernel.shape[axis] - 1 if causal else kernel.shape[axis] // 2
    coarse = (fine + half) // factor
    before = coarse * factor + half - fine
    # F.pad wants the last axis first.
    padded = F.pad(kernel, [*(0, 0) * (-axis - 1), before, half if causal else before])
    return padded.unfold(axis, len(taps), factor) @ taps
