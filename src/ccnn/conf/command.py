"""From a configuration back to the words that give it."""

import json
import shlex
import time
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from ccnn.conf.loading import compose

# What an override of ``ccnn train`` need not repeat: it says where and how, not what.
_NOT_REPEATED = ("run", "resume")


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


def plain(config: DictConfig) -> dict[str, Any]:
    """Return a configuration, or a section of it, as a dict."""
    content: Any = OmegaConf.to_container(config, resolve=True)
    return dict(content)


def _leaves(config: DictConfig) -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for key, value in plain(config).items():
        inner = value if isinstance(value, dict) else {"": value}
        leaves |= {f"{key}.{k}".rstrip("."): v for k, v in inner.items()}
    return leaves


def _word(value: object) -> str:
    """Return a value as Hydra reads it."""
    return json.dumps(value) if isinstance(value, bool | list) or value is None else str(value)
