"""Looking inside a fitted estimator: its kernels, its training, what it looks at."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from ccnn.estimator.inputs import Array, Signals, as_samples
from ccnn.estimator.predicting import Rates, spacing_of
from ccnn.estimator.saliency import attribute
from ccnn.models import CCNN
from ccnn.tasks.scaling import Scaling
from ccnn.training.metrics import Row

# matplotlib's, which figures need and estimators do not.
Axes = Any


class Looking:
    """What a fitted estimator shows of itself. Both estimators inherit it."""

    models_: list[CCNN]
    history_: list[Row]
    scaling_: Scaling
    rate_: Rates | None
    size_: tuple[int, ...]
    classes_: Array

    def plot_kernels(
        self,
        *,
        member: int = 0,
        channels: int | Sequence[int] = 0,
        spacing: float | Sequence[float] = 1.0,
        axes: Sequence[Axes] | None = None,
    ) -> list[Axes]:
        """Draw kernels of every layer: lines in 1-D, images in 2-D, middle slices above.

        Parameters
        ----------
        member
            Which network, where there are several.
        channels
            Which kernels of each layer; an image shows one, a line plot as many as given. The
            stem has as many as the signals have channels.
        spacing
            Distance between the samples of a kernel, in training samples.
        axes
            Where to draw, one for each layer; a new figure unless given.

        Returns
        -------
        The axes, that of the stem first.
        """
        from ccnn.plots.layers import plot_layers

        check_is_fitted(self, "models_")
        layers = self.models_[_checked_member(member, len(self.models_))].convolutions()
        return plot_layers(layers, spacing=spacing, channels=channels, axes=axes)

    def plot_history(self, *, member: int = 0, ax: Axes | None = None) -> Axes:
        """Draw the loss over the training, that of held-out signals too where there were any.

        Parameters
        ----------
        member
            Which network, where there are several.
        ax
            Where to draw; a new figure unless given.

        Returns
        -------
        The axes.
        """
        from ccnn.plots.training import plot_history

        check_is_fitted(self, "models_")
        _checked_member(member, len(self.models_))
        rows = [row for row in self.history_ if row["member"] == member]
        names = {"train_loss": "training", "val_loss": "held out"}
        curves = {
            shown: [float(row[name]) for row in rows]
            for name, shown in names.items()
            if all(name in row for row in rows)
        }
        ax = plot_history([int(row["step"]) for row in rows], curves, ylabel="loss", ax=ax)
        ax.set_xlabel("step")  # a row is several passes over a small set
        return ax

    def saliency(
        self,
        X: Any,
        *,
        target: Any = None,
        method: str = "integrated",
        steps: int = 32,
        positions: Any = None,
        spacing: Any = None,
        sampling_rate: Any = None,
    ) -> Any:
        """Return how much each sample of the signals speaks for a class, or for a prediction.

        Parameters
        ----------
        X, positions, spacing, sampling_rate
            As for ``predict``.
        target
            The class to explain, one for all signals or one for each; None is the predicted one.
            For a regressor the number of the output, needed where there are several.
        method
            ``"integrated"``: integrated gradients from the mean of the training signals, whose
            sum over a signal is the class's output (before the softmax), or the prediction, minus
            that for the mean. ``"product"``: the gradient times the distance from the mean.
            ``"gradient"``: how the output answers to a small change, in X's unit.
        steps
            Gradients that an integral consists of.

        Returns
        -------
        An array of X's shape, or a list of arrays where X is a list; zero where nothing was
        measured. Where there are several networks, their mean is explained.
        """
        check_is_fitted(self, "models_")
        said = spacing_of(
            spacing, sampling_rate, positions, trained_at=self.rate_, dim=len(self.size_)
        )
        signals = self._signals(
            X, positions, fresh=False, any_length=said is not None or positions is not None
        )
        samples = as_samples(signals, self.scaling_, rate=self._rate(), dtype=torch.float64)
        if target is None and is_classifier(self):
            target = self.predict(
                X, positions=positions, spacing=spacing, sampling_rate=sampling_rate
            )
        chosen = self._chosen_outputs(target, len(signals))
        found = attribute(
            self.models_,
            replace(samples, y=torch.from_numpy(chosen)),
            method=method,
            steps=steps,
            spacing=1.0 if said is None else said,
        ).numpy()
        found = found * _in_unit(self.scaling_, chosen, signals, gradient=method == "gradient")
        if signals.exists is not None:
            found = np.where(np.isnan(signals.values), 0.0, found)
        return _shaped_like(X, found, signals)

    # What the estimators have

    @abstractmethod
    def predict(
        self, X: Any, *, positions: Any = None, spacing: Any = None, sampling_rate: Any = None
    ) -> Array:
        """Return a class or numbers for every signal."""

    @abstractmethod
    def _signals(self, X: Any, positions: Any, *, fresh: bool, any_length: bool = False) -> Signals:
        """Read signals and hold them against those of the training."""

    @abstractmethod
    def _rate(self) -> float:
        """Return training samples per unit of positions."""

    def _chosen_outputs(self, target: Any, n: int) -> Array:
        """Return which output of the network is asked about, for every signal, (n,) integers."""
        if is_classifier(self):
            return _class_indices(target, self.classes_, n)
        count = len(self.scaling_.target_mean)
        if target is None and count > 1:
            raise ValueError(f"there are {count} outputs: say which with target=0 … {count - 1}")
        index = 0 if target is None else target
        if not isinstance(index, int | np.integer) or not 0 <= index < count:
            raise ValueError(f"target is {target!r}; expected an output's number, below {count}")
        return np.full(n, int(index), dtype=np.int64)


def _checked_member(member: int, count: int) -> int:
    if not 0 <= member < count:
        raise ValueError(f"there is no network {member}: there are {count}, counted from 0")
    return member


def _class_indices(target: Any, classes: Array, n: int) -> Array:
    """Return the places of classes, one for all or one for each signal, (n,)."""
    named = np.asarray(target)
    if named.shape not in ((), (n,)):
        raise ValueError(f"target has shape {named.shape}; expected one class, or {n} of them")
    unknown = [label for label in np.unique(named).tolist() if label not in classes.tolist()]
    if unknown:
        raise ValueError(f"target names {unknown}, but the classes are {classes.tolist()}")
    return np.broadcast_to(np.searchsorted(classes, named), (n,)).astype(np.int64)


def _in_unit(scaling: Scaling, chosen: Array, signals: Signals, *, gradient: bool) -> Array:
    """Return what turns attributions of the network into the user's units, (n, C, 1, …)."""
    beside = [1] * len(signals.size)
    scale = np.ones((len(signals), 1, *beside))
    if scaling.target_std:
        scale = np.array(scaling.target_std)[chosen].reshape(scale.shape)
    if gradient:
        scale = scale / np.array(scaling.std).reshape(1, -1, *beside)
    return scale


def _shaped_like(X: Any, found: Array, signals: Signals) -> Array | list[Array]:
    """Return (n, C, *S) in the form in which the signals were handed over."""
    ragged = isinstance(X, np.ndarray) and X.dtype == object
    if not (isinstance(X, list | tuple) or ragged):
        return found[:, 0] if signals.table else found
    parts = []
    for i, (part, signal) in enumerate(zip(found, X, strict=True)):
        size = signals.size if signals.lengths is None else signals.lengths[i].tolist()
        parts.append(part[(slice(None), *map(slice, size))].reshape(np.shape(signal)))
    return parts
