"""Kernels read off a lattice of offsets, and neighbours that several layers share."""

import pytest
import torch
from torch import Tensor

from ccnn.ops import convolve_points
from ccnn.ops import neighbours as neighbours_module
from ccnn.ops.lattice import Lattice, find_lattice
from ccnn.ops.neighbours import Neighbours, SharedNeighbours

RADII = [2.5, 1.5, 3.0]


def wave(offset: Tensor, frequency: Tensor, amplitude: Tensor) -> Tensor:
    """A smooth kernel: (P, D), (D, C), (C,) -> (P, C)."""
    return amplitude * torch.sin(offset.to(frequency.dtype) @ frequency + 0.3)


def parameters_of(dim: int, count: int, dtype=torch.float64) -> list[Tensor]:
    shapes = [(dim, count), (count,)]
    return [torch.randn(shape, dtype=dtype).requires_grad_() for shape in shapes]


def on_lattice(dim: int, count: int, step: float, batch: int = 2) -> Tensor:
    steps = torch.randint(-9, 10, (batch, count, dim))
    return steps.double() * step


def lopsided(offset: Tensor) -> Tensor:
    return offset[:, 0] <= 1.0


@pytest.mark.parametrize("step", [2.0, 1.0, 0.25])
@pytest.mark.parametrize("out_channels", [None, 3])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_equals_the_kernel_at_every_pair_with_its_gradients(dim, out_channels, step):
    x = torch.randn(2, 2, 40, dtype=torch.float64, requires_grad=True)
    weights = torch.rand(2, 40, dtype=torch.float64, requires_grad=True)
    parameters = parameters_of(dim, 2 * (out_channels or 1))
    inputs, results = [x, weights, *parameters], []
    positions = on_lattice(dim, 40, step)
    query = torch.cat([positions[:, :7], positions[:, :3] + step], dim=1)
    mask = torch.rand(2, 40) < 0.8
    for method in ("exact", "lattice"):
        y = convolve_points(
            x,
            positions,
            wave,
            parameters,
            radius=RADII[:dim],
            inside=lopsided,
            weights=weights,
            mask=mask,
            query=query,
            out_channels=out_channels,
            method=method,
        )
        results.append([y, *torch.autograd.grad(y.square().sum(), inputs)])
    for exact, lattice in zip(*results, strict=True):
        torch.testing.assert_close(lattice, exact, rtol=1e-12, atol=1e-12)


def test_it_is_causal_where_it_should_be():
    x, positions = torch.randn(1, 1, 30, dtype=torch.float64), on_lattice(1, 30, 0.5, batch=1)
    parameters = [p.detach() for p in parameters_of(1, 1)]
    options = {"radius": [2.5], "causal": True}
    exact = convolve_points(x, positions, wave, parameters, **options, method="exact")
    y = convolve_points(x, positions, wave, parameters, **options, method="lattice")
    torch.testing.assert_close(y, exact, rtol=1e-12, atol=1e-12)


def test_second_derivatives_are_those_of_the_sum():
    x = torch.randn(1, 2, 5, dtype=torch.float64, requires_grad=True)
    positions, parameters = on_lattice(1, 5, 0.5, batch=1), parameters_of(1, 2)
    assert torch.autograd.gradgradcheck(
        lambda *inputs: convolve_points(
            inputs[0], positions, wave, inputs[1:], radius=[2.0], method="lattice"
        ),
        (x, *parameters),
        fast_mode=True,
    )


@pytest.mark.parametrize(
    ("step", "expected"), [(8.0, 4.0), (1.0, 1.0), (0.25, 0.25), (1 / 16, 1 / 16), (1 / 32, None)]
)
def test_the_coarsest_step_is_found(step, expected):
    positions = torch.tensor([[[0.0], [1.0], [3.0], [-5.0]]]).double() * step
    lattice = find_lattice(positions, positions, [5.0], exact=True)
    assert (None if lattice is None else lattice.step) == expected


def test_in_single_precision_positions_may_be_off_by_their_rounding():
    positions = torch.tensor([[[0.0], [1.0 + 1e-7], [3.0]]]).double()
    assert find_lattice(positions, positions, [5.0], exact=True) is None
    assert find_lattice(positions, positions, [5.0], exact=False) == Lattice(1.0, (5,))


def test_offsets_are_numbered_in_the_order_of_their_places():
    lattice = Lattice(0.5, (2, 0, 3))
    places = lattice.places(torch.device("cpu"))
    assert len(places) == lattice.size == 5 * 1 * 7
    assert lattice.number(places).tolist() == list(range(35))


def test_auto_evaluates_a_kernel_once_per_offset_of_a_lattice():
    seen = []

    def kernel(offset: Tensor) -> Tensor:
        seen.append(len(offset))
        return torch.cos(offset[:, :1])

    x = torch.ones(1, 1, 200, dtype=torch.float64)
    for shift, expected in ((0.0, 11**2), (0.3, None)):
        seen.clear()
        positions = torch.randint(0, 12, (1, 200, 2)).double() + shift
        convolve_points(x, positions, kernel, radius=[5.0, 5.0])
        assert (sum(seen) == expected) if expected else (sum(seen) > 5000)


def test_positions_off_any_lattice_are_refused_by_name():
    x, positions = torch.ones(1, 1, 4), torch.rand(1, 4, 1)
    with pytest.raises(ValueError, match=r"not multiples of 0\.0625"):
        convolve_points(x, positions, lambda o: o.float(), radius=[2.0], method="lattice")
    positions = (16 * positions).round() / 16
    with pytest.raises(ValueError, match="offsets within the kernel"):
        convolve_points(x, positions, lambda o: o.float(), radius=[1e6], method="lattice")


# Shared neighbours


@pytest.mark.parametrize("method", ["exact", "table", "lattice"])
def test_layers_that_share_their_neighbours_give_what_they_give_alone(method):
    """The second sees less than what was found, the third more."""
    positions = 20 * torch.rand(2, 60, 1, dtype=torch.float64)
    if method == "lattice":
        positions = (4 * positions).round() / 4
    x, parameters = torch.randn(2, 2, 60, dtype=torch.float64), parameters_of(1, 2)
    shared = SharedNeighbours()
    for radius in ([3.0], [2.5], [4.0], [1.0]):
        results = []
        for neighbours in (None, shared):
            y = convolve_points(
                x,
                positions,
                wave,
                parameters,
                radius=radius,
                inside=lopsided,
                method=method,
                neighbours=neighbours,
            )
            results.append([y, *torch.autograd.grad(y.square().sum(), parameters)])
        for alone, together in zip(*results, strict=True):
            torch.testing.assert_close(together, alone, rtol=1e-9, atol=1e-9)


def test_neighbours_are_found_again_only_where_it_is_needed():
    positions = 20 * torch.rand(1, 60, 2)
    other, shared = positions.clone(), SharedNeighbours()

    def found(query: Tensor, radius: float) -> Neighbours:
        return shared.find(positions, None, query, [radius] * 2, causal=False)

    first = found(positions, 3.0)
    assert found(positions, 3.0) is first
    assert found(positions, 2.5) is first
    assert found(positions, 3.1) is first  # within the margin
    assert found(positions, 1.0) is not first  # a tenth of the pairs
    again = found(positions, 3.0)
    assert found(other, 3.0) is not again


@pytest.mark.parametrize("dim", [1, 3])
def test_kept_pairs_are_the_listed_ones(dim, monkeypatch):
    positions = 4 * torch.rand(2, 50, dim, dtype=torch.float64).round()
    lattice = find_lattice(positions, positions, RADII[:dim], exact=True)
    kept = Neighbours(positions, None, positions, RADII[:dim])
    pairs, numbers = list(kept.pairs(300)), list(kept.numbered(lattice, 300))
    monkeypatch.setattr(neighbours_module, "_KEPT", 0)
    listed = Neighbours(positions, None, positions, RADII[:dim])
    for one, other in ((pairs, listed.pairs(300)), (numbers, listed.numbered(lattice, 300))):
        for a, b in zip(zip(*one, strict=True), zip(*other, strict=True), strict=True):
            assert torch.equal(torch.cat(a), torch.cat(b))
    assert all(len(target) <= 300 for target, _, _ in pairs)
