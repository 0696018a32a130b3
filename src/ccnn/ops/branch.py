"""The residual branch of a block in one piece, a few signals at a time.

Written out plainly, a block makes ten tensors as large as its input, and each travels to memory
and back. Here a group of signals that fits the cache goes all the way through the branch before
the next one starts; the gradient is written by hand and does the same.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ccnn.ops.affine import Affine
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
from ccnn.ops.tiles import Tile, groups_of, tiles_of

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
    weights: Tensor | None = None,
    causal: bool = False,
    lean: bool = False,
) -> Tensor:
    """Return y = x + GELU(W₂ (f · GELU(W₁ (K ⋆ n) + b₁)) + b₂) with n = w (scale · x + shift).

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
    weights
        What n is multiplied by, zero where there is no sample: how much of space each stands for.
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
    mask, weights : (B, 1, *S)
    """
    kernel, origin = crop(kernel, x.shape[2:], causal=causal)
    inputs = (x, kernel, scale, shift, weight_1, bias_1, weight_2, bias_2)
    recording = needs_gradient(*inputs)
    method = plan(x.shape, kernel.shape, training=recording).method
    if not is_fast(x) or (weights is not None and needs_gradient(weights)):
        return plain_branch(inputs, factor, mask, origin, method, weights)
    y: Tensor = _Branch.apply(  # type: ignore[no-untyped-call]  # torch does not type it
        *inputs, factor, mask, weights, origin, method, recording, lean
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
    weights: Tensor | None = None,
) -> Tensor:
    """As `residual_branch`, one operation after the other: the judge of the fast one."""
    x, kernel, scale, shift, weight_1, bias_1, weight_2, bias_2 = inputs
    n = Affine(scale, shift, mask, weights)(x)
    h = F.gelu(mix(plain(n, kernel, origin, method), weight_1, bias_1))
    h = h if factor is None else h * factor
    return x + F.gelu(mix(h, weight_2, bias_2))


def mix(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return W x + b at every position: (B, C_in, *S) -> (B, C_out, *S).

    The bias has one number per channel, (C_out,), or per position as well, (…, C_out, P).
    """
    # One batched product in this layout; Conv1d is three times slower on a CPU.
    y = torch.bmm(weight.expand(len(x), -1, -1), x.flatten(2))
    return y.add_(bias[:, None] if bias.ndim == 1 else bias).view(*y.shape[:2], *x.shape[2:])


def frozen_branch(
    x: Tensor,
    engine: Engine,
    weight_1: Tensor,
    bias_1: Tensor,
    weight_2: Tensor,
    bias_2: Tensor,
    *,
    before: Affine | None = None,
) -> Tensor:
    """As `residual_branch` with a kernel transformed before, and no gradient.

    Without ``before`` the normalisation is part of the kernel and of ``bias_1``, which may be one
    number per channel and position, (C, P).
    """
    maps = (weight_1, bias_1, weight_2, bias_2)
    y = torch.empty(x.shape, dtype=x.dtype)
    for group in groups_of(x):
        _forward(x[group], engine, _part(before, group), maps, None, y[group])
    return y


def _forward(
    x: Tensor,
    engine: Engine,
    before: Affine | None,
    maps: Sequence[Tensor],
    factor: Tensor | None,
    y: Tensor,
    *,
    keep: bool = False,
) -> list[Tensor]:
    """Run one group through the branch, into y, and return what its gradient needs besides x.

    That is the convolution's result, the two pre-activations and what lies between them.
    """
    weight_1, bias_1, weight_2, bias_2 = maps
    bias_1 = bias_1.view(len(bias_1), -1)  # (C, 1) or (C, P)
    u = engine.apply(x, before).flatten(2)
    kept = [u]
    for tile in tiles_of(u):
        z_1 = mix(tile(u), weight_1, tile(bias_1))
        h = _dropped(F.gelu(z_1), factor, tile)
        z_2 = mix(h, weight_2, bias_2)
        torch.add(tile(x.flatten(2)), F.gelu(z_2), out=tile(y.view(u.shape)))
        kept += [z_1, h, z_2] if keep else []
    return kept if keep else []


class _Branch(torch.autograd.Function):
    """The branch with a hand-written gradient."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        *inputs, factor, mask, weights, origin, method, recording, lean = arguments
        x, kernel, scale, shift, *maps = inputs
        engine = ENGINES[method](kernel, origin, x.shape[2:])
        before = Affine(scale, shift, mask, weights)
        y = torch.empty(x.shape, dtype=x.dtype)
        kept: list[Tensor] = []
        for group in groups_of(x):
            f = _factor(factor, group)
            keep = recording and not lean
            kept += _forward(x[group], engine, before.part(group), maps, f, y[group], keep=keep)
        if recording:
            ctx.save_for_backward(*inputs, factor, mask, weights, *kept)
            # A transformed kernel is as large as a signal.
            ctx.engine, ctx.rest = None if lean else engine, (origin, method)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, factor, mask, weights = ctx.saved_tensors[:11]
        origin, method = ctx.rest
        if torch.is_grad_enabled():  # somebody wants second derivatives
            y = plain_branch(inputs, factor, mask, origin, method, weights)
            return (*differentiable_gradients(y, inputs, grad), *(None,) * 7)
        kept = ctx.saved_tensors[11:]
        engine = ctx.engine or ENGINES[method](inputs[1], origin, grad.shape[2:])
        grads = _gradients(engine, inputs, factor, mask, weights, kept, grad.contiguous())
        return (*grads, *(None,) * 7)


def _gradients(
    engine: Engine,
    inputs: Sequence[Tensor],
    factor: Tensor | None,
    mask: Tensor | None,
    weights: Tensor | None,
    kept: Sequence[Tensor],
    grad: Tensor,
) -> list[Tensor]:
    """Go backwards through the branch, group by group; names as in `residual_branch`."""
    x, _, scale, shift, weight_1, bias_1, weight_2, bias_2 = inputs
    grad_x = torch.empty_like(grad)
    of_scale, of_shift, of_weight_1, of_bias_1, of_weight_2, of_bias_2 = (
        torch.zeros_like(t) for t in (scale, shift, weight_1, bias_1, weight_2, bias_2)
    )
    shape = (-1, *(1,) * (x.ndim - 2))
    saved = iter(kept)
    for group in groups_of(x):
        before = Affine(scale, shift, mask, weights).part(group)
        u = next(saved) if kept else engine.apply(x[group], before).flatten(2)
        f = _factor(factor, group)
        # Where nothing was kept u is ours, and each piece of it is used but once.
        grad_u = torch.empty(u.shape, dtype=u.dtype) if kept else u
        for tile in tiles_of(u):
            if kept:
                z_1, h, z_2 = next(saved), next(saved), next(saved)
            else:
                z_1 = mix(tile(u), weight_1, bias_1)
                h = _dropped(F.gelu(z_1), f, tile)
                z_2 = mix(h, weight_2, bias_2)
            g_2 = gelu_backward(tile(grad[group].view(u.shape)), z_2)
            _add_products(of_weight_2, of_bias_2, g_2, h)
            g_h = torch.bmm(weight_2.mT.expand(len(g_2), -1, -1), g_2)
            g_1 = gelu_backward(_dropped(g_h, f, tile), z_1)
            _add_products(of_weight_1, of_bias_1, g_1, tile(u))
            torch.bmm(weight_1.mT.expand(len(g_1), -1, -1), g_1, out=tile(grad_u))
        g_n = engine.adjoint(grad_u.view(x[group].shape), x[group], before, out=grad_x[group])
        assert g_n is not None
        g_n = before.of_input(g_n)
        flat_g, flat_x = g_n.flatten(2), x[group].flatten(2)
        of_shift += flat_g.sum(dim=-1).sum(dim=0)
        for tile in tiles_of(flat_x):
            of_scale += (tile(flat_g) * tile(flat_x)).sum(dim=-1).sum(dim=0)
        torch.mul(g_n, scale.view(shape), out=grad_x[group])
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
    of_weight += torch.bmm(grad, x.mT).sum(dim=0)
    of_bias += grad.sum(dim=-1).sum(dim=0)


def _part(before: Affine | None, group: slice) -> Affine | None:
    return None if before is None else before.part(group)


def _factor(factor: Tensor | None, group: slice) -> Tensor | None:
    return None if factor is None else factor[group].flatten(2)


def _dropped(h: Tensor, factor: Tensor | None, tile: Tile) -> Tensor:
    return h if factor is None else h.mul_(tile(factor))
