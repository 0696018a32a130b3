"""Clouds of points: what a training step costs, and how a trained network does with other counts.

    python benchmarks/clouds.py steps --data FOLDER [--out TABLE.csv]
    python benchmarks/clouds.py counts --data FOLDER --run RUN --trained 512 [--out TABLE.csv]

``steps`` measures forward and backward of batches of ModelNet10's shapes as points, in seconds of
a processor's time, for several counts, windows and kernel networks; on the lattice of half voxels,
and off it, where the kernel network is evaluated at every pair. ``counts`` tests the network of a
finished run (``ccnn train task=modelnet10_points run=RUN``) on clouds of other counts: every point
then stands for more or less of the surface, which its weight says. Each row is written as soon as
it is measured, and a row that is there is not measured again.
"""

import argparse
import csv
import json
import time
from pathlib import Path

import torch
import torch.nn.functional as F

import ccnn
from ccnn.nn.reach import read_radii
from ccnn.ops.neighbours import Neighbours
from ccnn.tasks.modelnet import read
from ccnn.tasks.modelnet_points import POINTS, clouds
from ccnn.tasks.task import Samples

SIZE = (30, 30, 30)
TOGETHER = 8_192  # points of a batch in tests
STEPS = [
    {"points": n, "kernel_size": k, "kernel_channels": hidden, "lattice": lattice}
    for n, k, hidden, lattice in (
        (512, 9, 16, "yes"),
        (512, 9, 32, "yes"),
        (512, 13, 16, "yes"),
        (1_024, 9, 16, "yes"),
        (2_048, 9, 16, "yes"),
        (512, 9, 16, "no"),
        (512, 9, 32, "no"),
    )
]


def append(path: Path, row: dict[str, object]) -> None:
    """Write a row at the end of a table, and the header before the first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, list(row))
        if new:
            writer.writeheader()
        writer.writerow(row)


def measured(path: Path, wanted: dict[str, object]) -> bool:
    """Tell whether a table has a row with these values."""
    if not path.exists():
        return False
    with path.open(newline="") as file:
        return any(all(row[k] == str(v) for k, v in wanted.items()) for row in csv.DictReader(file))


def neighbours(model: ccnn.CCNN, points: ccnn.Points) -> float:
    """Return how many points lie in the window of a layer around each, itself included."""
    near = Neighbours(points.positions, None, points.positions, read_radii([model.stem])[0])
    return sum(len(target) for target, _, _ in near.pairs(1 << 16)) / len(near.outputs)


def step(voxels: Samples, setting: dict[str, int | str], arguments: argparse.Namespace):
    """Return the median seconds of forward and backward, and what they come to per pair."""
    torch.manual_seed(0)
    model = ccnn.CCNN(
        1,
        10,
        SIZE,
        channels=arguments.channels,
        kernel_size=setting["kernel_size"],
        kernel_channels=setting["kernel_channels"],
        mask_sigma=0.5,
    )
    index = torch.arange(arguments.batch) * (len(voxels) // arguments.batch)
    samples = clouds(voxels.take(index), setting["points"], seed=0)
    positions = samples.positions
    if setting["lattice"] == "no":
        positions = positions + 0.1 * torch.rand(positions.shape)
    points = ccnn.Points(positions)
    times = []
    for _ in range(arguments.rounds + 1):
        start = time.process_time()
        loss = F.cross_entropy(model(samples.x, points), samples.y)
        middle = time.process_time()
        loss.backward()
        times.append((middle - start, time.process_time() - middle))
    forward, backward = (sorted(t)[arguments.rounds // 2] for t in zip(*times[1:], strict=True))
    near = neighbours(model, points)
    pairs = near * positions.shape[0] * positions.shape[1] * len(model.convolutions())
    return {
        "neighbours": round(near, 1),
        "forward s": round(forward, 3),
        "backward s": round(backward, 3),
        "ns a pair": round(1e9 * (forward + backward) / pairs),
    }


def steps(arguments: argparse.Namespace) -> None:
    """Measure training steps."""
    voxels = read(arguments.data).test
    for setting in STEPS:
        row = setting | {"batch": arguments.batch, "channels": arguments.channels}
        if not measured(arguments.out, row):
            row |= step(voxels, setting, arguments)
            append(arguments.out, row)
            print(row, flush=True)


@torch.no_grad()
def accuracy(model: ccnn.CCNN, samples: Samples, weight: float) -> float:
    """Return the share of right answers where every point has the same weight."""
    right = 0
    batch = max(1, TOGETHER // samples.x.shape[-1])
    for begin in range(0, len(samples), batch):
        part = samples.take(slice(begin, begin + batch))
        weights = torch.full(part.positions.shape[:2], weight)
        logits = model(part.x, ccnn.Points(part.positions, weights=weights))
        right += int((logits.argmax(dim=1) == part.y).sum())
    return right / len(samples)


def counts(arguments: argparse.Namespace) -> None:
    """Test a trained network on clouds of other counts, with weights and without."""
    model = ccnn.load(arguments.run / "model").eval()
    result = json.loads((arguments.run / "result.json").read_text())
    voxels = read(arguments.data).test
    for n in arguments.points:
        for weight in dict.fromkeys((arguments.trained / n, 1.0)):
            row = {"trained points": arguments.trained, "seed": result["seed"]}
            row |= {"epochs": result["epochs"], "points": n, "weight": weight}
            if measured(arguments.out, row):
                continue
            start = time.process_time()
            samples = clouds(voxels, n, seed=2)
            row["accuracy"] = round(100 * accuracy(model, samples, weight), 2)
            row["shapes"], row["test s"] = len(samples), round(time.process_time() - start, 1)
            row["parameters"], row["training s"] = result["parameters"], round(result["seconds"])
            append(arguments.out, row)
            print(row, flush=True)


def main() -> None:
    """Read the words and measure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("steps", "counts"))
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--trained", type=int, default=POINTS, help="points in training")
    parser.add_argument(
        "--points", type=lambda s: [int(n) for n in s.split(",")], default=[1_024, 512, 2_048]
    )
    arguments = parser.parse_args()
    if arguments.what == "counts" and arguments.run is None:
        parser.error("counts needs --run FOLDER")
    name = "clouds.csv" if arguments.what == "counts" else "clouds_steps.csv"
    arguments.out = arguments.out or Path(__file__).parents[1] / "docs" / "measured" / name
    torch.set_num_threads(1)
    {"steps": steps, "counts": counts}[arguments.what](arguments)


if __name__ == "__main__":
    main()
