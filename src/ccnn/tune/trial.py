"""One trial: values that Optuna picks, a training with them, and its validation score."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import optuna
from omegaconf import DictConfig

from ccnn.conf import compose, plain
from ccnn.run import build_model, find_task, load_splits
from ccnn.training.engine import run_training
from ccnn.training.losses import pick_loss
from ccnn.training.module import Training
from ccnn.training.progress import Progress
from ccnn.training.rng import kept_random_state, seed_all
from ccnn.training.settings import Batching, Loggers, Machine, Optim
from ccnn.training.signals import Interrupted

Pick = Callable[[optuna.Trial, str], float]

# The key of each value that can be searched, and where it is looked for.
SPACE: dict[str, tuple[str, Pick]] = {
    "lr": ("optim.lr", lambda t, key: t.suggest_float(key, 1e-3, 5e-2, log=True)),
    "dropout": ("model.dropout", lambda t, key: t.suggest_float(key, 0.0, 0.5, step=0.05)),
    "weight_decay": (
        "optim.weight_decay",
        lambda t, key: t.suggest_float(key, 1e-6, 1e-1, log=True),
    ),
    "omega_0": ("model.omega_0", lambda t, key: t.suggest_float(key, 1.0, 4000.0, log=True)),
    "mask_sigma": ("model.mask_sigma", lambda t, key: t.suggest_float(key, 0.02, 1.0, log=True)),
}


def try_out(trial: optuna.Trial, overrides: Sequence[str], names: Sequence[str]) -> float:
    """Train with values that Optuna picks, and return the best validation score.

    Parameters
    ----------
    trial
        Who picks, and hears of every epoch.
    overrides
        Words of ``ccnn train``.
    names
        What is searched: keys of `SPACE`.

    Raises
    ------
    optuna.TrialPruned
        If the trial falls behind the others.
    """
    chosen = {key: pick(trial, key) for key, pick in (SPACE[name] for name in names)}
    config = compose([*overrides, *(f"{key}={value!r}" for key, value in chosen.items())])
    try:
        training = _train(config, _Report(trial))
    except Interrupted as stop:
        raise KeyboardInterrupt from stop
    assert training.best is not None
    trial.set_user_attr("best_epoch", training.best["epoch"])
    return float(training.best["row"][f"val_{training.loss.score}"])


class _Report(Progress):
    """Tells Optuna of every epoch, and stops a trial that falls behind."""

    def __init__(self, trial: optuna.Trial) -> None:
        self.trial = trial

    def epoch(self, row: Mapping[str, Any], epochs: int, *, better: bool) -> None:
        """Report the validation score."""
        value = row["val_accuracy"] if "val_accuracy" in row else row["val_mse"]
        self.trial.report(float(value), row["epoch"])
        if self.trial.should_prune():
            raise optuna.TrialPruned


def _train(config: DictConfig, progress: Progress) -> Training:
    """Train as `ccnn.run.train` does, without a folder and without a look at the test set."""
    task = find_task(config)
    if config.data.augment and task.augment is None:
        raise ValueError(f"data.augment is true, but task={task.name} has no augmentation")
    with kept_random_state():
        seed_all(config.seed)
        model = build_model(config, task)
    splits = load_splits(config, task)
    optim = Optim(**plain(config.optim))
    training = Training(
        model,
        optim=optim,
        batching=Batching(batch_size=config.data.batch_size, accumulate=config.data.accumulate),
        loss=pick_loss(optim.loss, splits.train.y, positions=task.at_positions),
        train=splits.train,
        val=splits.val,
        seed=config.seed,
        epochs=config.trainer.max_epochs,
        augment=task.augment if config.data.augment else None,
    )
    run_training(
        training,
        machine=Machine(**(plain(config.trainer) | {"progress": "none"})),
        loggers=Loggers(tensorboard=False),
        folder=None,
        settings={},
        state=None,
        progress=progress,
    )
    return training
