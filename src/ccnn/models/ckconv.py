"""Reading the networks that the authors of CKConv published, into our `CKCNN`.

Their files are state dicts of torch (https://github.com/dwromero/ckconv, folder ``saved``).
"""

import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ccnn.models.ckcnn import CKCNN
from ccnn.nn.signal import check_size

# The length of the training sequences is not in all of their files; these lack it. By channels,
# classes and ω₀.
_LENGTHS = {
    (1, 10, 31.09): 784,  # sMNIST
    (1, 10, 30.5): 784,  # sMNIST, 100 channels
    (3, 10, 25.7): 1024,  # sCIFAR10, 30 and 100 channels
    (1, 10, 39.45): 16_000,  # Speech Commands, raw
    (3, 20, 11.46): 182,  # CharacterTrajectories, 30 % dropped
}
# Their kernel network is a list of modules in which these are the linear layers.
_LAYERS = {0: "sines.0", 4: "sines.1", 8: "output"}
# What some files hold beside the weights: a length, and the kernels of the last forward pass.
_EXTRA = re.compile(r"backbone\.\d+\.cconv[12]\.(train_length|conv_kernel)")
# Stored kernels are reproduced to 2e-4 or better with the right ω₀, and not at all with another.
_TOLERANCE = 1e-2


def load_ckconv(
    path: str | os.PathLike[str],
    *,
    omega_0: float | None = None,
    size: Sequence[int] | None = None,
) -> CKCNN:
    """Return a network of the CKConv authors with their published weights.

    The file is read without running any code in it. Kernels, norms and outputs are theirs up to
    rounding, weight normalisation included.

    Parameters
    ----------
    path
        Their file, such as ``MNIST_perm_False_model_CKCNN_….pt``.
    omega_0
        ω₀ of its kernel networks, which the file does not hold: that of their command, with all
        its digits (31.09195739463897 for the small sMNIST network).
    size
        The length of the training sequences, ``(784,)``. Needed where neither the file holds it
        nor ω₀ tells which of the published networks it is.

    Returns
    -------
    The network in evaluation mode.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is not one of their networks, does not fit ``omega_0`` or ``size``, or is damaged.
    """
    path = Path(path)
    omega = _check_omega(omega_0)
    state = _read(path)
    extra = {k: v for k, v in state.items() if _EXTRA.fullmatch(k)}
    weights = {k: v for k, v in state.items() if k not in extra}
    arguments = _architecture(path, weights) | {"omega_0": omega}
    kernels = {k: v for k, v in extra.items() if k.endswith(".conv_kernel")}
    arguments["size"] = _size(path, arguments, extra, size)
    with torch.random.fork_rng(devices=[]):  # its initial weights will not be used
        model = CKCNN(**arguments, init="none")
    model.load_state_dict(_translate(path, weights, model))
    _compare(path, kernels, model, omega)
    return model.eval()


def _check_omega(omega_0: float | None) -> float:
    if omega_0 is None:
        raise ValueError(
            "omega_0 is not stored in the authors' files: give the value of their command, such as "
            "omega_0=31.09195739463897 for the small sMNIST network"
        )
    if not isinstance(omega_0, int | float) or not 0 < omega_0 < math.inf:
        raise ValueError(f"omega_0 must be a positive number, got {omega_0!r}")
    return float(omega_0)


def _read(path: Path) -> dict[str, Tensor]:
    if not path.exists():
        raise FileNotFoundError(f"there is no {path}")
    if path.is_dir():
        raise ValueError(f"{path} is a folder: give the file of the authors' weights")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except PermissionError:
        raise
    except Exception as error:  # what torch raises depends on where a file is damaged
        # Its words are about how torch.load may be called otherwise: no advice for here.
        raise ValueError(
            f"{path} cannot be read as weights without running code: it is damaged or something "
            "else; fetch it again"
        ) from error
    if not isinstance(content, Mapping) or not all(
        isinstance(k, str) and isinstance(v, Tensor) for k, v in content.items()
    ):
        raise ValueError(
            f"{path} holds a {type(content).__name__}, not a state dict of tensors: it is no "
            "network of CKConv's authors"
        )
    return dict(content)


def _architecture(path: Path, weights: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return the arguments of the `CKCNN` that tensors describe by their shapes."""
    first, kernel = "backbone.0.cconv1.bias", "backbone.0.cconv1.Kernel.kernel_net"
    needed = [first, f"{kernel}.0.bias", f"{kernel}.8.bias", "finallyr.bias"]
    missing = [key for key in needed if key not in weights]
    if missing:
        raise ValueError(
            f"{path} has no {', '.join(missing)}: it is no network of CKConv's authors"
        )
    channels, hidden, kernels, classes = (weights[key].numel() for key in needed)
    if not all((channels, hidden, classes)) or kernels % channels or not kernels:
        raise ValueError(
            f"{path}: {kernels} kernels of {channels} channels in the first layer, {hidden} hidden "
            f"units and {classes} classes make no network; fetch it again"
        )
    blocks = {int(found[1]) for k in weights if (found := re.match(r"backbone\.(\d+)\.", k))}
    return {
        "in_channels": kernels // channels,
        "out_channels": classes,
        "blocks": len(blocks),
        "channels": channels,
        "kernel_channels": hidden,
    }


def _size(
    path: Path,
    arguments: Mapping[str, Any],
    extra: Mapping[str, Tensor],
    given: Sequence[int] | None,
) -> tuple[int, ...]:
    """Return the training size: what the file says, else what is given, else what is known."""
    stored = {
        int(v.flatten()[0]) if k.endswith("length") else v.shape[-1]
        for k, v in extra.items()
        if v.numel()
    }
    if len(stored) > 1 or (stored and min(stored) < 1):
        raise ValueError(
            f"{path} names the lengths {sorted(stored)}: it is damaged; fetch it again"
        )
    if given is not None:
        size = check_size(given)
        if stored and size != tuple(stored):
            raise ValueError(f"size is {size}, but {path} was trained on length {stored.pop()}")
        return size
    if stored:
        return tuple(stored)
    key = arguments["in_channels"], arguments["out_channels"], round(arguments["omega_0"], 2)
    if key not in _LENGTHS:
        raise ValueError(
            f"{path} does not say on which length it was trained, and omega_0="
            f"{arguments['omega_0']} is of no published network without it: give size=(784,) or so"
        )
    return (_LENGTHS[key],)


def _translate(path: Path, weights: Mapping[str, Tensor], model: CKCNN) -> dict[str, Tensor]:
    """Return their tensors under our names; refuse any that is missing, odd or too many."""
    names = {_published_name(ours): ours for ours in model.state_dict()}
    missing = sorted(names.keys() - weights.keys())
    unexpected = sorted(weights.keys() - names.keys())
    if missing or unexpected:
        what, keys = ("lacks", missing) if missing else ("has unknown", unexpected)
        more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
        raise ValueError(
            f"{path} {what} {', '.join(keys[:3])}{more}: it is no network of CKConv's authors, or "
            "damaged; fetch it again"
        )
    own, result = model.state_dict(), {}
    for theirs, ours in names.items():
        value, shape = weights[theirs], _published_shape(ours, own[ours])
        if value.shape != shape or not value.is_floating_point():
            raise ValueError(
                f"{path}: {theirs} is {value.dtype} {tuple(value.shape)}, expected float "
                f"{tuple(shape)}; fetch it again"
            )
        if not value.isfinite().all():
            raise ValueError(f"{path}: {theirs} holds numbers that are not finite; fetch it again")
        result[ours] = value.reshape(own[ours].shape)
    return result


def _published_name(ours: str) -> str:
    """Return ``backbone.0.norm1.layer_norm.bias`` for ``blocks.0.norm1.bias``, and so on."""
    name = re.sub(r"^blocks\.", "backbone.", ours)
    name = re.sub(r"^output\.", "finallyr.", name)
    name = re.sub(r"\.(norm\d)\.", r".\1.layer_norm.", name)
    name = name.replace(".shortcut.", ".shortcut.0.")
    name = re.sub(r"\.conv(\d)\.", r".cconv\1.", name)
    for index, layer in _LAYERS.items():
        theirs = f".Kernel.kernel_net.{index}."
        name = name.replace(f".kernel.{layer}.length", f"{theirs}weight_g")
        name = name.replace(f".kernel.{layer}.weight", f"{theirs}weight_v")
        name = name.replace(f".kernel.{layer}.bias", f"{theirs}bias")
    return name


def _published_shape(ours: str, value: Tensor) -> tuple[int, ...]:
    """Return the shape of their tensor: linear maps are convolutions of size 1 there."""
    shape = tuple(value.shape)
    if ours.endswith(".length"):
        return (*shape, 1, 1)
    inside = ".kernel." in ours or ".shortcut." in ours
    return (*shape, 1) if inside and len(shape) == 2 else shape


@torch.no_grad()
def _compare(path: Path, kernels: Mapping[str, Tensor], model: CKCNN, omega_0: float) -> None:
    """Refuse an ω₀ that does not give the kernels that some of their files hold."""
    for i, layer in enumerate(model.convolutions()):
        key = f"backbone.{i // 2}.cconv{i % 2 + 1}.conv_kernel"
        if key not in kernels:
            continue
        ours, theirs = layer.sampled_kernel(), kernels[key]
        if ours.shape != theirs.shape:
            raise ValueError(
                f"{path}: {key} has shape {tuple(theirs.shape)}, expected {tuple(ours.shape)}; "
                "fetch it again"
            )
        off = float((ours - theirs).abs().max() / theirs.abs().max())
        if not off < _TOLERANCE:
            raise ValueError(
                f"omega_0={omega_0} does not give the kernels that {path} holds (off by "
                f"{100 * off:.0f} %): it belongs to another network"
            )
