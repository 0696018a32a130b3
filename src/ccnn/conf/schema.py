"""What a configuration may hold: every key, with its type.

The YAML files beside this one fill it in. A key that does not stand here is refused, and so is a
value of another type; which words and numbers make sense, others say.
"""

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING


@dataclass
class Row:
    """One row of a task's table: what training one model on it takes (Table 5, Table 6).

    The first six are the paper's columns. The rest it leaves out; where a recipe does not say
    otherwise, the values here are those of most of the authors' commands.
    """

    omega_0: Any = MISSING  # a union would be right, but OmegaConf 2.3 cannot merge one in a dict;
    dropout: float = MISSING  # the model's own omega_0 and kernel_size are typed
    lr: float = MISSING
    weight_decay: float = MISSING
    batch_size: int = MISSING  # of one optimiser step, whatever `accumulate` is
    epochs: int = MISSING

    causal: bool = False
    mask_sigma: float | None = 0.075
    mask_lr_ratio: float = 1.0
    kernel_size: Any = "same"
    kernel_channels: int = MISSING  # the model's, unless a row says otherwise
    dropout_kind: str = "channel"
    dropout_in: float = 0.0
    accumulate: int = 1
    warmup_epochs: float = 10.0
    augment: bool = False
    size: int | None = None  # rows and columns of images; None is the task's
    embedding: int | None = None  # the number of symbols; None feeds their numbers as they are
    in_channels: int | None = None  # with an embedding, its width; None is the task's
    loss: str = "auto"
    early_stopping: int | None = None


@dataclass
class Task:
    """A task's name, and its tables: model sizes to rows, as published and as commanded."""

    name: str = MISSING
    paper: dict[str, Row] = field(default_factory=dict)
    authors: dict[str, Row] = field(default_factory=dict)
    ancestors: dict[str, Row] = field(default_factory=dict)  # networks before the CCNN, likewise


@dataclass
class Recipe:
    """Which row of the task's tables is used."""

    name: str = MISSING  # "paper" or "authors"
    column: str = MISSING  # the size whose numbers are taken


@dataclass
class Model:
    """The network: arguments of `ccnn.CCNN` or of an ancestor, under their names there.

    null is the network's own default, and what a network that has no such argument needs.
    """

    name: str = MISSING
    in_channels: int | None = None  # None is the task's
    blocks: int = MISSING
    channels: int = MISSING
    kernel: str | None = "MAGNet"
    kernel_channels: int = MISSING
    kernel_layers: int = 3
    kernel_size: int | str | None = MISSING
    omega_0: int | float | str = MISSING
    band: float = 1.0
    mask_sigma: float | None = MISSING
    causal: bool | None = MISSING
    dropout: float = MISSING
    dropout_kind: str | None = MISSING
    dropout_in: float = MISSING
    head: str = "pool"
    embedding: int | None = MISSING
    init: str = "energy"
    checkpoint: bool | None = False
    window: str | None = "cut"
    lowpass: bool | None = False


@dataclass
class Optim:
    """The optimiser, its schedule and the loss."""

    lr: float = MISSING
    weight_decay: float = MISSING
    decay: str = "decoupled"
    mask_lr_ratio: float = MISSING
    warmup_epochs: float = MISSING
    epochs: int = MISSING  # the recipe's; trainer.max_epochs shortens a run, warm-up included
    clip: float = 0.0
    label_smoothing: float = 0.0
    loss: str = MISSING
    mixup: float = 0.0  # α of the shares in which training signals are mixed
    aliasing: float = 0.0
    ema: float = 0.0
    early_stopping: int | None = MISSING


@dataclass
class Data:
    """Where the data are and how they are fed."""

    root: str = MISSING
    batch_size: int = MISSING
    accumulate: int = MISSING
    augment: bool = MISSING
    fetch: bool = False  # whether files that are not there are downloaded into root
    size: int | None = MISSING  # rows and columns of images; None is the task's
    points: int | None = None  # of a cloud; None is the task's
    limit: int | None = None
    balance: bool = False  # whether rare classes count as much as common ones
    spacings: list[float] = field(default_factory=list)  # of training batches, drawn at random
    drop: float = 0.0  # the largest share of its samples that a training signal loses
    missing: str = "mask"  # how the network is told: mask, density, observed or points


@dataclass
class Trainer:
    """What Lightning's trainer is told."""

    max_epochs: int = MISSING
    accelerator: str = MISSING
    devices: int | str = MISSING
    num_nodes: int = MISSING
    strategy: str = MISSING
    precision: str = MISSING
    progress: bool | str = MISSING
    save_minutes: float | None = 5.0
    save_steps: int | None = None


@dataclass
class Logger:
    """Who else hears of a run; metrics.csv is always written."""

    tensorboard: bool = True
    wandb: bool = False
    mlflow: bool = False


@dataclass
class Config:
    """The whole configuration."""

    task: Task = field(default_factory=Task)
    recipe: Recipe = field(default_factory=Recipe)
    numbers: Any = MISSING  # the row that task, recipe and model select
    model: Model = field(default_factory=Model)
    optim: Optim = field(default_factory=Optim)
    data: Data = field(default_factory=Data)
    trainer: Trainer = field(default_factory=Trainer)
    logger: Logger = field(default_factory=Logger)
    run: str | None = None
    resume: bool = False
    seed: int = 0
