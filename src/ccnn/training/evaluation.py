"""Outputs of a trained network on many samples, at the training resolution or another."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ccnn.domain import Grid
from ccnn.training.data import EvaluationBatches, Samples
from ccnn.training.losses import Loss
from ccnn.training.metrics import Sums

Spacing = float | Sequence[float]


class Scores(NamedTuple):
    """What a network gives and how good it is."""

    outputs: Tensor
    loss: float
    score: float


class Resampled(NamedTuple):
    """Samples on another grid."""

    x: Tensor
    y: Tensor
    lengths: Tensor | None


@torch.inference_mode()
def score(
    model: nn.Module,
    samples: Samples,
    loss: Loss,
    *,
    batch_size: int,
    device: torch.device,
    spacing: Spacing = 1.0,
) -> Scores:
    """Return a network's outputs, (n, …), and its mean loss and score.

    Parameters
    ----------
    model
        A network in evaluation mode, on ``device``.
    samples
        Signals and targets, already at the given spacing.
    loss, batch_size, device
        How to compare, and how.
    spacing
        As for `ccnn.Grid`.
    """
    sums, outputs = Sums(), []
    for x, y, lengths in EvaluationBatches(samples, batch_size):
        grid = Grid(spacing=spacing, lengths=lengths)
        x = x.to(device)
        out = model(x) if lengths is None and spacing == 1.0 else model(x, grid)
        mask = grid.on(out).mask if loss.per_position else None
        sums.add(*loss.compare(out, y.to(device), mask, 0.0))
        outputs.append(out.float().cpu())
    total, right, count = sums.values.tolist()
    return Scores(torch.cat(outputs), total / max(count, 1), right / max(count, 1))


@torch.inference_mode()
def outputs_of(
    model: nn.Module,
    x: Tensor,
    *,
    spacing: Spacing = 1.0,
    lengths: Tensor | None = None,
    batch_size: int = 64,
) -> Tensor:
    """Return a network's outputs for many signals, (n, …)."""
    outputs = []
    for begin in range(0, len(x), batch_size):
        part = slice(begin, begin + batch_size)
        grid = Grid(spacing=spacing, lengths=None if lengths is None else lengths[part])
        outputs.append(model(x[part], grid).float())
    return torch.cat(outputs)


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
    x, lengths = resample(samples.x, spacing), samples.lengths
    if lengths is not None:
        each = torch.as_tensor(spacing, dtype=torch.float64)
        lengths = ((lengths - 1) / each).floor().long() + 1
    if samples.y.ndim > 2 or (samples.y.ndim == 2 and not samples.y.is_floating_point()):
        raise ValueError("targets at every position cannot be resampled; spacing must be 1")
    return Resampled(x, samples.y, lengths)


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
