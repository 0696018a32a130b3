"""Where curves go besides ``metrics.csv``."""

import importlib.util
import os
from pathlib import Path

from lightning.pytorch.loggers import Logger, MLFlowLogger, TensorBoardLogger, WandbLogger

from ccnn.training.settings import Loggers

_PACKAGES = {"tensorboard": ("tensorboard",), "wandb": ("wandb",), "mlflow": ("mlflow",)}


def make_loggers(folder: Path, wanted: Loggers, *, step: int) -> list[Logger]:
    """Return the loggers of a run that starts, or goes on, at a step.

    Raises
    ------
    ModuleNotFoundError
        Where a logger was asked for whose package is not installed.
    """
    check_loggers(wanted)
    found: list[Logger] = []
    if wanted.tensorboard:
        # purge_step: what was logged after the checkpoint a run goes on from will come again.
        found.append(
            TensorBoardLogger(str(folder), name="tensorboard", version="", purge_step=step)
        )
    if wanted.wandb:
        found.append(WandbLogger(name=folder.name, save_dir=str(folder), id=folder.name))
    if wanted.mlflow:
        # The server that MLflow's own variable names, or a file of the run's: MLflow no longer
        # writes folders.
        server = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{folder / 'mlflow.db'}"
        found.append(MLFlowLogger("ccnn", run_name=folder.name, tracking_uri=server))
    return found


def check_loggers(wanted: Loggers) -> None:
    """Refuse a logger whose package is missing, before any work."""
    chosen = {
        "tensorboard": wanted.tensorboard,
        "wandb": wanted.wandb,
        "mlflow": wanted.mlflow,
    }
    for name, on in chosen.items():
        if on and any(importlib.util.find_spec(package) is None for package in _PACKAGES[name]):
            raise ModuleNotFoundError(
                f"logger.{name}=true needs the package {name}: pip install {name}, or say "
                f"logger.{name}=false"
            )
