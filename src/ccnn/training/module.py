"""The LightningModule: one step, the optimiser, and the whole state of a run."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import lightning as L
import torch
from torch import Tensor, nn

from ccnn.training import failures, penalties
from ccnn.training.data import (
    Batch,
    EvaluationBatches,
    Samples,
    TrainingBatches,
    steps_per_epoch,
)
from ccnn.training.losses import Loss
from ccnn.training.metrics import Row, Sums
from ccnn.training.mixing import Partners, mix
from ccnn.training.optimizer import make_optimizer, set_rate
from ccnn.training.placing import Placed, drop, place
from ccnn.training.resampling import resample_batch
from ccnn.training.schedule import warmup_cosine, warmup_steps
from ccnn.training.settings import Batching, Optim

Augment = Callable[[Tensor], Tensor]

# A batch whose signals all have the weight zero teaches nothing, instead of 0 / 0.
_SMALL = 1e-12


class Training(L.LightningModule):
    """A network, what it learns from, and how far it has come.

    Lightning moves it to devices, wraps it, steps its optimiser. Where the run stands (epoch,
    micro-batch, step) is kept here, so that a run goes on at any step without Lightning's loops
    having to be restored: a trainer that goes on is handed the rest of an epoch.

    Parameters
    ----------
    model
        The network: ``model(x)`` or ``model(x, domain)``.
    optim, batching, seed, epochs
        The recipe; ``epochs`` is how long this run lasts.
    loss
        What outputs are compared with.
    train, val
        Samples; without ``val`` the last epoch counts as the best.
    augment
        Changes the signals of a training batch, or their positions where they have some, drawing
        from torch's global generator.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        optim: Optim,
        batching: Batching,
        loss: Loss,
        train: Samples,
        val: Samples | None,
        seed: int,
        epochs: int,
        augment: Augment | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.optim, self.batching, self.loss = optim, batching, loss
        self.samples, self.val_samples = train, val
        self.seed, self.epochs, self.augment = seed, epochs, augment
        self.epoch, self.batch, self.step = 0, 0, 0
        self.seconds = 0.0
        self.train_sums, self.val_sums = Sums(), Sums()
        self.history: list[Row] = []
        self.best: dict[str, Any] | None = None
        self.average = {k: v.clone() for k, v in model.state_dict().items()} if optim.ema else {}
        self._optimizer_state: Mapping[str, Any] | None = None
        self._set_aside: dict[str, Tensor] = {}

    # The data and the schedule

    @property
    def world(self) -> int:
        """How many processes train together."""
        return self._trainer.world_size if self._trainer is not None else 1

    @property
    def steps_per_epoch(self) -> int:
        """Optimiser steps per epoch."""
        return steps_per_epoch(len(self.samples.x), self.batching, self.world)

    def train_dataloader(self) -> TrainingBatches:
        """Return what is left of the current epoch."""
        return TrainingBatches(
            self.samples,
            self.batching,
            seed=self.seed,
            epoch=self.epoch,
            start=self.batch,
            rank=self.global_rank,
            world=self.world,
        )

    def val_dataloader(self) -> Any:
        """Return this process's share of the validation samples."""
        if self.val_samples is None:
            return []
        size = self.batching.batch_size
        return EvaluationBatches(self.val_samples, size, rank=self.global_rank, world=self.world)

    def rate(self) -> float:
        """Return the share of the peak learning rate at the current step."""
        total = self.epochs * self.steps_per_epoch
        warmup = warmup_steps(
            total=total, warmup_epochs=self.optim.warmup_epochs, epochs=self.optim.epochs
        )
        return warmup_cosine(self.step, total=total, warmup=warmup)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return AdamW, where the run stood."""
        optimizer = make_optimizer(self.model, self.optim)
        if self._optimizer_state is not None:
            optimizer.load_state_dict(dict(self._optimizer_state))
            self._optimizer_state = None
        return optimizer

    # One step

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Set the learning rate of this step."""
        set_rate(self._adamw(), self.rate())

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the loss of a batch with its penalties."""
        if self.augment is not None:
            batch = _augmented(batch, self.augment)
        partners = None
        if self.optim.mixup:
            batch, partners = mix(batch, self.optim.mixup)
        spacing = self._drawn_spacing()
        if spacing != 1:
            batch = resample_batch(batch, spacing)
        if self.batching.drop:
            batch = drop(batch, self.batching.drop)
        placed = self._place(batch, spacing)
        loss, score, count = self._compare(placed, batch, self.optim.label_smoothing, partners)
        mean = loss / count.clamp(min=1 if batch.weights is None else _SMALL)
        total = mean + self._penalty()
        if not torch.isfinite(total):
            self._refuse(placed, total)
        self.train_sums.add(loss, score, count)
        return total

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Refuse a step that would make the weights NaN."""
        if self.trainer.precision == "16-mixed":
            return  # infinite gradients are how its loss scale is found
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        if not torch.isfinite(nn.utils.get_total_norm(gradients)):
            where = failures.first_bad_gradient(self.model)
            raise failures.NotFinite(
                f"the gradient is not finite at step {self.step} (epoch {self.epoch}), first in "
                f"the gradient of {where}. {failures.ADVICE}"
            )

    def advance(self) -> None:
        """Count a batch that is done, and the step where it completes one.

        Called by the callback that saves, whose hooks Lightning calls before a module's.
        """
        self.batch += 1
        if self.batch % self.batching.accumulate == 0:
            self.step += 1
            self._average_weights()

    def _drawn_spacing(self) -> float:
        spacings = self.batching.spacings
        return spacings[int(torch.randint(len(spacings), ()))] if spacings else 1.0

    def _place(self, batch: Batch, spacing: float = 1.0) -> Placed:
        aligned = self.loss.per_position
        return place(batch, spacing=spacing, missing=self.batching.missing, aligned=aligned)

    def _compare(
        self,
        placed: Placed,
        batch: Batch,
        smoothing: float = 0.0,
        partners: Partners | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        outputs = placed.through(self.model)
        mask = placed.mask_of(outputs) if self.loss.per_position else None
        sums = self.loss.compare(outputs, batch.y, mask, smoothing, batch.weights)
        if partners is None:
            return sums
        others = self.loss.compare(outputs, partners.y, mask, smoothing, partners.weights)
        share = partners.share
        loss, score, count = (
            share * a + (1 - share) * b for a, b in zip(sums, others, strict=True)
        )
        return loss, score, count

    def _penalty(self) -> Tensor | float:
        penalty: Tensor | float = 0.0
        if self.optim.decay == "authors" and self.optim.weight_decay:
            penalty = penalty + self.optim.weight_decay * penalties.authors_norms(self.model)
        if self.optim.aliasing:
            penalty = penalty + self.optim.aliasing * penalties.aliasing(self.model)
        return penalty

    def _refuse(self, placed: Placed, loss: Tensor) -> None:
        where = failures.first_failure(self.model, placed)
        raise failures.NotFinite(
            f"the loss is {loss.item()} at step {self.step} (epoch {self.epoch}): not finite "
            f"first in {where}. {failures.ADVICE}"
        )

    def _adamw(self) -> torch.optim.Optimizer:
        optimizer = self.optimizers(use_pl_optimizer=False)
        assert isinstance(optimizer, torch.optim.Optimizer)
        return optimizer

    # Validation

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Add a batch to the validation sums."""
        if len(batch.x) == 0:
            return  # the other processes have one sample more
        self.val_sums.add(*self._compare(self._place(batch), batch))

    def on_validation_start(self) -> None:
        """Put the averaged weights in."""
        self.val_sums = Sums()
        if self.average:
            self._set_aside = copy.deepcopy(self.model.state_dict())
            self.model.load_state_dict(self.average)

    def on_validation_end(self) -> None:
        """Take the averaged weights out."""
        if self._set_aside:
            self.model.load_state_dict(self._set_aside)
            self._set_aside = {}

    @torch.no_grad()
    def _average_weights(self) -> None:
        state = self.model.state_dict() if self.average else {}
        for name, value in state.items():
            mean = self.average[name].to(value.device)
            if value.is_floating_point():
                mean.lerp_(value, 1 - self.optim.ema)
            else:
                mean.copy_(value)
            self.average[name] = mean

    def weights(self) -> dict[str, Tensor]:
        """Return a copy of the weights that count, on the host: the averaged ones if there are."""
        state = self.average or self.model.state_dict()
        return {k: v.detach().cpu().clone() for k, v in state.items()}

    # The whole state

    def snapshot(self) -> dict[str, Any]:
        """Return the state of the run in tensors and plain values."""
        return {
            "epoch": self.epoch,
            "batch": self.batch,
            "step": self.step,
            "steps_per_epoch": self.steps_per_epoch,
            "seconds": self.seconds,
            "model": self.model.state_dict(),
            "optimizer": self._adamw().state_dict(),
            "average": self.average,
            "train_sums": self.train_sums.total(),
            "history": [dict(row) for row in self.history],
            "best": self.best,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `snapshot`; before the trainer starts."""
        self.epoch, self.batch, self.step = state["epoch"], state["batch"], state["step"]
        self.seconds = state["seconds"]
        self.model.load_state_dict(state["model"])
        self._optimizer_state = state["optimizer"]
        self.average = dict(state["average"])
        self.train_sums.values = state["train_sums"].clone()
        self.history = [dict(row) for row in state["history"]]
        self.best = state["best"]


def _augmented(batch: Batch, augment: Augment) -> Batch:
    """Return a batch with other values or, where they lie at positions, with other positions."""
    if batch.positions is None:
        return batch._replace(x=augment(batch.x))
    return batch._replace(positions=augment(batch.positions))
