"""The learning rate as a function of the step: warm-up, then a cosine."""

import math


def warmup_cosine(step: int, *, total: int, warmup: int) -> float:
    """Return what the peak learning rate is multiplied by at a step, counted from 0.

    (t + 1)/W for t < W, then ½ (1 + cos(π (t - W)/(T - W))).

    App. B.2 of the paper. The largest value is exactly 1; neither the first nor the last step
    is wasted with a rate of zero.

    Parameters
    ----------
    step
        t, the number of optimiser steps done before this one.
    total
        T, the steps of the whole run.
    warmup
        W.
    """
    if step < warmup:
        return (step + 1) / warmup
    done = (step - warmup) / max(total - warmup, 1)
    return 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))


def warmup_steps(*, total: int, warmup_epochs: float, epochs: int) -> int:
    """Return W for a run of ``total`` steps: the share that the recipe warms up."""
    return round(total * warmup_epochs / epochs)
