"""Where task, recipe, model and trainer meet: `train`, `evaluate`, `predict`."""

import inspect
import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from omegaconf import DictConfig, OmegaConf
from torch import Tensor, nn

from ccnn.conf import command_of, default_folder, plain
from ccnn.data import find_task, finer_task, load_splits
from ccnn.fitting import Labels, fit
from ccnn.inference import cached
from ccnn.models import ANCESTORS, CCNN, PairCCNN, create_model
from ccnn.models.names import pick
from ccnn.saving import load
from ccnn.tasks.scaling import Scaling
from ccnn.tasks.task import Samples, Task
from ccnn.training.data import Batch
from ccnn.training.evaluation import outputs_of_samples, score
from ccnn.training.losses import LOSSES, Loss
from ccnn.training.progress import Progress
from ccnn.training.resampling import Spacing, resample_samples
from ccnn.training.results import Result
from ccnn.training.rng import kept_random_state, seed_all
from ccnn.training.settings import Batching, Loggers, Machine, Optim
from ccnn.training.signals import Interrupted

__all__ = [
    "Evaluation",
    "Interrupted",
    "Labels",
    "Result",
    "build_model",
    "command_of",
    "default_folder",
    "evaluate",
    "find_task",
    "fit",
    "load_splits",
    "predict",
    "train",
]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """How good a trained network is on one part of a task's data.

    ``score`` is the accuracy, or the mean squared error; ``outputs`` are logits or numbers.
    """

    task: str
    split: str
    spacing: float | tuple[float, ...]
    size: tuple[int, ...]
    samples: int
    loss: float
    score: float
    score_name: str
    outputs: Tensor
    targets: Tensor


class _Untested(NamedTuple):
    """Splits whose test samples are not to be looked at."""

    train: Samples
    val: Samples
    test: None = None


def build_model(config: DictConfig, task: Task) -> nn.Module:
    """Return the network of a configuration for a task, with weights from torch's generator."""
    chosen = dict(plain(config.model))
    name = chosen.pop("name")
    arguments = {k: v for k, v in chosen.items() if v is not None}  # null is its own default
    observed = config.data.missing == "observed"  # as one more channel
    arguments.setdefault("in_channels", task.in_channels + observed)
    if task.at_positions:
        arguments["head"] = "none"
    out = 1 if config.optim.loss == "single_logit" else task.classes
    if name in ANCESTORS:
        return _ancestor(name, task, out, arguments)
    if task.pair:
        encoder = {"out_channels": config.model.channels, "size": task.size, **arguments}
        return PairCCNN(out, encoder)
    return CCNN(out_channels=out, size=task.size, **arguments)


def _ancestor(name: str, task: Task, out: int, arguments: dict[str, Any]) -> nn.Module:
    if task.pair:
        raise ValueError(
            f"task={task.name} compares two signals, which model={name} cannot; a ccnn_4_140 can"
        )
    known = inspect.signature(ANCESTORS[name][0]).parameters
    for key in arguments:
        if key not in known:
            raise ValueError(f"model={name} has no {key}; leave model.{key} out")
    return create_model(name, out_channels=out, size=task.size, **arguments)


def train(config: DictConfig) -> Result:
    """Run what a configuration says, from data to ``result.json``.

    Parameters
    ----------
    config
        What `ccnn.conf.compose` returns. ``run`` names the folder; with ``resume`` the run that
        is there goes on.

    Raises
    ------
    Interrupted
        After Ctrl-C or SIGTERM: the run is saved, and the message says how to go on.
    """
    folder = Path(config.run or default_folder(config))
    try:
        return fit_config(config, folder=folder)
    except Interrupted as stop:
        # Not shlex.join, which would quote what has been quoted.
        again = f"{command_of(config)} run={shlex.quote(str(folder))} resume=true"
        raise Interrupted(f"{stop}. To go on:\n  {again}", stop.signum) from None


def fit_config(
    config: DictConfig,
    *,
    folder: Path | None,
    test: bool = True,
    progress: Progress | None = None,
) -> Result:
    """Build what a configuration says, read its data and train: `train`, and a trial of `tune`.

    Parameters
    ----------
    config
        What `ccnn.conf.compose` returns.
    folder
        Where the run is kept; None leaves no files.
    test
        Whether the best weights are tested in the end.
    progress
        Who hears of every epoch; None is what ``config.trainer.progress`` names.
    """
    task = find_task(config)
    if config.data.augment and task.augment is None:
        raise ValueError(f"data.augment is true, but task={task.name} has no augmentation")
    with kept_random_state():
        seed_all(config.seed)
        model = build_model(config, task)
    splits = load_splits(config, task)
    return fit(
        model,
        splits if test else _Untested(splits.train, splits.val),
        optim=Optim(**plain(config.optim)),
        batching=_batching(config),
        machine=_machine(config),
        loggers=Loggers(**plain(config.logger)),
        folder=folder,
        resume=config.resume,
        seed=config.seed,
        augment=task.augment if config.data.augment else None,
        labels=Labels(
            task=task.name,
            model=config.model.name,
            recipe=config.recipe.name,
            command=command_of(config),
            config=OmegaConf.to_yaml(config, resolve=True),
            data=None if task.scaling is None else task.scaling.to_json(),
        ),
        progress=progress,
    )


def evaluate(
    run: Path | str,
    *,
    spacing: Spacing = 1.0,
    split: str = "test",
    data_root: Path | str | None = None,
    batch_size: int | None = None,
) -> Evaluation:
    """Return how good the network of a finished run is, at the training resolution or another.

    Parameters
    ----------
    run
        The run's folder.
    spacing
        2 keeps every second sample of each axis and tells the network so. Below 1, where the
        run made its data coarser (``data.size``), the finer samples are those of the data.
    split
        ``"test"``, ``"val"`` or ``"train"``.
    data_root
        Where the data are; None is where they were in training.
    batch_size
        None is the run's.
    """
    folder = Path(run)
    model, loss, config = _trained(folder)
    task = find_task(config, root=data_root, scaling=_scaling(folder))
    finer = finer_task(config, task, spacing)
    splits = load_splits(config, finer or task, root=data_root)
    parts = {"train": splits.train, "val": splits.val, "test": splits.test}
    samples = pick(split, parts, "split")
    if samples.positions is not None and spacing != 1:
        raise ValueError(f"task={task.name} has samples at times of their own; spacing must be 1")
    resampled = resample_samples(samples, 1.0 if finer else spacing)
    with cached(model):
        scores = score(
            model,
            resampled,
            loss,
            batch_size=batch_size or config.data.batch_size,
            device=torch.device("cpu"),
            spacing=spacing,
            missing=config.data.get("missing", "mask"),  # runs of before have none
        )
    return Evaluation(
        task=task.name,
        split=split,
        spacing=spacing if isinstance(spacing, int | float) else tuple(spacing),
        size=tuple(resampled.x.shape[-len(task.size) :]),
        samples=len(samples),
        loss=scores.loss,
        score=scores.score,
        score_name=loss.score,
        outputs=scores.outputs,
        targets=samples.y,
    )


def predict(
    run: Path | str,
    x: Tensor,
    *,
    spacing: Spacing = 1.0,
    lengths: Tensor | None = None,
    positions: Tensor | None = None,
    mask: Tensor | None = None,
    batch_size: int = 64,
) -> Tensor:
    """Return what the network of a finished run says of signals.

    Parameters
    ----------
    run
        The run's folder.
    x
        Signals sampled at ``spacing``, as the task prepares them; of a run on the user's own
        data, as they are in the user's files.
    spacing, lengths, mask
        As for `ccnn.Grid`; the network is told of missing samples as it was in training.
    positions
        Where samples lie that are on no grid, as for `ccnn.Points`.
    batch_size
        How many at once.

    Shapes
    ------
    x : (n, C, *S), or (n, *S) symbols
    positions : (n, N, D)
    mask : (n, 1, *S), bool
    result : (n, classes) probabilities, or (n, K) numbers in the user's unit; with *S after them
        where there is a target at every position
    """
    model, loss, config = _trained(Path(run))
    scaling = _scaling(Path(run))
    x = x if scaling is None else scaling.apply(x)
    signals = Batch(x, torch.zeros(len(x)), lengths, positions, mask)
    with cached(model):
        outputs = outputs_of_samples(
            model,
            signals,
            spacing=spacing,
            missing=config.data.get("missing", "mask"),  # runs of before have none
            batch_size=batch_size,
        )
    answers = loss.probabilities(outputs)
    return answers if scaling is None else scaling.restore(answers)


def _trained(folder: Path) -> tuple[nn.Module, Loss, DictConfig]:
    """Return a finished run's network in evaluation mode, its loss and its configuration."""
    if not (folder / "result.json").exists():
        state = "holds a run that has not finished" if folder.exists() else "does not exist"
        raise FileNotFoundError(f"{folder} {state}: there is no result.json in it")
    result = json.loads((folder / "result.json").read_text())
    config = OmegaConf.load(folder / "config.yaml")
    assert isinstance(config, DictConfig)
    return load(folder / "model"), LOSSES[result["loss"]], config


def _scaling(folder: Path) -> Scaling | None:
    """Return how the data of a run were prepared, None where the task prepares them."""
    path = folder / "data.json"
    return Scaling.from_json(path.read_text(encoding="utf-8")) if path.exists() else None


def _batching(config: DictConfig) -> Batching:
    data = plain(config.data)
    names = ("batch_size", "accumulate", "spacings", "drop", "missing")
    return Batching(**{name: data[name] for name in names})


def _machine(config: DictConfig) -> Machine:
    settings = plain(config.trainer)
    progress = {True: "auto", False: "none"}.get(settings["progress"], settings["progress"])
    return Machine(**(settings | {"progress": progress}))
