"""The folder of a run: whose it is, and where it stands."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ccnn.training.checkpoints import newest_checkpoint, remove_leftovers
from ccnn.training.settings import changed_key

_TRACES = ("config.yaml", "metrics.csv", "result.json", "checkpoints")


def open_folder(folder: Path, *, resume: bool, main: bool) -> None:
    """Make the folder of a new run, or refuse one that is taken.

    Parameters
    ----------
    folder
        Where the run is kept.
    resume
        Whether a run that is there shall go on.
    main
        Whether this process writes; the others only read.
    """
    if not main:
        return
    found = [name for name in _TRACES if (folder / name).exists()]
    if found and not resume:
        raise FileExistsError(
            f"{folder} already holds a run ({found[0]} is there); go on with it by resume=true, "
            "or name another folder by run="
        )
    folder.mkdir(parents=True, exist_ok=True)
    remove_leftovers(folder)
    remove_leftovers(folder / "checkpoints")


def read_state(
    folder: Path, settings: Mapping[str, Any], say: Callable[[str], None]
) -> dict[str, Any] | None:
    """Return the newest whole checkpoint, None where the run starts from the beginning.

    Raises
    ------
    ValueError
        If the run was started with another recipe.
    """
    state = newest_checkpoint(folder / "checkpoints", say)
    if state is None:
        return None
    key = changed_key(state["settings"], settings)
    if key is not None:
        raise ValueError(
            f"{folder} holds a run with {key}={_value(state['settings'], key)}, and now it is "
            f"{_value(settings, key)}; resume=true goes on with the same recipe only"
        )
    return state


def as_json(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as JSON gives them back, so that both can be compared."""
    plain: dict[str, Any] = json.loads(json.dumps(settings))
    return plain


def _value(settings: Mapping[str, Any], key: str) -> object:
    value: Any = settings
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
