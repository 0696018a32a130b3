"""Whole networks, by class and by name."""

import inspect
from collections.abc import Sequence
from typing import Any

from torch import nn

from ccnn.models.ccnn import CCNN
from ccnn.models.ckcnn import CKCNN
from ccnn.models.ckconv import load_ckconv
from ccnn.models.flexnet import FlexNet
from ccnn.models.flextcn import FlexTCN
from ccnn.models.names import pick, suggest
from ccnn.models.pair import PairCCNN

CLASSES: dict[str, type[nn.Module]] = {
    "CCNN": CCNN,
    "CKCNN": CKCNN,
    "FlexNet": FlexNet,
    "FlexTCN": FlexTCN,
    "PairCCNN": PairCCNN,
}

# The paper's networks. Its text says 4 × 110, its tables and its 200 k parameters 4 × 140.
MODELS: dict[str, dict[str, int]] = {
    "ccnn_4_110": {"blocks": 4, "channels": 110, "kernel_channels": 32},
    "ccnn_4_140": {"blocks": 4, "channels": 140, "kernel_channels": 32},
    "ccnn_6_380": {"blocks": 6, "channels": 380, "kernel_channels": 64},
}

# Those before it, with the sizes of their own papers.
Ancestor = CKCNN | FlexTCN | FlexNet
ANCESTORS: dict[str, tuple[type[Ancestor], dict[str, int]]] = {
    "ckcnn": (CKCNN, {"blocks": 2, "channels": 30, "kernel_channels": 32}),
    "flextcn_6": (FlexTCN, {"blocks": 6, "channels": 30, "kernel_channels": 32}),
    "flexnet": (FlexNet, {"blocks": 7, "channels": 24, "kernel_channels": 32}),
}


def create_model(
    name: str, *, in_channels: int, out_channels: int, size: Sequence[int], **overrides: Any
) -> CCNN | Ancestor:
    """Build one of the paper's networks, or one of those before it.

    Parameters
    ----------
    name
        One of `list_models`.
    in_channels, out_channels, size
        As for `CCNN`.
    overrides
        Any other argument of the network's class, the sizes of the named network included:
        `CCNN`, or `CKCNN`, `FlexTCN`, `FlexNet`.
    """
    known = {key: (CCNN, sizes) for key, sizes in MODELS.items()} | ANCESTORS
    kind, sizes = pick(name, known, "model")
    arguments = set(inspect.signature(kind).parameters)
    for key in overrides:
        if key not in arguments:
            raise TypeError(f"{name} has no argument {key!r}; {suggest(key, arguments)}")
    settings = sizes | overrides
    return kind(in_channels=in_channels, out_channels=out_channels, size=size, **settings)


def list_models() -> list[str]:
    """Return the names that `create_model` knows."""
    return sorted(MODELS | ANCESTORS)


__all__ = [
    "ANCESTORS",
    "CCNN",
    "CKCNN",
    "CLASSES",
    "MODELS",
    "FlexNet",
    "FlexTCN",
    "PairCCNN",
    "create_model",
    "list_models",
    "load_ckconv",
]
