"""Signals at another spacing."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ccnn.training.data import Batch, Samples, take

Spacing = float | Sequence[float]


def resample(x: Tensor, spacing: Spacing) -> Tensor:
    """Return signals sampled at another spacing, (n, C, *S) -> (n, C, *S').

    Every s-th sample where s is whole; straight lines between samples elsewhere.
    """
    axes = x.ndim - 2
    spacings = list(spacing) if isinstance(spacing, Sequence) else [spacing] * axes
    for axis, s in enumerate(spacings, start=2):
        if s != 1:
            x = _resample_axis(x, axis, float(s))
    return x


def resample_samples(samples: Samples, spacing: Spacing) -> Samples:
    """Return samples at another spacing; targets stay, lengths follow."""
    if spacing == 1.0:
        return samples
    if not samples.x.is_floating_point():
        raise ValueError("symbols have no resolution; spacing must be 1 for this task")
    if samples.positions is not None:
        raise ValueError("samples lie at positions of their own; spacing must be 1")
    if samples.y.ndim > 2 or (samples.y.ndim == 2 and not samples.y.is_floating_point()):
        raise ValueError("targets at every position cannot be resampled; spacing must be 1")
    return resample_batch(take(samples, slice(None)), spacing)


def resample_batch(batch: Batch, spacing: Spacing) -> Batch:
    """Return a batch at another spacing: values, lengths and masks."""
    lengths, mask = batch.lengths, batch.mask
    if lengths is not None:
        each = torch.as_tensor(spacing, dtype=torch.float64)
        lengths = ((lengths - 1) / each).floor().long() + 1
    if mask is not None:
        # Between two samples there is a value where both are there.
        mask = resample(mask.to(torch.float32), spacing) == 1
    return batch._replace(x=resample(batch.x, spacing), lengths=lengths, mask=mask)


def _resample_axis(x: Tensor, axis: int, spacing: float) -> Tensor:
    n = x.shape[axis]
    count = int((n - 1) / spacing + 1e-9) + 1
    position = torch.arange(count, dtype=torch.float64) * spacing
    left = position.floor().clamp(max=n - 1).long()
    weight = (position - left).to(x.dtype)
    if not weight.any():
        return x.index_select(axis, left)
    right = (left + 1).clamp(max=n - 1)
    shape = [1] * x.ndim
    shape[axis] = count
    return torch.lerp(x.index_select(axis, left), x.index_select(axis, right), weight.view(shape))
