"""Networks that others trained, in folders that the commands understand."""

import os
from collections.abc import Sequence
from pathlib import Path

import torch
from omegaconf import OmegaConf

from ccnn.conf import compose
from ccnn.models import CKCNN, load_ckconv
from ccnn.models.names import pick
from ccnn.saving import save
from ccnn.tasks import TASKS
from ccnn.tasks.task import Task
from ccnn.training.checkpoints import write_file
from ccnn.training.results import Result, hardware, versions


def import_ckconv(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    omega_0: float | None,
    size: Sequence[int] | None = None,
    task: str | None = None,
) -> CKCNN:
    """Write a network of the CKConv authors into a folder, and return it.

    Parameters
    ----------
    path, omega_0, size
        As for `ccnn.models.load_ckconv`.
    out
        The folder: a model for `ccnn.load`; with a task, a finished run, whose model is in
        ``model`` and which ``ccnn evaluate`` and ``ccnn predict`` take.
    task
        The task that it was trained for.
    """
    folder = Path(out)
    facts = None if task is None else pick(task, TASKS, "task")
    if (folder / "result.json").exists():
        raise FileExistsError(f"{folder} holds a run; name another folder")
    model = load_ckconv(path, omega_0=omega_0, size=size)
    if facts is None:
        save(model, folder)
        return model
    _check_fit(model, facts)
    save(model, folder / "model")
    _write_run(model, facts, folder)
    return model


def _check_fit(model: CKCNN, task: Task) -> None:
    found, wanted = (
        (len(model.size), model.in_channels, model.out_channels),
        (len(task.size), task.in_channels, task.classes),
    )
    if found != wanted:
        words = ("{} axis/axes, {} channel(s) and {} classes".format(*f) for f in (found, wanted))
        raise ValueError(
            "this network is for {}, task={name} has {}".format(*words, name=task.name)
        )


def _write_run(model: CKCNN, task: Task, folder: Path) -> None:
    """Write what a run ends with; nothing was trained here, and nothing is claimed of it."""
    arguments = model.arguments
    words = [f"model.{key}={arguments[key]}" for key in ("blocks", "channels", "kernel_channels")]
    words += [f"model.omega_0={arguments['omega_0']}", "model.embedding=null"]
    config = compose([f"task={task.name}", "model=ckcnn", *words])
    result = Result(
        task=task.name,
        model="ckcnn",
        recipe="published weights",
        seed=0,
        loss="cross_entropy",
        epochs=0,
        steps=0,
        parameters=sum(p.numel() for p in model.parameters()),
        best_epoch=0,
        train_samples=0,
        val={},
        test={},
        seconds=0.0,
        command=None,
        versions=versions(),
        hardware=hardware(torch.device("cpu")),
    )
    write_file(folder / "config.yaml", OmegaConf.to_yaml(config, resolve=True).encode())
    write_file(folder / "result.json", result.to_json().encode())
