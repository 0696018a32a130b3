"""Time stamps: where the samples of series lie, and how far apart they are."""

from dataclasses import replace
from typing import Any

import numpy as np

from ccnn.estimator.inputs import Array, Signals, refuse_empty


def read_positions(positions: Any, signals: Signals) -> Signals:
    """Return signals whose samples lie at time stamps.

    Parameters
    ----------
    positions
        (n, length), one row (length,) for all, or a list of them for signals of unequal length;
        numbers or dates (then in seconds). A sample whose position is NaN does not exist.
    signals
        One-dimensional ones.
    """
    if len(signals.size) != 1:
        raise ValueError(
            f"positions are time stamps of series, but X has {len(signals.size)} axes; leave "
            "positions out for images and volumes"
        )
    n, longest = len(signals), signals.size[0]
    times = np.full((n, longest), np.nan)
    if isinstance(positions, list | tuple) and len(positions) == n:
        rows = [_as_seconds(row) for row in positions]
    else:
        array = _as_seconds(positions)
        rows = list(np.broadcast_to(array, (n, longest)) if array.ndim == 1 else array)
    if len(rows) != n:
        raise ValueError(f"positions are given for {len(rows)} signals, but X has {n}")
    for i, row in enumerate(rows):
        length = longest if signals.lengths is None else int(signals.lengths[i, 0])
        if row.shape not in ((length,), (longest,)):
            raise ValueError(
                f"positions[{i}] has shape {row.shape}, but X[{i}] has {length} samples; expected "
                "one position for each"
            )
        times[i, :length] = row[:length]
    return _placed(signals, times)


def _as_seconds(values: Any) -> Array:
    array = np.asarray(values)
    if array.dtype.kind == "M":
        nanoseconds = array.astype("datetime64[ns]")
        return np.where(np.isnat(array), np.nan, nanoseconds.astype(np.int64) / 1e9)
    if array.dtype.kind not in "iuf" or array.ndim not in (1, 2):
        raise ValueError(
            f"positions must be numbers or dates of shape (n, length), got {array.dtype} of shape "
            f"{array.shape}"
        )
    if np.isinf(array).any():
        raise ValueError("positions contain infinity")
    return array.astype(np.float64)


def _placed(signals: Signals, times: Array) -> Signals:
    exists = ~np.isnan(times)[:, None]
    if signals.exists is not None:
        exists &= signals.exists
    refuse_empty(exists, "each sample of it, or its position, is NaN")
    times = np.where(exists[:, 0], times, np.nan)
    everything = bool(exists.all())
    return replace(signals, positions=times, exists=None if everything else exists)


def median_gap(positions: Array) -> float:
    """Return the median distance between neighbours, (n, N) with NaN where there is no sample."""
    gaps = np.diff(np.sort(positions, axis=1), axis=1)
    gaps = gaps[gaps > 0]  # a comparison with NaN is false
    if gaps.size == 0:
        raise ValueError(
            "positions of each signal are all the same, so there is no distance between samples; "
            "give sampling_rate as well"
        )
    return float(np.median(gaps))


def span(positions: Array, rate: float) -> int:
    """Return how many samples the longest signal spans, at so many per unit of its positions."""
    widest = float((np.nanmax(positions, axis=1) - np.nanmin(positions, axis=1)).max())
    return round(widest * rate) + 1
