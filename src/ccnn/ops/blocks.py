"""Convolution by FFTs of overlapping pieces, for kernels much smaller than the signal."""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor

from ccnn.ops.affine import Affine
from ccnn.ops.spectral import Spectral, good_size


class Blocks:
    """Overlap-save: cut the signal into pieces, convolve each through a short FFT.

    Each axis is cut into pieces of ``hop`` outputs; a piece reads hop + K - 1 inputs. The
    transforms are short enough for the cache and their cost per sample no longer grows with S.

    Parameters
    ----------
    kernel, origin, signal
        As for `ccnn.ops.spectral.Spectral`.
    """

    def __init__(self, kernel: Tensor, origin: Sequence[int], signal: Sequence[int]) -> None:
        dim = len(signal)
        self.kernel = kernel
        self.origin = tuple(origin)
        self.signal = tuple(signal)
        self.taps = tuple(kernel.shape[-dim:])
        self.hops = tuple(block_hop(s, k) for s, k in zip(signal, self.taps, strict=True))
        self.pieces = tuple(-(-s // h) for s, h in zip(signal, self.hops, strict=True))
        lengths = tuple(h + k - 1 for h, k in zip(self.hops, self.taps, strict=True))
        # What wraps around falls on the first K - 1 samples, which are not wanted.
        self.inner = Spectral(kernel, (0,) * dim, lengths, outputs=self.hops)
        self._mirrored: Blocks | None = None

    def apply(self, x: Tensor, before: Affine | None = None) -> Tensor:
        """Return the convolution of x, or of before(x): (B, C_in, *S) -> (B, C_out, *S)."""
        x = x if before is None else before(x)
        return self._join(self.inner.apply(self._cut(x)), x.shape[0])

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

        ``out`` may be used for the result.
        """
        if x is not None:
            x = x if before is None else before(x)
            self.inner.adjoint(self._cut_plain(grad), self._cut(x), signal_too=False)
        if not signal_too:
            return None
        if self._mirrored is None:
            dim = len(self.signal)
            kernel = self.kernel.flip(tuple(range(-dim, 0)))
            if kernel.ndim == dim + 2:
                kernel = kernel.transpose(0, 1)
            mirrored = [k - 1 - o for k, o in zip(self.taps, self.origin, strict=True)]
            self._mirrored = Blocks(kernel, mirrored, self.signal)
        return self._mirrored.apply(grad)

    def kernel_gradient(self) -> Tensor:
        """Return the gradient of the kernel, from what `adjoint` added up, and start anew."""
        return self.inner.kernel_gradient()

    def _cut(self, x: Tensor) -> Tensor:
        """Return the overlapping pieces as one batch: (B·P, C, *(hop + K - 1))."""
        margins = [
            (o, p * h - s + k - 1 - o)
            for s, k, o, h, p in zip(
                self.signal, self.taps, self.origin, self.hops, self.pieces, strict=True
            )
        ]
        return self._fold(_pad(x, margins), self.inner.signal)

    def _cut_plain(self, x: Tensor) -> Tensor:
        """Return pieces of ``hop`` samples as one batch: (B·P, C, *hop)."""
        margins = [
            (0, p * h - s) for s, h, p in zip(self.signal, self.hops, self.pieces, strict=True)
        ]
        return self._fold(_pad(x, margins), self.hops)

    def _fold(self, x: Tensor, size: Sequence[int]) -> Tensor:
        dim = len(size)
        for axis, (n, hop) in enumerate(zip(size, self.hops, strict=True)):
            x = x.unfold(2 + axis, n, hop)  # (B, C, *P, *size)
        order = [0, *range(2, 2 + dim), 1, *range(2 + dim, 2 + 2 * dim)]
        return x.permute(order).flatten(0, dim)

    def _join(self, y: Tensor, batch: int) -> Tensor:
        dim = len(self.signal)
        y = y.reshape(batch, *self.pieces, y.shape[1], *self.hops)
        order = [0, 1 + dim]
        for axis in range(dim):
            order += [1 + axis, 2 + dim + axis]
        y = y.permute(order)
        whole = [p * h for p, h in zip(self.pieces, self.hops, strict=True)]
        y = y.reshape(batch, y.shape[1], *whole)
        for axis, s in enumerate(self.signal):
            y = y.narrow(2 + axis, 0, s)
        return y


def block_hop(signal: int, taps: int) -> int:
    """Return how many outputs a piece gives: a good FFT length of about four kernels, less K - 1.

    No more than the whole signal needs.
    """
    length = min(max(4 * taps, 64), signal + taps - 1)
    return good_size(length, multiple=2) - taps + 1


def _pad(x: Tensor, margins: Sequence[tuple[int, int]]) -> Tensor:
    flat = [n for before, after in reversed(margins) for n in (before, after)]
    return F.pad(x, flat)
