"""Put a configuration together from the YAML files and the words after ``ccnn train``."""

import difflib
import re
from collections.abc import Sequence
from importlib import resources

from hydra import compose as hydra_compose
from hydra import initialize_config_module
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ccnn.conf.checks import check, nearest
from ccnn.conf.schema import Config

# For hydra.main: found in a checkout and in an installed wheel alike.
CONFIG_PATH = "pkg://ccnn.conf"
GROUPS = ("task", "model", "recipe", "trainer")


class ConfigError(ValueError):
    """A configuration that cannot be: an unknown name or key, or a value of another kind."""


def register() -> None:
    """Tell Hydra the schema; once is enough, and more do no harm. Call it before hydra.main."""
    ConfigStore.instance().store(name="schema", node=Config, provider="ccnn")


def compose(overrides: Sequence[str] = ()) -> DictConfig:
    """Return the configuration that ``ccnn train`` would use, resolved and checked.

    Parameters
    ----------
    overrides
        What follows ``ccnn train``: ``["task=smnist", "optim.lr=0.5"]``.

    Raises
    ------
    ConfigError
        One line that says what is wrong and what was probably meant.
    """
    register()
    if GlobalHydra.instance().is_initialized():  # inside a running hydra.main
        raise RuntimeError("compose() makes a configuration of its own; Hydra already runs here")
    try:
        with initialize_config_module("ccnn.conf", version_base="1.3"):
            config = hydra_compose("config", overrides=list(overrides))
        return resolve(config)
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(explain(error)) from error


def resolve(config: DictConfig) -> DictConfig:
    """Return a plain copy: checked, nothing left to look up, and only the task's name of its table.

    Parameters
    ----------
    config
        What `hydra.main` hands over, or a configuration that was resolved before.
    """
    try:
        content = OmegaConf.to_container(config, resolve=True, throw_on_missing=False)
    except OmegaConfBaseException as error:
        raise ConfigError(explain(error)) from error
    assert isinstance(content, dict)
    content.pop("numbers", None)  # it has been read, and the whole table is in the library
    content["task"] = {"name": content["task"]["name"]}
    resolved = OmegaConf.create(content)
    if resolved.task.name not in options("task"):
        name = resolved.task.name
        raise ConfigError(f"unknown task {name!r}; {nearest(name, options('task'))}")
    unknown = sorted(set(flat_keys(resolved)) - {*known_keys(), "task.name"})
    if unknown:  # "+key=value" makes Hydra open the schema
        raise ConfigError(unknown_key(unknown[0]))
    missing = sorted(OmegaConf.missing_keys(resolved))
    if missing:
        raise ConfigError(f"{', '.join(missing)}: no value given")
    try:
        check(resolved)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    OmegaConf.set_struct(resolved, True)
    return resolved


def options(group: str) -> list[str]:
    """Return what can be chosen in a group: ``options("task")``."""
    folder = resources.files("ccnn.conf") / group
    names = [path.name for path in folder.iterdir()]
    return sorted(n.removesuffix(".yaml") for n in names if n.endswith(".yaml"))


def explain(error: Exception) -> str:
    """Say in one line what Hydra or OmegaConf says in several."""
    if isinstance(error, OverrideParseException):
        return f"cannot read {error.override!r}; expected key=value, as in optim.lr=0.01"
    texts = []
    cause: BaseException | None = error
    while cause is not None:
        texts.append(str(cause))
        cause = cause.__cause__
    text = "\n".join(texts)
    if found := re.search(r"(?:Could not find|In '[^']*': Could not find) '(\w+)/([^']*)'", text):
        group, name = found.groups()
        return f"unknown {group} {name!r}; {nearest(name, options(group))}"
    key = re.search(r"full_key: (\S+)", text)
    if key and re.search(r"is not in struct|not in '", text):
        return unknown_key(key[1])
    first = texts[-1].splitlines()[0].rstrip(".")
    return f"{key[1]}: {first}" if key else first


def unknown_key(key: str) -> str:
    """Say what was probably meant by a key, or what its section holds."""
    known = [*known_keys(), *GROUPS]
    section = key.rpartition(".")[0]
    close = difflib.get_close_matches(key, known, n=1)
    beside = [k for k in known if k.rpartition(".")[0] == section] or list(GROUPS)
    return f"unknown key {key!r}; {nearest(key, close or beside)}"


def known_keys() -> list[str]:
    """Return every key that a user may set."""
    schema = OmegaConf.structured(Config)
    return [k for k in flat_keys(schema) if k.partition(".")[0] not in ("task", "numbers")]


def flat_keys(config: DictConfig) -> list[str]:
    """Return the keys of all values, sections joined by dots."""
    content = OmegaConf.to_container(config)
    assert isinstance(content, dict)
    keys = []
    for key, value in content.items():
        keys += [f"{key!s}.{inner!s}" for inner in value] if isinstance(value, dict) else [str(key)]
    return keys
