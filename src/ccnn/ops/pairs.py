"""Sums over pairs of scattered points, a piece at a time, and their gradients."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ccnn.ops.conv import differentiable_gradients, has_own_gradient
from ccnn.ops.lattice import Lattice
from ccnn.ops.neighbours import Neighbours, Pairs, only
from ccnn.ops.table import Table

# A kernel as a pure function: offsets (P, D) in float64, parameters -> (P, C).
PairKernel = Callable[..., Tensor]

# Pairs are worked on in pieces of about this many numbers, which fit a cache. Far larger ones
# were measured to be ten times slower per pair, because each is fresh memory.
_PIECE = 1 << 19


class PairSum(NamedTuple):
    """Σ_j K(p_j - q_i) v_j, and what its gradients need, over pieces of all pairs.

    Parameters
    ----------
    near
        The pairs, and maybe some that are further apart than the radius.
    radius
        The distance on each axis beyond which K is zero.
    kernel
        K itself, or a table or lattice, whose entries are then the one parameter.
    inside
        Further says where K is not cut to zero; a lattice knows it by its entries.
    out_channels
        As for `ccnn.ops.convolve_points`.
    """

    near: Neighbours
    radius: tuple[float, ...]
    kernel: PairKernel | Table | Lattice
    inside: Callable[[Tensor], Tensor] | None
    out_channels: int | None

    def __call__(self, values: Tensor, parameters: Sequence[Tensor]) -> Tensor:
        """(B·N, C_in) -> (B·M, C_out)."""
        if has_own_gradient(values):
            # torch does not type `apply`.
            y: Tensor = _Pairs.apply(values, self, *parameters)  # type: ignore[no-untyped-call]
            return y
        return self.plain(values, parameters)

    def pieces(self, channels: int) -> Iterator[Pairs]:
        """Yield (output, input, offset or its number) of the pairs that the kernel does not cut."""
        most = max(256, _PIECE // max(channels * (self.out_channels or 1), 32))
        if isinstance(self.kernel, Lattice):
            yield from self.near.numbered(self.kernel, most)
            return
        radius = self.near.radius.new_tensor(self.radius)
        for pairs in self.near.pairs(most):
            if self.near.reach != self.radius:  # shared with a layer that sees further
                pairs = only((pairs[2].abs() <= radius).all(dim=-1), pairs)
            yield pairs if self.inside is None else only(self.inside(pairs[2]), pairs)

    def evaluate(self, where: Tensor, parameters: Sequence[Tensor]) -> Tensor:
        """Return K at the pairs of a piece."""
        if isinstance(self.kernel, Table | Lattice):
            return self.kernel.at(where, *parameters)
        return self.kernel(where, *parameters)

    def forward(self, values: Tensor, parameters: Sequence[Tensor]) -> Tensor:
        """(B·N, C_in) -> (B·M, C_out), no graph."""
        y = values.new_zeros(len(self.near.outputs), self.out_channels or values.shape[1])
        for target, source, where in self.pieces(values.shape[1]):
            k = self.evaluate(where, parameters)
            y.index_add_(0, target, self._apply(k, values.index_select(0, source)))
        return y

    def plain(self, values: Tensor, parameters: Sequence[Tensor]) -> Tensor:
        """As forward with torch's own gradients, which keep every pair: for second derivatives."""
        y = values.new_zeros(len(self.near.outputs), self.out_channels or values.shape[1])
        for target, source, where in self.pieces(values.shape[1]):
            k = self.evaluate(where, parameters)
            y = y.index_add(0, target, self._apply(k, values.index_select(0, source)))
        return y

    def gradients(
        self, grad: Tensor, values: Tensor, parameters: Sequence[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the gradients of the values and of the parameters."""
        of_values = torch.zeros_like(values)
        of_parameters = [torch.zeros_like(p) for p in parameters]
        for target, source, where in self.pieces(values.shape[1]):
            g, v = grad.index_select(0, target), values.index_select(0, source)
            k = self._kernel_gradient(where, self._outer(g, v), parameters, of_parameters)
            of_values.index_add_(0, source, self._adjoint(k, g))
        return of_values, of_parameters

    def _kernel_gradient(
        self,
        where: Tensor,
        grad: Tensor,
        parameters: Sequence[Tensor],
        sums: Sequence[Tensor],
    ) -> Tensor:
        """Return K at some pairs, and add to the gradients of its parameters."""
        if isinstance(self.kernel, Table | Lattice):
            self.kernel.add_gradient(where, grad, sums[0])
            return self.kernel.at(where, *parameters)
        with torch.enable_grad():
            leaves = [p.detach().requires_grad_() for p in parameters]
            k = self.kernel(where, *leaves)
        if leaves and k.requires_grad:
            found = torch.autograd.grad(k, leaves, grad, allow_unused=True)
            for total, part in zip(sums, found, strict=True):
                if part is not None:
                    total += part
        return k.detach()

    def _apply(self, k: Tensor, v: Tensor) -> Tensor:
        """(P, C_in) -> (P, C_out)."""
        if self.out_channels is None:
            return k * v
        return (self._matrix(k, v) @ v[..., None]).squeeze(-1)

    def _adjoint(self, k: Tensor, g: Tensor) -> Tensor:
        """(P, C_out) -> (P, C_in)."""
        if self.out_channels is None:
            return k * g
        return (g[:, None] @ k.view(len(k), self.out_channels, -1)).squeeze(1)

    def _outer(self, g: Tensor, v: Tensor) -> Tensor:
        """Return the gradient of K: (P, C_in) or (P, C_out · C_in)."""
        return g * v if self.out_channels is None else (g[..., None] * v[:, None]).flatten(1)

    def _matrix(self, k: Tensor, v: Tensor) -> Tensor:
        return k.view(len(k), self.out_channels or 1, v.shape[1])


class _Pairs(torch.autograd.Function):
    """The sum over pairs; the gradient evaluates the kernel again instead of keeping it."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, sum_: PairSum, *parameters: Tensor) -> Tensor:
        ctx.save_for_backward(values, *parameters)
        ctx.sum = sum_
        return sum_.forward(values, parameters)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        values, *parameters = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody wants second derivatives
            y = ctx.sum.plain(values, parameters)
            first, *rest = differentiable_gradients(y, (values, *parameters), grad)
            return first, None, *rest
        of_values, of_parameters = ctx.sum.gradients(grad.contiguous(), values, parameters)
        return of_values, None, *of_parameters
