"""N-dimensional convolution of a signal with a sampled kernel, directly or through an FFT.

Cross-correlation, as in every deep-learning library: y[t] = Σ_k K[k] x[t + k - o], where the
origin o of the kernel is K//2 on every axis (centred) or K-1 (causal), x is zero outside its
borders and y lies where x lies. Nothing here knows where kernels come from.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Method = Literal["auto", "direct", "fft"]
METHODS = ("auto", "direct", "fft")

# Above this many taps an FFT is used; measured with benchmarks/speed.py.
_DIRECT_TAPS = 50


def convolve(x: Tensor, kernel: Tensor, *, causal: bool = False, method: Method = "auto") -> Tensor:
    """Convolve every signal of a batch with a kernel; the output lies where the input lies.

    Parameters
    ----------
    x
        The signals.
    kernel
        One kernel per channel (depthwise), or one per pair of channels (dense). Any size, odd
        or even, also longer than the signal; the middle is sample K//2.
    causal
        The last sample of the kernel is lag 0 and nothing later is seen. D = 1 only.
    method
        ``"direct"``, ``"fft"`` or ``"auto"``, which picks the faster one.

    Shapes
    ------
    x : (B, C_in, *S)
    kernel : (C_in, *K) or (C_out, C_in, *K)
    result : (B, C_in, *S) or (B, C_out, *S)

    Notes
    -----
    Inside ``torch.autocast`` the convolution runs in float32, because FFTs lose too much in
    half precision, and returns what came in.
    """
    _check(x, kernel, causal=causal, method=method)
    device = x.device.type
    if torch.is_autocast_enabled(device):
        with torch.autocast(device, enabled=False):
            wide = torch.promote_types(torch.promote_types(x.dtype, kernel.dtype), torch.float32)
            y = _convolve(x.to(wide), kernel.to(wide), causal=causal, method=method)
        return y.to(x.dtype)
    return _convolve(x, kernel, causal=causal, method=method)


def _convolve(x: Tensor, kernel: Tensor, *, causal: bool, method: Method) -> Tensor:
    kernel, origin = _crop(kernel, x.shape[2:], causal=causal)
    if len(x) == 0:
        method = "direct"  # no FFT takes an empty batch
    if method == "auto":
        method = choose_method(kernel.shape[2 - x.ndim :])
    return (_direct if method == "direct" else _fft)(x, kernel, origin)


def choose_method(kernel_size: Sequence[int]) -> Method:
    """Return "direct" or "fft", whichever is expected to be faster."""
    return "direct" if math.prod(kernel_size) <= _DIRECT_TAPS else "fft"


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


def _crop(kernel: Tensor, signal: Sequence[int], *, causal: bool) -> tuple[Tensor, tuple[int, ...]]:
    """Drop the lags |δ| ≥ S, which meet no sample; return the kernel and its origin."""
    origins = []
    for axis, length in enumerate(signal, start=-len(signal)):
        taps = kernel.shape[axis]
        origin = taps - 1 if causal else taps // 2
        first, last = max(0, origin - length + 1), min(taps, origin + length)
        kernel = kernel.narrow(axis, first, last - first)
        origins.append(origin - first)
    return kernel, tuple(origins)


def _fft(x: Tensor, kernel: Tensor, origin: Sequence[int]) -> Tensor:
    """Convolve by the convolution theorem (§2.1), in O(S log S).

    The flipped kernel turns correlation into convolution, whose outputs o' … o'+S-1,
    o' = K-1-o, are wanted; what wraps around misses them when N ≥ S + max(o, o').
    """
    signal = x.shape[2:]
    axes = tuple(range(-len(signal), 0))
    taps = kernel.shape[-len(signal) :]
    starts = [k - 1 - o for k, o in zip(taps, origin, strict=True)]
    lengths = [
        good_size(s + max(o, start), even=axis == -1)
        for s, o, start, axis in zip(signal, origin, starts, axes, strict=True)
    ]
    spectrum = torch.fft.rfftn(x, s=lengths, dim=axes)
    transfer = torch.fft.rfftn(kernel.flip(axes), s=lengths, dim=axes)
    if kernel.ndim == x.ndim:
        product = torch.einsum("bi...,oi...->bo...", spectrum, transfer)
    else:
        product = spectrum * transfer
    y: Tensor = torch.fft.irfftn(product, s=lengths, dim=axes)
    for axis, start, length in zip(axes, starts, signal, strict=True):
        y = y.narrow(axis, start, length)
    return y


_CONV_ND = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def _direct(x: Tensor, kernel: Tensor, origin: Sequence[int]) -> Tensor:
    """Convolve by the definition."""
    depthwise = kernel.ndim < x.ndim
    signal = x.shape[2:]
    taps = kernel.shape[-len(signal) :]
    # Zeros before and after each axis; F.pad wants the last axis first.
    margins = [(o, k - 1 - o) for k, o in zip(taps, origin, strict=True)]
    padded = F.pad(x, [*itertools.chain.from_iterable(reversed(margins))])
    weight = kernel.unsqueeze(1) if depthwise else kernel
    return _valid(padded, weight, groups=len(kernel) if depthwise else 1)


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


def _check(x: Tensor, kernel: Tensor, *, causal: bool, method: str) -> None:
    if method not in METHODS:
        raise ValueError(f"method is {method!r}; expected one of {', '.join(METHODS)}")
    if x.ndim < 3:
        raise ValueError(
            f"x must have shape (B, C, *S) with at least one axis S, got {tuple(x.shape)}"
        )
    check_dtype(x, "x")
    check_dtype(kernel, "kernel")
    autocast = torch.is_autocast_enabled(x.device.type)
    if x.dtype != kernel.dtype and not autocast:
        raise TypeError(f"x is {x.dtype} but kernel is {kernel.dtype}; cast one of them")
    if kernel.ndim not in (x.ndim - 1, x.ndim):
        raise ValueError(
            f"kernel must have shape (C, *K) or (C_out, C_in, *K) with {x.ndim - 2} axes K for x "
            f"of shape {tuple(x.shape)}, got {tuple(kernel.shape)}"
        )
    channels = kernel.shape[1] if kernel.ndim == x.ndim else kernel.shape[0]
    if channels != x.shape[1]:
        raise ValueError(
            f"kernel of shape {tuple(kernel.shape)} is for {channels} input channels, "
            f"but x of shape {tuple(x.shape)} has {x.shape[1]}"
        )
    if causal and x.ndim != 3:
        raise ValueError(f"causal needs one axis (D = 1), but x has {x.ndim - 2}: {tuple(x.shape)}")
    if 0 in x.shape[2:] or 0 in kernel.shape:
        raise ValueError(
            f"x {tuple(x.shape)} and kernel {tuple(kernel.shape)} must not have empty axes"
        )


def check_dtype(x: Tensor, name: str) -> None:
    """Refuse what no convolution here can take, with the way out.

    float32 and float64 pass; float16 and bfloat16 pass inside ``torch.autocast``.
    """
    if x.dtype in (torch.float32, torch.float64):
        return
    if x.dtype in (torch.float16, torch.bfloat16):
        if torch.is_autocast_enabled(x.device.type):
            return
        raise TypeError(
            f"{name} is {x.dtype}, in which FFTs and kernels lose their accuracy; pass float32 "
            "and, for speed, wrap the call in torch.autocast"
        )
    raise TypeError(f"{name} is {x.dtype}; expected torch.float32 or torch.float64")
