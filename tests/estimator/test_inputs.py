"""What may be handed over as X and positions, what becomes of it, and what is refused."""

import numpy as np
import pytest
import torch

from ccnn.estimator import CCNNClassifier
from ccnn.estimator.inputs import as_samples, read_signals, standard_scale
from ccnn.estimator.positions import median_gap, read_positions, span

RNG = np.random.default_rng(0)


def series(*lengths, channels=2):
    return [RNG.normal(size=(channels, n)) for n in lengths]


@pytest.mark.parametrize("shape", [(3, 2, 7), (3, 1, 4, 5), (3, 2, 3, 4, 5)])
def test_arrays_with_channels_stay_as_they_are(shape):
    array = RNG.normal(size=shape)
    signals = read_signals(array, "E")
    assert signals.values.shape == shape
    assert not signals.table
    assert signals.exists is None
    assert signals.lengths is None


def test_a_table_is_univariate_series():
    array = RNG.normal(size=(3, 7))
    signals = read_signals(array, "E")
    assert signals.table
    assert np.array_equal(signals.values[:, 0], array)


def test_equal_signals_in_a_list_are_an_array():
    parts = series(5, 5, 5)
    assert np.array_equal(read_signals(parts, "E").values, np.stack(parts))
    table = read_signals([[1, 2, 3], [4, 5, 6]], "E")
    assert table.table
    assert table.values.shape == (2, 1, 3)


@pytest.mark.parametrize("container", [list, tuple, lambda x: np.array([*x, None], object)[:-1]])
def test_unequal_signals_are_padded_and_their_lengths_kept(container):
    parts = series(5, 3, 4)
    signals = read_signals(container(parts), "E")
    assert signals.values.shape == (3, 2, 5)
    assert signals.lengths.tolist() == [[5], [3], [4]]
    assert not signals.holes
    for row, part in zip(signals.values, parts, strict=True):
        assert np.array_equal(row[:, : part.shape[1]], part)


def test_unequal_series_need_no_axis_for_their_only_channel():
    signals = read_signals([np.ones(3), np.ones(5)], "E")
    assert signals.values.shape == (2, 1, 5)


def test_images_of_unequal_size_are_padded_on_both_axes():
    signals = read_signals([np.ones((3, 4, 6)), np.ones((3, 5, 2))], "E")
    assert signals.values.shape == (2, 3, 5, 6)
    assert signals.lengths.tolist() == [[4, 6], [5, 2]]


def test_a_sample_that_is_nan_in_all_channels_does_not_exist():
    array = RNG.normal(size=(2, 2, 5))
    array[0, :, 3] = np.nan
    array[1, 0, 2] = np.nan
    signals = read_signals(array, "E")
    assert signals.holes
    assert signals.exists.sum() == 9
    assert not signals.exists[0, 0, 3]
    samples = as_samples(signals, standard_scale(array), rate=1.0, dtype=torch.float32)
    # The other NaN is the mean of its channel.
    assert samples.x[1, 0, 2] == 0
    assert torch.isfinite(samples.x).all()
    assert torch.equal(samples.mask, torch.from_numpy(signals.exists))


def test_holes_in_unequal_signals_are_told_from_their_ends():
    parts = series(6, 4)
    whole = as_samples(
        read_signals(parts, "E"), standard_scale(parts[0][None]), rate=1.0, dtype=torch.float32
    )
    assert whole.mask is None
    assert whole.lengths.tolist() == [6, 4]
    parts[1][:, 1] = np.nan
    signals = read_signals(parts, "E")
    assert signals.holes
    assert signals.exists.sum() == 9


def test_standardising_does_not_see_what_is_missing():
    values = RNG.normal(loc=5, scale=3, size=(4, 2, 50))
    holed = values.copy()
    holed[:, :, 30:] = np.nan
    a, b = standard_scale(holed), standard_scale(values[:, :, :30])
    assert np.allclose(a.mean, b.mean)
    assert np.allclose(a.std, b.std)
    samples = as_samples(
        read_signals(values, "E"), standard_scale(values), rate=1.0, dtype=torch.float64
    )
    assert torch.allclose(samples.x.mean(dim=(0, 2)), torch.zeros(2).double(), atol=1e-12)
    assert torch.allclose(samples.x.std(dim=(0, 2), correction=0), torch.ones(2).double())


def test_a_constant_channel_becomes_zero_however_large_it_is():
    values = np.full((3, 1, 4), 1e9)
    samples = as_samples(
        read_signals(values, "E"), standard_scale(values), rate=1.0, dtype=torch.float32
    )
    assert (samples.x == 0).all()


def test_x_is_never_written_to():
    array = RNG.normal(size=(3, 2, 5))
    array[0, :, 1] = np.nan
    before = array.copy()
    array.setflags(write=False)
    signals = read_signals(array, "E")
    as_samples(signals, standard_scale(signals.values), rate=1.0, dtype=torch.float64)
    assert np.array_equal(array, before, equal_nan=True)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([], "at least one array|Expected 2D array"),
        (np.empty((0, 3)), r"0 sample\(s\)"),
        (np.empty((4, 0)), r"0 feature\(s\)"),
        (np.empty((4, 2, 0)), "shape"),
        (np.ones(5), "Reshape your data"),
        (np.ones((2, 1, 2, 2, 2, 2)), r"E expects \(n, length\)"),
        ([[1.0, np.inf], [2.0, 3.0]], "infinity"),
        ([["a", "b"], ["c", "d"]], "could not convert string"),
        (np.ones((2, 3)) * 1j, "Complex data not supported"),
        ([np.ones((2, 3)), np.ones((3, 4))], r"X\[1\] has shape \(3, 4\) and X\[0\] has \(2, 3\)"),
        ([np.ones((2, 3)), np.ones(4)], r"X\[1\] has shape"),
        ([np.ones((2, 3)), np.ones((2, 0))], r"X\[1\]"),
        ([np.ones(3), np.array([1.0, np.inf])], r"X\[1\] contains infinity"),
        ([[[1, 2], [3]], [[1, 2], [3, 4]]], "equally long"),
        ([[1.0, 2.0], [np.nan, np.nan]], r"signal\(s\) 1: every sample of it is NaN"),
        ([np.ones(3), np.full(2, np.nan)], r"signal\(s\) 1"),
    ],
)
def test_what_is_no_signal_is_refused_with_its_reason(X, message):
    with pytest.raises(ValueError, match=message):
        read_signals(X, "E")


# Positions


def test_positions_are_told_in_training_samples_from_the_first_on():
    signals = read_signals(np.ones((2, 4)), "E")
    placed = read_positions([[10.0, 10.5, 11.0, 12.0], [0.0, 0.5, 1.0, 1.5]], signals)
    assert median_gap(placed.positions) == 0.5
    assert span(placed.positions, 2.0) == 5
    samples = as_samples(placed, standard_scale(placed.values), rate=2.0, dtype=torch.float32)
    assert samples.positions[..., 0].tolist() == [[0, 1, 2, 4], [0, 1, 2, 3]]
    assert samples.mask is None


def test_one_row_of_positions_is_for_all_signals():
    signals = read_signals(np.ones((3, 4)), "E")
    placed = read_positions(np.array([0.0, 1.0, 2.0, 5.0]), signals)
    assert (placed.positions == [0, 1, 2, 5]).all()


def test_positions_of_unequal_signals_are_a_list():
    signals = read_signals([np.ones(3), np.ones(2)], "E")
    placed = read_positions([[0.0, 1.0, 3.0], [5.0, 6.0]], signals)
    samples = as_samples(placed, standard_scale(placed.values), rate=1.0, dtype=torch.float32)
    assert samples.lengths.tolist() == [3, 2]
    assert samples.positions[1, :2, 0].tolist() == [0, 1]


def test_a_sample_without_a_position_does_not_exist():
    signals = read_signals(np.ones((2, 3)), "E")
    placed = read_positions([[0.0, np.nan, 4.0], [0.0, 1.0, 2.0]], signals)
    assert placed.exists[:, 0].tolist() == [[True, False, True], [True, True, True]]


def test_the_gap_to_a_missing_sample_counts_not():
    X = np.ones((1, 4))
    X[0, 1] = np.nan
    placed = read_positions([[0.0, 1.0, 2.0, 4.0]], read_signals(X, "E"))
    assert median_gap(placed.positions) == 2.0


def test_dates_are_seconds():
    dates = np.array(["2024-01-01T00:00:00", "2024-01-01T00:01:00", "NaT"], "datetime64[s]")
    placed = read_positions(dates, read_signals(np.ones((1, 3)), "E"))
    assert placed.positions[0, 1] - placed.positions[0, 0] == 60
    assert not placed.exists[0, 0, 2]


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        (np.ones((3, 4)), "for 3 signals, but X has 2"),
        (np.ones((2, 5)), r"positions\[0\] has shape \(5,\), but X\[0\] has 4 samples"),
        ([np.ones(4), np.ones(3)], r"positions\[1\]"),
        (np.full((2, 4), np.inf), "infinity"),
        (np.full((2, 4), "a"), "numbers or dates"),
        (np.full((2, 4), np.nan), "position, is NaN"),
    ],
)
def test_positions_that_do_not_fit_are_refused(positions, message):
    with pytest.raises(ValueError, match=message):
        read_positions(positions, read_signals(np.ones((2, 4)), "E"))


def test_images_have_no_time_stamps():
    with pytest.raises(ValueError, match="X has 2 axes"):
        read_positions(np.ones((2, 4)), read_signals(np.ones((2, 1, 4, 4)), "E"))


def test_signals_at_one_moment_have_no_gap():
    with pytest.raises(ValueError, match="sampling_rate"):
        median_gap(np.ones((2, 3)))


def test_a_series_with_holes_is_its_samples_at_their_times():
    """The way that docs/irregular.md found best: a sample counts for the time it stands for."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 1, 24))
    y = np.arange(30) % 2
    clf = CCNNClassifier(channels=8, blocks=1, max_epochs=2, random_state=0).fit(X, y)
    holes = rng.random((30, 24)) < 0.4
    holes[:, [0, 23]] = False
    grid = clf.predict_proba(np.where(holes[:, None], np.nan, X))
    kept = [np.flatnonzero(~row) for row in holes]
    points = clf.predict_proba(
        [x[:, k] for x, k in zip(X, kept, strict=True)], positions=[k.astype(float) for k in kept]
    )
    np.testing.assert_allclose(grid, points, atol=1e-5)


@pytest.mark.parametrize("length", [24, 300])
def test_smooth_series_are_told_from_rough_ones(length):
    rng = np.random.default_rng(0)
    t = np.linspace(0, 1, length)
    waves = np.sin(2 * np.pi * (t + rng.random((20, 1))))
    noise = rng.normal(size=(20, length))
    assert read_signals(waves, "E").smooth
    assert not read_signals(noise, "E").smooth
    assert not read_signals(np.where(np.arange(length) % 2, waves, -waves), "E").smooth
    assert read_signals(np.where(rng.random(waves.shape) < 0.1, np.nan, waves), "E").smooth


@pytest.mark.parametrize(
    "X",
    [np.ones((3, 10)), np.ones((3, 1)), np.random.default_rng(0).random((3, 1, 4, 4))],
    ids=["constant", "one sample", "images"],
)
def test_what_has_no_neighbours_to_look_at_is_not_smooth(X):
    assert not read_signals(X, "E").smooth
