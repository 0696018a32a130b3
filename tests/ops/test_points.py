"""Convolution of scattered samples, against a double loop over all pairs."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ccnn.ops import convolve, convolve_points
from ccnn.ops import methods as methods_module
from ccnn.ops import pairs as pairs_module
from ccnn.ops.table import Table, tabulate

RADII = [2.5, 1.5, 3.0]


def wave(offset: Tensor, frequency: Tensor, amplitude: Tensor) -> Tensor:
    """A smooth kernel: (P, D), (D, C), (C,) -> (P, C)."""
    phase = offset.to(frequency.dtype) @ frequency
    return amplitude * torch.sin(phase + 0.3) * torch.exp(-0.1 * phase.square())


def parameters_of(dim: int, count: int, dtype=torch.float64) -> list[Tensor]:
    shapes = [(dim, count), (count,)]
    return [torch.randn(shape, dtype=dtype).requires_grad_() for shape in shapes]


def lopsided(offset: Tensor) -> Tensor:
    """A cut that is not symmetric: nothing to the right of 1 on the first axis."""
    return offset[:, 0] <= 1.0


def double_loop(x, positions, kernel, parameters, *, radius, out_channels=None, **settings):
    """y_i = Σ_j w_j K(p_j - q_i) x_j, one pair at a time."""
    weights = settings.get("weights")
    mask, query = settings.get("mask"), settings.get("query")
    inside, causal = settings.get("inside"), settings.get("causal", False)
    query = positions if query is None else query
    rows = []
    for b, i in itertools.product(range(len(x)), range(query.shape[1])):
        total = x.new_zeros(out_channels or x.shape[1])
        for j in range(x.shape[2]):
            offset = (positions[b, j] - query[b, i])[None]
            if mask is not None and not mask[b, j]:
                continue
            if (offset.abs() > torch.tensor(radius)).any() or (causal and offset > 0):
                continue
            if inside is not None and not inside(offset):
                continue
            w = 1.0 if weights is None else weights[b, j]
            k = kernel(offset, *parameters)[0]
            if out_channels is None:
                total = total + w * k * x[b, :, j]
            else:
                total = total + w * (k.view(out_channels, -1) @ x[b, :, j])
        rows.append(total)
    return torch.stack(rows).view(len(x), query.shape[1], -1).transpose(1, 2)


@settings(max_examples=25)  # the loop is slow
@given(
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(1, 6),
    st.sampled_from([None, 1, 3]),
    st.booleans(),
    st.sampled_from(["", "weights", "mask", "query", "inside", "weights mask query inside"]),
)
def test_equals_the_double_loop_with_its_gradients(dim, batch, count, out_channels, causal, given_):
    channels = 2
    x = torch.randn(batch, channels, count, dtype=torch.float64, requires_grad=True)
    positions = torch.randint(-3, 4, (batch, count, dim)).double() / 2  # ties, and whole offsets
    parameters = parameters_of(dim, channels * (out_channels or 1))
    options = {"radius": RADII[:dim], "causal": causal and dim == 1, "out_channels": out_channels}
    inputs = [x, *parameters]
    if "weights" in given_:
        options["weights"] = torch.rand(batch, count, dtype=torch.float64, requires_grad=True)
        inputs.append(options["weights"])
    if "mask" in given_:
        options["mask"] = torch.rand(batch, count) < 0.7
    if "query" in given_:
        options["query"] = torch.randn(batch, 3, dim, dtype=torch.float64)
    if "inside" in given_:
        options["inside"] = lopsided
    y = convolve_points(x, positions, wave, parameters, **options, method="exact")
    expected = double_loop(x, positions, wave, parameters, **options)
    torch.testing.assert_close(y, expected, rtol=1e-10, atol=1e-10)
    grad = torch.randn_like(y)
    found = torch.autograd.grad(y, inputs, grad)
    if expected.requires_grad:  # where no two points meet, the loop has no graph
        wanted = torch.autograd.grad(expected, inputs, grad, allow_unused=True)
        for a, b in zip(found, wanted, strict=True):
            b = torch.zeros_like(a) if b is None else b
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("method", ["exact", "table"])
@pytest.mark.parametrize("out_channels", [None, 2])
def test_pieces_of_any_size_give_the_same(method, out_channels, monkeypatch):
    """Memory is bounded by the size of a piece; 256 pairs is the smallest."""
    x = torch.randn(2, 2, 300, dtype=torch.float64, requires_grad=True)
    positions = 30 * torch.rand(2, 300, 1)
    parameters = parameters_of(1, 2 * (out_channels or 1))

    def run():
        y = convolve_points(
            x,
            positions,
            wave,
            parameters,
            radius=[2.5],
            inside=lopsided,
            method=method,
            out_channels=out_channels,
        )
        return y, *torch.autograd.grad(y.square().sum(), [x, *parameters])

    one = run()
    monkeypatch.setattr(pairs_module, "_PIECE", 1)
    for a, b in zip(run(), one, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_pieces_are_small_however_many_points_there_are():
    sizes = []

    def kernel(offset: Tensor) -> Tensor:
        sizes.append(len(offset))
        return torch.ones(len(offset), 1)

    y = convolve_points(
        torch.ones(1, 1, 600), torch.zeros(1, 600, 1), kernel, radius=[1.0], method="exact"
    )
    assert max(sizes) <= pairs_module._PIECE // 32
    assert sum(sizes) == 600**2  # every point is every point's neighbour
    assert (y == 600).all()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_on_a_grid_it_is_the_convolution_of_the_sampled_kernel(causal, dtype):
    x = torch.randn(2, 3, 40, dtype=dtype)
    parameters = parameters_of(1, 3, dtype)
    lags = torch.arange(-4.0, 1 if causal else 5)[:, None]
    sampled = wave(lags, *parameters).T
    positions = torch.arange(40.0)[None, :, None].expand(2, -1, -1)
    y = convolve_points(x, positions, wave, parameters, radius=[4.0], causal=causal)
    close = (
        {"rtol": 1e-4, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-10, "atol": 1e-10}
    )
    torch.testing.assert_close(y, convolve(x, sampled, causal=causal), **close)


def test_samples_at_the_same_time_see_each_other_and_none_sees_a_later_one():
    positions = torch.tensor([[[0.0], [1.0], [1.0], [1.0 + 1e-12]]])
    x = torch.tensor([[[1.0, 10.0, 100.0, 1000.0]]], dtype=torch.float64)

    def one(offset: Tensor) -> Tensor:
        return torch.ones_like(offset)

    positions = positions.double()
    positions[0, 3, 0] = 1 + 1e-12
    y = convolve_points(x, positions, one, radius=[5.0], causal=True)
    assert y.tolist() == [[[1, 111, 111, 1111]]]


def test_second_derivatives_are_those_of_the_loop():
    x = torch.randn(1, 2, 5, dtype=torch.float64, requires_grad=True)
    positions = torch.rand(1, 5, 1, dtype=torch.float64) * 4
    parameters = parameters_of(1, 2)
    assert torch.autograd.gradgradcheck(
        lambda *inputs: convolve_points(
            inputs[0], positions, wave, inputs[1:], radius=[2.0], method="exact"
        ),
        (x, *parameters),
    )


def test_torch_func_looks_into_it():
    x = torch.randn(1, 2, 5, dtype=torch.float64)
    positions = torch.rand(1, 5, 1, dtype=torch.float64) * 4
    parameters = [p.detach() for p in parameters_of(1, 2)]

    def energy(frequency: Tensor) -> Tensor:
        kernel_parameters = [frequency, parameters[1]]
        return convolve_points(x, positions, wave, kernel_parameters, radius=[2.0]).square().sum()

    found = torch.func.grad(energy)(parameters[0])
    leaf = parameters[0].clone().requires_grad_()
    torch.testing.assert_close(found, torch.autograd.grad(energy(leaf), leaf)[0])


# Tables


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("out_channels", [None, 4])
def test_a_table_is_within_its_tolerance_forwards_and_backwards(causal, out_channels):
    """Band-limited: at most Nyquist, half a period per sample."""
    x = torch.randn(2, 3, 400, requires_grad=True)
    positions = 200 * torch.rand(2, 400, 1)
    count = 3 * (out_channels or 1)
    frequency = (math.pi * (2 * torch.rand(1, count) - 1)).requires_grad_()
    amplitude = torch.randn(count).requires_grad_()
    inputs = [x, frequency, amplitude]
    results = {}
    for method in ("exact", "table"):
        y = convolve_points(
            x,
            positions,
            wave,
            inputs[1:],
            radius=[6.3],
            inside=lambda offset: offset[:, 0] >= -5.1,  # the cut is exact, between two entries
            causal=causal,
            out_channels=out_channels,
            method=method,
        )
        results[method] = [y.detach(), *torch.autograd.grad(y.square().sum(), inputs)]
    for exact, table in zip(results["exact"], results["table"], strict=True):
        assert (table - exact).norm() <= 1e-5 * exact.norm()


def test_the_tolerance_decides_the_number_of_entries_and_bounds_the_error():
    """Cubics: a hundredth of the error takes 3.2 times the entries, in powers of two."""
    parameters = [p.detach() for p in parameters_of(1, 5)]
    table = Table(-6.0, 6.0)
    places = torch.linspace(-6, 6, 99_991, dtype=torch.float64)[:, None]
    exact, counts = wave(places, *parameters), []
    for tolerance in (1e-6, 1e-8, 1e-10):
        entries = tabulate(
            wave, parameters, table, tolerance=tolerance, most=10**6, device=places.device
        )
        error = (table.at(places, entries) - exact).abs().amax(dim=0)
        # In the first and the last interval the error is not largest in the middle, but 7 % more.
        assert (error <= 1.1 * tolerance * exact.abs().amax(dim=0)).all()
        counts.append(len(entries) - 1)
    assert counts[1] / counts[0] in (2, 4)
    assert counts[2] / counts[1] in (2, 4)


def test_a_kernel_too_fast_for_a_table_is_evaluated_exactly_or_refused_by_name(monkeypatch):
    monkeypatch.setattr(methods_module, "_LARGEST", 1 << 15)  # to refuse sooner
    positions = 50 * torch.rand(1, 300, 1)
    x = torch.randn(1, 1, 300)

    def noise(offset: Tensor) -> Tensor:
        return torch.sin(1e7 * offset).float()

    arguments = {"radius": [5.0]}
    auto = convolve_points(x, positions, noise, **arguments)
    assert torch.equal(auto, convolve_points(x, positions, noise, **arguments, method="exact"))
    with pytest.raises(ValueError, match=r"too fast for a table.*exact"):
        convolve_points(x, positions, noise, **arguments, method="table")


def test_auto_takes_a_table_where_pairs_are_many_and_float32():
    def evaluations(count: int, dtype: torch.dtype) -> int:
        seen = []

        def kernel(offset: Tensor) -> Tensor:
            seen.append(len(offset))
            return torch.cos(offset).to(dtype)

        x, positions = torch.ones(1, 1, count, dtype=dtype), torch.linspace(0, 9, count)
        convolve_points(x, positions[None, :, None], kernel, radius=[5.0])
        return sum(seen)

    few, many = 20**2, 1000**2 / 2
    assert evaluations(20, torch.float32) <= few
    assert evaluations(1000, torch.float32) < many / 20
    assert evaluations(1000, torch.float64) > many


# Refusals


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"method": "fast"},
            "method is 'fast'; expected one of auto, exact, lattice, table, nufft",
        ),
        ({"radius": [1.0, 2.0]}, "radius has 2 entries, but positions have 1"),
        ({"positions": torch.zeros(1, 5, 1)}, r"x must have shape \(B, C, N\)"),
        ({"positions": torch.zeros(1, 4, 2), "radius": [1.0, 1.0], "causal": True}, "one axis"),
        (
            {"positions": torch.zeros(1, 4, 2), "radius": [1.0, 1.0], "method": "table"},
            "one axis",
        ),
    ],
)
def test_what_does_not_fit_is_refused(change, words):
    arguments = {"positions": torch.zeros(1, 4, 1), "radius": [1.0], **change}
    with pytest.raises(ValueError, match=words):
        convolve_points(torch.zeros(1, 1, 4), kernel=lambda offset: offset, **arguments)


def test_half_precision_is_refused():
    with pytest.raises(TypeError, match=r"float32 or torch\.float64"):
        convolve_points(
            torch.zeros(1, 1, 4).half(), torch.zeros(1, 4, 1), lambda o: o, radius=[1.0]
        )
