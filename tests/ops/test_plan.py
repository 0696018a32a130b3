"""The rule that picks how to convolve: what it says, and that `convolve` does what it says."""

import pytest
import torch

import ccnn.ops.conv
from ccnn.ops import convolve, plan
from ccnn.ops.direct import Direct

# As measured by benchmarks/crossover.py: the best way, where it is best by a wide margin.
BEST = [
    ((16, 110, 784), (110, 3), False, "direct"),
    ((16, 110, 784), (110, 65), False, "fft"),
    ((16, 110, 784), (110, 783), True, "fft"),
    ((16, 110, 784), (110, 3), True, "direct"),
    ((2, 110, 16000), (110, 1289), False, "fft"),
    ((1, 110, 131072), (110, 129), False, "blocks"),
    ((16, 110, 32, 32), (110, 9, 9), False, "direct"),
    ((16, 110, 32, 32), (110, 15, 15), False, "fft"),
    ((50, 110, 32, 32), (110, 5, 5), True, "direct"),
    ((50, 110, 32, 32), (110, 33, 33), True, "fft"),
    ((1, 110, 24, 24, 24), (110, 3, 3, 3), False, "direct"),
    ((1, 110, 24, 24, 24), (110, 9, 9, 9), True, "fft"),
]


@pytest.mark.parametrize(("signal", "kernel", "training", "best"), BEST)
def test_the_measured_best_is_taken(signal, kernel, training, best):
    chosen = plan(signal, kernel, training=training)
    assert chosen.method == best
    assert chosen.milliseconds[best] == min(chosen.milliseconds.values())
    assert chosen.reason.startswith(best)
    assert all(name in chosen.reason for name in ("direct", "fft", "blocks"))


@pytest.mark.parametrize("kernel", [(4, 3), (4, 200), (5, 4, 3), (5, 4, 200)])
def test_auto_does_what_the_plan_says(kernel, monkeypatch):
    x, k = torch.randn(2, 4, 500), torch.randn(kernel)
    used = []
    for name, engine in ccnn.ops.conv.ENGINES.items():

        class Spy(engine):
            method = name

            def __init__(self, *args, **kwargs):
                used.append(self.method)
                super().__init__(*args, **kwargs)

        monkeypatch.setitem(ccnn.ops.conv.ENGINES, name, Spy)
    k.requires_grad_()
    convolve(x, k)
    assert used[0] == plan(x.shape, k.shape, training=True).method


def test_a_longer_kernel_never_makes_direct_cheaper():
    costs = [
        plan((2, 8, 1000), (8, taps), training=True).milliseconds["direct"]
        for taps in (1, 3, 9, 10, 50, 500)
    ]
    assert costs == sorted(costs)


def test_taps_that_meet_no_sample_cost_nothing():
    """A kernel is cropped to the lags that exist."""
    assert plan((2, 8, 16), (8, 31)) == plan((2, 8, 16), (8, 5001))


def test_direct_is_an_engine_like_the_others():
    x, k = torch.randn(2, 4, 50), torch.randn(4, 7)
    torch.testing.assert_close(Direct(k, (3,), (50,)).apply(x), convolve(x, k, method="fft"))
