"""The rule that picks how to convolve, from what each way was measured to cost."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ccnn.ops import costs
from ccnn.ops.blocks import block_hop
from ccnn.ops.costs import Costs
from ccnn.ops.spectral import fft_lengths

Method = Literal["auto", "direct", "fft", "blocks"]
METHODS = ("auto", "direct", "fft", "blocks")

# The most taps on an axis for which torch has a fast direct convolution.
FAST_TAPS = 9
# The most samples of a transform that fits the cache.
FFT_FITS = 1 << 16
# Transforms in a forward (signal, result), and with both gradients (those, the gradient of the
# result, the signal again, the gradient of the signal).
TRANSFORMS_FORWARD, TRANSFORMS_TRAINING = 2, 5


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
    milliseconds: dict[Method, float]

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
    work = Work.of(signal, kernel, training=training)
    nanoseconds = work.nanoseconds(costs.CURRENT)
    best = min(nanoseconds, key=lambda name: nanoseconds[name])
    milliseconds = {name: ns / 1e6 for name, ns in nanoseconds.items()}
    return Plan(method=best, milliseconds=milliseconds)


@dataclass(frozen=True, kw_only=True)
class Work:
    """How much there is to do in each way: what costs are multiplied by.

    Attributes
    ----------
    taps
        The taps that can meet a sample, on each axis.
    results
        Samples of direct convolutions.
    transforms
        How many transforms, of all channels and signals.
    lengths
        The size of each, over the whole signal.
    pieces, piece_lengths
        Into how many pieces each signal is cut, and the size of their transforms.
    training
        Whether gradients are wanted.
    """

    taps: tuple[int, ...]
    results: float
    transforms: float
    lengths: tuple[int, ...]
    pieces: int
    piece_lengths: tuple[int, ...]
    training: bool

    @classmethod
    def of(cls, signal: Sequence[int], kernel: Sequence[int], *, training: bool) -> "Work":
        """Count for shapes as in `plan`."""
        # Numbers, not a compiler's symbols: the choice is made once per shape.
        batch, channels, *size = (int(n) for n in signal)
        dim = len(size)
        taps = tuple(min(int(k), 2 * s - 1) for k, s in zip(kernel[-dim:], size, strict=True))
        # A dense kernel has a direct convolution per pair of channels, but a transform per channel.
        outputs = int(kernel[0])
        pairs = batch * (channels if len(kernel) == dim + 1 else channels * outputs)
        hops = [block_hop(s, k) for s, k in zip(size, taps, strict=True)]
        count = TRANSFORMS_TRAINING if training else TRANSFORMS_FORWARD
        return cls(
            taps=taps,
            results=pairs * math.prod(size),
            transforms=count * batch * (channels + outputs) / 2,
            lengths=fft_lengths(size, taps, [k // 2 for k in taps]),
            pieces=math.prod(-(-s // h) for s, h in zip(size, hops, strict=True)),
            piece_lengths=tuple(h + k - 1 for h, k in zip(hops, taps, strict=True)),
            training=training,
        )

    def nanoseconds(self, c: Costs) -> dict[Method, float]:
        """Return what each way is expected to take."""
        cut = c.blocks_training if self.training else c.blocks_forward
        piece = fft_cost(self.piece_lengths, c) + cut * math.prod(self.piece_lengths)
        return {
            "direct": self.results * direct_cost(self.taps, c, training=self.training),
            "fft": self.transforms * fft_cost(self.lengths, c),
            "blocks": self.transforms * self.pieces * piece,
        }


def direct_cost(taps: Sequence[int], c: Costs, *, training: bool) -> float:
    """Return the nanoseconds per sample of the result."""
    d, count = _place(taps), math.prod(taps)
    once = c.direct_start[d] + c.direct_tap[d] * count
    if max(taps) > FAST_TAPS:
        once = max(once, c.direct_slow[d] * count)
    # The gradient of the signal is a convolution like the first.
    return 2 * once + c.gradient_start[d] + c.gradient_tap[d] * count if training else once


def fft_cost(lengths: Sequence[int], c: Costs) -> float:
    """Return the nanoseconds of one transform."""
    count = math.prod(lengths)
    rate = c.fft[_place(lengths)] if count <= FFT_FITS else c.fft_large
    return rate * count * math.log2(max(2, count))


def _place(axes: Sequence[int]) -> int:
    return min(len(axes), 3) - 1
