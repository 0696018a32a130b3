"""The FlexNet is the published network for images: its sizes, its widths, its arithmetic."""

import pytest
import torch
import torch.nn.functional as F

from ccnn import create_model
from ccnn.models import FlexNet
from ccnn.models.flexnet import block_widths

TINY = {"blocks": 3, "channels": 4, "kernel_channels": 4}


def test_it_has_the_published_number_of_parameters():
    model = create_model("flexnet", in_channels=3, out_channels=10, size=(9, 9))
    assert sum(p.numel() for p in model.parameters()) == 671_650


@pytest.mark.parametrize(
    ("blocks", "channels", "widths"),
    [
        (7, 24, [24, 24, 36, 36, 36, 48, 48]),  # facts 10.2
        (5, 22, [22, 33, 33, 44, 44]),
        (3, 4, [4, 6, 8]),
        (1, 10, [15]),
    ],
)
def test_the_width_grows_in_thirds(blocks, channels, widths):
    assert block_widths(blocks, channels) == widths


def slow_norm(norm, h):
    shape = (-1, 1, 1)
    mean, var = norm.running_mean.view(shape), norm.running_var.view(shape)
    return (h - mean) / (var + 1e-5).sqrt() * norm.weight.view(shape) + norm.bias.view(shape)


def slow_conv(conv, h):
    kernel = conv.sampled_kernel()  # tests/nn compare it with the formula
    return F.conv2d(h, kernel, conv.bias, padding=tuple(n // 2 for n in kernel.shape[2:]))


def slow_network(model, x):
    x = F.relu(slow_norm(model.stem_norm, slow_conv(model.stem, x)))
    for block in model.blocks:
        h = F.relu(slow_norm(block.norm1, slow_conv(block.conv1, x)))
        h = slow_norm(block.norm2, slow_conv(block.conv2, h))
        short = block.shortcut
        if short is not None:
            x = F.conv2d(x, short.weight[..., None, None], short.bias)
        x = F.relu(h + x)
    return x.mean(dim=(2, 3)) @ model.output.weight.T + model.output.bias


def test_forward_is_the_published_network():
    model = FlexNet(2, 3, (8, 10), mask_sigma=0.4, **TINY).double()
    model(torch.randn(4, 2, 8, 10, dtype=torch.float64))  # statistics that are not 0 and 1
    for p in model.parameters():
        p.data.add_(0.05 * torch.randn_like(p))
    x = torch.randn(3, 2, 8, 10, dtype=torch.float64)
    torch.testing.assert_close(model.eval()(x), slow_network(model, x))


def test_dropout_is_inside_of_the_blocks_only():
    """One dropout, before the second convolution: where that is zero, nothing is random."""
    model = FlexNet(1, 2, (6, 6), dropout=0.5, **TINY)
    block = model.blocks[0].train()
    x = torch.randn(2, 4, 6, 6)
    assert not torch.equal(block(x), block(x))
    block.conv2.kernel.output.weight.data.zero_()
    block.conv2.kernel.output.bias.data.zero_()
    assert torch.equal(block(x), block(x))


@pytest.mark.parametrize("size", [(12,), (5, 6), (4, 4, 5)], ids=str)
def test_one_class_serves_every_dimension(size):
    model = FlexNet(1, 3, size, **TINY)
    assert model(torch.randn(2, 1, *size)).shape == (2, 3)
    assert model.convolutions()[0].mask.mean.shape == (len(size),)
