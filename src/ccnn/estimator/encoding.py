"""Values of an estimator as JSON, and back without loss: types, dtypes and bits are kept.

What JSON has no word for is an object with one key, its tag: ``{"tuple": [1, 2]}``. Dicts are
tagged as well, so that nothing a user stores can be taken for a tag.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ccnn.estimator.defaults import Facts, Settings
from ccnn.tasks.scaling import Scaling

Networks = list[nn.Module]

# The dataclasses that an estimator may hold, by the name they have in the file.
RECORDS: dict[str, type] = {"Facts": Facts, "Scaling": Scaling, "Settings": Settings}

_ACCEPTED = "None, booleans, integers, floats, texts, and lists, tuples, dicts and arrays of them"
_TENSOR_DTYPES = {
    "bool": torch.bool,
    "int64": torch.int64,
    "float32": torch.float32,
    "float64": torch.float64,
}


class Undecodable(ValueError):  # noqa: N818 (what it says is a sentence)
    """JSON that `encode` did not write."""


def encode(value: object, networks: Networks) -> Any:
    """Return a value in JSON's words.

    Networks are put into the list, and their place in it is kept; one that is met twice is put
    there once, and so is shared again after `decode`.

    Raises
    ------
    TypeError
        If the value cannot be kept.
    """
    # Numpy's float64 is a float of Python's, too, and would lose its type.
    if isinstance(value, np.generic):
        return {"scalar": _encode_array(np.asarray(value), networks)}
    if isinstance(value, np.ndarray):
        return {"array": _encode_array(value, networks)}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return [encode(part, networks) for part in value]
    if isinstance(value, tuple):
        return {"tuple": [encode(part, networks) for part in value]}
    if isinstance(value, dict):
        return {"dict": [[encode(k, networks), encode(v, networks)] for k, v in value.items()]}
    if isinstance(value, Tensor):
        return {"tensor": _encode_tensor(value)}
    if isinstance(value, nn.Module):
        return {"network": _place(value, networks)}
    if dataclasses.is_dataclass(value) and type(value) in RECORDS.values():
        fields = {name: encode(part, networks) for name, part in vars(value).items()}
        return {"record": [type(value).__name__, fields]}
    raise TypeError(f"a {type(value).__name__} cannot be kept as JSON; accepted are {_ACCEPTED}")


def decode(value: Any, networks: Networks) -> Any:
    """Return what `encode` was given.

    Raises
    ------
    Undecodable
        If `encode` writes no such thing.
    """
    if isinstance(value, list):
        return [decode(part, networks) for part in value]
    if not isinstance(value, dict):
        return value
    tag = next(iter(value)) if len(value) == 1 else ""
    if tag not in _DECODERS:
        raise Undecodable(f"a value of no known kind ({', '.join(value) or 'empty'})")
    try:
        return _DECODERS[tag](value[tag], networks)
    except Undecodable:
        raise
    except Exception as error:  # what a file holds can be wrong in any way
        raise Undecodable(f"a {tag} that is none ({error})") from error


def _place(network: nn.Module, networks: Networks) -> int:
    for place, known in enumerate(networks):
        if known is network:
            return place
    networks.append(network)
    return len(networks) - 1


def _encode_array(array: NDArray[Any], networks: Networks) -> dict[str, Any]:
    kind, size = array.dtype.kind, array.dtype.itemsize
    # Longer floats than Python's would be cut; dates and the like have no words in JSON.
    if kind not in "biufUO" or (kind == "f" and size > 8):
        raise TypeError(f"values of dtype {array.dtype} cannot be kept as JSON; make them texts")
    values = [encode(part, networks) for part in array.reshape(-1).tolist()]
    return {"dtype": array.dtype.str, "shape": list(array.shape), "values": values}


def _decode_array(body: dict[str, Any], networks: Networks) -> NDArray[Any]:
    array = np.empty(len(body["values"]), dtype=np.dtype(body["dtype"]))
    for place, part in enumerate(decode(body["values"], networks)):
        array[place] = part
    return array.reshape(body["shape"])


def _encode_tensor(tensor: Tensor) -> dict[str, Any]:
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in _TENSOR_DTYPES:
        raise TypeError(f"a tensor of dtype {name} cannot be kept as JSON")
    return _encode_array(tensor.detach().cpu().numpy(), []) | {"dtype": name}


def _decode_tensor(body: dict[str, Any], networks: Networks) -> Tensor:
    values = decode(body["values"], networks)
    return torch.tensor(values, dtype=_TENSOR_DTYPES[body["dtype"]]).reshape(body["shape"])


def _decode_record(body: Any, networks: Networks) -> object:
    name, fields = body
    return RECORDS[name](**{key: decode(part, networks) for key, part in fields.items()})


def _decode_dict(body: Any, networks: Networks) -> dict[Any, Any]:
    return {decode(key, networks): decode(part, networks) for key, part in body}


_DECODERS: dict[str, Callable[[Any, Networks], Any]] = {
    "array": _decode_array,
    "dict": _decode_dict,
    "float": lambda body, networks: float(body),
    "network": lambda body, networks: networks[body],
    "record": _decode_record,
    "scalar": lambda body, networks: _decode_array(body, networks)[()],
    "tensor": _decode_tensor,
    "tuple": lambda body, networks: tuple(decode(body, networks)),
}
