"""From what a user hands over to signals: values, which of them exist, and where they lie."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_array
from torch import Tensor

from ccnn.tasks.scaling import Scaling
from ccnn.tasks.task import Samples
from ccnn.training.settings import Missing

Array = NDArray[Any]
Spacing = float | tuple[float, ...]

_SHAPES = (
    "(n, length), (n, channels, length), (n, channels, height, width) or "
    "(n, channels, depth, height, width)"
)

# How many signals are looked at to see whether they are smooth, and from when on they are not.
_LOOKED_AT, _ROUGH = 1000, 0.5


@dataclass(frozen=True, kw_only=True)
class Signals:
    """Signals as they were measured.

    Parameters
    ----------
    values
        NaN where nothing was measured, and behind the end of a shorter signal.
    exists
        Where a sample is there, in one channel at least; None where all are.
    lengths
        How many samples each signal has per axis; None where all have as many.
    positions
        Where samples lie, in the user's unit; None on a grid.
    table
        Whether they were handed over as (n, length).

    Shapes
    ------
    values : (n, C, *S)
    exists : (n, 1, *S), bool
    lengths : (n, D)
    positions : (n, N)
    """

    values: Array
    exists: Array | None = None
    lengths: Array | None = None
    positions: Array | None = None
    table: bool = False

    def __len__(self) -> int:
        return len(self.values)

    @property
    def channels(self) -> int:
        """The number of channels."""
        return int(self.values.shape[1])

    @property
    def size(self) -> tuple[int, ...]:
        """Samples per axis, of the longest signal."""
        return tuple(int(n) for n in self.values.shape[2:])

    @property
    def holes(self) -> bool:
        """Whether samples are missing before the end of a signal."""
        if self.exists is None:
            return False
        within = self.exists[0].size * len(self)
        if self.lengths is not None:
            within = int(self.lengths.prod(axis=1).sum())
        return bool(self.exists.sum() < within)

    @property
    def smooth(self) -> bool:
        """Whether what lies between two samples of a series can be told from them.

        Neighbours differ by less than half the variance in the mean square, in most series: their
        correlation is above 3/4.
        """
        if self.values.ndim != 3 or self.values.shape[-1] < 2:
            return False
        some = self.values[:_LOOKED_AT].astype(np.float64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of series without a sample
            steps = np.nanmean(np.diff(some) ** 2, axis=-1)
            spread = np.nanvar(some, axis=-1)
        varied = spread > 0
        return bool(varied.any() and np.median(steps[varied] / spread[varied]) < _ROUGH)

    def take(self, index: Array) -> "Signals":
        """Return some of the signals."""
        optional = (self.exists, self.lengths, self.positions)
        exists, lengths, positions = (None if a is None else a[index] for a in optional)
        values = self.values[index]
        return replace(self, values=values, exists=exists, lengths=lengths, positions=positions)


# Values


def read_signals(X: Any, name: str) -> Signals:
    """Return the signals that a user calls X.

    Parameters
    ----------
    X
        An array of one of the shapes of `ccnn.CCNNClassifier`, a data frame (n, length), or a
        list of signals (channels, *size) or (length,) whose sizes may differ.
    name
        Of the estimator, for messages.
    """
    parts = _parts(X)
    if parts is None:
        array = _checked(X, "X", name, ensure_2d=True)
    elif len({np.shape(part) for part in parts}) == 1:
        array = _checked(np.stack(parts), "X", name, ensure_2d=True)
    else:
        values, lengths = _padded([_checked(p, f"X[{i}]", name) for i, p in enumerate(parts)])
        return _with_holes(Signals(values=values, lengths=lengths))
    if array.ndim > 5 or 0 in array.shape:
        raise ValueError(f"X has shape {array.shape}; {name} expects {_SHAPES}, none of them 0")
    table = array.ndim == 2
    return _with_holes(Signals(values=array[:, None] if table else array, table=table))


def _parts(X: Any) -> list[Array] | None:
    """Return the signals of a list, and None for what is an array, or nothing we know."""
    ragged = isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1
    if not (isinstance(X, list | tuple) or ragged) or len(X) == 0:
        return None
    try:
        parts = [np.asarray(part) for part in X]
    except ValueError:  # a signal whose channels have unequal lengths
        raise ValueError(
            "X is a list of signals, one of which is no array; expected (channels, length) or "
            "(length,) each, the channels of one signal being equally long"
        ) from None
    return None if any(part.ndim == 0 for part in parts) else parts


def _checked(values: Any, name: str, estimator: str, *, ensure_2d: bool = False) -> Array:
    array: Array = check_array(
        values,
        dtype=[np.float64, np.float32],
        ensure_all_finite="allow-nan",
        ensure_2d=ensure_2d,
        allow_nd=True,
        # One signal of a list is checked with the others.
        ensure_min_samples=int(ensure_2d),
        ensure_min_features=int(ensure_2d),
        estimator=estimator,
        input_name=name,
    )
    return array


def _padded(parts: Sequence[Array]) -> tuple[Array, Array]:
    """Return signals of unequal size as (n, C, *S) with NaN behind their ends, and their sizes."""
    parts = [part[None] if part.ndim == 1 else part for part in parts]
    first = parts[0]
    for i, part in enumerate(parts):
        if part.ndim != first.ndim or part.shape[0] != first.shape[0] or part.ndim > 4:
            raise ValueError(
                f"X[{i}] has shape {part.shape} and X[0] has {first.shape}; expected (channels, "
                "*size) each, with as many channels and axes"
            )
        if 0 in part.shape:
            raise ValueError(f"X[{i}] has shape {part.shape}: it holds no sample")
    lengths = np.array([part.shape[1:] for part in parts])  # (n, D)
    kind = np.result_type(*parts)
    values = np.full((len(parts), first.shape[0], *lengths.max(axis=0)), np.nan, dtype=kind)
    for row, part in zip(values, parts, strict=True):
        row[(slice(None), *(slice(n) for n in part.shape[1:]))] = part
    return values, lengths


def _with_holes(signals: Signals) -> Signals:
    """Say which samples exist, and refuse a signal that has none."""
    missing = np.isnan(signals.values)
    if not missing.any():
        return signals
    exists: Array = np.logical_not(missing.all(axis=1, keepdims=True))
    refuse_empty(exists, "every sample of it is NaN")
    return replace(signals, exists=exists)


def refuse_empty(exists: Array, reason: str) -> None:
    """Refuse signals of which no sample exists, (n, 1, *S)."""
    empty = np.flatnonzero(~exists.reshape(len(exists), -1).any(axis=1))
    if len(empty):
        shown = ", ".join(str(i) for i in empty[:10])
        raise ValueError(f"X has no value in signal(s) {shown}: {reason}. Leave such signals out")


def read_weights(sample_weight: Any, of_classes: Array | None, n: int) -> Array | None:
    """Return how much each of n signals counts, (n,), or None where all count alike.

    Parameters
    ----------
    sample_weight
        What the user has said.
    of_classes
        What the signals count because of their classes.
    n
        How many there are.
    """
    if sample_weight is None:
        return of_classes
    weights: Array = check_array(
        sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
    )
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight has shape {weights.shape}, expected {(n,)}: one number for each signal"
        )
    if (weights < 0).any():
        raise ValueError("sample_weight holds negative numbers")
    if not weights.any():
        raise ValueError("sample_weight must hold a number that is not zero; all are zero")
    return weights if of_classes is None else weights * of_classes


# What the network is fed


def told_of_missing(size: tuple[int, ...]) -> Missing:
    """Return how a network for signals of a size is told of missing samples.

    In series each sample that is left counts for the time it stands for, which loses least where
    the network has no channel that tells (docs/irregular.md); in images, where windows are a few
    samples wide, that was not seen.
    """
    return "density" if len(size) == 1 else "mask"


def standard_scale(values: Array) -> Scaling:
    """Return mean and deviation of every channel over what was measured, (n, C, *S)."""
    there = ~np.isnan(values)
    rest = (0, *range(2, values.ndim))
    count = there.sum(axis=rest).clip(min=1)
    mean = np.where(there, values, 0).sum(axis=rest, dtype=np.float64) / count
    centred = values - mean.reshape(-1, *[1] * (values.ndim - 2))
    variance = np.where(there, centred, 0).astype(np.float64)
    std = np.sqrt((variance**2).sum(axis=rest) / count)
    # A constant channel says nothing, and is not blown up to say something.
    std[std <= 1e-12 * np.abs(mean)] = 1.0
    return Scaling(mean=tuple(mean.tolist()), std=tuple(std.tolist()))


def as_samples(
    signals: Signals,
    scaling: Scaling,
    *,
    rate: float,
    dtype: torch.dtype,
    targets: Tensor | None = None,
    weights: Tensor | None = None,
) -> Samples:
    """Return standardised signals as the engine takes them; where nothing was measured is zero.

    Parameters
    ----------
    signals, scaling
        Signals, and by what they are standardised.
    rate
        Training samples per unit of the positions.
    dtype
        Of the values.
    targets, weights
        (n,) or (n, K), and (n,); targets are zeros where there are none.
    """
    beside = (-1, *[1] * len(signals.size))
    mean, std = np.array(scaling.mean), np.array(scaling.std)
    values = (signals.values - mean.reshape(beside)) / std.reshape(beside)
    x = torch.from_numpy(np.nan_to_num(values, copy=False, nan=0.0)).to(dtype)
    lengths = None if signals.lengths is None else torch.from_numpy(signals.lengths)
    holes = signals.holes and signals.exists is not None
    positions = None
    if signals.positions is not None:
        first = np.nanmin(signals.positions, axis=1, keepdims=True)
        places = np.nan_to_num((signals.positions - first) * rate, nan=0.0)
        positions = torch.from_numpy(places)[..., None]  # (n, N, 1)
    return Samples(
        x=x,
        y=torch.zeros(len(x)) if targets is None else targets,
        lengths=lengths[:, 0] if lengths is not None and lengths.shape[1] == 1 else lengths,
        positions=positions,
        mask=torch.from_numpy(signals.exists) if holes else None,
        weights=weights,
    )
