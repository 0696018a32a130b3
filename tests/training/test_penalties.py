"""The authors' norms and FlexConv's anti-aliasing, against formulas written out."""

import math

import pytest
import torch

from ccnn.models import CCNN
from ccnn.nn import SIREN, SeparableFlexConv
from ccnn.training.penalties import aliasing, authors_norms


def test_authors_norms_are_those_of_the_formula():
    model = CCNN(2, 3, (9, 9), blocks=2, channels=4, kernel_channels=4).double()
    expected = 0.0
    for name, p in model.named_parameters():
        if ".kernel." not in name:  # as the authors choose: by name
            expected += math.sqrt(sum(v * v for v in p.flatten().tolist()))
    for conv in model.convolutions():
        expected += math.sqrt(sum(v * v for v in conv.sampled_kernel().flatten().tolist()))
    assert authors_norms(model).item() == pytest.approx(expected, rel=1e-12)


def test_authors_norms_pull_kernel_networks_only_through_kernels():
    model = CCNN(1, 2, (16,), blocks=1, channels=4, kernel_channels=4)
    authors_norms(model).backward()
    for name, p in model.named_parameters():
        assert torch.isfinite(p.grad).all(), name  # zero biases included
    weight = model.output.weight
    torch.testing.assert_close(weight.grad, weight.detach() / weight.detach().norm())
    assert model.stem.kernel.filters[0].weight.grad.abs().sum() > 0


def test_aliasing_is_that_of_the_formula():
    conv = SeparableFlexConv(2, 2, size=(9, 17))
    with torch.no_grad():
        for g in conv.kernel.filters:
            g.weight.mul_(20)
    n, expected = len(conv.kernel.filters), 0.0
    for g in conv.kernel.filters:
        worst = max(
            (abs(g.weight[j, d].item()) + 2 * abs(g.gamma[j, d].item())) / (2 * math.pi)
            + 2 / (2 * math.pi * conv.mask.sigma[d].item()) / n
            - (conv.kernel_size[d] - 1) / 4 / n
            for j in range(len(g.weight))
            for d in range(2)
        )
        expected += max(worst, 0.0) ** 2
    assert expected > 0
    assert aliasing(conv).item() == pytest.approx(expected, rel=1e-5)


def test_aliasing_of_a_smooth_kernel_is_zero_and_of_a_fast_one_falls():
    conv = SeparableFlexConv(1, 1, size=(101,))
    with torch.no_grad():
        conv.mask.sigma.fill_(1.0)
        for g in conv.kernel.filters:
            g.weight.zero_()
            g.gamma.fill_(1.0)
    assert aliasing(conv) == 0
    with torch.no_grad():
        conv.kernel.filters[0].weight.fill_(1000.0)
    before = aliasing(conv)
    before.backward()
    with torch.no_grad():
        conv.kernel.filters[0].weight -= 0.1 * conv.kernel.filters[0].weight.grad
    assert 0 < aliasing(conv) < before


def test_networks_without_filters_count_nothing():
    conv = SeparableFlexConv(2, 2, size=(9,), kernel=SIREN(1, 2))
    assert aliasing(conv) == 0
