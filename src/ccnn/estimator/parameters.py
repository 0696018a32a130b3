"""What the estimators' parameters may be, and the settings that follow from them."""

import math
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

from ccnn.estimator.budget import seconds_of
from ccnn.estimator.defaults import PATIENCE, Settings

DEVICES = ("auto", "cpu", "cuda")

Check = tuple[Callable[[Any], bool], str]


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


def _is_positive(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and 0 < float(value) < math.inf


def _is_not_negative(value: Any) -> bool:
    return _is_positive(value) or (isinstance(value, Real) and value == 0)


def _is_share(value: Any) -> bool:
    return _is_not_negative(value) and value < 1


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _or_none(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or check(value)


def _is_kernel_size(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return len(value) > 0 and all(_is_whole(k) for k in value)
    return _is_whole(value) or (isinstance(value, str) and value in ("same", "full"))


def _is_omega(value: Any) -> bool:
    return _is_positive(value) or (isinstance(value, str) and value == "auto")


def _is_time(value: Any) -> bool:
    try:
        return seconds_of(value) > 0
    except ValueError:
        return False


_COUNT: Check = (_or_none(_is_whole), "a whole number of at least 1, or None")
_SHARE: Check = (_or_none(_is_share), "a number from 0 up to 1, without 1, or None")
_SWITCH: Check = (_is_bool, "True or False")

CHECKS: dict[str, Check] = {
    "channels": _COUNT,
    "blocks": _COUNT,
    "kernel_size": (
        _or_none(_is_kernel_size),
        "'same', 'full', a whole number, one for each axis, or None",
    ),
    "omega_0": (_or_none(_is_omega), "a positive number, 'auto' or None"),
    "mask_sigma": (_or_none(_is_positive), "a positive number or None"),
    "causal": _SWITCH,
    "dropout": _SHARE,
    "lr": (_or_none(_is_positive), "a positive number or None"),
    "weight_decay": (_or_none(_is_not_negative), "a number of at least 0, or None"),
    "batch_size": _COUNT,
    "max_epochs": _COUNT,
    "validation_fraction": _SHARE,
    "early_stopping": _SWITCH,
    "time_budget": (_or_none(_is_time), "seconds, a text like '30s', '5min' or '1h', or None"),
    "n_ensemble": (_is_whole, "a whole number of at least 1"),
    "warm_start": _SWITCH,
    "device": (lambda v: isinstance(v, str) and v in DEVICES, "'auto', 'cpu' or 'cuda'"),
    "verbose": (_is_not_negative, "a whole number, 0 being silent"),
}


def check_parameters(parameters: dict[str, Any], name: str) -> None:
    """Refuse a parameter that makes no sense, before anything is done."""
    for key, (is_right, words) in CHECKS.items():
        if not is_right(parameters[key]):
            raise ValueError(
                f"The {key!r} parameter of {name} must be {words}. Got {parameters[key]!r} instead."
            )


def overridden(settings: Settings, parameters: dict[str, Any], n: int) -> Settings:
    """Return the settings with what the user has said in place of what was chosen.

    Parameters
    ----------
    settings
        What was chosen.
    parameters
        Of the estimator; None leaves a setting as it is.
    n
        The number of signals, of which epochs consist.
    """
    size = parameters["kernel_size"]
    said: dict[str, Any] = {
        "channels": parameters["channels"],
        "blocks": parameters["blocks"],
        "kernel_size": tuple(size) if isinstance(size, list) else size,
        "omega_0": parameters["omega_0"],
        "mask_sigma": parameters["mask_sigma"],
        "dropout": parameters["dropout"],
        "lr": parameters["lr"],
        "weight_decay": parameters["weight_decay"],
        "batch_size": parameters["batch_size"],
        "validation": parameters["validation_fraction"],
    }
    if parameters["validation_fraction"] is not None:
        said["patience"] = PATIENCE if parameters["validation_fraction"] else 0.0
    if not parameters["early_stopping"]:
        said |= {"validation": 0.0, "patience": 0.0}
    settings = replace(settings, **{k: _plain(v) for k, v in said.items() if v is not None})
    if parameters["max_epochs"] is None:
        return settings
    kept = n - int(n * settings.validation)
    passes = int(parameters["max_epochs"])
    return replace(settings, steps=round(passes * kept / min(settings.batch_size, kept)))


def _plain(value: Any) -> Any:
    """Return NumPy's numbers, which a search draws, as Python's, which a network is saved with."""
    if isinstance(value, str | tuple):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def one_pass(settings: Settings, n: int) -> Settings:
    """Return the settings for a single look at n signals, which may be few."""
    batch_size = min(settings.batch_size, n)
    return replace(
        settings,
        batch_size=batch_size,
        steps=n // batch_size,
        warmup=0.0,
        validation=0.0,
        patience=0.0,
    )
