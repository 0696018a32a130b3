"""From settings to a trained network: the engine of the command line, run on the user's signals."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ccnn.estimator.augment import AUGMENTS
from ccnn.estimator.defaults import Facts, Settings
from ccnn.estimator.inputs import told_of_missing
from ccnn.fitting import fit
from ccnn.models import CCNN
from ccnn.tasks.task import Samples
from ccnn.training.metrics import Row
from ccnn.training.progress import Progress, make_progress
from ccnn.training.rng import kept_random_state, seed_all
from ccnn.training.settings import Batching, Machine, Optim
from ccnn.training.signals import Interrupted

# A run is looked at so often: validated, written down. Small sets have several passes in between.
ROUNDS = 100
# Signals that one round may hold by repeating a small set.
_REPEATED = 4096
_ACCELERATORS = {"auto": "auto", "cpu": "cpu", "cuda": "gpu"}


class OutOfTime(Interrupted):
    """A run whose time is over."""


class Parts(NamedTuple):
    """What is learned from, and what chooses the best weights."""

    train: Samples
    val: Samples | None
    test: None = None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one training.

    ``stopped`` is why it ended before its time: ``"interrupted"``, ``"time budget"`` or None.
    ``step_seconds`` is what a step took, half of them less and half of them more.
    """

    steps: int
    planned: int
    seconds: float
    step_seconds: float
    history: list[Row] = field(repr=False)
    stopped: str | None = None
    signum: int | None = None


class Watch(Progress):
    """Shows a run as another does, keeps its history and clock, and ends it when time is over."""

    def __init__(self, shown: Progress, deadline: float | None = None) -> None:
        self.shown, self.deadline = shown, deadline
        self.history: list[Row] = []
        self.ticks: list[float] = []

    def start(self, *, total: int, step: int) -> None:
        """Begin."""
        self.ticks.append(time.monotonic())
        self.shown.start(total=total, step=step)

    def step(self, step: int, sums: Tensor) -> None:
        """Look at the clock."""
        self.ticks.append(time.monotonic())
        self.shown.step(step, sums)
        if self.deadline is not None and self.ticks[-1] > self.deadline:
            raise OutOfTime(f"the time is over after step {step}", 0)

    def epoch(self, row: Mapping[str, Any], epochs: int, *, better: bool) -> None:
        """Keep the row."""
        self.history.append(dict(row))
        self.shown.epoch(row, epochs, better=better)

    def step_seconds(self) -> float:
        """Return the median time of a step, the first left out, which sets things up."""
        times = np.diff(self.ticks)
        return float(np.median(times[1:] if len(times) > 2 else times)) if len(times) else 0.0

    def say(self, text: str) -> None:
        """Hand on."""
        self.shown.say(text)

    def close(self) -> None:
        """Hand on."""
        self.shown.close()


def build(settings: Settings, facts: Facts, *, outputs: int, causal: bool, seed: int) -> CCNN:
    """Return a network for such data, its weights drawn by the seed alone."""
    with kept_random_state():
        seed_all(seed)
        return CCNN(
            facts.channels,
            outputs,
            facts.size,
            blocks=settings.blocks,
            channels=settings.channels,
            kernel_size=settings.kernel_size,
            omega_0=settings.omega_0,
            mask_sigma=settings.mask_sigma,
            band=settings.band,
            window=settings.window,
            lowpass=settings.lowpass,
            dropout=settings.dropout,
            causal=causal,
        )


def hold_out(targets: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor | None]:
    """Return the indices to learn from and those held out, which have every class's share.

    A class keeps one signal to learn from at least. None are held out if that leaves none.

    Parameters
    ----------
    targets
        Classes, (n,) integers, or numbers (n, K).
    share
        Of the signals to hold out.
    seed
        Of the draw.
    """
    n = len(targets)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    first = torch.zeros(n, dtype=torch.bool)
    if not targets.is_floating_point():
        order = order[targets[order].argsort(stable=True)]
        grouped = targets[order]
        first = torch.cat([torch.ones(1, dtype=torch.bool), grouped[1:] != grouped[:-1]])
    # Evenly through the classes: where the running count of held-out signals rises.
    count = ((torch.arange(1, n + 1) + 0.5) * share).floor()
    held = (count > torch.cat([count.new_zeros(1), count[:-1]])) & ~first
    if not held.any() or held.all():
        return torch.arange(n), None
    return order[~held].sort().values, order[held].sort().values


def lay_out(n: int, batch_size: int, steps: int, seed: int) -> tuple[Tensor, int]:
    """Return which signals a round consists of, and how many rounds there are.

    A round is a pass over the signals; several where the set is small, since looking at a run
    takes longer than a few steps; or a random part of the signals where steps are few.
    """
    each = max(n // batch_size, 1)
    if steps < each:
        generator = torch.Generator().manual_seed(seed)
        return torch.randperm(n, generator=generator)[: max(steps, 1) * batch_size], 1
    passes = math.ceil(steps * batch_size / n)
    repeats = min(math.ceil(passes / ROUNDS), max(_REPEATED // n, 1))
    each = n * repeats // batch_size
    return torch.arange(n).repeat(repeats), max(round(steps / each), 1)


def train(
    model: CCNN,
    samples: Samples,
    settings: Settings,
    *,
    seed: int,
    device: str,
    verbose: int,
    deadline: float | None = None,
) -> Outcome:
    """Train a network on signals; afterwards it holds its best weights, on the CPU.

    Parameters
    ----------
    model, samples, settings
        What is trained, on what, and how.
    seed
        Of the held-out part, the order of signals, dropout and augmentation.
    device, verbose
        As for `ccnn.CCNNClassifier`.
    deadline
        When to stop, on the clock of ``time.monotonic``.
    """
    kept, held = hold_out(samples.y, settings.validation, seed)
    batch_size = min(settings.batch_size, len(kept))
    index, rounds = lay_out(len(kept), batch_size, settings.steps, seed)
    parts = Parts(samples.take(kept[index]), None if held is None else samples.take(held))
    planned = rounds * max(len(index) // batch_size, 1)
    watch = Watch(make_progress("auto" if verbose else "none"), deadline)
    begin = time.monotonic()
    stopped = signum = None
    model.train()  # one that goes on was left in evaluation mode
    try:
        fit(
            model,
            parts,
            optim=_optim(settings, rounds, steps=planned, held=held is not None),
            batching=Batching(
                batch_size=batch_size,
                spacings=_spacings(settings, samples),
                missing=told_of_missing(model.size),
            ),
            machine=Machine(accelerator=_ACCELERATORS[device], progress="none", save_minutes=None),
            seed=seed,
            augment=None if settings.augment is None else AUGMENTS[settings.augment],
            progress=watch,
        )
    except OutOfTime:
        stopped = "time budget"
    except Interrupted as error:
        stopped, signum = "interrupted", error.signum
    return Outcome(
        steps=max(len(watch.ticks) - 1, 0),
        planned=planned,
        seconds=time.monotonic() - begin,
        step_seconds=watch.step_seconds(),
        history=watch.history,
        stopped=stopped,
        signum=signum,
    )


def _optim(settings: Settings, rounds: int, *, steps: int, held: bool) -> Optim:
    patience = math.ceil(settings.patience * rounds) if held else 0
    return Optim(
        lr=settings.lr,
        weight_decay=settings.weight_decay,
        mask_lr_ratio=settings.mask_lr_ratio,
        warmup_epochs=settings.warmup * rounds,
        epochs=rounds,
        label_smoothing=settings.label_smoothing,
        mixup=settings.mixup,
        aliasing=settings.aliasing,
        # An average over more than a tenth of a run would remember how it began.
        ema=min(settings.ema, max(1 - 10 / steps, 0.0)),
        early_stopping=patience or None,
    )


def _spacings(settings: Settings, samples: Samples) -> tuple[int, ...]:
    """Return the spacings of training batches; signals with holes may lose all that they have."""
    holes = samples.mask is not None or samples.positions is not None
    return () if holes else settings.spacings


def drawn_seeds(random_state: np.random.RandomState, count: int) -> list[int]:
    """Return one seed for each of several networks."""
    return [int(s) for s in random_state.randint(np.iinfo(np.int32).max, size=count)]
