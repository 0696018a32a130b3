"""Where task, recipe, model and trainer meet: `train`, `evaluate`, `predict`."""

import json
import shlex
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from omegaconf import DictConfig, OmegaConf
from torch import Tensor, nn

from ccnn.conf import compose
from ccnn.fitting import Labels, fit
from ccnn.inference import cached
from ccnn.models import CCNN, PairCCNN
from ccnn.models.names import pick
from ccnn.saving import load
from ccnn.tasks import TASKS
from ccnn.tasks.task import Samples, Splits, Task
from ccnn.training.evaluation import Spacing, outputs_of, resample_samples, score
from ccnn.training.losses import LOSSES, Loss
from ccnn.training.progress import Progress
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
    "evaluate",
    "fit",
    "predict",
    "train",
]

# What an override of ``ccnn train`` need not repeat: it says where and how, not what.
_NOT_REPEATED = ("run", "resume")


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


def build_model(config: DictConfig, task: Task) -> CCNN | PairCCNN:
    """Return the network of a configuration for a task, with weights from torch's generator."""
    arguments: Any = OmegaConf.to_container(config.model)
    del arguments["name"]
    arguments["in_channels"] = arguments["in_channels"] or task.in_channels
    if task.kind == "position":
        arguments["head"] = "none"
    out = 1 if config.optim.loss == "single_logit" else task.classes
    if task.pair:
        encoder = {"out_channels": config.model.channels, "size": task.size, **arguments}
        return PairCCNN(out, encoder)
    return CCNN(out_channels=out, size=task.size, **arguments)


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
    task = pick(config.task.name, TASKS, "task")
    if config.data.augment and task.augment is None:
        raise ValueError(f"data.augment is true, but task={task.name} has no augmentation")
    with kept_random_state():
        seed_all(config.seed)
        model = build_model(config, task)
    splits = _splits(config, task)
    return fit(
        model,
        splits if test else _Untested(splits.train, splits.val),
        optim=Optim(**_plain(config.optim)),
        batching=Batching(batch_size=config.data.batch_size, accumulate=config.data.accumulate),
        machine=_machine(config),
        loggers=Loggers(**_plain(config.logger)),
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
        2 keeps every second sample of each axis and tells the network so.
    split
        ``"test"``, ``"val"`` or ``"train"``.
    data_root
        Where the data are; None is where they were in training.
    batch_size
        None is the run's.
    """
    folder = Path(run)
    model, loss, config = _trained(folder)
    task = pick(config.task.name, TASKS, "task")
    splits = _splits(config, task, root=data_root)
    parts = {"train": splits.train, "val": splits.val, "test": splits.test}
    samples = resample_samples(pick(split, parts, "split"), spacing)
    with cached(model):
        scores = score(
            model,
            samples,
            loss,
            batch_size=batch_size or config.data.batch_size,
            device=torch.device("cpu"),
            spacing=spacing,
        )
    return Evaluation(
        task=task.name,
        split=split,
        spacing=spacing if isinstance(spacing, int | float) else tuple(spacing),
        size=tuple(samples.x.shape[-len(task.size) :]),
        samples=len(samples.x),
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
    batch_size: int = 64,
) -> Tensor:
    """Return what the network of a finished run says of signals.

    Parameters
    ----------
    run
        The run's folder.
    x
        Signals as the task prepares them, sampled at ``spacing``; they are not resampled.
    spacing, lengths
        As for `ccnn.Grid`.
    batch_size
        How many at once.

    Shapes
    ------
    x : (n, C, *S), or (n, *S) symbols
    result : (n, classes) probabilities, or (n, C) numbers
    """
    model, loss, _ = _trained(Path(run))
    with cached(model):
        outputs = outputs_of(model, x, spacing=spacing, lengths=lengths, batch_size=batch_size)
    return loss.probabilities(outputs)


def default_folder(config: DictConfig) -> Path:
    """Return ``runs/<task>-<model>-<time>``."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    return Path("runs") / f"{config.task.name}-{config.model.name}-{stamp}"


def command_of(config: DictConfig) -> str:
    """Return the command that repeats a configuration: its groups, and what differs from them."""
    groups = [
        f"task={config.task.name}",
        f"model={config.model.name}",
        f"recipe={config.recipe.name}",
    ]
    usual = _leaves(compose(groups))
    words = [
        f"{key}={_word(value)}"
        for key, value in _leaves(config).items()
        if usual.get(key) != value and key not in _NOT_REPEATED
    ]
    return shlex.join(["ccnn", "train", *groups, *words])


def _trained(folder: Path) -> tuple[nn.Module, Loss, DictConfig]:
    """Return a finished run's network in evaluation mode, its loss and its configuration."""
    if not (folder / "result.json").exists():
        state = "holds a run that has not finished" if folder.exists() else "does not exist"
        raise FileNotFoundError(f"{folder} {state}: there is no result.json in it")
    result = json.loads((folder / "result.json").read_text())
    config = OmegaConf.load(folder / "config.yaml")
    assert isinstance(config, DictConfig)
    return load(folder / "model"), LOSSES[result["loss"]], config


def _splits(config: DictConfig, task: Task, root: Path | str | None = None) -> Splits:
    """Return a task's samples as the configuration feeds them to the network."""
    splits = task.load(Path(config.data.root if root is None else root))
    limit = config.data.limit
    train = splits.train
    if limit is not None:
        lengths = None if train.lengths is None else train.lengths[:limit]
        train = Samples(x=train.x[:limit], y=train.y[:limit], lengths=lengths)
    embedded = config.model.embedding is not None
    return Splits(
        *(
            as_signals(samples, len(task.size), embedded=embedded)
            for samples in (train, splits.val, splits.test)
        )
    )


def as_signals(samples: Samples, dim: int, *, embedded: bool) -> Samples:
    """Return symbols as one channel of numbers where the network has no embedding."""
    x = samples.x
    if embedded or x.is_floating_point():
        return samples
    return Samples(x.float().unsqueeze(-1 - dim), samples.y, samples.lengths)


def _machine(config: DictConfig) -> Machine:
    settings = _plain(config.trainer)
    progress = {True: "auto", False: "none"}.get(settings["progress"], settings["progress"])
    return Machine(**(settings | {"progress": progress}))


def _plain(config: DictConfig) -> dict[str, Any]:
    content: Any = OmegaConf.to_container(config, resolve=True)
    return dict(content)


def _leaves(config: DictConfig) -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for key, value in _plain(config).items():
        inner = value if isinstance(value, dict) else {"": value}
        leaves |= {f"{key}.{k}".rstrip("."): v for k, v in inner.items()}
    return leaves


def _word(value: object) -> str:
    """Return a value as Hydra reads it."""
    return json.dumps(value) if isinstance(value, bool | list) or value is None else str(value)
