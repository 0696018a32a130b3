"""The estimators inside of aeon and sktime, judged by their own checks; skipped without them."""

import numpy as np
import pytest

from ccnn import CCNNClassifier

# Their warnings are theirs, as are those of the libraries they use.
pytestmark = pytest.mark.filterwarnings("ignore")


def quick() -> CCNNClassifier:
    return CCNNClassifier(max_epochs=1, channels=8, blocks=1, random_state=0)


def cases(channels: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, channels, 20))
    X[6:] += 2 * np.sin(np.arange(20))
    return X, np.repeat(["no", "yes"], 6)


def unequal() -> tuple[list[np.ndarray], np.ndarray]:
    X, y = cases()
    ragged = [x[:, : 20 - i % 5] for i, x in enumerate(X)]
    ragged[0][:, 3] = np.nan
    return ragged, y


# aeon


def test_an_estimator_stands_in_an_aeon_pipeline_as_it_is():
    aeon = pytest.importorskip("aeon.pipeline")
    collection = pytest.importorskip("aeon.transformations.collection")
    X, y = cases(channels=1)
    pipe = aeon.make_pipeline(collection.Normalizer(), quick()).fit(X, y)
    scaled = collection.Normalizer().fit_transform(X)
    alone = quick().fit(scaled, y)
    np.testing.assert_array_equal(pipe.predict_proba(X), alone.predict_proba(scaled))


@pytest.mark.parametrize("data", [cases, unequal])
def test_the_adapter_takes_aeons_data_through_aeons_pipeline(data):
    aeon = pytest.importorskip("aeon.pipeline")
    collection = pytest.importorskip("aeon.transformations.collection")
    from ccnn.estimator.aeon import AeonCCNNClassifier

    X, y = data()
    alone = quick().fit(X, y)
    adapted = AeonCCNNClassifier(quick()).fit(X, y)
    np.testing.assert_array_equal(adapted.predict_proba(X), alone.predict_proba(X))
    if data is cases:  # aeon's own transformers refuse missing values
        pipe = aeon.make_pipeline(collection.Normalizer(), AeonCCNNClassifier(quick()))
        scaled = collection.Normalizer().fit_transform(X)
        alone = quick().fit(scaled, y)
        np.testing.assert_array_equal(pipe.fit(X, y).predict_proba(X), alone.predict_proba(scaled))


@pytest.mark.parametrize("kind", ["AeonCCNNClassifier", "AeonCCNNRegressor"])
def test_aeons_own_checks_pass(kind):
    checking = pytest.importorskip("aeon.testing.estimator_checking")
    from ccnn.estimator.aeon import AeonCCNNClassifier, AeonCCNNRegressor

    classes = {
        "AeonCCNNClassifier": AeonCCNNClassifier,
        "AeonCCNNRegressor": AeonCCNNRegressor,
    }
    results = checking.check_estimator(classes[kind])
    assert len(results) > 20
    assert not {k: v for k, v in results.items() if v.startswith("FAILED")}


# sktime


def test_sktime_hands_an_estimator_without_adapter_a_table():
    """Why there is an adapter: channels arrive behind each other, as one long series."""
    sktime = pytest.importorskip("sktime.classification.compose")
    summarize = pytest.importorskip("sktime.transformations.exponent")
    X, y = cases()
    pipe = sktime.SklearnClassifierPipeline(quick(), [summarize.ExponentTransformer(1, offset=0)])
    pipe.fit(X, y)
    assert pipe.classifier_.n_channels_ == 1
    assert pipe.classifier_.size_ == (40,)


@pytest.mark.parametrize("data", [cases, unequal])
def test_the_adapter_takes_sktimes_data_through_sktimes_pipeline(data):
    sktime = pytest.importorskip("sktime.pipeline")
    exponent = pytest.importorskip("sktime.transformations.exponent")
    pandas = pytest.importorskip("pandas")
    from ccnn.estimator.sktime import SktimeCCNNClassifier

    X, y = data()
    alone = quick().fit(list(X), y)
    panel = X if data is cases else [pandas.DataFrame(x.T) for x in X]
    adapted = SktimeCCNNClassifier(quick()).fit(panel, y)
    np.testing.assert_array_equal(adapted.predict_proba(panel), alone.predict_proba(list(X)))
    pipe = sktime.make_pipeline(
        exponent.ExponentTransformer(1, offset=0), SktimeCCNNClassifier(quick())
    )
    pipe.fit(panel, y)
    np.testing.assert_allclose(pipe.predict_proba(panel), alone.predict_proba(list(X)))


@pytest.mark.parametrize("kind", ["SktimeCCNNClassifier", "SktimeCCNNRegressor"])
def test_sktimes_own_checks_pass(kind):
    checks = pytest.importorskip("sktime.utils.estimator_checks")
    from ccnn.estimator.sktime import SktimeCCNNClassifier, SktimeCCNNRegressor

    classes = {
        "SktimeCCNNClassifier": SktimeCCNNClassifier,
        "SktimeCCNNRegressor": SktimeCCNNRegressor,
    }
    results = checks.check_estimator(classes[kind], verbose=False)
    assert len(results) > 20
    assert not {name: result for name, result in results.items() if result != "PASSED"}
