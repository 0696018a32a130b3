"""Pooling: over valid positions, whatever the others hold."""

import pytest
import torch

from ccnn.nn.pool import last_position, mean_over_positions

SIZES = [(7,), (4, 5), (2, 3, 4), (2, 2, 2, 3)]
each_padding = pytest.mark.parametrize("padding", [0.0, 1e6, torch.inf, torch.nan])


def random_mask(batch: int, size: tuple[int, ...]) -> torch.Tensor:
    mask = torch.rand(batch, 1, *size) < 0.6
    mask[(slice(None), 0, *(0 for _ in size))] = True
    return mask


@pytest.mark.parametrize("size", SIZES)
def test_the_mean_over_all_positions(size):
    x = torch.randn(3, 2, *size, dtype=torch.float64)
    expected = x.sum(dim=tuple(range(2, x.ndim))) / x[0, 0].numel()
    torch.testing.assert_close(mean_over_positions(x), expected)
    everywhere = torch.ones(3, 1, *size, dtype=torch.bool)
    torch.testing.assert_close(mean_over_positions(x, everywhere), expected)


@pytest.mark.parametrize("size", SIZES)
@each_padding
def test_the_mean_over_valid_positions(size, padding):
    """Each signal's mean is that of its own samples, taken alone; so are the gradients."""
    x, mask = torch.randn(3, 2, *size, dtype=torch.float64), random_mask(3, size)
    padded = torch.where(mask, x, padding).requires_grad_()
    y = mean_over_positions(padded, mask)
    expected = torch.stack(
        [
            signal.movedim(0, -1)[exists[0]].mean(dim=0)
            for signal, exists in zip(x, mask, strict=True)
        ]
    )
    torch.testing.assert_close(y, expected)
    weight = torch.randn(3, 2, dtype=torch.float64)
    (y * weight).sum().backward()
    share = mask / mask.flatten(1).sum(dim=1).view(3, *(1,) * (x.ndim - 1))
    expected = weight.view(3, 2, *(1,) * len(size)) * share
    torch.testing.assert_close(padded.grad, expected)


def test_a_batch_of_one_stays_a_batch():
    """The authors' squeeze() drops it."""
    x, mask = torch.randn(1, 1, 4, 4), torch.ones(1, 1, 4, 4, dtype=torch.bool)
    assert mean_over_positions(x).shape == (1, 1)
    assert mean_over_positions(x, mask).shape == (1, 1)
    assert last_position(x[:, 0]).shape == (1, 4)
    assert last_position(x[:, 0, :1], mask[:, 0, :1]).shape == (1, 1)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_mean_of_a_long_signal_fits_into_half_precision(dtype, masked):
    """Its sum does not: float16 ends at 65504, as inside autocast on a GPU."""
    x = torch.full((1, 1, 50_000), 3.0, dtype=dtype)
    mask = torch.ones(1, 1, 50_000, dtype=torch.bool) if masked else None
    y = mean_over_positions(x, mask)
    assert y.dtype == dtype
    assert y.item() == 3.0


def test_the_last_position():
    x = torch.randn(3, 2, 7)
    torch.testing.assert_close(last_position(x), x[:, :, 6], rtol=0, atol=0)
    everywhere = torch.ones(3, 1, 7, dtype=torch.bool)
    torch.testing.assert_close(last_position(x, everywhere), x[:, :, 6], rtol=0, atol=0)


@each_padding
def test_the_last_valid_position(padding):
    """Padding behind, holes before, a single sample."""
    exists = [[1, 1, 1, 1, 0, 0, 0], [1, 0, 1, 0, 0, 1, 0], [0, 0, 0, 1, 0, 0, 0]]
    mask = torch.tensor(exists).bool()[:, None]
    last = [3, 5, 3]
    x = torch.where(mask, torch.randn(3, 2, 7), padding).requires_grad_()
    y = last_position(x, mask)
    expected = torch.stack([signal[:, t] for signal, t in zip(x, last, strict=True)])
    torch.testing.assert_close(y, expected, rtol=0, atol=0)
    weight = torch.randn(3, 2)
    (y * weight).sum().backward()
    for signal, t, w in zip(x.grad, last, weight, strict=True):
        torch.testing.assert_close(signal[:, t], w, rtol=0, atol=0)
        assert signal.count_nonzero() == 2
