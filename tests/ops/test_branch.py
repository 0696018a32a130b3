"""`residual_branch` is `plain_branch`, `moments` is `var_mean`: in value and in every gradient."""

import itertools

import pytest
import torch
from torch import Tensor

from ccnn.ops import branch, convolve, spectral, tiles
from ccnn.ops.affine import Affine
from ccnn.ops.branch import frozen_branch, plain_branch, residual_branch
from ccnn.ops.conv import ENGINES, crop
from ccnn.ops.moments import moments
from ccnn.ops.plan import Plan
from ccnn.ops.tiles import groups_of, tiles_of

NAMES = ("x", "kernel", "scale", "shift", "weight_1", "bias_1", "weight_2", "bias_2")
METHODS = ("direct", "fft", "blocks")
# Name: size of the signal, of the kernel, and whether it is causal. Even and odd, longer than
# the signal, and far shorter (several blocks).
CASES = {
    "causal": ((90,), (7,), True),
    "causal, long": ((12,), (31,), True),
    "centred": ((91,), (6,), False),
    "centred, long": ((12,), (31,), False),
    "2-D": ((9, 70), (3, 4), False),
    "3-D": ((4, 5, 6), (3, 2, 9), False),
}
FACTORS = ("none", "channel", "element")
BATCH, CHANNELS = 5, 3

each_case = pytest.mark.parametrize("case", CASES)
each_method = pytest.mark.parametrize("method", METHODS)
each_lean = pytest.mark.parametrize("lean", [False, True])


@pytest.fixture(params=["whole", "several groups", "several slices", "several blocks"])
def cache(request, monkeypatch):
    """How much fits the cache: all, some of five signals, or less than one signal."""

    def shrink(x: Tensor) -> None:
        signal = x[0].numel() * x.element_size()
        if request.param == "whole":
            return
        size = 2 * signal if request.param == "several groups" else signal // 3
        monkeypatch.setattr(tiles, "GROUP_BYTES", size)
        if request.param == "several blocks":  # every size of CASES but 91 has such a divisor
            monkeypatch.setattr(tiles, "_WIDEST", 6)
            monkeypatch.setattr(tiles, "_NARROWEST", 2)
        monkeypatch.setattr(spectral, "CACHE_BYTES", 1 if size < signal else 4 * size)
        flat = x.flatten(2)
        sizes = [len(flat[g]) for g in groups_of(x)]
        if size > signal:
            assert len(sizes) > 1
            assert sum(sizes) == BATCH
        else:
            assert sizes == [1] * BATCH
            assert len(list(tiles_of(flat[:1]))) > 1

    return shrink


@pytest.fixture
def use(monkeypatch):
    """Make the branch convolve by a method."""

    def choose(method: str) -> None:
        monkeypatch.setattr(branch, "plan", lambda *_, **__: Plan(method, "test"))

    return choose


def make(
    case: str, *, batch: int = BATCH, dtype: torch.dtype = torch.float64, grad: bool = True
) -> list[Tensor]:
    size, taps, _ = CASES[case]
    c = CHANNELS
    shapes = [(batch, c, *size), (c, *taps), (c,), (c,), (c, c), (c,), (c, c), (c,)]
    return [torch.randn(shape, dtype=dtype).requires_grad_(grad) for shape in shapes]


def make_factor(kind: str, x: Tensor) -> Tensor | None:
    if kind == "none":
        return None
    shape = x.shape if kind == "element" else (*x.shape[:2], *(1,) * (x.ndim - 2))
    return 2 * (torch.rand(shape, dtype=x.dtype) < 0.5).to(x.dtype)


def make_mask(x: Tensor) -> Tensor:
    return torch.rand(len(x), 1, *x.shape[2:]) < 0.7


def make_weights(mask: Tensor) -> Tensor:
    return torch.where(mask, 3 * torch.rand(mask.shape, dtype=torch.float64), 0.0)


def judge(inputs, case, method, factor=None, mask=None, weights=None) -> Tensor:
    x, kernel, *rest = inputs
    kernel, origin = crop(kernel, x.shape[2:], causal=CASES[case][2])
    return plain_branch((x, kernel, *rest), factor, mask, origin, method, weights)


def assert_equal_to_rounding(result: Tensor, expected: Tensor, name: str = "") -> None:
    assert result.shape == expected.shape, name
    assert result.dtype == expected.dtype, name
    error = float((result - expected).detach().abs().max())
    assert error <= 1e-10 * float(expected.detach().abs().max()), name


def assert_same(
    inputs, case, method, *, factor=None, mask=None, weights=None, lean=False, grad=None
) -> None:
    causal = CASES[case][2]
    before = [t.detach().clone() for t in (*inputs, factor, mask, weights) if t is not None]
    settings = {"factor": factor, "mask": mask, "weights": weights}
    y = residual_branch(*inputs, **settings, causal=causal, lean=lean)
    expected = judge(inputs, case, method, **settings)
    assert_equal_to_rounding(y, expected)
    wanted = [(n, t) for n, t in zip(NAMES, inputs, strict=True) if t.requires_grad]
    grad = torch.randn_like(y) if grad is None else grad
    grad_before = grad.clone()
    found = torch.autograd.grad(y, [t for _, t in wanted], grad)
    right = torch.autograd.grad(expected, [t for _, t in wanted], grad)
    for (name, _), a, b in zip(wanted, found, right, strict=True):
        assert_equal_to_rounding(a, b, name)
    after = [t for t in (*inputs, factor, mask, weights) if t is not None]
    for a, b in zip(after, before, strict=True):
        assert torch.equal(a, b)
    assert torch.equal(grad, grad_before)


# The branch


@each_case
@each_method
@each_lean
def test_value_and_all_gradients_equal_the_plain_branch(case, method, lean, cache, use):
    use(method)
    inputs = make(case)
    cache(inputs[0])
    for kind, masked in itertools.product(FACTORS, [False, True]):
        mask = make_mask(inputs[0]) if masked else None
        factor = make_factor(kind, inputs[0].detach())
        assert_same(inputs, case, method, factor=factor, mask=mask, lean=lean)


@each_case
@each_method
def test_weights_multiply_what_is_convolved(case, method, cache, use):
    use(method)
    inputs = make(case)
    cache(inputs[0])
    mask = make_mask(inputs[0])
    assert_same(inputs, case, method, mask=mask, weights=make_weights(mask), lean=True)
    whole = make_weights(torch.ones_like(mask))
    assert_same(inputs, case, method, factor=make_factor("channel", inputs[0]), weights=whole)


@each_method
def test_weights_are_the_share_of_each_sample_in_the_sum(method, use):
    """Twice the weight is twice the sample; nothing else of the branch sees it."""
    use(method)
    x, kernel, scale, shift, *maps = make("causal", grad=False)
    weights = make_weights(make_mask(x))
    n = (scale[:, None] * x + shift[:, None]) * weights
    one, zero = torch.ones_like(scale), torch.zeros_like(scale)
    settings = {"causal": True, "mask": weights > 0}
    found = residual_branch(x, kernel, scale, shift, *maps, **settings, weights=weights) - x
    expected = residual_branch(n, kernel, one, zero, *maps, causal=True) - n
    assert_equal_to_rounding(found, expected)


@each_method
def test_weights_get_gradients_where_they_want_them(method, use):
    use(method)
    inputs = make("causal")
    weights = make_weights(make_mask(inputs[0])).requires_grad_()
    y = residual_branch(*inputs, weights=weights, causal=True)
    expected = judge(inputs, "causal", method, weights=weights)
    grad = torch.randn_like(y)
    for wanted in (weights, inputs[0]):
        (found,) = torch.autograd.grad(y, wanted, grad, retain_graph=True)
        (right,) = torch.autograd.grad(expected, wanted, grad, retain_graph=True)
        assert_equal_to_rounding(found, right)


@each_lean
@pytest.mark.parametrize(("taps", "method"), [(5, "direct"), (80, "fft")])
def test_the_method_is_the_plan_s(taps, method, lean):
    case = "centred"
    inputs = make(case)
    inputs[1] = torch.randn(CHANNELS, taps, dtype=torch.float64, requires_grad=True)
    assert_same(inputs, case, branch.plan(inputs[0].shape, inputs[1].shape).method, lean=lean)
    assert_same(inputs, case, method, lean=lean)


@each_method
@each_lean
@pytest.mark.parametrize("wanted", [*NAMES, "x kernel", "weight_1 bias_2", "scale shift bias_1"])
def test_gradients_of_some_inputs_only(method, lean, wanted, use):
    use(method)
    inputs = make("2-D")
    for name, t in zip(NAMES, inputs, strict=True):
        t.requires_grad_(name in wanted.split())
    assert_same(inputs, "2-D", method, mask=make_mask(inputs[0]), lean=lean)
    residual_branch(*inputs, lean=lean).sum().backward()
    for name, t in zip(NAMES, inputs, strict=True):
        assert (t.grad is not None) == (name in wanted.split())


@each_method
@each_lean
def test_no_grad_gives_the_same_value_and_no_graph(method, lean, cache, use):
    use(method)
    inputs = make("2-D")
    cache(inputs[0])
    mask, factor = make_mask(inputs[0]), make_factor("element", inputs[0].detach())
    with torch.no_grad():
        y = residual_branch(*inputs, factor=factor, mask=mask, lean=lean)
    assert not y.requires_grad
    assert_equal_to_rounding(y, judge(inputs, "2-D", method, factor, mask))
    y = residual_branch(*(t.detach() for t in inputs), factor=factor, mask=mask, lean=lean)
    assert not y.requires_grad


@each_case
@each_method
@each_lean
def test_inputs_and_gradients_that_are_not_contiguous(case, method, lean, cache, use):
    use(method)
    inputs = [t.detach() for t in make(case)]
    inputs = [t.mT.contiguous().mT if t.ndim > 1 else t for t in inputs]
    inputs[0] = inputs[0].movedim(1, -1).contiguous().movedim(-1, 1)  # channels last
    assert not inputs[0].is_contiguous()
    cache(inputs[0])
    inputs = [t.requires_grad_() for t in inputs]
    for grad in (
        torch.randn_like(inputs[0]).movedim(1, -1).contiguous().movedim(-1, 1),
        torch.ones((), dtype=torch.float64).expand(inputs[0].shape),
    ):
        mask = make_mask(inputs[0])
        factor = make_factor("element", inputs[0].detach())
        assert_same(inputs, case, method, factor=factor, mask=mask, lean=lean, grad=grad)


@each_method
@each_lean
def test_second_backward_of_one_graph_gives_the_same(method, lean, use):
    """What a first pass adds up in the engine must not be found there by the next."""
    use(method)
    inputs = make("2-D")
    y = residual_branch(*inputs, lean=lean)
    grad = torch.randn_like(y)
    first = torch.autograd.grad(y, inputs, grad, retain_graph=True)
    second = torch.autograd.grad(y, inputs, grad)
    for name, a, b in zip(NAMES, second, first, strict=True):
        assert_equal_to_rounding(a, b, name)


@each_method
@each_lean
@pytest.mark.parametrize("case", ["causal, long", "2-D"])
def test_second_derivatives_equal_the_plain_branch(case, method, lean, use):
    use(method)
    inputs = make(case, batch=2)
    mask = make_mask(inputs[0])
    settings = {"factor": make_factor("channel", inputs[0].detach()), "mask": mask}
    settings["weights"] = make_weights(mask)
    weight = torch.randn_like(inputs[0])
    causal = CASES[case][2]
    results = []
    for y in (
        residual_branch(*inputs, **settings, causal=causal, lean=lean),
        judge(inputs, case, method, **settings),
    ):
        first = torch.autograd.grad(y, inputs, weight, create_graph=True)
        results.append(torch.autograd.grad(sum(g.square().sum() for g in first), inputs))
    for name, a, b in zip(NAMES, *results, strict=True):
        assert_equal_to_rounding(a, b, name)


@each_method
def test_second_derivatives_are_right(method, use):
    use(method)
    shapes = [(1, 2, 4), (2, 3), (2,), (2,), (2, 2), (2,), (2, 2), (2,)]
    inputs = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes]
    assert torch.autograd.gradgradcheck(residual_branch, inputs)


@pytest.mark.parametrize("method", ["fft", "blocks"])
@pytest.mark.parametrize("dense", [False, True])
def test_second_derivatives_of_convolve(method, dense):
    x = torch.randn(2, 2, 5, dtype=torch.float64, requires_grad=True)
    kernel = torch.randn(*(2, 2, 3) if dense else (2, 3), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x, k: convolve(x, k, method=method), (x, kernel))


@each_method
def test_second_backward_of_convolve_gives_the_same(method):
    x, kernel = make("2-D")[:2]
    y = convolve(x, kernel, method=method)
    grad = torch.randn_like(y)
    first = torch.autograd.grad(y, (x, kernel), grad, retain_graph=True)
    second = torch.autograd.grad(y, (x, kernel), grad)
    for a, b in zip(second, first, strict=True):
        assert_equal_to_rounding(a, b)


# Frozen


@each_case
@each_method
@pytest.mark.parametrize("masked", [False, True])
def test_frozen_equals_the_plain_branch(case, method, masked, cache):
    inputs = make(case, grad=False)
    x, kernel, scale, shift, *maps = inputs
    cache(x)
    mask = make_mask(x) if masked else None
    cropped, origin = crop(kernel, x.shape[2:], causal=CASES[case][2])
    engine = ENGINES[method](cropped, origin, x.shape[2:])
    before = [t.clone() for t in inputs]
    weights = make_weights(mask) if masked else None
    y = frozen_branch(x, engine, *maps, before=Affine(scale, shift, mask, weights))
    assert_equal_to_rounding(y, judge(inputs, case, method, None, mask, weights))
    for a, b in zip(inputs, before, strict=True):
        assert torch.equal(a, b)


@each_case
@each_method
def test_frozen_with_the_normalisation_in_kernel_and_bias(case, method, cache):
    """K ⋆ (s x + t) = (s K) ⋆ x + t (K ⋆ 1), and K ⋆ 1 depends on the position."""
    inputs = make(case, grad=False)
    x, kernel, scale, shift, weight_1, bias_1, weight_2, bias_2 = inputs
    cache(x)
    causal = CASES[case][2]
    ones = torch.ones(1, *x.shape[1:], dtype=x.dtype)
    level = convolve(ones, kernel, causal=causal)[0].flatten(1) * shift[:, None]  # (C, P)
    bias = weight_1 @ level + bias_1[:, None]
    scaled = kernel * scale.view(-1, *(1,) * (x.ndim - 2))
    cropped, origin = crop(scaled, x.shape[2:], causal=causal)
    engine = ENGINES[method](cropped, origin, x.shape[2:])
    y = frozen_branch(x, engine, weight_1, bias, weight_2, bias_2)
    assert_equal_to_rounding(y, judge(inputs, case, method))


# Moments


def torch_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    var, mean = torch.var_mean(x, dim=[0, *range(2, x.ndim)], correction=0)
    return mean, var


@pytest.mark.parametrize("shape", [(5, 3, 40), (5, 3, 6, 7), (5, 2, 3, 4, 5), (1, 1, 2), (1, 2, 1)])
@pytest.mark.parametrize("group_bytes", [1 << 23, 2 * 3 * 40 * 8, 1])
@pytest.mark.parametrize("contiguous", [False, True])
def test_moments_equal_torch(shape, group_bytes, contiguous, monkeypatch):
    monkeypatch.setattr(tiles, "GROUP_BYTES", group_bytes)
    x = torch.randn(shape, dtype=torch.float64) * 3 + 2
    x = x if contiguous else x.movedim(1, -1).contiguous().movedim(-1, 1)
    x.requires_grad_()
    before = x.detach().clone()
    found, right = moments(x), torch_moments(x)
    torch.testing.assert_close(found, right, rtol=1e-12, atol=1e-12)
    weights = [torch.randn_like(t) for t in right]
    for used in ((0,), (1,), (0, 1)):
        grads = [
            torch.autograd.grad(sum((m[i] * weights[i]).sum() for i in used), x, retain_graph=True)
            for m in (found, right)
        ]
        torch.testing.assert_close(*grads, rtol=1e-10, atol=1e-12)
    assert torch.equal(x, before)


def test_derivatives_of_moments():
    x = torch.randn(2, 2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(moments, x)
    assert torch.autograd.gradgradcheck(moments, x)


def test_moments_of_a_large_mean():
    x = torch.randn(8, 4, 1000) + 1e4
    mean, var = moments(x)
    expected_mean, expected_var = torch_moments(x.double())
    torch.testing.assert_close(mean.double(), expected_mean, rtol=1e-6, atol=0)
    torch.testing.assert_close(var.double(), expected_var, rtol=1e-3, atol=0)


def test_gradients_of_moments_of_a_large_mean():
    x = (torch.randn(8, 4, 1000) + 1e4).requires_grad_()
    (found,) = torch.autograd.grad(moments(x)[1].sum(), x)
    (right,) = torch.autograd.grad(torch_moments(x.double())[1].sum(), x)
    # A float32 at 1e4 is known to 5e-4.
    assert float((found - right).abs().max()) <= 5e-3 * float(right.abs().max())


@pytest.mark.parametrize("signal", [0, 3])
def test_nan_passes_into_the_moments_of_its_channel(signal):
    x = torch.randn(4, 3, 10)
    x[signal, 1, 5] = torch.nan
    for m in moments(x):
        assert m.isnan().tolist() == [False, True, False]
