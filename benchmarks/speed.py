"""How much faster than a textbook implementation, and how far from the machine's limit?

    python benchmarks/speed.py [--short] [--only "a, K 65;c, 33×33"] [--rounds 7] [--out FOLDER]

Workloads: a sequences of 784 (batch 50), b of 16,000 (batch 2), c images of 32×32 (batch 50),
d of 96×96 (batch 8), with a small window and a wide one; 4 blocks × 110 channels, or 6 × 380.
Forward (no gradient) and one training step (forward, backward, AdamW). Textbook and ours take
turns in one process; the ratios are what counts.

The floor is composed: each FFT at the measured speed of torch's own call on such a batch at a good
size, each matrix product at the speed of a 2048³ one, and three memory passes a block (nine in
training) at the speed of a copy; a training step has three times the arithmetic of a forward.

The textbook is honest: on a machine with 171 GFLOP/s and copies of 15 GB/s the reference
implementation took the times in REFERENCE. Scaled to this machine they stand in the table, and
where the textbook is more than 15 % slower than that, the ratio is taken to the scaled time.
"""

import argparse
import copy
import math
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from textbook import Textbook
from timing import (
    copy_rate,
    interleaved,
    rfft_seconds_per_sample,
    sgemm_rate,
    write_csv,
)

import ccnn
from ccnn.allocator import keep_freed_memory
from ccnn.ops import good_size


@dataclass(frozen=True)
class Workload:
    """One line of the table."""

    name: str
    size: tuple[int, ...]
    batch: int
    sigma: float
    blocks: int = 4
    channels: int = 110
    kernel_channels: int = 32

    @property
    def causal(self) -> bool:
        return len(self.size) == 1

    def model(self) -> ccnn.CCNN:
        torch.manual_seed(0)
        return ccnn.CCNN(
            1,
            10,
            self.size,
            blocks=self.blocks,
            channels=self.channels,
            kernel_channels=self.kernel_channels,
            mask_sigma=self.sigma,
            causal=self.causal,
        )


WIDE = 2.0
WORKLOADS = [
    Workload("a, K 65", (784,), 50, 0.075),
    Workload("a, K 784", (784,), 50, WIDE),
    Workload("a, K 65, 6×380", (784,), 50, 0.075, blocks=6, channels=380, kernel_channels=64),
    Workload("b, K 1289", (16000,), 2, 0.075),
    Workload("b, K 16000", (16000,), 2, WIDE),
    Workload("c, 5×5", (32, 32), 50, 0.075),
    Workload("c, 33×33", (32, 32), 50, WIDE),
    Workload("d, 15×15", (96, 96), 8, 0.075),
]
# Milliseconds of the reference implementation, forward and training step.
REFERENCE = {
    "a, K 65": (230, 691),
    "a, K 784": (305, 942),
    "b, K 1289": (356, 1029),
    "b, K 16000": (287, 929),
    "c, 5×5": (221, 1390),
    "c, 33×33": (9671, 23088),
    "d, 15×15": (3623, 9707),
}
SHORT = ("a, K 65", "b, K 1289", "c, 5×5")


def training_step(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def forward(model: torch.nn.Module, x: torch.Tensor):
    def run() -> None:
        with torch.no_grad():
            model(x)

    return run


def floor(work: Workload, model: ccnn.CCNN, sgemm: float, copied: float) -> tuple[float, float]:
    """Return the least seconds of a forward and of a training step that the parts add up to."""
    reach = model.stem.reach((1.0,) * len(work.size))
    lengths = [good_size(s + n, multiple=2) for s, n in zip(work.size, reach, strict=True)]
    dims = tuple(range(-len(lengths), 0))
    samples = math.prod(lengths)
    positions = math.prod(work.size)
    signals = work.batch * work.channels
    fft = 2 * signals * samples * rfft_seconds_per_sample((signals, *lengths), dims)
    direct = 2 * signals * positions * math.prod(2 * n + 1 for n in reach) / sgemm
    gemm = 2 * 2 * signals * positions * work.channels / sgemm
    memory = 3 * 2 * 4 * signals * positions / copied
    arithmetic = min(fft, direct) + gemm
    return work.blocks * (arithmetic + memory), work.blocks * 3 * (arithmetic + memory)


def measure(work: Workload, rounds: int, sgemm: float, copied: float) -> dict[str, object]:
    ours = work.model()
    textbook = Textbook(copy.deepcopy(ours))
    x, y = torch.randn(work.batch, 1, *work.size), torch.randint(10, (work.batch,))
    with torch.no_grad():
        difference = (ours(x) - textbook(x)).abs().max().item()
    runs = {"textbook": textbook, "ours": ours}
    slow = math.prod(work.size) * work.batch > 40_000 and work.sigma == WIDE and not work.causal
    rounds = max(3, rounds // 3) if slow else rounds
    fwd = interleaved({k: forward(m, x) for k, m in runs.items()}, rounds=rounds)
    step = interleaved({k: training_step(m, x, y) for k, m in runs.items()}, rounds=rounds)
    least_forward, least_step = floor(work, ours, sgemm, copied)
    slower = math.sqrt((171e9 / sgemm) * (30e9 / copied))  # read and write counted
    scaled = [slower * ms / 1e3 for ms in REFERENCE.get(work.name, (math.inf, math.inf))]
    return {
        "workload": work.name,
        "textbook forward ms": round(1e3 * fwd["textbook"], 1),
        "reference forward ms": milliseconds(scaled[0]),
        "ours forward ms": round(1e3 * fwd["ours"], 1),
        "forward ×": round(honest(fwd["textbook"], scaled[0]) / fwd["ours"], 2),
        "textbook step ms": round(1e3 * step["textbook"], 1),
        "reference step ms": milliseconds(scaled[1]),
        "ours step ms": round(1e3 * step["ours"], 1),
        "step ×": round(honest(step["textbook"], scaled[1]) / step["ours"], 2),
        "forward ÷ floor": round(fwd["ours"] / least_forward, 2),
        "step ÷ floor": round(step["ours"] / least_step, 2),
        "largest difference": f"{difference:.1e}",
    }


def milliseconds(seconds: float) -> object:
    return round(1e3 * seconds, 1) if math.isfinite(seconds) else ""


def honest(textbook: float, reference: float) -> float:
    """Return the time to compare with: the reference's where the textbook is much slower."""
    return textbook if textbook <= 1.15 * reference else reference


def plot(rows: list[dict[str, object]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(7, 0.5 + 0.42 * len(rows)), layout="constrained")
    names = [str(row["workload"]) for row in rows][::-1]
    for offset, key in ((0.2, "forward ×"), (-0.2, "step ×")):
        values = [float(row[key]) for row in rows][::-1]
        bars = ax.barh([i + offset for i in range(len(rows))], values, 0.38, label=key[:-2])
        ax.bar_label(bars, [f"{v:.1f}" for v in values], padding=2, fontsize=8)
    ax.set_xscale("log")
    ax.axvline(1, color="black", lw=0.8)
    ax.set_yticks(range(len(rows)), names)
    ax.set_xlabel("times faster than the textbook implementation")
    ax.legend(loc="lower right", frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="three workloads, few rounds")
    parser.add_argument("--only", help="names of workloads, separated by semicolons")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    args = parser.parse_args()
    keep_freed_memory()
    works = [w for w in WORKLOADS if not args.short or w.name in SHORT]
    if args.only:
        wanted = [name.strip() for name in args.only.split(";")]
        if unknown := set(wanted) - {w.name for w in works}:
            parser.error(f"no workload {unknown}; choose from {[w.name for w in works]}")
        works = [w for w in works if w.name in wanted]
    sgemm, copied = sgemm_rate(), copy_rate()
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads; "
        f"sgemm {sgemm / 1e9:.0f} GFLOP/s, copy {copied / 1e9:.1f} GB/s"
    )
    rows: list[dict[str, object]] = []
    for work in works:
        rows.append(measure(work, 3 if args.short else args.rounds, sgemm, copied))
        if len(rows) == 1:
            print(" | ".join(rows[0]))
        print(" | ".join(str(v) for v in rows[-1].values()), flush=True)
    write_csv(args.out / "speed.csv", rows)
    plot(rows, args.out / "speed.png")
    print(f"written: {args.out / 'speed.csv'}, {args.out / 'speed.png'}")


if __name__ == "__main__":
    main()
