"""Convolution by the convolution theorem: the transforms, their sizes, and the adjoint.

§2.1: a convolution is a product in the frequency domain, O(S log S) for any kernel size.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

# Spectra are made in pieces of about this many bytes, which stay in a core's cache. For signals
# like workload a of benchmarks/speed.py 1 to 3 MB were equal, and all 19 MB at once a fifth slower.
CACHE_BYTES = 1 << 21


def good_size(n: int, *, even: bool = False) -> int:
    """Return the smallest FFT length ≥ n with no prime factor above 7 (an even one if asked).

    A length with a large prime factor costs an FFT five to fifteen times as much.
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    step = 2 if even else 1
    n = -(-n // step) * step
    while not _is_smooth(n):
        n += step
    return n


def _is_smooth(n: int) -> bool:
    for prime in (2, 3, 5, 7):
        while n % prime == 0:
            n //= prime
    return n == 1


def fft_lengths(
    signal: Sequence[int], taps: Sequence[int], origin: Sequence[int]
) -> tuple[int, ...]:
    """Return the FFT length of each axis: what wraps around must miss the wanted outputs.

    S + max(o, K-1-o) is enough, less than the S + K - 1 of a full convolution.
    """
    needed = [s + max(o, k - 1 - o) for s, k, o in zip(signal, taps, origin, strict=True)]
    return tuple(good_size(n, even=i == len(needed) - 1) for i, n in enumerate(needed))


class Spectral:
    """One kernel, transformed, for signals of one size.

    The flipped kernel h turns correlation into circular convolution z = h * x, of which the
    samples ``starts`` … ``starts`` + S - 1, starts = K-1-o, are the result.

    Parameters
    ----------
    kernel
        (C, *K) or (C_out, C_in, *K).
    origin
        o, the sample of the kernel at lag zero, on each axis.
    signal
        S, the size of the signals.
    outputs
        How many samples of the result are wanted, where they are fewer since the signals bring
        their own margins; S is then a good FFT length already.
    """

    def __init__(
        self,
        kernel: Tensor,
        origin: Sequence[int],
        signal: Sequence[int],
        *,
        outputs: Sequence[int] | None = None,
    ) -> None:
        dim = len(signal)
        self.signal = tuple(signal)
        self.outputs = self.signal if outputs is None else tuple(outputs)
        self.taps = tuple(kernel.shape[-dim:])
        self.starts = tuple(k - 1 - o for k, o in zip(self.taps, origin, strict=True))
        self.lengths = fft_lengths(signal, self.taps, origin) if outputs is None else self.signal
        self.dense = kernel.ndim == dim + 2
        self.axes = tuple(range(-dim, 0))
        self.transfer = self._transform(kernel.flip(self.axes))  # (C, *F) or (O, I, *F)
        self._adjoint_transfer: Tensor | None = None
        self._kernel_sum: Tensor | None = None

    def apply(self, x: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Return the convolution, (B, C_in, *S) -> (B, C_out, *S)."""
        if self.dense:
            product = torch.einsum("bi...,oi...->bo...", self._transform(x), self.transfer)
            return self._inverse(product, self.starts, self.outputs)
        shape = (*x.shape[:2], *self.outputs)
        y = torch.empty(shape, dtype=x.dtype, device=x.device) if out is None else out
        for c in self._channel_slices(x):
            spectrum = self._transform(x[:, c]).mul_(self.transfer[c])
            y[:, c] = self._inverse(spectrum, self.starts, self.outputs)
        return y

    def adjoint(self, grad: Tensor, x: Tensor | None, *, signal_too: bool = True) -> Tensor | None:
        """Return the gradient of x; where x is given, add to that of the kernel.

        ŷ = x̂ ŵ, so x̂ gets ĝ conj(ŵ) and ŵ gets Σ_b conj(x̂) ĝ; the shift by ``starts`` is a
        phase, and no complex-to-complex transform is needed.
        """
        if self._adjoint_transfer is None:
            self._adjoint_transfer = self.transfer.conj() * self._phase()
        back = self._adjoint_transfer
        if self.dense:
            spectrum = self._transform(grad)
            if x is not None:
                self._add(torch.einsum("bo...,bi...->oi...", spectrum, self._transform(x).conj()))
            if not signal_too:
                return None
            product = torch.einsum("bo...,oi...->bi...", spectrum, back)
            return self._inverse(product, (0,) * len(self.axes), self.signal)
        result = torch.empty_like(grad) if signal_too else None
        for c in self._channel_slices(grad):
            spectrum = self._transform(grad[:, c])
            if x is not None:
                # Σ_b conj(x̂) ĝ, as one product of vectors per frequency and channel.
                other = self._transform(x[:, c])
                self._add(other.conj_physical_().mul_(spectrum).sum(dim=0), c)
            if result is not None:
                spectrum.mul_(back[c])
                result[:, c] = self._inverse(spectrum, (0,) * len(self.axes), self.signal)
        return result

    def kernel_gradient(self) -> Tensor:
        """Return the gradient of the kernel, from what `adjoint` added up, and start anew."""
        assert self._kernel_sum is not None
        spectrum, self._kernel_sum = self._kernel_sum * self._phase(), None
        return self._inverse(spectrum, (0,) * len(self.axes), self.taps).flip(self.axes)

    def _add(self, part: Tensor, channels: slice = slice(None)) -> None:
        if self._kernel_sum is None:
            self._kernel_sum = torch.zeros_like(self.transfer)
        self._kernel_sum[channels] += part

    def _channel_slices(self, x: Tensor) -> Iterator[slice]:
        """Cut the channels so that a piece's spectrum fits the cache; not on other devices."""
        channels = x.shape[1]
        if x.device.type != "cpu" or torch.compiler.is_compiling():
            yield slice(0, channels)
            return
        per_channel = x.shape[0] * self.transfer[0].numel() * self.transfer.element_size()
        step = max(1, CACHE_BYTES // per_channel)
        for c in range(0, channels, step):
            yield slice(c, c + step)

    def _transform(self, x: Tensor) -> Tensor:
        # One axis after the other: rows that are only padding are never transformed.
        spectrum: Tensor = torch.fft.rfft(x, n=self.lengths[-1])
        for axis in self.axes[-2::-1]:
            spectrum = torch.fft.fft(spectrum, n=self.lengths[axis], dim=axis)
        return spectrum

    def _inverse(self, spectrum: Tensor, first: Sequence[int], size: Sequence[int]) -> Tensor:
        for axis in self.axes[:-1]:
            spectrum = torch.fft.ifft(spectrum, dim=axis).narrow(axis, first[axis], size[axis])
        signal: Tensor = torch.fft.irfft(spectrum, n=self.lengths[-1])
        return signal.narrow(-1, first[-1], size[-1])

    def _phase(self) -> Tensor:
        """Return exp(-2πi f · starts / N) on the grid of frequencies, (*F)."""
        dtype, device = self.transfer.real.dtype, self.transfer.device
        phase = torch.zeros((), dtype=dtype, device=device)
        for axis, (n, start) in enumerate(zip(self.lengths, self.starts, strict=True)):
            count = n // 2 + 1 if axis == len(self.lengths) - 1 else n
            f = torch.arange(count, dtype=torch.float64, device=device)
            # Whole turns are dropped before the cast, where they would cost accuracy.
            turns = (f * start / n).frac().to(dtype)
            phase = phase.unsqueeze(-1) + turns
        return torch.polar(torch.ones_like(phase), -2 * torch.pi * phase)
