"""The Gaussian window: its formula, its cut, and that no σ breaks it."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from ccnn.nn import FlexConv, GaussianMask, SeparableFlexConv
from ccnn.nn.masks import default_sigma
from ccnn.ops import coordinate_grid

SIGMAS = [0.2, 0.35, 0.5, 0.9]
MEANS = [0.0, 0.1, -0.3, 0.2]
SIZES = (7, 6, 5, 4)


def window_by_hand(mask: GaussianMask, coords: list[float]) -> float:
    """One factor per axis, nothing where a factor is below τ of its peak."""
    value = 1.0
    for c, mu, sigma in zip(coords, mask.mean.tolist(), mask.sigma.tolist(), strict=True):
        factor = math.exp(-0.5 * (c - mu) ** 2 / sigma**2)
        value *= factor if factor >= mask.threshold else 0.0
    return value


def exact_axis(half: int) -> Tensor:
    """From -1 to 1 with an exact 0 in the middle, which linspace has not."""
    return torch.arange(-half, half + 1) / half


def axes_of(dim: int) -> list[Tensor]:
    return [torch.linspace(-1, 1, n, dtype=torch.float64) for n in SIZES[:dim]]


@pytest.mark.parametrize("threshold", [0.01, 0.1, 0.6])
@pytest.mark.parametrize("dim", [1, 2, 3, 4])
def test_the_window_is_a_product_of_gaussians_cut_on_every_axis(dim, threshold):
    mask = GaussianMask(dim, sigma=SIGMAS[:dim], mean=MEANS[:dim], threshold=threshold).double()
    grid = coordinate_grid(axes_of(dim))
    result = mask(grid)
    assert result.shape == (*SIZES[:dim], 1)
    expected = [window_by_hand(mask, c) for c in grid.reshape(-1, dim).tolist()]
    # The ε that keeps σ = 0 safe changes σ = 0.2 by 1e-11 of it.
    torch.testing.assert_close(
        result.flatten(), torch.tensor(expected, dtype=torch.float64), rtol=1e-8, atol=0
    )
    assert (result == 0).any()
    assert (result > 0).any()


@pytest.mark.parametrize("keep", [None, (0.3, 0.6, 0.1, 1.0)])
@pytest.mark.parametrize("dim", [1, 2, 3, 4])
def test_on_grid_equals_forward_on_the_same_grid(dim, keep):
    mask = GaussianMask(dim, sigma=SIGMAS[:dim], mean=MEANS[:dim]).double()
    axes = axes_of(dim)
    keep = None if keep is None else keep[:dim]
    expected = mask(coordinate_grid(axes), keep=keep)
    result = mask.on_grid(axes, keep=keep)
    assert result.shape == (*SIZES[:dim], 1)
    torch.testing.assert_close(result, expected, rtol=1e-14, atol=0)  # another order of products


@pytest.mark.parametrize("leading", [(), (1,), (2, 3)])
def test_forward_takes_any_leading_shape_and_keeps_the_dtype(leading):
    mask = GaussianMask(2, sigma=0.5)
    assert mask(torch.zeros(*leading, 2)).shape == (*leading, 1)
    assert mask(torch.zeros(*leading, 2)).dtype == torch.float32
    assert mask.double()(torch.zeros(*leading, 2, dtype=torch.float64)).dtype == torch.float64


def test_one_sigma_serves_every_axis_and_several_their_own():
    assert GaussianMask(3, sigma=0.2).sigma.tolist() == pytest.approx([0.2] * 3)
    mask = GaussianMask(2, sigma=(0.1, 0.4)).double()
    assert mask.sigma.tolist() == pytest.approx([0.1, 0.4])
    along = torch.tensor([[0.1, 0.0], [0.0, 0.1]], dtype=torch.float64)
    expected = [math.exp(-0.5), math.exp(-0.5 / 16)]
    assert mask(along).flatten().tolist() == pytest.approx(expected, rel=1e-6)


def test_the_peak_is_one():
    for dim in (1, 2, 3):
        assert GaussianMask(dim)(torch.zeros(dim)).item() == 1.0


# ------------------------------------------------------------------------------------------ the cut


def test_the_radius_is_where_the_window_falls_to_the_threshold():
    mask = GaussianMask(2, sigma=(0.075, -0.3))
    # 2.1460 for τ = 0.1, as facts 3 has it.
    assert mask.radius().tolist() == pytest.approx([2.1460 * 0.075, 2.1460 * 0.3], rel=1e-4)
    assert not mask.radius().requires_grad
    narrow = GaussianMask(1, sigma=0.2, threshold=0.5)
    assert narrow.radius().item() == pytest.approx(0.2 * math.sqrt(2 * math.log(2)), rel=1e-6)


def test_the_extent_counts_from_lag_zero():
    mask = GaussianMask(2, sigma=0.1, mean=(0.2, -0.3), learn_mean=True)
    assert mask.extent().tolist() == pytest.approx([0.4146, 0.5146], rel=1e-4)
    assert not mask.extent().requires_grad


@pytest.mark.parametrize("axis", [0, 1])
def test_each_axis_is_cut_on_its_own(axis):
    mask = GaussianMask(2, sigma=(0.1, 0.3)).double()
    radius = mask.radius()
    inside, outside = torch.zeros(2, 2, dtype=torch.float64)
    inside[axis], outside[axis] = 0.999 * radius[axis], 1.001 * radius[axis]
    assert mask(inside).item() == pytest.approx(0.1, rel=0.01)
    assert mask(outside).item() == 0.0
    # Both factors above τ, their product below it: not cut.
    assert mask(0.999 * radius).item() == pytest.approx(0.01, rel=0.01)


def test_kept_coordinates_are_not_cut_and_the_others_are():
    mask = GaussianMask(1, sigma=0.1).double()
    coords = torch.tensor([[-0.5], [-0.4], [0.0], [0.4], [0.5]], dtype=torch.float64)
    assert mask(coords).flatten().tolist() == [0, 0, 1, 0, 0]
    value = math.exp(-8)
    kept = mask(coords, keep=[0.4]).flatten().tolist()
    assert kept == pytest.approx([0, value, 1, value, 0], rel=1e-6)  # σ was float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kernel_size", [3, 5, 7, 11, 101, 1023, 16001])
def test_the_direct_neighbours_survive_rounding(kernel_size, dtype):
    """Coordinates are rounded to the layer's dtype, the bound is not."""
    layer = SeparableFlexConv(1, 1, size=(5,), kernel_size=kernel_size).to(dtype)
    layer.kernel.last.bias.data.fill_(1.0)
    layer.kernel.last.weight.data.zero_()
    # A third of a sample wide: the neighbours have exp(-4.5) of the peak, below τ.
    layer.mask.sigma.data.fill_(2 / (kernel_size - 1) / 3)
    kernel = layer.sampled_kernel()
    assert kernel.shape == (1, 3)
    expected = [math.exp(-4.5), 1.0, math.exp(-4.5)]
    # ε = 1e-6 is a fortieth of the σ of 16001 samples, which changes the exponent by 0.06 %.
    assert kernel[0].tolist() == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("sigma", [0.0, 1e-30, 1e-9, 1e-3, -0.02])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_lag_zero_and_its_neighbours_are_always_sampled(dim, sigma):
    layer = SeparableFlexConv(2, 2, size=(9,) * dim, mask=GaussianMask(dim, sigma=sigma))
    assert layer.sampled_kernel().shape == (2, *(3,) * dim)


@pytest.mark.parametrize("sigma", [0.0, 1e-30])
def test_lag_zero_and_the_one_before_are_always_sampled_where_causal(sigma):
    layer = SeparableFlexConv(2, 2, size=(100,), causal=True, mask=GaussianMask(1, sigma=sigma))
    assert layer.sampled_kernel().shape == (2, 2)  # the reference samples all hundred


# ----------------------------------------------------------------------------- σ that is not nice


EXTREME = [0.0, -0.0, 1e-45, 1e-30, -1e-30, 1e-9, 1e-6, -0.1, 1e4, 1e30, -1e30, 3e38]


@pytest.mark.parametrize("sigma", EXTREME)
@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("learn_mean", [False, True])
def test_any_sigma_gives_finite_values_and_gradients(dim, sigma, learn_mean):
    mask = GaussianMask(dim, sigma=sigma, learn_mean=learn_mean)
    axes = [exact_axis(10)] * dim
    window = mask.on_grid(axes, keep=[0.1] * dim)
    assert torch.isfinite(window).all()
    assert ((window >= 0) & (window <= 1)).all()
    assert window[(10,) * dim].item() == 1.0  # lag zero
    (window * torch.randn_like(window)).sum().backward()
    for name, parameter in mask.named_parameters():
        assert torch.isfinite(parameter.grad).all(), name


@pytest.mark.parametrize("sigma", EXTREME)
@pytest.mark.parametrize(("dim", "causal"), [(1, True), (1, False), (2, False)])
def test_any_sigma_keeps_a_layer_finite(dim, causal, sigma):
    layer = SeparableFlexConv(2, 2, size=(16,) * dim, causal=causal)
    layer.mask.sigma.data.fill_(sigma)
    y = layer(torch.randn(2, 2, *(16,) * dim))
    assert torch.isfinite(y).all()
    y.square().sum().backward()
    for name, parameter in layer.named_parameters():
        assert torch.isfinite(parameter.grad).all(), name


@pytest.mark.parametrize("sigma", [0.0, 1e-45, 1e-30, 1e-9])
def test_a_vanishing_sigma_leaves_lag_zero_alone(sigma):
    window = GaussianMask(1, sigma=sigma)(exact_axis(10)[:, None], keep=[1.0])
    assert window.flatten().tolist() == [0.0] * 10 + [1.0] + [0.0] * 10


@pytest.mark.parametrize("sigma", [1e4, 1e30, -1e30, 3e38])
def test_a_huge_sigma_is_no_window(sigma):
    coords = exact_axis(10)[:, None]
    torch.testing.assert_close(
        GaussianMask(1, sigma=sigma)(coords), torch.ones(21, 1), rtol=1e-6, atol=0
    )
    layer = SeparableFlexConv(1, 1, size=(21,), mask=GaussianMask(1, sigma=sigma))
    assert layer.sampled_kernel().shape == (1, 21)


def test_the_sign_of_sigma_does_not_matter():
    axes = [exact_axis(4)] * 2
    windows, gradients = [], []
    for sign in (1, -1):
        mask = GaussianMask(2, sigma=(sign * 0.3, 0.5))
        windows.append(mask.on_grid(axes))
        windows[-1].sum().backward()
        gradients.append(mask.sigma.grad)
    assert torch.equal(*windows)
    assert torch.equal(gradients[0], gradients[1] * torch.tensor([-1.0, 1.0]))
    assert (gradients[0] > 0).all()  # a wider window holds more


def test_a_nan_sigma_shows_and_does_not_crash():
    layer = SeparableFlexConv(2, 2, size=(16,))
    layer.mask.sigma.data.fill_(math.nan)
    assert layer.sampled_kernel().shape == (2, 17)
    y = layer(torch.randn(1, 2, 16))
    assert torch.isnan(y).all()  # never a quiet zero


def test_gradients_are_those_of_the_formula():
    mask = GaussianMask(2, sigma=(0.5, 0.8), mean=(0.1, -0.2), learn_mean=True).double()
    coords = 0.5 * torch.rand(6, 2, dtype=torch.float64)  # far inside the cut, which has a jump

    def window(sigma: Tensor, mean: Tensor) -> Tensor:
        return torch.func.functional_call(mask, {"sigma": sigma, "mean": mean}, (coords,))

    assert torch.autograd.gradcheck(window, (mask.sigma, mask.mean))


# -------------------------------------------------------------------------------- σ keeps learning


def sigma_gradient(layer) -> Tensor:
    """∂/∂σ of the mean of y² for white noise, about what a loss near 1 gives."""
    layer(torch.randn(4, layer.in_channels, *layer.size)).square().mean().backward()
    return layer.mask.sigma.grad


@pytest.mark.parametrize("cls", [SeparableFlexConv, FlexConv])
@pytest.mark.parametrize("kernel_size", [3, 5, 7, 9, 11, 13])
@pytest.mark.parametrize("dim", [1, 2])
def test_the_default_sigma_of_a_small_kernel_learns(cls, dim, kernel_size):
    layer = cls(4, 4, size=(16,) * dim, kernel_size=kernel_size)
    assert layer.mask.sigma.tolist() == pytest.approx([default_sigma(kernel_size)] * dim)
    assert (sigma_gradient(layer).abs() > 1e-3).all()


# Not 3: there the neighbours lie 13 σ away, and exp(-89) is nothing in float32.
@pytest.mark.parametrize("kernel_size", [5, 7, 9, 11, 13])
@pytest.mark.parametrize("dim", [1, 2])
def test_a_narrow_sigma_of_a_small_kernel_learns(dim, kernel_size):
    """With σ = 0.075 a centred kernel of 13 samples or fewer is a single tap for the reference."""
    mask = GaussianMask(dim, sigma=0.075)
    layer = SeparableFlexConv(4, 4, size=(16,) * dim, kernel_size=kernel_size, mask=mask)
    gradient = sigma_gradient(layer)
    assert torch.isfinite(gradient).all()
    assert (gradient != 0).all()

    # A gradient that an optimiser cannot feel is none: Adam adds 1e-8 to its size.
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.01)
    for _ in range(20):
        optimizer.zero_grad()
        layer(torch.randn(4, 4, *layer.size)).square().mean().backward()
        optimizer.step()
    assert ((layer.mask.sigma - 0.075).abs() > 1e-3).all()


def test_default_sigma_is_at_least_one_sample():
    for kernel_size in (3, 5, 7, 13, 25):
        assert default_sigma(kernel_size) == pytest.approx(2 / (kernel_size - 1))
    for kernel_size in (29, 33, 1024, 16000):
        assert default_sigma(kernel_size) == 0.075
    assert math.isfinite(default_sigma(1))


def test_the_default_sigma_differs_per_axis():
    layer = SeparableFlexConv(1, 1, size=(32, 5))
    assert layer.kernel_size == (33, 5)
    assert layer.mask.sigma.tolist() == pytest.approx([0.075, 0.5])


# -------------------------------------------------------------------------------- state, arguments


def test_a_learned_mean_is_a_parameter_with_a_gradient():
    mask = GaussianMask(2, sigma=0.5, mean=(0.1, -0.1), learn_mean=True)
    assert {name for name, _ in mask.named_parameters()} == {"sigma", "mean"}
    mask(0.5 * torch.rand(9, 2)).sum().backward()
    assert (mask.mean.grad != 0).all()


def test_a_fixed_mean_is_a_saved_buffer():
    mask = GaussianMask(2, mean=(0.1, -0.1))
    assert [name for name, _ in mask.named_parameters()] == ["sigma"]
    assert set(mask.state_dict()) == {"sigma", "mean"}
    other = GaussianMask(2)
    other.load_state_dict(mask.state_dict())
    assert other.mean.tolist() == pytest.approx([0.1, -0.1])


def test_the_mean_moves_the_window():
    mask = GaussianMask(1, sigma=0.1, mean=-0.2)
    coords = torch.linspace(-1, 1, 201)[:, None]
    assert coords[mask(coords).argmax()].item() == pytest.approx(-0.2, abs=1e-6)


def test_the_mean_is_relative_to_lag_zero_where_causal_too():
    layer = SeparableFlexConv(
        1, 1, size=(41,), causal=True, mask=GaussianMask(1, sigma=0.1, mean=-0.5), init="none"
    )
    layer.kernel.last.weight.data.zero_()
    layer.kernel.last.bias.data.fill_(1.0)
    kernel = layer.sampled_kernel()[0]
    assert len(kernel) - 1 - kernel.argmax().item() == 10  # 0.5 of the 2 that 40 lags span


@pytest.mark.parametrize("threshold", [0.0, 1.0, -0.1, 2.0, math.nan])
def test_a_bad_threshold_is_refused_by_name(threshold):
    with pytest.raises(ValueError, match="threshold"):
        GaussianMask(1, threshold=threshold)


@pytest.mark.parametrize(
    ("name", "dim", "values"),
    [
        (name, dim, values)
        for name, (dim, values) in itertools.product(
            ("sigma", "mean"), [(2, (0.1,)), (2, (0.1,) * 3), (1, (0.1, 0.1))]
        )
    ],
)
def test_numbers_for_other_axes_are_refused_by_name(name, dim, values):
    with pytest.raises(ValueError, match=name):
        GaussianMask(dim, **{name: values})


@pytest.mark.parametrize("dim", [0, -1])
def test_no_axes_are_refused_by_name(dim):
    with pytest.raises(ValueError, match="dim"):
        GaussianMask(dim)


@pytest.mark.parametrize("wrong", [1, 3])
def test_coordinates_of_another_dimension_are_refused(wrong):
    """Ignoring an axis, or lacking one, would be silent nonsense."""
    mask = GaussianMask(2)
    with pytest.raises((ValueError, IndexError)):
        mask(torch.zeros(4, wrong))
    with pytest.raises((ValueError, IndexError)):
        mask.on_grid([torch.zeros(4)] * wrong)


def test_repr_shows_the_width():
    assert "dim=2, sigma=[0.1, 0.3]" in repr(GaussianMask(2, sigma=(0.1, 0.3)))


# ------------------------------------------------------------------------------ the smooth window


def smooth_by_hand(c: float, mu: float, sigma: float, threshold: float) -> float:
    """τ^(s²/(1-s²)), s the distance in radii."""
    s = (c - mu) / (sigma * math.sqrt(-2 * math.log(threshold)))
    return threshold ** (s**2 / (1 - s**2)) if abs(s) < 1 else 0.0


@pytest.mark.parametrize("threshold", [0.01, 0.1, 0.6])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_the_smooth_window_is_its_formula(dim, threshold):
    mask = GaussianMask(
        dim, sigma=SIGMAS[:dim], mean=MEANS[:dim], threshold=threshold, window="smooth"
    ).double()
    grid = coordinate_grid(axes_of(dim))
    expected = [
        math.prod(
            smooth_by_hand(*axis, threshold)
            for axis in zip(c, mask.mean.tolist(), mask.sigma.tolist(), strict=True)
        )
        for c in grid.reshape(-1, dim).tolist()
    ]
    wanted = torch.tensor(expected, dtype=torch.float64)
    for window in (mask(grid), mask.on_grid(axes_of(dim)), mask.smooth(grid)):
        torch.testing.assert_close(window.flatten(), wanted, rtol=1e-7, atol=1e-60)
    assert (wanted == 0).any()
    assert (wanted > 0).any()


@pytest.mark.parametrize("threshold", [0.01, 0.1, 0.6])
def test_the_smooth_window_ends_at_the_same_radius_without_a_corner(threshold):
    """Its first and second differences vanish there, and the cut window jumps by τ."""
    smooth = GaussianMask(1, sigma=0.3, threshold=threshold, window="smooth").double()
    cut = GaussianMask(1, sigma=0.3, threshold=threshold).double()
    assert torch.equal(smooth.radius(), cut.radius())
    step = 0.001 * smooth.radius()
    around = smooth.radius() + step * torch.arange(-3, 4)[:, None]
    value = smooth(around).flatten()
    assert (value[3:] <= 1e-65).all()
    slope = value.diff() / step
    assert slope.abs().max() < 1e-6
    assert (slope.diff() / step).abs().max() < 1e-3
    # Further inside it does slope: the test above could fail.
    assert (smooth(0.6 * smooth.radius()) - smooth(0.5 * smooth.radius())).abs() > 1e-2
    assert cut(around).diff(dim=0).abs().max() > 0.9 * threshold


def test_the_smooth_window_is_a_gaussian_near_its_middle_and_below_it_further_out():
    smooth, cut = (GaussianMask(1, sigma=0.3, window=w).double() for w in ("smooth", "cut"))
    near = torch.linspace(-0.01, 0.01, 21, dtype=torch.float64)[:, None]
    assert smooth(torch.zeros(1).double()).item() == 1.0
    torch.testing.assert_close(1 - smooth(near), 1 - cut(near), rtol=1e-3, atol=1e-12)
    everywhere = torch.linspace(-1, 1, 201, dtype=torch.float64)[:, None]
    assert (smooth(everywhere) <= cut(everywhere)).all()


def test_the_smooth_window_grows_with_sigma_everywhere():
    coords = torch.linspace(-1, 1, 41, dtype=torch.float64)[:, None]
    windows = [
        GaussianMask(1, sigma=s, window="smooth").double()(coords) for s in (0.1, 0.2, 0.4, 0.8, 9)
    ]
    for narrow, wide in itertools.pairwise(windows):
        assert (narrow <= wide).all()
        assert (narrow < wide).any()


@pytest.mark.parametrize("sigma", EXTREME)
@pytest.mark.parametrize("dim", [1, 2])
def test_any_sigma_gives_a_smooth_window_finite_values_and_gradients(dim, sigma):
    mask = GaussianMask(dim, sigma=sigma, learn_mean=True, window="smooth")
    window = mask.on_grid([exact_axis(10)] * dim, keep=[0.1] * dim)
    assert ((window >= 0) & (window <= 1)).all()
    assert window[(10,) * dim].item() == 1.0
    (window * torch.randn_like(window)).sum().backward()
    for name, parameter in mask.named_parameters():
        assert torch.isfinite(parameter.grad).all(), name


@pytest.mark.parametrize("sigma", [0.3, 0.301, 0.35])
def test_gradients_of_the_smooth_window_are_those_of_the_formula_across_its_edge(sigma):
    """Some coordinates lie within a percent of the edge, on both sides of it."""
    mask = GaussianMask(1, sigma=sigma, learn_mean=True, window="smooth").double()
    radius = mask.radius().item()
    coords = torch.tensor([[0.0], [0.1], [0.5], [0.9], [0.99], [1.0], [1.01], [3.0]]).double()

    def window(sigma: Tensor, mean: Tensor) -> Tensor:
        return torch.func.functional_call(mask, {"sigma": sigma, "mean": mean}, (coords * radius,))

    assert torch.autograd.gradcheck(window, (mask.sigma, mask.mean))


def test_an_unknown_window_is_refused_by_name():
    with pytest.raises(ValueError, match="window is 'hann'; expected one of cut, smooth"):
        GaussianMask(1, window="hann")


def test_repr_says_that_a_window_is_smooth():
    assert "smooth" in repr(GaussianMask(1, window="smooth"))
    assert "smooth" not in repr(GaussianMask(1))
