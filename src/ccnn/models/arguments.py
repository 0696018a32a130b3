"""What the constructors of all networks check, before anything is built."""

from collections.abc import Mapping
from typing import Literal

from ccnn.nn.dropout import DROPOUT_KINDS
from ccnn.nn.masks import WINDOWS

Head = Literal["pool", "last", "none"]
HEADS = ("pool", "last", "none")

_COUNTS = ("in_channels", "out_channels", "blocks", "channels", "kernel_channels", "kernel_layers")
_RATES = ("dropout", "dropout_in")
_CHOICES: dict[str, tuple[object, ...]] = {
    "head": HEADS,
    "dropout_kind": DROPOUT_KINDS,
    "window": WINDOWS,
    "lowpass": (False, True),
}


def check_arguments(arguments: Mapping[str, object], dim: int) -> None:
    """Refuse counts, rates and names that make no sense for a signal with D axes.

    Only what ``arguments`` holds is looked at: not every network has all of them.
    """
    embedding = arguments.get("embedding")
    counts = {name: arguments[name] for name in _COUNTS if name in arguments}
    for name, value in (counts | ({} if embedding is None else {"embedding": embedding})).items():
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} must be a positive integer, got {value!r}")
    for name in _RATES:
        value = arguments.get(name, 0.0)
        if not isinstance(value, int | float) or not 0 <= value < 1:
            raise ValueError(f"{name} must be a rate in [0, 1), got {value!r}")
    for name, choices in _CHOICES.items():
        if name in arguments and arguments[name] not in choices:
            known = ", ".join(map(str, choices))
            raise ValueError(f"{name} is {arguments[name]!r}; expected one of {known}")
    if arguments.get("head") == "last" and dim != 1:
        raise ValueError(f'head="last" needs one axis (D = 1), but size has {dim}')
