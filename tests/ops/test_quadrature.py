"""How much of space scattered samples stand for, and who is whose neighbour."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ccnn.ops import density_weights, gap_weights
from ccnn.ops.neighbours import Neighbours


def row(*numbers: float) -> torch.Tensor:
    return torch.tensor([numbers], dtype=torch.float64)


def equal(found, *expected: float) -> None:
    torch.testing.assert_close(found, row(*expected))


# Sequences


@pytest.mark.parametrize("causal", [False, True])
def test_on_the_training_grid_every_sample_counts_one(causal):
    equal(gap_weights(row(5, 6, 7, 8), causal=causal), 1, 1, 1, 1)


def test_centred_samples_count_half_the_distance_between_their_neighbours():
    equal(gap_weights(row(0, 1, 3, 7), causal=False), 1, 1.5, 3, 4)


def test_causal_samples_count_the_gap_to_the_previous_one():
    equal(gap_weights(row(0, 2, 3, 7), causal=True), 1, 2, 1, 4)


def test_samples_at_one_position_share_its_weight():
    equal(gap_weights(row(3, 0, 1, 1, 7), causal=False), 3, 1, 0.75, 0.75, 4)
    equal(gap_weights(row(3, 0, 1, 1, 7), causal=True), 2, 1, 0.5, 0.5, 4)


@pytest.mark.parametrize("causal", [False, True])
def test_a_sample_alone_counts_one_and_several_at_one_place_share_it(causal):
    equal(gap_weights(row(42), causal=causal), 1)
    equal(gap_weights(row(42, 42), causal=causal), 0.5, 0.5)


@pytest.mark.parametrize("causal", [False, True])
def test_masked_samples_are_no_neighbours_and_count_nothing(causal):
    mask = torch.tensor([[True, False, True, True, False]])
    found = gap_weights(row(3, 2, 7, 1, 9), mask, causal=causal)
    alone = gap_weights(row(3, 7, 1), causal=causal)
    torch.testing.assert_close(found[mask], alone[0])
    assert found[~mask].tolist() == [0, 0]


@given(st.integers(1, 12), st.booleans())
def test_gap_weights_follow_a_permutation_and_ignore_a_shift(count, causal):
    times = torch.randint(0, 8, (3, count)).double()
    order = torch.randperm(count)
    weights = gap_weights(times, causal=causal)
    torch.testing.assert_close(gap_weights(times[:, order], causal=causal), weights[:, order])
    torch.testing.assert_close(gap_weights(times + 64, causal=causal), weights)


def test_no_causal_weight_depends_on_a_later_sample():
    times = torch.rand(1, 20, dtype=torch.float64).sort().values * 9
    for n in range(1, 20):
        weights = gap_weights(times[:, :n], causal=True)
        assert torch.equal(weights, gap_weights(times, causal=True)[:, :n])


# Clouds


@pytest.mark.parametrize("counts", [(7,), (6, 4), (3, 5, 4)])
@pytest.mark.parametrize("spacing", [1.0, 0.3, 2.5])
def test_density_on_a_regular_grid_is_its_volume_per_point(counts, spacing):
    grid = torch.tensor(list(itertools.product(*map(range, counts))), dtype=torch.float64)
    found = density_weights(spacing * grid[torch.randperm(len(grid))][None])
    equal(found, *[spacing ** len(counts)] * len(grid))


def test_density_weights_of_a_cloud_add_up_to_its_volume():
    """Twice as many points on one half of a square: their weights are half as large."""
    left = torch.rand(1, 2000, 2, dtype=torch.float64) * torch.tensor([15.0, 30.0])
    right = torch.rand(1, 4000, 2, dtype=torch.float64) * torch.tensor([15.0, 30.0])
    right[..., 0] += 15
    weights = density_weights(torch.cat([left, right], dim=1))
    assert weights.sum().item() == pytest.approx(900, rel=0.15)
    ratio = weights[:, :2000].mean() / weights[:, 2000:].mean()
    assert ratio.item() == pytest.approx(2, rel=0.1)


def test_density_ignores_masked_points():
    cloud = torch.rand(2, 30, 3, dtype=torch.float64) * 5
    mask = torch.rand(2, 30) < 0.6
    found = density_weights(cloud, mask)
    for points, alive, weights in zip(cloud, mask, found, strict=True):
        torch.testing.assert_close(weights[alive], density_weights(points[alive][None])[0])
        assert not weights[~alive].any()


def test_density_of_one_point_is_one():
    equal(density_weights(torch.full((1, 1, 3), 7.0, dtype=torch.float64)), 1.0)


# Neighbours


@given(
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 25),
    st.integers(1, 12),
    st.booleans(),
    st.sampled_from([1, 7, 1000]),
)
def test_pairs_are_those_of_comparing_all_with_all(dim, batch, count, outputs, causal, most):
    causal = causal and dim == 1
    # Whole numbers, so that ties and neighbours exactly at the radius occur.
    positions = torch.randint(-6, 7, (batch, count, dim)).double()
    query = torch.randint(-9, 10, (batch, outputs, dim)).double()
    alive = torch.rand(batch, count) < 0.8
    radius = [2.0, 3.0, 1.0][:dim]
    offset = positions[:, None] - query[:, :, None]  # (B, M, N, D)
    near = (offset.abs() <= torch.tensor(radius)).all(dim=-1) & alive[:, None]
    near = near & (offset[..., 0] <= 0) if causal else near
    expected = {(b * outputs + i, b * count + j) for b, i, j in near.nonzero().tolist()}
    found = []
    for target, source, delta in Neighbours(positions, alive, query, radius, causal=causal).pairs(
        most
    ):
        assert len(target) <= most
        found += zip(target.tolist(), source.tolist(), strict=True)
        flat = positions.flatten(0, 1)[source] - query.flatten(0, 1)[target]
        assert torch.equal(delta, flat)
    assert len(found) == len(set(found))
    assert set(found) == expected


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_a_point_far_away_is_nobodys_neighbour(dim):
    positions = torch.tensor([0.0, 0.5, 1e15], dtype=torch.float64)
    positions = positions[None, :, None].expand(1, 3, dim)
    pairs = Neighbours(positions, None, positions, [1.0] * dim).pairs(10)
    found = {(i, j) for t, s, _ in pairs for i, j in zip(t.tolist(), s.tolist(), strict=True)}
    assert found == {(0, 0), (0, 1), (1, 0), (1, 1), (2, 2)}
