"""Convolution by non-uniform FFTs, against the sum over all pairs."""

import math

import pytest
import torch
from torch import Tensor

from ccnn.ops import convolve_points
from ccnn.ops import methods as methods_module
from ccnn.ops import nufft as nufft_module
from ccnn.ops import stretches as stretches_module
from ccnn.ops.series import fourier_series

finufft = pytest.importorskip("finufft")

RADII = [2.5, 1.5, 3.0]
# (D, number of points, their range, tolerance): in 3-D a small one takes millions of frequencies
CLOUDS = [(1, 300, 100.0, 1e-8), (2, 150, 9.0, 1e-5), (3, 60, 3.0, 1e-3)]


def bump(radius: Tensor, offset: Tensor) -> Tensor:
    """A window that ends at the radius with all its derivatives: (P, D) -> (P, 1)."""
    square = (offset / radius).square()
    inside = (square < 1).all(dim=-1, keepdim=True)
    room = (1 - square).clamp(min=2e-2)
    return torch.where(inside, torch.exp(-4 * square / room).prod(dim=-1, keepdim=True), 0.0)


def smooth(offset: Tensor, frequency: Tensor, amplitude: Tensor) -> Tensor:
    """A kernel that ends smoothly: (P, D), (D, C), (C,) -> (P, C)."""
    offset = offset.to(frequency.dtype)
    radius = offset.new_tensor(RADII[: offset.shape[1]])
    return amplitude * torch.sin(offset @ frequency + 0.3) * bump(radius, offset)


def parameters_of(dim: int, count: int, dtype=torch.float64) -> list[Tensor]:
    shapes = [(dim, count), (count,)]
    return [torch.randn(shape, dtype=dtype).requires_grad_() for shape in shapes]


def cloud(dim: int, count: int, extent: float, batch: int = 2) -> Tensor:
    return extent * torch.rand(batch, count, dim, dtype=torch.float64)


def both(x, positions, parameters, inputs, **options):
    """The outputs and all gradients, by the series and by pairs."""
    results = []
    for method in ("nufft", "exact"):
        radius = RADII[: positions.shape[2]]
        y = convolve_points(
            x, positions, smooth, parameters, radius=radius, method=method, **options
        )
        results.append([y, *torch.autograd.grad(y.square().sum(), inputs)])
    return zip(*results, strict=True)


@pytest.mark.parametrize("out_channels", [None, 2, 3])
@pytest.mark.parametrize("channels", [1, 2, 3])
def test_equals_the_sum_over_pairs_with_its_gradients(channels, out_channels):
    """Odd and even numbers of channels, two of which share a transform."""
    x = torch.randn(2, channels, 300, dtype=torch.float64, requires_grad=True)
    parameters = parameters_of(1, channels * (out_channels or 1))
    weights = torch.rand(2, 300, dtype=torch.float64, requires_grad=True)
    inputs = [x, weights, *parameters]
    options = {"weights": weights, "out_channels": out_channels, "tolerance": 1e-8}
    for series, pairs in both(x, cloud(1, 300, 100.0), parameters, inputs, **options):
        assert (series - pairs).norm() <= 1e-7 * pairs.norm()


def test_in_single_precision_it_is_within_1e_4():
    x = torch.randn(2, 3, 2000, requires_grad=True)
    parameters = parameters_of(1, 3, torch.float32)
    for series, pairs in both(x, cloud(1, 2000, 900.0), parameters, [x, *parameters]):
        assert series.dtype == torch.float32
        assert (series - pairs).norm() <= 1e-4 * pairs.norm()


def test_a_smaller_tolerance_is_a_smaller_error():
    x = torch.randn(2, 2, 500, dtype=torch.float64)
    parameters = [p.detach() for p in parameters_of(1, 2)]
    positions = cloud(1, 500, 200.0)
    exact = convolve_points(x, positions, smooth, parameters, radius=[2.5], method="exact")
    for tolerance in (1e-3, 1e-6, 1e-9):
        y = convolve_points(
            x, positions, smooth, parameters, radius=[2.5], method="nufft", tolerance=tolerance
        )
        error = (y - exact).norm() / exact.norm()
        assert error <= 3 * tolerance


@pytest.mark.parametrize(("dim", "count", "extent", "tolerance"), CLOUDS)
def test_masks_and_other_positions(dim, count, extent, tolerance):
    x = torch.randn(2, 2, count, dtype=torch.float64, requires_grad=True)
    parameters, mask = parameters_of(dim, 2), torch.rand(2, count) < 0.7
    query = extent * (1.4 * torch.rand(2, 40, dim, dtype=torch.float64) - 0.2)
    options = {"mask": mask, "query": query, "tolerance": tolerance}
    found = both(x, cloud(dim, count, extent), parameters, [x, *parameters], **options)
    for series, pairs in found:
        assert (series - pairs).norm() <= 10 * tolerance * pairs.norm()


def test_signals_of_a_batch_may_lie_far_apart():
    """A stretch follows its own signal: none has to span both."""
    positions = cloud(1, 200, 50.0)
    positions[1] += 1e6
    x, parameters = torch.randn(2, 2, 200, dtype=torch.float64), parameters_of(1, 2)
    x.requires_grad_()
    for series, pairs in both(x, positions, parameters, [x], tolerance=1e-8):
        assert (series - pairs).norm() <= 1e-6 * pairs.norm()


def test_stretches_of_any_length_give_the_same(monkeypatch):
    x = torch.randn(2, 2, 400, dtype=torch.float64, requires_grad=True)
    parameters, positions = parameters_of(1, 2), cloud(1, 400, 300.0)

    def run():
        y = convolve_points(
            x, positions, smooth, parameters, radius=[2.5], method="nufft", tolerance=1e-9
        )
        return y, *torch.autograd.grad(y.square().sum(), [x, *parameters])

    one = run()
    monkeypatch.setattr(stretches_module, "_POINTS", 1)
    parts = list(stretches_module.Stretches(positions, None, positions, [2.5]))
    assert len(parts) > 20
    for a, b in zip(run(), one, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)


def test_order_and_origin_do_not_matter():
    x, positions = torch.randn(1, 2, 300, dtype=torch.float64), cloud(1, 300, 80.0, batch=1)
    parameters = [p.detach() for p in parameters_of(1, 2)]
    options = {"radius": [2.5], "method": "nufft", "tolerance": 1e-10}
    y = convolve_points(x, positions, smooth, parameters, **options)
    order = torch.randperm(300)
    permuted = convolve_points(x[..., order], positions[:, order], smooth, parameters, **options)
    torch.testing.assert_close(permuted, y[..., order], rtol=1e-8, atol=1e-8)
    shifted = convolve_points(x, positions + 1e4, smooth, parameters, **options)
    torch.testing.assert_close(shifted, y, rtol=1e-7, atol=1e-7)


def test_points_at_one_place():
    x = torch.randn(1, 2, 5, dtype=torch.float64)
    parameters = [p.detach() for p in parameters_of(1, 2)]
    positions = torch.full((1, 5, 1), 7.0, dtype=torch.float64)
    options = {"radius": [2.5], "tolerance": 1e-9}
    exact = convolve_points(x, positions, smooth, parameters, **options, method="exact")
    y = convolve_points(x, positions, smooth, parameters, **options, method="nufft")
    torch.testing.assert_close(y, exact, rtol=1e-6, atol=1e-6)


def test_second_derivatives_are_those_of_the_sum():
    x = torch.randn(1, 2, 5, dtype=torch.float64, requires_grad=True)
    positions, parameters = cloud(1, 5, 4.0, batch=1), parameters_of(1, 2)

    def energy(*inputs: Tensor) -> Tensor:
        return convolve_points(
            inputs[0],
            positions,
            smooth,
            inputs[1:],
            radius=[2.5],
            method="nufft",
            tolerance=1e-10,
        )

    assert torch.autograd.gradgradcheck(energy, (x, *parameters), atol=1e-4, fast_mode=True)


def test_torch_func_looks_into_it():
    x, positions = torch.randn(1, 2, 30, dtype=torch.float64), cloud(1, 30, 9.0, batch=1)
    frequency, amplitude = (p.detach() for p in parameters_of(1, 2))

    def energy(frequency: Tensor) -> Tensor:
        parameters = [frequency, amplitude]
        y = convolve_points(x, positions, smooth, parameters, radius=[2.5], method="nufft")
        return y.square().sum()

    leaf = frequency.clone().requires_grad_()
    found = torch.func.grad(energy)(frequency)
    torch.testing.assert_close(found, torch.autograd.grad(energy(leaf), leaf)[0])


# The series


def test_the_series_is_the_kernel_within_its_tolerance():
    parameters = [p.detach() for p in parameters_of(1, 4)]
    places = torch.linspace(-6, 6, 5001, dtype=torch.float64)[:, None]
    exact, counts = smooth(places, *parameters), []
    for tolerance in (1e-3, 1e-6, 1e-9):
        series = fourier_series(
            smooth, parameters, radius=[2.5], box=[14.0], tolerance=tolerance, most=1 << 16
        )
        m = series.shape[1] // 2
        phase = 2 * math.pi / 14.0 * places * torch.arange(-m, m + 1)
        found = torch.exp(1j * phase) @ series.T
        error = (found.real - exact).abs().amax(dim=0)
        assert (error <= tolerance * exact.abs().amax(dim=0)).all()
        counts.append(m)
    assert counts == sorted(counts)
    assert counts[0] < counts[2]


@pytest.mark.parametrize("dim", [1, 2])
def test_a_kernel_that_jumps_where_it_ends_is_refused(dim):
    def cut(offset: Tensor) -> Tensor:
        return torch.ones(len(offset), 1, dtype=torch.float64)

    arguments = {"radius": RADII[:dim], "method": "nufft"}
    x = torch.randn(1, 1, 40, dtype=torch.float64)
    with pytest.raises(ValueError, match="does not vanish smoothly"):
        convolve_points(x, cloud(dim, 40, 20.0, batch=1), cut, **arguments)


def test_a_kernel_too_fast_for_a_series_is_refused(monkeypatch):
    monkeypatch.setattr(methods_module, "_LARGEST", 1 << 12)
    x, frequency = torch.randn(1, 1, 40, dtype=torch.float64), torch.full((1, 1), 1e4).double()
    parameters = [frequency, torch.ones(1).double()]
    with pytest.raises(ValueError, match=r"vanish smoothly"):
        convolve_points(
            x, cloud(1, 40, 20.0, batch=1), smooth, parameters, radius=[2.5], method="nufft"
        )


# The rule, and refusals


def methods_used(monkeypatch) -> list[str]:
    used = []
    original = nufft_module.to_modes

    def seen(*arguments):
        used.append("nufft")
        return original(*arguments)

    monkeypatch.setattr(nufft_module, "to_modes", seen)
    return used


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"dtype": torch.float64}, False),
        ({"causal": True}, False),
        ({"inside": lambda offset: offset[:, 0] < 1}, False),
        ({"count": 60}, False),
    ],
)
def test_auto_takes_it_for_many_pairs_of_a_smooth_centred_kernel(change, expected, monkeypatch):
    used = methods_used(monkeypatch)
    settings = {"dtype": torch.float32, "count": 4000, **change}
    dtype, count = settings.pop("dtype"), settings.pop("count")
    x, parameters = torch.randn(1, 2, count, dtype=dtype), parameters_of(1, 2, dtype)
    convolve_points(x, cloud(1, count, 60.0, batch=1), smooth, parameters, radius=[2.5], **settings)
    assert bool(used) is expected


def test_without_the_library_auto_does_without_and_the_name_says_what_to_install(monkeypatch):
    monkeypatch.setattr(nufft_module, "is_installed", lambda: False)
    x, parameters = torch.randn(1, 2, 4000), parameters_of(1, 2, torch.float32)
    arguments = (x, cloud(1, 4000, 60.0, batch=1), smooth, parameters)
    assert convolve_points(*arguments, radius=[2.5]).isfinite().all()
    with pytest.raises(ImportError, match=r"pip install 'ccnn\[points\]'"):
        convolve_points(*arguments, radius=[2.5], method="nufft")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"causal": True}, 'method="nufft" needs a centred kernel'),
        ({"inside": lambda offset: offset[:, 0] < 1}, "inside"),
        ({"radius": [math.inf]}, "radius"),
    ],
)
def test_what_it_cannot_do_is_refused(change, words):
    arguments = {"radius": [2.5], "method": "nufft", **change}
    x, parameters = torch.randn(1, 2, 40), parameters_of(1, 2, torch.float32)
    with pytest.raises(ValueError, match=words):
        convolve_points(x, cloud(1, 40, 20.0, batch=1), smooth, parameters, **arguments)
