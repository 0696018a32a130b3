"""A grid with holes whose samples stand for them: sums are integrals again."""

import copy

import pytest
import torch
from torch import Tensor

from ccnn import CCNN, Grid, Points, cached
from ccnn.models import FlexTCN, PairCCNN
from ccnn.nn import CKConv, FlexConv, SeparableFlexConv
from ccnn.ops import hole_weights

TINY = {"blocks": 2, "channels": 6, "kernel_channels": 4}
LAYERS = [SeparableFlexConv, FlexConv, CKConv]
# (size, causal, σ): a few taps, convolved directly, and many, by FFT
GEOMETRIES = [((24,), False, None), ((25,), True, None), ((90,), False, 0.5), ((90,), True, 0.6)]


def network(size, **arguments):
    """A small CCNN in float64 whose biases are not zero and whose norms have seen data."""
    model = CCNN(2, 3, size, **TINY, **arguments).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.03 * torch.randn_like(parameter))
        model(torch.randn(4, 2, *size).double())
    return model.eval()


def holes(*size: int, share: float = 0.6, batch: int = 3) -> Tensor:
    """A mask with holes in the middle, at the start and at the end; no signal is empty."""
    mask = torch.rand(batch, 1, *size) < share
    mask[..., 3] = True
    mask[0, ..., 5:9] = False
    mask[0, ..., -2:] = False
    mask[-1, ..., 0] = False
    return mask


def signal(mask: Tensor, channels: int = 2) -> Tensor:
    x = torch.randn(len(mask), channels, *mask.shape[2:], dtype=torch.float64)
    return torch.where(mask, x, torch.nan)


def indices(mask: Tensor, spacing: float = 1.0) -> Tensor:
    return spacing * torch.arange(mask.shape[-1], dtype=torch.float64).expand(len(mask), -1)


def close(found, expected, tolerance=1e-9):
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


# In 1-D it is `Points`


@pytest.mark.parametrize(
    ("head", "training"), [("pool", False), ("pool", True), ("none", True), ("last", False)]
)
@pytest.mark.parametrize(("size", "causal", "sigma"), GEOMETRIES)
def test_a_series_with_holes_is_its_samples_at_points(size, causal, sigma, head, training):
    model = network(size, causal=causal, mask_sigma=sigma, head=head).train(training)
    other = copy.deepcopy(model)
    mask = holes(*size)
    values = signal(mask)
    results = []
    for network_, domain in (
        (model, Grid(mask=mask, weights="density")),
        (other, Points(indices(mask), mask)),
    ):
        x = values.clone().requires_grad_()
        y = network_(x, domain)
        grad = torch.autograd.grad(y.square().sum(), [x, *network_.parameters()])
        results.append((y, *grad))
    # Through batch statistics gradients lose digits.
    for found, expected in zip(*results, strict=True):
        scale = max(1.0, float(expected.detach().abs().max()))
        close(found / scale, expected / scale, 1e-7 if training else 1e-9)
    close(model.norm.running_var, other.norm.running_var)


@pytest.mark.parametrize("cls", LAYERS)
@pytest.mark.parametrize("spacing", [1.0, 2.0, 0.5])
def test_a_layer_on_a_series_with_holes_is_the_layer_at_points(cls, spacing):
    layer = cls(2, 3, size=(25,)).double()
    mask = holes(25)
    x = signal(mask)
    found = layer(x, Grid(spacing, mask=mask, weights="density"))
    expected = layer(x, Points(indices(mask, spacing), mask))
    close(torch.where(mask, found, 0.0), torch.where(mask, expected, 0.0))


def test_the_first_sample_of_a_causal_series_counts_one_cell_of_the_grid():
    """Where a point's would count one training sample: only that sample differs."""
    layer = FlexConv(2, 3, size=(25,), causal=True).double()
    mask = holes(25)
    x = signal(mask)
    weights = 2.0 * hole_weights(mask, causal=True)
    found = layer(x, Grid(2.0, mask=mask, weights="density"))
    expected = layer(x, Points(indices(mask, 2.0), mask, weights[:, 0]))
    close(torch.where(mask, found, 0.0), torch.where(mask, expected, 0.0))


# In any dimension


@pytest.mark.parametrize("size", [(24,), (9, 8), (5, 6, 4)])
def test_a_mask_without_holes_changes_nothing(size):
    model = network(size)
    x = torch.randn(2, 2, *size, dtype=torch.float64)
    everything = torch.ones(2, 1, *size, dtype=torch.bool)
    close(model(x, Grid(mask=everything, weights="density")), model(x))
    assert torch.equal(model(x, Grid(weights="density")), model(x))
    grids = (Grid(2.0, lengths=[[3] * len(size)] * 2, weights=w) for w in ("density", None))
    assert torch.equal(*(model(x, grid) for grid in grids))


@pytest.mark.parametrize("size", [(24,), (9, 8)])
@pytest.mark.parametrize("training", [False, True])
def test_weights_by_name_are_weights_by_hand(size, training):
    model = network(size).train(training)
    mask = holes(*size)
    x = signal(mask)
    weights = hole_weights(mask, causal=False)
    expected = copy.deepcopy(model)(x, Grid(mask=mask, weights=weights))
    for grid in (Grid(mask=mask, weights="density"), Grid(mask=mask[:, 0], weights=weights[:, 0])):
        close(copy.deepcopy(model)(x, grid), expected)
    assert (copy.deepcopy(model)(x, Grid(mask=mask)) - expected).abs().max() > 1e-3


def by_hand(model, x, mask, weights):
    """Forward in eval mode: weighted before every convolution, a weighted mean in the end."""
    x = torch.where(mask, x, 0.0)
    gelu = torch.nn.functional.gelu
    h = gelu(model.stem_norm(model.stem(x * weights)))
    for block in model.blocks:
        h = h + gelu(block.linear(gelu(block.conv(block.norm(h) * weights))))
    axes = tuple(range(2, x.ndim))
    return (model.output(model.norm(h)) * weights).sum(axes) / weights.sum(axes)


@pytest.mark.parametrize(("size", "sigma"), [((24,), None), ((90,), 0.5), ((13, 11), 0.5)])
def test_weights_multiply_what_is_convolved_and_pooled(size, sigma):
    model = network(size, mask_sigma=sigma)
    mask = holes(*size)
    x = signal(mask)
    weights = torch.where(mask, 2 * torch.rand(mask.shape, dtype=torch.float64), 0.0)
    expected = by_hand(model, x, mask, weights)
    grid = Grid(mask=mask, weights=weights)
    close(model(x, grid), expected)
    with cached(model):
        for _ in range(2):
            close(model(x, grid), expected)


def test_weights_may_come_without_a_mask():
    model = network((24,))
    x = torch.randn(3, 2, 24, dtype=torch.float64)
    weights = torch.rand(3, 24, dtype=torch.float64)
    expected = by_hand(model, x, torch.ones(3, 1, 24, dtype=torch.bool), weights[:, None])
    close(model(x, Grid(weights=weights)), expected)
    with cached(model):
        close(model(x, Grid(weights=weights)), expected)


def test_what_missing_samples_hold_does_not_matter():
    model = network((9, 8)).train()
    mask = holes(9, 8)
    x = signal(mask)
    filled = torch.where(mask, x, 1e30)
    weights = torch.where(mask, 1.5, torch.nan).double()
    results = [
        copy.deepcopy(model)(v, Grid(mask=mask, weights=w))
        for v in (x, filled)
        for w in (weights, weights.nan_to_num(7.0))
    ]
    for other in results[1:]:
        assert torch.equal(other, results[0])


@pytest.mark.parametrize("size", [(24,), (9, 8)])
def test_a_signal_with_holes_gets_the_same_in_a_padded_batch(size):
    model = network(size)
    mask = holes(*size)
    x = signal(mask)
    alone = model(x, Grid(mask=mask, weights="density"))
    margin = [0, 6] * len(size)
    padded = torch.nn.functional.pad(x, margin, value=torch.nan)
    wide = torch.nn.functional.pad(mask, margin)
    close(model(padded, Grid(mask=wide, weights="density")), alone)


def test_checkpoints_and_gradients_of_weights_take_the_same_way():
    mask = holes(90)
    x = signal(mask)
    torch.manual_seed(3)
    model = network((90,), mask_sigma=0.5).train()
    lean = copy.deepcopy(model)
    lean.checkpoint = True
    weights = hole_weights(mask, causal=False).requires_grad_()
    results = []
    for network_, given in ((model, "density"), (lean, "density"), (copy.deepcopy(model), weights)):
        y = network_(x, Grid(mask=mask, weights=given))
        results.append([y, *torch.autograd.grad(y.square().sum(), network_.parameters())])
    for other in results[1:]:
        for found, expected in zip(other, results[0], strict=True):
            scale = max(1.0, float(expected.detach().abs().max()))
            close(found / scale, expected / scale, 1e-7)
    # Of the weights themselves, by the definition of a derivative.
    model = network((10,))
    mask = holes(10, batch=1)
    x, few = signal(mask), (1.0 + torch.rand(1, 1, 10, dtype=torch.float64)).requires_grad_()
    assert torch.autograd.gradcheck(lambda w: model(x, Grid(mask=mask, weights=w)), (few,))


@torch.no_grad()
def test_a_thinned_out_image_gives_almost_the_response_of_the_whole():
    """Half of the samples are gone; a sum without weights has lost half of its size."""
    torch.manual_seed(2)
    layer = SeparableFlexConv(1, 4, size=(41, 41), mask=None).double()
    layer.mask.sigma.data.fill_(0.3)
    t = torch.linspace(-2, 2, 41, dtype=torch.float64)
    x = torch.exp(-(t[:, None] ** 2) - t**2)[None, None]
    whole = layer(x)
    mask = torch.rand(1, 1, 41, 41) < 0.5
    mask[..., 20, 20] = True
    errors = [
        float((layer(x, Grid(mask=mask, weights=w)) - whole).norm() / whole.norm())
        for w in (None, "density")
    ]
    assert errors[0] > 0.3
    assert errors[1] < errors[0] / 3


# The other networks


def test_networks_before_the_ccnn_take_them():
    model = FlexTCN(2, 3, (24,), blocks=1, channels=4, kernel_channels=4, head="pool").double()
    mask = holes(24)
    x = signal(mask)
    weights = hole_weights(mask, causal=True)
    found = model.eval()(x, Grid(mask=mask, weights="density"))
    close(found, model(x, Grid(mask=mask, weights=weights)))
    assert (found - model(x, Grid(mask=mask))).abs().max() > 1e-4


def test_pairs_and_symbols_take_them():
    encoder = {"in_channels": 2, "out_channels": 4, "size": (24,), **TINY}
    model = PairCCNN(3, encoder).double().eval()
    mask = holes(24, batch=4)
    x = torch.where(mask, torch.randn(4, 2, 24, dtype=torch.float64), 0.0)
    grid = Grid(mask=mask, weights="density")
    a, b = model.encoder(x, grid).view(2, 2, 4).unbind(1)
    expected = model.output(torch.cat([a, b, a * b, a - b], dim=-1))
    close(model(x.view(2, 2, 2, 24), grid), expected)
    symbols = CCNN(2, 3, (24,), embedding=5, **TINY).double().eval()
    numbers = torch.where(mask[:, 0], torch.randint(5, (4, 24)), -1)
    vectors = symbols.embedding(numbers.clamp(min=0)).mT
    plain = CCNN(2, 3, (24,), **TINY).double().eval()
    plain.load_state_dict({k: v for k, v in symbols.state_dict().items() if "embedding" not in k})
    close(symbols(numbers, grid), plain(vectors, grid))
