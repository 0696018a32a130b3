"""The CCNN is the network of the paper: its sizes, its arithmetic, its heads, its errors."""

import json
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import ccnn
from ccnn import CCNN, Grid, create_model, list_models
from ccnn.models import MODELS
from ccnn.nn import Dropout

TINY = {"blocks": 2, "channels": 6, "kernel_channels": 4}

# The authors' networks (blocks, channels, kernel_channels) in the order of the columns below.
SIZES = [(4, 110, 32), (4, 110, 64), (4, 140, 32), (4, 140, 64), (6, 380, 32), (6, 380, 64)]

# All grid rows of parameter-counts.csv: task, D, in_channels, logits, one count per size. Its six
# ModelNet40 rows are networks on points, whose window has one width instead of D; not built here.
MNIST = (133_729, 196_961, 198_769, 265_841, 1_851_331, 1_993_091)
ONE_LOGIT = (132_730, 195_962, 197_500, 264_572, 1_847_902, 1_989_662)
RGB = (135_942, 201_158, 201_042, 270_098, 1_854_854, 1_999_366)
COUNTS = [
    ("sMNIST", 1, 1, 10, MNIST),
    ("pMNIST", 1, 1, 10, MNIST),
    ("sCIFAR10", 1, 3, 10, (134_017, 197_313, 199_117, 266_253, 1_852_159, 1_993_983)),
    ("SC-raw", 1, 1, 10, MNIST),
    ("SC-raw+mask channel", 1, 2, 10, (133_873, 197_137, 198_943, 266_047, 1_851_745, 1_993_537)),
    ("SC-mfcc", 1, 20, 10, (136_465, 200_305, 202_075, 269_755, 1_859_197, 2_001_565)),
    ("ListOps", 1, 1, 10, MNIST),
    ("Text", 1, 1, 1, ONE_LOGIT),
    ("Image", 1, 1, 10, MNIST),
    ("Pathfinder", 1, 1, 1, ONE_LOGIT),
    ("CIFAR10", 2, 3, 10, RGB),
    ("CIFAR100", 2, 3, 100, (145_932, 211_148, 213_732, 282_788, 1_889_144, 2_033_656)),
    ("STL10", 2, 3, 10, RGB),
    ("2DImage", 2, 1, 10, (135_654, 200_806, 200_694, 269_686, 1_854_026, 1_998_474)),
    ("2DPathfinder", 2, 1, 1, (134_655, 199_807, 199_425, 268_417, 1_850_597, 1_995_045)),
]
ROWS = [
    (task, dim, before, logits, *size, count)
    for task, dim, before, logits, counts in COUNTS
    for size, count in zip(SIZES, counts, strict=True)
]


def parameter_count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def closed_form(dim, before, logits, blocks, channels, hidden, layers=3):
    """Facts 1.4: the stem, its norm, the blocks, the last norm and the head."""

    def kernel(outputs):
        filters = (layers + 1) * (3 * dim * hidden + hidden)
        return filters + layers * (hidden**2 + hidden) + (hidden + 1) * outputs

    mixing = channels**2 + channels
    stem = kernel(before) + before + dim + before * channels + channels
    block = kernel(channels) + channels + dim + mixing + 2 * channels + mixing
    return stem + 2 * channels + blocks * block + 2 * channels + logits * channels + logits


def test_the_table_of_parameter_counts_has_its_90_grid_rows():
    assert len(ROWS) == 90  # 96 in the file, 6 of them on points


@pytest.mark.parametrize(
    "row", ROWS, ids=lambda row: "-".join(str(entry) for entry in (row[0], *row[4:7]))
)
def test_closed_form_of_the_parameter_count_is_the_authors_count(row):
    assert closed_form(*row[1:7]) == row[7]


# Tasks with the same channels and logits are the same network, so it is built once.
@pytest.mark.parametrize("row", sorted({row[1:] for row in ROWS}), ids=str)
def test_parameter_count_is_the_authors(row):
    dim, before, logits, blocks, channels, hidden, count = row
    model = CCNN(
        before, logits, (9,) * dim, blocks=blocks, channels=channels, kernel_channels=hidden
    )
    assert parameter_count(model) == count


@pytest.mark.parametrize(
    ("name", "arguments", "count"),
    [
        ("ccnn_4_140", {"in_channels": 1, "size": (784,), "causal": True}, 198_769),
        ("ccnn_4_110", {"in_channels": 1, "size": (784,), "causal": True}, 133_729),
        ("ccnn_6_380", {"in_channels": 1, "size": (784,), "causal": True}, 1_993_091),
        ("ccnn_4_140", {"in_channels": 3, "size": (32, 32), "kernel_size": 33}, 201_042),
        ("ccnn_6_380", {"in_channels": 3, "size": (32, 32), "kernel_size": 33}, 1_999_366),
    ],
)
def test_the_papers_models_have_the_papers_sizes(name, arguments, count):
    assert parameter_count(create_model(name, out_channels=10, **arguments)) == count


# --- The arithmetic, against a re-implementation that is slow and obvious ------------------------


def slow_magnet(net, coords):
    """Facts 2.1: (N, D) -> (N, C)."""

    def gabor(g):
        distance = g.gamma * (coords[:, None, :] - g.centre)  # (N, H, D)
        return torch.exp(-0.5 * (distance**2).sum(dim=-1)) * torch.sin(
            F.linear(coords, g.weight, g.bias)
        )

    h = gabor(net.filters[0])
    for layer, g in zip(net.hidden, list(net.filters)[1:], strict=True):
        h = gabor(g) * F.linear(h, layer.weight, layer.bias)
    return F.linear(h, net.output.weight, net.output.bias)


def slow_kernel(conv):
    """Design 6: network × window at all K training positions, (C, *K)."""
    axes = [
        torch.arange(1 - k, 1) if conv.causal else torch.arange(k) - k // 2
        for k in conv.kernel_size
    ]
    offsets = torch.cartesian_prod(*axes).reshape(-1, len(axes)).double()  # (N, D)
    relative = 2 * offsets / (torch.tensor(conv.kernel_size) - 1)
    window = torch.exp(-0.5 * (relative / conv.mask.sigma) ** 2)
    window = torch.where((window < 0.1) & (offsets.abs() > 1), 0.0, window).prod(dim=-1)
    values = slow_magnet(conv.kernel, relative + (1.0 if conv.causal else 0.0))
    return (values * window[:, None]).T.reshape(-1, *conv.kernel_size)


def slow_conv(conv, x):
    """Facts 1.2: depthwise with its bias, then mixing with its own."""
    weight = slow_kernel(conv).unsqueeze(1)
    if conv.causal:
        x, padding = F.pad(x, (conv.kernel_size[0] - 1, 0)), 0
    else:
        padding = tuple(k // 2 for k in conv.kernel_size)
    convolve = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[len(conv.kernel_size)]
    return slow_linear(
        conv.mix, convolve(x, weight, conv.bias, padding=padding, groups=len(weight))
    )


def slow_linear(layer, x):
    return F.linear(x.movedim(1, -1), layer.weight, layer.bias).movedim(-1, 1)


def slow_forward(model, x, mask=None):
    """Facts 1.1; returns the output and the running means and variances after it."""
    mask = torch.ones_like(x[:, :1]) if mask is None else mask.to(x.dtype)
    tracked = []

    def norm(layer, h):
        mean, var = layer.running_mean.clone(), layer.running_var.clone()
        tracked.extend([mean, var])
        return F.batch_norm(h, mean, var, layer.weight, layer.bias, model.training, 0.1, 1e-5)

    h = F.gelu(norm(model.stem_norm, slow_conv(model.stem, x * mask)))
    for block in model.blocks:
        branch = F.gelu(slow_conv(block.conv, norm(block.norm, h) * mask))
        h = h + F.gelu(slow_linear(block.linear, branch))
    h = norm(model.norm, h)
    if model.head == "none":
        y = slow_linear(model.output, h) * mask
    elif model.head == "pool":
        axes = tuple(range(2, x.ndim))
        y = slow_linear(model.output, (h * mask).sum(axes) / mask.sum(axes))
    else:
        rows = [signal[:, valid[0].nonzero()[-1]] for signal, valid in zip(h, mask, strict=True)]
        y = slow_linear(model.output, torch.stack(rows)[..., 0])
    return y, tracked


def scrambled(model):
    """Give every bias, norm and running statistic a value of its own, so that none can be lost."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("bias") or "norm" in name:
                p.add_(0.3 * torch.randn_like(p))
        for name, b in model.named_buffers():
            if name.endswith("running_mean"):
                b.add_(0.3 * torch.randn_like(b))
            if name.endswith("running_var"):
                b.mul_(torch.rand_like(b) + 0.5)
    return model


def built(size, **arguments):
    return scrambled(CCNN(2, 3, size, **TINY, **arguments).double())


# The wide ones keep more than 50 taps and go through an FFT, as do 2-D ones of 9 × 9; the others,
# of which the window cuts some, are convolved directly.
GEOMETRIES = {
    "causal": ((20,), (20,), {"causal": True}),
    "causal, wide": ((90,), (90,), {"causal": True, "mask_sigma": 0.6}),
    "centred": ((31,), (31,), {"mask_sigma": 0.3}),
    "centred, wide": ((80,), (80,), {"mask_sigma": 0.5}),
    "longer than size": ((20,), (47,), {"causal": True}),
    "shorter than size": ((31,), (5,), {"mask_sigma": 0.3}),
    "full kernel": ((9,), (9,), {"kernel_size": "full", "mask_sigma": 5.0}),
    "2-D": ((9, 9), (9, 9), {"mask_sigma": 0.5}),
    "2-D, not square": ((7, 12), (7, 12), {"mask_sigma": (0.6, 0.2)}),
    "2-D, not of size": ((7, 12), (13, 4), {"kernel_size": (5, 3)}),
    "3-D": ((5, 4, 6), (5, 4, 6), {}),
}
# In float64 the two differ by the order of their sums, and by σ being kept from zero: 1e-10.
TIGHT = {"rtol": 1e-8, "atol": 1e-8}


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
def test_forward_is_the_network_of_the_paper(geometry, training):
    size, signal, arguments = geometry
    model = built(size, **arguments).train(training)
    x = torch.randn(3, 2, *signal, dtype=torch.float64)
    expected, tracked = slow_forward(model, x)
    torch.testing.assert_close(model(x), expected, **TIGHT)
    after = [b for n, b in model.named_buffers() if n.endswith(("running_mean", "running_var"))]
    # Buffers come in the order of the modules: stem_norm, the blocks', the last.
    for ours, theirs in zip(after, tracked, strict=True):
        torch.testing.assert_close(ours, theirs, **TIGHT)


def holes(*shape):
    """Return a mask with about half of the samples missing, and none of the signals empty."""
    mask = torch.rand(shape) < 0.5
    mask[:, :, 1] = True
    return mask


@pytest.mark.parametrize("masked", [False, True], ids=["all samples", "masked"])
@pytest.mark.parametrize(
    ("head", "size", "shape"),
    [
        ("pool", (20,), (3, 4)),
        ("last", (20,), (3, 4)),
        ("none", (20,), (3, 4, 20)),
        ("pool", (7, 9), (3, 4)),
        ("none", (7, 9), (3, 4, 7, 9)),
    ],
)
def test_heads(head, size, shape, masked):
    model = scrambled(CCNN(2, 4, size, head=head, **TINY).double()).eval()
    x = torch.randn(3, 2, *size, dtype=torch.float64)
    mask = holes(3, 1, *size) if masked else None
    y = model(x, Grid(mask=mask))
    assert y.shape == shape
    torch.testing.assert_close(y, slow_forward(model, x, mask)[0], **TIGHT)


def test_last_is_the_last_valid_position_and_not_the_last():
    model = built((20,), causal=True, head="last").eval()
    everywhere = built((20,), causal=True, head="none").eval()
    everywhere.load_state_dict(model.state_dict())
    x = torch.randn(2, 2, 20, dtype=torch.float64)
    y, at_all = model(x, Grid(lengths=[6, 20])), everywhere(x)
    torch.testing.assert_close(y[0], at_all[0, :, 5], **TIGHT)
    torch.testing.assert_close(y[1], at_all[1, :, 19], **TIGHT)


def test_the_three_heads_have_the_same_parameters():
    states = [CCNN(2, 3, (9,), head=head, **TINY).state_dict() for head in ("pool", "last", "none")]
    assert {k: v.shape for k, v in states[0].items()} == {k: v.shape for k, v in states[1].items()}
    assert states[0].keys() == states[2].keys()


def test_no_head_gives_zero_where_there_is_no_sample():
    model = scrambled(CCNN(1, 2, (12,), head="none", **TINY)).eval()
    y = model(torch.randn(2, 1, 12), Grid(lengths=[12, 7]))
    assert (y[1, :, 7:] == 0).all()
    assert (y[1, :, :7] != 0).all()


@pytest.mark.parametrize("size", [(16,), (5, 6)])
def test_an_embedding_looks_symbols_up_and_the_rest_is_the_same(size):
    model = scrambled(CCNN(5, 3, size, embedding=7, **TINY)).eval()
    plain = CCNN(5, 3, size, **TINY).eval()
    state = {k: v for k, v in model.state_dict().items() if not k.startswith("embedding")}
    plain.load_state_dict(state)
    symbols = torch.randint(0, 7, (2, *size))
    vectors = model.embedding.weight[symbols].movedim(-1, 1)
    torch.testing.assert_close(model(symbols), plain(vectors))
    torch.testing.assert_close(model(symbols.int()), plain(vectors))
    torch.testing.assert_close(model(symbols.byte()), plain(vectors))
    model(symbols).sum().backward()
    assert model.embedding.weight.grad.abs().sum() > 0


def test_an_embedding_adds_its_table_and_nothing_else():
    with_table, without = CCNN(5, 3, (9,), embedding=7, **TINY), CCNN(5, 3, (9,), **TINY)
    assert parameter_count(with_table) - parameter_count(without) == 7 * 5


# --- Dropout -------------------------------------------------------------------------------------


def record(module, calls):
    """Store what goes into and comes out of a module."""
    module.register_forward_hook(lambda _, given, result: calls.append((given[0], result)))


@pytest.mark.parametrize("size", [(40,), (8, 9)])
@pytest.mark.parametrize("kind", ["channel", "element"])
def test_dropout_zeroes_whole_channels_or_elements_and_scales_the_rest(kind, size, monkeypatch):
    model = CCNN(
        1, 2, size, dropout=0.25, dropout_kind=kind, blocks=1, channels=32, kernel_channels=4
    )
    block, factors = model.blocks[0], []

    def recorded(x):
        factors.append(Dropout.factor(block.dropout, x))
        return factors[-1]

    monkeypatch.setattr(block.dropout, "factor", recorded)
    x = torch.randn(16, 1, *size)
    y = model(x)
    (factor,) = factors
    zero = factor == 0
    torch.testing.assert_close(factor[~zero], torch.full_like(factor[~zero], 1 / 0.75))
    assert factor.shape[2:] == (size if kind == "element" else (1,) * len(size))
    # 512 draws know the rate to ±0.02, 20,000 to ±0.003; five of these.
    assert abs(zero.float().mean() - 0.25) < (0.1 if kind == "channel" else 0.02)
    monkeypatch.setattr(block.dropout, "factor", lambda x: factor)
    assert torch.equal(model(x), y)  # so it was used
    monkeypatch.setattr(block.dropout, "factor", lambda x: None)
    assert not torch.equal(model(x), y)


def test_input_dropout_drops_elements_of_the_signal():
    model = CCNN(2, 2, (500,), dropout_in=0.4, **TINY)
    calls = []
    record(model.stem, calls)
    x = torch.randn(4, 2, 500)
    model(x)
    ((seen, _),) = calls
    torch.testing.assert_close(seen[seen != 0], (x / 0.6)[seen != 0])
    assert abs((seen == 0).float().mean() - 0.4) < 0.05  # 4,000 draws: ±0.008


@pytest.mark.parametrize("rate", ["dropout", "dropout_in"])
@pytest.mark.parametrize("kind", ["channel", "element"])
def test_dropout_is_for_training_only(rate, kind):
    model = CCNN(1, 2, (20,), dropout_kind=kind, **{rate: 0.5}, **TINY)
    plain = CCNN(1, 2, (20,), **TINY)
    plain.load_state_dict(model.state_dict())
    x = torch.randn(3, 1, 20)
    assert torch.equal(model.eval()(x), plain.eval()(x))
    assert not torch.equal(model.train()(x), plain.train()(x))


# --- Any batch, any dimension, any length --------------------------------------------------------


@pytest.mark.parametrize("head", ["pool", "last", "none"])
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_a_batch_of_one_keeps_its_axis(head, training):
    model = CCNN(1, 3, (20,), head=head, **TINY).train(training)
    y = model(torch.randn(1, 1, 20))
    assert y.shape == ((1, 3, 20) if head == "none" else (1, 3))


def test_one_class_and_one_signal_still_make_two_axes():
    assert CCNN(1, 1, (20,), **TINY)(torch.randn(1, 1, 20)).shape == (1, 1)


def test_a_signal_gets_the_same_alone_as_in_a_batch():
    model = scrambled(CCNN(1, 3, (20,), **TINY)).eval()
    x = torch.randn(4, 1, 20)
    # float32; a matrix product of another width may sum in another order.
    torch.testing.assert_close(model(x[1:2]), model(x)[1:2], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [(20,), (6, 9), (4, 5, 6), (3, 4, 3, 5)], ids=str)
def test_one_class_serves_every_dimension(size):
    model = CCNN(2, 3, size, **TINY)
    assert type(model) is CCNN
    assert parameter_count(model) == closed_form(len(size), 2, 3, *TINY.values())
    y = model(torch.randn(2, 2, *size))
    y.square().sum().backward()
    assert y.shape == (2, 3)
    for name, p in model.named_parameters():
        assert p.grad is not None, name
        assert p.grad.isfinite().all(), name


@pytest.mark.parametrize("length", [1, 7, 20, 33, 200])
@pytest.mark.parametrize("causal", [True, False])
def test_signals_may_be_longer_or_shorter_than_the_training_size(length, causal):
    model = scrambled(CCNN(1, 3, (20,), causal=causal, head="none", **TINY).double()).eval()
    x = torch.randn(2, 1, length, dtype=torch.float64)
    y = model(x)
    assert y.shape == (2, 3, length)
    # The kernel does not depend on the signal: more room behind it changes nothing.
    longer = model(F.pad(x, (0, 13)), Grid(lengths=[length] * 2))
    torch.testing.assert_close(longer[..., :length], y, **TIGHT)


def test_parameters_do_not_move_when_a_signal_of_another_length_comes():
    model = CCNN(1, 3, (20,), **TINY).eval()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    x = torch.randn(2, 1, 20)
    first = model(x)
    model(torch.randn(2, 1, 55))
    assert torch.equal(model(x), first)
    assert before.keys() == model.state_dict().keys()
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())


def test_weights_are_a_function_of_the_arguments_and_the_seed():
    def state(seed):
        torch.manual_seed(seed)
        return CCNN(1, 3, (20,), **TINY).state_dict()

    one, same, other = state(3), state(3), state(4)
    assert all(torch.equal(v, same[k]) for k, v in one.items())
    assert not torch.equal(one["stem.mix.weight"], other["stem.mix.weight"])


@pytest.mark.parametrize("kernel", sorted(ccnn.nn.KERNELS))
@pytest.mark.parametrize("init", ["energy", "authors", "none"])
def test_every_kernel_network_and_rule_can_be_named(kernel, init):
    model = CCNN(1, 3, (9, 8), kernel=kernel, init=init, **TINY)
    assert type(model.stem.kernel) is ccnn.nn.KERNELS[kernel]
    assert model(torch.randn(2, 1, 9, 8)).isfinite().all()


# --- By name -------------------------------------------------------------------------------------


def test_list_models_names_the_papers_three_and_those_before_them():
    assert sorted(MODELS) == ["ccnn_4_110", "ccnn_4_140", "ccnn_6_380"]
    assert list_models() == [*sorted(MODELS), "ckcnn", "flexnet", "flextcn_6"]


def test_any_argument_of_a_named_model_can_be_overridden():
    overrides = {
        "blocks": 1,
        "channels": 5,
        "kernel_channels": 4,
        "kernel_layers": 2,
        "omega_0": 12.5,
        "mask_sigma": [0.3],
        "kernel_size": 7,
        "causal": True,
        "dropout": 0.1,
        "dropout_in": 0.2,
        "head": "last",
        "embedding": 11,
        "dropout_kind": "element",
        "kernel": "GaborNet",
        "band": 0.5,
        "init": "authors",
        "checkpoint": True,
        "window": "smooth",
        "lowpass": True,
    }
    model = create_model("ccnn_4_140", in_channels=2, out_channels=3, size=(16,), **overrides)
    asked = {"in_channels": 2, "out_channels": 3, "size": (16,), **overrides}
    assert model.arguments == asked  # every argument of CCNN is in this test
    assert len(model.blocks) == 1
    assert model.stem_norm.weight.shape == (5,)
    assert model.stem.kernel.omega_0 == 12.5
    assert model.stem.kernel.band == 0.5
    assert len(model.stem.kernel.hidden) == 2
    assert model.stem.kernel_size == (7,)
    assert model.stem.mask.sigma.tolist() == pytest.approx([0.3])
    assert model.stem.causal
    assert model.embedding.weight.shape == (11, 2)
    assert model.dropout_in.p == 0.2
    assert model.blocks[0].dropout.kind == "element"
    assert model.blocks[0].dropout.p == 0.1
    for layer in model.convolutions():
        assert layer.mask.window == "smooth"
        assert layer.lowpass


@pytest.mark.parametrize(("size", "causal"), [((40,), False), ((40,), True), ((13, 12), False)])
def test_a_smooth_window_and_a_low_pass_work_everywhere(size, causal, tmp_path):
    """Saved and loaded, inside `ccnn.cached`, with checkpoints, at other spacings."""
    arguments = {"causal": causal, "window": "smooth", "lowpass": True}
    model = built(size, **arguments).eval()
    loaded = ccnn.load(ccnn.save(model, tmp_path))
    lean = CCNN(2, 3, size, **TINY, **arguments, checkpoint=True).double().eval()
    lean.load_state_dict(model.state_dict())
    x = torch.randn(2, 2, *(-(-n // 2) for n in size), dtype=torch.float64)
    grid = Grid(spacing=2.0)
    expected = model(x, grid)
    assert torch.equal(loaded(x, grid), expected)
    assert torch.equal(lean(x, grid), expected)
    grads = [torch.autograd.grad(m(x, grid).sum(), m.parameters()) for m in (model, lean)]
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)
    with ccnn.cached(model):
        torch.testing.assert_close(model(x, grid), expected, rtol=1e-9, atol=1e-9)
    plain = CCNN(2, 3, size, **TINY, causal=causal).double().eval()
    plain.load_state_dict(model.state_dict())
    assert (plain(x, grid) - expected).abs().max() > 1e-3


def test_a_network_saved_before_there_were_windows_to_choose_is_loaded(tmp_path):
    model = built((20,)).eval()
    config = ccnn.save(model, tmp_path) / "config.json"
    content = json.loads(config.read_text())
    for name in ("window", "lowpass"):
        del content["arguments"][name]
    config.write_text(json.dumps(content))
    x = torch.randn(2, 2, 20, dtype=torch.float64)
    old = ccnn.load(tmp_path)
    assert torch.equal(old(x), model(x))
    assert old.arguments["window"] == "cut"
    assert old.arguments["lowpass"] is False


def test_what_is_not_overridden_is_the_named_models():
    model = create_model("ccnn_6_380", in_channels=1, out_channels=2, size=(9,), blocks=1)
    assert model.arguments["channels"] == 380
    assert model.arguments["kernel_channels"] == 64
    assert MODELS["ccnn_6_380"]["blocks"] == 6


@pytest.mark.parametrize(
    ("name", "overrides", "error", "says"),
    [
        ("ccnn_4_14", {}, ValueError, ["model", "'ccnn_4_14'", "did you mean 'ccnn_4_140'?"]),
        ("CCNN_6_380", {}, ValueError, ["'CCNN_6_380'", "did you mean 'ccnn_6_380'?"]),
        ("vgg", {}, ValueError, ["'vgg'", "ccnn_4_110, ccnn_4_140, ccnn_6_380"]),
        ("ccnn_4_140", {"chanels": 3}, TypeError, ["'chanels'", "did you mean 'channels'?"]),
        ("ccnn_4_140", {"no_hidden": 3}, TypeError, ["'no_hidden'", "kernel_channels"]),
        ("ccnn_4_140", {"kernel": "Magnet"}, ValueError, ["kernel", "did you mean 'MAGNet'?"]),
    ],
)
def test_wrong_names_get_a_suggestion(name, overrides, error, says):
    with pytest.raises(error) as raised:
        create_model(name, in_channels=1, out_channels=2, size=(9,), **overrides)
    for words in says:
        assert words in str(raised.value)


@pytest.mark.parametrize(
    "arguments",
    [
        {"size": (20,), "causal": True, "mask_sigma": 0.2},
        {"size": [6, 9], "mask_sigma": (0.3, 0.2), "kernel_size": (5, 3), "kernel": "SIREN"},
        {"size": torch.Size([4, 5, 6]), "omega_0": 30.0, "kernel_layers": 2, "head": "none"},
        {"size": (20,), "embedding": 7, "head": "last", "kernel": "MLP", "init": "none"},
    ],
    ids=lambda arguments: str(tuple(arguments)),
)
def test_arguments_are_ready_for_json_and_build_the_model_again(arguments):
    model = CCNN(2, 3, **TINY, **arguments)
    again = CCNN(**json.loads(json.dumps(model.arguments)))
    shapes = {k: (v.shape, v.dtype) for k, v in model.state_dict().items()}
    assert {k: (v.shape, v.dtype) for k, v in again.state_dict().items()} == shapes
    again.load_state_dict(model.state_dict())
    x = torch.randn(2, 2, *model.size)
    if model.embedding is not None:
        x = torch.randint(0, 7, (2, *model.size))
    assert torch.equal(again.eval()(x), model.eval()(x))


# --- What is wrong is said ----------------------------------------------------------------------


X = (2, 1, 16)
# What is handed over, which error, and the words of it: the argument, what came, what was expected.
WRONG_SIGNALS = {
    "no channel axis": (lambda: torch.zeros(2, 16), ValueError, ["x ", "(2, 16)", "(B, 1, S)"]),
    "channels": (lambda: torch.zeros(2, 3, 16), ValueError, ["x ", "(2, 3, 16)", "(B, 1, S)"]),
    "D": (lambda: torch.zeros(2, 1, 16, 16), ValueError, ["x ", "(2, 1, 16, 16)", "(B, 1, S)"]),
    "no samples": (lambda: torch.zeros(2, 1, 0), ValueError, ["x ", "(2, 1, 0)", "empty"]),
    "int64": (lambda: torch.zeros(X).long(), TypeError, ["x ", "torch.int64", "torch.float32"]),
    "uint8": (lambda: torch.zeros(X).byte(), TypeError, ["x ", "torch.uint8", "torch.float32"]),
    "bool": (lambda: torch.zeros(X).bool(), TypeError, ["x ", "torch.bool", "torch.float32"]),
    "complex": (lambda: torch.zeros(X) + 0j, TypeError, ["x ", "complex64", "torch.float32"]),
    "float16": (lambda: torch.zeros(X).half(), TypeError, ["x ", "torch.float16", "float32"]),
    "bfloat16": (lambda: torch.zeros(X).bfloat16(), TypeError, ["x ", "bfloat16", "autocast"]),
    "float64": (lambda: torch.zeros(X).double(), TypeError, ["x ", "float64", "torch.float32"]),
}


def assert_says(error, words):
    for word in words:
        assert word in str(error.value), f"{word!r} is missing in: {error.value}"


@pytest.mark.parametrize(("x", "error", "says"), WRONG_SIGNALS.values(), ids=WRONG_SIGNALS)
def test_wrong_signals_are_refused(x, error, says):
    with pytest.raises(error) as raised:
        CCNN(1, 3, (16,), **TINY).eval()(x())
    assert_says(raised, says)


def test_wrong_axes_in_2d_name_all_axes():
    with pytest.raises(ValueError, match=r"x must .* \(B, 1, S1, S2\).*got \(2, 1, 16\)"):
        CCNN(1, 3, (16, 16), **TINY)(torch.zeros(2, 1, 16))


WRONG_GRIDS = {
    "zero spacing": ({"spacing": 0.0}, ValueError, ["spacing", "0.0", "positive"]),
    "negative spacing": ({"spacing": (-2.0,)}, ValueError, ["spacing", "-2.0", "positive"]),
    "spacing nan": ({"spacing": math.nan}, ValueError, ["spacing", "nan", "finite"]),
    "spacing inf": ({"spacing": math.inf}, ValueError, ["spacing", "inf", "finite"]),
    "spacing of another D": ({"spacing": (1.0, 2.0)}, ValueError, ["spacing", "2 entries", "1 ax"]),
    "a spacing per signal": (
        {"spacing": torch.tensor([1.0, 2.0])},
        TypeError,
        ["spacing", "Tensor", "a batch has one spacing"],
    ),
    "lengths beyond the signal": (
        {"lengths": [17, 3]},
        ValueError,
        ["lengths", "17", "16 samples", "(2, 1, 16)"],
    ),
    "length zero": ({"lengths": [0, 3]}, ValueError, ["lengths", "at least 1", "got 0"]),
    "lengths of another batch": ({"lengths": [3]}, ValueError, ["lengths", "(1,)", "(2,)"]),
    "lengths of another D": (
        {"lengths": [[3, 3]] * 2},
        ValueError,
        ["lengths", "(2, 2)", "(2, 1)"],
    ),
    "lengths not integers": (
        {"lengths": [3.5, 2.0]},
        TypeError,
        ["lengths", "float32", "integers"],
    ),
    "empty mask": (
        {"mask": torch.tensor([[True] * 16, [False] * 16])},
        ValueError,
        ["mask", "signal(s) [1]", "at least one"],
    ),
    "mask of another length": (
        {"mask": torch.ones(2, 1, 15, dtype=torch.bool)},
        ValueError,
        ["mask", "(2, 1, 15)", "(2, 1, 16)"],
    ),
    "mask of another D": (
        {"mask": torch.ones(2, 1, 16, 16, dtype=torch.bool)},
        ValueError,
        ["mask", "(2, 1, 16, 16)", "(2, 1, 16)"],
    ),
    "mask not bool": ({"mask": torch.ones(2, 16)}, TypeError, ["mask", "torch.float32", "bool"]),
    "mask and lengths": (
        {"mask": torch.ones(2, 16, dtype=torch.bool), "lengths": [3, 4]},
        ValueError,
        ["mask", "lengths", "not both"],
    ),
}


@pytest.mark.parametrize(("grid", "error", "says"), WRONG_GRIDS.values(), ids=WRONG_GRIDS)
def test_wrong_grids_are_refused(grid, error, says):
    model = CCNN(1, 3, (16,), **TINY).eval()
    with pytest.raises(error) as raised:
        model(torch.zeros(X), Grid(**grid))
    assert_says(raised, says)


WRONG_ARGUMENTS = {
    "even centred kernel": ({"kernel_size": 6}, ValueError, ["kernel_size", "6", "even", "use 7"]),
    "even on one axis": (
        {"size": (8, 8), "kernel_size": (5, 4)},
        ValueError,
        ["kernel_size", "4", "even"],
    ),
    "kernel_size of another D": (
        {"kernel_size": (5, 5)},
        ValueError,
        ["kernel_size", "(5, 5)", "1 axes"],
    ),
    "kernel_size zero": ({"kernel_size": 0}, ValueError, ["kernel_size", "got 0", "positive"]),
    "kernel_size word": (
        {"kernel_size": "valid"},
        ValueError,
        ["kernel_size", "'valid'", '"same"'],
    ),
    "mask_sigma of another D": (
        {"mask_sigma": (0.1, 0.2)},
        ValueError,
        ["sigma", "(0.1, 0.2)", "one per axis"],
    ),
    "size a number": ({"size": 16}, ValueError, ["size", "got 16", "(784,)"]),
    "size empty": ({"size": ()}, ValueError, ["size", "got ()", "positive integers"]),
    "size zero": ({"size": (4, 0)}, ValueError, ["size", "(4, 0)", "positive integers"]),
    "causal in 2-D": ({"size": (8, 8), "causal": True}, ValueError, ["causal", "(8, 8)", "D = 1"]),
    "last in 2-D": ({"size": (8, 8), "head": "last"}, ValueError, ["head", "2", "D = 1"]),
    "head": ({"head": "mean"}, ValueError, ["head", "'mean'", "pool, last, none"]),
    "dropout": ({"dropout": 1.0}, ValueError, ["dropout", "1.0", "[0, 1)"]),
    "dropout_in": ({"dropout_in": -0.1}, ValueError, ["dropout_in", "-0.1", "[0, 1)"]),
    "dropout_kind": ({"dropout_kind": "row"}, ValueError, ["dropout_kind", "'row'", "channel"]),
    "kernel": ({"kernel": "magnets"}, ValueError, ["kernel", "'magnets'", "'MAGNet'"]),
    "init": ({"init": "chang"}, ValueError, ["init", "'chang'", "energy, authors, none"]),
    "omega_0": ({"omega_0": -1.0}, ValueError, ["omega_0", "-1.0", "positive"]),
    "window": ({"window": "hann"}, ValueError, ["window", "'hann'", "cut, smooth"]),
    "lowpass": ({"lowpass": "yes"}, ValueError, ["lowpass", "'yes'", "False, True"]),
    "band": ({"band": 0.0}, ValueError, ["band", "0.0", "positive"]),
    "blocks": ({"blocks": 0}, ValueError, ["blocks", "got 0", "positive integer"]),
    "channels": ({"channels": -3}, ValueError, ["channels", "got -3", "positive integer"]),
}


@pytest.mark.parametrize(
    ("arguments", "error", "says"), WRONG_ARGUMENTS.values(), ids=WRONG_ARGUMENTS
)
def test_wrong_arguments_are_refused(arguments, error, says):
    with pytest.raises(error) as raised:
        CCNN(1, 3, **{"size": (16,), **TINY, **arguments})
    assert_says(raised, says)


def test_an_even_causal_kernel_is_fine():
    assert CCNN(1, 3, (16,), causal=True, kernel_size=6, **TINY).stem.kernel_size == (6,)


@pytest.mark.parametrize(
    ("x", "error", "says"),
    [
        (torch.zeros(2, 16), TypeError, ["x ", "torch.float32", "int64"]),
        (torch.zeros(2, 1, 16, dtype=torch.int64), ValueError, ["x ", "(2, 1, 16)", "(B, *S)"]),
    ],
    ids=["floats", "channels"],
)
def test_wrong_symbols_are_refused(x, error, says):
    with pytest.raises(error) as raised:
        CCNN(4, 3, (16,), embedding=7, **TINY)(x)
    assert_says(raised, says)


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"embedding": 0}, "embedding"),
        ({"embedding": -1}, "embedding"),
        ({"kernel_layers": -1}, "kernel_layers"),
        ({"omega_0": None}, "omega_0"),
        ({"omega_0": float("inf")}, "omega_0"),
        ({"mask_sigma": float("nan")}, "mask_sigma"),
    ],
)
def test_senseless_settings_are_refused_by_name(settings, names):
    with pytest.raises((TypeError, ValueError), match=names):
        CCNN(1, 2, (8,), blocks=1, channels=2, kernel_channels=2, **settings)


def test_symbols_outside_of_the_embedding_are_refused():
    model = CCNN(3, 2, (8,), blocks=1, channels=2, kernel_channels=2, embedding=5)
    with pytest.raises(ValueError, match=r"symbols from 0 to 5.*from 0 to 4"):
        model(torch.tensor([[0, 1, 2, 3, 4, 5, 0, 0]]))


def test_a_domain_must_be_a_grid():
    model = CCNN(1, 2, (8,), blocks=1, channels=2, kernel_channels=2)
    with pytest.raises(TypeError, match=r"ccnn\.Grid.*float"):
        model(torch.randn(1, 1, 8), 2.0)
