"""How much of a grid each sample stands for, where others are missing."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from ccnn import Grid
from ccnn.ops import gap_weights, hole_weights


def holes(*size: int, share: float = 0.5, batch: int = 3) -> Tensor:
    """A mask of which each signal has a sample."""
    mask = torch.rand(batch, 1, *size) < share
    mask[(slice(None), 0, *(n // 2 for n in size))] = True
    return mask


@pytest.mark.parametrize("causal", [False, True])
def test_in_1d_they_are_the_distances_between_neighbours(causal):
    mask = torch.tensor([[[0, 1, 1, 0, 0, 1, 0, 1, 0]], [[1, 0, 0, 0, 0, 0, 0, 0, 0]]]).bool()
    found = hole_weights(mask, causal=causal)
    expected = [0, 1, 1, 0, 0, 3, 0, 2, 0] if causal else [0, 1, 2, 0, 0, 2.5, 0, 2, 0]
    assert found[0, 0].tolist() == expected
    assert found[1, 0].tolist() == [1, 0, 0, 0, 0, 0, 0, 0, 0]
    mask = holes(40)
    index = torch.arange(40, dtype=torch.float64).expand(3, -1)
    assert torch.equal(
        hole_weights(mask, causal=causal)[:, 0], gap_weights(index, mask[:, 0], causal=causal)
    )


@pytest.mark.parametrize("size", [(1,), (17,), (1, 1), (4, 9), (7, 5, 6)])
@pytest.mark.parametrize("causal", [False, True])
def test_a_whole_grid_has_exactly_one_everywhere(size, causal):
    mask = torch.ones(2, 1, *size, dtype=torch.bool)
    assert torch.equal(hole_weights(mask, causal=causal), mask.double())


@pytest.mark.parametrize("size", [(17,), (9, 12), (7, 5, 6)])
def test_padding_is_no_hole(size):
    lengths = torch.stack([torch.randint(1, n + 1, (4,)) for n in size], dim=1)
    mask = Grid(lengths=lengths).on(torch.zeros(4, 1, *size)).mask
    assert torch.equal(hole_weights(mask, causal=False), mask.double())
    inner = holes(*size, share=0.7)
    padded = torch.nn.functional.pad(inner, [3, 8] * len(size))
    middle = (..., *(slice(3, 3 + n) for n in size))
    found = hole_weights(padded, causal=False)
    torch.testing.assert_close(found[middle], hole_weights(inner, causal=False))
    assert found.count_nonzero() == inner.sum()


def judge(mask: Tensor) -> Tensor:
    """One over the share of samples in a box of 5 per axis, by loops over (B, 1, *S)."""
    result = torch.zeros(mask.shape, dtype=torch.float64)
    for b, there in enumerate(mask[:, 0]):
        samples = there.nonzero()
        first, last = samples.amin(dim=0).tolist(), samples.amax(dim=0).tolist()
        for place in samples.tolist():
            ranges = [
                range(max(p - 2, low), min(p + 2, high) + 1)
                for p, low, high in zip(place, first, last, strict=True)
            ]
            found = sum(bool(there[index]) for index in itertools.product(*ranges))
            result[(b, 0, *place)] = math.prod(map(len, ranges)) / found
    return result


@pytest.mark.parametrize("size", [(9, 12), (3, 20), (6, 5, 7)])
@pytest.mark.parametrize("share", [0.2, 0.8])
def test_in_more_dimensions_they_are_one_over_the_share_nearby(size, share):
    mask = holes(*size, share=share)
    torch.testing.assert_close(hole_weights(mask, causal=False), judge(mask), rtol=1e-12, atol=0)


@pytest.mark.parametrize("share", [0.25, 0.5, 0.9])
@pytest.mark.parametrize("size", [(20_000,), (150, 130), (30, 28, 25)])
def test_they_sum_to_the_size_of_the_signal(size, share):
    mask = holes(*size, share=share, batch=1)
    total = float(hole_weights(mask, causal=False).sum())
    assert total == pytest.approx(math.prod(size), rel=0.02)
