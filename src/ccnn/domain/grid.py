"""Samples on a regular grid, which may be padded or have holes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ccnn.domain.checks import Weights, check_mask, check_weights

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
    weights
        How many cells of the grid each sample stands for, so that a sum over the samples that
        exist is an integral again; pooling is Σwx/Σw. None counts each once. ``"density"``
        lets the samples around a hole stand for it: in 1-D by the distance between neighbours,
        as `ccnn.Points` does by default, in D > 1 by the share of samples that exist nearby
        (`ccnn.ops.hole_weights`). Where there are no holes all are 1.

    Shapes
    ------
    mask : (B, 1, *S) or (B, *S), bool
    lengths : (B,) where D = 1, or (B, D)
    weights : (B, 1, *S) or (B, *S)
    """

    spacing: float | Sequence[float] = 1.0
    mask: Tensor | None = None
    lengths: Lengths | None = None
    weights: Weights = None

    def __post_init__(self) -> None:
        _check_spacing(self.spacing)
        if self.mask is not None:
            if self.lengths is not None:
                raise ValueError("give mask or lengths, not both: lengths is short for a mask")
            check_mask(self.mask)
        if self.lengths is not None:
            # Kept on the host: comparing it with a shape then waits for no device.
            object.__setattr__(self, "lengths", _host_lengths(self.lengths))
        if self.weights is not None and not isinstance(self.weights, str):
            object.__setattr__(self, "weights", self._checked_weights(self.weights))
        elif self.weights not in (None, "density"):
            raise ValueError(
                f'weights must be a tensor (B, *S), "density" or None, got {self.weights!r}'
            )

    def _checked_weights(self, weights: Tensor) -> Tensor:
        """Return weights that are zero where there is no sample, refusing senseless ones."""
        _check_kind(weights)
        mask = self.mask
        if isinstance(self.lengths, Tensor):
            axes = 1 if self.lengths.ndim == 1 else self.lengths.shape[1]
            mask = _mask_of(self.lengths, weights[:, None] if weights.ndim == axes + 1 else weights)
        if mask is not None:
            if weights.flatten(1).shape != mask.flatten(1).shape:
                raise ValueError(
                    f"weights has shape {tuple(weights.shape)}, but mask {tuple(mask.shape)}; "
                    "expected one number per sample"
                )
            weights = torch.where(mask.reshape(weights.shape), weights, 0.0)
        check_weights(weights)
        return weights

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
        """Return this grid laid under a signal: one spacing per axis, mask and weights (B, 1, *S).

        Raises where the two do not fit. Laying it twice changes nothing.
        """
        spacings, weights = self.spacings(x.ndim - 2), self.weights
        mask = None if self.mask is None else _laid(self.mask, x, "mask")
        if isinstance(weights, Tensor):
            weights = _laid(weights, x, "weights")
        elif self.mask is None:
            weights = None  # "density" is for holes, and lengths leave none
        if self.lengths is not None:
            mask = _mask_of(self.lengths, x)
        return _grid(spacings, mask, weights)

    def to(self, device: torch.device | str) -> "Grid":
        """Return the same grid with its mask and weights on another device."""
        mask, weights = self.mask, self.weights
        if mask is None and not isinstance(weights, Tensor):
            return self
        moved = _grid(
            self.spacing,
            None if mask is None else mask.to(device),
            weights.to(device) if isinstance(weights, Tensor) else weights,
        )
        object.__setattr__(moved, "lengths", self.lengths)
        return moved

    def with_weights(self, weights: Tensor) -> "Grid":
        """Return the same grid, laid before, with other weights (B, 1, *S), taken as they are."""
        return _grid(self.spacing, self.mask, weights)


def _grid(spacing: float | Sequence[float], mask: Tensor | None, weights: Weights) -> Grid:
    """Make a grid of what has been checked before; looking at a mask waits for its device."""
    grid = object.__new__(Grid)
    values = {"spacing": spacing, "mask": mask, "lengths": None, "weights": weights}
    for name, value in values.items():
        object.__setattr__(grid, name, value)
    return grid


def _laid(values: Tensor, x: Tensor, name: str) -> Tensor:
    """Return a mask or weights as (B, 1, *S), refusing those of other signals than x."""
    shape = (x.shape[0], 1, *x.shape[2:])
    if values.shape != shape:
        if values.shape != shape[:1] + shape[2:]:
            raise ValueError(
                f"{name} has shape {tuple(values.shape)}; expected {shape} or "
                f"{shape[:1] + shape[2:]} for x of shape {tuple(x.shape)}"
            )
        values = values.unsqueeze(1)
    if values.device != x.device:
        raise ValueError(
            f"{name} is on {values.device} but x on {x.device}; move it with grid.to({x.device})"
        )
    return values


def _check_kind(weights: Tensor) -> None:
    if not isinstance(weights, Tensor) or not weights.is_floating_point() or weights.ndim < 2:
        kind = type(weights).__name__
        if isinstance(weights, Tensor):
            kind = f"{weights.dtype} of shape {tuple(weights.shape)}"
        raise ValueError(f"weights must be real numbers of shape (B, 1, *S) or (B, *S), got {kind}")


def _check_spacing(spacing: float | Sequence[float]) -> None:
    for s in spacing if isinstance(spacing, Sequence) else (spacing,):
        if isinstance(s, Tensor) or not isinstance(s, int | float):
            raise TypeError(
                f"spacing must be a number or one number per axis, got {type(spacing).__name__}; "
                "a batch has one spacing"
            )
        if not (math.isfinite(s) and s > 0):
            raise ValueError(f"spacing must be positive and finite, got {spacing!r}")


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
