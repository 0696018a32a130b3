"""N-dimensional convolution of a signal with a sampled kernel.

Cross-correlation, as in every deep-learning library: y[t] = Σ_k K[k] x[t + k - o], where the
origin o of the kernel is K//2 on every axis (centred) or K-1 (causal), x is zero outside its
borders and y lies where x lies. Nothing here knows where kernels come from.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ccnn.ops.blocks import Blocks
from ccnn.ops.direct import Direct, direct
from ccnn.ops.plan import METHODS, Method, plan
from ccnn.ops.spectral import Spectral

Engine = Direct | Spectral | Blocks
ENGINES: dict[str, type[Engine]] = {"direct": Direct, "fft": Spectral, "blocks": Blocks}


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
        ``"direct"``, ``"fft"``, ``"blocks"`` (FFTs of overlapping pieces), or ``"auto"``, which
        picks the one expected to be fastest (`ccnn.ops.plan` says which, and why).

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
    kernel, origin = crop(kernel, x.shape[2:], causal=causal)
    if len(x) == 0:
        method = "direct"  # no FFT takes an empty batch
    if method == "auto":
        method = plan(x.shape, kernel.shape, training=needs_gradient(x, kernel)).method
    if has_own_gradient(x) and needs_gradient(x, kernel):
        # torch does not type it
        y: Tensor = _Convolution.apply(x, kernel, origin, method)  # type: ignore[no-untyped-call]
        return y
    return plain(x, kernel, origin, method)


def prepare(kernel: Tensor, x: Tensor, *, causal: bool) -> Engine:
    """Return the convolution with a kernel for many signals like x, transformed once."""
    kernel, origin = crop(kernel, x.shape[2:], causal=causal)
    method = plan(x.shape, kernel.shape, training=False).method
    return ENGINES[method](kernel, origin, x.shape[2:])


def plain(x: Tensor, kernel: Tensor, origin: Sequence[int], method: str) -> Tensor:
    """Convolve with torch's own gradients: the judge, and what transforms of torch can read."""
    if method == "direct":
        return direct(x, kernel, origin)
    return ENGINES[method](kernel, origin, x.shape[2:]).apply(x)


def needs_gradient(*tensors: Tensor) -> bool:
    """Return whether autograd will want a gradient for any of the tensors."""
    return torch.is_grad_enabled() and any(t.requires_grad for t in tensors)


def has_own_gradient(x: Tensor) -> bool:
    """Return whether our hand-written gradients can be used for x.

    A compiler sees more in plain operations, and torch.func cannot look into ours.
    """
    return not (
        torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active() or x.is_meta
    )


def crop(kernel: Tensor, signal: Sequence[int], *, causal: bool) -> tuple[Tensor, tuple[int, ...]]:
    """Drop the lags |δ| ≥ S, which meet no sample; return the kernel and its origin."""
    origins = []
    for axis, length in enumerate(signal, start=-len(signal)):
        taps = kernel.shape[axis]
        origin = taps - 1 if causal else taps // 2
        first, last = max(0, origin - length + 1), min(taps, origin + length)
        kernel = kernel.narrow(axis, first, last - first)
        origins.append(origin - first)
    return kernel, tuple(origins)


class _Convolution(torch.autograd.Function):
    """A convolution that keeps x and the kernel's spectrum only, with a hand-written gradient."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, kernel: Tensor, origin: tuple[int, ...], method: str
    ) -> Tensor:
        ctx.engine = engine = ENGINES[method](kernel, origin, x.shape[2:])
        ctx.save_for_backward(x, kernel)
        ctx.rest = origin, method
        return engine.apply(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, kernel = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody wants second derivatives
            y = plain(x, kernel, *ctx.rest)
            return (*differentiable_gradients(y, (x, kernel), grad), None, None)
        want_x, want_kernel = ctx.needs_input_grad[:2]
        grad_x = ctx.engine.adjoint(
            grad.contiguous(), x if want_kernel else None, signal_too=want_x
        )
        return grad_x, ctx.engine.kernel_gradient() if want_kernel else None, None, None


def differentiable_gradients(
    y: Tensor, inputs: Sequence[Tensor], grad: Tensor
) -> list[Tensor | None]:
    """Return the gradients of y with a graph of their own, None for inputs that want none."""
    wanted = [t for t in inputs if t.requires_grad]
    found = iter(torch.autograd.grad(y, wanted, grad, create_graph=True))
    return [next(found) if t.requires_grad else None for t in inputs]


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
