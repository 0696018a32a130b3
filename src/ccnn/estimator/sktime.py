"""The estimators as sktime's own kind, for its pipelines and its containers of series.

Needs sktime, which ccnn does not install. Without this module sktime takes an estimator for one of
tables, and hands it each case as one row of numbers, all channels behind each other.
"""

from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sktime.classification.base import BaseClassifier
from sktime.regression.base import BaseRegressor

from ccnn.estimator.classifier import CCNNClassifier
from ccnn.estimator.regressor import CCNNRegressor

_TAGS = {
    "X_inner_mtype": "df-list",  # the container that holds unequal lengths
    "y_inner_mtype": "numpy1D",
    "capability:multivariate": True,
    "capability:unequal_length": True,
    "capability:missing_values": True,
    "capability:categorical_in_X": False,
    "authors": "The ccnn authors",
    "maintainers": "The ccnn authors",
}


class SktimeCCNNClassifier(BaseClassifier):  # type: ignore[misc]  # sktime has no types
    """A `ccnn.CCNNClassifier` as an sktime classifier.

    Parameters
    ----------
    estimator
        A `ccnn.CCNNClassifier` with the settings to use; None is ``CCNNClassifier()``. It is
        cloned before it is fitted.

    Attributes
    ----------
    estimator_
        The fitted `ccnn.CCNNClassifier`.

    Examples
    --------
    >>> from sktime.datasets import load_unit_test
    >>> from ccnn.estimator import CCNNClassifier
    >>> from ccnn.estimator.sktime import SktimeCCNNClassifier
    >>> X, y = load_unit_test()
    >>> classifier = SktimeCCNNClassifier(CCNNClassifier(max_epochs=1))
    >>> classifier.fit(X, y)
    SktimeCCNNClassifier(...)
    """

    _tags: ClassVar[dict[str, Any]] = _TAGS | {"capability:predict_proba": True}

    def __init__(self, estimator: CCNNClassifier | None = None) -> None:
        self.estimator = estimator
        super().__init__()

    def _fit(self, X: list[pd.DataFrame], y: NDArray[Any]) -> Self:
        chosen = CCNNClassifier() if self.estimator is None else clone(self.estimator)
        self.estimator_ = chosen.fit(_series(X), y)
        return self

    def _predict(self, X: list[pd.DataFrame]) -> NDArray[Any]:
        return np.asarray(self.estimator_.predict(_series(X)))

    def _predict_proba(self, X: list[pd.DataFrame]) -> NDArray[Any]:
        return np.asarray(self.estimator_.predict_proba(_series(X)))

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return the parameters that sktime's checks build the estimator with."""
        quick = CCNNClassifier(max_epochs=1, channels=8, blocks=1, random_state=0)
        pair = CCNNClassifier(max_epochs=1, channels=8, blocks=1, random_state=0, n_ensemble=2)
        return [{"estimator": quick}, {"estimator": pair}]


class SktimeCCNNRegressor(BaseRegressor):  # type: ignore[misc]  # sktime has no types
    """A `ccnn.CCNNRegressor` as an sktime regressor.

    Parameters
    ----------
    estimator
        A `ccnn.CCNNRegressor` with the settings to use; None is ``CCNNRegressor()``. It is cloned
        before it is fitted.

    Attributes
    ----------
    estimator_
        The fitted `ccnn.CCNNRegressor`.

    Examples
    --------
    >>> from sktime.datasets import load_unit_test
    >>> from ccnn.estimator import CCNNRegressor
    >>> from ccnn.estimator.sktime import SktimeCCNNRegressor
    >>> X, y = load_unit_test()
    >>> regressor = SktimeCCNNRegressor(CCNNRegressor(max_epochs=1))
    >>> regressor.fit(X, y.astype(float))
    SktimeCCNNRegressor(...)
    """

    _tags: ClassVar[dict[str, Any]] = _TAGS

    def __init__(self, estimator: CCNNRegressor | None = None) -> None:
        self.estimator = estimator
        super().__init__()

    def _fit(self, X: list[pd.DataFrame], y: NDArray[Any]) -> Self:
        chosen = CCNNRegressor() if self.estimator is None else clone(self.estimator)
        self.estimator_ = chosen.fit(_series(X), y)
        return self

    def _predict(self, X: list[pd.DataFrame]) -> NDArray[Any]:
        return np.asarray(self.estimator_.predict(_series(X)))

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return the parameters that sktime's checks build the estimator with."""
        quick = CCNNRegressor(max_epochs=1, channels=8, blocks=1, random_state=0)
        pair = CCNNRegressor(max_epochs=1, channels=8, blocks=1, random_state=0, n_ensemble=2)
        return [{"estimator": quick}, {"estimator": pair}]


def _series(frames: list[pd.DataFrame]) -> list[NDArray[Any]]:
    """Return the cases as arrays (channels, length)."""
    return [frame.to_numpy().T for frame in frames]
