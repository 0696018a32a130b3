"""Training a network on tensors: the one way in, for the command line and the estimators."""

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ccnn.inference import cached
from ccnn.models import CLASSES
from ccnn.saving import save
from ccnn.training.checkpoints import write_file
from ccnn.training.data import Samples, Splits, check_samples, steps_per_epoch
from ccnn.training.engine import is_main_process, pick_accelerator, run_training
from ccnn.training.evaluation import Scores, score
from ccnn.training.folder import as_json, open_folder, read_state
from ccnn.training.loggers import check_loggers
from ccnn.training.losses import Loss, pick_loss
from ccnn.training.metrics import csv_bytes
from ccnn.training.mixing import check_mixing
from ccnn.training.module import Augment, Training
from ccnn.training.progress import Progress, make_progress
from ccnn.training.results import Result, hardware, versions
from ccnn.training.settings import Batching, Loggers, Machine, Optim, as_plain
from ccnn.training.signals import Interrupted


@dataclass(frozen=True, kw_only=True)
class Labels:
    """What a run is called in its files, and how to repeat it.

    ``config`` is the text of ``config.yaml``; without it the settings are written there.
    ``data`` is the text of ``data.json``: how the signals were prepared.
    """

    task: str | None = None
    model: str | None = None
    recipe: str | None = None
    command: str | None = None
    config: str | None = None
    data: str | None = None


def fit(
    model: nn.Module,
    splits: Splits,
    *,
    optim: Optim,
    batching: Batching | None = None,
    machine: Machine | None = None,
    loggers: Loggers | None = None,
    folder: Path | str | None = None,
    resume: bool = False,
    seed: int = 0,
    augment: Augment | None = None,
    labels: Labels | None = None,
    progress: Progress | None = None,
) -> Result:
    """Train a network on tensors, keep its best weights, and test them once.

    Afterwards ``model`` holds the best weights and is in evaluation mode.

    Parameters
    ----------
    model
        Any network of ours, or one that is called the same way.
    splits
        Training, validation and test samples; the last two may be None.
    optim, batching, machine, loggers
        The recipe, and on what it runs. ``machine.progress="none"`` is silent.
    folder
        Where the run is kept; None leaves no files, and cannot be resumed.
    resume
        Go on with the run in ``folder`` (or begin it).
    seed
        Of the order of samples, dropout and augmentation; the caller's generators are left as
        they were.
    augment
        Changes the signals of a training batch, or their positions where they have some, drawing
        from torch's global generator.
    labels
        Names for the files.
    progress
        Who hears of every epoch; None is what ``machine.progress`` names.

    Raises
    ------
    Interrupted
        After Ctrl-C or SIGTERM, the run having been saved; the model holds its best weights so
        far, or without one finished epoch those it has come to.
    NotFinite
        If the loss or a gradient is not finite.
    """
    batching, machine = batching or Batching(), machine or Machine()
    loggers, labels = loggers or Loggers(), labels or Labels()
    loss = _check(model, splits, optim, batching)
    path = None if folder is None else Path(folder)
    settings = _settings(model, splits.train, optim, batching, seed, augment, labels)
    epochs = machine.max_epochs or optim.epochs
    if progress is None:
        progress = make_progress(machine.progress if is_main_process() else "none")
    state = None
    if path is not None:
        check_loggers(loggers)
        open_folder(path, resume=resume, main=is_main_process())
        state = read_state(path, settings, progress.say) if resume else None
        _write_setup(path, labels, settings)
    training = Training(
        model,
        optim=optim,
        batching=batching,
        loss=loss,
        train=splits.train,
        val=splits.val,
        seed=seed,
        epochs=epochs,
        augment=augment,
    )
    if state is not None:
        training.restore(state)
        progress.say(f"going on at epoch {training.epoch + 1}, step {training.step}")
    if not _is_over(training):
        try:
            run_training(
                training,
                machine=machine,
                loggers=loggers,
                folder=path,
                settings=settings,
                state=state,
                progress=progress,
            )
        except Interrupted:
            _keep_best(training)
            raise
    return _finish(training, splits, machine, path, labels, progress)


def _check(model: nn.Module, splits: Splits, optim: Optim, batching: Batching) -> Loss:
    """Refuse what cannot be trained, and return what is minimised."""
    check_samples(splits.train, "training")
    if splits.val is not None:
        check_samples(splits.val, "validation")
    if splits.test is not None:
        check_samples(splits.test, "test")
    steps_per_epoch(len(splits.train.x), batching)
    _check_thinning(splits.train, batching)
    if optim.mixup:
        check_mixing(splits.train)
    positions = getattr(model, "head", "pool") == "none"
    return pick_loss(optim.loss, splits.train.y, positions=positions)


def _check_thinning(samples: Samples, batching: Batching) -> None:
    """Refuse to thin out or to drop what cannot be."""
    symbols = not samples.x.is_floating_point()
    if batching.spacings and (symbols or samples.positions is not None):
        kind = "symbols have no resolution" if symbols else "samples lie at positions of their own"
        raise ValueError(f"data.spacings are {batching.spacings}, but {kind}; leave them out")
    if symbols and (batching.drop or batching.missing == "observed"):
        raise ValueError("data.drop and data.missing=observed need numbers, not symbols")


def _settings(
    model: nn.Module,
    samples: Samples,
    optim: Optim,
    batching: Batching,
    seed: int,
    augment: Augment | None,
    labels: Labels,
) -> dict[str, Any]:
    """Return what must not change when a run goes on."""
    return as_json(
        {
            "task": labels.task,
            "recipe": labels.recipe,
            "model": getattr(model, "arguments", type(model).__name__),
            "optim": as_plain(optim),
            "data": as_plain(batching) | {"augment": augment is not None},
            "seed": seed,
            "train_samples": len(samples.x),
        }
    )


def _write_setup(folder: Path, labels: Labels, settings: Mapping[str, Any]) -> None:
    if not is_main_process():
        return
    config = labels.config or json.dumps(settings, indent=2) + "\n"  # JSON is YAML, too
    write_file(folder / "config.yaml", config.encode())
    if labels.command is not None:
        write_file(folder / "command.txt", (labels.command + "\n").encode())
    if labels.data is not None:
        write_file(folder / "data.json", labels.data.encode())


def _is_over(training: Training) -> bool:
    if training.epoch >= training.epochs:
        return True
    patience, best = training.optim.early_stopping, training.best
    stale = 0 if best is None else training.epoch - 1 - best["epoch"]
    return patience is not None and stale >= patience


def _keep_best(training: Training) -> None:
    """Leave the model with the best weights of a run that was stopped."""
    weights = training.weights() if training.best is None else training.best["weights"]
    training.model.load_state_dict(weights)
    training.model.cpu().eval()


def _finish(
    training: Training,
    splits: Splits,
    machine: Machine,
    folder: Path | None,
    labels: Labels,
    progress: Progress,
) -> Result:
    """Put the best weights in, test them, and write what a run ends with."""
    assert training.best is not None
    model, loss = training.model, training.loss
    model.load_state_dict(training.best["weights"])
    device = _device(machine)
    model.to(device).eval()
    tested: Scores | None = None
    if splits.test is not None and is_main_process():
        with cached(model):
            tested = score(
                model,
                splits.test,
                loss,
                batch_size=training.batching.batch_size,
                device=device,
                missing=training.batching.missing,
            )
    row = training.best["row"]
    result = Result(
        task=labels.task,
        model=labels.model or type(model).__name__,
        recipe=labels.recipe,
        seed=training.seed,
        loss=loss.name,
        epochs=training.epoch,
        steps=training.step,
        parameters=sum(p.numel() for p in model.parameters()),
        best_epoch=int(training.best["epoch"]),
        train_samples=len(splits.train.x),
        val={k: float(row[f"val_{k}"]) for k in ("loss", loss.score) if f"val_{k}" in row},
        test={} if tested is None else {"loss": tested.loss, loss.score: tested.score},
        seconds=round(training.seconds, 3),
        command=labels.command,
        versions=versions(),
        hardware=hardware(device),
        history=training.history,
    )
    model.cpu()
    if folder is not None and is_main_process():
        _write_end(folder, model, result, tested, splits)
    if tested is not None:
        progress.say(_test_line(result, loss))
    return result


def _write_end(
    folder: Path, model: nn.Module, result: Result, tested: Scores | None, splits: Splits
) -> None:
    write_file(folder / "metrics.csv", csv_bytes(result.history))
    if type(model) in CLASSES.values():
        save(model, folder / "model")
    if tested is not None and splits.test is not None:
        buffer = io.BytesIO()
        np.savez(buffer, logits=tested.outputs.numpy(), targets=splits.test.y.numpy())
        write_file(folder / "predictions.npz", buffer.getvalue())
    # Last: a run that has a result is complete.
    write_file(folder / "result.json", result.to_json().encode())


def _test_line(result: Result, loss: Loss) -> str:
    value = result.test[loss.score]
    shown = f"{100 * value:.2f} %" if loss.score == "accuracy" else f"{value:.5g}"
    return f"test {loss.score} {shown} with the weights of epoch {result.best_epoch + 1}"


def _device(machine: Machine) -> torch.device:
    gpu = pick_accelerator(machine.accelerator) in ("gpu", "cuda") and torch.cuda.is_available()
    return torch.device("cuda" if gpu else "cpu")
