"""What a continuous convolution needs for samples that lie anywhere."""

from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ccnn.domain import Domain, Grid, Points, as_positions
from ccnn.nn.kernels.base import AbstractKernelNet
from ccnn.nn.masks import GaussianMask
from ccnn.ops import grids
from ccnn.ops.neighbours import SharedNeighbours
from ccnn.ops.points import PointMethod, convolve_points
from ccnn.ops.quadrature import density_weights, gap_weights

# All layers of a network are handed the same points. Who is near whom lives as long as these, and
# until others come: lists of pairs are large.
_SHARED: WeakKeyDictionary[Points, SharedNeighbours] = WeakKeyDictionary()


class OffsetKernel(nn.Module):
    """K as a function of the offset in training samples, before its window is cut.

    Parameters
    ----------
    kernel, mask, kernel_size, causal
        Of the layer; shared with it.

    Shapes
    ------
    offset : (P, D), float64
    result : (P, kernel_count)
    """

    def __init__(
        self,
        kernel: AbstractKernelNet,
        mask: GaussianMask | None,
        kernel_size: Sequence[int],
        *,
        causal: bool,
    ) -> None:
        super().__init__()
        self.kernel = kernel
        self.mask = mask
        self.steps = [grids.step_in_coordinates(k) for k in kernel_size]
        self.zero = grids.lag_zero(causal=causal)

    def forward(self, offset: Tensor) -> Tensor:
        """(P, D) -> (P, kernel_count)."""
        # In half precision a kernel network's phases would be noise.
        with torch.autocast(offset.device.type, enabled=False):
            relative = offset * offset.new_tensor(self.steps)
            values: Tensor = self.kernel(self._cast(relative + self.zero))
            return values if self.mask is None else values * self.mask.smooth(self._cast(relative))

    def inside(self) -> Callable[[Tensor], Tensor] | None:
        """Return a function that says where the window, as it is now, is not cut.

        (P, D) -> (P,), bool. The gradient asks it again, maybe when the layer has other weights.
        None where nothing is cut: a smooth window is zero by itself.
        """
        if self.mask is None or self.mask.window == "smooth":
            return None
        cut = self.mask.cut(keep=self.steps)
        return lambda offset: cut(self._cast(offset * offset.new_tensor(self.steps)))

    def _cast(self, coords: Tensor) -> Tensor:
        return coords.to(self.kernel.last.weight.dtype)


def convolve_scattered(
    x: Tensor,
    points: Points,
    query: Tensor | None,
    kernel: OffsetKernel,
    *,
    radius: Sequence[float],
    out_channels: int | None,
    causal: bool,
    method: PointMethod = "auto",
) -> Tensor:
    """Convolve samples at points that have their weights: (B, C_in, N) -> (B, C_out, M)."""
    names, parameters = zip(*kernel.named_parameters(), strict=True)
    buffers = dict(kernel.named_buffers())

    def evaluate(offset: Tensor, *parameters: Tensor) -> Tensor:
        # The parameters as they were handed in, so that the gradient, which evaluates the kernel
        # again, meets the same ones.
        tensors = dict(zip(names, parameters, strict=True))
        tensors |= {name: b.to(parameters[0].dtype) for name, b in buffers.items()}
        values: Tensor = functional_call(kernel, tensors, (offset,))
        return values

    assert isinstance(points.weights, Tensor)
    with torch.autocast(x.device.type, enabled=False):
        y = convolve_points(
            x.to(torch.promote_types(x.dtype, torch.float32)),
            points.positions,
            evaluate,
            parameters,
            radius=radius,
            inside=kernel.inside(),
            weights=points.weights,
            mask=None if points.mask is None else points.mask.squeeze(1),
            query=query,
            out_channels=out_channels,
            causal=causal,
            method=method,
            neighbours=_neighbours_of(points),
        )
    return y.to(x.dtype)


def _neighbours_of(points: Points) -> SharedNeighbours:
    shared = _SHARED.get(points)
    if shared is None:
        shared = SharedNeighbours()
        _SHARED.clear()
        _SHARED[points] = shared
    return shared


def lay(domain: Domain, x: Tensor, dim: int, *, causal: bool) -> Domain:
    """Return a domain laid under a signal, and points with the weights of their samples.

    Raises where they do not fit. Laying twice changes nothing.
    """
    if isinstance(domain, Grid):
        return domain.on(x)
    points = domain.on(x)
    if points.dim != dim:
        raise ValueError(
            f"positions have {points.dim} coordinate(s) each, but size has {dim} axis/axes; "
            f"expected positions of shape (B, N, {dim})"
        )
    if isinstance(points.weights, Tensor):
        return points
    return points.with_weights(_default_weights(points, causal=causal).to(x.dtype))


def _default_weights(points: Points, *, causal: bool) -> Tensor:
    mask = None if points.mask is None else points.mask.squeeze(1)
    if points.weights == "density":
        if causal:
            raise ValueError(
                'weights="density" count later samples too, which a causal network must not see; '
                "leave weights out"
            )
        return density_weights(points.positions, mask)
    if points.dim == 1:
        return gap_weights(points.positions[..., 0], mask, causal=causal)
    ones = torch.ones_like(points.positions[..., 0])
    return ones if mask is None else torch.where(mask, ones, 0.0)


def as_query(query: Tensor, domain: Domain) -> Tensor:
    """Return the positions of other outputs as (B, M, D), refusing what does not fit the points."""
    if not isinstance(domain, Points):
        raise TypeError(
            "query needs to know where the samples lie: pass Points(positions) as the domain"
        )
    places = as_positions(query, "query")
    batch, _, dim = domain.positions.shape
    if places.shape[0] != batch or places.shape[2] != dim:
        raise ValueError(
            f"query has shape {tuple(query.shape)}; expected ({batch}, M, {dim}) for positions of "
            f"shape {tuple(domain.positions.shape)}"
        )
    if places.device != domain.positions.device:
        raise ValueError(f"query is on {places.device}, positions on {domain.positions.device}")
    if not places.isfinite().all():
        raise ValueError("query holds NaN or infinity; an output needs a position")
    return places
