"""Values of network and data that have the right type and still make no sense, refused by name.

What optimiser, batches and trainer accept, `ccnn.training.settings` knows and says.
"""

import difflib
from collections.abc import Callable, Sequence

from omegaconf import DictConfig, OmegaConf

CHOICES: dict[str, Sequence[object]] = {
    "model.dropout_kind": ("channel", "element"),
    "model.head": ("pool", "last", "none"),
    "model.init": ("energy", "authors", "none"),
    "model.window": ("cut", "smooth"),
    "recipe.name": ("paper", "authors"),
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
    "seed": NOT_NEGATIVE,
    "data.size": POSITIVE,
}


def check(config: DictConfig) -> None:
    """Raise a ValueError of one line for the first value that makes no sense."""
    for key, choices in CHOICES.items():
        value = OmegaConf.select(config, key)
        if value is not None and value not in choices:  # null is the network's own default
            raise ValueError(f"{key} is {value!r}; {nearest(value, choices)}")
    for key, words in WORDS_OR_NUMBERS.items():
        value = OmegaConf.select(config, key)
        if isinstance(value, str) and value not in words:
            raise ValueError(f"{key} is {value!r}; expected a number or {' or '.join(words)}")
    for key, (inside, meaning) in RANGES.items():
        value = OmegaConf.select(config, key)
        if isinstance(value, int | float) and not inside(value):
            raise ValueError(f"{key} is {value}; expected a number {meaning}")


def nearest(name: object, known: Sequence[object]) -> str:
    """Return "did you mean …?" for a near miss, else the whole list."""
    names = [str(k) for k in known]
    close = difflib.get_close_matches(str(name), names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(sorted(names))}"
