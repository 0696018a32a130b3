"""A kernel at offsets that are multiples of one step, evaluated once per offset."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ccnn.ops.conv import differentiable_gradients, has_own_gradient
from ccnn.ops.grids import coordinate_grid

# Steps that are looked for, in training samples: powers of two, whose multiples are exact.
_COARSEST = 4.0
FINEST = 1 / 16

# In single precision positions that are off by so little, in steps, lie on the lattice.
_SLACK = 1e-5

# A kernel network is evaluated at so many places at once, whose insides fit a cache.
_PIECE = 1 << 14


class Lattice(NamedTuple):
    """The multiples of a step up to ``reach`` steps from lag zero on each axis, numbered."""

    step: float
    reach: tuple[int, ...]

    @property
    def size(self) -> int:
        """T, how many offsets there are."""
        return math.prod(2 * n + 1 for n in self.reach)

    def places(self, device: torch.device) -> Tensor:
        """Return the offsets in the order of their numbers: (T, D), float64."""
        axes = [torch.arange(-n, n + 1, dtype=torch.float64, device=device) for n in self.reach]
        return coordinate_grid(axes).flatten(0, -2) * self.step

    def number(self, offset: Tensor) -> Tensor:
        """Return the number of each offset within reach: (P, D) -> (P,)."""
        steps = (offset * (1 / self.step)).round_().long()
        result = steps[:, 0] + self.reach[0]
        for axis, n in zip(steps.T[1:], self.reach[1:], strict=True):
            result = result * (2 * n + 1) + (axis + n)
        return result

    def at(self, number: Tensor, entries: Tensor) -> Tensor:
        """Return the entries at some offsets: (P,), (T, C) -> (P, C)."""
        return entries.index_select(0, number)

    def add_gradient(self, number: Tensor, grad: Tensor, total: Tensor) -> None:
        """Add to the gradient (T, C) of the entries, from that of the kernel, (P, C)."""
        total.index_add_(0, number, grad)


def find_lattice(
    positions: Tensor, query: Tensor, radius: Sequence[float], *, exact: bool
) -> Lattice | None:
    """Return the coarsest lattice on which all points lie, or None where they lie anywhere.

    Parameters
    ----------
    positions, query
        Where samples and outputs lie.
    radius
        How far the lattice has to reach, per axis.
    exact
        Whether positions have to be multiples of the step to the last bit.

    Shapes
    ------
    positions : (B, N, D), query : (B, M, D), float64
    """
    slack = 0.0 if exact else _SLACK

    def fits(step: float) -> bool:
        for places in (positions,) if query is positions else (positions, query):
            steps = places * (1 / step)
            if bool(((steps - steps.round()).abs() > slack).any()):
                return False
        return True

    step = FINEST
    if not all(math.isfinite(r) for r in radius) or not fits(step):
        return None
    while step < _COARSEST and fits(2 * step):
        step *= 2
    # Half a step more, since an offset may be off by what positions may.
    return Lattice(step, tuple(math.floor(r / step + 0.5) for r in radius))


def evaluate_once(
    kernel: Callable[..., Tensor], places: Tensor, parameters: Sequence[Tensor]
) -> Tensor:
    """Return K at some places, (T, D) -> (T, C); the gradient evaluates it again, in pieces."""
    if has_own_gradient(places):
        # torch does not type `apply`.
        entries: Tensor = _Entries.apply(kernel, places, *parameters)  # type: ignore[no-untyped-call]
        return entries
    return kernel(places, *parameters)


class _Entries(torch.autograd.Function):
    """Many values of a kernel network, none of whose insides is kept."""

    @staticmethod
    def forward(
        ctx: Any, kernel: Callable[..., Tensor], places: Tensor, *parameters: Tensor
    ) -> Tensor:
        ctx.kernel = kernel
        ctx.save_for_backward(places, *parameters)
        return torch.cat([kernel(piece, *parameters) for piece in torch.split(places, _PIECE)])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        places, *parameters = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody wants second derivatives
            found = differentiable_gradients(ctx.kernel(places, *parameters), parameters, grad)
            return None, None, *found
        totals = [torch.zeros_like(p) for p in parameters]
        for piece, g in zip(torch.split(places, _PIECE), torch.split(grad, _PIECE), strict=True):
            leaves = [p.detach().requires_grad_(p.is_floating_point()) for p in parameters]
            with torch.enable_grad():
                values = ctx.kernel(piece, *leaves)
            if not values.requires_grad:
                continue
            for total, part in zip(
                totals, torch.autograd.grad(values, leaves, g, allow_unused=True), strict=True
            ):
                if part is not None:
                    total += part
        return None, None, *totals
