"""Convolution by the definition, for kernels of a few taps."""

import itertools
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ccnn.ops.affine import Affine

_CONV_ND = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


class Direct:
    """One kernel for signals of one size; the counterpart of `ccnn.ops.spectral.Spectral`.

    Parameters
    ----------
    kernel
        (C, *K) or (C_out, C_in, *K).
    origin
        o, the sample of the kernel at lag zero, on each axis.
    signal
        S, the size of the signals.
    """

    def __init__(self, kernel: Tensor, origin: Sequence[int], signal: Sequence[int]) -> None:
        self.kernel = kernel
        self.origin = tuple(origin)
        self.signal = tuple(signal)
        self._kernel_sum: Tensor | None = None

    def apply(self, x: Tensor, before: Affine | None = None) -> Tensor:
        """Return the convolution of x, or of before(x): (B, C_in, *S) -> (B, C_out, *S)."""
        return direct(x if before is None else before(x), self.kernel, self.origin)

    def adjoint(
        self,
        grad: Tensor,
        x: Tensor | None,
        before: Affine | None = None,
        *,
        signal_too: bool = True,
    ) -> Tensor | None:
        """Return the gradient of the signal; where x is given, add to that of the kernel."""
        if x is not None:
            x = x if before is None else before(x)
            part = self._kernel_part(grad, x)
            self._kernel_sum = part if self._kernel_sum is None else self._kernel_sum + part
        if not signal_too:
            return None
        dim = len(self.signal)
        taps = self.kernel.shape[-dim:]
        kernel = self.kernel.flip(tuple(range(-dim, 0)))
        if kernel.ndim == dim + 2:
            kernel = kernel.transpose(0, 1)
        mirrored = [k - 1 - o for k, o in zip(taps, self.origin, strict=True)]
        return direct(grad, kernel, mirrored)

    def kernel_gradient(self) -> Tensor:
        """Return the gradient of the kernel, from what `adjoint` added up, and start anew."""
        total, self._kernel_sum = self._kernel_sum, None
        assert total is not None
        return total

    def _kernel_part(self, grad: Tensor, x: Tensor) -> Tensor:
        if len(self.signal) == 2:
            # oneDNN's kernel gradient of a depthwise convolution is three times faster so.
            grad = grad.to(memory_format=torch.channels_last)
            x = x.to(memory_format=torch.channels_last)
        with torch.enable_grad():
            kernel = self.kernel.detach().requires_grad_()
            y = direct(x.detach(), kernel, self.origin)
        return torch.autograd.grad(y, kernel, grad)[0]


def direct(x: Tensor, kernel: Tensor, origin: Sequence[int]) -> Tensor:
    """Convolve by the definition, differentiably, in any dimension.

    Shapes
    ------
    x : (B, C_in, *S)
    kernel : (C_in, *K) or (C_out, C_in, *K)
    result : (B, C_out, *S)
    """
    depthwise = kernel.ndim < x.ndim
    weight = kernel.unsqueeze(1) if depthwise else kernel
    groups = len(kernel) if depthwise else 1
    dim = x.ndim - 2
    margins = [(o, k - 1 - o) for k, o in zip(kernel.shape[-dim:], origin, strict=True)]
    if dim in _CONV_ND and all(before == after for before, after in margins):
        padding = [before for before, _ in margins]
        return _CONV_ND[dim](x, weight, padding=padding, groups=groups)
    # F.pad wants the last axis first.
    padded = F.pad(x, [*itertools.chain.from_iterable(reversed(margins))])
    return _valid(padded, weight, groups)


def _valid(x: Tensor, weight: Tensor, groups: int) -> Tensor:
    """Correlate without padding; beyond 3-D, as a sum over the taps of the first axis.

    Shapes
    ------
    x : (B, C_in, *P), weight : (C_out, C_in/groups, *K), result : (B, C_out, *(P-K+1))
    """
    if weight.ndim - 2 in _CONV_ND:
        return _CONV_ND[weight.ndim - 2](x, weight, groups=groups)
    taps, count = weight.shape[2], x.shape[2] - weight.shape[2] + 1
    total: Tensor | None = None
    for k in range(taps):
        # The positions of the first axis join the batch: (B·count, C_in, *P[1:])
        slab = x.narrow(2, k, count).transpose(1, 2).flatten(0, 1)
        y = _valid(slab, weight[:, :, k], groups)
        total = y if total is None else total + y
    assert total is not None
    return total.view(x.shape[0], count, *total.shape[1:]).transpose(1, 2)
