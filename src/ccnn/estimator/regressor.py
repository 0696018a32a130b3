"""A regressor on sequences, images and volumes, as scikit-learn has them."""

from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_array
from torch import Tensor

from ccnn.estimator.base import BaseCCNN
from ccnn.estimator.inputs import Array, standard_scale
from ccnn.tasks.scaling import Scaling


class CCNNRegressor(RegressorMixin, BaseCCNN):  # type: ignore[misc]  # scikit-learn has no types
    """A continuous convolutional network that learns numbers from signals.

    Parameters and attributes are those of `ccnn.CCNNClassifier`, without classes and their
    weights. y may hold one number for each signal, (n,), or several, (n, K). Numbers are
    standardised inside, too; networks of an ensemble are averaged.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 3, 40))
    >>> y = X[:, 0].max(axis=1)
    >>> CCNNRegressor(max_epochs=2).fit(X, y).predict(X[:5]).shape
    (5,)
    """

    def partial_fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        positions: Any = None,
        sampling_rate: Any = None,
    ) -> Self:
        """Go on training with one pass over more signals; arguments as for `fit`.

        The first call decides on the network and the standardisation.
        """
        fresh = not hasattr(self, "models_")
        return self._learn(
            X, y, sample_weight, positions=positions, rate=sampling_rate, fresh=fresh, once=True
        )

    def predict(
        self, X: Any, *, positions: Any = None, spacing: Any = None, sampling_rate: Any = None
    ) -> Array:
        """Return the numbers for every signal, (n,) or (n, K) as they were learned.

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
        mean, std = np.array(self.scaling_.target_mean), np.array(self.scaling_.target_std)
        numbers: Array = said.mean(axis=0) * std + mean
        return numbers[:, 0] if self.n_targets_ is None else numbers

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
        """Return R², the share of y's variance that is explained; arguments as for `predict`."""
        predicted = self.predict(
            X, positions=positions, spacing=spacing, sampling_rate=sampling_rate
        )
        return float(r2_score(y, predicted, sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _read_targets(self, y: Any, *, fresh: bool, classes: Any) -> Array:
        numbers: Array = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        if numbers.ndim > 2:
            raise ValueError(f"y has shape {numbers.shape}; expected (n,) or (n, numbers)")
        count = None if numbers.ndim == 1 else numbers.shape[1]
        if fresh:
            self.n_targets_ = count
        elif count != self.n_targets_:
            raise ValueError(
                f"y has {count or 1} number(s) for each signal, but training began with "
                f"{self.n_targets_ or 1}"
            )
        return numbers.reshape(len(numbers), -1)

    def _check_counts(self, targets: Array) -> None:
        if len(targets) < 2:
            raise ValueError(
                f"Found {len(targets)} sample (n_samples={len(targets)}) while a minimum of 2 is "
                f"required by {type(self).__name__}"
            )

    def _target_scaling(self, scaling: Scaling, targets: Array) -> Scaling:
        found = standard_scale(targets)
        return replace(scaling, target_mean=found.mean, target_std=found.std)

    def _as_tensor(self, targets: Array) -> Tensor:
        mean, std = np.array(self.scaling_.target_mean), np.array(self.scaling_.target_std)
        return torch.from_numpy((targets - mean) / std).float()

    def _outputs_and_classes(self) -> tuple[int, int | None]:
        return self.n_targets_ or 1, None
