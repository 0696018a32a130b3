"""Where the samples of a signal lie.

A domain is handed along with the values: ``model(x, Grid(spacing=2.0))``. Everything about
resolution, unequal lengths and missing samples is in here and in nothing else.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

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


def as_grid(domain: Grid | None) -> Grid:
    """Return the domain a signal was given, the training grid where it was given none."""
    if domain is None:
        return Grid()
    if not isinstance(domain, Grid):
        raise TypeError(
            f"the domain of a signal must be a ccnn.Grid, such as Grid(spacing=2.0), "
            f"got {type(domain).__name__}"
        )
    return domain


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
