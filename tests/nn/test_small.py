"""`Pointwise` is a 1×…×1 convolution; `Dropout` drops whole channels."""

import math

import pytest
import torch
from torch import nn

from ccnn.nn import Dropout, Pointwise

SIZES = {1: (9,), 2: (4, 5), 3: (2, 3, 4)}
TORCH_CONV = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
each_dim = pytest.mark.parametrize("dim", SIZES)
each_kind = pytest.mark.parametrize("kind", ["channel", "element"])


@each_dim
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(("in_channels", "out_channels"), [(5, 2), (1, 4), (3, 1), (1, 1)])
@pytest.mark.parametrize("contiguous", [False, True])
def test_pointwise_is_a_convolution_of_size_one(dim, batch, in_channels, out_channels, contiguous):
    ours = Pointwise(in_channels, out_channels).double()
    theirs = TORCH_CONV[dim](in_channels, out_channels, kernel_size=1).double()
    with torch.no_grad():
        ours.bias.normal_()
        theirs.weight.copy_(ours.weight.view_as(theirs.weight))
        theirs.bias.copy_(ours.bias)
    x = torch.randn(batch, *SIZES[dim], in_channels, dtype=torch.float64).movedim(-1, 1)
    if contiguous:
        x = x.contiguous()
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    y, expected = ours(a), theirs(b)
    torch.testing.assert_close(y, expected)
    weight = torch.randn(expected.shape, dtype=torch.float64)
    (y * weight).sum().backward()
    (expected * weight).sum().backward()
    torch.testing.assert_close(a.grad, b.grad)
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad.view_as(ours.weight))
    torch.testing.assert_close(ours.bias.grad, theirs.bias.grad)


def test_pointwise_beyond_three_axes_acts_on_each_position():
    layer = Pointwise(3, 2)
    x = torch.randn(2, 3, 2, 1, 3, 2)
    expected = nn.functional.linear(x.movedim(1, -1), layer.weight, layer.bias).movedim(-1, 1)
    torch.testing.assert_close(layer(x), expected)


def test_pointwise_starts_kaiming_normal_with_zero_bias():
    """Gain √2: Var(W) = 2/C_in."""
    layer = Pointwise(400, 500)
    assert (layer.bias == 0).all()
    # 200 000 draws: the standard deviation is known to 1/√(2n) = 0.16 %.
    assert layer.weight.std().item() == pytest.approx(math.sqrt(2 / 400), rel=0.01)
    assert layer.weight.mean().item() == pytest.approx(0, abs=1e-3)
    assert layer.weight.abs().max() > 4 * layer.weight.std()  # normal, not uniform


def test_pointwise_in_autocast_equals_float32_to_half_precision():
    layer, x = Pointwise(16, 8), torch.randn(2, 16, 30)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = layer(x)
    torch.testing.assert_close(y.float(), layer(x), rtol=0.02, atol=0.05)


# Dropout


@each_dim
@pytest.mark.parametrize("p", [0.2, 0.5])
def test_whole_channels_are_dropped_or_scaled(dim, p):
    x = 1 + torch.rand(40, 50, *SIZES[dim], dtype=torch.float64)  # never zero
    y = Dropout(p, kind="channel")(x)
    factor = (y / x).flatten(2)  # (B, C, S)
    dropped = factor[..., 0] == 0
    expected = torch.where(dropped, 0.0, 1 / (1 - p)).double()
    torch.testing.assert_close(factor, expected[..., None].expand_as(factor))
    # 2000 channels, five standard deviations of a binomial.
    assert dropped.double().mean().item() == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) / 2000))
    # Each signal has its own.
    assert (dropped != dropped[:1]).any()
    assert (dropped != dropped[:, :1]).any()


@each_dim
@pytest.mark.parametrize("p", [0.2, 0.5])
def test_elements_are_dropped_or_scaled_on_their_own(dim, p):
    x = 1 + torch.rand(40, 50, *SIZES[dim], dtype=torch.float64)  # never zero
    factor = (Dropout(p, kind="element")(x) / x).flatten(2)  # (B, C, S)
    dropped = factor == 0
    torch.testing.assert_close(factor, torch.where(dropped, 0.0, 1 / (1 - p)).double())
    bound = 5 * math.sqrt(p * (1 - p) / dropped.numel())
    assert dropped.double().mean().item() == pytest.approx(p, abs=bound)
    # Neighbours know nothing of each other: both are dropped at p².
    both = (dropped[..., 1:] & dropped[..., :-1]).double()
    assert both.mean().item() == pytest.approx(p**2, abs=5 * p / math.sqrt(both.numel()))


def test_dropout_is_by_channel_unless_told():
    assert Dropout(0.5).kind == "channel"


@each_dim
@each_kind
def test_the_factor_is_what_dropout_multiplies_by(dim, kind):
    dropout, x = Dropout(0.4, kind=kind), torch.randn(3, 4, *SIZES[dim], dtype=torch.float64)
    torch.manual_seed(1)
    factor = dropout.factor(x)
    torch.manual_seed(1)
    torch.testing.assert_close(dropout(x), x * factor, rtol=0, atol=0)
    assert factor.dtype == x.dtype
    assert factor.shape == (x.shape if kind == "element" else (3, 4, *(1,) * dim))
    assert dropout.eval().factor(x) is None
    assert Dropout(0.0, kind=kind).factor(x) is None


@each_kind
def test_dropout_keeps_the_expectation(kind):
    x = torch.randn(1, 3, 4, dtype=torch.float64)
    dropout = Dropout(0.3, kind=kind)
    mean = dropout(x.expand(20_000, -1, -1)).mean(dim=0)
    # Five standard errors of a factor whose variance is p/(1-p).
    bound = 5 * math.sqrt(0.3 / 0.7 / 20_000) * x[0].abs()
    assert ((mean - x[0]).abs() <= bound).all()


@each_kind
def test_dropout_differs_from_call_to_call_and_follows_the_seed(kind):
    dropout, x = Dropout(0.5, kind=kind), torch.ones(8, 8, 3)
    first, second = dropout(x), dropout(x)
    assert not torch.equal(first, second)
    torch.manual_seed(0)
    again = dropout(x)
    assert torch.equal(again, first)


@each_dim
@each_kind
def test_dropout_is_the_identity_in_evaluation_and_at_rate_zero(dim, kind):
    x = torch.randn(3, 4, *SIZES[dim])
    torch.testing.assert_close(Dropout(0.9, kind=kind).eval()(x), x, rtol=0, atol=0)
    torch.testing.assert_close(Dropout(0.0, kind=kind)(x), x, rtol=0, atol=0)


@each_kind
def test_gradients_pass_through_what_stays(kind):
    x = torch.randn(10, 10, 3, requires_grad=True)
    y = Dropout(0.5, kind=kind)(x)
    y.sum().backward()
    torch.testing.assert_close(x.grad, torch.where(y.detach() == 0, 0.0, 2.0))


@each_kind
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_dropout_keeps_the_dtype(dtype, kind):
    assert Dropout(0.5, kind=kind)(torch.ones(2, 3, 4, dtype=dtype)).dtype == dtype
