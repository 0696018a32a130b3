"""The callback that keeps a run: its position, checkpoints, best weights, metrics, and its end."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lightning as L
import torch

from ccnn.training import checkpoints
from ccnn.training.metrics import Row, csv_bytes, numbers, window_columns
from ccnn.training.module import Training
from ccnn.training.progress import Progress
from ccnn.training.rng import random_state, restore_random_state, seed_all
from ccnn.training.settings import Machine
from ccnn.training.signals import Interrupted, StopRequest


class Keeper(L.Callback):
    """Saves a run so that it can be stopped at any moment and go on as if it had not been.

    Parameters
    ----------
    folder
        The run's folder, or None for a run that leaves no files.
    machine
        How often to save.
    settings
        The recipe, which every checkpoint carries.
    state
        The checkpoint to go on from, or None.
    progress
        What shows the run.
    """

    def __init__(
        self,
        folder: Path | None,
        *,
        machine: Machine,
        settings: Mapping[str, Any],
        state: Mapping[str, Any] | None,
        progress: Progress,
    ) -> None:
        self.folder = folder
        self.machine = machine
        self.settings = dict(settings)
        self.state = state
        self.progress = progress
        self.request = StopRequest()
        self.saved_step = None if state is None else int(state["step"])
        self._fresh = True
        self._saved_at = self._clock = time.monotonic()

    # Hooks, in the order in which Lightning calls them

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Take over the signals, which Lightning has taken before."""
        training = _training(pl_module)
        self.request.install()
        if not trainer.is_global_zero:
            training.train_sums.values.zero_()  # process 0 goes on with everybody's
        self._saved_at = self._clock = time.monotonic()
        total = training.epochs * training.steps_per_epoch
        self.progress.start(total=total, step=training.step)

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Before the first batch, put the random generators where they belong."""
        if not self._fresh:
            return
        self._fresh = False
        rank = trainer.global_rank
        if self.state is not None and rank < len(self.state["random"]):
            restore_random_state(self.state["random"][rank])
        else:
            seed_all(_training(pl_module).seed, rank)

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Count the batch; save where it is time, or where the run shall stop."""
        training = _training(pl_module)
        training.advance()
        accumulate = training.batching.accumulate
        if training.batch % accumulate:
            return
        self.progress.step(training.step, training.train_sums.values)
        if training.batch == accumulate * training.steps_per_epoch:
            return  # the epoch's end is near, and saves
        stop = self.request.signum is not None
        if not _anybody(trainer, stop or self._is_due(training.step)):
            return
        stop = _anybody(trainer, stop)
        self._save(trainer, training)
        if stop:
            self._interrupt(training)

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Write down the epoch, validated before, and go to the next one."""
        training = _training(pl_module)
        row = self._row(trainer, training)
        training.history.append(row)
        better = self._keep_best(training, row)
        training.epoch, training.batch = training.epoch + 1, 0
        training.train_sums.values.zero_()
        self._save(trainer, training, better=better)
        for logger in trainer.loggers:
            logger.log_metrics(numbers(row), step=training.step)
            logger.save()
        self.progress.epoch(row, training.epochs, better=better)
        patience = training.optim.early_stopping
        if patience is not None and training.best is not None:
            trainer.should_stop |= training.epoch - 1 - training.best["epoch"] >= patience
        stop = _anybody(trainer, self.request.signum is not None)
        if stop and training.epoch < training.epochs and not trainer.should_stop:
            self._interrupt(training)

    # What they do

    def _row(self, trainer: L.Trainer, training: Training) -> Row:
        loss, score = training.train_sums.means()
        row: Row = {
            "epoch": training.epoch,
            "step": training.step,
            "lr": trainer.optimizers[0].param_groups[0]["lr"],
            "train_loss": loss,
            f"train_{training.loss.score}": score,
        }
        if training.val_samples is not None:
            loss, score = training.val_sums.means()
            row |= {"val_loss": loss, f"val_{training.loss.score}": score}
        before = sum(float(r["seconds"]) for r in training.history)
        row["seconds"] = round(self._elapsed(training) - before, 3)
        return row | window_columns(training.model)

    def _elapsed(self, training: Training) -> float:
        now = time.monotonic()
        training.seconds += now - self._clock
        self._clock = now
        return training.seconds

    def _keep_best(self, training: Training, row: Row) -> bool:
        """Remember the weights where the validation score is the best so far, or the last."""
        key = _rank_of(row, training.loss.more_is_better, training.loss.score)
        if training.best is not None and key is not None and key <= training.best["key"]:
            return False
        best = {"epoch": training.epoch, "step": training.step, "key": key}
        training.best = best | {"row": dict(row), "weights": training.weights()}
        return True

    def _is_due(self, step: int) -> bool:
        if self.folder is None:
            return False
        every, minutes = self.machine.save_steps, self.machine.save_minutes
        late = minutes is not None and time.monotonic() - self._saved_at >= 60 * minutes
        return late or (every is not None and step % every == 0)

    def _save(self, trainer: L.Trainer, training: Training, *, better: bool = False) -> None:
        self._elapsed(training)
        if self.folder is None:
            return
        state = training.snapshot() | {
            "random": _gathered_random_states(trainer),
            "settings": self.settings,
        }
        self._saved_at = time.monotonic()
        self.saved_step = training.step
        if not trainer.is_global_zero:
            return
        folder = self.folder / "checkpoints"
        # Everything a run needs to go on is in the last checkpoint; the others follow from it.
        checkpoints.write_checkpoint(
            folder / checkpoints.LAST, state, keep=folder / checkpoints.PREVIOUS
        )
        checkpoints.write_file(self.folder / "metrics.csv", csv_bytes(training.history))
        if better and training.best is not None:
            checkpoints.write_checkpoint(folder / checkpoints.BEST, training.best)

    def _interrupt(self, training: Training) -> None:
        signum = self.request.signum or 15
        saved = "" if self.folder is None else "; the run is saved and goes on with resume=true"
        raise Interrupted(
            f"stopped after step {training.step} (epoch {training.epoch}){saved}", signum
        )


def _training(module: L.LightningModule) -> Training:
    assert isinstance(module, Training)
    return module


def _rank_of(row: Row, more_is_better: bool, score: str) -> list[float] | None:
    """Return what orders epochs: the score, then the loss where scores are equal."""
    if f"val_{score}" not in row:
        return None
    value, loss = float(row[f"val_{score}"]), float(row["val_loss"])
    return [value if more_is_better else -value, -loss]


def _anybody(trainer: L.Trainer, wish: bool) -> bool:
    """Return whether any process wishes so: all must do the same."""
    if trainer.world_size == 1:
        return wish
    return bool(trainer.strategy.reduce_boolean_decision(wish, all=False))


def _gathered_random_states(trainer: L.Trainer) -> list[dict[str, Any]]:
    """Return the random states of all processes, in order."""
    mine = random_state()
    if trainer.world_size == 1:
        return [mine]
    states: list[Any] = [None] * trainer.world_size
    torch.distributed.all_gather_object(states, mine)
    return states
