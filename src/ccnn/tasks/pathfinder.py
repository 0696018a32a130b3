"""Pathfinder and Path-X of the Long Range Arena: are two points connected? (App. A)."""

import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ccnn.tasks.arrays import ANY, read_npz
from ccnn.tasks.generating import in_order, make_file
from ccnn.tasks.pathfinder_dashes import PATHFINDER_32, PATHFINDER_128, Rules
from ccnn.tasks.pathfinder_files import read_arena
from ccnn.tasks.pathfinder_generate import images
from ccnn.tasks.task import DataDamaged, Samples, Splits, Task

COUNTS = (160_000, 20_000, 20_000)
# Where the Arena's release, unpacked, has the hard set.
FOLDERS = ("", "lra_release", "lra_release/lra_release")
FILES = ("pathfinder{}_generated.npz", "pathfinder{}_sample.npz")
# Images that a process makes at once, from random numbers of their own.
CHUNK = 500


def find_data(root: Path, side: int) -> Path | None:
    """Return the Arena's folder, else a file of arrays, all of the set before a part of it."""
    for folder in FOLDERS:
        arena = root / folder / f"pathfinder{side}" / "curv_contour_length_14"
        if any((arena / "metadata").glob("*.npy")) and (arena / "imgs").is_dir():
            return arena
    return next((p for name in FILES if (p := root / name.format(side)).is_file()), None)


def read_arrays(path: Path, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Read a file of images ``x``, (n, side, side), and labels ``y``, (n,), both of bytes."""
    x, y = read_npz(path, {"x": (np.uint8, (ANY, side, side)), "y": (np.uint8, (ANY,))})
    if len(x) != len(y) or not len(y) or y.max() > 1:
        raise DataDamaged(
            f"{path}: {len(x)} images and {len(y)} labels; expected as many, with labels 0 and 1: "
            "delete it and make it again"
        )
    return x, y


def reader(side: int, *, flat: bool) -> Callable[[Path], Splits]:
    """Return a function that reads a folder; flat makes sequences, row by row, of the images."""

    def read(root: Path) -> Splits:
        path = find_data(root, side)
        assert path is not None  # `find` has seen it
        x, y = (read_arena if path.is_dir() else read_arrays)(path, side)
        return split(x.reshape(len(x), 1, -1) if flat else x[:, None], y)

    return read


def split(x: np.ndarray, y: np.ndarray) -> Splits:
    """Return four fifths, a tenth and a tenth, by the authors' random numbers."""
    generator = torch.Generator().manual_seed(42)
    order = torch.randperm(len(y), generator=generator).numpy()
    tenth = len(y) // 10
    parts = np.split(order, [len(y) - 2 * tenth, len(y) - tenth])
    return Splits(
        *(
            Samples(
                torch.from_numpy(x[part]).float().div_(255),
                torch.from_numpy(y[part].astype(np.int64)),
            )
            for part in parts
        )
    )


@dataclass(frozen=True)
class Chunk:
    """Some images to make: which ones, and how many."""

    rules: Rules
    seed: int
    index: int
    count: int


def make_chunk(chunk: Chunk) -> tuple[np.ndarray, np.ndarray]:
    """Return the images and labels of a chunk, whichever process makes it."""
    rng = np.random.default_rng([chunk.seed, chunk.rules.side, chunk.index])
    return images(chunk.count, rng, chunk.rules)


def make(
    root: Path,
    rules: Rules = PATHFINDER_32,
    count: int = sum(COUNTS),
    *,
    seed: int = 0,
    processes: int | None = None,
) -> None:
    """Generate the file of images that a folder does not have, with a progress bar.

    Parameters
    ----------
    root
        The folder; it is created.
    rules
        What images are like.
    count
        How many, for all three parts together.
    seed
        What the images depend on.
    processes
        How many work at once; None is one for each core. The file does not depend on it.
    """
    jobs = [
        Chunk(rules, seed, begin // CHUNK, min(CHUNK, count - begin))
        for begin in range(0, count, CHUNK)
    ]
    write = partial(_write, jobs=jobs, processes=processes)
    make_file(root / FILES[0].format(rules.side), write)


def _write(path: Path, *, jobs: list[Chunk], processes: int | None) -> None:
    side, count = jobs[0].rules.side, sum(job.count for job in jobs)
    title = f"Pathfinder, {count:,} images {side} x {side}"
    labels = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        # As they come: all of Path-X would be 3 GB in memory.
        with archive.open("x.npy", "w", force_zip64=True) as file:
            header = {"descr": "|u1", "fortran_order": False, "shape": (count, side, side)}
            np.lib.format.write_array_header_1_0(file, header)
            for x, y in in_order(make_chunk, jobs, title=title, processes=processes):
                file.write(x.tobytes())
                labels.append(y)
        with archive.open("y.npy", "w") as file:
            np.lib.format.write_array(file, np.concatenate(labels), allow_pickle=False)


_SHARED: dict[str, Any] = {"in_channels": 1, "classes": 2, "counts": COUNTS}
_SMALL: dict[str, Any] = {
    **_SHARED,
    "source": "Long Range Arena release, pathfinder32/curv_contour_length_14; or generated",
    "files": "pathfinder32/curv_contour_length_14 (imgs, metadata) or pathfinder32_generated.npz",
    "find": lambda root: find_data(root, 32) is not None,
    "fetch": make,
}
PATHFINDER = Task(
    name="pathfinder",
    title="LRA Pathfinder, 32 x 32 pixel by pixel",
    size=(1024,),
    paper={"ccnn_4_140": 91.36, "ccnn_6_380": 91.51},
    read=reader(32, flat=True),
    **_SMALL,
)
PATHFINDER2D = Task(
    name="pathfinder2d",
    title="LRA Pathfinder in 2-D",
    size=(32, 32),
    paper={"ccnn_4_140": 94.80, "ccnn_6_380": 96.00},
    read=reader(32, flat=False),
    **_SMALL,
)
PATHX = Task(
    name="pathx",
    title="LRA Path-X, 128 x 128 pixel by pixel",
    size=(16_384,),
    source="Long Range Arena release, pathfinder128/curv_contour_length_14; or generated",
    files="pathfinder128/curv_contour_length_14 (imgs, metadata) or pathfinder128_generated.npz",
    find=lambda root: find_data(root, 128) is not None,
    read=reader(128, flat=True),
    fetch=lambda root: make(root, PATHFINDER_128),
    **_SHARED,
)
