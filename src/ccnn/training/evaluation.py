"""Outputs of a trained network on many samples, at the training resolution or another."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ccnn.training.data import Batch, EvaluationBatches, Samples
from ccnn.training.losses import Loss
from ccnn.training.metrics import Sums
from ccnn.training.placing import place
from ccnn.training.resampling import Spacing
from ccnn.training.settings import Missing


class Scores(NamedTuple):
    """What a network gives and how good it is."""

    outputs: Tensor
    loss: float
    score: float


@torch.inference_mode()
def score(
    model: nn.Module,
    samples: Samples,
    loss: Loss,
    *,
    batch_size: int,
    device: torch.device,
    spacing: Spacing = 1.0,
    missing: Missing = "mask",
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
    missing
        How the network is told of missing samples, see `ccnn.training.settings.Batching`.
    """
    sums, outputs = Sums(), []
    for batch in EvaluationBatches(samples, batch_size):
        batch = batch.to(device)
        placed = place(batch, spacing=spacing, missing=missing, aligned=loss.per_position)
        out = placed.through(model)
        mask = placed.mask_of(out) if loss.per_position else None
        sums.add(*loss.compare(out, batch.y, mask, 0.0, batch.weights))
        outputs.append(out.float().cpu())
    total, right, count = sums.values.tolist()
    return Scores(torch.cat(outputs), total / (count or 1), right / (count or 1))


def outputs_of(
    model: nn.Module,
    x: Tensor,
    *,
    spacing: Spacing = 1.0,
    lengths: Tensor | None = None,
    positions: Tensor | None = None,
    batch_size: int = 64,
) -> Tensor:
    """Return a network's outputs for many signals, (n, …)."""
    signals = Batch(x, x.new_zeros(len(x)), lengths, positions)
    return outputs_of_samples(model, signals, spacing=spacing, batch_size=batch_size)


@torch.inference_mode()
def outputs_of_samples(
    model: nn.Module,
    samples: Samples,
    *,
    spacing: Spacing = 1.0,
    missing: Missing = "mask",
    batch_size: int = 64,
) -> Tensor:
    """Return a network's outputs for samples, (n, …), whatever their targets are."""
    outputs = []
    for batch in EvaluationBatches(samples, batch_size):
        placed = place(batch, spacing=spacing, missing=missing)
        outputs.append(placed.through(model).float())
    return torch.cat(outputs)
