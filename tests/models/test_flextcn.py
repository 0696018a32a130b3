"""The FlexTCN is the published network: its sizes, its arithmetic, its window that may move."""

import pytest
import torch
import torch.nn.functional as F

from ccnn import create_model
from ccnn.models import FlexTCN


@pytest.mark.parametrize(("channels", "count"), [(1, 373_324), (3, 375_364)])
def test_it_has_the_published_number_of_parameters(channels, count):
    model = create_model("flextcn_6", in_channels=channels, out_channels=10, size=(64,))
    assert sum(p.numel() for p in model.parameters()) == count


def slow_kernel(conv):
    """Facts 10.2: a MAGNet on linspace(-1, 1), times a window around its mean; (C_out, C_in, K)."""
    net, mask = conv.kernel, conv.mask
    c = torch.linspace(-1, 1, conv.kernel_size[0], dtype=torch.float64)[:, None]

    def gabor(g):
        window = torch.exp(-0.5 * (g.gamma[:, 0] * (c - g.centre[:, 0])) ** 2)
        return window * torch.sin(c * g.weight[:, 0] + g.bias)

    h = gabor(net.filters[0])
    for layer, g in zip(net.hidden, list(net.filters)[1:], strict=True):
        h = gabor(g) * F.linear(h, layer.weight, layer.bias)
    values = F.linear(h, net.output.weight, net.output.bias)  # (K, C_out · C_in)
    window = torch.exp(-0.5 * ((c - 1 - mask.mean) / mask.sigma) ** 2)
    step = 2 / (conv.kernel_size[0] - 1)
    kept = (window >= 0.1) | ((c - 1).abs() <= step * 1.0001)  # a neighbour is never cut
    return (values * window * kept).T.reshape(conv.out_channels, conv.in_channels, -1)


def slow_network(model, x):
    for block in model.blocks:
        h = x
        for conv, norm in ((block.conv1, block.norm1), (block.conv2, block.norm2)):
            h = F.conv1d(F.pad(h, (conv.kernel_size[0] - 1, 0)), slow_kernel(conv), conv.bias)
            mean, var = norm.running_mean[:, None], norm.running_var[:, None]
            h = (h - mean) / (var + 1e-5).sqrt() * norm.weight[:, None] + norm.bias[:, None]
            h = F.relu(h)
        short = block.shortcut
        x = F.relu(h + (x if short is None else F.conv1d(x, short.weight[..., None], short.bias)))
    return x[..., -1] @ model.output.weight.T + model.output.bias


def test_forward_is_the_published_network():
    model = FlexTCN(2, 3, (21,), blocks=2, channels=4, kernel_channels=4, mask_sigma=0.3).double()
    model(torch.randn(4, 2, 21, dtype=torch.float64))  # statistics that are not 0 and 1
    for p in model.parameters():
        p.data.add_(0.05 * torch.randn_like(p))  # the means of the windows included
    x = torch.randn(3, 2, 21, dtype=torch.float64)
    torch.testing.assert_close(model.eval()(x), slow_network(model, x))


def test_the_middle_of_the_window_is_learned():
    model = FlexTCN(1, 2, (32,), blocks=1, channels=6, mask_sigma=0.3, head="none")
    model(torch.randn(4, 1, 32)).square().sum().backward()
    for conv in model.convolutions():
        assert isinstance(conv.mask.mean, torch.nn.Parameter)
        assert conv.mask.mean.grad.abs().sum() > 0


def test_as_the_authors_phases_and_centres_spread_over_the_kernel():
    """Facts 10.2: phases U(±π), centres U(±1) even where causal, torch's own linear layers."""
    model = FlexTCN(1, 2, (32,), blocks=1, channels=8, init="authors", omega_0=2.0)
    net = model.blocks[0].conv2.kernel
    for g in net.filters:
        assert g.centre.min() < -0.7
        assert g.centre.max() > 0.7
        assert 2.5 < g.bias.abs().max() <= 3.1416
    for layer in (*net.hidden, net.output):
        bound = layer.in_features**-0.5
        assert 0.8 * bound < layer.weight.abs().max() <= bound
        assert 0.5 * bound < layer.bias.abs().max() <= bound


def test_no_output_before_a_change_moves():
    """The norms are over the batch, so in evaluation the whole network is causal."""
    model = FlexTCN(1, 2, (30,), blocks=2, channels=3, head="none").eval()
    x = torch.randn(2, 1, 30)
    changed = torch.cat([x[..., :17], torch.randn(2, 1, 13)], dim=-1)
    torch.testing.assert_close(model(changed)[..., :17], model(x)[..., :17])


def test_images_are_refused_by_name():
    with pytest.raises(ValueError, match=r"FlexTCN reads sequences .* \(32, 32\) has 2 axes"):
        FlexTCN(3, 10, (32, 32))
