"""How many images and expressions do the generators make in a second, on one core?

    python benchmarks/generators.py

Tables that are made once in a process are not counted. Time is that of the processor, so that what
else the machine does matters little; the fastest of several rounds counts.
"""

import time
from collections.abc import Callable

import numpy as np

from ccnn.tasks.listops_generate import expressions
from ccnn.tasks.pathfinder_dashes import PATHFINDER_32, PATHFINDER_128
from ccnn.tasks.pathfinder_generate import images

ROUNDS = 2


def rate(make: Callable[[int, np.random.Generator], object], count: int) -> float:
    """Return how many are made in a second."""
    make(2, np.random.default_rng(0))
    seconds = []
    for seed in range(ROUNDS):
        rng = np.random.default_rng(seed)
        begin = time.process_time()
        make(count, rng)
        seconds.append(time.process_time() - begin)
    return count / min(seconds)


def main() -> None:
    rows = [
        ("Pathfinder 32 x 32", rate(lambda n, rng: images(n, rng, PATHFINDER_32), 500)),
        ("Pathfinder 128 x 128", rate(lambda n, rng: images(n, rng, PATHFINDER_128), 50)),
        ("ListOps", rate(expressions, 1000)),
    ]
    for name, value in rows:
        print(f"{name:22}{value:8,.0f} a second")


if __name__ == "__main__":
    main()
