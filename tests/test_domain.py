"""`Grid` and `Points`: what they refuse, and what they say about where samples lie."""

import copy
import dataclasses
import math
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import ccnn
from ccnn import Grid, Points
from ccnn.domain import with_observed

SEQUENCE = torch.zeros(3, 2, 7)
IMAGE = torch.zeros(3, 2, 5, 7)
HOLES = torch.tensor([[1, 1, 0, 1, 0, 0, 1], [1, 0, 0, 0, 0, 0, 0], [1] * 7]).bool()


def refused(error: type[Exception], words: list[str], make) -> None:
    """Making something must fail, and the message must hold every word."""
    with pytest.raises(error) as caught:
        make()
    for word in words:
        assert word in str(caught.value)


# Spacing


@pytest.mark.parametrize("spacing", [0, 0.0, -1, -0.5, math.nan, math.inf, -math.inf])
def test_spacing_must_be_positive_and_finite(spacing):
    words = ["spacing", "positive and finite", repr(spacing)]
    refused(ValueError, words, lambda: Grid(spacing))
    refused(ValueError, words, lambda: Grid((1.0, spacing)))


@pytest.mark.parametrize(
    "spacing",
    [
        torch.tensor(2.0),
        torch.tensor([1.0, 2.0]),
        (1.0, torch.tensor(2.0)),
        np.array([1.0, 2.0]),
        "2",
        None,
        1j,
        (1.0, "2"),
        [(1.0, 2.0)],
    ],
    ids=repr,
)
def test_spacing_must_be_numbers(spacing):
    """A tensor would be one spacing per signal, and a batch has one."""
    kind = type(spacing).__name__
    refused(TypeError, ["spacing", "number", "one number per axis", kind], lambda: Grid(spacing))


@pytest.mark.parametrize("spacing", [(1.0,), (1.0, 2.0, 3.0), ()])
def test_spacing_must_have_an_entry_per_axis(spacing):
    words = ["spacing", f"{len(spacing)} entries", str(spacing), "2 axes", "one per axis"]
    refused(ValueError, words, lambda: Grid(spacing).on(IMAGE))
    refused(ValueError, words, lambda: Grid(spacing).spacings(2))


def test_spacing_is_given_to_every_axis():
    assert Grid().spacings(3) == (1.0, 1.0, 1.0)
    assert Grid(2).spacings(2) == (2.0, 2.0)
    assert Grid([0.5, 3]).spacings(2) == (0.5, 3.0)
    assert Grid(2).on(IMAGE).spacing == (2.0, 2.0)
    assert Grid((0.5, 3)).on(IMAGE).spacing == (0.5, 3.0)
    assert all(type(s) is float for s in Grid((2, 3)).spacings(2))


# Mask


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
def test_a_mask_must_be_bool(dtype):
    mask = torch.ones(3, 1, 7, dtype=dtype)
    refused(TypeError, ["mask", "bool", str(dtype)], lambda: Grid(mask=mask))


@pytest.mark.parametrize("mask", [np.ones((3, 7), dtype=bool), [[True] * 7] * 3])
def test_a_mask_must_be_a_tensor(mask):
    words = ["mask", "bool tensor", type(mask).__name__]
    refused(TypeError, words, lambda: Grid(mask=mask))


@pytest.mark.parametrize("shape", [(), (7,)])
def test_a_mask_must_have_a_batch(shape):
    mask = torch.ones(shape, dtype=torch.bool)
    refused(ValueError, ["mask", "(B, 1, *S)", "(B, *S)", str(shape)], lambda: Grid(mask=mask))


@pytest.mark.parametrize(
    "shape", [(3, 2, 7), (3, 1, 8), (3, 8), (2, 7), (1, 1, 7), (3, 1, 7, 1), (3, 1, 1), (7, 3)]
)
def test_a_mask_must_fit_the_signal(shape):
    """One that could be broadcast is refused too: its count of samples would be wrong."""
    mask = torch.ones(shape, dtype=torch.bool)
    words = ["mask", str(shape), "(3, 1, 7)", "(3, 7)", "(3, 2, 7)"]
    refused(ValueError, words, lambda: Grid(mask=mask).on(SEQUENCE))


def test_a_mask_of_an_image_must_fit_it():
    mask = torch.ones(3, 7, 5, dtype=torch.bool)
    words = ["mask", "(3, 7, 5)", "(3, 1, 5, 7)", "(3, 5, 7)"]
    refused(ValueError, words, lambda: Grid(mask=mask).on(IMAGE))


def test_an_empty_mask_is_refused_with_the_signals_it_empties():
    mask = torch.ones(5, 1, 4, 4, dtype=torch.bool)
    mask[[1, 3]] = False
    refused(ValueError, ["mask", "[1, 3]", "at least one"], lambda: Grid(mask=mask))
    mask[1, 0, 2, 2] = True
    refused(ValueError, ["mask", "[3]", "at least one"], lambda: Grid(mask=mask))
    mask[3, 0, 0, 0] = True
    assert Grid(mask=mask).mask is mask


def test_a_mask_of_a_signal_without_samples_is_empty():
    refused(ValueError, ["mask"], lambda: Grid(mask=torch.ones(2, 0, dtype=torch.bool)))


def test_a_mask_with_and_without_channel_axis_is_the_same():
    flat, full = Grid(mask=HOLES).on(SEQUENCE), Grid(mask=HOLES[:, None]).on(SEQUENCE)
    assert flat.mask.shape == (3, 1, 7)
    assert torch.equal(flat.mask, full.mask)
    assert torch.equal(full.mask[:, 0], HOLES)


def test_a_mask_on_another_device_is_refused_with_the_way_out():
    grid = Grid(mask=HOLES)
    x = torch.zeros(3, 2, 7, device="meta")
    refused(ValueError, ["mask", "cpu", "meta", "grid.to("], lambda: grid.on(x))


# Lengths


def test_lengths_are_a_mask():
    mask = torch.tensor([[1, 1, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0], [1] * 7]).bool()
    laid = Grid(lengths=[3, 1, 7]).on(SEQUENCE)
    assert laid.mask.dtype == torch.bool
    assert torch.equal(laid.mask, mask[:, None])
    assert laid.lengths is None


def test_lengths_of_images_are_a_mask():
    mask = torch.zeros(3, 1, 5, 7, dtype=torch.bool)
    mask[0, :, :2, :7] = True
    mask[1, :, :5, :1] = True
    mask[2, :, :3, :4] = True
    laid = Grid(lengths=[(2, 7), (5, 1), (3, 4)]).on(IMAGE)
    assert torch.equal(laid.mask, mask)


@given(
    st.integers(1, 4).flatmap(
        lambda dim: st.tuples(
            st.just(tuple(range(2, 2 + dim))),
            st.lists(st.tuples(*[st.integers(1, n) for n in range(2, 2 + dim)]), min_size=1),
        )
    )
)
def test_lengths_count_samples_from_the_start_of_each_axis(case):
    size, lengths = case
    lengths = lengths[:4]
    mask = Grid(lengths=lengths).on(torch.zeros(len(lengths), 1, *size)).mask
    expected = torch.zeros(len(lengths), 1, *size, dtype=torch.bool)
    for row, ends in zip(expected, lengths, strict=True):
        row[(0, *map(slice, ends))] = True
    assert torch.equal(mask, expected)


@pytest.mark.parametrize(
    "lengths",
    [
        [3, 1, 7],
        (3, 1, 7),
        [[3], [1], [7]],
        torch.tensor([3, 1, 7]),
        torch.tensor([3, 1, 7], dtype=torch.int32),
        torch.tensor([3, 1, 7], dtype=torch.uint8),
        torch.tensor([[3], [1], [7]]),
        np.array([3, 1, 7]),
    ],
    ids=repr,
)
def test_lengths_may_be_any_integers(lengths):
    mask = Grid(lengths=lengths).on(SEQUENCE).mask
    assert mask.sum(dim=(1, 2)).tolist() == [3, 1, 7]


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bool, torch.complex64, torch.complex128]
)
def test_lengths_must_be_integers(dtype):
    lengths = torch.ones(3, dtype=dtype)
    refused(TypeError, ["lengths", "integers", str(dtype)], lambda: Grid(lengths=lengths))


def test_lengths_as_a_list_of_floats_are_refused():
    refused(TypeError, ["lengths", "integers", "float"], lambda: Grid(lengths=[3.0, 1.0, 7.0]))


@pytest.mark.parametrize("lengths", [[3, 0, 7], [[1, 1], [0, 2]], [-2, 1, 1]])
def test_lengths_must_be_at_least_one(lengths):
    smallest = str(np.min(lengths))
    refused(ValueError, ["lengths", "at least 1", smallest], lambda: Grid(lengths=lengths))


@pytest.mark.parametrize("lengths", [3, torch.tensor(3), torch.ones(2, 2, 2, dtype=torch.int64)])
def test_lengths_must_have_one_or_two_axes(lengths):
    shape = str(tuple(torch.as_tensor(lengths).shape))
    refused(ValueError, ["lengths", "(B,)", "(B, D)", shape], lambda: Grid(lengths=lengths))


@pytest.mark.parametrize(
    ("lengths", "x", "expected"),
    [
        ([3, 1], SEQUENCE, ["(2,)", "(3, 1) or (3,)", "(3, 2, 7)"]),
        ([[3, 1, 7]], SEQUENCE, ["(1, 3)", "(3, 1) or (3,)"]),
        ([3, 1, 5], IMAGE, ["(3,)", "(3, 2)", "(3, 2, 5, 7)"]),
        ([[3, 1, 5]] * 3, IMAGE, ["(3, 3)", "(3, 2)"]),
    ],
)
def test_lengths_must_fit_the_signal(lengths, x, expected):
    refused(ValueError, ["lengths", *expected], lambda: Grid(lengths=lengths).on(x))


@pytest.mark.parametrize(
    ("lengths", "x", "words"),
    [
        ([3, 8, 7], SEQUENCE, ["8", "axis 0", "only 7", "(3, 2, 7)"]),
        ([(6, 1), (1, 1), (1, 1)], IMAGE, ["6", "axis 0", "only 5", "(3, 2, 5, 7)"]),
        ([(1, 1), (1, 1), (5, 9)], IMAGE, ["9", "axis 1", "only 7", "(3, 2, 5, 7)"]),
    ],
)
def test_lengths_beyond_the_signal_are_refused(lengths, x, words):
    refused(ValueError, ["lengths", *words], lambda: Grid(lengths=lengths).on(x))


def test_mask_and_lengths_exclude_each_other():
    words = ["mask", "lengths", "not both"]
    refused(ValueError, words, lambda: Grid(mask=HOLES, lengths=[1, 2, 3]))


# Laying, moving, copying

GRIDS = {
    "plain": lambda: Grid(),
    "spacing": lambda: Grid(0.5),
    "mask": lambda: Grid(2.0, mask=HOLES),
    "lengths": lambda: Grid([3.0], lengths=[3, 1, 7]),
    "density": lambda: Grid(mask=HOLES, weights="density"),
    "weights": lambda: Grid(weights=torch.linspace(1, 2, 21).view(3, 7)),
    "lengths and weights": lambda: Grid(lengths=[3, 1, 7], weights=torch.ones(3, 1, 7)),
}
each_grid = pytest.mark.parametrize("make", GRIDS.values(), ids=GRIDS)


def assert_same(first: Grid, second: Grid) -> None:
    assert first.spacing == second.spacing
    for name in ("mask", "lengths", "weights"):
        a, b = getattr(first, name), getattr(second, name)
        assert (a is None) == (b is None)
        assert a is None or (a == b if isinstance(a, str) else torch.equal(a, b))


@each_grid
def test_laying_a_grid_twice_changes_nothing(make):
    once = make().on(SEQUENCE)
    assert_same(once.on(SEQUENCE), once)


@each_grid
def test_laying_a_grid_leaves_it_as_it_was(make):
    grid = make()
    grid.on(SEQUENCE)
    assert_same(grid, make())


def test_one_grid_of_lengths_serves_signals_of_several_sizes():
    grid = Grid(lengths=[3, 1])
    assert grid.on(torch.zeros(2, 1, 3)).mask.shape == (2, 1, 3)
    assert grid.on(torch.zeros(2, 1, 9)).mask.sum().item() == 4


def test_without_mask_none_is_made():
    assert Grid(2.0).on(SEQUENCE).mask is None


@each_grid
def test_a_grid_moves_with_to(make):
    """To "meta", a device on every machine, whose tensors hold nothing.

    So whoever reads a mask that was checked when it was given fails; on a GPU, where each layer
    lays the grid, it would wait for the device.
    """
    moved = make().to("meta")
    assert isinstance(moved, Grid)
    assert moved.spacing == make().spacing
    x = torch.zeros(3, 2, 7, device="meta")
    laid = moved.on(x)
    assert (laid.mask is None) == (make().on(SEQUENCE).mask is None)
    if laid.mask is not None:
        assert laid.mask.device == x.device
        assert laid.mask.shape == (3, 1, 7)


@each_grid
def test_a_grid_moved_nowhere_is_the_same(make):
    assert_same(make().to("cpu"), make())
    assert_same(make().to(torch.device("cpu")), make())


@pytest.mark.parametrize("name", ["spacing", "mask", "lengths", "weights", "device"])
def test_a_grid_is_frozen(name):
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(Grid(), name, None)


@each_grid
def test_a_grid_can_be_copied_and_pickled(make):
    grid = make()
    for copied in (copy.copy(grid), copy.deepcopy(grid), pickle.loads(pickle.dumps(grid))):
        assert_same(copied, grid)
        assert_same(copied.on(SEQUENCE), grid.on(SEQUENCE))


def test_a_deep_copy_shares_no_mask():
    grid = Grid(mask=HOLES.clone())
    copied = copy.deepcopy(grid)
    grid.mask[:] = True
    assert torch.equal(copied.mask, HOLES)


def test_grids_can_be_compared_and_hashed():
    """Comparing masks elementwise would raise; a grid equals only itself."""
    grid = Grid(mask=HOLES)
    assert grid == grid
    assert grid != Grid(mask=HOLES)
    assert len({grid, Grid(mask=HOLES)}) == 2


# Points

TIMES = torch.tensor([[0.0, 2.0, 1.0], [5.0, 5.0, 9.0]])
THREE = torch.tensor([[True, True, False], [True, True, True]])


def test_times_may_come_without_a_last_axis_and_as_integers():
    for positions in (TIMES, TIMES[..., None], TIMES.double(), TIMES.long()):
        points = Points(positions)
        assert points.dim == 1
        assert torch.equal(points.positions, TIMES.double()[..., None])


@pytest.mark.parametrize(
    "positions", [None, [[0.0, 1.0]], np.zeros((1, 2)), TIMES.bool(), TIMES.to(torch.complex128)]
)
def test_positions_must_be_real_tensors(positions):
    refused(TypeError, ["positions", "tensor of real numbers"], lambda: Points(positions))


@pytest.mark.parametrize("shape", [(3,), (1, 2, 3, 4), (2, 0), (2, 0, 3), (2, 3, 0)])
def test_positions_must_have_their_shape(shape):
    words = ["positions", "(B, N, D)", "(B, N)", str(shape)]
    refused(ValueError, words, lambda: Points(torch.zeros(shape)))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_positions_must_be_finite_where_a_sample_exists(bad):
    positions = TIMES.clone()
    positions[0, 2] = bad
    refused(ValueError, ["positions", "NaN", "mask"], lambda: Points(positions))
    assert Points(positions, mask=THREE).positions.isfinite().all()


def test_positions_with_a_gradient_are_refused_because_they_would_get_none():
    words = ["positions", "no gradient", "detach"]
    refused(ValueError, words, lambda: Points(TIMES.clone().requires_grad_()))


@pytest.mark.parametrize("shape", [(2, 2), (3, 3), (2, 2, 3)])
def test_a_mask_of_points_must_fit_the_positions(shape):
    words = ["mask", str(shape), "(2, 3)"]
    refused(ValueError, words, lambda: Points(TIMES, torch.ones(shape, dtype=torch.bool)))


def test_a_mask_of_points_must_be_bool_and_leave_a_sample():
    refused(TypeError, ["mask", "bool"], lambda: Points(TIMES, THREE.float()))
    empty = THREE.clone()
    empty[1] = False
    refused(ValueError, ["mask", "no sample", "[1]"], lambda: Points(TIMES, empty))


def test_a_mask_of_points_may_have_the_shape_of_a_mask_of_a_grid():
    for mask in (THREE, THREE[:, None]):
        assert torch.equal(Points(TIMES, mask).mask, THREE[:, None])


@pytest.mark.parametrize("weights", [torch.ones(2, 2), torch.ones(2, 1, 3), torch.ones(2, 3).int()])
def test_weights_must_be_one_real_number_per_point(weights):
    refused(ValueError, ["weights", "(2, 3)"], lambda: Points(TIMES, weights=weights))


def test_weights_must_be_finite_and_have_a_sum():
    for value, word in ((math.nan, "NaN"), (math.inf, "infinity"), (0.0, "sum to zero")):
        weights = torch.full((2, 3), value)
        refused(ValueError, ["weights", word], lambda w=weights: Points(TIMES, weights=w))
    refused(ValueError, ["weights", "density", "volume"], lambda: Points(TIMES, weights="volume"))


def test_weights_of_masked_points_are_nothing_and_the_others_keep_their_gradient():
    weights = torch.full((2, 3), 2.0)
    weights[0, 2] = math.nan
    points = Points(TIMES, THREE, weights.requires_grad_())
    assert points.weights[0].tolist() == [2, 2, 0]
    points.weights.sum().backward()
    assert weights.grad.tolist() == [[1, 1, 0], [1, 1, 1]]


@pytest.mark.parametrize("shape", [(2, 4, 2), (1, 4, 3), (2, 3), (2, 4, 3, 1)])
def test_points_must_fit_the_signal(shape):
    words = ["x has shape", str(shape), "(2, C, 3)"]
    refused(ValueError, words, lambda: Points(TIMES).on(torch.zeros(shape)))


def test_points_say_when_they_are_on_another_device():
    words = ["positions", "cpu", "meta", "points.to(meta)"]
    refused(ValueError, words, lambda: Points(TIMES).on(torch.zeros(2, 1, 3, device="meta")))


def test_points_move_with_to_and_are_not_checked_again():
    moved = Points(TIMES, THREE, torch.ones(2, 3)).to("meta")
    moved.on(torch.zeros(2, 1, 3, device="meta"))
    assert moved.mask.device == moved.weights.device == torch.device("meta")
    assert Points(TIMES, weights="density").to("meta").weights == "density"


def test_points_can_be_copied_and_pickled():
    points = Points(TIMES, THREE, torch.ones(2, 3))
    for copied in (copy.copy(points), copy.deepcopy(points), pickle.loads(pickle.dumps(points))):
        assert torch.equal(copied.positions, points.positions)
        assert torch.equal(copied.mask, points.mask)
        assert torch.equal(copied.weights, points.weights)


# Weights of a grid

WEIGHTS = torch.rand(3, 7) + 0.5


@pytest.mark.parametrize(
    "weights",
    [[1.0] * 7, 2.0, np.ones((3, 7)), torch.ones(3, 7, dtype=torch.int64), torch.ones(7)],
    ids=lambda w: type(w).__name__,
)
def test_weights_of_a_grid_must_be_real_numbers_of_a_batch(weights):
    words = ["weights", "real numbers", "(B, 1, *S)", "(B, *S)"]
    refused(ValueError, words, lambda: Grid(weights=weights))


def test_weights_of_a_grid_have_one_name():
    refused(ValueError, ["weights", "'dense'", '"density"'], lambda: Grid(weights="dense"))


@pytest.mark.parametrize("shape", [(3, 8), (2, 7), (3, 2, 7), (3, 7, 1, 1)])
def test_weights_must_fit_the_mask_or_the_signal(shape):
    weights = torch.ones(shape)
    refused(ValueError, ["weights", str(shape)], lambda: Grid(weights=weights).on(SEQUENCE))
    if shape != (3, 7, 1, 1):
        words = ["weights", str(shape), "mask", "(3, 7)"]
        refused(ValueError, words, lambda: Grid(mask=HOLES, weights=weights))


def test_weights_of_a_grid_must_be_finite_where_a_sample_exists_and_have_a_sum():
    bad = WEIGHTS.clone()
    bad[0, 2] = math.nan  # a hole of `HOLES`
    refused(ValueError, ["weights", "NaN"], lambda: Grid(weights=bad))
    grid = Grid(mask=HOLES, weights=bad)
    assert torch.equal(grid.weights, torch.where(HOLES, WEIGHTS, 0.0))
    refused(ValueError, ["weights", "NaN"], lambda: Grid(lengths=[3, 1, 7], weights=bad))
    assert Grid(lengths=[2, 1, 7], weights=bad).weights[0].tolist()[2:] == [0.0] * 5
    refused(ValueError, ["sum to zero"], lambda: Grid(mask=HOLES, weights=0 * WEIGHTS))


def test_weights_are_laid_like_a_mask_and_are_zero_where_there_is_no_sample():
    for mask, weights in ((HOLES, WEIGHTS), (HOLES[:, None], WEIGHTS), (HOLES, WEIGHTS[:, None])):
        laid = Grid(mask=mask, weights=weights).on(SEQUENCE)
        assert torch.equal(laid.weights, torch.where(HOLES, WEIGHTS, 0.0)[:, None])
    laid = Grid(lengths=[2, 1, 7], weights=WEIGHTS).on(SEQUENCE)
    assert torch.equal(laid.weights != 0, laid.mask)


def test_density_needs_a_mask_to_differ_from_one():
    assert Grid(weights="density").on(SEQUENCE).weights is None
    assert Grid(lengths=[2, 1, 7], weights="density").on(SEQUENCE).weights is None
    assert Grid(mask=HOLES, weights="density").on(SEQUENCE).weights == "density"


def test_weights_of_a_grid_keep_their_gradient():
    weights = WEIGHTS.clone().requires_grad_()
    Grid(mask=HOLES, weights=weights).on(SEQUENCE).weights.sum().backward()
    assert torch.equal(weights.grad, HOLES.float())


def test_weights_on_another_device_are_refused_with_the_way_out():
    x = torch.zeros(3, 2, 7, device="meta")
    words = ["weights", "cpu", "meta", "grid.to("]
    refused(ValueError, words, lambda: Grid(weights=WEIGHTS).on(x))
    assert Grid(weights=WEIGHTS).to("meta").on(x).weights.shape == (3, 1, 7)


# The observed channel


def test_an_observed_channel_says_what_is_there():
    x = torch.where(HOLES[:, None], torch.randn(3, 2, 7), math.nan)
    for mask in (HOLES, HOLES[:, None]):
        seen = with_observed(x, mask)
        assert seen.shape == (3, 3, 7)
        assert torch.equal(seen[:, :2], x.nan_to_num(0.0))
        assert torch.equal(seen[:, 2], HOLES.float())
    image = with_observed(IMAGE.double(), torch.ones(3, 5, 7, dtype=torch.bool))
    assert image.dtype == torch.float64
    assert image[:, 2].all()
    assert ccnn.with_observed is with_observed


def test_an_observed_channel_lets_gradients_through_where_there_are_samples():
    x = torch.randn(3, 2, 7, requires_grad=True)
    with_observed(x, HOLES).sum().backward()
    assert torch.equal(x.grad, HOLES[:, None].float().expand(-1, 2, -1))


def test_an_observed_channel_needs_a_mask_that_fits():
    words = ["mask", "(3, 5)", "(3, 1, 7)", "(3, 7)", "(3, 2, 7)"]
    refused(ValueError, words, lambda: with_observed(SEQUENCE, HOLES[:, :5]))
    refused(TypeError, ["mask", "float32"], lambda: with_observed(SEQUENCE, HOLES.float()))
