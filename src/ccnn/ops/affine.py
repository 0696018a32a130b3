"""A normalisation that is ready to use: a scale and a shift for every channel."""

from typing import NamedTuple

import torch
from torch import Tensor


class Affine(NamedTuple):
    """n = w · (scale · x + shift), and zero where the mask is false.

    Shapes
    ------
    scale, shift : (C,)
    mask : (B, 1, *S), bool, or None
    weights : w, (B, 1, *S), or None for 1
    """

    scale: Tensor
    shift: Tensor
    mask: Tensor | None = None
    weights: Tensor | None = None

    def __call__(self, x: Tensor, *, out: Tensor | None = None) -> Tensor:
        """(B, C, *S) -> (B, C, *S); with ``out``, written there and without a gradient."""
        shape = (-1, *(1,) * (x.ndim - 2))
        # Not addcmul, which is slower than both of these where it broadcasts.
        n = torch.mul(x, self.scale.view(shape), out=out).add_(self.shift.view(shape))
        if self.mask is not None:
            n = torch.where(self.mask, n, 0.0) if out is None else n.masked_fill_(~self.mask, 0.0)
        if self.weights is None:
            return n
        return n * self.weights if out is None else n.mul_(self.weights)

    def part(self, batch: slice, channels: slice = slice(None)) -> "Affine":
        """Return the same for some signals and channels."""
        mask = None if self.mask is None else self.mask[batch]
        weights = None if self.weights is None else self.weights[batch]
        return Affine(self.scale[channels], self.shift[channels], mask, weights)

    def of_input(self, grad: Tensor) -> Tensor:
        """Return the gradient of scale · x + shift for that of n, as a tensor that may be new."""
        if self.mask is not None:
            grad = torch.where(self.mask, grad, 0.0)
        return grad if self.weights is None else grad * self.weights
