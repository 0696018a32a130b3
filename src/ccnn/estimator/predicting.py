"""What networks say of signals, at the training resolution or another."""

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ccnn.estimator.inputs import Array, told_of_missing
from ccnn.inference import cached
from ccnn.models import CCNN
from ccnn.tasks.task import Samples
from ccnn.training.engine import pick_accelerator
from ccnn.training.evaluation import outputs_of_samples

Rates = tuple[float, ...]

# Samples of a training signal up to which it is short.
_SHORT = 256
# Values of one layer that a batch may hold.
_VALUES = 2**22


def checked_rates(rate: Any, dim: int, name: str = "sampling_rate") -> Rates:
    """Return a rate or a spacing for each of D axes."""
    rates = np.atleast_1d(np.asarray(rate))
    if rates.dtype.kind not in "iuf" or rates.shape not in ((1,), (dim,)):
        raise ValueError(
            f"{name} is {rate!r}; expected a number" + (f", or {dim} of them" if dim > 1 else "")
        )
    if not (np.isfinite(rates).all() and (rates > 0).all()):
        raise ValueError(f"{name} is {rate!r}; expected more than 0")
    return tuple(np.broadcast_to(rates, (dim,)).astype(np.float64).tolist())


def spacing_of(
    spacing: Any, sampling_rate: Any, positions: Any, *, trained_at: Rates | None, dim: int
) -> Rates | None:
    """Return the spacing of signals in training samples for each axis; None is the training grid.

    Parameters
    ----------
    spacing, sampling_rate, positions
        What the user has said, one of them at most.
    trained_at
        The sampling rate of the training signals, where it is known.
    dim
        D.
    """
    if sum(said is not None for said in (spacing, sampling_rate, positions)) > 1:
        raise ValueError("give one of spacing, sampling_rate and positions: each says it all")
    if spacing is not None:
        return checked_rates(spacing, dim, "spacing")
    if sampling_rate is None:
        return None
    if trained_at is None:
        raise ValueError(
            "sampling_rate was given, but not to fit, so there is nothing to compare it with; "
            "use fit(X, y, sampling_rate=…), or spacing=2.0 for every second sample"
        )
    rates = checked_rates(sampling_rate, dim)
    return tuple(before / now for before, now in zip(trained_at, rates, strict=True))


def outputs(
    models: Sequence[CCNN], samples: Samples, *, spacing: Rates | None, device: str
) -> Array:
    """Return what every network says of every signal, (networks, n, outputs).

    Short signals in double precision on the CPU: what is said of one then does not depend on which
    others are asked about along with it, beyond the fifteenth digit. Longer ones would take three
    times as long.
    """
    gpu = pick_accelerator(device if device != "cuda" else "gpu") == "gpu"
    place = torch.device("cuda" if gpu else "cpu")
    short = math.prod(models[0].size) <= _SHORT
    dtype = torch.float64 if short and not gpu else torch.float32
    samples = _moved(samples, place, dtype)
    said = []
    for model in models:
        network = copy.deepcopy(model).to(place, dtype).eval()
        with cached(network):
            found = outputs_of_samples(
                network,
                samples,
                spacing=1.0 if spacing is None else spacing,
                missing=told_of_missing(model.size),
                batch_size=_batch_size(model, samples.x),
            )
        said.append(found.double().cpu().numpy())
    return np.stack(said)


def _batch_size(model: CCNN, x: Tensor) -> int:
    values = model.stem.out_channels * math.prod(x.shape[2:])
    return max(min(_VALUES // values, 256), 1)


def _moved(samples: Samples, place: torch.device, dtype: torch.dtype) -> Samples:
    optional = (samples.lengths, samples.positions, samples.mask)
    lengths, positions, mask = (None if t is None else t.to(place) for t in optional)
    x, y = samples.x.to(place, dtype), samples.y.to(place)
    return replace(samples, x=x, y=y, lengths=lengths, positions=positions, mask=mask)
