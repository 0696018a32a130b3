"""The low-pass of a sampled kernel: what it passes, what it stops, where its samples lie."""

import math

import pytest
import torch
from torch import Tensor

from ccnn.ops.lowpass import lowpass_taps, oversampling, thin_out


@pytest.mark.parametrize(
    ("spacing", "factor"),
    [(0.1, 1), (1, 1), (1.0, 1), (1.2, 2), (2, 2), (2.5, 3), (3.0000000001, 3), (7.9, 8)],
)
def test_the_fine_spacing_is_the_largest_that_training_knows(spacing, factor):
    assert oversampling(spacing) == factor
    assert spacing / factor <= 1 + 1e-6


def response(factor: int, frequency: float) -> float:
    """What is left of a tone, of a frequency in units of the coarse Nyquist frequency."""
    taps = lowpass_taps(factor)
    n = torch.arange(len(taps)) - len(taps) // 2
    return float((taps * torch.cos(math.pi * frequency / factor * n)).sum())


@pytest.mark.parametrize("factor", [2, 3, 8])
def test_the_filter_passes_what_the_coarse_grid_holds_and_stops_the_rest(factor):
    assert response(factor, 0.0) == pytest.approx(1.0, abs=1e-12)
    for frequency in torch.linspace(0, 0.6, 61).tolist():
        assert response(factor, frequency) == pytest.approx(1.0, abs=0.01)
    assert response(factor, 1.0) == pytest.approx(0.5, abs=0.01)
    for frequency in torch.linspace(1.4, factor, 61).tolist():
        assert abs(response(factor, frequency)) < 0.01
    taps = lowpass_taps(factor)
    torch.testing.assert_close(taps, taps.flip(0), rtol=0, atol=1e-15)


def judge(kernel: Tensor, factor: int, *, causal: bool) -> list[float]:
    """Every m-th value of Σ_n h(n) K(i + n), from the first that is not zero for sure, by loops."""
    taps = lowpass_taps(factor).tolist()
    half, fine = len(taps) // 2, len(kernel) - 1 if causal else len(kernel) // 2
    reach = (fine + half) // factor
    result = []
    for j in range(-reach, 1 if causal else reach + 1):
        total = 0.0
        for n, tap in zip(range(-half, half + 1), taps, strict=True):
            place = j * factor + n + fine
            total += tap * float(kernel[place]) if 0 <= place < len(kernel) else 0.0
        result.append(total)
    return result


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("factor", [2, 3, 5])
@pytest.mark.parametrize("taps", [1, 7, 31])
def test_thinning_out_is_the_sum_over_the_fine_samples(taps, factor, causal):
    kernel = torch.randn(taps, dtype=torch.float64)
    found = thin_out(kernel, [factor], causal=causal)
    torch.testing.assert_close(found, found.new_tensor(judge(kernel, factor, causal=causal)))


def test_nothing_is_left_beyond_the_ends():
    """One coarse sample more would be zero: no tap of the filter meets the kernel there."""
    for taps, factor in ((1, 2), (7, 2), (9, 3), (31, 5)):
        kernel = torch.ones(taps, dtype=torch.float64)
        wide = torch.nn.functional.pad(kernel, (factor, factor))
        found, wider = (thin_out(k, [factor], causal=False) for k in (kernel, wide))
        torch.testing.assert_close(wider[1:-1], found, rtol=0, atol=1e-15)
        assert wider[0] == wider[-1] == 0


def test_each_axis_is_filtered_alone():
    kernel = torch.randn(3, 9, 7, 5, dtype=torch.float64)
    found = thin_out(kernel, [2, 1, 3], causal=False)
    rows = torch.stack(
        [thin_out(k, [2], causal=False) for k in kernel.movedim(1, -1).flatten(0, 2)]
    )
    rows = rows.view(3, 7, 5, -1).movedim(-1, 1)
    columns = torch.stack([thin_out(k, [3], causal=False) for k in rows.flatten(0, 2)])
    torch.testing.assert_close(found, columns.view(3, rows.shape[1], 7, -1))
    assert thin_out(kernel, [1, 1, 1], causal=False) is kernel


def test_the_sum_of_a_kernel_is_kept():
    """A constant signal gives the same response on both grids."""
    kernel = torch.randn(60, dtype=torch.float64)
    for factor in (2, 3):
        coarse = factor * thin_out(kernel, [factor], causal=False)
        assert float(coarse.sum()) == pytest.approx(float(kernel.sum()), abs=0.05)


def test_gradients_are_right():
    kernel = torch.randn(2, 7, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda k: thin_out(k, [2, 3], causal=False), (kernel,))
    series = torch.randn(2, 8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda k: thin_out(k, [2], causal=True), (series,))
