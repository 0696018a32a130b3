"""How do time and memory grow with the size of the signal?

    python benchmarks/scaling.py [--short] [--out FOLDER]

Forward and backward of 4 blocks, batch 1, with a window that covers a fixed fraction of the
signal: sequences of 1,000 to 1,000,000 (causal, 110 channels, ``checkpoint=True``), images of 32²
to 512² (64 channels), volumes of 16³ to 64³ (32 channels). Every size runs in a process of its
own, which gives its peak memory; the exponent p of time ~ samples^p is fitted by least squares.
"""

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch
from timing import write_csv

import ccnn
from ccnn.allocator import keep_freed_memory

LENGTHS = [1_000, 4_000, 16_000, 64_000, 256_000, 1_000_000]
FAMILIES: dict[str, tuple[int, list[tuple[int, ...]]]] = {
    "1-D": (110, [(n,) for n in LENGTHS]),
    "2-D": (64, [(n, n) for n in (32, 64, 128, 256, 512)]),
    "3-D": (32, [(n, n, n) for n in (16, 24, 32, 48, 64)]),
}
# The exponent of 1-D is fitted from here on, where fixed costs no longer count.
FIT_FROM = 16_000


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run(channels: int, size: tuple[int, ...]) -> dict[str, float]:
    """Train in this process; return the shortest time of a step, and the peak memory."""
    keep_freed_memory()
    before = peak_megabytes()
    torch.manual_seed(0)
    model = ccnn.CCNN(
        1, 10, size, channels=channels, causal=len(size) == 1, mask_sigma=0.075, checkpoint=True
    )
    x, y = torch.randn(1, 1, *size), torch.tensor([3])
    times = []
    for _ in range(2 if math.prod(size) > 300_000 else 4):
        begin = time.perf_counter()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        times.append(time.perf_counter() - begin)
    return {"seconds": min(times), "megabytes": peak_megabytes() - before}


def exponent(rows: list[dict[str, object]]) -> float:
    """Return the slope of log time over log samples."""
    points = torch.tensor([[math.log(r["samples"]), math.log(r["seconds"])] for r in rows])
    x, y = (points - points.mean(dim=0)).T
    return float(x @ y / (x @ x))


def plot(rows: list[dict[str, object]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for ax, key in zip(axes, ("seconds", "megabytes"), strict=True):
        for family in dict.fromkeys(r["family"] for r in rows):
            mine = [r for r in rows if r["family"] == family]
            ax.loglog([r["samples"] for r in mine], [r[key] for r in mine], "o-", label=family)
        ax.set_xlabel("samples of the signal")
        ax.set_ylabel(f"{key}, forward + backward" if key == "seconds" else "peak megabytes")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].legend(frameon=False)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="up to 64,000 samples")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        channels, size = json.loads(args.one)
        print(json.dumps(run(channels, tuple(size))))
        return
    rows: list[dict[str, object]] = []
    for family, (channels, sizes) in FAMILIES.items():
        for size in sizes:
            if args.short and math.prod(size) > 64_000:
                continue
            command = [sys.executable, __file__, "--one", json.dumps([channels, size])]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found = json.loads(done.stdout)
            rows.append(
                {
                    "family": family,
                    "size": "×".join(map(str, size)),
                    "samples": math.prod(size),
                    "channels": channels,
                    "seconds": round(found["seconds"], 4),
                    "megabytes": round(found["megabytes"]),
                }
            )
            print(*[f"{k}={v}" for k, v in rows[-1].items()], flush=True)
    for family in FAMILIES:
        mine = [r for r in rows if r["family"] == family]
        mine = [r for r in mine if r["samples"] >= FIT_FROM] if family == "1-D" else mine
        if len(mine) > 1:
            print(f"{family}: time ~ samples^{exponent(mine):.2f} from {mine[0]['samples']:,}")
    write_csv(args.out / "scaling.csv", rows)
    plot(rows, args.out / "scaling.png")


if __name__ == "__main__":
    main()
