"""Inside `ccnn.cached` a network says what it says outside, and samples its kernels once."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import ccnn
from ccnn import CCNN, Grid
from ccnn.nn import CKConv, FlexConv, SeparableFlexConv
from ccnn.nn.block import ResidualBlock
from ccnn.nn.cache import Cache
from ccnn.nn.conv import AbstractContinuousConv

KINDS = [
    pytest.param((40,), {"causal": True}, id="1d-causal"),
    pytest.param((40,), {}, id="1d"),
    pytest.param((12, 10), {}, id="2d"),
    pytest.param((6, 5, 7), {}, id="3d"),
]
LAYERS = [SeparableFlexConv, FlexConv, CKConv]


def network(size=(40,), *, dtype=torch.float32, **settings) -> CCNN:
    """Return a network whose running statistics are far from their start, in evaluation mode."""
    arguments = {"blocks": 2, "channels": 6, "kernel_channels": 8} | settings
    model = CCNN(2, 3, size, **arguments).to(dtype)
    with torch.no_grad():
        for _ in range(4):
            model(3 * torch.randn(4, 2, *size, dtype=dtype) + 2)
        for name, value in model.named_parameters():
            if "norm" in name or name.endswith("bias"):
                value += 0.3 * torch.randn_like(value)
    return model.eval()


def remembering(model: nn.Module) -> list:
    return [m for m in model.modules() if isinstance(m, AbstractContinuousConv | ResidualBlock)]


def kept_of(model: nn.Module) -> list[int]:
    return [len(m.cache._results) for m in remembering(model)]


def assert_same(model, x, grid=None, *, tolerance=1e-5):
    """Compare two runs inside, the first and one that meets a full cache, with one outside."""
    with torch.no_grad():
        outside = model(x, grid)
    assert outside.isfinite().all()
    # Of the largest output: small ones are differences of large numbers.
    atol = tolerance * max(1.0, outside.abs().max().item())
    with ccnn.cached(model):
        for _ in range(2):
            torch.testing.assert_close(model(x, grid), outside, rtol=0, atol=atol)


@pytest.fixture
def samplings(monkeypatch):
    """A list that grows by the kernel network whenever one is asked for a kernel."""
    calls = []

    def count(model: nn.Module) -> list:
        for layer in remembering(model):
            if isinstance(layer, AbstractContinuousConv):
                original = layer.kernel._on_grid  # behind `on_grid` and `windowed_on_grid`

                def wrapped(axes, original=original, layer=layer):
                    calls.append(layer)
                    return original(axes)

                monkeypatch.setattr(layer.kernel, "_on_grid", wrapped)
        return calls

    return count


@pytest.mark.parametrize("spacing", [1.0, 2.0, 0.5])
@pytest.mark.parametrize("head", ["pool", "last", "none"])
@pytest.mark.parametrize(("size", "settings"), KINDS)
def test_outputs_inside_are_outputs_outside(size, settings, head, spacing):
    if head == "last" and len(size) > 1:
        pytest.skip('head="last" needs one axis')
    model = network(size, head=head, **settings)
    signal = [max(2, int(n / spacing)) for n in size]
    assert_same(model, torch.randn(3, 2, *signal) + 2, Grid(spacing))


@pytest.mark.parametrize(("size", "settings"), KINDS)
def test_outputs_are_the_same_in_double_precision(size, settings):
    model = network(size, dtype=torch.float64, head="none", **settings)
    assert_same(model, torch.randn(2, 2, *size, dtype=torch.float64) + 2, tolerance=1e-12)


def test_running_statistics_matter_here():
    model, x = network(), torch.randn(2, 2, 40)
    with torch.no_grad():
        before = model(x)
        for block in model.blocks:
            block.norm.running_mean.zero_()
        assert (model(x) - before).abs().max() > 1e-2


@pytest.mark.parametrize("head", ["pool", "last", "none"])
@pytest.mark.parametrize("causal", [False, True])
def test_padding_of_lengths_never_matters(head, causal):
    model = network(head=head, causal=causal)
    x, lengths = torch.randn(3, 2, 40) + 2, [40, 17, 1]
    for row, length in zip(x, lengths, strict=True):
        row[:, length:] = float("nan")
    assert_same(model, x, Grid(lengths=lengths))


@pytest.mark.parametrize(("size", "settings"), KINDS)
def test_padding_of_masks_never_matters(size, settings):
    model = network(size, head="none", **settings)
    mask = torch.rand(3, 1, *size) < 0.6
    x = torch.where(mask, torch.randn(3, 2, *size) + 2, float("nan"))
    assert_same(model, x, Grid(mask=mask))


def test_masked_and_whole_signals_take_turns():
    model, x = network(head="none"), torch.randn(3, 2, 40) + 2
    grid = Grid(lengths=[40, 17, 1])
    with torch.no_grad():
        whole, masked = model(x), model(x, grid)
    with ccnn.cached(model):
        for _ in range(2):
            torch.testing.assert_close(model(x), whole, rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(model(x, grid), masked, rtol=1e-5, atol=1e-5)


def test_several_sizes_and_spacings_after_each_other():
    model = network(head="none")
    cases = [(40, 1.0), (64, 1.0), (7, 1.0), (40, 2.0), (1, 1.0), (300, 0.5), (40, 1.0)]
    signals = [(torch.randn(2, 2, n) + 2, Grid(s)) for n, s in cases]
    with torch.no_grad():
        outside = [model(x, grid) for x, grid in signals]
    with ccnn.cached(model):
        for (x, grid), expected in zip(signals, outside, strict=True):
            torch.testing.assert_close(model(x, grid), expected, rtol=1e-5, atol=1e-5)


def test_batches_of_different_sizes_share_a_kernel(samplings):
    model = network()
    x = torch.randn(9, 2, 40) + 2
    with torch.no_grad():
        outside = model(x)
    calls = samplings(model)
    with ccnn.cached(model):
        for batch in (1, 9, 4):
            torch.testing.assert_close(model(x[:batch]), outside[:batch], rtol=1e-5, atol=1e-5)
    assert len(calls) == 3


def test_symbols_and_dropout():
    model = CCNN(4, 3, (20,), blocks=1, channels=6, embedding=5, dropout=0.5, dropout_in=0.2)
    assert_same(model.eval(), torch.randint(5, (3, 20)))


@pytest.mark.parametrize("size", [(30,), (9, 8), (5, 6, 4)])
@pytest.mark.parametrize("layer", LAYERS)
def test_single_layers(layer, size):
    conv = layer(2, 3, size=size).eval()
    x = torch.randn(2, 2, *size)
    assert_same(conv, x)
    assert_same(conv, x[..., ::2], Grid((1.0,) * (len(size) - 1) + (2.0,)))
    assert_same(conv, x, Grid(mask=torch.rand(2, 1, *size) < 0.7))


class Own(nn.Module):
    """A user's module: all three layers, and torch's own."""

    def __init__(self):
        super().__init__()
        self.first = SeparableFlexConv(2, 4, size=(30,))
        self.norm = nn.BatchNorm1d(4)
        self.rest = nn.ModuleList([FlexConv(4, 4, size=(30,)), CKConv(4, 3, size=(30,))])

    def forward(self, x, grid=None):
        x = self.norm(self.first(x, grid))
        for conv in self.rest:
            x = torch.tanh(conv(x, grid))
        return x


def test_a_module_of_the_user(samplings):
    model, x = Own(), torch.randn(3, 2, 30) + 1
    model(x)
    model.eval()
    assert_same(model, x)
    calls = samplings(model)
    with ccnn.cached(model) as same:
        assert same is model
        for _ in range(3):
            model(x)
    assert len(calls) == 3


def test_kernels_are_sampled_once_per_size_and_spacing(samplings):
    model = network()
    calls = samplings(model)
    layers = 3  # the stem's and two blocks'
    with ccnn.cached(model):
        for _ in range(3):
            model(torch.randn(2, 2, 40))
        assert len(calls) == layers
        for _ in range(3):
            model(torch.randn(2, 2, 40), Grid(2.0))
        assert len(calls) == 2 * layers
        for _ in range(3):
            model(torch.randn(2, 2, 50))
        assert len(calls) == 3 * layers
        model(torch.randn(2, 2, 40))
        assert len(calls) == 3 * layers


def test_everything_is_dropped_at_the_end():
    model = network()
    with ccnn.cached(model):
        model(torch.randn(1, 2, 40))
        assert all(isinstance(m.cache, Cache) for m in remembering(model))
        assert sum(kept_of(model)) == 3
    assert all(m.cache is None for m in remembering(model))


def test_everything_is_dropped_after_an_error():
    model = network()
    with pytest.raises(ValueError, match="shape"), ccnn.cached(model):
        model(torch.randn(1, 5, 40))
    assert all(m.cache is None for m in remembering(model))


def test_an_error_in_the_middle_leaves_the_cache_usable():
    model, x = network(), torch.randn(2, 2, 40)
    with torch.no_grad():
        outside = model(x)
    with ccnn.cached(model):
        with pytest.raises(ValueError, match="shape"):
            model(torch.randn(2, 5, 40))
        torch.testing.assert_close(model(x), outside, rtol=1e-5, atol=1e-5)


def test_changed_weights_count_in_the_next_block():
    model, x = network(), torch.randn(2, 2, 40)
    with ccnn.cached(model):
        before = model(x)
    with torch.no_grad():
        for value in model.parameters():
            value += 0.1 * torch.randn_like(value)
        outside = model(x)
    with ccnn.cached(model):
        after = model(x)
    torch.testing.assert_close(after, outside, rtol=1e-5, atol=1e-5)
    assert (after - before).abs().max() > 1e-3


@pytest.mark.parametrize("make", [network, lambda: CKConv(2, 3, size=(40,))])
def test_training_is_refused_on_entry(make):
    model = make().train()
    with (
        pytest.raises(RuntimeError, match=r"training mode; call model\.eval\(\)"),
        ccnn.cached(model),
    ):
        pytest.fail("entered")
    assert all(m.cache is None for m in remembering(model))


@pytest.mark.parametrize("make", [network, lambda: CKConv(2, 3, size=(40,))])
def test_training_is_refused_inside(make):
    model = make()
    model.eval()
    with ccnn.cached(model):
        model.train()
        with pytest.raises(RuntimeError, match=r"train outside of the block"):
            model(torch.randn(2, 2, 40))
        model.eval()
        model(torch.randn(2, 2, 40))


def test_outputs_of_a_network_carry_no_gradient():
    model = network()
    with ccnn.cached(model):
        assert not model(torch.randn(2, 2, 40, requires_grad=True)).requires_grad
        assert not model(torch.randn(2, 2, 40), Grid(lengths=[40, 3])).requires_grad
    assert model(torch.randn(2, 2, 40)).requires_grad


@pytest.mark.parametrize("layer", LAYERS)
def test_outputs_of_a_layer_carry_no_gradient(layer):
    conv = layer(2, 3, size=(40,)).eval()
    with ccnn.cached(conv):
        assert not conv(torch.randn(2, 2, 40, requires_grad=True)).requires_grad
    assert conv(torch.randn(2, 2, 40)).requires_grad


def test_inference_mode_and_no_grad_may_take_turns():
    model, x = network(), torch.randn(2, 2, 40)
    with torch.no_grad():
        outside = model(x)
    with ccnn.cached(model):
        with torch.inference_mode():
            model(x)
        torch.testing.assert_close(model(x), outside, rtol=1e-5, atol=1e-5)


def test_threads_share_a_network():
    model = network(head="none")
    signals = [torch.randn(2, 2, 20 + n) + 2 for n in range(24)] * 3
    with torch.no_grad():
        outside = [model(x) for x in signals]
    with ccnn.cached(model), ThreadPoolExecutor(4) as pool:
        inside = list(pool.map(model, signals))
        assert max(kept_of(model)) <= 16
    for a, b in zip(inside, outside, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_threads_share_a_length():
    model, signals = network(), [torch.randn(1, 2, 40) for _ in range(32)]
    with torch.no_grad():
        outside = torch.cat([model(x) for x in signals])
    with ccnn.cached(model), ThreadPoolExecutor(4) as pool:
        inside = torch.cat(list(pool.map(model, signals)))
    torch.testing.assert_close(inside, outside, rtol=1e-5, atol=1e-5)


def test_the_cache_stays_small(samplings):
    model = network()
    with ccnn.cached(model):
        for n in range(20, 40):
            model(torch.randn(1, 2, n))
        assert max(kept_of(model)) == 16
        calls = samplings(model)
        model(torch.randn(1, 2, 39))  # the newest are kept
        assert calls == []
        model(torch.randn(1, 2, 20))  # the oldest are not
        assert len(calls) == 3
        assert max(kept_of(model)) == 16


def test_the_cache_makes_what_it_does_not_know():
    cache = Cache()
    assert cache.get("a", lambda: 1) == 1
    assert cache.get("a", lambda: 2) == 1
    assert copy.deepcopy(cache) is None  # a copied module remembers nothing
    assert pickle.loads(pickle.dumps(cache)) is None


@pytest.mark.parametrize("twin_of", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_made_inside_works_outside(twin_of):
    model, x = network(), torch.randn(2, 2, 40)
    with torch.no_grad():
        outside = model(x)
    with ccnn.cached(model):
        model(x)
        twin = twin_of(model)
        torch.testing.assert_close(model(x), outside, rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(twin(x), outside, rtol=1e-5, atol=1e-5)
        for value in twin.parameters():
            value += 0.1
        for value in model.parameters():
            value += 0.1
        assert_same(twin, x)
        torch.testing.assert_close(twin(x), model(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("twin_of", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_made_inside_can_be_trained_outside(twin_of):
    model = network()
    with ccnn.cached(model):
        model(torch.randn(2, 2, 40))
        twin = twin_of(model)
    twin.train()
    twin(torch.randn(2, 2, 40)).sum().backward()
    assert all(value.grad is not None for value in twin.parameters())


def test_saving_inside_works(tmp_path):
    model, x = network(), torch.randn(2, 2, 40)
    with ccnn.cached(model):
        inside = model(x)
        ccnn.save(model, tmp_path / "model")
    with torch.no_grad():
        loaded = ccnn.load(tmp_path / "model").eval()(x)
    torch.testing.assert_close(loaded, inside, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("make", [network, *(lambda k=k: k(2, 3, size=(40,)) for k in LAYERS)])
def test_autocast(make):
    model, x = make().eval(), torch.randn(2, 2, 40)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        outside = model(x)
    with torch.no_grad():
        full = model(x)
    with ccnn.cached(model), torch.no_grad():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            for _ in range(2):
                torch.testing.assert_close(model(x), outside, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(model(x), full, rtol=1e-5, atol=1e-5)


def test_training_under_autocast_is_refused_inside():
    model = network()
    with ccnn.cached(model):
        model.train()
        with (
            torch.autocast("cpu", dtype=torch.bfloat16),
            pytest.raises(RuntimeError, match="train outside of the block"),
        ):
            model(torch.randn(2, 2, 40))


def test_blocks_of_the_same_model_may_be_nested():
    model, x = network(), torch.randn(2, 2, 40)
    with torch.no_grad():
        outside = model(x)
    with ccnn.cached(model):
        model(x)
        with ccnn.cached(model):
            torch.testing.assert_close(model(x), outside, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(model(x), outside, rtol=1e-5, atol=1e-5)
    assert all(m.cache is None for m in remembering(model))


def test_the_outer_block_lasts_when_the_inner_ends(samplings):
    model, x = network(), torch.randn(2, 2, 40)
    with ccnn.cached(model):
        with ccnn.cached(model):
            model(x)
        assert not model(x).requires_grad
        calls = samplings(model)
        model(x)
        assert calls == []


def test_each_thread_may_open_its_own_block():
    model, x = network(), torch.randn(2, 2, 40)
    with torch.no_grad():
        outside = model(x)

    def answer(_):
        with ccnn.cached(model), torch.no_grad():
            return model(x)

    with ThreadPoolExecutor(4) as pool:
        for y in pool.map(answer, range(200)):
            torch.testing.assert_close(y, outside, rtol=1e-5, atol=1e-5)
    assert all(m.cache is None for m in remembering(model))
