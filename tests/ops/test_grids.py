"""Kernel sizes, offsets and coordinates, exactly as section 6 of the design says."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor

from ccnn.ops import coordinate_grid
from ccnn.ops.grids import (
    bucket,
    furthest_offset,
    lag_zero,
    nyquist,
    relative_axis,
    resolve_kernel_size,
    samples_within,
    step_in_coordinates,
)

each_causal = pytest.mark.parametrize("causal", [False, True])


def whole_axis(kernel_size: int, spacing: float, *, causal: bool) -> Tensor:
    """The coordinates of all samples that a kernel of K training samples spans."""
    reach = samples_within(furthest_offset(kernel_size, causal=causal), spacing)
    relative = relative_axis(reach, kernel_size, spacing, causal=causal)
    return relative + lag_zero(causal=causal)


def correctly_rounded(kernel_size: int, spacing: float, *, causal: bool) -> Tensor:
    """c = 2δ/(K - 1), or 1 + 2δ/(K - 1), δ = s·j, in rational numbers."""
    reach = samples_within(furthest_offset(kernel_size, causal=causal), spacing)
    steps = range(-reach, 1 if causal else reach + 1)
    start = 1 if causal else 0
    exact = [start + 2 * j * Fraction(spacing) / max(kernel_size - 1, 1) for j in steps]
    return torch.tensor([float(c) for c in exact], dtype=torch.float64)


# Kernel sizes


@pytest.mark.parametrize(
    ("size", "kernel_size", "causal", "expected"),
    [
        ((784,), "same", True, (784,)),
        ((785,), "same", True, (785,)),
        ((784,), "same", False, (785,)),
        ((785,), "same", False, (785,)),
        ((32, 33), "same", False, (33, 33)),
        ((1,), "same", False, (1,)),
        ((1,), "same", True, (1,)),
        ((784,), "full", True, (1567,)),
        ((784,), "full", False, (1567,)),
        ((4, 5, 6), "full", False, (7, 9, 11)),
        ((1,), "full", False, (1,)),
        ((784,), 33, False, (33,)),
        ((784,), 1, False, (1,)),
        ((784,), 32, True, (32,)),
        ((8,), 99, False, (99,)),
        ((32, 32), 33, False, (33, 33)),
        ((32, 32, 4, 4), 3, False, (3, 3, 3, 3)),
        ((32, 48), (5, 7), False, (5, 7)),
        ((32, 48), [5, 7], False, (5, 7)),
        ((784,), (32,), True, (32,)),
    ],
)
def test_kernel_size(size, kernel_size, causal, expected):
    result = resolve_kernel_size(size, kernel_size, causal=causal)
    assert result == expected
    assert isinstance(result, tuple)


@pytest.mark.parametrize(
    ("size", "kernel_size", "causal", "words"),
    [
        ((784,), "valid", False, ["kernel_size", "'valid'", '"same"', '"full"', "integer"]),
        ((784,), 32, False, ["kernel_size", "32", "even", "33", "31", "causal=True"]),
        ((32, 32), (33, 32), False, ["kernel_size", "32", "even", "33", "31"]),
        ((784,), 0, False, ["kernel_size", "positive integers", "0"]),
        ((784,), 0, True, ["kernel_size", "positive integers", "0"]),
        ((784,), -3, False, ["kernel_size", "positive integers", "-3"]),
        ((32, 32), (33, 3.0), False, ["kernel_size", "positive integers", "3.0"]),
        ((32, 32), (33, None), False, ["kernel_size", "positive integers", "None"]),
        ((32, 32), (33,), False, ["kernel_size", "1 entries", "(33,)", "(32, 32)", "2 axes"]),
        ((32,), (33, 33), False, ["kernel_size", "2 entries", "(33, 33)", "(32,)", "1 axes"]),
        ((32,), (), False, ["kernel_size", "0 entries", "(32,)", "1 axes"]),
    ],
)
def test_a_wrong_kernel_size_is_refused_by_name(size, kernel_size, causal, words):
    with pytest.raises(ValueError, match=r".") as caught:
        resolve_kernel_size(size, kernel_size, causal=causal)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("kernel_size", [33.0, 3.5, None])
def test_a_kernel_size_that_is_no_integer_is_refused_by_name(kernel_size):
    with pytest.raises((TypeError, ValueError), match="kernel_size") as caught:
        resolve_kernel_size((784,), kernel_size, causal=False)
    assert repr(kernel_size) in str(caught.value)


# Coordinates


@given(
    st.integers(1, 300),
    st.sampled_from([1.0, 2.0, 3.0, 0.5, 0.25, 1 / 3, 0.1, 1.7, math.pi]),
    st.booleans(),
)
@example(1, 1.0, False)
@example(1, 1.0, True)
@example(2, 0.1, True)
def test_coordinates_follow_the_formula(n, spacing, causal):
    kernel_size = n if causal else 2 * n - 1
    result = whole_axis(kernel_size, spacing, causal=causal)
    expected = correctly_rounded(kernel_size, spacing, causal=causal)
    assert result.dtype == torch.float64
    assert result.shape == expected.shape
    # Three roundings of numbers up to 2 in float64; a float32 would be off by 1e-8.
    torch.testing.assert_close(result, expected, rtol=0, atol=8e-16)
    torch.testing.assert_close(result.float(), expected.float(), rtol=0, atol=1.2e-7)


@each_causal
@pytest.mark.parametrize("kernel_size", [3, 5, 21, 99, 101, 785, 1567, 16001])
def test_the_training_grid_spans_minus_one_to_one(causal, kernel_size):
    axis = whole_axis(kernel_size, 1.0, causal=causal)
    assert len(axis) == kernel_size
    assert axis.float()[0] == -1
    assert axis.float()[-1] == 1
    assert axis[-1 if causal else kernel_size // 2] == lag_zero(causal=causal)
    expected = torch.linspace(-1, 1, kernel_size, dtype=torch.float64)
    torch.testing.assert_close(axis, expected, rtol=0, atol=1e-15)


def test_by_hand():
    """K = 5: training samples lie half a unit apart (centred and causal)."""
    assert whole_axis(5, 1.0, causal=False).tolist() == [-1.0, -0.5, 0.0, 0.5, 1.0]
    assert whole_axis(5, 2.0, causal=False).tolist() == [-1.0, 0.0, 1.0]
    assert whole_axis(5, 3.0, causal=False).tolist() == [0.0]
    assert whole_axis(5, 1.5, causal=False).tolist() == [-0.75, 0.0, 0.75]
    assert whole_axis(5, 1.0, causal=True).tolist() == [-1.0, -0.5, 0.0, 0.5, 1.0]
    assert whole_axis(5, 2.0, causal=True).tolist() == [-1.0, 0.0, 1.0]
    assert whole_axis(5, 3.0, causal=True).tolist() == [-0.5, 1.0]
    assert whole_axis(5, 8.0, causal=True).tolist() == [1.0]
    assert whole_axis(3, 0.5, causal=False).tolist() == [-1.0, -0.5, 0.0, 0.5, 1.0]


@pytest.mark.parametrize("spacing", [0.5, 1.0, 3.0])
def test_a_kernel_of_one_sample_has_one_coordinate(spacing):
    assert whole_axis(1, spacing, causal=False).tolist() == [0.0]
    assert whole_axis(1, spacing, causal=True).tolist() == [1.0]


@each_causal
@pytest.mark.parametrize("spacing", [2, 3, 4, 5, 6, 7, 10, 11])
def test_integer_spacing_meets_training_coordinates_bit_for_bit(causal, spacing):
    """δ = s·j are training offsets: the network must see the very numbers it was trained on."""
    for kernel_size in range(1, 400, 2):
        reach = int(furthest_offset(kernel_size, causal=causal))
        training = relative_axis(reach, kernel_size, 1.0, causal=causal)
        steps = samples_within(reach, spacing)
        coarse = relative_axis(steps, kernel_size, float(spacing), causal=causal)
        first = reach - steps * spacing
        shared = training[first::spacing][: len(coarse)]
        assert torch.equal(coarse, shared), f"K = {kernel_size}"


@each_causal
@pytest.mark.parametrize("parts", [2, 3, 5, 7])
def test_finer_grids_hold_the_training_coordinates(causal, parts):
    for kernel_size in (3, 21, 99, 785):
        training = whole_axis(kernel_size, 1.0, causal=causal)
        fine = whole_axis(kernel_size, 1 / parts, causal=causal)
        assert len(fine) == parts * (kernel_size - 1) + 1
        torch.testing.assert_close(fine[::parts], training, rtol=0, atol=5e-16)


@given(st.integers(2, 200), st.floats(0.05, 20), st.booleans())
def test_samples_are_equally_spaced_inside_the_interval(n, spacing, causal):
    kernel_size = n if causal else 2 * n - 1
    axis = whole_axis(kernel_size, spacing, causal=causal)
    assert axis.max() <= 1 + 1e-6
    assert axis.min() >= -1 - 1e-6
    step = spacing * step_in_coordinates(kernel_size)
    assert axis.min() - step < -1 + 1e-6  # not one more would fit
    torch.testing.assert_close(axis.diff(), torch.full_like(axis.diff(), step), rtol=0, atol=1e-14)
    if not causal:
        torch.testing.assert_close(axis, -axis.flip(0), rtol=0, atol=0)


@each_causal
def test_a_shorter_reach_is_the_middle_of_a_longer_one(causal):
    """The window cuts samples off; those that stay are the same numbers."""
    long = relative_axis(50, 101, 1.3, causal=causal)
    short = relative_axis(7, 101, 1.3, causal=causal)
    assert torch.equal(short, long[43:51] if causal else long[43:58])


def test_nyquist_turns_half_a_period_per_sample():
    """The alternating signal, the fastest one a grid holds, is a cosine of that frequency."""
    for kernel_size in (5, 33, 785):
        axis = whole_axis(kernel_size, 1.0, causal=False)
        wave = torch.cos(nyquist(kernel_size) * (axis + 1))
        sign = torch.ones_like(wave)
        sign[1::2] = -1
        torch.testing.assert_close(wave, sign)


# How many samples fit


@pytest.mark.parametrize(
    ("distance", "spacing", "expected"),
    [
        (0.0, 1.0, 0),
        (1.0, 1.0, 1),
        (10.0, 3.0, 3),
        (9.0, 3.0, 3),
        (0.9, 1.0, 0),
        (0.99, 0.1, 9),
        (2.5, 0.5, 5),
    ],
)
def test_samples_within(distance, spacing, expected):
    assert samples_within(distance, spacing) == expected


def test_rounding_loses_no_sample():
    """In floats 0.3/0.1 is below 3; a distance of n steps holds n steps."""
    assert 0.3 / 0.1 < 3
    assert samples_within(0.3, 0.1) == 3
    for spacing in (1 / 3, 0.1, 0.2, 0.3, 0.7, 1 / 7, 1.1, 2 / 3, math.pi, 1e-3):
        for steps in (*range(1, 200), 999, 12345, 100_000):
            assert samples_within(steps * spacing, spacing) == steps
            added = math.fsum([spacing] * steps) if steps < 200 else steps * spacing
            assert samples_within(added, spacing) == steps


@pytest.mark.parametrize("parts", [3, 6, 7, 9, 10, 49, 100])
@pytest.mark.parametrize("distance", [1, 2, 16, 392, 783, 8000, 1_000_000])
def test_training_samples_cut_in_parts_keep_the_last_one(parts, distance):
    assert samples_within(distance, 1 / parts) == parts * distance


def test_a_sample_clearly_outside_is_not_counted():
    for spacing in (1 / 3, 0.1, 1.0, 3.0):
        for steps in (1, 10, 1000):
            assert samples_within((steps - 1e-4) * spacing, spacing) == steps - 1


def test_furthest_offset():
    assert [furthest_offset(k, causal=True) for k in (1, 2, 784)] == [0, 1, 783]
    assert [furthest_offset(k, causal=False) for k in (1, 3, 785)] == [0, 1, 392]


# Buckets


@given(st.integers(0, 10**6))
@example(0)
@example(8)
@example(9)
@example(2**19)
@example(2**19 + 1)
def test_a_bucket_is_at_most_a_quarter_larger(reach):
    assert reach <= bucket(reach) <= 1.25 * reach
    assert bucket(reach + 1) >= bucket(reach)
    assert bucket(bucket(reach)) == bucket(reach)  # a bucket is its own bucket


def test_small_reaches_are_exact():
    assert [bucket(n) for n in range(9)] == list(range(9))


def test_there_are_few_buckets_up_to_a_million():
    """Four per octave: each value is one compiled graph and one FFT plan."""
    values, reach = [], 0
    while reach <= 10**6:
        values.append(bucket(reach))
        reach = values[-1] + 1
    assert values == sorted(set(values))
    assert len(values) <= 9 + 4 * 17


# Grids


def test_a_grid_of_coordinates_has_its_axes_in_order():
    rows, columns = torch.tensor([0.0, 1.0, 2.0]), torch.tensor([5.0, 7.0])
    grid = coordinate_grid([rows, columns])
    assert grid.shape == (3, 2, 2)
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            assert grid[i, j].tolist() == [row, column]


@pytest.mark.parametrize("dim", [1, 2, 3, 4])
def test_a_grid_of_coordinates_is_channels_last_in_any_dimension(dim):
    axes = [torch.linspace(-1, 1, n + 2, dtype=torch.float64) for n in range(dim)]
    grid = coordinate_grid(axes)
    assert grid.shape == (*(n + 2 for n in range(dim)), dim)
    assert grid.dtype == torch.float64
    assert grid[(0,) * dim].tolist() == [-1.0] * dim
    assert grid[(-1,) * dim].tolist() == [1.0] * dim
