"""From a batch to what a network is called with: values, and the domain they lie on."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ccnn.domain import Domain, Grid, Points, with_observed
from ccnn.training.data import Batch
from ccnn.training.resampling import Spacing
from ccnn.training.settings import Missing


class Placed(NamedTuple):
    """Values and where they lie; None is the training grid, whole."""

    x: Tensor
    domain: Domain | None

    def through(self, model: nn.Module) -> Tensor:
        """Return what a network says of it."""
        outputs: Tensor = model(self.x) if self.domain is None else model(self.x, self.domain)
        return outputs

    def mask_of(self, outputs: Tensor) -> Tensor | None:
        """Return which of the outputs at positions belong to a sample, (B, 1, *S)."""
        return None if self.domain is None else self.domain.on(outputs).mask


def place(
    batch: Batch, *, spacing: Spacing = 1.0, missing: Missing = "mask", aligned: bool = False
) -> Placed:
    """Return values and domain of a batch.

    Parameters
    ----------
    batch
        Signals with lengths, positions or a mask.
    spacing
        Of their grid.
    missing
        How the network is told of samples that are missing, see `Batching`.
    aligned
        Whether outputs are to lie where the targets do, at every sample, missing or not.
    """
    x, mask, lengths = batch.x, batch.mask, batch.lengths
    if batch.positions is not None:
        return _at_positions(x, batch.positions, _existing(batch), aligned=aligned)
    if missing == "observed":
        seen = torch.ones_like(x[:, :1], dtype=torch.bool) if mask is None else mask
        x = with_observed(x, seen)
    elif mask is not None and missing == "points":
        places = _indices(x, spacing)
        return _at_positions(x.flatten(2), places, _existing(batch), aligned=aligned)
    elif mask is not None and missing == "density":
        return Placed(x, Grid(spacing=spacing, mask=_existing(batch), weights="density"))
    elif mask is not None:
        return Placed(x, Grid(spacing=spacing, mask=_existing(batch)))
    if lengths is None and spacing == 1.0:
        return Placed(x, None)
    return Placed(x, Grid(spacing=spacing, lengths=lengths))


def drop(batch: Batch, most: float) -> Batch:
    """Return a batch of which each signal has lost a share of its samples, between 0 and most.

    Draws from torch's global generator. A signal that would lose everything loses nothing.
    """
    mask = _existing(batch)
    if mask is None:
        mask = torch.ones_like(batch.x[:, :1], dtype=torch.bool)
    rest = (1,) * (mask.ndim - 1)
    share = most * torch.rand(len(mask), *rest, device=mask.device)
    kept = mask & (torch.rand(mask.shape, device=mask.device) >= share)
    empty = ~kept.flatten(1).any(dim=1).view(-1, *rest)
    # Holes are a mask of their own: "observed" marks them, and lengths stay what they are.
    return batch._replace(mask=torch.where(empty, mask, kept))


def _existing(batch: Batch) -> Tensor | None:
    """Return which samples exist, (B, 1, *S): those within the lengths that are no holes."""
    if batch.lengths is None:
        return batch.mask
    within = Grid(lengths=batch.lengths).on(batch.x).mask
    assert within is not None
    return within if batch.mask is None else within & batch.mask


def _at_positions(x: Tensor, positions: Tensor, mask: Tensor | None, *, aligned: bool) -> Placed:
    """Place the samples that exist at points, unaligned without what is missing in all signals.

    Shapes
    ------
    x : (B, C, N)
    positions : (B, N, D)
    mask : (B, 1, *S) of N samples
    """
    if mask is None:
        return Placed(x, Points(positions))
    there = mask.flatten(1)  # (B, N)
    if aligned:
        return Placed(x, Points(positions, there))
    most = int(there.sum(dim=1).max())
    order = there.int().argsort(dim=1, descending=True, stable=True)[:, :most]  # those first
    values = x.gather(2, order[:, None].expand(-1, x.shape[1], -1))
    places = positions.gather(1, order[..., None].expand(-1, -1, positions.shape[2]))
    return Placed(values, Points(places, there.gather(1, order)))


def _indices(x: Tensor, spacing: Spacing) -> Tensor:
    """Return where the samples of a grid lie, (B, N, D), in training samples."""
    spacings = Grid(spacing=spacing).spacings(x.ndim - 2)
    axes = [
        s * torch.arange(n, device=x.device, dtype=torch.float64)
        for n, s in zip(x.shape[2:], spacings, strict=True)
    ]
    places = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).flatten(0, -2)
    return places.expand(len(x), -1, -1)
