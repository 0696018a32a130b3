"""Where the samples of a signal lie.

A domain is handed along with the values: ``model(x, Grid(spacing=2.0))``, ``model(x, Points(t))``.
Everything about resolution, unequal lengths, missing and irregular samples is in here and in
nothing else.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Lengths = Tensor | Sequence[int] | Sequence[Sequence[int]]


@dataclass(frozen=True, eq=False)
class Grid:
    """A regular grid, coarser or finer than the training grid, with or without holes.

    Parameters
    ----------
    spacing
        Distance between neighbours in training samples: 1 is the training grid, 2 every second
        sample, 0.5 twice as many. One number, or one per axis.
    mask
        True where a sample exists. What the others hold, NaN included, never matters.
    lengths
        Instead of a mask, for padded batches: how many samples of each signal exist, counted
        from the start of each axis.

    Shapes
    ------
    mask : (B, 1, *S) or (B, *S), bool
    lengths : (B,) where D = 1, or (B, D)
    """

    spacing: float | Sequence[float] = 1.0
    mask: Tensor | None = None
    lengths: Lengths | None = None

    def __post_init__(self) -> None:
        _check_spacing(self.spacing)
        if self.mask is not None:
            if self.lengths is not None:
                raise ValueError("give mask or lengths, not both: lengths is short for a mask")
            _check_mask(self.mask)
        if self.lengths is not None:
            # Kept on the host: comparing it with a shape then waits for no device.
            object.__setattr__(self, "lengths", _host_lengths(self.lengths))

    def spacings(self, dim: int) -> tuple[float, ...]:
        """Return the spacing of each of D axes."""
        if isinstance(self.spacing, Sequence):
            if len(self.spacing) != dim:
                raise ValueError(
                    f"spacing has {len(self.spacing)} entries {tuple(self.spacing)}, but the "
                    f"signal has {dim} axes; expected one number, or one per axis"
                )
            return tuple(float(s) for s in self.spacing)
        return (float(self.spacing),) * dim

    def on(self, x: Tensor) -> "Grid":
        """Return this grid laid under a signal: one spacing per axis, the mask (B, 1, *S).

        Raises where the two do not fit. Laying it twice changes nothing.
        """
        shape = (x.shape[0], 1, *x.shape[2:])
        spacings, mask = self.spacings(x.ndim - 2), self.mask
        if mask is not None and mask.shape != shape:
            if mask.shape != shape[:1] + shape[2:]:
                raise ValueError(
                    f"mask has shape {tuple(mask.shape)}; expected {shape} or "
                    f"{shape[:1] + shape[2:]} for x of shape {tuple(x.shape)}"
                )
            mask = mask.unsqueeze(1)
        if self.lengths is not None:
            mask = _mask_of(self.lengths, x)
        if mask is not None and mask.device != x.device:
            raise ValueError(
                f"mask is on {mask.device} but x on {x.device}; move it with grid.to({x.device})"
            )
        return _grid(spacings, mask)

    def to(self, device: torch.device | str) -> "Grid":
        """Return the same grid with its mask on another device."""
        return self if self.mask is None else _grid(self.spacing, self.mask.to(device))


@dataclass(frozen=True, eq=False)
class Points:
    """Samples that lie anywhere: time stamps, scattered points of a plane, clouds.

    Parameters
    ----------
    positions
        Where each sample lies, in training samples (the spacing of the training grid is 1). Their
        order does not matter; several samples may share a position. They carry no gradient.
    mask
        True where a sample exists, for unequal counts. What the others hold, in x and in here,
        NaN included, never matters.
    weights
        The share of space that each sample stands for. None is, in 1-D, the distance between
        its neighbours (`ccnn.ops.gap_weights`), and 1 in D > 1, where ``"density"`` estimates
        it (`ccnn.ops.density_weights`).

    Shapes
    ------
    positions : (B, N, D), or (B, N) where D = 1
    mask : (B, N) or (B, 1, N), bool
    weights : (B, N)
    """

    positions: Tensor
    mask: Tensor | None = None
    weights: Tensor | Literal["density"] | None = None

    def __post_init__(self) -> None:
        positions = as_positions(self.positions, "positions")
        batch, count, _ = positions.shape
        mask, weights = self.mask, self.weights
        if mask is not None:
            _check_mask(mask)
            if mask.shape not in ((batch, count), (batch, 1, count)):
                raise ValueError(
                    f"mask has shape {tuple(mask.shape)}; expected {(batch, count)} for positions "
                    f"of shape {tuple(self.positions.shape)}"
                )
            mask = mask.reshape(batch, 1, count)
            positions = positions.masked_fill(~mask.mT, 0.0)
        if not positions.isfinite().all():
            raise ValueError(
                "positions hold NaN or infinity where a sample exists; leave such samples out, "
                "or say so with mask"
            )
        if isinstance(weights, Tensor):
            weights = _checked_weights(weights, (batch, count), mask)
        elif weights is not None and weights != "density":
            raise ValueError(f'weights must be a tensor (B, N), "density" or None, got {weights!r}')
        object.__setattr__(self, "positions", positions)
        object.__setattr__(self, "mask", mask)
        object.__setattr__(self, "weights", weights)

    @property
    def dim(self) -> int:
        """D, the number of coordinates of a position."""
        return self.positions.shape[-1]

    def on(self, x: Tensor) -> "Points":
        """Return these points where they fit a signal (B, C, N), and raise where they do not."""
        batch, count, _ = self.positions.shape
        if x.ndim != 3 or (x.shape[0], x.shape[2]) != (batch, count):
            raise ValueError(
                f"x has shape {tuple(x.shape)}; expected ({batch}, C, {count}) for positions of "
                f"{batch} signal(s) with {count} points each"
            )
        if self.positions.device != x.device:
            raise ValueError(
                f"positions are on {self.positions.device} but x on {x.device}; move them with "
                f"points.to({x.device})"
            )
        return self

    def to(self, device: torch.device | str) -> "Points":
        """Return the same points on another device."""
        return _points(
            self.positions.to(device),
            None if self.mask is None else self.mask.to(device),
            self.weights.to(device) if isinstance(self.weights, Tensor) else self.weights,
        )

    def with_weights(self, weights: Tensor) -> "Points":
        """Return the same points with other weights, (B, N), taken as they are."""
        return _points(self.positions, self.mask, weights)


Domain = Grid | Points


def as_domain(domain: Domain | None) -> Domain:
    """Return the domain a signal was given, the training grid where it was given none."""
    if domain is None:
        return Grid()
    if not isinstance(domain, Grid | Points):
        raise TypeError(
            f"the domain of a signal must be a ccnn.Grid, such as Grid(spacing=2.0), or "
            f"ccnn.Points(positions), got {type(domain).__name__}"
        )
    return domain


def as_positions(positions: Tensor, name: str) -> Tensor:
    """Return positions as (B, N, D) in float64, refusing what is no tensor of that shape."""
    if (
        not isinstance(positions, Tensor)
        or positions.dtype.is_complex
        or (positions.dtype == torch.bool)
    ):
        kind = positions.dtype if isinstance(positions, Tensor) else type(positions).__name__
        raise TypeError(f"{name} must be a tensor of real numbers, got {kind}")
    if positions.ndim not in (2, 3) or 0 in positions.shape[1:]:
        raise ValueError(
            f"{name} must have shape (B, N, D), or (B, N) where D = 1, with at least one point; "
            f"got {tuple(positions.shape)}"
        )
    if positions.requires_grad:
        raise ValueError(f"{name} carry no gradient; pass {name}.detach()")
    # Differences of large time stamps would be lost in float32.
    return (positions[..., None] if positions.ndim == 2 else positions).double()


def _points(
    positions: Tensor, mask: Tensor | None, weights: Tensor | Literal["density"] | None
) -> Points:
    """Make points of what has been checked before; looking at them waits for their device."""
    points = object.__new__(Points)
    for name, value in {"positions": positions, "mask": mask, "weights": weights}.items():
        object.__setattr__(points, name, value)
    return points


def _checked_weights(weights: Tensor, shape: tuple[int, int], mask: Tensor | None) -> Tensor:
    if not weights.is_floating_point() or weights.shape != shape:
        raise ValueError(
            f"weights must be real numbers of shape {shape}, one per point, got {weights.dtype} of "
            f"shape {tuple(weights.shape)}"
        )
    if mask is not None:
        weights = torch.where(mask.squeeze(1), weights, 0.0)
    if not weights.isfinite().all():
        raise ValueError("weights hold NaN or infinity where a sample exists")
    if (weights.detach().sum(dim=1) == 0).any():
        raise ValueError("weights of a signal sum to zero; a mean over its points needs more")
    return weights


def _grid(spacing: float | Sequence[float], mask: Tensor | None) -> Grid:
    """Make a grid of what has been checked before; looking at a mask waits for its device."""
    grid = object.__new__(Grid)
    for name, value in {"spacing": spacing, "mask": mask, "lengths": None}.items():
        object.__setattr__(grid, name, value)
    return grid


def _check_spacing(spacing: float | Sequence[float]) -> None:
    for s in spacing if isinstance(spacing, Sequence) else (spacing,):
        if isinstance(s, Tensor) or not isinstance(s, int | float):
            raise TypeError(
                f"spacing must be a number or one number per axis, got {type(spacing).__name__}; "
                "a batch has one spacing"
            )
        if not (math.isfinite(s) and s > 0):
            raise ValueError(f"spacing must be positive and finite, got {spacing!r}")


def _check_mask(mask: Tensor) -> None:
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        kind = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(f"mask must be a bool tensor (True = the sample exists), got {kind}")
    if mask.ndim < 2:
        raise ValueError(f"mask must have shape (B, 1, *S) or (B, *S), got {tuple(mask.shape)}")
    empty = (~mask.flatten(1).any(dim=1)).nonzero().flatten().tolist()
    if empty:
        raise ValueError(
            f"mask leaves no sample at all in signal(s) {empty[:10]} of the batch; "
            "each signal needs at least one"
        )


def _host_lengths(lengths: Lengths) -> Tensor:
    result = torch.as_tensor(lengths, device="cpu")
    if result.is_floating_point() or result.is_complex() or result.dtype == torch.bool:
        raise TypeError(f"lengths must be integers, got {result.dtype}")
    if result.ndim not in (1, 2):
        raise ValueError(f"lengths must have shape (B,) or (B, D), got {tuple(result.shape)}")
    if (result < 1).any():
        raise ValueError(f"lengths must be at least 1, got {result.min().item()}")
    return result.to(torch.int64)


def _mask_of(lengths: Lengths, x: Tensor) -> Tensor:
    """Return the mask (B, 1, *S) of the samples before each length."""
    assert isinstance(lengths, Tensor)
    signal = x.shape[2:]
    per_axis = lengths[:, None] if lengths.ndim == 1 else lengths
    if per_axis.shape != (x.shape[0], len(signal)):
        expected = f"({x.shape[0]}, {len(signal)})" + (
            f" or ({x.shape[0]},)" if len(signal) == 1 else ""
        )
        raise ValueError(
            f"lengths has shape {tuple(lengths.shape)}; expected {expected} for x of shape "
            f"{tuple(x.shape)}"
        )
    for axis, size in enumerate(signal):
        longest = int(per_axis[:, axis].max())
        if longest > size:
            raise ValueError(
                f"lengths go up to {longest} on axis {axis}, but x of shape {tuple(x.shape)} has "
                f"only {size} samples there (lengths count current samples)"
            )
    mask = torch.ones(x.shape[0], 1, *signal, dtype=torch.bool, device=x.device)
    for axis, size in enumerate(signal):
        inside = torch.arange(size, device=x.device) < per_axis[:, axis, None].to(x.device)
        shape = [x.shape[0], 1] + [1] * len(signal)
        shape[2 + axis] = size
        mask = mask & inside.view(shape)
    return mask


def with_observed(x: Tensor, mask: Tensor) -> Tensor:
    """Return x with zeros where nothing was observed and a channel that says where something was.

    (B, C, *S), (B, 1, *S) bool -> (B, C + 1, *S): the paper's way of handling missing samples.
    """
    return torch.cat([torch.where(mask, x, 0.0), mask.to(x.dtype)], dim=1)
