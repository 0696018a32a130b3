"""The residual branch of a block in one piece, a few signals at a time.

Written out plainly, a block makes ten tensors as large as its input, and each travels to memory
and back. Here a group of signals that fits the cache goes all the way through the branch before
the next one starts; the gradient is written by hand and does the same.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ccnn.ops.conv import (
    ENGINES,
    Engine,
    crop,
    differentiable_gradients,
    has_own_gradient,
    needs_gradient,
    plain,
)
from ccnn.ops.plan import plan

# Signals go through the branch in groups of about this many bytes. Measured on workload a of
# benchmarks/speed.py, 2 to 32 MB differ by less than the noise; smaller ones keep less memory.
GROUP_BYTES = 1 << 23

gelu_backward = torch.ops.aten.gelu_backward


def residual_branch(
    x: Tensor,
    kernel: Tensor,
    scale: Tensor,
    shift: Tensor,
    weight_1: Tensor,
    bias_1: Tensor,
    weight_2: Tensor,
    bias_2: Tensor,
    *,
    factor: Tensor | None = None,
    mask: Tensor | None = None,
    causal: bool = False,
    lean: bool = False,
) -> Tensor:
    """Return y = x + GELU(W₂ (f · GELU(W₁ (K ⋆ n) + b₁)) + b₂) with n = scale · x + shift.

    §3 "An improved residual block", after its normalisation has become a scale and a shift.

    Parameters
    ----------
    x
        The signals.
    kernel
        One sampled kernel per channel.
    scale, shift
        The normalisation.
    weight_1, bias_1, weight_2, bias_2
        The two maps of the channels.
    factor
        What dropout multiplies by, if anything.
    mask
        Where samples exist; n is zero elsewhere.
    causal
        As in `ccnn.ops.convolve`.
    lean
        Keep only x for the gradient and compute the rest again: the least memory.

    Shapes
    ------
    x, result : (B, C, *S)
    kernel : (C, *K)
    scale, shift, bias_1, bias_2 : (C,)
    weight_1, weight_2 : (C, C)
    factor : (B, C, 1, …) or (B, C, *S)
    mask : (B, 1, *S)
    """
    kernel, origin = crop(kernel, x.shape[2:], causal=causal)
    inputs = (x, kernel, scale, shift, weight_1, bias_1, weight_2, bias_2)
    recording = needs_gradient(*inputs)
    method = plan(x.shape, kernel.shape, training=recording).method
    if not is_fast(x):
        return plain_branch(inputs, factor, mask, origin, method)
    y: Tensor = _Branch.apply(  # type: ignore[no-untyped-call]  # torch does not type it
        *inputs, factor, mask, origin, method, recording, lean
    )
    return y


def is_fast(x: Tensor) -> bool:
    """Return whether x is worked on in groups: on a CPU, outside of compilers and autocast."""
    return x.device.type == "cpu" and has_own_gradient(x) and not torch.is_autocast_enabled("cpu")


def plain_branch(
    inputs: Sequence[Tensor],
    factor: Tensor | None,
    mask: Tensor | None,
    origin: Sequence[int],
    method: str,
) -> Tensor:
    """As `residual_branch`, one operation after the other: the judge of the fast one."""
    x, kernel, scale, shift, weight_1, bias_1, weight_2, bias_2 = inputs
    n = _normalise(x, scale, shift, mask)
    h = F.gelu(mix(plain(n, kernel, origin, method), weight_1, bias_1))
    h = h if factor is None else h * factor
    return x + F.gelu(mix(h, weight_2, bias_2))


def mix(x: Tensor, weight: Tensor, bias: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return W x + b at every position: (B, C_in, *S) -> (B, C_out, *S)."""
    # One batched product in this layout; Conv1d is three times slower on a CPU.
    y = torch.bmm(weight.expand(len(x), -1, -1), x.flatten(2), out=out)
    return y.add_(bias.view(len(bias), -1)).view(*y.shape[:2], *x.shape[2:])


def affine(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Return scale · x + shift, with one number per channel: (B, C, *S) -> (B, C, *S)."""
    shape = (-1, *(1,) * (x.ndim - 2))
    # Not addcmul, which is slower than both of these where it broadcasts.
    return torch.mul(x, scale.view(shape)).add_(shift.view(shape))


def _normalise(x: Tensor, scale: Tensor, shift: Tensor, mask: Tensor | None) -> Tensor:
    n = affine(x, scale, shift)
    return n if mask is None else torch.where(mask, n, 0.0)


def frozen_branch(
    x: Tensor,
    engine: Engine,
    weight_1: Tensor,
    bias_1: Tensor,
    weight_2: Tensor,
    bias_2: Tensor,
    *,
    mask: Tensor | None = None,
    scale_and_shift: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """As `residual_branch` with a kernel transformed before, and no gradient.

    Without ``scale_and_shift`` the normalisation is part of the kernel and of ``bias_1``, which
    may be one number per channel and position, (C, P).
    """
    return _forward(x, engine, scale_and_shift, weight_1, bias_1, weight_2, bias_2, None, mask, [])


def _forward(
    x: Tensor,
    engine: Engine,
    scale_and_shift: tuple[Tensor, Tensor] | None,
    weight_1: Tensor,
    bias_1: Tensor,
    weight_2: Tensor,
    bias_2: Tensor,
    factor: Tensor | None,
    mask: Tensor | None,
    kept: Sequence[Tensor],
) -> Tensor:
    """Run the branch group by group, filling ``kept`` with what the gradient needs besides x.

    That is the convolution's result and the two pre-activations.
    """
    y = torch.empty(x.shape, dtype=x.dtype)
    bias_1 = bias_1.view(len(bias_1), -1)  # (C, 1) or (C, P)
    for group in groups_of(x):
        part = _part(mask, group)
        n = x[group] if scale_and_shift is None else _normalise(x[group], *scale_and_shift, part)
        u, z_1_all, z_2_all = (k[group] for k in kept) if kept else (None, None, None)
        u = engine.apply(n, out=None if u is None else u.view(n.shape)).flatten(2)
        f = _factor(factor, group)
        for p in pieces_of(u):
            z_1 = mix(u[..., p], weight_1, _at(bias_1, p), out=_slot(z_1_all, p))
            h = _dropped(F.gelu(z_1), f, p)
            z_2 = mix(h, weight_2, bias_2, out=_slot(z_2_all, p))
            flat = y[group].view(u.shape)[..., p]
            torch.add(x[group].flatten(2)[..., p], F.gelu(z_2), out=flat)
    return y


class _Branch(torch.autograd.Function):
    """The branch with a hand-written gradient."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        *inputs, factor, mask, origin, method, recording, lean = arguments
        x, kernel, scale, shift, weight_1, bias_1, weight_2, bias_2 = inputs
        engine = ENGINES[method](kernel, origin, x.shape[2:])
        keep = recording and not lean
        kept = [torch.empty(x.shape, dtype=x.dtype).flatten(2) for _ in range(3)] if keep else []
        maps = (weight_1, bias_1, weight_2, bias_2)
        y = _forward(x, engine, (scale, shift), *maps, factor, mask, kept)
        if recording:
            ctx.save_for_backward(*inputs, factor, mask, *kept)
            ctx.engine, ctx.rest = engine, (origin, method)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, factor, mask = ctx.saved_tensors[:10]
        if torch.is_grad_enabled():  # somebody wants second derivatives
            y = plain_branch(inputs, factor, mask, *ctx.rest)
            return (*differentiable_gradients(y, inputs, grad), *(None,) * 6)
        kept = ctx.saved_tensors[10:]
        grads = _gradients(ctx.engine, inputs, factor, mask, kept, grad.contiguous())
        return (*grads, *(None,) * 6)


def _gradients(
    engine: Engine,
    inputs: Sequence[Tensor],
    factor: Tensor | None,
    mask: Tensor | None,
    kept: Sequence[Tensor],
    grad: Tensor,
) -> list[Tensor]:
    """Go backwards through the branch, group by group; names as in `residual_branch`."""
    x, _, scale, shift, weight_1, bias_1, weight_2, bias_2 = inputs
    grad_x = torch.empty_like(grad)
    of_scale, of_shift, of_weight_1, of_bias_1, of_weight_2, of_bias_2 = (
        torch.zeros_like(t) for t in (scale, shift, weight_1, bias_1, weight_2, bias_2)
    )
    for group in groups_of(x):
        part = _part(mask, group)
        n = _normalise(x[group], scale, shift, part)
        u = kept[0][group] if kept else engine.apply(n).flatten(2)
        f = _factor(factor, group)
        grad_u = torch.empty_like(u)
        for p in pieces_of(u):
            z_1 = kept[1][group][..., p] if kept else mix(u[..., p], weight_1, bias_1)
            h = _dropped(F.gelu(z_1), f, p)
            z_2 = kept[2][group][..., p] if kept else mix(h, weight_2, bias_2)
            g_2 = gelu_backward(grad[group].view(u.shape)[..., p], z_2)
            _add_products(of_weight_2, of_bias_2, g_2, h)
            g_h = torch.bmm(weight_2.mT.expand(len(g_2), -1, -1), g_2)
            g_1 = gelu_backward(_dropped(g_h, f, p), z_1)
            _add_products(of_weight_1, of_bias_1, g_1, u[..., p])
            torch.bmm(weight_1.mT.expand(len(g_1), -1, -1), g_1, out=grad_u[..., p])
        g_n = engine.adjoint(grad_u.view(n.shape), n)
        assert g_n is not None
        if part is not None:
            g_n = torch.where(part, g_n, 0.0)
        of_shift += g_n.flatten(2).sum(dim=-1).sum(dim=0)
        of_scale += (g_n * x[group]).flatten(2).sum(dim=-1).sum(dim=0)
        torch.mul(g_n, scale.view(-1, *(1,) * (x.ndim - 2)), out=grad_x[group])
        grad_x[group] += grad[group]
    return [
        grad_x,
        engine.kernel_gradient(),
        of_scale,
        of_shift,
        of_weight_1,
        of_bias_1,
        of_weight_2,
        of_bias_2,
    ]


def _add_products(of_weight: Tensor, of_bias: Tensor, grad: Tensor, x: Tensor) -> None:
    for g, value in zip(grad, x, strict=True):
        of_weight.addmm_(g, value.mT)
    of_bias += grad.sum(dim=-1).sum(dim=0)


def _at(per_position: Tensor, p: slice) -> Tensor:
    return per_position if per_position.shape[-1] == 1 else per_position[..., p]


def _slot(whole: Tensor | None, p: slice) -> Tensor | None:
    return None if whole is None else whole[..., p]


def _part(mask: Tensor | None, group: slice) -> Tensor | None:
    return None if mask is None else mask[group]


def _factor(factor: Tensor | None, group: slice) -> Tensor | None:
    return None if factor is None else factor[group].flatten(2)


def _dropped(h: Tensor, factor: Tensor | None, p: slice) -> Tensor:
    if factor is None:
        return h
    return h.mul_(_at(factor, p))


def groups_of(x: Tensor) -> Iterator[slice]:
    """Cut a batch into groups of signals that fit the cache."""
    step = max(1, GROUP_BYTES // (x[0].numel() * x.element_size()))
    for b in range(0, len(x), step):
        yield slice(b, b + step)


def pieces_of(u: Tensor) -> Iterator[slice]:
    """Cut the positions of a group, (B, C, P), into pieces that fit the cache."""
    count = u.shape[-1]
    pieces = max(1, round(u.numel() * u.element_size() / GROUP_BYTES))
    step = -(-count // pieces)
    for p in range(0, count, step):
        yield slice(p, p + step)
