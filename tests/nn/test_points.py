"""Layers at scattered points: a grid is a special case, time runs forwards, order is nothing."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from ccnn import Grid, Points, cached
from ccnn.nn import KERNELS, CKConv, FlexConv, GaussianMask, SeparableFlexConv
from ccnn.nn.pool import latest_points, mean_over_points, mean_over_positions
from ccnn.nn.scattered import lay
from ccnn.ops.neighbours import Neighbours

LAYERS = [SeparableFlexConv, FlexConv, CKConv]
# (size, causal): several taps on every axis
GEOMETRIES = [((24,), False), ((25,), True), ((7, 9), False), ((5, 6, 4), False)]


def layer_of(cls, size, causal=False, **settings):
    """A layer in float64 whose biases are not zero."""
    layer = cls(2, 3, size=size, causal=causal, **settings).double()
    for parameter in layer.parameters():
        parameter.data.add_(0.03 * torch.randn_like(parameter))
    return layer


def lattice(size, batch=2) -> Tensor:
    """The positions of a regular grid, (B, N, D)."""
    grid = torch.tensor(list(itertools.product(*map(range, size))), dtype=torch.float64)
    return grid.expand(batch, -1, -1)


def scattered(size, count, batch=2) -> Tensor:
    return torch.rand(batch, count, len(size), dtype=torch.float64) * torch.tensor(size)


def signal(layer, count, batch=2) -> Tensor:
    return torch.randn(batch, layer.in_channels, count, dtype=layer.bias.dtype)


# A grid


@pytest.mark.parametrize(("size", "causal"), GEOMETRIES)
@pytest.mark.parametrize("cls", LAYERS)
def test_points_on_a_regular_grid_are_a_grid(cls, size, causal):
    layer = layer_of(cls, size, causal)
    x = signal(layer, math.prod(size)).requires_grad_()
    on_grid = layer(x.view(2, -1, *size)).flatten(2)
    at_points = layer(x, Points(lattice(size)))
    torch.testing.assert_close(at_points, on_grid, rtol=1e-8, atol=1e-8)
    inputs, grad = [x, *layer.parameters()], torch.randn_like(on_grid)
    expected = torch.autograd.grad(on_grid, inputs, grad)
    for found, wanted in zip(torch.autograd.grad(at_points, inputs, grad), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("sigma", [1e-3, 0.2, 0.4, 5.0])
@pytest.mark.parametrize(("size", "causal"), GEOMETRIES)
def test_points_on_a_regular_grid_are_a_grid_with_a_smooth_window(size, causal, sigma):
    """Also where it is narrower than a sample, and where it is wider than the kernel."""
    mask = GaussianMask(len(size), sigma=sigma, window="smooth")
    layer = layer_of(SeparableFlexConv, size, causal, mask=mask)
    x = signal(layer, math.prod(size)).requires_grad_()
    on_grid = layer(x.view(2, -1, *size)).flatten(2)
    at_points = layer(x, Points(lattice(size)))
    torch.testing.assert_close(at_points, on_grid, rtol=1e-8, atol=1e-8)
    inputs, grad = [x, *layer.parameters()], torch.randn_like(on_grid)
    expected = torch.autograd.grad(on_grid, inputs, grad)
    for found, wanted in zip(torch.autograd.grad(at_points, inputs, grad), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("cls", LAYERS)
def test_a_table_of_a_band_limited_kernel_is_a_grid_to_1e_4(cls, causal):
    """float32, off any lattice, and enough pairs that the kernel network sees the table only."""
    mask = None if cls is CKConv else GaussianMask(1, sigma=0.3)
    layer = cls(2, 3, size=(101,), causal=causal, mask=mask)
    x = torch.randn(6, 2, 600)
    seen = []
    layer.kernel.register_forward_hook(lambda _, inputs, __: seen.append(len(inputs[0])))
    at_points = layer(x, Points(lattice((600,), batch=6) + 0.3))
    assert sum(seen) < 6 * 600 * 60
    on_grid = layer(x)
    scale = on_grid.abs().max()
    assert (at_points - on_grid).abs().max() <= 1e-4 * scale
    grads = [
        torch.autograd.grad(y.square().mean(), layer.parameters()) for y in (at_points, on_grid)
    ]
    for found, wanted in zip(*grads, strict=True):
        assert (found - wanted).norm() <= 1e-4 * wanted.norm() + 1e-6


def test_the_series_of_a_smooth_window_is_a_grid_to_1e_4():
    """float32, and so many pairs that the kernel network sees the samples of its series only."""
    pytest.importorskip("finufft")
    mask = GaussianMask(1, sigma=0.3, window="smooth")
    layer = SeparableFlexConv(2, 3, size=(301,), mask=mask)
    x, seen = torch.randn(1, 2, 1500), []
    layer.kernel.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0]))
    at_points = layer(x, Points(lattice((1500,), batch=1) + 0.3))
    assert max(len(coords) for coords in seen) < 1500 * 10
    assert all(coords.dtype == torch.float64 for coords in seen)  # no pair was looked at
    on_grid = layer(x)
    assert (at_points - on_grid).abs().max() <= 1e-4 * on_grid.abs().max()
    grads = [
        torch.autograd.grad(y.square().mean(), layer.parameters()) for y in (at_points, on_grid)
    ]
    for found, wanted in zip(*grads, strict=True):
        assert (found - wanted).norm() <= 1e-4 * wanted.norm() + 1e-6


def test_layers_over_the_same_points_look_for_neighbours_once(monkeypatch):
    layers = [layer_of(SeparableFlexConv, (7, 9)) for _ in range(3)]
    for layer, sigma in zip(layers, (0.3, 0.31, 0.28), strict=True):
        layer.mask.sigma.data.fill_(sigma)
    x, positions = signal(layers[0], 20), scattered((7, 9), 20)
    alone = [layer(x, Points(positions)) for layer in layers]
    looked, original = [], Neighbours.__init__

    def counted(self, *arguments, **settings):
        looked.append(self)
        original(self, *arguments, **settings)

    monkeypatch.setattr(Neighbours, "__init__", counted)
    points = lay(Points(positions), x, 2, causal=False)
    for layer, expected in zip(layers, alone, strict=True):
        torch.testing.assert_close(layer(x, points), expected, rtol=1e-12, atol=1e-12)
    assert len(looked) == 1  # a margin covers small differences of σ


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_network_can_be_tabulated(name):
    """A kernel network's buffers, too, are taken to the table's float64."""
    settings = {} if name == "MLP" else {"omega_0": "auto"}
    kernel = KERNELS[name](1, 2, **settings)
    layer = SeparableFlexConv(2, 3, size=(65,), kernel=kernel)
    x, positions = torch.randn(2, 2, 900), lattice((900,)) + 0.3
    y = layer(x, Points(positions))
    torch.testing.assert_close(y, layer(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("size", "causal"), [((24,), False), ((7, 9), False)])
def test_a_coarser_grid_is_points_with_the_weight_of_its_cells(size, causal):
    layer = layer_of(SeparableFlexConv, size, causal)
    x = signal(layer, math.prod(size))
    points = Points(2.0 * lattice(size), weights="density" if len(size) > 1 else None)
    expected = layer(x.view(2, -1, *size), Grid(spacing=2.0)).flatten(2)
    torch.testing.assert_close(layer(x, points), expected, rtol=1e-8, atol=1e-8)


def test_a_window_off_the_middle_is_cut_as_on_a_grid():
    for mean in (0.2, -0.6):
        mask = GaussianMask(1, sigma=0.1, mean=mean, learn_mean=True)
        layer = layer_of(FlexConv, (31,), mask=mask)
        x = signal(layer, 31)
        torch.testing.assert_close(layer(x, Points(lattice((31,)))), layer(x), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("sigma", [0.0, 1e-9, -0.2, 1e6])
def test_any_sigma_is_safe(sigma):
    layer = layer_of(SeparableFlexConv, (15,), mask=GaussianMask(1, sigma=sigma))
    layer.mask.sigma.data.fill_(sigma)
    x = signal(layer, 15)
    y = layer(x, Points(lattice((15,))))
    torch.testing.assert_close(y, layer(x), rtol=1e-8, atol=1e-8)
    y.square().sum().backward()
    assert layer.mask.sigma.grad.isfinite().all()


# What must not matter


@pytest.mark.parametrize(("size", "causal"), GEOMETRIES)
def test_permuting_points_permutes_outputs(size, causal):
    layer = layer_of(SeparableFlexConv, size, causal)
    positions, x = scattered(size, 30), signal(layer, 30)
    positions[:, 3] = positions[:, 17]  # a tie
    order = torch.randperm(30)
    expected = layer(x, Points(positions))[..., order]
    found = layer(x[..., order], Points(positions[:, order]))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("size", "causal"), GEOMETRIES)
def test_shifting_all_positions_changes_nothing(size, causal):
    layer = layer_of(SeparableFlexConv, size, causal)
    positions, x = scattered(size, 30), signal(layer, 30)
    expected = layer(x, Points(positions))
    # 1e4 training samples away; differences of positions keep 1e-12.
    torch.testing.assert_close(layer(x, Points(positions + 1e4)), expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("weights", [None, "density"])
@pytest.mark.parametrize(("size", "causal"), GEOMETRIES)
def test_masked_points_change_nothing(size, causal, weights):
    if causal and weights is not None:
        pytest.skip("refused; see below")
    layer = layer_of(SeparableFlexConv, size, causal)
    positions, x = scattered(size, 30), signal(layer, 30)
    mask = torch.rand(2, 30) < 0.6
    rubbish = torch.where(mask[..., None], positions, math.nan)
    y = layer(torch.where(mask[:, None], x, math.nan), Points(rubbish, mask, weights))
    y.square().sum().backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters())
    for b in range(2):
        alive = mask[b]
        alone = layer(x[b : b + 1, :, alive], Points(positions[b : b + 1, alive], weights=weights))
        torch.testing.assert_close(y[b][:, alive], alone[0], rtol=1e-9, atol=1e-9)


# Time


@pytest.mark.parametrize("cls", LAYERS)
def test_nothing_leaks_from_later_samples_nor_their_positions(cls):
    layer = layer_of(cls, (25,), causal=True)
    times = 25 * torch.rand(1, 20, dtype=torch.float64).sort().values
    x = signal(layer, 20, batch=1)
    expected = layer(x, Points(times))
    for n in (1, 2, 7, 19):
        later, other = times.clone(), x.clone()
        later[:, n:] = times[:, n - 1 : n] + 9 * torch.rand(1, 20 - n)
        other[..., n:] = torch.randn_like(other[..., n:])
        found = layer(other, Points(later))
        torch.testing.assert_close(found[..., :n], expected[..., :n], rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(
            layer(x[..., :n], Points(times[:, :n])), expected[..., :n], rtol=1e-12, atol=1e-12
        )


def test_samples_at_one_time_see_each_other():
    layer = layer_of(SeparableFlexConv, (25,), causal=True, mask=GaussianMask(1, sigma=0.5))
    times = torch.tensor([[0.0, 1.0, 1.0, 2.0]])
    x = signal(layer, 4, batch=1).requires_grad_()
    y = layer(x, Points(times))
    for i, seen in enumerate([[0], [0, 1, 2], [0, 1, 2], [0, 1, 2, 3]]):
        (grad,) = torch.autograd.grad(y[..., i].sum(), x, retain_graph=True)
        assert (grad[0].abs().amax(dim=0) > 0).nonzero().flatten().tolist() == seen


def test_duplicates_count_as_one_sample_together():
    """Two samples at one place with one value are one sample."""
    layer = layer_of(SeparableFlexConv, (25,))
    times = torch.tensor([[0.0, 1.5, 1.5, 4.0]])
    x = signal(layer, 4, batch=1)
    x[..., 2] = x[..., 1]
    alone = layer(x[..., [0, 1, 3]], Points(times[:, [0, 1, 3]]))
    torch.testing.assert_close(layer(x, Points(times))[..., [0, 1, 3]], alone)


# The integral


@pytest.mark.parametrize("causal", [False, True])
def test_the_sum_converges_to_the_integral(causal):
    """A smooth bump, sampled irregularly and ever denser; the reference is a fine grid.

    Centred weights are the trapezoidal rule's: second order. Causal ones, which must not look
    ahead, are those of rectangles: first order. The cut of the window is a jump of a tenth of its
    height and adds a first-order error of its own, so the window is as wide as the kernel here.
    """
    layer = layer_of(SeparableFlexConv, (65,), causal, mask=GaussianMask(1, sigma=5.0))

    def bump(t):
        return torch.exp(-(((t - 32) / 4) ** 2))[:, None].expand(-1, 2, -1)

    def irregular(count):
        t = torch.linspace(0, 64, count, dtype=torch.float64)
        return (t + 0.9 * torch.sin(t / 5) + 0.2 * torch.sin(t))[None]

    # Samples of every sampling: the way from the last one to the output would not be counted.
    query, fine = irregular(65)[:, [30, 36, 41]], irregular(64 * 256 + 1)
    exact = layer(bump(fine), Points(fine), query=query)
    errors = []
    for count in (65, 129, 257, 513):
        t = irregular(count)
        errors.append((layer(bump(t), Points(t), query=query) - exact).norm().item())

    orders = [math.log2(a / b) for a, b in itertools.pairwise(errors)]
    assert errors[-1] < errors[0] / (6 if causal else 30)
    assert orders[-1] == pytest.approx(1.0 if causal else 2.0, abs=0.35)


# Other positions


@pytest.mark.parametrize(("size", "causal"), GEOMETRIES)
@pytest.mark.parametrize("cls", LAYERS)
def test_outputs_at_the_samples_positions_are_the_samples_outputs(cls, size, causal):
    layer = layer_of(cls, size, causal)
    points, x = Points(scattered(size, 20)), signal(layer, 20)
    query = points.positions[:, [4, 2, 9]]
    expected = layer(x, points)[..., [4, 2, 9]]
    torch.testing.assert_close(layer(x, points, query=query), expected, rtol=1e-9, atol=1e-9)


def test_outside_of_any_support_only_the_biases_are_left():
    layer = layer_of(FlexConv, (24,))
    far = torch.tensor([[1e6], [-1e6]])
    y = layer(signal(layer, 9), Points(scattered((24,), 9)), query=far)
    torch.testing.assert_close(y, layer.bias[None, :, None].expand(2, -1, 1))


def test_query_needs_points_that_fit():
    layer = layer_of(FlexConv, (7, 9))
    x, points = signal(layer, 9), Points(scattered((7, 9), 9))
    with pytest.raises(TypeError, match="query needs to know where the samples lie"):
        layer(torch.randn(2, 2, 7, 9).double(), query=torch.zeros(2, 3, 2))
    for query in (torch.zeros(3, 3, 2), torch.zeros(2, 3)):
        with pytest.raises(ValueError, match=r"query has shape .* expected \(2, M, 2\)"):
            layer(x, points, query=query)
    with pytest.raises(ValueError, match="query holds NaN"):
        layer(x, points, query=torch.full((2, 3, 2), math.nan))


# What is refused, and the rest


def test_points_of_another_dimension_are_refused():
    layer = layer_of(SeparableFlexConv, (7, 9))
    with pytest.raises(ValueError, match=r"1 coordinate\(s\) each, but size has 2 axis/axes"):
        layer(signal(layer, 9), Points(scattered((7,), 9)))
    with pytest.raises(ValueError, match=r"x must have shape \(B, 2, S\)"):
        layer(torch.randn(2, 2, 7, 9).double(), Points(scattered((7, 9), 63)))


def test_density_is_refused_where_causal_because_it_looks_ahead():
    layer = layer_of(SeparableFlexConv, (25,), causal=True)
    with pytest.raises(ValueError, match="later samples"):
        layer(signal(layer, 9), Points(scattered((25,), 9), weights="density"))


def test_weights_get_gradients():
    layer = layer_of(SeparableFlexConv, (7, 9))
    positions, x = scattered((7, 9), 4), signal(layer, 4)
    weights = torch.rand(2, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda w: layer(x, Points(positions, weights=w)), (weights,))


def test_inside_cached_points_give_the_same():
    layer = layer_of(SeparableFlexConv, (24,)).eval()
    x, points = signal(layer, 20), Points(scattered((24,), 20))
    with cached(layer):
        y = layer(x, points)
    assert not y.requires_grad
    torch.testing.assert_close(y, layer(x, points))


def test_one_point_alone_meets_the_kernel_at_lag_zero():
    layer = layer_of(FlexConv, (25,))
    x = signal(layer, 1)
    middle = layer.sampled_kernel()[..., layer.sampled_kernel().shape[-1] // 2]
    expected = torch.einsum("oi,bin->bon", middle, x) + layer.bias[:, None]
    torch.testing.assert_close(layer(x, Points(torch.tensor([[7.0], [9.0]]))), expected)


def test_functional_calls_reach_the_kernel_forwards_and_backwards():
    """The gradient evaluates the kernel again, with the parameters of the call."""
    layer = layer_of(SeparableFlexConv, (24,))
    x, points = signal(layer, 20), Points(scattered((24,), 20))
    other = {name: (2 * p.detach()).requires_grad_() for name, p in layer.named_parameters()}
    found = torch.func.functional_call(layer, other, (x, points)).square().sum()
    grads = torch.autograd.grad(found, list(other.values()))
    for name, p in layer.named_parameters():
        p.data.copy_(other[name].data)
    expected = torch.autograd.grad(layer(x, points).square().sum(), list(layer.parameters()))
    for a, b in zip(grads, expected, strict=True):
        torch.testing.assert_close(a, b)


# Pooling


def test_the_mean_over_points_is_weighted():
    x = torch.tensor([[[1.0, 2.0, 6.0, math.nan]]])
    weights = torch.tensor([[1.0, 2.0, 1.0, 0.0]])
    assert mean_over_points(x, weights).tolist() == [[2.75]]
    same = torch.full((1, 3), 0.3)
    torch.testing.assert_close(mean_over_points(x[..., :3], same), mean_over_positions(x[..., :3]))


def test_the_latest_points_share_the_output():
    x = torch.tensor([[[1.0, 2.0, 6.0, 9.0]]])
    times = torch.tensor([[5.0, 3.0, 5.0, 7.0]])
    assert latest_points(x, times).tolist() == [[9.0]]
    mask = torch.tensor([[[True, True, True, False]]])
    assert latest_points(x, times, mask).tolist() == [[3.5]]
