"""Gabor functions of many units at many coordinates, with a hand-written gradient.

The gradient asks for a few sums over all coordinates. Left to torch it takes some fifteen passes
over tensors of their number times H, which is most of the time that a long kernel takes.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ccnn.ops.conv import differentiable_gradients, has_own_gradient


def gabor(coords: Tensor, weight: Tensor, bias: Tensor, gamma: Tensor, centre: Tensor) -> Tensor:
    """Return exp(-½ Σ_d [γ_d (c_d - μ_d)]²) · sin(Σ_d w_d c_d + b).

    Shapes
    ------
    coords : (P, D)
    weight, centre : (H, D)
    gamma : (H, D) or (H, 1)
    bias : (H,)
    result : (P, H)
    """
    if coords.shape[1] != centre.shape[1]:
        raise ValueError(f"coords are (P, {coords.shape[1]}); expected (P, {centre.shape[1]})")
    parameters = (weight, bias, gamma.expand_as(centre), centre)
    if coords.requires_grad or not has_own_gradient(coords):
        return _plain(coords, *parameters)
    # torch does not type `apply`.
    result: Tensor = _Gabor.apply(coords, *parameters)  # type: ignore[no-untyped-call]
    return result


def _plain(coords: Tensor, weight: Tensor, bias: Tensor, gamma: Tensor, centre: Tensor) -> Tensor:
    distance = gamma * (coords.unsqueeze(-2) - centre)  # (P, H, D)
    window = gaussian(distance.square().sum(dim=-1))
    return window * torch.sin(torch.nn.functional.linear(coords, weight, bias))


def gaussian(square: Tensor, *, factors: int = 1) -> Tensor:
    """Return exp(-½ square), but so that a product of so many is no subnormal number.

    Far from its centre a Gaussian falls to numbers so small that a processor takes a hundred
    times as long for each of them, and that change no digit of a kernel.
    """
    return torch.exp((-0.5 * square).clamp(min=lowest(square.dtype) / factors))


def lowest(dtype: torch.dtype) -> float:
    """Return the logarithm of numbers that may still be multiplied by others without care."""
    return 0.9 * math.log(torch.finfo(dtype).tiny)


def _phase(coords: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    if coords.shape[1] == 1:
        return (coords * weight[:, 0]).add_(bias)
    return torch.nn.functional.linear(coords, weight, bias)


def _window(coords: Tensor, gamma: Tensor, centre: Tensor) -> Tensor:
    if coords.shape[1] == 1:
        exponent = (coords - centre[:, 0]).mul_(gamma[:, 0]).square_().mul_(-0.5)
    else:
        # As a matrix product with c² and c it is three times as fast as with (P, H, D) numbers.
        scale = -0.5 * gamma.square()
        weight = torch.cat([scale, -2 * scale * centre], dim=1)
        bias = (scale * centre.square()).sum(dim=1)
        exponent = torch.nn.functional.linear(
            torch.cat([coords.square(), coords], dim=1), weight, bias
        )
    return exponent.clamp_(min=lowest(coords.dtype)).exp_()


class _Gabor(torch.autograd.Function):
    """Keeps the window and the result; the phases are computed again."""

    @staticmethod
    def forward(
        ctx: Any, coords: Tensor, weight: Tensor, bias: Tensor, gamma: Tensor, centre: Tensor
    ) -> Tensor:
        window = _window(coords, gamma, centre)
        result = _phase(coords, weight, bias).sin_().mul_(window)
        ctx.save_for_backward(coords, weight, bias, gamma, centre, window, result)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        coords, *parameters, window, result = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody wants second derivatives
            y = _plain(coords, *parameters)
            return None, *differentiable_gradients(y, parameters, grad)
        return None, *_gradients(coords, parameters, window, result, grad)


def _gradients(
    coords: Tensor, parameters: Sequence[Tensor], window: Tensor, result: Tensor, grad: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of weight, bias, gamma and centre."""
    weight, bias, gamma, centre = parameters
    # Matrix products sum faster than sums do.
    columns = torch.cat([torch.ones_like(coords[:, :1]), coords, coords.square()], dim=1).mT
    dim = coords.shape[1]
    of_phase = _phase(coords, weight, bias).cos_().mul_(window).mul_(grad)
    sums = columns[: 1 + dim] @ of_phase  # (1 + D, H)
    through = grad * result
    if dim == 1:
        distance = coords - centre[:, 0]
        first = columns[:1] @ through.mul_(distance)
        second = columns[:1] @ through.mul_(distance)
    else:
        # Σ (c - μ)² g from Σ g, Σ c g and Σ c² g: fewer passes, and a few digits fewer.
        moments = columns @ through  # (1 + 2D, H)
        total, once, twice = moments[:1], moments[1 : 1 + dim], moments[1 + dim :]
        first = once - centre.mT * total
        second = twice - 2 * centre.mT * once + centre.mT.square() * total
    return sums[1:].mT, sums[0], -gamma * second.mT, gamma.square() * first.mT
