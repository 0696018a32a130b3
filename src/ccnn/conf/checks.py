"""Values that have the right type and still make no sense, refused by name."""

import difflib
from collections.abc import Callable, Sequence

from omegaconf import DictConfig, OmegaConf

CHOICES: dict[str, Sequence[object]] = {
    "model.dropout_kind": ("channel", "element"),
    "model.head": ("pool", "last", "none"),
    "model.init": ("energy", "authors", "none"),
    "optim.decay": ("decoupled", "authors"),
    "optim.loss": ("auto", "cross_entropy", "single_logit", "mse"),
    "trainer.progress": (True, False, "auto"),
}
WORDS_OR_NUMBERS: dict[str, Sequence[str]] = {
    "model.omega_0": ("auto",),
    "model.kernel_size": ("same", "full"),
}
_Range = tuple[Callable[[float], bool], str]
POSITIVE: _Range = (lambda v: v > 0, "above 0")
NOT_NEGATIVE: _Range = (lambda v: v >= 0, "0 or more")
RATE: _Range = (lambda v: 0 <= v < 1, "from 0 up to, but not, 1")
RANGES: dict[str, _Range] = {
    "model.omega_0": POSITIVE,
    "model.mask_sigma": POSITIVE,
    "model.band": POSITIVE,
    "model.dropout": RATE,
    "model.dropout_in": RATE,
    "optim.lr": POSITIVE,
    "optim.weight_decay": NOT_NEGATIVE,
    "optim.mask_lr_ratio": NOT_NEGATIVE,
    "optim.warmup_epochs": NOT_NEGATIVE,
    "optim.epochs": POSITIVE,
    "optim.clip": NOT_NEGATIVE,
    "optim.label_smoothing": RATE,
    "optim.aliasing": NOT_NEGATIVE,
    "optim.ema": RATE,
    "optim.early_stopping": POSITIVE,
    "data.batch_size": POSITIVE,
    "data.accumulate": POSITIVE,
    "data.workers": NOT_NEGATIVE,
    "data.limit": POSITIVE,
    "trainer.max_epochs": POSITIVE,
    "trainer.num_nodes": POSITIVE,
    "seed": NOT_NEGATIVE,
}


def check(config: DictConfig) -> None:
    """Raise a ValueError of one line for the first value that makes no sense."""
    for key, choices in CHOICES.items():
        value = OmegaConf.select(config, key)
        if value not in choices:
            raise ValueError(f"{key} is {value!r}; {nearest(value, choices)}")
    for key, words in WORDS_OR_NUMBERS.items():
        value = OmegaConf.select(config, key)
        if isinstance(value, str) and value not in words:
            raise ValueError(f"{key} is {value!r}; expected a number or {' or '.join(words)}")
    for key, (inside, meaning) in RANGES.items():
        value = OmegaConf.select(config, key)
        if isinstance(value, int | float) and not inside(value):
            raise ValueError(f"{key} is {value}; expected a number {meaning}")
    batch, pieces = config.data.batch_size, config.data.accumulate
    if batch % pieces:
        raise ValueError(
            f"data.batch_size is {batch} and data.accumulate {pieces}; "
            "expected the second to divide the first"
        )


def nearest(name: object, known: Sequence[object]) -> str:
    """Return "did you mean …?" for a near miss, else the whole list."""
    names = [str(k) for k in known]
    close = difflib.get_close_matches(str(name), names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(sorted(names))}"
