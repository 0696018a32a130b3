"""Batches: every order from seed and epoch, resumable anywhere, shared out to processes."""

import pytest
import torch

from ccnn.tasks.task import Samples
from ccnn.training.data import EvaluationBatches, TrainingBatches, epoch_order
from ccnn.training.settings import Batching


def samples(n: int) -> Samples:
    return Samples(x=torch.arange(n), y=torch.arange(n), lengths=torch.arange(n))


def drawn(n: int, batching: Batching, **where) -> list[list[int]]:
    return [b.x.tolist() for b in TrainingBatches(samples(n), batching, **where)]


def test_order_is_a_function_of_seed_and_epoch():
    orders = {(s, e): tuple(epoch_order(20, s, e).tolist()) for s in range(3) for e in range(3)}
    assert len(set(orders.values())) == 9
    assert all(sorted(order) == list(range(20)) for order in orders.values())
    assert tuple(epoch_order(20, 1, 2).tolist()) == orders[1, 2]


def test_epoch_can_be_entered_at_any_batch():
    batching = Batching(batch_size=6, accumulate=2)
    whole = drawn(40, batching, seed=0, epoch=3)
    assert len(whole) == 12  # 40 // 6 steps of two; four samples are left over
    for start in range(12):
        rest = TrainingBatches(samples(40), batching, seed=0, epoch=3, start=start)
        assert [b.x.tolist() for b in rest] == whole[start:]
        assert len(rest) == 12 - start


def test_processes_share_out_the_larger_batch():
    one = drawn(50, Batching(batch_size=12), seed=5, epoch=1)
    three = [
        drawn(50, Batching(batch_size=4, accumulate=2), seed=5, epoch=1, rank=r, world=3)
        for r in range(3)
    ]
    for step, batch in enumerate(one):
        parts = [i for r in range(3) for half in range(2) for i in three[r][2 * step + half]]
        assert parts == batch


@pytest.mark.parametrize(("n", "world"), [(10, 1), (10, 3), (9, 4), (8, 2)])
def test_evaluation_sees_every_sample_once_in_equally_many_batches(n, world):
    shares = [list(EvaluationBatches(samples(n), 2, rank=r, world=world)) for r in range(world)]
    assert len({len(share) for share in shares}) == 1
    seen = [i for share in shares for batch in share for i in batch.x.tolist()]
    assert sorted(seen) == list(range(n))


def test_too_few_samples_say_what_to_do():
    with pytest.raises(ValueError, match=r"only 7 training samples; use data\.batch_size=7"):
        len(TrainingBatches(samples(7), Batching(batch_size=8), seed=0, epoch=0))


def test_parts_of_a_batch_are_equal():
    with pytest.raises(ValueError, match=r"data\.accumulate=3"):
        Batching(batch_size=8, accumulate=3)
