"""A fitted estimator as a folder, and back bit for bit: safetensors and JSON, never a pickle.

    estimator.json          its class, its parameters, what it learned beside its networks
    network-0123456789ab/   a network as `ccnn.save` writes it; several in an ensemble

A network gets a folder with a new name each time, so that replacing estimator.json is the commit:
before it the old estimator is whole, after it the new one.
"""

import contextlib
import hashlib
import importlib.metadata
import json
import os
import re
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import nn

from ccnn import saving
from ccnn.estimator.encoding import Networks, Undecodable, decode, encode
from ccnn.training.checkpoints import write_file

FORMAT = 1
FILE = "estimator.json"

_KEYS = {
    "format": int,
    "ccnn": str,
    "estimator": str,
    "parameters": dict,
    "attributes": dict,
    "networks": list,
    "sha256": str,
}
_NETWORK = re.compile(r"network-[0-9a-f]{12}")

E = TypeVar("E", bound=BaseEstimator)


def save(estimator: BaseEstimator, folder: str | os.PathLike[str]) -> Path:
    """Write a fitted estimator into a folder, which `load` reads; one that is there is replaced.

    Parameters
    ----------
    estimator
        Fitted. Its parameters and classes must be what JSON can hold: booleans, numbers, texts,
        and lists, tuples, dicts and arrays of them.
    folder
        Made if it does not exist. If saving fails or is interrupted, an estimator that was in it
        stays as it was.

    Returns
    -------
    The folder.
    """
    check_is_fitted(estimator)
    folder = Path(folder)
    networks: Networks = []
    state = _state(estimator, networks)
    folder.mkdir(parents=True, exist_ok=True)
    before = {path for path in folder.iterdir() if _NETWORK.fullmatch(path.name)}
    names = [f"network-{secrets.token_hex(6)}" for _ in networks]
    try:
        state["networks"] = [
            {"folder": name, "sha256": _save_network(network, folder / name)}
            for name, network in zip(names, networks, strict=True)
        ]
        content = json.dumps(state | {"sha256": _digest(state)}, indent=2, allow_nan=False) + "\n"
        write_file(folder / FILE, content.encode())
    finally:
        # An interrupt may arrive on either side of the commit: only the file tells on which.
        new = {folder / name for name in names}
        _remove(before if _in_force(folder) == new else new)
    return folder


def load(folder: str | os.PathLike[str], kind: type[E]) -> E:
    """Return the estimator that `save` wrote: the same parameters, and predictions to the bit.

    Nothing in the folder is executed.

    Parameters
    ----------
    folder
        What `save` was given.
    kind
        The estimator's class.

    Raises
    ------
    FileNotFoundError
        If the folder or one of its files is missing.
    ValueError
        If a file is damaged, altered, written by a newer ccnn, or holds another estimator.
    """
    path = Path(folder) / FILE
    state = _read(path)
    if state["estimator"] != kind.__name__:
        raise ValueError(
            f"{path} holds a {state['estimator']}, not a {kind.__name__}: "
            f"load it with {state['estimator']}.load"
        )
    networks = [_load_network(path, entry) for entry in state["networks"]]
    try:
        parameters = {k: decode(v, networks) for k, v in state["parameters"].items()}
        attributes = {k: decode(v, networks) for k, v in state["attributes"].items()}
        estimator: E = kind(**parameters)
    except (Undecodable, TypeError) as error:
        raise ValueError(
            f"{path} does not describe a {kind.__name__} of this version of ccnn ({error}): it was "
            f"altered, or use the version that wrote it ({state['ccnn']})"
        ) from error
    vars(estimator).update(attributes)
    return estimator


# What is written


def _state(estimator: BaseEstimator, networks: Networks) -> dict[str, Any]:
    parameters = estimator.get_params(deep=False)
    attributes = {k: v for k, v in vars(estimator).items() if k not in parameters}
    return {
        "format": FORMAT,
        "ccnn": _version(),
        "estimator": type(estimator).__name__,
        "parameters": _encode_all(parameters, networks),
        "attributes": _encode_all(attributes, networks),
    }


def _encode_all(values: Mapping[str, object], networks: Networks) -> dict[str, Any]:
    result = {}
    for name, value in values.items():
        try:
            result[name] = encode(value, networks)
        except TypeError as error:
            raise TypeError(f"cannot save {name}: {error}") from error
    return result


def _save_network(network: nn.Module, folder: Path) -> str:
    """Save a network and return the checksum of its weights."""
    saving.save(network, folder)
    digest: str = json.loads((folder / saving.CONFIG).read_bytes())["sha256"]
    return digest


def _version() -> str:
    try:
        return importlib.metadata.version("ccnn")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _digest(state: Mapping[str, Any]) -> str:
    """Return a checksum of everything but the checksum, whatever the layout of the file."""
    text = json.dumps({k: v for k, v in state.items() if k != "sha256"}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _in_force(folder: Path) -> set[Path]:
    """Return the folders of the networks that the file names now."""
    try:
        return {folder / entry["folder"] for entry in _read(folder / FILE)["networks"]}
    except (OSError, ValueError):
        return set()


def _remove(folders: set[Path]) -> None:
    for folder in folders:
        # What cannot be removed does no harm.
        with contextlib.suppress(OSError):
            shutil.rmtree(folder)


# How it is read


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"there is no {path}: give the folder that save was given")
    try:
        state = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON ({error}): it is damaged; copy it again") from error
    if not isinstance(state, dict):
        raise ValueError(f"{path} holds no JSON object: it is damaged; copy it again")
    version = state.get("format")
    if isinstance(version, int) and version > FORMAT:
        raise ValueError(
            f"{path} was written by ccnn {state.get('ccnn', 'unknown')} with format {version}, "
            f"this version reads up to {FORMAT}: upgrade ccnn"
        )
    lacking = [key for key, type_ in _KEYS.items() if not isinstance(state.get(key), type_)]
    if lacking:
        raise ValueError(
            f"{path} lacks {', '.join(lacking)}: it is damaged, or not a file of an estimator's "
            "save; copy it again"
        )
    if state["sha256"] != _digest(state):
        raise ValueError(f"{path} was altered (its checksum differs): copy it again")
    return state


def _load_network(path: Path, entry: Any) -> nn.Module:
    name = entry.get("folder") if isinstance(entry, dict) else None
    # One strict pattern, because a path may leave the folder in more ways than one can list.
    if not isinstance(name, str) or not _NETWORK.fullmatch(name):
        raise ValueError(
            f"{path} names the network {name!r}, while save writes network-<12 hex digits> beside "
            "it: do not trust this folder unless you know who changed it, and copy it again"
        )
    folder = path.parent / name
    network = saving.load(folder)
    found = json.loads((folder / saving.CONFIG).read_bytes())["sha256"]
    if found != entry.get("sha256"):
        raise ValueError(
            f"{folder} holds another network than the one that {FILE} was saved with: restore "
            "both from one save"
        )
    return network
