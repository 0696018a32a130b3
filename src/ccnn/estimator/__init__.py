"""Estimators in scikit-learn's manner: `CCNNClassifier` and `CCNNRegressor`."""

from ccnn.estimator.classifier import CCNNClassifier
from ccnn.estimator.regressor import CCNNRegressor

# What scikit-learn's check_estimator asks that a network trained in minibatches cannot do:
# check_estimator(CCNNClassifier(), expected_failed_checks=EXPECTED_FAILED_CHECKS)
EXPECTED_FAILED_CHECKS: dict[str, str] = {
    "check_sample_weight_equivalence_on_dense_data": (
        "a signal with weight 2 stands in one batch, two signals stand in two: the steps differ. "
        "A weight of 0 is the same as leaving the signal out"
    ),
}

__all__ = ["EXPECTED_FAILED_CHECKS", "CCNNClassifier", "CCNNRegressor"]
