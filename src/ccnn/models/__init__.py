"""Whole networks, by class and by name."""

import inspect
from collections.abc import Sequence
from typing import Any

from torch import nn

from ccnn.models.ccnn import CCNN
from ccnn.models.names import pick, suggest
from ccnn.models.pair import PairCCNN

CLASSES: dict[str, type[nn.Module]] = {"CCNN": CCNN, "PairCCNN": PairCCNN}

# The paper's networks. Its text says 4 × 110, its tables and its 200 k parameters 4 × 140.
MODELS: dict[str, dict[str, int]] = {
    "ccnn_4_110": {"blocks": 4, "channels": 110, "kernel_channels": 32},
    "ccnn_4_140": {"blocks": 4, "channels": 140, "kernel_channels": 32},
    "ccnn_6_380": {"blocks": 6, "channels": 380, "kernel_channels": 64},
}


def create_model(
    name: str, *, in_channels: int, out_channels: int, size: Sequence[int], **overrides: Any
) -> CCNN:
    """Build one of the paper's networks.

    Parameters
    ----------
    name
        One of `list_models`.
    in_channels, out_channels, size
        As for `CCNN`.
    overrides
        Any other argument of `CCNN`, the sizes of the named network included.
    """
    known = set(inspect.signature(CCNN).parameters)
    for key in overrides:
        if key not in known:
            raise TypeError(f"{name} has no argument {key!r}; {suggest(key, known)}")
    settings = pick(name, MODELS, "model") | overrides
    return CCNN(in_channels=in_channels, out_channels=out_channels, size=size, **settings)


def list_models() -> list[str]:
    """Return the names that `create_model` knows."""
    return sorted(MODELS)


__all__ = ["CCNN", "CLASSES", "MODELS", "PairCCNN", "create_model", "list_models"]
