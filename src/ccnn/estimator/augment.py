"""Random changes of training signals, by name.

Their random numbers are torch's own, on the CPU, so that a seeded run repeats bit for bit.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

# How far a warped clock runs ahead or behind, how many waves it has, and how far it may start off.
_RATE, _WAVES, _START = 0.1, 4, 0.03
# The standard deviation of the loudness.
_LOUDNESS = 0.1


def warp_and_scale(x: Tensor) -> Tensor:
    """Let the clock of each signal run unevenly, and change its loudness.

    The sample at share u of the signal is read at u + Σ_k a_k sin(π k u) / (π k) + b, with normal
    a_k and uniform b, between its two neighbours; outside, the signal goes on as it ends.

    Shapes
    ------
    x : (B, C, S)
    result : (B, C, S)
    """
    batch, _, n = x.shape
    u = torch.linspace(0, 1, n, dtype=torch.float32)
    k = torch.arange(1, _WAVES + 1, dtype=torch.float32)
    waves = torch.sin(math.pi * k[:, None] * u) / (math.pi * k[:, None])  # (waves, S)
    rates = torch.randn(batch, _WAVES) * _RATE / _WAVES
    starts = (2 * torch.rand(batch, 1) - 1) * _START
    loudness = 1 + _LOUDNESS * torch.randn(batch, 1, 1)
    position = (u + rates @ waves + starts) * (n - 1)  # (B, S)
    return read_between(x, position.to(x.device)) * loudness.to(x)


def read_between(x: Tensor, position: Tensor) -> Tensor:
    """Return signals at other positions, on straight lines between the samples.

    Shapes
    ------
    x : (B, C, S)
    position : (B, M), in samples; those outside are the border's
    result : (B, C, M)
    """
    last = x.shape[-1] - 1
    position = position.clamp(0, last)
    left = position.floor().long()
    weight = (position - left).unsqueeze(1).to(x.dtype)
    shape = (-1, x.shape[1], -1)
    before = x.gather(-1, left.unsqueeze(1).expand(shape))
    after = x.gather(-1, (left + 1).clamp(max=last).unsqueeze(1).expand(shape))
    return torch.lerp(before, after, weight)


# What `Settings.augment` may name: functions of a batch, (B, C, *S) -> (B, C, *S).
AUGMENTS: dict[str, Callable[[Tensor], Tensor]] = {"warp": warp_and_scale}
