"""Fitting and asking the estimators: what they learn, repeat, keep and refuse."""

import pickle
import random
import signal
import time
from dataclasses import replace

import joblib
import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ccnn
from ccnn import CCNNClassifier, CCNNRegressor
from ccnn.estimator.augment import AUGMENTS
from ccnn.estimator.budget import seconds_of
from ccnn.estimator.defaults import Facts, choose
from ccnn.estimator.ensemble import Plan, train_all
from ccnn.estimator.training import hold_out, lay_out
from ccnn.tasks.task import Samples

QUICK = {
    "channels": 16,
    "blocks": 1,
    "mask_sigma": 0.3,
    "dropout": 0.0,
    "lr": 0.05,
    "batch_size": 20,
    "random_state": 0,
}


def waves(n=40, length=32, seed=0):
    """Return slow and fast waves, (n, length), at any phase, and which is which."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    time_ = np.arange(length) + rng.uniform(0, 100, size=(n, 1))
    X = np.sin(2 * np.pi * time_ / np.where(y == 0, 16, 8)[:, None])
    return X + 0.1 * rng.normal(size=X.shape), y


X, Y = waves()
X_NEW, Y_NEW = waves(seed=1)


@pytest.fixture(scope="module")
def fitted():
    return CCNNClassifier(**QUICK, max_epochs=20).fit(X, Y, sampling_rate=100)


def few(**more):
    """Return a classifier that is trained for two steps: enough to be a function of everything."""
    return CCNNClassifier(**(QUICK | {"max_epochs": 1} | more))


# Learning


def test_waves_are_told_apart_and_their_classes_may_be_anything(fitted):
    assert fitted.score(X_NEW, Y_NEW) > 0.95
    names = np.array(["slow", "fast"], dtype=object)
    named = CCNNClassifier(**QUICK, max_epochs=20).fit(X, names[Y])
    assert named.classes_.tolist() == ["fast", "slow"]
    assert named.score(X_NEW, names[Y_NEW]) > 0.95


def test_predictions_are_those_of_the_network(fitted):
    x = (X_NEW[:, None] - fitted.scaling_.mean[0]) / fitted.scaling_.std[0]
    with torch.no_grad():
        said = fitted.model_(torch.from_numpy(x).float()).softmax(dim=1)
    # The estimator computes in double precision.
    assert np.allclose(fitted.predict_proba(X_NEW), said, atol=1e-4)
    assert (fitted.predict(X_NEW) == said.argmax(dim=1).numpy()).all()


def test_numbers_are_learned_in_whatever_unit_they_are():
    y = X.max(axis=1)[:, None] * [1.0, -2.0] + Y[:, None]
    both = CCNNRegressor(**QUICK, max_epochs=20).fit(X, y)
    assert both.predict(X).shape == (40, 2)
    assert both.score(X, y) > 0.5
    one, other = (CCNNRegressor(**QUICK, max_epochs=1).fit(X, u) for u in (y, 1e6 * y - 5e7))
    # The targets are rounded differently before they are standardised.
    assert np.allclose(other.predict(X_NEW), 1e6 * one.predict(X_NEW) - 5e7, rtol=0, atol=1e3)


@pytest.mark.parametrize("shape", [(2, 9), (1, 6, 5), (1, 4, 3, 4)])
def test_series_images_and_volumes_go_the_same_way(shape):
    rng = np.random.default_rng(0)
    signals = rng.normal(size=(20, *shape)) + np.arange(20).reshape(-1, *[1] * len(shape)) % 2
    estimator = few().fit(signals, np.arange(20) % 2)
    assert estimator.size_ == shape[1:]
    assert estimator.n_channels_ == shape[0]
    assert estimator.predict_proba(signals).shape == (20, 2)
    with pytest.raises(ValueError, match="was fitted with"):
        estimator.predict(np.concatenate([signals, signals], axis=1))
    with pytest.raises(ValueError, match="was fitted with"):
        estimator.predict(signals[..., 0] if len(shape) > 2 else signals[..., None])


def test_an_ensemble_averages_networks_that_differ():
    three = few(n_ensemble=3).fit(X, Y)
    assert len(three.models_) == 3
    assert {row["member"] for row in three.history_} == {0, 1, 2}
    alone = []
    for model in three.models_:
        one = clone(three).set_params(n_ensemble=1).fit(X, Y)
        one.models_ = [model]
        alone.append(one.predict_proba(X_NEW))
    assert not np.allclose(alone[0], alone[1])
    assert np.allclose(three.predict_proba(X_NEW), np.mean(alone, axis=0), rtol=1e-12)


# Weights


def test_a_weight_of_zero_is_leaving_the_signal_out():
    weight = np.where(np.arange(40) < 10, 0.0, 3.0)
    weighted = few().fit(X, Y, sample_weight=weight)
    without = few().fit(X[10:], Y[10:], sample_weight=weight[10:])
    assert np.array_equal(weighted.predict_proba(X_NEW), without.predict_proba(X_NEW))


def test_class_weights_are_sample_weights_by_class():
    weight = np.where(Y == 0, 5.0, 1.0)
    by_class = few(class_weight={0: 5.0, 1: 1.0}).fit(X, Y)
    by_signal = few().fit(X, Y, sample_weight=weight)
    alike = few().fit(X, Y)
    assert np.array_equal(by_class.predict_proba(X_NEW), by_signal.predict_proba(X_NEW))
    assert not np.array_equal(by_class.predict_proba(X_NEW), alike.predict_proba(X_NEW))
    balanced = few(class_weight="balanced").fit(X, Y)  # which they are
    assert np.allclose(balanced.predict_proba(X_NEW), alike.predict_proba(X_NEW), atol=1e-4)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.ones(39), "one number for each signal"),
        (-np.ones(40), "negative"),
        (np.zeros(40), "all are zero"),
        (np.full(40, np.nan), "NaN"),
        (Y.astype(float), "1 class"),
    ],
)
def test_weights_that_make_no_sense_are_refused(weight, message):
    with pytest.raises(ValueError, match=message):
        few().fit(X, Y, sample_weight=weight)


# Other rates, lengths, holes and time stamps


def test_a_network_is_used_at_half_the_rate_it_was_trained_at(fitted):
    half = X_NEW[:, ::2]
    assert fitted.score(half, Y_NEW, spacing=2.0) > 0.95
    told = fitted.predict_proba(half, spacing=2.0)
    assert np.array_equal(told, fitted.predict_proba(half, sampling_rate=50))
    assert not np.allclose(told, fitted.predict_proba(half, spacing=1.0), atol=0.01)


def test_another_length_is_a_mistake_in_a_table_unless_one_says_so(fitted):
    longer = np.concatenate([X_NEW, X_NEW[:, :5]], axis=1)
    with pytest.raises(ValueError, match="X has 37 features, but CCNNClassifier is expecting 32"):
        fitted.predict(longer)
    asked = fitted.predict_proba(longer[:, None])
    assert np.array_equal(asked, fitted.predict_proba(longer, spacing=1.0))


def test_rates_that_cannot_be_compared_are_refused(fitted):
    with pytest.raises(ValueError, match="one of spacing, sampling_rate and positions"):
        fitted.predict(X_NEW, spacing=2.0, sampling_rate=50)
    with pytest.raises(ValueError, match="not to fit"):
        few().fit(X, Y).predict(X_NEW, sampling_rate=50)
    for wrong in (0, -1.0, "fast", (1.0, 2.0), np.nan):
        with pytest.raises(ValueError, match="spacing is"):
            fitted.predict(X_NEW, spacing=wrong)


def test_lengths_may_differ_and_padding_never_matters():
    signals = [x[: 20 + i % 10] for i, x in enumerate(X)]
    estimator = CCNNClassifier(**QUICK, max_epochs=20).fit(signals, Y)
    assert estimator.score([x[:24] for x in X_NEW], Y_NEW) > 0.9
    together = estimator.predict_proba([X_NEW[0], X_NEW[1][:21]])
    alone = estimator.predict_proba(X_NEW[1][None, None, :21])
    assert np.allclose(together[1], alone[0], atol=1e-6)


def test_trailing_nan_is_a_shorter_signal():
    estimator = few().fit(X, Y)
    holed = X_NEW.copy()
    holed[:, 25:] = np.nan
    assert np.allclose(
        estimator.predict_proba(holed), estimator.predict_proba(X_NEW[:, None, :25]), atol=1e-6
    )


def test_waves_with_holes_are_learned():
    rng = np.random.default_rng(3)
    holed, holed_new = (np.where(rng.random(x.shape) < 0.2, np.nan, x) for x in (X, X_NEW))
    estimator = CCNNClassifier(**QUICK, max_epochs=20).fit(holed, Y)
    assert estimator.score(holed_new, Y_NEW) > 0.9
    # What was not measured may be anything: only that it is NaN counts.
    assert estimator.score(X_NEW, Y_NEW) > 0.9


def test_positions_on_the_grid_are_the_grid(fitted):
    seconds = np.arange(32) / 100
    assert np.allclose(
        fitted.predict_proba(X_NEW, positions=seconds), fitted.predict_proba(X_NEW), atol=1e-4
    )
    # Without a rate they are samples.
    samples = few().fit(X, Y)
    at_points = samples.predict_proba(X_NEW, positions=np.arange(32))
    assert np.allclose(at_points, samples.predict_proba(X_NEW), atol=1e-4)


def test_time_stamps_are_learned_from_in_any_unit():
    rng = np.random.default_rng(5)
    stamps = np.sort(rng.uniform(0, 24, size=(40, 24)), axis=1)
    signals = np.sin(2 * np.pi * stamps / np.where(Y == 0, 16, 8)[:, None])
    rate = 1 / np.median(np.diff(stamps))
    estimator = CCNNClassifier(**QUICK, max_epochs=15).fit(signals, Y, positions=stamps)
    assert estimator.score(signals, Y, positions=stamps) > 0.9
    assert estimator.rate_[0] == pytest.approx(rate)
    seconds = few().fit(signals, Y, positions=stamps)
    milliseconds = few().fit(signals, Y, positions=1000 * stamps)
    assert milliseconds.size_ == seconds.size_
    assert np.allclose(
        milliseconds.predict_proba(signals, positions=1000 * stamps),
        seconds.predict_proba(signals, positions=stamps),
        atol=1e-3,
    )


# Going on


def test_a_warm_start_goes_on_where_the_first_fit_ended():
    estimator = few(max_epochs=20, warm_start=True).fit(X, Y)
    before = estimator.predict_proba(X_NEW)
    estimator.set_params(max_epochs=1, lr=1e-9).fit(X, Y)
    # Nothing moves but the statistics of the normalisation.
    assert np.allclose(estimator.predict_proba(X_NEW), before, atol=0.1)
    cold = clone(estimator).set_params(warm_start=False).fit(X, Y)
    assert not np.allclose(cold.predict_proba(X_NEW), before, atol=0.1)


def test_partial_fit_learns_a_pass_at_a_time():
    estimator = CCNNClassifier(**(QUICK | {"batch_size": 5}))
    for _ in range(5):
        estimator.partial_fit(X[:20], Y[:20], classes=[0, 1, 2])
        estimator.partial_fit(X[20:], Y[20:])
    assert estimator.classes_.tolist() == [0, 1, 2]
    assert estimator.score(X_NEW, Y_NEW) > 0.9
    with pytest.raises(ValueError, match=r"y holds the class\(es\) \[7\]"):
        estimator.partial_fit(X, Y + 7 * (Y == 0))
    numbers = CCNNRegressor(**QUICK).partial_fit(X, Y).partial_fit(X[:1], Y[:1])
    with pytest.raises(ValueError, match="number"):
        numbers.partial_fit(X, np.ones((40, 3)))


def test_a_second_fit_forgets_the_first():
    estimator = few().fit(X, Y, sampling_rate=10)
    images = np.random.default_rng(0).normal(size=(20, 3, 5, 5))
    estimator.fit(images, np.arange(20) % 4)
    assert estimator.n_features_in_ == 3
    assert estimator.rate_ is None
    assert estimator.classes_.tolist() == [0, 1, 2, 3]
    assert np.array_equal(
        estimator.predict_proba(images), few().fit(images, np.arange(20) % 4).predict_proba(images)
    )


# Repeating and keeping


def test_a_seed_repeats_to_the_bit_and_leaves_every_generator_alone():
    before = (torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate())
    first, again = few().fit(X, Y), few().fit(X, Y)
    other = few(random_state=1).fit(X, Y)
    after = (torch.get_rng_state(), np.random.get_state()[1], random.getstate())
    assert np.array_equal(first.predict_proba(X_NEW), again.predict_proba(X_NEW))
    assert not np.allclose(first.predict_proba(X_NEW), other.predict_proba(X_NEW))
    assert torch.equal(before[0], after[0])
    assert np.array_equal(before[1], after[1])
    assert before[2] == after[2]


def test_pickle_joblib_and_folders_give_the_same_bits(fitted, tmp_path):
    joblib.dump(fitted, tmp_path / "file")
    fitted.save(tmp_path / "folder")
    wanted = fitted.predict_proba(X_NEW)
    for copy in (
        pickle.loads(pickle.dumps(fitted)),
        joblib.load(tmp_path / "file"),
        CCNNClassifier.load(tmp_path / "folder"),
    ):
        assert np.array_equal(copy.predict_proba(X_NEW), wanted)
        assert np.array_equal(
            copy.predict_proba(X_NEW[:, ::2], sampling_rate=50),
            fitted.predict_proba(X_NEW[:, ::2], sampling_rate=50),
        )


def test_nothing_is_printed_unless_asked(capsys):
    few().fit(X, Y)
    assert capsys.readouterr() == ("", "")
    few(verbose=1).fit(X, Y)
    assert "epoch 1/1" in capsys.readouterr().out


# In scikit-learn's machines


def test_a_grid_search_over_a_pipeline():
    search = GridSearchCV(
        make_pipeline(StandardScaler(), CCNNClassifier(**QUICK)),
        {"ccnnclassifier__max_epochs": np.array([1, 20]), "ccnnclassifier__channels": [8]},
        cv=2,
    ).fit(X, Y)
    assert search.best_params_["ccnnclassifier__max_epochs"] == 20
    assert search.score(X_NEW, Y_NEW) > 0.9


def test_cross_validation_in_two_processes_is_that_in_one():
    one = cross_val_score(few(), X, Y, cv=2)
    assert np.array_equal(cross_val_score(few(), X, Y, cv=2, n_jobs=2), one)


def test_names_of_columns_are_kept_and_held_against():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=[f"t{i}" for i in range(32)])
    estimator = few().fit(frame, pandas.Series(Y))
    assert estimator.feature_names_in_[3] == "t3"
    assert np.array_equal(estimator.predict_proba(frame), few().fit(X, Y).predict_proba(X))
    with pytest.raises(ValueError, match="feature names"):
        estimator.predict(frame.rename(columns={"t3": "u"}))


# Time and interruptions


@pytest.mark.parametrize(
    ("said", "seconds"),
    [("30s", 30), ("5min", 300), ("1.5 h", 5400), (2, 2), (0.5, 0.5), ("2 minutes", 120), ("7", 7)],
)
def test_times_are_said_in_words_or_seconds(said, seconds):
    assert seconds_of(said) == seconds


def test_a_time_budget_is_kept_and_told():
    begin = time.monotonic()
    estimator = CCNNClassifier(**QUICK, time_budget="3s", max_epochs=10**6).fit(X, Y)
    took = time.monotonic() - begin
    assert 1.0 < took < 4.5  # three seconds, and a busy machine
    assert 1 < estimator.result_["steps"] < 10**6
    # The schedule was scaled: the rate has come down.
    assert estimator.history_[-1]["lr"] < 0.5 * QUICK["lr"]


def test_enough_time_changes_nothing():
    plain = few().fit(X, Y)
    timed = few(time_budget="1h").fit(X, Y)
    assert np.array_equal(plain.predict_proba(X_NEW), timed.predict_proba(X_NEW))


def plan(steps, *, members=1):
    """Return how to train on 30 of 40 signals in rounds of six steps."""
    facts = Facts(n=40, classes=2, channels=1, size=(32,))
    return Plan(
        settings=replace(
            choose(facts),
            channels=8,
            blocks=1,
            batch_size=5,
            steps=steps,
            validation=0.25,
            augment="ctrl-c",
        ),
        facts=facts,
        outputs=2,
        causal=False,
        seeds=range(members),
        seconds=None,
        device="cpu",
        verbose=0,
    )


def interrupt_at(monkeypatch, batch):
    """Press Ctrl-C when the so-many-th batch is drawn."""
    seen = []

    def press(x):
        seen.append(x)
        if len(seen) == batch:
            signal.raise_signal(signal.SIGINT)
        return x

    monkeypatch.setitem(AUGMENTS, "ctrl-c", press)


SAMPLES = Samples(torch.from_numpy(X[:, None]).float(), torch.from_numpy(Y))


def test_ctrl_c_keeps_the_best_so_far(monkeypatch):
    interrupt_at(monkeypatch, 20)
    with pytest.warns(UserWarning, match="interrupted after step 20 of 60"):
        trained = train_all(plan(60), SAMPLES)
    (outcome,) = trained.outcomes
    best = max(outcome.history, key=lambda row: (row["val_accuracy"], -row["val_loss"]))
    _, held = hold_out(SAMPLES.y, 0.25, seed=0)
    model = trained.models[0]
    assert not model.training
    with torch.no_grad():
        loss = torch.nn.functional.cross_entropy(model(SAMPLES.x[held]), SAMPLES.y[held])
    assert float(loss) == pytest.approx(best["val_loss"], rel=1e-4)


def test_ctrl_c_before_there_is_anything_to_keep_is_raised(monkeypatch):
    interrupt_at(monkeypatch, 2)
    with pytest.raises(KeyboardInterrupt):
        train_all(plan(12), SAMPLES)


def test_ctrl_c_in_an_ensemble_keeps_the_networks_that_are_done(monkeypatch):
    interrupt_at(monkeypatch, 14)
    with pytest.warns(UserWarning, match="interrupted"):
        trained = train_all(plan(12, members=3), SAMPLES)
    assert len(trained.models) == 1


# What is refused


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("channels", 0),
        ("blocks", 1.5),
        ("kernel_size", "large"),
        ("omega_0", -1),
        ("mask_sigma", 0),
        ("causal", "yes"),
        ("dropout", 1.0),
        ("lr", 0),
        ("weight_decay", -1),
        ("batch_size", "all"),
        ("max_epochs", 0),
        ("validation_fraction", 1.0),
        ("early_stopping", None),
        ("time_budget", "soon"),
        ("time_budget", -5),
        ("n_ensemble", 0),
        ("device", "abacus"),
        ("verbose", -1),
    ],
)
def test_a_parameter_that_makes_no_sense_is_named_before_any_work(parameter, value):
    with pytest.raises(ValueError, match=f"The '{parameter}' parameter of CCNNClassifier must be"):
        few(**{parameter: value}).fit(X, Y)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (X, np.zeros(40), "1 class"),
        (X, Y[:-1], "inconsistent numbers of samples"),
        (X, np.linspace(0, 1, 40), "Unknown label type"),
        (X, np.full(40, np.nan), "y contains NaN"),
        (X, None, "requires y"),
        ([x[:5] for x in X], Y[:3], "inconsistent numbers of samples"),
    ],
)
def test_targets_that_do_not_fit_are_refused(x, y, message):
    with pytest.raises(ValueError, match=message):
        few().fit(x, y)


def test_import_ccnn_has_them_and_nothing_else_new():
    assert {"CCNNClassifier", "CCNNRegressor"} <= set(dir(ccnn))
    with pytest.raises(AttributeError, match="no attribute 'CCNNClusterer'"):
        _ = ccnn.CCNNClusterer


# How a run is laid out


def test_every_class_has_its_share_held_out_and_something_to_learn_from():
    targets = torch.tensor([0] * 40 + [1] * 20 + [2] * 10 + [3])
    kept, held = hold_out(targets, 0.2, seed=3)
    assert sorted([*kept.tolist(), *held.tolist()]) == list(range(71))
    counts = targets[held].bincount(minlength=4).tolist()
    assert [abs(a - b) <= 1 for a, b in zip(counts, [8, 4, 2, 0], strict=True)] == [True] * 4
    assert set(targets[kept].tolist()) == {0, 1, 2, 3}
    assert not torch.equal(held, hold_out(targets, 0.2, seed=4)[1])


def test_nothing_is_held_out_of_what_is_too_little():
    kept, held = hold_out(torch.tensor([0, 1, 2]), 0.2, seed=0)
    assert kept.tolist() == [0, 1, 2]
    assert held is None
    assert hold_out(torch.zeros(50, 1), 0.0, seed=0)[1] is None
    assert len(hold_out(torch.zeros(50, 1), 0.2, seed=0)[1]) == 10


@pytest.mark.parametrize(
    ("n", "batch_size", "steps"), [(40, 20, 3000), (36, 16, 1500), (4000, 50, 2000), (10, 10, 7)]
)
def test_rounds_make_as_many_steps_as_were_asked_for(n, batch_size, steps):
    index, rounds = lay_out(n, batch_size, steps, seed=0)
    assert rounds <= 100
    assert rounds * (len(index) // batch_size) == pytest.approx(steps, rel=0.15)
    assert (index.bincount() == len(index) // n).all()


def test_fewer_steps_than_a_pass_see_a_part_of_the_signals():
    index, rounds = lay_out(1000, 10, 30, seed=0)
    assert rounds == 1
    assert len(set(index.tolist())) == 300


def test_a_held_out_part_chooses_the_weights_and_ends_a_run_that_gets_no_better():
    """Noise cannot be learned: its best epoch is an early one, and half of the rest is enough."""
    noise = np.random.default_rng(0).normal(size=(60, 16))
    y = np.arange(60) % 2
    settings = {"channels": 4, "blocks": 1, "batch_size": 20, "max_epochs": 40, "random_state": 0}
    judged = CCNNClassifier(**settings, validation_fraction=0.3).fit(noise, y)
    assert all("val_accuracy" in row for row in judged.history_)
    assert len(judged.history_) < 40
    through = CCNNClassifier(**settings, validation_fraction=0.3, early_stopping=False)
    assert len(through.fit(noise, y).history_) == 40
