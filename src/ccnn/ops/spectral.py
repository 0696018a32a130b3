"""Convolution by the convolution theorem: the transforms, their sizes, and the adjoint.

§2.1: a convolution is a product in the frequency domain, O(S log S) for any kernel size.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ccnn.ops.affine import Affine

# Spectra are made in pieces of about this many bytes, which stay in a cache. For signals like
# workload a of benchmarks/speed.py 1 to 8 MB were equal, and all 19 MB at once a fifth slower.
CACHE_BYTES = 1 << 23


# From this length on, a multiple of 16 is transformed up to 1.5 times faster.
_LONG = 128


def good_size(n: int, *, multiple: int = 1) -> int:
    """Return the smallest multiple ≥ n with no prime factor above 7.

    A length with a large prime factor costs an FFT five to fifteen times as much.
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    if multiple < 1 or not _is_smooth(multiple):
        raise ValueError(f"multiple must have no prime factor above 7, got {multiple}")
    n = -(-n // multiple) * multiple
    while not _is_smooth(n):
        n += multiple
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
    if len(needed) == 1 and needed[0] > _LONG:
        return (good_size(needed[0], multiple=16),)
    return tuple(good_size(n, multiple=2) for n in needed)


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
        self.dim = len(signal)
        self.signal = tuple(signal)
        self.outputs = self.signal if outputs is None else tuple(outputs)
        self.taps = tuple(kernel.shape[-self.dim :])
        self.starts = tuple(k - 1 - o for k, o in zip(self.taps, origin, strict=True))
        self.lengths = fft_lengths(signal, self.taps, origin) if outputs is None else self.signal
        self.dense = kernel.ndim == self.dim + 2
        self.axes = tuple(range(-self.dim, 0))
        self.transfer = self._transform(kernel.flip(self.axes))  # (C, *F) or (O, I, *F)
        self._kernel_sum: Tensor | None = None

    def apply(self, x: Tensor, before: Affine | None = None) -> Tensor:
        """Return the convolution of x, or of before(x): (B, C_in, *S) -> (B, C_out, *S)."""
        if self.dense:
            product = torch.einsum("bi...,oi...->bo...", self._transform(x, before), self.transfer)
            return self._inverse(product, self.starts, self.outputs)
        results = (
            self._inverse(
                self._transform(x[b, c], _part(before, b, c)).mul_(self.transfer[c]),
                self.starts,
                self.outputs,
            )
            for b, c in self._pieces(x)
        )
        return self._join(x, results, self.outputs)

    def adjoint(
        self,
        grad: Tensor,
        x: Tensor | None,
        before: Affine | None = None,
        *,
        signal_too: bool = True,
        out: Tensor | None = None,
    ) -> Tensor | None:
        """Return the gradient of the signal; where x is given, add to that of the kernel.

        ŷ = x̂ ŵ, so x̂ gets ĝ conj(ŵ) and ŵ gets Σ_b conj(x̂) ĝ; the shift by ``starts`` is a
        phase, and no complex-to-complex transform is needed. ``out`` may be used for the result.
        """
        first, phase = (0,) * self.dim, self._phase()
        if self.dense:
            spectrum = self._transform(grad)
            if x is not None:
                other = self._transform(x, before)
                self._add(torch.einsum("bo...,bi...->oi...", spectrum, other.conj()))
            if not signal_too:
                return None
            product = torch.einsum("bo...,oi...->bi...", spectrum, self.transfer.conj() * phase)
            return self._inverse(product, first, self.signal)

        def results() -> Iterator[Tensor]:
            channels, back = slice(0), phase
            for b, c in self._pieces(grad):
                if c != channels:  # made for a few channels at a time, and never kept
                    channels, back = c, self.transfer[c].conj() * phase
                spectrum = self._transform(grad[b, c])
                if x is not None:
                    other = self._transform(x[b, c], _part(before, b, c))
                    self._add(other.conj_physical_().mul_(spectrum).sum(dim=0), c)
                if signal_too:
                    yield self._inverse(spectrum.mul_(back), first, self.signal)

        if signal_too:
            return self._join(grad, results(), self.signal, out)
        for _ in results():
            pass
        return None

    def kernel_gradient(self) -> Tensor:
        """Return the gradient of the kernel, from what `adjoint` added up, and start anew."""
        total, self._kernel_sum = self._kernel_sum, None
        assert total is not None
        first, phase = (0,) * self.dim, self._phase()
        kernels = [
            self._inverse(row * phase, first, self.taps) for row in torch.split(total, self._fit())
        ]
        return torch.cat(kernels).flip(self.axes)

    def _add(self, piece: Tensor, channels: slice = slice(None)) -> None:
        if self._kernel_sum is None:
            self._kernel_sum = torch.zeros_like(self.transfer)
        self._kernel_sum[channels] += piece

    def _pieces(self, x: Tensor) -> Iterator[tuple[slice, slice]]:
        """Cut signals, or the channels of one, so that a piece's spectrum fits the cache.

        Every piece is contiguous. Other devices take all at once.
        """
        batch, channels = x.shape[:2]
        if x.device.type != "cpu" or torch.compiler.is_compiling():
            yield slice(0, batch), slice(0, channels)
            return
        fit = self._fit()
        b_step, c_step = max(1, fit // channels), min(fit, channels)
        for c in range(0, channels, c_step):
            for b in range(0, batch, b_step):
                yield slice(b, b + b_step), slice(c, c + c_step)

    def _fit(self) -> int:
        """Return how many channels of a spectrum fit the cache, or keep all threads busy."""
        size = self.transfer[0].numel() * self.transfer.element_size()
        return max(torch.get_num_threads(), CACHE_BYTES // size)

    def _join(
        self,
        x: Tensor,
        results: Iterator[Tensor],
        size: Sequence[int],
        out: Tensor | None = None,
    ) -> Tensor:
        """Put the results of all pieces of x together; a single one is passed on as it is."""
        pieces = list(self._pieces(x))
        if len(pieces) == 1:
            return next(results)
        y = x.new_empty(*x.shape[:2], *size) if out is None else out
        for (b, c), result in zip(pieces, results, strict=True):
            y[b, c] = result
        return y

    def _transform(self, x: Tensor, before: Affine | None = None) -> Tensor:
        """Return the spectrum, its axes in reverse order: (…, *S) -> (…, *F).

        One axis after the other, each moved to the end where its samples lie side by side;
        rows that are only padding are never transformed.
        """
        spectrum: Tensor = torch.fft.rfft(_padded(x, self.lengths[-1], before))
        for axis in self.axes[-2::-1]:
            spectrum = torch.fft.fft(_padded(spectrum.movedim(axis, -1), self.lengths[axis]))
        return spectrum

    def _inverse(self, spectrum: Tensor, first: Sequence[int], size: Sequence[int]) -> Tensor:
        for axis in self.axes[:-1]:
            rows = torch.fft.ifft(spectrum).narrow(-1, first[axis], size[axis])
            spectrum = rows.movedim(-1, axis)
        signal: Tensor = torch.fft.irfft(spectrum, n=self.lengths[-1])
        return signal.narrow(-1, first[-1], size[-1])

    def _phase(self) -> Tensor:
        """Return exp(-2πi f · starts / N) on the grid of frequencies, (*F)."""
        dtype, device = self.transfer.real.dtype, self.transfer.device
        phase = torch.zeros((), dtype=dtype, device=device)
        for axis in reversed(self.axes):
            n, start = self.lengths[axis], self.starts[axis]
            f = torch.arange(n // 2 + 1 if axis == -1 else n, dtype=torch.float64, device=device)
            # Whole turns are dropped before the cast, where they would cost accuracy.
            turns = (f * start / n).frac().to(dtype)
            phase = phase.unsqueeze(-1) + turns
        return torch.polar(torch.ones_like(phase), -2 * torch.pi * phase)


def _part(before: Affine | None, batch: slice, channels: slice) -> Affine | None:
    return None if before is None else before.part(batch, channels)


def _padded(x: Tensor, n: int, before: Affine | None = None) -> Tensor:
    """Return x, or before(x), with zeros behind its last axis up to n samples."""
    size = x.shape[-1]
    if size == n:
        return x if before is None else before(x)
    padded = x.new_empty(*x.shape[:-1], n)
    padded[..., size:] = 0
    if before is None:
        padded[..., :size] = x
    else:
        before(x, out=padded[..., :size])
    return padded
