"""Layers that band-limit their kernels before they sample them on a coarser grid."""

import math

import pytest
import torch
from torch import Tensor, nn

from ccnn import Grid, Points, cached
from ccnn.nn import AbstractKernelNet, CKConv, FlexConv, GaussianMask, SeparableFlexConv
from ccnn.ops import convolve

LAYERS = [SeparableFlexConv, FlexConv, CKConv]
HALF = 96  # the furthest offset of the kernels below, in training samples


class Tones(AbstractKernelNet):
    """Π_d Σ_f cos(2π f δ_d), under a Gaussian so wide that each stays a tone; f in cycles."""

    def __init__(self, *frequencies: float, dim: int = 1, half: int = HALF) -> None:
        super().__init__(dim, 1, omega_0=None)
        self.output = nn.Linear(1, 1)
        self.frequencies_, self.half = frequencies, half

    @property
    def last(self) -> nn.Linear:
        return self.output

    def forward(self, coords: Tensor) -> Tensor:
        delta = coords * self.half
        tones = sum(torch.cos(2 * math.pi * f * delta) for f in self.frequencies_)
        return (tones * torch.exp(-((delta * 3 / self.half) ** 2))).prod(dim=-1, keepdim=True)


def tones(*frequencies: float, lowpass: bool, dim: int = 1, half: int = HALF) -> CKConv:
    kernel = Tones(*frequencies, dim=dim, half=half)
    size = (2 * half + 1,) * dim
    return CKConv(1, 1, size=size, kernel=kernel, init="none", lowpass=lowpass).double()


def within(wide: Tensor, shape: torch.Size) -> Tensor:
    """Return the middle of a kernel, as large as another."""
    for axis, n in enumerate(shape):
        wide = wide.narrow(axis, (wide.shape[axis] - n) // 2, n)
    return wide


# Below, the coarse grid's Nyquist frequency is 1/(2s).


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("spacing", [2.0, 3.0, 1.5, 2.6])
def test_a_tone_below_nyquist_is_kept_and_one_above_is_lost(spacing, dim):
    half = HALF if dim == 1 else 48
    nyquist = 1 / (2 * spacing)
    for frequency, kept in ((0.4 * nyquist, True), (min(1.6 * nyquist, 0.49), False)):
        plain, filtered = (
            tones(frequency, lowpass=on, dim=dim, half=half).sampled_kernel(spacing)
            for on in (False, True)
        )
        middle = within(filtered, plain.shape)
        error = (middle - plain if kept else filtered).norm() / plain.norm()
        assert error < 0.01


@torch.no_grad()
@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize(("spacing", "every"), [(2.0, 1), (4.0, 1), (1.5, 2)])
def test_eq_1_holds_for_kernels_above_the_coarse_nyquist(spacing, every, dim):
    """The response of a signal that both grids hold, to a kernel that only the fine one holds.

    The kernel's upper tone comes back on the coarse grid where the signal is.
    """
    half = HALF if dim == 1 else 48
    low = 0.2 / spacing
    high = 1 / spacing - low

    def signal(step):
        t = torch.arange(0, 2 * half + 1e-6, step, dtype=torch.float64)
        row = torch.cos(2 * math.pi * low * t) * torch.exp(-(((t - half) / half * 3) ** 2))
        return row[None, None] if dim == 1 else (row[:, None] * row)[None, None]

    shared = round(every * spacing)  # every second of spacing 1.5 is every third of 1
    errors = []
    for on in (False, True):
        layer = tones(low, high, lowpass=on, dim=dim, half=half)
        fine = layer(signal(1.0))[(..., *(slice(None, None, shared),) * dim)]
        coarse = layer(signal(spacing), Grid(spacing))[(..., *(slice(None, None, every),) * dim)]
        errors.append(float((coarse - fine).norm() / fine.norm()))
    assert errors[0] > 0.5
    assert errors[1] < 0.02


def layer_of(cls, size, *, lowpass, causal=False, dtype=torch.float64):
    torch.manual_seed(5)
    mask = None if cls is CKConv else GaussianMask(len(size), sigma=0.4)
    return cls(2, 3, size=size, mask=mask, causal=causal, lowpass=lowpass).to(dtype)


@pytest.mark.parametrize("spacing", [1.0, 0.5, 0.3])
@pytest.mark.parametrize("cls", LAYERS)
def test_up_to_the_training_spacing_nothing_changes_bit_for_bit(cls, spacing):
    for size, causal in (((33,), False), ((33,), True), ((9, 7), False)):
        plain, filtered = (layer_of(cls, size, causal=causal, lowpass=on) for on in (False, True))
        x = torch.randn(2, 2, *size, dtype=torch.float64)
        assert torch.equal(plain.sampled_kernel(spacing), filtered.sampled_kernel(spacing))
        results = [layer(x, Grid(spacing)) for layer in (plain, filtered)]
        assert torch.equal(*results)
        for y in results:
            y.square().sum().backward()
        for p, q in zip(plain.parameters(), filtered.parameters(), strict=True):
            assert torch.equal(p.grad, q.grad)


def test_only_axes_that_are_coarser_are_filtered():
    plain, filtered = (layer_of(FlexConv, (17, 21), lowpass=on) for on in (False, True))
    fine = plain.sampled_kernel()
    mixed = filtered.sampled_kernel((1.0, 2.0))
    assert mixed.shape[-2] == fine.shape[-2]
    for o, i, row in ((0, 0, 3), (2, 1, 8)):
        layer = filtered.sampled_kernel((1.0, 2.0))[o, i, row]
        expected = convolved_and_thinned(fine[o, i, row], 2)
        torch.testing.assert_close(layer, expected, rtol=1e-10, atol=1e-12)


def convolved_and_thinned(row: Tensor, factor: int) -> Tensor:
    """s · (h ⋆ K) at every m-th sample around the middle, with a filter written out here."""
    n = torch.arange(-4 * factor, 4 * factor + 1, dtype=torch.float64)
    h = torch.sinc(n / factor) * torch.hann_window(8 * factor + 1, periodic=False, dtype=n.dtype)
    h = h / h.sum()
    middle = len(row) // 2
    reach = (middle + 4 * factor - 1) // factor
    padded = torch.nn.functional.pad(row, (8 * factor + middle, 8 * factor + middle))
    start = 8 * factor + 2 * middle
    windows = [padded[start + j * factor + n.long()] for j in range(-reach, reach + 1)]
    return factor * torch.stack(windows) @ h


@pytest.mark.parametrize("cls", LAYERS)
@pytest.mark.parametrize("spacing", [2.0, 1.3])
def test_a_causal_layer_sees_nothing_later(cls, spacing):
    layer = layer_of(cls, (40,), causal=True, lowpass=True)
    kernel = layer.sampled_kernel(spacing)
    x = torch.randn(2, 2, 30, dtype=torch.float64)
    changed = x.clone()
    changed[..., 20:] += 1.0
    # By the definition, no output before the change meets any of it: exactly.
    ys = [convolve(v, kernel, causal=True, method="direct")[..., :20] for v in (x, changed)]
    assert torch.equal(*ys)
    grid = Grid(spacing)
    before, after = layer(x, grid), layer(changed, grid)
    torch.testing.assert_close(after[..., :20], before[..., :20], rtol=0, atol=1e-12)
    assert (after[..., 20] - before[..., 20]).abs().min() > 1e-6


def test_a_causal_kernel_is_the_filtered_one_up_to_lag_zero():
    layer = layer_of(CKConv, (40,), causal=True, lowpass=True)
    past = layer_of(CKConv, (40,), causal=True, lowpass=False).sampled_kernel()
    both = torch.nn.functional.pad(past, (0, 39))  # zero for later samples
    expected = torch.stack([convolved_and_thinned(row, 2) for row in both.flatten(0, 1)])
    found = layer.sampled_kernel(2.0).flatten(0, 1)
    torch.testing.assert_close(found, expected[:, : found.shape[1]], rtol=1e-10, atol=1e-12)
    assert found.shape[1] == expected.shape[1] // 2 + 1


@pytest.mark.parametrize(("size", "causal"), [((9,), True), ((5, 5), False)])
def test_gradients_are_those_of_the_function(size, causal):
    layer = layer_of(FlexConv, size, causal=causal, lowpass=True)
    names = ["mask.sigma", "kernel.output.bias", "kernel.filters.0.bias"]
    chosen = tuple(dict(layer.named_parameters())[name] for name in names)
    x = torch.randn(1, 2, *(3 for _ in size), dtype=torch.float64)

    def run(*values):
        parameters = dict(zip(names, values, strict=True))
        return torch.func.functional_call(layer, parameters, (x, Grid(1.5)))

    assert torch.autograd.gradcheck(run, chosen)


@pytest.mark.parametrize("cls", LAYERS)
def test_inside_cached_it_is_the_same(cls):
    layer = layer_of(cls, (40,), lowpass=True).eval()
    x = torch.randn(2, 2, 20, dtype=torch.float64)
    expected = layer(x, Grid(2.0))
    with cached(layer):
        for _ in range(2):
            torch.testing.assert_close(layer(x, Grid(2.0)), expected, rtol=0, atol=1e-12)


def test_points_have_no_spacing_and_see_the_kernel_as_it_is():
    plain, filtered = (layer_of(FlexConv, (24,), lowpass=on) for on in (False, True))
    x, points = torch.randn(2, 2, 9, dtype=torch.float64), Points(24 * torch.rand(2, 9))
    assert torch.equal(filtered(x, points), plain(x, points))


def test_few_shapes_serve_all_sigmas():
    layer = layer_of(SeparableFlexConv, (999,), lowpass=True)
    shapes = set()
    for sigma in torch.linspace(0.02, 0.2, 40):
        layer.mask.sigma.data.fill_(sigma)
        shapes.add(layer.sampled_kernel(2.0).shape)
    assert len(shapes) < 20
