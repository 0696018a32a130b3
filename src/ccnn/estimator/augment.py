"""Random changes of training signals, by name.

Their random numbers are torch's own, on the CPU, so that a seeded run repeats bit for bit.
"""

from collections.abc import Callable

from torch import Tensor

# What `Settings.augment` may name: functions of a batch, (B, C, *S) -> (B, C, *S).
AUGMENTS: dict[str, Callable[[Tensor], Tensor]] = {}
