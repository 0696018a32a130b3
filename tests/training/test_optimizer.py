"""Parameter groups: what decays, and the windows' own learning rate."""

import pytest
import torch

from ccnn.models import CCNN
from ccnn.training.optimizer import make_optimizer, parameter_groups, set_rate
from ccnn.training.settings import Optim


@pytest.fixture
def model() -> CCNN:
    return CCNN(3, 5, (16,), blocks=2, channels=4, kernel_channels=4, embedding=7)


def names_of(model: CCNN, parameters) -> set[str]:
    names = {id(p): name for name, p in model.named_parameters()}
    return {names[id(p)] for p in parameters}


def test_groups_hold_every_parameter_once(model):
    groups = {g["name"]: names_of(model, g["params"]) for g in parameter_groups(model, Optim())}
    assert groups["masks"] == {
        "stem.mask.sigma",
        "blocks.0.conv.mask.sigma",
        "blocks.1.conv.mask.sigma",
    }
    assert groups["decay"] == {
        "embedding.weight",
        "stem.mix.weight",
        "output.weight",
        *(f"blocks.{i}.{part}.weight" for i in (0, 1) for part in ("conv.mix", "linear")),
    }
    everything = {name for name, _ in model.named_parameters()}
    assert groups["plain"] == everything - groups["masks"] - groups["decay"]


def test_only_weights_decay_and_by_lr_times_decay(model):
    optimizer = make_optimizer(model, Optim(lr=0.1, weight_decay=0.5))
    set_rate(optimizer, 1.0)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    decaying = names_of(model, optimizer.param_groups[0]["params"])
    for name, p in model.named_parameters():
        # Adam itself does not move without a gradient.
        factor = 1 - 0.1 * 0.5 if name in decaying else 1.0
        torch.testing.assert_close(p.detach(), before[name] * factor, msg=name)


def test_authors_decay_leaves_the_optimiser_without(model):
    groups = parameter_groups(model, Optim(weight_decay=0.5, decay="authors"))
    assert {g["weight_decay"] for g in groups} == {0.0}


def test_masks_learn_at_their_own_rate(model):
    optimizer = make_optimizer(model, Optim(lr=0.1, mask_lr_ratio=0.1))
    set_rate(optimizer, 0.5)
    sigma = model.stem.mask.sigma
    bias = model.output.bias
    before = sigma.detach().clone(), bias.detach().clone()
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    optimizer.step()
    # The first step of Adam is as long as its learning rate.
    torch.testing.assert_close(before[0] - sigma.detach(), torch.full_like(sigma, 0.005))
    torch.testing.assert_close(before[1] - bias.detach(), torch.full_like(bias, 0.05))
