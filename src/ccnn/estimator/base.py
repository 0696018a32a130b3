"""What both estimators share: their parameters, how they learn, how they are asked."""

import os
from abc import abstractmethod
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    validate_data,
)
from torch import Tensor

from ccnn.estimator import storing
from ccnn.estimator.budget import seconds_of
from ccnn.estimator.defaults import Facts, Settings, choose
from ccnn.estimator.ensemble import Plan, train_all
from ccnn.estimator.inputs import (
    Array,
    Signals,
    as_samples,
    read_signals,
    read_weights,
    standard_scale,
)
from ccnn.estimator.looking import Looking
from ccnn.estimator.parameters import check_parameters, one_pass, overridden
from ccnn.estimator.positions import median_gap, read_positions, span
from ccnn.estimator.predicting import checked_rates, outputs, spacing_of
from ccnn.estimator.training import drawn_seeds
from ccnn.models import CCNN
from ccnn.tasks.scaling import Scaling
from ccnn.tasks.task import Samples


class BaseCCNN(Looking, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A network that is built for the data, trained, and asked, with arrays going in and out."""

    def __init__(
        self,
        *,
        channels: int | None = None,
        blocks: int | None = None,
        kernel_size: Any = None,
        omega_0: float | str | None = None,
        mask_sigma: float | None = None,
        causal: bool = False,
        dropout: float | None = None,
        lr: float | None = None,
        weight_decay: float | None = None,
        batch_size: int | None = None,
        max_epochs: int | None = None,
        validation_fraction: float | None = None,
        early_stopping: bool = True,
        time_budget: float | str | None = None,
        n_ensemble: int = 1,
        warm_start: bool = False,
        device: str = "auto",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.channels = channels
        self.blocks = blocks
        self.kernel_size = kernel_size
        self.omega_0 = omega_0
        self.mask_sigma = mask_sigma
        self.causal = causal
        self.dropout = dropout
        self.lr = lr
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.validation_fraction = validation_fraction
        self.early_stopping = early_stopping
        self.time_budget = time_budget
        self.n_ensemble = n_ensemble
        self.warm_start = warm_start
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        positions: Any = None,
        sampling_rate: Any = None,
    ) -> Self:
        """Train on signals.

        Parameters
        ----------
        X
            Signals: an array (n, length), (n, channels, length), (n, channels, H, W) or
            (n, channels, Z, Y, X); a data frame (n, length); or a list of (channels, length)
            or (length,) where lengths differ. NaN is a missing value. A sample that is NaN in
            all channels does not exist; one that is NaN in some of them exists, and has the
            channel's mean there.
        y
            Classes, or numbers.
        sample_weight
            How much each signal counts, (n,).
        positions
            Time stamps of the samples of series, (n, length), (length,) for all, or a list of
            them; in any order and unit, or dates. One training sample is then their median
            distance, or 1 / ``sampling_rate``.
        sampling_rate
            Samples per unit of time, so that later data may have another rate. One number, or
            one for each axis.

        Returns
        -------
        The estimator.
        """
        going_on = self.warm_start and hasattr(self, "models_")
        return self._learn(
            X, y, sample_weight, positions=positions, rate=sampling_rate, fresh=not going_on
        )

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the fitted estimator into a folder: safetensors and JSON, never a pickle."""
        return storing.save(self, folder)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Return the estimator that `save` wrote; its predictions are the same to the bit."""
        return storing.load(folder, cls)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.three_d_array = True
        return tags

    # What the two do differently

    @abstractmethod
    def _read_targets(self, y: Any, *, fresh: bool, classes: Any) -> Array:
        """Return targets as numbers, and learn what they are, or hold them against it."""

    @abstractmethod
    def _target_scaling(self, scaling: Scaling, targets: Array) -> Scaling:
        """Return the scaling with that of the targets."""

    @abstractmethod
    def _as_tensor(self, targets: Array) -> Tensor:
        """Return targets as the network learns them."""

    @abstractmethod
    def _outputs_and_classes(self) -> tuple[int, int | None]:
        """Return how many numbers the network says, and how many classes they are for."""

    def _class_weights(self, targets: Array) -> Array | None:
        """Return how much each signal counts because of its class, (n,), or None."""
        return None

    # Learning

    def _learn(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        *,
        positions: Any,
        rate: Any,
        fresh: bool,
        once: bool = False,
        classes: Any = None,
    ) -> Self:
        """Train, from the beginning or going on; ``once`` is one pass over the signals."""
        name = type(self).__name__
        parameters = self.get_params(deep=False)
        check_parameters(parameters, name)
        if y is None:
            raise ValueError(
                f"This {name} estimator requires y to be passed, but the target y is None"
            )
        signals = self._signals(X, positions, fresh=fresh)
        targets = self._read_targets(y, fresh=fresh, classes=classes)
        check_consistent_length(signals.values, targets)
        weights = read_weights(sample_weight, self._class_weights(targets), len(targets))
        if weights is not None and (weights == 0).any():
            kept = np.flatnonzero(weights)
            signals, targets, weights = signals.take(kept), targets[kept], weights[kept]
        if not once:
            self._check_counts(targets)
        if fresh:
            self._begin(signals, targets, rate)
        elif rate is not None and checked_rates(rate, len(self.size_)) != self.rate_:
            raise ValueError(
                f"sampling_rate is {rate!r}, but training began with {self.rate_}; it goes on with "
                "signals of the same rate"
            )
        facts = self._facts(signals)
        settings = overridden(choose(facts), parameters, len(signals))
        if once:
            settings = one_pass(settings, len(signals))
        samples = as_samples(
            signals,
            self.scaling_,
            rate=self._rate(),
            dtype=torch.float32,
            targets=self._as_tensor(targets),
            weights=None if weights is None else torch.from_numpy(weights / weights.mean()).float(),
        )
        self._train(samples, settings, facts, old=[] if fresh else self.models_)
        return self

    def _signals(self, X: Any, positions: Any, *, fresh: bool, any_length: bool = False) -> Signals:
        """Read signals; learn what they look like, or hold them against what they looked like."""
        name = type(self).__name__
        signals = read_signals(X, name)
        if positions is not None:
            signals = read_positions(positions, signals)
        if fresh:  # forget the columns of an earlier fit
            self.__dict__.pop("feature_names_in_", None)
        if signals.table and (fresh or (self.table_ and not any_length)):
            validate_data(self, X, reset=fresh, skip_check_array=True)
        elif fresh:
            self.n_features_in_ = signals.channels
        elif (signals.channels, len(signals.size)) != (self.n_channels_, len(self.size_)):
            raise ValueError(
                f"X has {signals.channels} channel(s) and {len(signals.size)} axis/axes, but "
                f"{name} was fitted with {self.n_channels_} and {len(self.size_)}"
            )
        return signals

    def _begin(self, signals: Signals, targets: Array, sampling_rate: Any) -> None:
        """Learn all of the signals that needs no training."""
        size = signals.size
        self.rate_ = None if sampling_rate is None else checked_rates(sampling_rate, len(size))
        if signals.positions is not None:
            if self.rate_ is None:
                self.rate_ = (1 / median_gap(signals.positions),)
            size = (span(signals.positions, self.rate_[0]),)
        self.table_, self.size_, self.n_channels_ = signals.table, size, signals.channels
        self.scaling_ = self._target_scaling(standard_scale(signals.values), targets)

    def _rate(self) -> float:
        """Return training samples per unit of positions; they count samples if nothing was said."""
        return 1.0 if self.rate_ is None else self.rate_[0]

    def _facts(self, signals: Signals) -> Facts:
        return Facts(
            n=len(signals),
            classes=self._outputs_and_classes()[1],
            channels=self.n_channels_,
            size=self.size_,
            unequal=signals.lengths is not None,
            positions=signals.positions is not None,
            missing=signals.holes,
            smooth=signals.smooth,
        )

    def _train(self, samples: Samples, settings: Settings, facts: Facts, old: list[CCNN]) -> None:
        plan = Plan(
            settings=settings,
            facts=facts,
            outputs=self._outputs_and_classes()[0],
            causal=self.causal,
            seeds=drawn_seeds(check_random_state(self.random_state), self.n_ensemble),
            seconds=None if self.time_budget is None else seconds_of(self.time_budget),
            device=self.device,
            verbose=int(self.verbose),
        )
        trained = train_all(plan, samples, old)
        self.settings_ = settings
        self.models_ = trained.models
        self.model_ = trained.models[0]
        self.history_ = trained.history()
        self.result_ = trained.result()
        passes = trained.outcomes[0].steps * min(settings.batch_size, len(samples)) / len(samples)
        self.n_iter_ = max(round(passes), 1)

    # Being asked

    def _outputs(self, X: Any, *, positions: Any, spacing: Any, sampling_rate: Any) -> Array:
        """Return what every network says of every signal, (networks, n, outputs)."""
        check_is_fitted(self, "models_")
        said = spacing_of(
            spacing, sampling_rate, positions, trained_at=self.rate_, dim=len(self.size_)
        )
        signals = self._signals(
            X, positions, fresh=False, any_length=said is not None or positions is not None
        )
        samples = as_samples(signals, self.scaling_, rate=self._rate(), dtype=torch.float32)
        return outputs(self.models_, samples, spacing=said, device=self.device)
