"""Mixup: sums of two signals, and the same sum of their losses."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

import ccnn
from ccnn.tasks.task import Samples
from ccnn.training.data import Batch
from ccnn.training.losses import LOSSES
from ccnn.training.mixing import check_mixing, mix
from ccnn.training.module import Training
from ccnn.training.settings import Batching, Optim


@given(n=st.integers(1, 9), alpha=st.floats(0.05, 5), seed=st.integers(0, 99))
def test_each_signal_is_the_sum_that_its_targets_say(n, alpha, seed):
    torch.manual_seed(seed)
    x = torch.randn(n, 2, 7)
    lengths, weights = torch.randint(1, 8, (n, 1)), torch.rand(n)
    batch = Batch(x, torch.arange(n), lengths=lengths, weights=weights)
    mixed, partners = mix(batch, alpha)
    other = partners.y  # each signal's number is its target
    assert 0 <= partners.share <= 1
    assert sorted(other.tolist()) == list(range(n))
    expected = partners.share * x + (1 - partners.share) * x[other]
    torch.testing.assert_close(mixed.x, expected, rtol=1e-5, atol=1e-6)
    assert torch.equal(mixed.y, batch.y)
    assert torch.equal(mixed.lengths, torch.maximum(lengths, lengths[other]))
    assert torch.equal(partners.weights, weights[other])


def test_a_step_is_a_step_towards_the_shares():
    """Judge: cross-entropy with a target that is partly one class and partly the other."""
    torch.manual_seed(0)
    model = ccnn.CCNN(1, 3, (16,), blocks=1, channels=4)
    x, y = torch.randn(8, 1, 16), torch.arange(8) % 3
    training = Training(
        model,
        optim=Optim(mixup=0.5, epochs=1, warmup_epochs=0),
        batching=Batching(batch_size=8),
        loss=LOSSES["cross_entropy"],
        train=Samples(x, y),
        val=None,
        seed=0,
        epochs=1,
    )
    state = torch.get_rng_state()
    loss = training.training_step(Batch(x, y), 0)
    torch.set_rng_state(state)
    mixed, partners = mix(Batch(x, y), 0.5)
    share = partners.share
    wanted = share * F.one_hot(y, 3) + (1 - share) * F.one_hot(partners.y, 3)
    torch.testing.assert_close(loss, F.cross_entropy(model(mixed.x), wanted))


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (Samples(torch.zeros(2, 5, dtype=torch.long), torch.zeros(2)), "symbols"),
        (
            Samples(torch.zeros(2, 1, 5), torch.zeros(2), mask=torch.ones(2, 1, 5).bool()),
            "missing",
        ),
        (Samples(torch.zeros(2, 1, 5), torch.zeros(2), positions=torch.zeros(2, 5, 1)), "missing"),
    ],
)
def test_what_has_no_sum_is_refused(samples, message):
    with pytest.raises(ValueError, match=rf"optim.mixup.*{message}"):
        check_mixing(samples)
