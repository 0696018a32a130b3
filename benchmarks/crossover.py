"""Which way to convolve is fastest where, and does the rule of `ccnn.ops.plan` know it?

    python benchmarks/crossover.py [--out FOLDER]

Every way runs in turn on a grid of signals and kernels, 110 channels, forward alone and with both
gradients. The last column is what ``method="auto"`` costs relative to the best of them.
"""

import argparse
from pathlib import Path

import torch
from timing import interleaved, keep_freed_memory, write_csv

from ccnn.ops import convolve, plan

CHANNELS = 110
CASES = [
    (batch, (side,) * dim, (taps,) * dim)
    for dim, batch, side, kernels in [
        (1, 16, 784, (3, 9, 17, 33, 65, 129, 783)),
        (1, 2, 16000, (3, 9, 33, 129, 1289, 15999)),
        (1, 1, 131072, (9, 129, 1025)),
        (2, 16, 32, (3, 5, 7, 9, 15, 33)),
        (2, 4, 96, (3, 5, 7, 9, 15, 33)),
        (2, 1, 256, (5, 15, 33)),
        (3, 1, 24, (3, 5, 9)),
    ]
    for taps in kernels
]
# A direct convolution with more work than this takes minutes and never wins.
MOST_DIRECT = 3e10


def run(x: torch.Tensor, kernel: torch.Tensor, method: str, training: bool):
    def forward() -> None:
        with torch.no_grad():
            convolve(x, kernel, method=method)

    def step() -> None:
        y = convolve(x, kernel, method=method)
        torch.autograd.grad(y, (x, kernel), y.detach())

    return step if training else forward


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    args = parser.parse_args()
    keep_freed_memory()
    rows: list[dict[str, object]] = []
    for training in (False, True):
        for batch, size, taps in CASES:
            x = torch.randn(batch, CHANNELS, *size, requires_grad=training)
            kernel = torch.randn(CHANNELS, *taps, requires_grad=training)
            work = x.numel() * kernel[0].numel()
            methods = ["fft", "blocks"] + (["direct"] if work < MOST_DIRECT else [])
            times = interleaved(
                {m: run(x, kernel, m, training) for m in methods}, rounds=args.rounds
            )
            chosen = plan(x.shape, kernel.shape, training=training)
            best = min(times, key=lambda m: times[m])
            row = {
                "training": training,
                "signal": "×".join(map(str, size)),
                "batch": batch,
                "taps": taps[0],
                **{f"{m} ms": round(1e3 * t, 2) for m, t in times.items()},
                "best": best,
                "auto": chosen.method,
                "auto ÷ best": round(times.get(chosen.method, float("inf")) / times[best], 2),
                "expected": chosen.reason,
            }
            rows.append(row)
            print(*[f"{k}={v}" for k, v in row.items()], flush=True)
    write_csv(args.out / "crossover.csv", rows)


if __name__ == "__main__":
    main()
