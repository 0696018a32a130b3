"""Every class has its share in every part, and no sample is lost or in two of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccnn.tasks.splitting import stratified


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=60),
    st.lists(st.floats(0, 1), min_size=1, max_size=4),
)
def test_parts_are_disjoint_and_fair(labels, fractions):
    labels = np.array(labels)
    counts = [int(f * len(labels) / len(fractions)) for f in fractions]
    parts = stratified(labels, counts)
    assert [len(part) for part in parts] == counts
    together = np.concatenate(parts)
    assert len(set(together.tolist())) == len(together)
    left = np.bincount(labels, minlength=5)  # of each class, for this part and those behind it
    for part in parts:
        each = np.bincount(labels[part], minlength=5)
        assert abs(each - left * len(part) / max(left.sum(), 1)).max() < 1 + 1e-9
        left = left - each


def test_a_split_repeats_and_leaves_numpys_numbers_alone():
    labels = np.arange(90) % 3
    np.random.seed(3)
    first = stratified(labels, (60, 30))
    drawn = np.random.rand()
    np.random.seed(3)
    assert np.random.rand() == drawn
    for one, two in zip(first, stratified(labels, (60, 30)), strict=True):
        np.testing.assert_array_equal(one, two)
    assert len(set(labels[first[0][:20]])) == 3  # mixed, for those who take the first few


def test_more_than_there_is_is_refused():
    with pytest.raises(ValueError, match="4 samples are asked for, and there are 3"):
        stratified(np.zeros(3, int), (2, 2))
