"""What scikit-learn asks of every estimator, check by check."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from ccnn.estimator import EXPECTED_FAILED_CHECKS, CCNNClassifier, CCNNRegressor

# Small and quick; but it has to learn in twenty passes what the checks demand a score on: tables in
# which a column matters for where it stands. A kernel that reaches every end from everywhere does.
SMALL = {
    "channels": 16,
    "blocks": 1,
    "kernel_size": "full",
    "mask_sigma": 1.0,
    "dropout": 0.0,
    "lr": 0.1,
    "batch_size": 64,
    "max_epochs": 20,
}


@parametrize_with_checks(
    [CCNNClassifier(**SMALL), CCNNRegressor(**SMALL)],
    expected_failed_checks=lambda estimator: EXPECTED_FAILED_CHECKS,
    xfail_strict=True,
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def test_few_checks_are_expected_to_fail_and_each_has_its_reason():
    assert len(EXPECTED_FAILED_CHECKS) <= 2
    assert all(reason.strip() for reason in EXPECTED_FAILED_CHECKS.values())
