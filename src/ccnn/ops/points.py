"""Convolution of scattered samples: y_i = Σ_j w_j K(p_j - p_i) x_j.

The kernel is a function of the offset, not a sampled one. Only pairs within its support are
looked at, a piece at a time: memory grows with the number of points, time with that of pairs. A
kernel that ends smoothly needs no pairs at all (`ccnn.ops.nufft`).
"""

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor

from ccnn.ops.methods import Request, lattice_of, series_of, table_of
from ccnn.ops.neighbours import Neighbours, SharedNeighbours
from ccnn.ops.nufft import convolve_by_series
from ccnn.ops.pairs import PairKernel, PairSum

PointMethod = Literal["auto", "exact", "lattice", "table", "nufft"]
POINT_METHODS = ("auto", "exact", "lattice", "table", "nufft")


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
    neighbours: SharedNeighbours | None = None,
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
        ``"exact"`` evaluates K at every pair; ``"lattice"`` once per offset, where all positions
        are multiples of 1/16 or more; ``"table"`` interpolates a finely sampled K (D = 1);
        ``"nufft"`` sums the Fourier series of a K that vanishes smoothly at its radius, on the
        CPU. ``"auto"`` takes the one that is expected to be fastest, of the first two in float64.
    tolerance
        How far a table or a series may be off, as a fraction of the largest |K| of each channel;
        it decides their size (`ccnn.ops.table.tabulate`, `ccnn.ops.series.fourier_series`).
    neighbours
        Shared by several convolutions over the same samples, who is near whom is found once.

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
    request = Request(
        kernel,
        parameters,
        tuple(radius),
        inside,
        positions.double(),
        mask,
        positions.double() if query is None else query.double(),
        _near(positions, mask, query, radius, causal=causal, shared=neighbours),
        causal,
        x.dtype,
        tolerance,
    )
    if method in ("auto", "nufft"):
        found = series_of(request, by_name=method == "nufft")
        if found is not None:
            columns = values.transpose(0, 1).flatten(1)  # (C, B·N)
            stretches, series = found
            y = convolve_by_series(
                columns, series, stretches, out_channels=out_channels, tolerance=tolerance
            )
            return y.view(-1, len(x), request.query.shape[1]).transpose(0, 1).contiguous()
    rows = values.transpose(1, 2).flatten(0, 1)  # (B·N, C)
    y = _sum_over_pairs(rows, request, method, out_channels)
    return y.view(len(x), request.query.shape[1], y.shape[1]).transpose(1, 2).contiguous()


# How many pairs there are decides shapes, which no compiled graph can follow; see `read_reaches`.
convolve_points._torchdynamo_disable = True  # type: ignore[attr-defined]


def _near(
    positions: Tensor,
    mask: Tensor | None,
    query: Tensor | None,
    radius: Sequence[float],
    *,
    causal: bool,
    shared: SharedNeighbours | None,
) -> Neighbours:
    query = positions if query is None else query
    if shared is not None:
        return shared.find(positions, mask, query, radius, causal=causal)
    return Neighbours(positions.double(), mask, query.double(), radius, causal=causal)


def _sum_over_pairs(
    rows: Tensor, request: Request, method: PointMethod, out_channels: int | None
) -> Tensor:
    """Sum over all pairs, with the kernel as it is read best: (B·N, C_in) -> (B·M, C_out)."""
    near, radius, by_name = request.near, request.radius, method != "auto"
    if method in ("auto", "lattice"):
        lattice = lattice_of(request, by_name=by_name)
        if lattice is not None:
            return PairSum(near, radius, lattice[0], None, out_channels)(rows, lattice[1:])
    if method in ("auto", "table"):
        table = table_of(request, by_name=by_name)
        if table is not None:
            return PairSum(near, radius, table[0], request.inside, out_channels)(rows, table[1:])
    sum_ = PairSum(near, radius, request.kernel, request.inside, out_channels)
    return sum_(rows, request.parameters)


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
