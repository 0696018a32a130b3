"""What the network's outputs are compared with: classes or numbers, per signal or position.

A loss is handed outputs, targets and the mask of valid samples, and returns the sum over what it
counted, how much of it was right, and the count: sums add up over batches and processes.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

# Outputs, targets, mask (B, 1, *S) or None, label smoothing, weights (B,) or None -> loss, score
# and count, summed.
Compare = Callable[
    [Tensor, Tensor, Tensor | None, float, Tensor | None], tuple[Tensor, Tensor, Tensor]
]


@dataclass(frozen=True)
class Loss:
    """A loss by name.

    Parameters
    ----------
    name
        Its name in `LOSSES`.
    score
        What is reported beside it: ``"accuracy"`` (more is better) or ``"mse"`` (less is).
    compare
        The function itself.
    probabilities
        From outputs to what ``predict`` returns.
    """

    name: str
    score: str
    compare: Compare
    probabilities: Callable[[Tensor], Tensor]

    @property
    def per_position(self) -> bool:
        """Whether there is a target at every position, so that a mask matters here."""
        return self.name.startswith("position")

    @property
    def more_is_better(self) -> bool:
        """Whether the better of two scores is the larger one."""
        return self.score == "accuracy"


def cross_entropy(
    outputs: Tensor,
    targets: Tensor,
    mask: Tensor | None,
    smoothing: float,
    weights: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compare (B, classes) with classes (B,)."""
    each = F.cross_entropy(outputs.float(), targets, reduction="none", label_smoothing=smoothing)
    return _summed(each, outputs.argmax(dim=1) == targets, weights)


def single_logit(
    outputs: Tensor,
    targets: Tensor,
    mask: Tensor | None,
    smoothing: float,
    weights: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compare one logit for two classes, (B, 1), with classes (B,)."""
    logit = outputs.squeeze(1).float()
    wanted = targets.to(logit.dtype) * (1 - smoothing) + smoothing / 2
    each = F.binary_cross_entropy_with_logits(logit, wanted, reduction="none")
    return _summed(each, (logit > 0) == (targets > 0), weights)


def mse(
    outputs: Tensor,
    targets: Tensor,
    mask: Tensor | None,
    smoothing: float,
    weights: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compare (B, C) with numbers (B, C), or (B,) where C = 1; the mean over C is one sample's."""
    wanted = targets.reshape(outputs.shape).to(outputs.dtype)
    each = (outputs - wanted).float().square().mean(dim=1)
    return _summed(each, each.detach(), weights)


def position_cross_entropy(
    outputs: Tensor,
    targets: Tensor,
    mask: Tensor | None,
    smoothing: float,
    weights: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compare (B, classes, *S) with classes (B, *S); -100 and padding are not counted."""
    _refuse_weights(weights)
    if mask is not None:
        targets = torch.where(mask.squeeze(1), targets, -100)
    loss = F.cross_entropy(outputs.float(), targets, reduction="sum", label_smoothing=smoothing)
    return loss, (outputs.argmax(dim=1) == targets).sum(), (targets != -100).sum()


def position_mse(
    outputs: Tensor,
    targets: Tensor,
    mask: Tensor | None,
    smoothing: float,
    weights: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compare (B, C, *S) with numbers (B, C, *S), or (B, *S) where C = 1."""
    _refuse_weights(weights)
    wanted = targets.reshape(outputs.shape).to(outputs.dtype)
    error = (outputs - wanted).float().square().mean(dim=1, keepdim=True)  # (B, 1, *S)
    if mask is None:
        loss = error.sum()
        return loss, loss.detach(), _count(error.numel(), loss)
    loss = torch.where(mask, error, 0.0).sum()
    return loss, loss.detach(), mask.sum()


def _summed(each: Tensor, right: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Sum the losses and scores (B,) of signals, each counted by its weight."""
    if weights is None:
        return each.sum(), right.sum(), _count(len(each), each)
    weights = weights.to(each.dtype)
    return (each * weights).sum(), (right * weights).sum(), weights.sum()


def _refuse_weights(weights: Tensor | None) -> None:
    if weights is not None:
        raise ValueError("weights are for one target per signal, not for one at every position")


def _count(n: int, like: Tensor) -> Tensor:
    return torch.tensor(n, device=like.device)


def _softmax(outputs: Tensor) -> Tensor:
    return outputs.float().softmax(dim=1)


def _two_classes(outputs: Tensor) -> Tensor:
    p = outputs.float().sigmoid()
    return torch.cat([1 - p, p], dim=1)


def _same(outputs: Tensor) -> Tensor:
    return outputs.float()


LOSSES: dict[str, Loss] = {
    loss.name: loss
    for loss in (
        Loss("cross_entropy", "accuracy", cross_entropy, _softmax),
        Loss("single_logit", "accuracy", single_logit, _two_classes),
        Loss("mse", "mse", mse, _same),
        Loss("position_cross_entropy", "accuracy", position_cross_entropy, _softmax),
        Loss("position_mse", "mse", position_mse, _same),
    )
}


def pick_loss(name: str, targets: Tensor, *, positions: bool) -> Loss:
    """Return the loss of a name; ``"auto"`` is chosen by what the targets are.

    Parameters
    ----------
    name
        A key of `LOSSES`, or ``"auto"``.
    targets
        Integers are classes, floating numbers are values.
    positions
        Whether the network has an output at every position.
    """
    if name == "auto":
        name = "mse" if targets.is_floating_point() else "cross_entropy"
    if positions and name in ("mse", "cross_entropy"):
        name = f"position_{name}"
    if name not in LOSSES:
        raise ValueError(f"optim.loss is {name!r}; expected auto, {', '.join(LOSSES)}")
    if targets.is_floating_point() and LOSSES[name].score == "accuracy":
        raise ValueError(
            f"optim.loss is {name}, which compares with classes, but the targets are "
            f"{targets.dtype}; for numbers use optim.loss=mse"
        )
    return LOSSES[name]
