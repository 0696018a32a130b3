"""How much memory does a training step take, and does it stay there?

    python benchmarks/memory.py [--lengths 16384,65536,262144] [--out FOLDER]

Peak resident memory, above that of the imports, of forward and backward of 4 × 110 channels on
one causal signal, with and without ``checkpoint=True``, each in a process of its own; and the
peak after 5 and after 50 steps of a shorter one.
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


def train(length: int, checkpoint: bool, steps: int) -> dict[str, float]:
    """Run in a process of its own; return peaks after the fifth and the last step."""
    before = peak_megabytes()
    model = ccnn.create_model(
        "ccnn_4_110",
        in_channels=1,
        out_channels=10,
        size=(length,),
        causal=True,
        checkpoint=checkpoint,
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x, y = torch.randn(1, 1, length), torch.tensor([3])
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


def in_a_process(length: int, checkpoint: bool, steps: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--one", json.dumps([length, checkpoint, steps])]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", default="16384,65536,262144")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(train(*json.loads(args.one))))
        return
    rows: list[dict[str, object]] = []
    for length in map(int, args.lengths.split(",")):
        for checkpoint in (False, True):
            found = in_a_process(length, checkpoint, steps=1)
            rows.append(
                {
                    "length": length,
                    "checkpoint": checkpoint,
                    "peak MB": round(found["peak"]),
                    "seconds": round(found["seconds"], 2),
                }
            )
            print(*[f"{k}={v}" for k, v in rows[-1].items()], flush=True)
    creep = in_a_process(4096, False, steps=50)
    print(f"after 5 steps {creep['early']:.0f} MB, after 50 {creep['peak']:.0f} MB")
    rows.append({"length": 4096, "checkpoint": False, "peak MB": round(creep["peak"])})
    write_csv(args.out / "memory.csv", rows)


if __name__ == "__main__":
    main()
