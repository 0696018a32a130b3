"""Save a model as a folder and load it back bit for bit: safetensors and JSON, never a pickle.

    config.json                         what to build, and which weights belong to it
    weights-0123456789ab.safetensors    the tensors, named after the start of their SHA-256

Since weights are named after their content, those of a new model never overwrite those of the old
one, and replacing config.json is the commit: before it the old model is whole, after it the new
one. A crash, a full disk or an interrupt can therefore cost the new model, never the old.
"""

import contextlib
import difflib
import hashlib
import importlib.metadata
import json
import os
import re
import secrets
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from ccnn.models import CLASSES

FORMAT = 1
CONFIG = "config.json"

_KEYS = {
    "format": int,
    "ccnn": str,
    "model": str,
    "arguments": dict,
    "weights": str,
    "sha256": str,
    "dtype": str,
}
_DTYPES = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
}
_WEIGHTS = re.compile(r"weights-[0-9a-f]{12}\.safetensors")
_LEFTOVER_AGE = 3600.0  # seconds; a younger file may belong to a process that is saving right now


def save(model: nn.Module, folder: str | os.PathLike[str]) -> Path:
    """Write a model into a folder, which `load` reads; a model that is already there is replaced.

    Parameters
    ----------
    model
        A model of ccnn, of any floating dtype and on any device. One that was changed so that its
        constructor's arguments no longer describe it is refused: it could not be loaded again.
    folder
        Made if it does not exist. If saving fails or is interrupted, a model that was in it stays
        as it was. Processes that save at the same time need a folder each.

    Returns
    -------
    The folder.
    """
    folder = Path(folder)
    name = _class_name(model)
    tensors = _tensors(model)
    arguments = _arguments(model)
    _refuse_unloadable(name, arguments, tensors)
    content = safetensors.torch.save(tensors)
    digest = hashlib.sha256(content).hexdigest()
    config = {
        "format": FORMAT,
        "ccnn": _version(),
        "model": name,
        "arguments": arguments,
        "weights": f"weights-{digest[:12]}.safetensors",
        "sha256": digest,
        "dtype": _dtype_name(model),
    }
    folder.mkdir(parents=True, exist_ok=True)
    _commit(folder, config, content)
    return folder


def load(folder: str | os.PathLike[str], *, device: str | torch.device = "cpu") -> nn.Module:
    """Rebuild the model that `save` wrote: the same class, dtype and bits, and so the same results.

    Nothing in the folder is executed, and the state of torch's random generators is left as it is.

    Parameters
    ----------
    folder
        What `save` was given.
    device
        Where the model shall live.

    Returns
    -------
    The model in eval mode, ready to predict; call `.train()` to go on training it.

    Raises
    ------
    FileNotFoundError
        If the folder or one of its two files is missing.
    ValueError
        If a file is damaged, altered, written by a newer ccnn, or does not fit the other.
    """
    folder = Path(folder)
    config = _read_config(folder)
    tensors = _read_weights(folder / config["weights"], sha256=config["sha256"])
    model = _build(config["model"], config["arguments"], source=str(folder / CONFIG))
    model.to(_DTYPES[config["dtype"]])
    misfits = _misfits(model, tensors)
    if misfits:
        raise ValueError(
            f"{folder / config['weights']} does not fit the model that {CONFIG} describes "
            f"({'; '.join(misfits)}): the files are of two models, or of another version of ccnn "
            f"(they say {config['ccnn']}); restore both from one save"
        )
    _fill(model, tensors)
    return model.to(device).eval()


# What is written


def _class_name(model: nn.Module) -> str:
    for name, cls in CLASSES.items():
        if type(model) is cls:  # a subclass may do anything else, and would come back as its parent
            return name
    raise TypeError(
        f"cannot save a {type(model).__name__}: accepted are {', '.join(sorted(CLASSES))}, the "
        "model itself rather than a wrapper, a subclass or a network that contains it"
    )


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    """Copy the state dict to the CPU.

    Each tensor gets memory of its own, since safetensors refuses shared and strided ones.
    """
    state = model.state_dict()
    others = [name for name, value in state.items() if not isinstance(value, Tensor)]
    if others:
        raise TypeError(f"cannot save {_few(others)}: a state dict of tensors only is accepted")
    return {
        name: value.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, value in state.items()
    }


def _arguments(model: nn.Module) -> dict[str, Any]:
    """Return the constructor's arguments as they will be read back."""
    try:
        arguments: dict[str, Any] = json.loads(json.dumps(model.arguments, default=_plain))
    except (TypeError, ValueError) as error:
        name = type(model).__name__
        raise TypeError(f"cannot save the arguments of this {name} as JSON: {error}") from error
    return arguments


def _plain(value: object) -> object:
    """Turn numbers of numpy and torch, as in ``omega_0=np.float32(30)``, into Python's."""
    if isinstance(value, np.generic | np.ndarray | Tensor):
        return value.tolist()
    raise TypeError(f"{value!r} is neither a number, a text, a list nor a dict")


def _dtype_name(model: nn.Module) -> str:
    """Name the dtype of the first parameter, which buffers outside the state dict will be given."""
    dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
    name = str(dtype).removeprefix("torch.")
    if name not in _DTYPES:
        raise TypeError(f"cannot save a model of dtype {name}: accepted are {', '.join(_DTYPES)}")
    return name


def _version() -> str:
    try:
        return importlib.metadata.version("ccnn")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _refuse_unloadable(
    name: str, arguments: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> None:
    misfits = _misfits(_build(name, arguments, source=f"this {name}"), tensors)
    if misfits:
        raise ValueError(
            f"cannot save this {name}: it is no longer what {name}(**model.arguments) builds, so "
            f"it could not be loaded again ({'; '.join(misfits)}); build it with the arguments it "
            "needs, or save its state_dict()"
        )


# How it is written


def _commit(folder: Path, config: Mapping[str, Any], content: bytes) -> None:
    """Write the weights, then config.json, then remove the weights of the model not in force."""
    weights = folder / config["weights"]
    before = set(folder.glob("weights-*.safetensors"))
    try:
        _write(weights, content)
        _write(folder / CONFIG, (json.dumps(config, indent=2) + "\n").encode())
    finally:
        # An interrupt may arrive on either side of the commit: only the file tells on which.
        committed = _weights_in_force(folder) == weights.name
        _remove(before - {weights} if committed else {weights} - before)
    _remove(path for path in folder.glob(".*.tmp") if _is_leftover(path))


def _write(path: Path, content: bytes) -> None:
    """Replace a file so that at every moment its old or its new content is there, whole."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        _remove([temporary])
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Ask that renames reach the disk in their order; not every file system can."""
    if os.name != "posix":
        return
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _weights_in_force(folder: Path) -> str | None:
    try:
        name: str = _read_config(folder)["weights"]
    except (OSError, ValueError):
        return None
    return name


def _is_leftover(path: Path) -> bool:
    """Tell a temporary file of ours that a killed process left behind."""
    ours = path.name.startswith((".weights-", f".{CONFIG}."))
    with contextlib.suppress(OSError):
        return ours and time.time() - path.stat().st_mtime > _LEFTOVER_AGE
    return False


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        # What cannot be removed does no harm, and the next save tries again.
        with contextlib.suppress(OSError):
            path.unlink()


# How it is read


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    config = _read_json(path)
    if not isinstance(config, dict):
        raise ValueError(f"{path} holds no JSON object: it is damaged; copy it again")
    version = config.get("format")
    if isinstance(version, int) and version > FORMAT:
        raise ValueError(
            f"{path} was written by ccnn {config.get('ccnn', 'unknown')} with format {version}, "
            f"this version reads up to {FORMAT}: upgrade ccnn"
        )
    wrong = [
        f"{key} ({kind.__name__})"
        for key, kind in _KEYS.items()
        if not isinstance(config.get(key), kind)
    ]
    if wrong:
        raise ValueError(
            f"{path} lacks {_few(wrong)}: it is damaged, or not a file of ccnn.save; copy it again"
        )
    _refuse_wrong_values(path, config)
    return config


def _read_json(path: Path) -> object:
    if not path.parent.exists():
        raise FileNotFoundError(f"there is no {path.parent}: give the folder that ccnn.save wrote")
    if not path.parent.is_dir():
        raise ValueError(f"{path.parent} is a file: give the folder that ccnn.save wrote")
    if not path.exists():
        raise FileNotFoundError(
            f"there is no {path}: give the folder that ccnn.save wrote, or copy it again completely"
        )
    try:
        content: object = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON ({error}): it is damaged; copy it again") from error
    return content


def _refuse_wrong_values(path: Path, config: Mapping[str, Any]) -> None:
    if config["format"] < 1:
        raise ValueError(f"{path} says format {config['format']}, which is none: copy it again")
    # One strict pattern, because a path may leave the folder in more ways than one can list.
    if not _WEIGHTS.fullmatch(config["weights"]):
        raise ValueError(
            f"{path} names the weights {config['weights']!r}, while ccnn.save writes "
            "weights-<12 hex digits>.safetensors beside it: do not trust this folder unless you "
            "know who changed it, and copy it again"
        )
    if config["dtype"] not in _DTYPES:
        raise ValueError(
            f"{path} says dtype {config['dtype']!r}, known are {', '.join(_DTYPES)}: copy it again"
        )
    if config["model"] not in CLASSES:
        nearest = difflib.get_close_matches(config["model"], CLASSES, n=1, cutoff=0.0)
        raise ValueError(
            f"{path} names the model {config['model']!r}, which this ccnn does not have (nearest: "
            f"{nearest[0]!r}; all: {', '.join(sorted(CLASSES))}): upgrade ccnn if "
            f"{config['ccnn']}, which wrote it, is newer"
        )


def _read_weights(path: Path, *, sha256: str) -> dict[str, Tensor]:
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"there is no {path}, which {CONFIG} names: the folder was copied without it; "
            "copy it again completely"
        ) from error
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise ValueError(
            f"{path} is truncated or altered ({len(content)} bytes with SHA-256 {found[:12]}…, "
            f"{CONFIG} says {sha256[:12]}…): copy it again"
        )
    try:
        return safetensors.torch.load(content)
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path} is no safetensors file ({error}): copy it again") from error


def _build(name: str, arguments: Mapping[str, Any], *, source: str) -> nn.Module:
    """Build the architecture, at no cost to the random state: its weights will not be used."""
    try:
        with torch.random.fork_rng(devices=[]), torch.device("cpu"):
            return CLASSES[name](**arguments)
    except Exception as error:  # arguments from a file can be wrong in any way
        raise ValueError(
            f"{source}: {name} cannot be built with the arguments {json.dumps(dict(arguments))} "
            f"({error}): they were altered, or belong to another version of ccnn; copy the folder "
            "again, or use the version that wrote it"
        ) from error


def _misfits(model: nn.Module, tensors: Mapping[str, Tensor]) -> list[str]:
    """Say what keeps tensors from being a model's state."""
    own = model.state_dict()
    shared = [name for name in own if name in tensors]
    problems = {
        "missing": [name for name in own if name not in tensors],
        "unexpected": [name for name in tensors if name not in own],
        "of another shape": [
            f"{name} {tuple(tensors[name].shape)} instead of {tuple(own[name].shape)}"
            for name in shared
            if tensors[name].shape != own[name].shape
        ],
        "of another kind": [
            f"{name} {tensors[name].dtype} instead of {own[name].dtype}"
            for name in shared
            if not _same_kind(tensors[name].dtype, own[name].dtype)
        ],
    }
    return [f"{what}: {_few(names)}" for what, names in problems.items() if names]


def _same_kind(one: torch.dtype, other: torch.dtype) -> bool:
    return one == other or {one, other} <= set(_DTYPES.values())


def _fill(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy tensors into a model in their own dtypes, which may differ from tensor to tensor."""
    for name, own in model.state_dict(keep_vars=True).items():
        own.data = own.data.to(tensors[name].dtype)
    # Copying, unlike `assign=True`, keeps shared parameters shared.
    model.load_state_dict(tensors)


def _few(names: list[str], *, limit: int = 5) -> str:
    rest = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {rest} more" if rest > 0 else "")
