"""What a network is fed: limited, balanced, symbols as numbers."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ccnn.tasks.feeding import balanced_weights, feed
from ccnn.tasks.task import Samples, Splits


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60))
def test_balanced_classes_have_equal_sums(classes):
    y = torch.tensor(classes)
    weights = balanced_weights(y)
    sums = [float(weights[y == c].sum()) for c in set(classes)]
    assert sums == pytest.approx([len(classes) / len(sums)] * len(sums), rel=1e-5)


@pytest.mark.parametrize("y", [torch.rand(4), torch.zeros(4, 7, dtype=torch.long)])
def test_what_is_no_class_cannot_be_balanced(y):
    with pytest.raises(ValueError, match=r"data.balance"):
        balanced_weights(y)


def test_only_training_is_limited_and_balanced():
    y = torch.tensor([0, 0, 0, 1, 1, 1])
    part = Samples(torch.randn(6, 1, 5), y)
    fed = feed(Splits(part, part, part), 1, embedded=False, limit=4, balance=True)
    torch.testing.assert_close(fed.train.weights, torch.tensor([2 / 3, 2 / 3, 2 / 3, 2.0]))
    assert fed.val.weights is None
    assert fed.test.weights is None
    assert len(fed.val) == 6
