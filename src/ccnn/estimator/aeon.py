"""The estimators as aeon's own kind, for its pipelines, ensembles and benchmarks.

Needs aeon, which ccnn does not install. Without this module an estimator can stand at the end of an
aeon pipeline too, but aeon then refuses several channels, unequal lengths and missing values, which
it only hands to estimators of its own kind.
"""

from typing import Any, ClassVar, Self

import numpy as np
from aeon.classification import BaseClassifier
from aeon.regression import BaseRegressor
from numpy.typing import NDArray
from sklearn.base import clone

from ccnn.estimator.classifier import CCNNClassifier
from ccnn.estimator.regressor import CCNNRegressor

Collection = NDArray[Any] | list[NDArray[Any]]

_TAGS = {
    "X_inner_type": ["np-list", "numpy3D"],
    "capability:multivariate": True,
    "capability:unequal_length": True,
    "capability:missing_values": True,
    "algorithm_type": "deeplearning",
}


class AeonCCNNClassifier(BaseClassifier):  # type: ignore[misc]  # aeon has no types
    """A `ccnn.CCNNClassifier` as an aeon classifier.

    Parameters
    ----------
    estimator
        A `ccnn.CCNNClassifier` with the settings to use; None is ``CCNNClassifier()``. It is
        cloned before it is fitted.

    Attributes
    ----------
    estimator_
        The fitted `ccnn.CCNNClassifier`.
    """

    _tags: ClassVar[dict[str, Any]] = _TAGS

    def __init__(self, estimator: CCNNClassifier | None = None) -> None:
        self.estimator = estimator
        super().__init__()

    def _fit(self, X: Collection, y: NDArray[Any]) -> Self:
        chosen = CCNNClassifier() if self.estimator is None else clone(self.estimator)
        self.estimator_ = chosen.fit(X, y)
        return self

    def _predict(self, X: Collection) -> NDArray[Any]:
        return np.asarray(self.estimator_.predict(X))

    def _predict_proba(self, X: Collection) -> NDArray[Any]:
        return np.asarray(self.estimator_.predict_proba(X))

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        """Return the parameters that aeon's checks build the estimator with."""
        return {"estimator": CCNNClassifier(max_epochs=1, channels=8, blocks=1, random_state=0)}


class AeonCCNNRegressor(BaseRegressor):  # type: ignore[misc]  # aeon has no types
    """A `ccnn.CCNNRegressor` as an aeon regressor.

    Parameters
    ----------
    estimator
        A `ccnn.CCNNRegressor` with the settings to use; None is ``CCNNRegressor()``. It is cloned
        before it is fitted.

    Attributes
    ----------
    estimator_
        The fitted `ccnn.CCNNRegressor`.
    """

    _tags: ClassVar[dict[str, Any]] = _TAGS

    def __init__(self, estimator: CCNNRegressor | None = None) -> None:
        self.estimator = estimator
        super().__init__()

    def _fit(self, X: Collection, y: NDArray[Any]) -> Self:
        chosen = CCNNRegressor() if self.estimator is None else clone(self.estimator)
        self.estimator_ = chosen.fit(X, y)
        return self

    def _predict(self, X: Collection) -> NDArray[Any]:
        return np.asarray(self.estimator_.predict(X))

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        """Return the parameters that aeon's checks build the estimator with."""
        return {"estimator": CCNNRegressor(max_epochs=1, channels=8, blocks=1, random_state=0)}
