"""Samples that lie anywhere."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ccnn.domain.checks import Weights, check_mask, check_weights


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
    weights: Weights = None

    def __post_init__(self) -> None:
        positions = as_positions(self.positions, "positions")
        batch, count, _ = positions.shape
        mask, weights = self.mask, self.weights
        if mask is not None:
            check_mask(mask)
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


def _points(positions: Tensor, mask: Tensor | None, weights: Weights) -> Points:
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
    check_weights(weights)
    return weights
