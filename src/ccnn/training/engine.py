"""From a `Training` to trained weights: Lightning's trainer, set up for it."""

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.utilities import rank_zero_only

from ccnn.training.failures import NotFinite
from ccnn.training.keeper import Keeper
from ccnn.training.loggers import make_loggers
from ccnn.training.module import Training
from ccnn.training.progress import Progress
from ccnn.training.rng import kept_random_state
from ccnn.training.settings import Loggers, Machine

# Worker processes that cannot hand the state back to the process that started them.
_LOST = ("ddp_spawn", "ddp_fork", "ddp_notebook")


def is_main_process() -> bool:
    """Return whether this process writes the files, before or inside of distributed training."""
    rank = getattr(rank_zero_only, "rank", 0)  # what Lightning reads from the environment
    return int(rank or 0) == 0


def pick_accelerator(name: str) -> str:
    """Return what ``"auto"`` stands for: CUDA where there is some, else the CPU.

    Apple's MPS, which Lightning would choose as well, has no double precision for our sums.
    """
    if name != "auto":
        return name
    return "gpu" if torch.cuda.is_available() else "cpu"


def run_training(
    training: Training,
    *,
    machine: Machine,
    loggers: Loggers,
    folder: Path | None,
    settings: Mapping[str, Any],
    state: Mapping[str, Any] | None,
    progress: Progress,
) -> None:
    """Train until the last epoch, an early stop, or an exception that leaves a checkpoint.

    Parameters
    ----------
    training
        What to train, already restored where the run goes on.
    machine, loggers, folder, settings, state, progress
        As for `Keeper`.
    """
    if machine.strategy in _LOST:
        raise ValueError(f"trainer.strategy={machine.strategy} cannot hand its state back; use ddp")
    keeper = Keeper(folder, machine=machine, settings=settings, state=state, progress=progress)
    keeper.request.install()
    try:
        with _quiet(), kept_random_state():
            trainer = _trainer(training, keeper, machine, loggers, folder)
            _check_position(training, trainer, state)
            trainer.fit(training)
    except NotFinite as error:
        raise NotFinite(f"{error} {_kept(keeper)}") from None
    finally:
        keeper.request.restore()
        progress.close()


def _trainer(
    training: Training,
    keeper: Keeper,
    machine: Machine,
    loggers: Loggers,
    folder: Path | None,
) -> L.Trainer:
    return L.Trainer(
        accelerator=pick_accelerator(machine.accelerator),
        devices=machine.devices,
        num_nodes=machine.num_nodes,
        strategy=machine.strategy,
        precision=machine.precision,  # type: ignore[arg-type]  # Lightning checks the name
        max_epochs=training.epochs - training.epoch,
        accumulate_grad_batches=training.batching.accumulate,
        gradient_clip_val=training.optim.clip or None,
        limit_val_batches=1.0 if training.val_samples is not None else 0,
        # So that the training asks anew for the batches of each epoch.
        reload_dataloaders_every_n_epochs=1,
        use_distributed_sampler=False,
        num_sanity_val_steps=0,
        callbacks=[keeper],
        logger=make_loggers(folder, loggers, step=training.step) if folder else False,
        default_root_dir=folder,
        # Ours: Lightning's are neither atomic nor exact inside an epoch.
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        log_every_n_steps=1,
    )


def _check_position(
    training: Training, trainer: L.Trainer, state: Mapping[str, Any] | None
) -> None:
    """Refuse to go on inside an epoch that would now be cut into other steps."""
    training.trainer = trainer
    if (
        state is not None
        and state["batch"]
        and state["steps_per_epoch"] != training.steps_per_epoch
    ):
        raise ValueError(
            f"the run was stopped inside an epoch of {state['steps_per_epoch']} steps, and now an "
            f"epoch has {training.steps_per_epoch}: go on with as many processes as before "
            "(trainer.devices, trainer.num_nodes)"
        )


def _kept(keeper: Keeper) -> str:
    if keeper.folder is None or keeper.saved_step is None:
        return "No checkpoint had been written."
    return (
        f"The checkpoint of step {keeper.saved_step} is kept in {keeper.folder.name}/checkpoints."
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence what Lightning says about things that are meant."""
    log = logging.getLogger("lightning.pytorch")
    level = log.level
    log.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            # The choice of devices is the user's.
            warnings.filterwarnings("ignore", ".*available but not used")
            # Lightning 2.6 uses a name that torch 2.13 deprecates.
            warnings.filterwarnings("ignore", ".*LeafSpec.*", FutureWarning)
            yield
    finally:
        log.setLevel(level)
