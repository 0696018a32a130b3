"""A classifier of sequences, images and volumes, as scikit-learn has them."""

from typing import Any, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import assert_all_finite
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d
from torch import Tensor

from ccnn.estimator.base import BaseCCNN
from ccnn.estimator.inputs import Array
from ccnn.tasks.scaling import Scaling


class CCNNClassifier(ClassifierMixin, BaseCCNN):  # type: ignore[misc]  # scikit-learn has no types
    """A continuous convolutional network that classifies signals.

    Sequences, images and volumes, of equal size or not, with missing samples or at time stamps.
    What is not said is chosen from the data's shape and number. Signals are standardised inside.

    Parameters
    ----------
    channels, blocks
        Width and depth of the network.
    kernel_size, omega_0, mask_sigma
        Of its kernels, as for `ccnn.CCNN`.
    causal
        Whether what the network says of a moment depends on the past only; for series.
    dropout, lr, weight_decay, batch_size
        How it is trained.
    max_epochs
        Passes over the training signals.
    validation_fraction
        The share of the signals held out to choose the best weights, and to stop early.
    early_stopping
        Whether to do so; if not, all signals are learned from and the last weights are kept.
    time_budget
        Seconds, or a text like ``"30s"``, ``"5min"``, ``"1h"``, within which ``fit`` ends. Of
        the steps that would be made without it, as many are made as there is time for, with the
        learning rate's schedule scaled to them; ``result_`` says how many.
    n_ensemble
        Networks with different seeds, whose probabilities are averaged.
    class_weight
        How much each class counts: ``"balanced"``, or a dict from class to number.
    warm_start
        Whether a second ``fit`` goes on with the weights of the first.
    device
        ``"auto"`` (a GPU if there is one), ``"cpu"`` or ``"cuda"``.
    verbose
        0 is silent, 1 shows the progress of training.
    random_state
        A number makes ``fit`` repeatable to the bit; as in scikit-learn otherwise.

    Attributes
    ----------
    model_, models_
        The network, a `ccnn.CCNN` on the CPU, and all of them where there are several.
    classes_
        The classes, in the order of ``predict_proba``.
    settings_
        What was chosen and said: `ccnn.estimator.defaults.Settings`.
    history_
        A dict for each time that training was looked at.
    result_
        Steps made and planned, seconds, and why training ended early if it did.
    scaling_
        Mean and deviation of every channel.
    size_, n_channels_
        Of the training signals; with positions, how many samples at their median distance they
        span.
    rate_
        Samples per unit of time of the training signals where it is known, else None.
    n_features_in_, feature_names_in_
        The number and names of columns where X was (n, length); else the number of channels.
    n_iter_
        Passes over the training signals.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> images = X.reshape(-1, 1, 8, 8)
    >>> clf = CCNNClassifier(max_epochs=3, random_state=0).fit(images[:1000], y[:1000])
    >>> bool(clf.score(images[1000:], y[1000:]) > 0.5)
    True
    """

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
        class_weight: Any = None,
        warm_start: bool = False,
        device: str = "auto",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            channels=channels,
            blocks=blocks,
            kernel_size=kernel_size,
            omega_0=omega_0,
            mask_sigma=mask_sigma,
            causal=causal,
            dropout=dropout,
            lr=lr,
            weight_decay=weight_decay,
            batch_size=batch_size,
            max_epochs=max_epochs,
            validation_fraction=validation_fraction,
            early_stopping=early_stopping,
            time_budget=time_budget,
            n_ensemble=n_ensemble,
            warm_start=warm_start,
            device=device,
            verbose=verbose,
            random_state=random_state,
        )
        self.class_weight = class_weight

    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Any = None,
        sample_weight: Any = None,
        *,
        positions: Any = None,
        sampling_rate: Any = None,
    ) -> Self:
        """Go on training with one pass over more signals.

        The first call decides on the network, the classes and the standardisation.

        Parameters
        ----------
        X, y, sample_weight, positions, sampling_rate
            As for `fit`.
        classes
            All classes there will ever be, for the first call; None is those of its y.
        """
        fresh = not hasattr(self, "models_")
        return self._learn(
            X,
            y,
            sample_weight,
            positions=positions,
            rate=sampling_rate,
            fresh=fresh,
            once=True,
            classes=classes,
        )

    def predict_proba(
        self, X: Any, *, positions: Any = None, spacing: Any = None, sampling_rate: Any = None
    ) -> Array:
        """Return the probability of every class, (n, classes).

        Parameters
        ----------
        X
            Signals as for `fit`. Other lengths and sizes than those trained on are welcome, but
            as a table (n, length), where one is usually a mistake, only if ``spacing``,
            ``sampling_rate`` or ``positions`` is given; (n, 1, length) needs no such word.
        positions
            As for `fit`, in the same unit; samples where fit was given no rate and no positions.
        spacing
            The distance between samples in training samples: 2.0 for every second sample. One
            number, or one for each axis.
        sampling_rate
            Instead of ``spacing`` where `fit` was given it: the rate of these signals.
        """
        said = self._outputs(X, positions=positions, spacing=spacing, sampling_rate=sampling_rate)
        likely = np.exp(said - said.max(axis=2, keepdims=True))
        mean: Array = (likely / likely.sum(axis=2, keepdims=True)).mean(axis=0)
        return mean

    def predict(
        self, X: Any, *, positions: Any = None, spacing: Any = None, sampling_rate: Any = None
    ) -> Array:
        """Return the most likely class of every signal, (n,); arguments as for `predict_proba`."""
        likely = self.predict_proba(
            X, positions=positions, spacing=spacing, sampling_rate=sampling_rate
        )
        classes: Array = self.classes_[likely.argmax(axis=1)]
        return classes

    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        positions: Any = None,
        spacing: Any = None,
        sampling_rate: Any = None,
    ) -> float:
        """Return the accuracy; arguments as for `predict_proba`."""
        predicted = self.predict(
            X, positions=positions, spacing=spacing, sampling_rate=sampling_rate
        )
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))

    def _read_targets(self, y: Any, *, fresh: bool, classes: Any) -> Array:
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        found, codes = np.unique(y, return_inverse=True)
        if fresh:
            self.classes_ = found if classes is None else np.unique(classes)
        unknown = found[~np.isin(found, self.classes_)]
        if len(unknown):
            raise ValueError(
                f"y holds the class(es) {unknown.tolist()[:10]}, but training began with "
                f"{self.classes_.tolist()[:10]}"
            )
        numbers: Array = np.searchsorted(self.classes_, found)[codes]
        return numbers

    def _check_counts(self, targets: Array) -> None:
        found = self.classes_[np.unique(targets)]
        if len(found) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least two classes to learn from, but y, where it "
                f"counts, has 1 class: {found.tolist()}"
            )

    def _class_weights(self, targets: Array) -> Array | None:
        if self.class_weight is None:
            return None
        weights: Array = compute_sample_weight(self.class_weight, self.classes_[targets])
        return weights

    def _target_scaling(self, scaling: Scaling, targets: Array) -> Scaling:
        return scaling

    def _as_tensor(self, targets: Array) -> Tensor:
        return torch.from_numpy(targets).long()

    def _outputs_and_classes(self) -> tuple[int, int | None]:
        return len(self.classes_), len(self.classes_)
