"""Mixup: training on signals that are partly one signal and partly another.

Zhang et al. 2018 (https://openreview.net/forum?id=r1Ddp1-Rb). A network that is asked for
the shares of two signals in their sum learns less of either by heart.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from ccnn.training.data import Batch, Samples


class Partners(NamedTuple):
    """What the signals of a batch were mixed with.

    Parameters
    ----------
    y, weights
        The targets and weights of the other signals.
    share
        How much of each mixed signal is the first one, in [0, 1].
    """

    y: Tensor
    weights: Tensor | None
    share: float


def mix(batch: Batch, alpha: float) -> tuple[Batch, Partners]:
    """Mix each signal with another of the batch, in one share that is drawn from Beta(α, α).

    Where lengths differ the longer of the two counts: the shorter one ends in zeros. Draws from
    torch's global generator.
    """
    share = float(torch.distributions.Beta(alpha, alpha).sample())
    order = torch.randperm(len(batch.x)).to(batch.x.device)
    lengths = batch.lengths
    if lengths is not None:
        lengths = torch.maximum(lengths, lengths[order])
    weights = None if batch.weights is None else batch.weights[order]
    mixed = torch.lerp(batch.x[order], batch.x, share)
    return batch._replace(x=mixed, lengths=lengths), Partners(batch.y[order], weights, share)


def check_mixing(samples: Samples) -> None:
    """Refuse signals of which no sum can be made."""
    why = None
    if not samples.x.is_floating_point():
        why = "symbols have no sum"
    elif samples.positions is not None or samples.mask is not None:
        why = "samples lie at positions of their own, or some are missing"
    if why is not None:
        raise ValueError(f"optim.mixup adds signals sample by sample, but {why}; set it to 0")
