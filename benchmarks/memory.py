"""How much memory does a training step take, and does it stay there?

    python benchmarks/memory.py [--lengths 16000,64000,256000,1000000] [--out FOLDER]

Peak resident memory, above that of the imports, of a training step of 4 × 110 channels on one
causal signal, with and without ``checkpoint=True`` (beyond 256,000 only with), and of 4 × 64
channels on a volume of 64³ with kernels of 33³, each in a process of its own; and the peak after 5
and after 50 steps of a shorter one.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch
from timing import write_csv

import ccnn


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# The most samples that are tried without checkpoint=True.
PLAIN = 256_000


def train(size: list[int], checkpoint: bool, steps: int) -> dict[str, float]:
    """Run in a process of its own; return peaks after the fifth and the last step."""
    before = peak_megabytes()
    sequence = len(size) == 1
    model = ccnn.CCNN(
        1,
        10,
        size,
        channels=110 if sequence else 64,
        causal=sequence,
        kernel_size="same" if sequence else (33,) * len(size),
        mask_sigma=0.075 if sequence else 2.0,
        checkpoint=checkpoint,
    )
    # No learning: windows that grow take more memory, and that is not what is looked for.
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)
    x, y = torch.randn(1, 1, *size), torch.tensor([3])
    early = 0.0
    start = time.perf_counter()
    for step in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        if step == 4:
            early = peak_megabytes() - before
    seconds = (time.perf_counter() - start) / steps
    return {"early": early, "peak": peak_megabytes() - before, "seconds": seconds}


def in_a_process(size: list[int], checkpoint: bool, steps: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--one", json.dumps([size, checkpoint, steps])]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", default="16000,64000,256000,1000000")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(train(*json.loads(args.one))))
        return
    sizes = [[int(n)] for n in args.lengths.split(",")]
    runs = [(s, c) for s in sizes for c in ((False, True) if s[0] <= PLAIN else (True,))]
    rows: list[dict[str, object]] = []
    for size, checkpoint in [*runs, ([64, 64, 64], False), ([64, 64, 64], True)]:
        found = in_a_process(size, checkpoint, steps=1)
        rows.append(
            {
                "size": "×".join(map(str, size)),
                "checkpoint": checkpoint,
                "peak MB": round(found["peak"]),
                "seconds": round(found["seconds"], 2),
            }
        )
        print(*[f"{k}={v}" for k, v in rows[-1].items()], flush=True)
    creep = in_a_process([4000], False, steps=50)
    growth = creep["peak"] / creep["early"] - 1
    print(f"after 5 steps {creep['early']:.0f} MB, after 50 {creep['peak']:.0f} MB: {growth:+.1%}")
    rows.append({"size": "4000", "checkpoint": False, "peak MB": round(creep["peak"])})
    write_csv(args.out / "memory.csv", rows)


if __name__ == "__main__":
    main()
