"""One trial: values that Optuna picks, a training with them, and its validation score."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import optuna

from ccnn.conf import compose
from ccnn.run import fit_config
from ccnn.training.progress import Progress
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
        # The test set is not looked at, and nothing is kept.
        result = fit_config(config, folder=None, test=False, progress=_Report(trial))
    except Interrupted as stop:
        raise KeyboardInterrupt from stop
    trial.set_user_attr("best_epoch", result.best_epoch)
    return next(value for name, value in result.val.items() if name != "loss")


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
