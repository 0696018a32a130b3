"""Settings from the shape and number of signals: always valid, never a surprise."""

import itertools

import numpy as np
import pytest
import torch

from ccnn.estimator.augment import AUGMENTS, read_between
from ccnn.estimator.defaults import Facts, choose
from ccnn.estimator.training import build
from ccnn.training.settings import Batching, Optim

SIZES = [(1,), (2,), (3,), (24,), (1460,), (8, 8), (28, 28), (1, 100), (12, 12, 12)]


def facts(**changes):
    return Facts(**({"n": 100, "classes": 3, "channels": 1, "size": (150,)} | changes))


@pytest.mark.parametrize(
    ("n", "classes", "size"),
    list(itertools.product([1, 2, 17, 4000, 55_000], [None, 2], [(1,), (150,), (28, 28)])),
)
def test_settings_are_valid_whatever_the_data(n, classes, size):
    s = choose(facts(n=n, classes=classes, size=size))
    Optim(
        lr=s.lr,
        weight_decay=s.weight_decay,
        mask_lr_ratio=s.mask_lr_ratio,
        label_smoothing=s.label_smoothing,
        mixup=s.mixup,
        aliasing=s.aliasing,
        ema=s.ema,
    )
    Batching(batch_size=s.batch_size, spacings=s.spacings)
    assert 0 <= s.warmup < 1
    assert 0 <= s.patience <= 1
    assert s.steps >= 1
    assert s.augment is None or s.augment in AUGMENTS
    assert 1 <= s.batch_size <= n - round(s.validation * n)


@pytest.mark.parametrize("size", SIZES)
def test_a_network_can_be_built_and_run(size):
    known = facts(size=size)
    model = build(choose(known), known, outputs=3, causal=False, seed=0)
    assert model.eval()(torch.randn(2, 1, *size)).shape == (2, 3)


def test_targets_that_are_numbers_are_not_smoothed():
    assert choose(facts(classes=None)).label_smoothing == 0


def test_more_signals_are_never_trained_with_fewer_steps():
    steps = [choose(facts(n=n)).steps for n in (1, 10, 100, 999, 1000, 2500, 10_000, 10**6)]
    assert steps == sorted(steps)


def test_small_sets_hold_nothing_out():
    assert choose(facts(n=36)).validation == 0
    assert choose(facts(n=4000)).validation == 0
    assert choose(facts(n=40_000)).validation > 0


@pytest.mark.parametrize(
    "changes", [{"unequal": True}, {"positions": True}, {"missing": True}, {"classes": None}]
)
def test_what_a_change_would_spoil_is_not_changed(changes):
    s = choose(facts(**changes))
    assert s.augment is None
    assert s.mixup == 0


def test_rough_series_are_not_read_between_their_samples():
    assert choose(facts(smooth=True)).augment == "warp"
    assert choose(facts(smooth=False)).augment is None


@pytest.mark.parametrize("name", AUGMENTS)
@pytest.mark.parametrize("length", [1, 2, 50])
def test_augmentations_keep_the_shape_and_repeat_with_the_seed(name, length):
    x = torch.randn(5, 2, length)
    torch.manual_seed(0)
    first = AUGMENTS[name](x)
    torch.manual_seed(0)
    assert torch.equal(first, AUGMENTS[name](x))
    assert first.shape == x.shape
    assert not torch.equal(first, x)


@pytest.mark.parametrize("name", AUGMENTS)
def test_augmented_signals_stay_close_to_themselves(name):
    torch.manual_seed(0)
    x = torch.sin(torch.linspace(0, 12, 200)).expand(64, 1, 200)
    y = AUGMENTS[name](x)
    assert np.corrcoef(x.flatten(), y.flatten())[0, 1] > 0.9


def test_reading_between_samples_is_linear_interpolation():
    x = torch.randn(3, 2, 20, dtype=torch.float64)
    position = 30 * torch.rand(3, 40, dtype=torch.float64) - 5
    y = read_between(x, position)
    for b, c in itertools.product(range(3), range(2)):
        expected = np.interp(position[b], np.arange(20), x[b, c])
        np.testing.assert_allclose(y[b, c], expected, rtol=0, atol=1e-12)
