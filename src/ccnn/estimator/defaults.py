"""What an estimator does when it is told nothing: settings from the shape and number of signals.

The numbers were found by cross-validation on the training parts of many problems
("What it reaches" in docs/estimator.md). They are rules for all data, not one
setting for each data set.
"""

import math
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known of the training data before anything is trained.

    Parameters
    ----------
    n
        The number of training signals.
    classes
        The number of classes; None for regression.
    channels
        Channels of a signal.
    size
        Samples per axis, of the longest signal where lengths differ; its length is D.
    unequal
        Whether lengths differ.
    positions
        Whether samples lie at given positions instead of on a grid.
    missing
        Whether samples are missing.
    smooth
        Whether series can be read between their samples (`ccnn.estimator.inputs.Signals`).
    """

    n: int
    classes: int | None
    channels: int
    size: tuple[int, ...]
    unequal: bool = False
    positions: bool = False
    missing: bool = False
    smooth: bool = True


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All that is chosen before a network is built and trained.

    Parameters
    ----------
    channels, blocks, kernel_size, mask_sigma, omega_0, band, window, lowpass, dropout
        As for `ccnn.CCNN`.
    lr, weight_decay, mask_lr_ratio, label_smoothing, mixup, aliasing, ema
        As for `ccnn.training.settings.Optim`.
    batch_size, spacings
        As for `ccnn.training.settings.Batching`.
    steps
        Optimiser steps in total.
    warmup
        The share of the steps in which the learning rate rises.
    validation
        The share of the training signals held out to choose the best epoch; 0 trains on all of
        them and keeps the last weights.
    patience
        Stop when the held-out score has not risen for this share of the steps; 0 never stops.
    augment
        The name of a random change of training signals in ``ccnn.estimator.augment.AUGMENTS``,
        or None.
    """

    channels: int
    blocks: int
    kernel_size: Literal["same", "full"] | tuple[int, ...]
    mask_sigma: float | None
    omega_0: float | Literal["auto"]
    band: float
    window: Literal["cut", "smooth"]
    lowpass: bool
    dropout: float
    lr: float
    weight_decay: float
    batch_size: int
    steps: int
    warmup: float
    validation: float
    patience: float
    ema: float
    label_smoothing: float
    mixup: float
    augment: str | None
    mask_lr_ratio: float
    aliasing: float
    spacings: tuple[int, ...]


# Below so many signals networks are small, and signals are changed at random.
_FEW = 1000
# The share that is held out to choose the best epoch, and how many that must be to tell epochs
# apart: of fewer signals, all are learned from, and the last epoch is the one that counts.
_HELD_OUT, _TELLING = 0.05, 500
# Where signals are held out, training stops after this share of the steps without a better score.
PATIENCE = 0.5
# The fewest steps, those for _FEW signals, and the most: between, they grow with the square root
# of n.
_LEAST_STEPS, _STEPS, _MOST_STEPS = 2000, 1500, 6000
# Samples of one signal from which on networks are narrow: a step of many such would take seconds.
_LARGE = 500
# The width of a window at the start, in samples: of few signals, details tell more than outlines.
# Of many it is a share of the signal, within limits.
_WINDOW, _LEAST_WINDOW, _MOST_WINDOW = 0.0375, 3.0, 16.0
# Frequencies of kernels at the start; more for a long signal, so that fresh kernels reach all that
# its grid can tell apart: of n samples, Nyquist is n/4 cycles per unit, and MAGNet's first filters
# have 3 ω₀ on average.
_OMEGA, _OMEGA_PER_SAMPLE = 30.0, 0.1


def choose(facts: Facts) -> Settings:
    """Return the settings for data of a given shape and number."""
    few = facts.n < _FEW
    choosing = _HELD_OUT * facts.n >= _TELLING
    series = len(facts.size) == 1
    return Settings(
        channels=32 if few or math.prod(facts.size) > _LARGE else 64,
        blocks=3 if few else 4,
        kernel_size="same",
        mask_sigma=_window(facts.size[0], few=few) if series else None,
        # Above the grid's Nyquist frequency, far above where signals are short. Band-limited
        # kernels learn too slowly from few signals; the low-pass lets these work at coarser
        # rates, too.
        omega_0=max(_OMEGA, _OMEGA_PER_SAMPLE * max(facts.size)),
        band=1.0,
        window="cut",
        lowpass=True,
        dropout=0.1,
        lr=0.005 if few else 0.01,
        weight_decay=0.01,
        batch_size=max(1, min(16 if few else 64, facts.n // 2)),
        steps=min(max(_LEAST_STEPS, round(_STEPS * math.sqrt(facts.n / _FEW))), _MOST_STEPS),
        warmup=0.1,
        validation=_HELD_OUT if choosing else 0.0,
        patience=PATIENCE if choosing else 0.0,
        ema=0.98,
        label_smoothing=0.0 if facts.classes is None else 0.1,
        mixup=0.4 if few and _can_be_changed(facts) else 0.0,
        augment="warp" if few and series and facts.smooth and _can_be_changed(facts) else None,
        mask_lr_ratio=1.0,
        aliasing=0.0,
        spacings=(),
    )


def _window(length: int, *, few: bool) -> float:
    """Return the width a window starts with, as the standard deviation σ of coordinates."""
    samples = _LEAST_WINDOW
    if not few:
        samples = min(max(_WINDOW * length, _LEAST_WINDOW), _MOST_WINDOW)
    return min(2 * samples / max(length - 1, 1), 1.0)


def _can_be_changed(facts: Facts) -> bool:
    """Tell whether signals mean the same when their clock runs unevenly, or louder, or mixed.

    Numbers to be predicted may well depend on any of it, and padding and holes would move.
    """
    return facts.classes is not None and not (facts.unequal or facts.positions or facts.missing)
