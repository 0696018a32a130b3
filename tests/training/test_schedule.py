"""Warm-up and cosine."""

import pytest

from ccnn.training.schedule import warmup_cosine, warmup_steps


@pytest.mark.parametrize(("total", "warmup"), [(210, 10), (60, 10), (7, 0), (5, 5), (1, 0), (1, 1)])
def test_peak_is_exactly_one_and_no_step_is_wasted(total, warmup):
    factors = [warmup_cosine(t, total=total, warmup=warmup) for t in range(total)]
    assert max(factors) == 1.0
    assert min(factors) > 0.0
    rising, falling = factors[:warmup], factors[warmup:]
    assert rising == sorted(rising)
    assert falling == sorted(falling, reverse=True)
    assert warmup_cosine(total, total=total, warmup=warmup) in (0.0, 1.0)


def test_warmup_is_linear():
    assert [warmup_cosine(t, total=100, warmup=4) for t in range(4)] == [0.25, 0.5, 0.75, 1.0]


def test_shorter_run_keeps_the_shape():
    assert warmup_steps(total=1100 * 60, warmup_epochs=10, epochs=60) == 11000
    assert warmup_steps(total=1100 * 6, warmup_epochs=10, epochs=60) == 1100
    long = [warmup_cosine(t, total=600, warmup=100) for t in range(0, 600, 100)]
    short = [warmup_cosine(t, total=6000, warmup=1000) for t in range(0, 6000, 1000)]
    assert long[1:] == pytest.approx(short[1:])
