"""What is not a sample never matters: a padded batch gives each signal what it gets alone."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from ccnn import CCNN, Grid
from ccnn.nn import BatchNorm

TINY = {"blocks": 2, "channels": 6, "kernel_channels": 4}

# Direct: at most 50 taps after the window. FFT: more.
GEOMETRIES = {
    "causal, direct": {"size": (24,), "causal": True},
    "causal, fft": {"size": (120,), "causal": True, "mask_sigma": 0.6},
    "centred, direct": {"size": (24,)},
    "centred, fft": {"size": (120,), "mask_sigma": 0.5},
}
# What padding may hold. A mixture of all finds any leak; one at a time says which.
FILLINGS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf, "huge": 1e30, "zero": 0.0}


def rubbish(*shape):
    """Return a tensor of all of `FILLINGS`, mixed."""
    return torch.tensor(list(FILLINGS.values()))[torch.randint(len(FILLINGS), shape)]


# Issue 2's tolerance, in float32: an FFT of another length rounds differently. It is relative to
# outputs that are O(1), and absolute below.
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def fresh(size, **arguments):
    """Return a small CCNN whose norms have seen data, in eval mode."""
    model = CCNN(2, 3, size, **TINY, **arguments)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("bias"):  # or else zeroed samples would stay zero by chance
                p.add_(0.3 * torch.randn_like(p))
        for _ in range(3):
            model(torch.randn(4, 2, *size))
    return model.eval()


def padded(samples, filling=None):
    """Return a batch of the samples, filled up to the longest, and one length per axis."""
    longest = [max(x.shape[axis] for x in samples) for axis in range(1, samples[0].ndim)]
    shape = (len(samples), samples[0].shape[0], *longest)
    batch = rubbish(*shape) if filling is None else torch.full(shape, filling)
    batch = batch.to(samples[0].dtype)
    for row, x in zip(batch, samples, strict=True):
        row[(slice(None), *(slice(n) for n in x.shape[1:]))] = x
    return batch, torch.tensor([x.shape[1:] for x in samples])


def assert_as_alone(model, samples, batch, grid):
    result = model(batch, grid)
    for y, x in zip(result, samples, strict=True):
        alone = model(x[None])[0]
        if model.head == "none":
            valid = (slice(None), *(slice(n) for n in x.shape[1:]))
            torch.testing.assert_close(y[valid], alone, **CLOSE)
            assert y.count_nonzero() == y[valid].count_nonzero()  # zero where there is no sample
        else:
            torch.testing.assert_close(y, alone, **CLOSE)


@pytest.mark.parametrize("head", ["pool", "last", "none"])
@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
def test_a_padded_batch_gives_each_signal_what_it_gets_alone(geometry, head):
    model = fresh(head=head, **geometry)
    samples = [torch.randn(2, n) for n in (17, 1, geometry["size"][0], 40)]
    batch, lengths = padded(samples)
    assert_as_alone(model, samples, batch, Grid(lengths=lengths[:, 0]))


@pytest.mark.parametrize("head", ["pool", "none"])
@pytest.mark.parametrize(
    "arguments", [{}, {"mask_sigma": (0.6, 0.5)}], ids=["direct", "fft: 11 x 13 taps"]
)
def test_a_padded_batch_of_images_of_unequal_sizes(arguments, head):
    model = fresh((11, 13), head=head, **arguments)
    samples = [torch.randn(2, *shape) for shape in [(11, 13), (3, 13), (11, 2), (1, 1), (6, 15)]]
    batch, lengths = padded(samples)
    assert lengths.shape == (5, 2)
    assert_as_alone(model, samples, batch, Grid(lengths=lengths))


@pytest.mark.parametrize("spacing", [2.0, 0.5, 1.3])
def test_padding_does_not_matter_at_another_spacing(spacing):
    model = fresh((24,))
    samples = [torch.randn(2, n) for n in (17, 5, 24)]
    batch, lengths = padded(samples)
    result = model(batch, Grid(spacing, lengths=lengths))
    alone = torch.cat([model(x[None], Grid(spacing)) for x in samples])
    torch.testing.assert_close(result, alone, **CLOSE)


@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    causal=st.booleans(),
    head=st.sampled_from(["pool", "last", "none"]),
)
def test_any_lengths(lengths, causal, head):
    model = fresh((24,), causal=causal, head=head)
    samples = [torch.randn(2, n) for n in lengths]
    batch, _ = padded(samples)
    assert_as_alone(model, samples, batch, Grid(lengths=lengths))


@given(shapes=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=3))
def test_any_shapes(shapes):
    model = fresh((7, 5))
    samples = [torch.randn(2, *shape) for shape in shapes]
    batch, lengths = padded(samples)
    assert_as_alone(model, samples, batch, Grid(lengths=lengths))


# --- Holes ---------------------------------------------------------------------------------------


def with_holes(size, batch=3):
    """Return a mask with holes in the middle, at the start and at the end; no signal is empty."""
    mask = torch.rand(batch, 1, *size) < 0.6
    mask[..., 3] = True
    mask[0, ..., 5:9] = False
    mask[0, ..., -1] = False
    mask[-1, ..., 0] = False
    return mask


def by_hand(model, x, mask):
    """Forward in eval mode: zero before every convolution, then the head over valid positions."""
    x = torch.where(mask, x, 0.0)
    h = F.gelu(model.stem_norm(model.stem(x)))
    for block in model.blocks:
        branch = F.gelu(block.conv(block.norm(h) * mask))
        h = h + F.gelu(block.linear(branch))
    y = model.output(model.norm(h)) * mask
    if model.head == "none":
        return y
    if model.head == "pool":
        axes = tuple(range(2, x.ndim))
        return y.sum(axes) / mask.sum(axes)
    return torch.stack([row[:, m[0].nonzero()[-1, 0]] for row, m in zip(y, mask, strict=True)])


@pytest.mark.parametrize("head", ["pool", "last", "none"])
@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
def test_holes_are_zero_before_every_convolution_and_out_of_the_head(geometry, head):
    model = fresh(head=head, **geometry)
    mask = with_holes(geometry["size"])
    x = torch.randn(3, 2, *geometry["size"])
    result = model(torch.where(mask, x, rubbish(*x.shape)), Grid(mask=mask))
    torch.testing.assert_close(result, by_hand(model, x, mask), **CLOSE)


@pytest.mark.parametrize("head", ["pool", "none"])
def test_holes_in_images(head):
    model = fresh((11, 13), head=head)
    mask = with_holes((11, 13))
    x = torch.randn(3, 2, 11, 13)
    filled = torch.where(mask, x, rubbish(*x.shape))
    result = model(filled, Grid(mask=mask))
    torch.testing.assert_close(result, by_hand(model, x, mask), **CLOSE)
    without_channel_axis = model(filled, Grid(mask=mask[:, 0]))
    assert torch.equal(without_channel_axis, result)


def test_a_signal_with_holes_gets_the_same_in_a_padded_batch():
    model = fresh((24,), causal=True)
    mask = with_holes((24,))
    mask[1, :, 15:] = False  # the second signal is shorter, too
    mask[1, :, 14] = True
    x = torch.randn(3, 2, 24).masked_fill(~mask, math.nan)
    alone = model(x[1:2, :, :15], Grid(mask=mask[1:2, :, :15]))
    torch.testing.assert_close(model(x, Grid(mask=mask))[1:2], alone, **CLOSE)


def test_lengths_are_short_for_a_mask():
    model = fresh((24,))
    x = torch.randn(2, 2, 24)
    mask = torch.arange(24) < torch.tensor([[24], [9]])
    assert torch.equal(model(x, Grid(lengths=[24, 9])), model(x, Grid(mask=mask)))


def test_a_mask_that_hides_nothing_changes_nothing():
    model = fresh((24,))
    x = torch.randn(2, 2, 24)
    everything = Grid(mask=torch.ones(2, 24, dtype=torch.bool))
    torch.testing.assert_close(model(x, everything), model(x), **CLOSE)


def test_the_mask_is_not_ignored():
    model = fresh((24,))
    x = torch.randn(2, 2, 24)
    assert (model(x, Grid(lengths=[24, 9])) - model(x))[1].abs().max() > 1e-2


# --- Symbols -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "filling", [0, 6, -1, 7, -100], ids=lambda filling: f"filled with {filling}"
)
def test_padding_of_symbols_does_not_matter(filling):
    """-1 and -100 are what tokenisers and losses use for "no symbol"."""
    model = CCNN(5, 3, (16,), embedding=7, **TINY).eval()
    symbols = torch.randint(0, 7, (2, 16))
    alone = model(symbols[:1, :9])
    symbols[0, 9:] = filling
    torch.testing.assert_close(model(symbols, Grid(lengths=[9, 16]))[:1], alone, **CLOSE)


# --- Training ------------------------------------------------------------------------------------


def norms(model):
    return [m for m in model.modules() if isinstance(m, BatchNorm)]


def statistics(samples):
    """Return mean and variance (C,) over all positions of all samples (C, *S), and their number."""
    values = torch.cat([x.flatten(start_dim=1) for x in samples], dim=1)  # (C, all positions)
    return values.mean(dim=1), values.var(dim=1, correction=0), values.shape[1]


def train_by_hand(model, samples):
    """Forward in train mode, signal by signal without padding, statistics over all of them.

    Returns the pooled outputs and what each norm should have tracked.
    """
    tracked = []

    def norm(layer, hs):
        mean, var, count = statistics(hs)
        tracked.append((0.1 * mean, 0.9 + 0.1 * var * count / (count - 1)))
        shape = (-1, *(1,) * (hs[0].ndim - 1))
        return [
            (h - mean.view(shape)) / (var + 1e-5).sqrt().view(shape) * layer.weight.view(shape)
            + layer.bias.view(shape)
            for h in hs
        ]

    hs = [model.stem(x[None])[0] for x in samples]
    hs = [F.gelu(h) for h in norm(model.stem_norm, hs)]
    for block in model.blocks:
        branches = [F.gelu(block.conv(h[None])) for h in norm(block.norm, hs)]
        hs = [h + F.gelu(block.linear(b))[0] for h, b in zip(hs, branches, strict=True)]
    pooled = torch.stack([h.flatten(start_dim=1).mean(dim=1) for h in norm(model.norm, hs)])
    return model.output(pooled[..., None])[..., 0], tracked


TRAINED = {
    "1-D causal": ({"size": (24,), "causal": True}, [(17,), (1,), (24,), (30,)]),
    "1-D centred": ({"size": (24,)}, [(17,), (1,), (24,), (30,)]),
    "2-D": ({"size": (7, 9)}, [(7, 9), (2, 9), (7, 1), (5, 12)]),
}


@pytest.mark.parametrize(("arguments", "shapes"), TRAINED.values(), ids=TRAINED)
def test_the_first_norm_tracks_the_mean_of_the_samples_that_exist(arguments, shapes):
    model = CCNN(2, 3, **arguments, **TINY)
    samples = [torch.randn(2, *shape) for shape in shapes]
    mean, var, count = statistics([model.stem(x[None])[0].detach() for x in samples])
    batch, lengths = padded(samples)
    model(batch, Grid(lengths=lengths))
    # float32 sums of some hundred numbers of order one, in another order.
    torch.testing.assert_close(model.stem_norm.running_mean, 0.1 * mean, rtol=1e-5, atol=1e-6)
    unbiased = var * count / (count - 1)
    torch.testing.assert_close(
        model.stem_norm.running_var, 0.9 + 0.1 * unbiased, rtol=1e-5, atol=1e-6
    )
    assert model.stem_norm.num_batches_tracked == 1


@pytest.mark.parametrize(("arguments", "shapes"), TRAINED.values(), ids=TRAINED)
def test_training_on_a_padded_batch_is_training_on_its_samples(arguments, shapes):
    """Outputs, every norm's statistics and every gradient; float64 tells bugs from rounding."""
    model = CCNN(2, 3, **arguments, **TINY).double()
    samples = [torch.randn(2, *shape, dtype=torch.float64) for shape in shapes]
    target = torch.randn(len(samples), 3, dtype=torch.float64)
    expected, tracked = train_by_hand(model, samples)
    (expected - target).square().sum().backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()

    batch, lengths = padded(samples)
    result = model(batch, Grid(lengths=lengths))
    (result - target).square().sum().backward()

    torch.testing.assert_close(result, expected, rtol=1e-9, atol=1e-9)
    for layer, (mean, var) in zip(norms(model), tracked, strict=True):
        torch.testing.assert_close(layer.running_mean, mean, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(layer.running_var, var, rtol=1e-9, atol=1e-9)
    largest = max(g.abs().max() for g in gradients.values())
    for name, p in model.named_parameters():
        # Relative to the largest of all: some, as biases before a norm, are zero but for rounding.
        torch.testing.assert_close(
            p.grad / largest, gradients[name] / largest, rtol=0, atol=1e-9, msg=name
        )


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("head", ["pool", "last", "none"])
@pytest.mark.parametrize("filling", FILLINGS.values(), ids=FILLINGS)
def test_gradients_are_finite_and_nothing_flows_into_the_padding(filling, head, training):
    model = fresh((24,), head=head).train(training)
    batch, lengths = padded([torch.randn(2, n) for n in (17, 5, 24)], filling)
    mask = torch.arange(24) < lengths  # (3, 24)
    batch.requires_grad_()
    model(batch, Grid(lengths=lengths)).square().sum().backward()
    for name, p in model.named_parameters():
        assert p.grad.isfinite().all(), name
    valid = batch.grad.movedim(1, -1)[mask]
    assert valid.isfinite().all()
    assert valid.abs().max() > 0
    assert (batch.grad.movedim(1, -1)[~mask] == 0).all()


@pytest.mark.parametrize("kind", ["channel", "element"])
def test_dropout_and_padding_go_together(kind):
    model = CCNN(2, 3, (24,), dropout=0.5, dropout_in=0.5, dropout_kind=kind, **TINY)
    batch, lengths = padded([torch.randn(2, n) for n in (17, 5, 24)])
    y = model(batch, Grid(lengths=lengths))
    y.sum().backward()
    assert y.isfinite().all()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    assert all(b.isfinite().all() for b in model.buffers())
