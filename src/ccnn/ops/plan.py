"""The rule that picks how to convolve, from what each way was measured to cost."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ccnn.ops.blocks import block_hop
from ccnn.ops.spectral import fft_lengths

Method = Literal["auto", "direct", "fft", "blocks"]
METHODS = ("auto", "direct", "fft", "blocks")

# Nanoseconds per sample on two cores, 110 channels, as benchmarks/crossover.py measured them; by
# D, with 3 standing for more. Only their order matters.

# Direct, forward: torch has a fast kernel up to 9 taps on every axis (a start, then so much for
# every tap), and beyond it a slow one (for every tap).
_FAST_TAPS = 9
_DIRECT_FAST = {1: (1.3, 0.0), 2: (1.5, 0.02), 3: (2.0, 0.08)}
_DIRECT_SLOW = {1: 0.6, 2: 0.47, 3: 0.08}
# Direct, with both gradients; the kernel's is the expensive one. In 2-D and 3-D these are rough:
# they were taken on a busy machine, where only the ratios to an FFT could be read.
_DIRECT_TRAINING = {1: (2.0, 1.2), 2: (3.0, 0.16), 3: (5.0, 0.6)}
# Per transform and per log2 of its size, and the same once a transform no longer fits the cache.
_FFT = {1: 0.17, 2: 0.2, 3: 0.35}
_FFT_FITS = 1 << 16
_FFT_LARGE = 0.45
# Transforms in a forward (signal, result), and with both gradients (those, the gradient of the
# result, the signal again, the gradient of the signal).
_TRANSFORMS_FORWARD, _TRANSFORMS_TRAINING = 2, 5
# Cutting into pieces and joining them, relative to the transforms.
_BLOCKS_OVERHEAD = 1.5


@dataclass(frozen=True)
class Plan:
    """How a convolution will be done, and why.

    Attributes
    ----------
    method
        The way with the least expected cost.
    milliseconds
        The expected cost of every way. Only their order matters: machines differ.
    """

    method: Method
    milliseconds: dict[str, float]

    @property
    def reason(self) -> str:
        """The costs in a sentence."""
        costs = sorted(self.milliseconds.items(), key=lambda item: item[1])
        return f"{self.method}: " + ", ".join(f"{name} ≈ {ms:.3g} ms" for name, ms in costs)


def plan(signal: Sequence[int], kernel: Sequence[int], *, training: bool = True) -> Plan:
    """Say how ``convolve(x, kernel)`` with ``method="auto"`` would be done.

    Parameters
    ----------
    signal
        The shape of x, (B, C, *S).
    kernel
        The shape of the kernel, (C, *K) or (C_out, C_in, *K).
    training
        Whether gradients will be wanted.
    """
    # Numbers, not a compiler's symbols: the choice is made once per shape.
    batch, channels, *size = (int(n) for n in signal)
    dim = len(size)
    taps = [min(int(k), 2 * s - 1) for k, s in zip(kernel[-dim:], size, strict=True)]
    # A dense kernel has a direct convolution per pair of channels, but a transform per channel.
    outputs = int(kernel[0])
    pairs = batch * (channels if len(kernel) == dim + 1 else channels * outputs)
    transformed = batch * (channels + outputs) / 2
    transforms = _TRANSFORMS_TRAINING if training else _TRANSFORMS_FORWARD
    lengths = fft_lengths(size, taps, [k // 2 for k in taps])
    hops = [block_hop(s, k) for s, k in zip(size, taps, strict=True)]
    pieces = math.prod(-(-s // h) for s, h in zip(size, hops, strict=True))
    inner = [h + k - 1 for h, k in zip(hops, taps, strict=True)]
    nanoseconds = {
        "direct": pairs * math.prod(size) * _direct_cost(taps, training=training),
        "fft": transforms * transformed * _fft_cost(lengths),
        "blocks": transforms * transformed * pieces * _fft_cost(inner) * _BLOCKS_OVERHEAD,
    }
    best = min(nanoseconds, key=lambda name: nanoseconds[name])
    costs = {name: ns / 1e6 for name, ns in nanoseconds.items()}
    return Plan(method=best, milliseconds=costs)  # type: ignore[arg-type]  # one of METHODS


def _direct_cost(taps: Sequence[int], *, training: bool) -> float:
    """Return the nanoseconds per sample of the result."""
    dim, count = min(len(taps), 3), math.prod(taps)
    if not training and max(taps) > _FAST_TAPS:
        return _DIRECT_SLOW[dim] * count
    start, per_tap = (_DIRECT_TRAINING if training else _DIRECT_FAST)[dim]
    return start + per_tap * count


def _fft_cost(lengths: Sequence[int]) -> float:
    """Return the nanoseconds of one transform."""
    count = math.prod(lengths)
    rate = _FFT[min(len(lengths), 3)] if count <= _FFT_FITS else _FFT_LARGE
    return rate * count * math.log2(max(2, count))
