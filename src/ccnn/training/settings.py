"""What one says about a training run: plain numbers, checked when given."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Decay = Literal["decoupled", "authors"]
DECAYS = ("decoupled", "authors")
LOSS_NAMES = (
    "auto",
    "cross_entropy",
    "single_logit",
    "mse",
    "position_cross_entropy",
    "position_mse",
)
PROGRESS = ("auto", "rich", "plain", "none")
Missing = Literal["mask", "density", "observed", "points"]
MISSING = ("mask", "density", "observed", "points")


@dataclass(frozen=True, kw_only=True)
class Optim:
    """What is minimised, and how.

    Parameters
    ----------
    lr, warmup_epochs, epochs
        Linear warm-up to ``lr``, then a cosine to zero, both per step. ``epochs`` is the
        recipe's; a run of another length keeps the shape of the schedule.
    weight_decay, decay
        ``"decoupled"``: AdamW's decay of the weights (not of biases, norms, windows and kernel
        networks). ``"authors"``: the reference implementation's penalty in the loss instead.
    mask_lr_ratio
        The windows' learning rate is lr · mask_lr_ratio.
    clip
        Largest norm of the gradient; 0 is off.
    label_smoothing, loss
        ``"auto"`` looks at the targets: classes are cross-entropy, numbers squared error.
    mixup
        α of the Beta distribution of the shares in which training signals are mixed; 0 is off.
    aliasing
        λ of FlexConv's anti-aliasing penalty; 0 is off.
    ema
        Decay of the exponential average of the weights; 0 is off.
    early_stopping
        Stop after this many epochs without a better validation score; None is off.
    """

    lr: float = 0.01
    weight_decay: float = 0.0
    mask_lr_ratio: float = 1.0
    warmup_epochs: float = 10
    epochs: int = 210
    decay: Decay = "decoupled"
    clip: float = 0.0
    label_smoothing: float = 0.0
    loss: str = "auto"
    mixup: float = 0.0
    aliasing: float = 0.0
    ema: float = 0.0
    early_stopping: int | None = None

    def __post_init__(self) -> None:
        _check_range("optim.lr", self.lr, 0, 1e6, open_low=True)
        for name in ("weight_decay", "mask_lr_ratio", "warmup_epochs", "clip", "mixup", "aliasing"):
            _check_range(f"optim.{name}", self.__dict__[name], 0, 1e9)
        _check_whole("optim.epochs", self.epochs)
        _check_choice("optim.decay", self.decay, DECAYS)
        _check_choice("optim.loss", self.loss, LOSS_NAMES)
        _check_range("optim.label_smoothing", self.label_smoothing, 0, 1)
        _check_range("optim.ema", self.ema, 0, 1, open_high=True)
        if self.early_stopping is not None:
            _check_whole("optim.early_stopping", self.early_stopping)
        if self.warmup_epochs > self.epochs:
            raise ValueError(
                f"optim.warmup_epochs is {self.warmup_epochs}, more than the "
                f"{self.epochs} of optim.epochs"
            )


@dataclass(frozen=True, kw_only=True)
class Batching:
    """How samples become batches.

    Parameters
    ----------
    batch_size
        Samples per optimiser step and process.
    accumulate
        In how many parts of equal size a batch is computed, one after the other.
    spacings
        Each training batch is thinned out to one of these spacings, drawn at random, and the
        network is told: `ccnn.Grid(spacing=…)`. Empty leaves signals as they are.
    drop
        The largest share of its samples that a training signal loses at random; how many it
        loses is drawn for each signal, between none and this.
    missing
        How the network is told which samples are missing: ``"mask"`` (a grid with holes),
        ``"density"`` (the same, each sample counting for the space it stands for),
        ``"observed"`` (zeros, and one more channel that says what was observed: the paper's way,
        for a network with one more input channel) or ``"points"`` (`ccnn.Points` at what is left).
    """

    batch_size: int = 50
    accumulate: int = 1
    spacings: tuple[float, ...] = ()
    drop: float = 0.0
    missing: Missing = "mask"

    def __post_init__(self) -> None:
        _check_whole("data.batch_size", self.batch_size)
        _check_whole("data.accumulate", self.accumulate)
        if self.batch_size % self.accumulate:
            raise ValueError(
                f"data.batch_size is {self.batch_size}, which data.accumulate={self.accumulate} "
                "does not divide; the parts of a batch have equal sizes"
            )
        object.__setattr__(self, "spacings", tuple(self.spacings))  # a config's is a list
        for spacing in self.spacings:
            _check_range("data.spacings", spacing, 0, 1e9, open_low=True)
        _check_range("data.drop", self.drop, 0, 1, open_high=True)
        _check_choice("data.missing", self.missing, MISSING)


@dataclass(frozen=True, kw_only=True)
class Machine:
    """On what a run happens, and how it shows itself; none of it changes the recipe.

    Parameters
    ----------
    max_epochs
        How long to train; None is the recipe's ``optim.epochs``.
    accelerator, devices, num_nodes, strategy, precision
        As for Lightning's Trainer.
    progress
        ``"auto"`` (a bar on a terminal, else one line per epoch), ``"rich"``, ``"plain"`` or
        ``"none"``.
    save_minutes, save_steps
        How often a checkpoint is written inside an epoch; None is never. One is always written
        at the end of an epoch.
    """

    max_epochs: int | None = None
    accelerator: str = "auto"
    devices: int | str | list[int] = 1
    num_nodes: int = 1
    strategy: str = "auto"
    precision: str = "32-true"
    progress: str = "auto"
    save_minutes: float | None = 5.0
    save_steps: int | None = None

    def __post_init__(self) -> None:
        if self.max_epochs is not None:
            _check_whole("trainer.max_epochs", self.max_epochs)
        if self.save_steps is not None:
            _check_whole("trainer.save_steps", self.save_steps)
        _check_choice("trainer.progress", self.progress, PROGRESS)


@dataclass(frozen=True, kw_only=True)
class Loggers:
    """Where curves go besides ``metrics.csv``, which is always written."""

    tensorboard: bool = True
    wandb: bool = False
    mlflow: bool = False


def changed_key(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Return the first dotted key whose value differs between two nested mappings."""
    for key in sorted(before.keys() | now.keys()):
        old, new = before.get(key), now.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            inner = changed_key(old, new)
            if inner is not None:
                return f"{key}.{inner}"
        elif old != new:
            return key
    return None


def as_plain(settings: Any) -> dict[str, Any]:
    """Return a dataclass of settings as a dict ready for JSON."""
    return dataclasses.asdict(settings)


def _check_whole(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")


def _check_choice(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name} is {value!r}; expected one of {', '.join(known)}")


def _check_range(
    name: str,
    value: float,
    low: float,
    high: float,
    *,
    open_low: bool = False,
    open_high: bool = False,
) -> None:
    inside = (low < value if open_low else low <= value) and (
        value < high if open_high else value <= high
    )
    if not inside:
        raise ValueError(f"{name} is {value}; expected a number between {low:g} and {high:g}")
