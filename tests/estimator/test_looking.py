"""Kernels, history and saliency of a fitted estimator."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError

from ccnn import CCNNClassifier, CCNNRegressor
from ccnn.plots import panels

LENGTH = 40


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def bumps(count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return noise (n, LENGTH) with a bump in half of it, what is in each, and where it is."""
    rng = np.random.default_rng(seed)
    place = rng.integers(8, LENGTH - 8, size=count)
    y = np.where(np.arange(count) % 2, "bump", "none")
    bump = np.exp(-(((np.arange(LENGTH) - place[:, None]) / 2) ** 2))
    X = 5 + 3 * (0.3 * rng.standard_normal((count, LENGTH)) + 3 * bump * (y == "bump")[:, None])
    return X, y, place


@pytest.fixture(scope="module")
def clf() -> CCNNClassifier:
    X, y, _ = bumps(64, seed=0)
    clf = CCNNClassifier(
        max_epochs=20, channels=12, blocks=2, lr=0.02, n_ensemble=2, random_state=0
    )
    return clf.fit(X, y)


@pytest.fixture(scope="module")
def reg() -> CCNNRegressor:
    """A regressor of two numbers from series with two channels, unequal lengths and holes."""
    rng = np.random.default_rng(0)
    X = [rng.standard_normal((2, rng.integers(15, 25))) * [[1.0], [7.0]] + 3 for _ in range(24)]
    for x in X[:12]:
        x[:, 4:6] = np.nan
    y = np.array([[np.nanmean(x[0]), 100 * np.nanstd(x[1])] for x in X])
    return CCNNRegressor(max_epochs=3, channels=12, blocks=2, random_state=0).fit(X, y)


def holed() -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    X = [rng.standard_normal((2, n)) * [[1.0], [7.0]] + 3 for n in (15, 24, 19)]
    X[0][:, 3] = np.nan
    X[1][1, 5] = np.nan  # the other channel was measured
    return X


def mean_signals(X: list[np.ndarray], reg: CCNNRegressor) -> list[np.ndarray]:
    """The baseline of integrated gradients: where something was measured, the channel's mean."""
    mean = np.array(reg.scaling_.mean)[:, None]
    return [np.where(np.isnan(x), np.nan, mean) for x in X]


# Saliency


@pytest.mark.parametrize("method", ["gradient", "product", "integrated"])
def test_saliency_points_at_the_planted_pattern(clf, method):
    X, y, place = bumps(40, seed=1)
    assert clf.score(X, y) > 0.9
    X, place = X[y == "bump"], place[y == "bump"]
    found = clf.saliency(X, target="bump", method=method)
    distance = np.abs(np.arange(LENGTH) - place[:, None])
    weight = np.abs(found)
    near, far = weight[distance <= 4].mean(), weight[distance > 8].mean()
    assert near > 2 * far
    if method != "gradient":  # which answers to noise as well
        assert np.median(np.abs(weight.argmax(axis=1) - place)) <= 2


def test_integrated_gradients_of_a_classifier_add_up(clf):
    """Completeness: their sum is f(x) - f(mean), f being the mean of the networks' outputs."""
    X, _, _ = bumps(6, seed=2)
    scaled = (X - clf.scaling_.mean[0]) / clf.scaling_.std[0]
    x = torch.tensor(scaled, dtype=torch.float32)[:, None]
    with torch.no_grad():
        outputs = sum((m(x) - m(torch.zeros_like(x))).numpy() for m in clf.models_) / 2
    for label, expected in zip(clf.classes_, outputs.T, strict=True):
        found = clf.saliency(X, target=label, steps=512).sum(axis=1)
        # What the quadrature leaves over: little, since the network is smooth.
        np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(outputs).max())


@pytest.mark.parametrize("target", [0, 1])
def test_integrated_gradients_of_a_regressor_add_up_in_its_unit(reg, target):
    X = holed()
    change = reg.predict(X)[:, target] - reg.predict(mean_signals(X, reg))[:, target]
    found = reg.saliency(X, target=target, steps=64)
    sums = [each.sum() for each in found]
    np.testing.assert_allclose(sums, change, atol=1e-3 * np.abs(reg.predict(X)[:, target]).max())


def test_the_gradient_is_that_of_the_prediction(reg):
    """Against differences of predictions, in X's unit and the target's."""
    X = holed()
    found = reg.saliency(X, target=1, method="gradient")
    step = 0.05  # small beside the deviation, large beside the rounding of float32
    for signal, channel, sample in [(0, 0, 0), (1, 1, 23), (2, 1, 8)]:
        more, less = holed(), holed()
        more[signal][channel, sample] += step
        less[signal][channel, sample] -= step
        slope = (reg.predict(more) - reg.predict(less))[signal, 1] / (2 * step)
        largest = np.abs(found[signal]).max()
        assert found[signal][channel, sample] == pytest.approx(slope, abs=0.02 * largest)


def test_the_product_is_gradient_times_distance_from_the_mean(clf):
    X, _, _ = bumps(4, seed=3)
    product = clf.saliency(X, target="bump", method="product")
    gradient = clf.saliency(X, target="bump", method="gradient")
    np.testing.assert_allclose(product, (X - clf.scaling_.mean[0]) * gradient, rtol=1e-9)


def test_the_result_has_the_form_of_the_signals(clf):
    X, _, _ = bumps(3, seed=0)
    table = clf.saliency(X, method="product")
    assert table.shape == (3, LENGTH)
    assert clf.saliency(X[:, None], method="product").shape == (3, 1, LENGTH)
    assert [each.shape for each in clf.saliency(list(X), method="product")] == [(LENGTH,)] * 3
    ragged = clf.saliency([X[0], X[1, :30]], method="product")
    assert [each.shape for each in ragged] == [(LENGTH,), (30,)]
    np.testing.assert_allclose(ragged[0], table[0], rtol=1e-9, atol=1e-12)


def test_what_was_not_measured_has_no_weight(reg):
    found = reg.saliency(holed(), target=0)
    assert [each.shape for each in found] == [x.shape for x in holed()]
    for each, x in zip(found, holed(), strict=True):
        assert np.isfinite(each).all()
        assert (each[np.isnan(x)] == 0).all()
        assert (each[~np.isnan(x)] != 0).all()


def test_the_predicted_class_is_explained_unless_another_is_named(clf):
    X, _, _ = bumps(4, seed=5)
    predicted = clf.predict(X)
    other = np.where(predicted == "bump", "none", "bump")
    found = clf.saliency(X, method="product")
    np.testing.assert_array_equal(found, clf.saliency(X, method="product", target=predicted))
    assert not np.allclose(found, clf.saliency(X, method="product", target=other))


def test_saliency_at_another_resolution(clf):
    """Twice as coarse: half as many samples, each of about twice the weight."""
    X, y, place = bumps(20, seed=6)
    X, place = X[y == "bump"], place[y == "bump"]
    coarse = clf.saliency(X[:, ::2], target="bump", spacing=2.0)
    assert coarse.shape == (10, LENGTH // 2)
    assert np.median(np.abs(2 * np.abs(coarse).argmax(axis=1) - place)) <= 3


def test_saliency_at_time_stamps():
    X, y, _ = bumps(16, seed=7)
    times = np.arange(LENGTH) / 4.0
    clf = CCNNClassifier(max_epochs=1, channels=8, blocks=1, random_state=0)
    clf.fit(X, y, positions=times)
    order = np.random.default_rng(0).permutation(LENGTH)
    straight = clf.saliency(X[:3], positions=times, method="product")
    shuffled = clf.saliency(X[:3, order], positions=times[order], method="product")
    np.testing.assert_allclose(shuffled, straight[:, order], rtol=1e-6, atol=1e-9)


def test_saliency_of_images():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((8, 1, 5, 6)), np.arange(8) % 2
    clf = CCNNClassifier(max_epochs=1, channels=8, blocks=1, random_state=0).fit(X, y)
    assert clf.saliency(X[:2], method="gradient").shape == (2, 1, 5, 6)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"method": "magic"}, "method is 'magic'; expected one of gradient, product, integrated"),
        ({"target": "hill"}, r"target names \['hill'\], but the classes are"),
        ({"target": ["bump", "bump"]}, r"target has shape \(2,\); expected one class, or 3"),
        ({"steps": 0}, "steps is 0"),
    ],
)
def test_what_makes_no_sense_is_named(clf, settings, words):
    with pytest.raises(ValueError, match=words):
        clf.saliency(bumps(3, seed=0)[0], **settings)


def test_a_regressor_of_several_numbers_asks_which_one(reg):
    with pytest.raises(ValueError, match="there are 2 outputs"):
        reg.saliency(holed())
    with pytest.raises(ValueError, match="target is 2; expected"):
        reg.saliency(holed(), target=2)


# Figures


def test_kernels_are_drawn_layer_by_layer(clf):
    axes = clf.plot_kernels(channels=[0, 3], spacing=0.5, member=1)
    assert [ax.get_title() for ax in axes] == ["stem", "block 1", "block 2"]
    for ax, layer in zip(axes, clf.models_[1].convolutions(), strict=True):
        kernel = layer.sampled_kernel(0.5).detach().numpy()
        for line, channel in zip(ax.get_lines(), [0, 3][: len(kernel)], strict=False):
            np.testing.assert_array_equal(line.get_ydata(), kernel[channel])
    assert [len(ax.get_lines()) for ax in axes] == [2, 3, 3]  # with the line at zero


def test_figures_go_where_they_are_told(clf):
    axes = panels(3)
    assert clf.plot_kernels(axes=axes) == axes
    (ax,) = panels(1)
    assert clf.plot_history(ax=ax) is ax
    assert plt.get_fignums() == []
    with pytest.raises(ValueError, match="there are 1 axes for 3 layers"):
        clf.plot_kernels(axes=[ax])


def test_the_history_that_is_drawn_is_the_trainings(clf):
    line = clf.plot_history(member=1).get_lines()[0]
    rows = [row for row in clf.history_ if row["member"] == 1]
    np.testing.assert_array_equal(line.get_xdata(), [row["step"] for row in rows])
    np.testing.assert_array_equal(line.get_ydata(), [row["train_loss"] for row in rows])


def test_held_out_signals_have_a_curve_of_their_own():
    X, y, _ = bumps(32, seed=0)
    clf = CCNNClassifier(
        max_epochs=2, channels=8, blocks=1, validation_fraction=0.25, random_state=0
    )
    lines = clf.fit(X, y).plot_history().get_lines()
    assert [line.get_label() for line in lines] == ["training", "held out"]


def test_what_is_not_fitted_shows_nothing():
    with pytest.raises(NotFittedError):
        CCNNClassifier().plot_kernels()
    with pytest.raises(NotFittedError):
        CCNNClassifier().plot_history()
    with pytest.raises(NotFittedError):
        CCNNClassifier().saliency(np.zeros((2, 5)))


def test_a_network_that_is_not_there_is_named(clf):
    with pytest.raises(ValueError, match="there is no network 2: there are 2"):
        clf.plot_kernels(member=2)
    with pytest.raises(ValueError, match="there is no network 5"):
        clf.plot_history(member=5)
