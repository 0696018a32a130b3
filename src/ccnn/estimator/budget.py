"""Training within a time: how long a step takes, and how many of them fit."""

import copy
import re
import time
from dataclasses import replace

import numpy as np

from ccnn.estimator.defaults import Settings
from ccnn.estimator.training import Outcome, lay_out, train
from ccnn.models import CCNN
from ccnn.tasks.task import Samples

_UNITS = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600}
_WORDS = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*?)s?\s*")
# Steps that are run to see how long they take, and the share of the time that they may take.
_TRIAL = 12
_TRIAL_SHARE = 0.2
# The share of the time that validation may take.
_LOOKING = 0.15
# What is left for the last look at the run, and for steps that take longer.
_SPARE = 0.07


def seconds_of(budget: object) -> float:
    """Return a time budget in seconds: a number, or ``"30s"``, ``"5min"``, ``"1.5 h"``."""
    seconds = 0.0
    if isinstance(budget, str):
        found = _WORDS.fullmatch(budget.lower())
        if found is not None and (found[2] or "s") in _UNITS:
            seconds = float(found[1]) * _UNITS[found[2] or "s"]
    elif isinstance(budget, int | float | np.number) and not isinstance(budget, bool):
        seconds = float(budget)
    if not 0 < seconds < float("inf"):
        raise ValueError(
            f'time_budget is {budget!r}; expected seconds, or a text like "30s", "5min" or "1h"'
        )
    return seconds


def train_within(
    seconds: float,
    model: CCNN,
    samples: Samples,
    settings: Settings,
    *,
    seed: int,
    device: str,
    verbose: int,
) -> Outcome:
    """Train as `ccnn.estimator.training.train` does, with as many steps as the time allows.

    A few steps on a copy tell how long one takes. The schedule is then that of a run with so many
    steps, which is stopped should they take longer after all.
    """
    begin = time.monotonic()
    trial = _trial(
        model, samples, settings, seed=seed, device=device, deadline=begin + _TRIAL_SHARE * seconds
    )
    if trial.stopped == "interrupted":
        return trial
    left = begin + (1 - _SPARE) * seconds - time.monotonic()
    scaled = _scaled(settings, len(samples), left, max(trial.step_seconds, 1e-4))
    return train(
        model,
        samples,
        scaled,
        seed=seed,
        device=device,
        verbose=verbose,
        deadline=begin + (1 - _SPARE / 2) * seconds,
    )


def _trial(
    model: CCNN, samples: Samples, settings: Settings, *, seed: int, device: str, deadline: float
) -> Outcome:
    """Run a few steps on a copy."""
    return train(
        copy.deepcopy(model),
        samples,
        replace(settings, steps=_TRIAL, validation=0.0),
        seed=seed,
        device=device,
        verbose=0,
        deadline=deadline,
    )


def _scaled(settings: Settings, n: int, left: float, step: float) -> Settings:
    """Return the settings with as many steps, and as much to validate on, as the time allows."""
    looking = _LOOKING if settings.validation else 0.0
    steps = max(min(settings.steps, int((1 - looking) * left / step)), 1)
    if not settings.validation:
        return replace(settings, steps=steps)
    batch_size = settings.batch_size
    _, rounds = lay_out(n, min(batch_size, n), steps, seed=0)
    # Without gradients a batch takes less than half of a step.
    each = rounds * 0.5 * step / batch_size
    most = looking * left / max(each, 1e-9) / n
    return replace(settings, steps=steps, validation=min(settings.validation, most))
