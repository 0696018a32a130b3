"""Gabor functions: the hand-written gradient against torch's, and numbers too small to matter."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ccnn.nn.kernels.gabor import gabor, gaussian


def judge(coords, weight, bias, gamma, centre):
    """The formula as it is printed."""
    square = (gamma * (coords[:, None] - centre)).square().sum(dim=-1)
    return torch.exp(-0.5 * square) * torch.sin(coords @ weight.T + bias)


def parameters(dim: int, hidden: int, *, isotropic: bool = False, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=dtype).requires_grad_()

    gamma = normal(hidden, 1 if isotropic else dim)
    return normal(hidden, dim), normal(hidden), gamma, normal(hidden, dim)


@settings(max_examples=30, deadline=None)
@given(
    dim=st.integers(1, 4),
    points=st.integers(1, 40),
    hidden=st.integers(1, 9),
    isotropic=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_values_and_gradients_are_those_of_the_formula(dim, points, hidden, isotropic, seed):
    tensors = parameters(dim, hidden, isotropic=isotropic, seed=seed)
    coords = 2 * torch.rand(points, dim, dtype=torch.float64) - 1
    ours, wanted = gabor(coords, *tensors), judge(coords, *tensors)
    torch.testing.assert_close(ours, wanted, rtol=1e-10, atol=1e-12)
    grad = torch.randn_like(ours)
    found = torch.autograd.grad(ours, tensors, grad)
    for a, b in zip(found, torch.autograd.grad(wanted, tensors, grad), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)


def test_second_derivatives_are_right():
    coords = torch.rand(5, 2, dtype=torch.float64)
    tensors = parameters(2, 3)
    assert torch.autograd.gradgradcheck(lambda *t: gabor(coords, *t), tensors)


def test_coordinates_get_gradients_too():
    coords = torch.rand(4, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda c: gabor(c, *parameters(2, 3)), coords)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("factors", [1, 2, 3, 4])
def test_far_away_nothing_is_too_small_to_be_a_normal_number(dtype, factors):
    square = torch.linspace(0, 3000, 301, dtype=dtype)
    window = gaussian(square, factors=factors)
    assert (window**factors).min() >= torch.finfo(dtype).tiny
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(window, torch.exp(-0.5 * square), rtol=0, atol=0.05 * eps)


def test_a_narrow_function_far_away_adds_nothing_to_a_gradient():
    weight, bias, _, centre = parameters(1, 3, dtype=torch.float32)
    gamma = torch.full((3, 1), 500.0, requires_grad=True)
    coords = torch.linspace(5, 9, 50)[:, None]  # hundreds of widths from every centre
    y = gabor(coords, weight, bias, gamma, centre)
    assert y.abs().max() < 1e-30
    for g in torch.autograd.grad(y.sum(), (weight, bias, gamma, centre)):
        assert g.abs().max() < 1e-25
