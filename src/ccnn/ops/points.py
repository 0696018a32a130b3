"""Convolution of scattered samples: y_i = Σ_j w_j K(p_j - p_i) x_j.

The kernel is a function of the offset, not a sampled one. Only pairs within its support are
looked at, a piece at a time: memory grows with the number of points, time with that of pairs.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from ccnn.ops.conv import differentiable_gradients, has_own_gradient
from ccnn.ops.neighbours import Neighbours, Pairs, only
from ccnn.ops.table import Table, tabulate

PointMethod = Literal["auto", "exact", "table"]
POINT_METHODS = ("auto", "exact", "table")

# A kernel as a pure function: offsets (P, D) in float64, parameters -> (P, C).
PairKernel = Callable[..., Tensor]

# Pairs are worked on in pieces of about this many numbers, which fit a cache. Far larger ones
# were measured to be ten times slower per pair, because each is fresh memory.
_PIECE = 1 << 19

# With fewer pairs per entry a table costs as much as it saves.
_PAIRS_PER_ENTRY = 4

# By name a table may be as large as this; more would not fit a small machine.
_LARGEST = 1 << 22


def convolve_points(
    x: Tensor,
    positions: Tensor,
    kernel: PairKernel,
    parameters: Sequence[Tensor] = (),
    *,
    radius: Sequence[float],
    inside: Callable[[Tensor], Tensor] | None = None,
    weights: Tensor | None = None,
    mask: Tensor | None = None,
    query: Tensor | None = None,
    out_channels: int | None = None,
    causal: bool = False,
    method: PointMethod = "auto",
    tolerance: float = 1e-5,
) -> Tensor:
    """Convolve scattered samples with a kernel that is a function of the offset.

    y_i = Σ_j w_j K(p_j - q_i) x_j over the samples within the kernel's support.

    Parameters
    ----------
    x
        The values of the samples.
    positions
        Where they lie.
    kernel
        K: ``kernel(offsets, *parameters)``, in the precision of its parameters. Smooth: its cuts
        are said by ``radius`` and ``inside``.
    parameters
        The tensors that K depends on, which get gradients.
    radius
        The distance on each axis beyond which K is zero.
    inside
        Further says where K is not cut to zero; offsets to bool.
    weights
        w, the share of space of each sample; 1 unless given.
    mask
        Which samples exist.
    query
        q, where the outputs lie; where the samples lie unless given.
    out_channels
        None where K has one value per channel; otherwise it has one per pair of channels, the
        output channel being the slow index.
    causal
        Whether samples later than the output are left out; those at the same time are seen. D = 1.
    method
        ``"exact"`` evaluates K at every pair; ``"table"`` interpolates a finely sampled K (D = 1);
        ``"auto"`` takes a table for float32 in 1-D where it is expected to be faster.
    tolerance
        How far a table may be off, as a fraction of the largest |K| of each channel; it decides
        the number of entries (`ccnn.ops.table.tabulate`).

    Shapes
    ------
    x : (B, C_in, N)
    positions : (B, N, D)
    offsets : (P, D), float64
    kernel's result : (P, C_in) or (P, C_out · C_in)
    weights, mask : (B, N)
    query : (B, M, D)
    result : (B, C_in, M) or (B, C_out, M)

    Notes
    -----
    Gradients flow to x, the weights and the parameters, not to positions.
    """
    _check(x, positions, radius, causal=causal, method=method)
    if mask is not None:
        x = torch.where(mask[:, None], x, 0.0)
    values = x if weights is None else x * weights[:, None].to(x.dtype)
    places = positions.double()
    query = places if query is None else query.double()
    near = Neighbours(places, mask, query, radius, causal=causal)
    table = Table(-radius[0], 0.0 if causal else radius[0])
    entries = _entries(table, kernel, parameters, near, x.dtype, method, tolerance)
    if entries is None:
        sum_ = _Sum(near, kernel, inside, out_channels, None)
    else:
        parameters = (entries,)
        sum_ = _Sum(near, table.at, inside, out_channels, table)
    rows = values.transpose(1, 2).flatten(0, 1)  # (B·N, C)
    if has_own_gradient(x):
        # torch does not type `apply`.
        y: Tensor = _Pairs.apply(rows, sum_, *parameters)  # type: ignore[no-untyped-call]
    else:
        y = sum_.plain(rows, parameters)
    return y.view(len(x), query.shape[1], -1).transpose(1, 2).contiguous()


# How many pairs there are decides shapes, which no compiled graph can follow; see `read_reaches`.
convolve_points._torchdynamo_disable = True  # type: ignore[attr-defined]


def _entries(
    table: Table,
    kernel: PairKernel,
    parameters: Sequence[Tensor],
    near: Neighbours,
    dtype: torch.dtype,
    method: PointMethod,
    tolerance: float,
) -> Tensor | None:
    """Return the entries of a table, or None where K is to be evaluated at every pair."""
    if method == "exact" or len(near.radius) > 1 or (method == "auto" and dtype == torch.float64):
        return None
    most = _LARGEST if method == "table" else min(_LARGEST, near.total // _PAIRS_PER_ENTRY)
    device = near.inputs.device
    # In float64, since at high frequencies float32 is off by more than a table may be.
    wide = [p.double() if p.is_floating_point() else p for p in parameters]
    entries = tabulate(kernel, wide, table, tolerance=tolerance, most=most, device=device)
    if entries is None and method == "table":
        raise ValueError(
            f"the kernel varies too fast for a table: {most} entries between {table.low:g} and "
            f'{table.high:g} are not within {tolerance:g} of it; use method="exact", or a larger '
            "tolerance"
        )
    return None if entries is None else entries.to(dtype)


class _Sum(NamedTuple):
    """Σ_j K(p_j - q_i) v_j, and what its gradients need, over pieces of all pairs."""

    near: Neighbours
    kernel: PairKernel
    inside: Callable[[Tensor], Tensor] | None
    out_channels: int | None
    table: Table | None

    def pieces(self, channels: int) -> Iterator[Pairs]:
        """Yield (output, input, offset) of the pairs that the kernel does not cut."""
        width = channels * (self.out_channels or 1)
        for pairs in self.near.pairs(max(256, _PIECE // max(width, 32))):
            yield pairs if self.inside is None else only(self.inside(pairs[2]), pairs)

    def forward(self, values: Tensor, parameters: Sequence[Tensor]) -> Tensor:
        """(B·N, C_in) -> (B·M, C_out)."""
        y = values.new_zeros(len(self.near.outputs), self.out_channels or values.shape[1])
        for target, source, offset in self.pieces(values.shape[1]):
            k = self.kernel(offset, *parameters)
            y.index_add_(0, target, self._apply(k, values.index_select(0, source)))
        return y

    def plain(self, values: Tensor, parameters: Sequence[Tensor]) -> Tensor:
        """As forward with torch's own gradients, which keep every pair: for second derivatives."""
        y = values.new_zeros(len(self.near.outputs), self.out_channels or values.shape[1])
        for target, source, offset in self.pieces(values.shape[1]):
            k = self.kernel(offset, *parameters)
            y = y.index_add(0, target, self._apply(k, values.index_select(0, source)))
        return y

    def gradients(
        self, grad: Tensor, values: Tensor, parameters: Sequence[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the gradients of the values and of the parameters."""
        of_values = torch.zeros_like(values)
        of_parameters = [torch.zeros_like(p) for p in parameters]
        for target, source, offset in self.pieces(values.shape[1]):
            g, v = grad.index_select(0, target), values.index_select(0, source)
            k = self._kernel_gradient(offset, self._outer(g, v), parameters, of_parameters)
            of_values.index_add_(0, source, self._adjoint(k, g))
        return of_values, of_parameters

    def _kernel_gradient(
        self,
        offset: Tensor,
        grad: Tensor,
        parameters: Sequence[Tensor],
        sums: Sequence[Tensor],
    ) -> Tensor:
        """Return K at some offsets, and add to the gradients of its parameters."""
        if self.table is not None:
            self.table.add_gradient(offset, grad, sums[0])
            return self.kernel(offset, *parameters)
        with torch.enable_grad():
            leaves = [p.detach().requires_grad_() for p in parameters]
            k = self.kernel(offset, *leaves)
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
    def forward(ctx: Any, values: Tensor, sum_: _Sum, *parameters: Tensor) -> Tensor:
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


def _check(
    x: Tensor, positions: Tensor, radius: Sequence[float], *, causal: bool, method: str
) -> None:
    if method not in POINT_METHODS:
        raise ValueError(f"method is {method!r}; expected one of {', '.join(POINT_METHODS)}")
    if x.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"x is {x.dtype}; expected torch.float32 or torch.float64")
    if x.ndim != 3 or positions.ndim != 3 or (x.shape[0], x.shape[2]) != positions.shape[:2]:
        raise ValueError(
            f"x must have shape (B, C, N) and positions (B, N, D), got {tuple(x.shape)} and "
            f"{tuple(positions.shape)}"
        )
    dim = positions.shape[2]
    if len(radius) != dim:
        raise ValueError(f"radius has {len(radius)} entries, but positions have {dim} axes")
    if dim > 1 and (causal or method == "table"):
        raise ValueError(f'causal and method="table" need one axis, but positions have {dim}')
