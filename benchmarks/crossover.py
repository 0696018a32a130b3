"""Which way to convolve is fastest where, and does the rule of `ccnn.ops.plan` know it?

    python benchmarks/crossover.py [--rounds 5] [--out FOLDER]

Every way runs in turn on a grid of signals and kernels, 110 channels, forward alone and with both
gradients, by the code of ``ccnn bench crossover``. Writes what ``method="auto"`` costs relative to
the best of them, and prints the costs that fit best.
"""

import argparse
from pathlib import Path

from timing import write_csv

from ccnn import bench
from ccnn.allocator import keep_freed_memory
from ccnn.ops import costs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    args = parser.parse_args()
    keep_freed_memory()
    rows = bench.crossover(
        rounds=args.rounds, quick=args.quick, say=lambda line: print(line, flush=True)
    )
    print(bench.fit(rows))
    table = []
    for row in rows:
        dim, batch, side, taps = row.case
        table.append(
            {
                "D": dim,
                "batch": batch,
                "side": side,
                "taps": taps,
                "training": row.work.training,
                **{f"{m} ms": round(1e3 * s, 2) for m, s in row.seconds.items()},
                "auto ÷ best": round(row.ratio(costs.CURRENT), 3),
            }
        )
    write_csv(args.out / "crossover.csv", table)


if __name__ == "__main__":
    main()
