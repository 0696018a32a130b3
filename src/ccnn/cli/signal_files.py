"""Signals in files: ``.npy``, ``.csv``, ``.wav`` and ``.png`` in, probabilities out."""

import csv
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ccnn.tasks.scaling import Scaling
from ccnn.tasks.signal_files import read_signal

TABLES = (".npy", ".csv")  # of many signals
SUFFIXES = (*TABLES, ".wav", ".png")


class Unreadable(OSError):  # noqa: N818 (what it says is a sentence)
    """A file that does not hold what it should; one line names it and says why."""


def files_of(source: Path) -> list[Path]:
    """Return the file, or those of a folder that hold signals, in order of their names."""
    if not source.is_dir():
        if source.suffix not in SUFFIXES:
            raise ValueError(f"{source} is neither .npy, .csv, .wav nor .png, nor a folder of such")
        return [source]
    files = sorted(
        p
        for p in source.iterdir()
        if p.suffix in SUFFIXES and not p.stem.endswith(".probabilities")
    )
    if not files:
        raise FileNotFoundError(f"there is no .npy, .csv, .wav or .png file in {source}")
    return files


@dataclass(frozen=True)
class Layout:
    """What a network takes: channels (None for symbols that it embeds) and samples per axis.

    ``scaling`` says how the run's data were prepared, where they were the user's own.
    """

    channels: int | None
    size: tuple[int, ...]
    symbols: int | None = None
    scaling: Scaling | None = None

    @classmethod
    def of_run(cls, run: Path) -> "Layout":
        """Return what the network in the folder of a finished run takes."""
        path = run / "model" / "config.json"
        if not path.is_file():
            raise FileNotFoundError(f"{run} holds no finished run: there is no {path}")
        content = json.loads(path.read_text(encoding="utf-8"))
        arguments = content["arguments"]
        if "encoder" in arguments:
            raise ValueError(
                f"{run}: its network judges pairs of signals; predict takes single ones"
            )
        symbols = arguments.get("embedding")
        channels = None if symbols is not None else int(arguments["in_channels"])
        data = run / "data.json"
        scaling = Scaling.from_json(data.read_text(encoding="utf-8")) if data.exists() else None
        return cls(channels, tuple(arguments["size"]), symbols, scaling)

    def read(self, path: Path, spacing: float | Sequence[float] = 1.0) -> Tensor:
        """Return the signals of a file, (n, C, *S) or (n, *S) of symbols.

        ``spacing`` is what the network will be told; sound must be sampled at it.

        Raises
        ------
        Unreadable
            One line with the name of the file, what is in it, and what was expected.
        """
        x = self._values(path, spacing)
        if not np.issubdtype(x.dtype, np.number) or np.iscomplexobj(x):
            raise Unreadable(f"{path} holds {x.dtype}, not real numbers")
        dim = len(self.size) + (self.channels is not None)
        found = x.shape
        if x.ndim == dim and self.channels == 1 and x.shape[0] != 1:
            x = x[:, None]  # many signals of one channel
        elif x.ndim == dim:
            x = x[None]  # one signal
        elif x.ndim == len(self.size) and self.channels == 1:
            x = x[None, None]  # one signal of one channel
        if x.ndim != dim + 1 or (self.channels is not None and x.shape[1] != self.channels):
            raise Unreadable(f"{path} has shape {found}; expected {self._wanted()}")
        if 0 in x.shape:
            raise Unreadable(f"{path} is empty: its shape is {found}")
        if not np.isfinite(x).all():
            raise Unreadable(f"{path} holds NaN or infinite numbers")
        if self.symbols is None:
            return torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32))
        if (x != np.round(x)).any() or x.min() < 0 or x.max() >= self.symbols:
            raise Unreadable(f"{path}: expected whole numbers from 0 to {self.symbols - 1}")
        return torch.from_numpy(np.ascontiguousarray(x, dtype=np.int64))

    def _values(self, path: Path, spacing: float | Sequence[float]) -> np.ndarray:
        if path.suffix in TABLES:
            return _read_csv(path, self) if path.suffix == ".csv" else _read_npy(path)
        signal = read_signal(path)
        trained = None if self.scaling is None else self.scaling.rate
        if signal.rate and trained and trained / signal.rate != spacing:
            raise Unreadable(
                f"{path} is sampled {signal.rate} times a second, and the data of the run "
                f"{trained} times; say spacing={trained / signal.rate:g}"
            )
        return signal.values[None]

    def columns(self, width: int) -> list[str]:
        """Return what the numbers of a row are called."""
        if self.scaling is not None and len(self.scaling.labels) == width:
            return list(self.scaling.labels)
        numbers = self.scaling is not None and self.scaling.target_mean
        return [f"{'value' if numbers else 'class'}_{i}" for i in range(width)]

    def _wanted(self) -> str:
        size = ", ".join(map(str, self.size))
        axes = size if self.channels is None else f"{self.channels}, {size}"
        return f"(n, {axes}); other lengths are fine, other numbers of axes or channels are not"


def _read_npy(path: Path) -> np.ndarray:
    try:
        x = np.load(path, allow_pickle=False)
    except (ValueError, EOFError):
        raise Unreadable(f"{path} is no array of numbers in .npy format") from None
    if not isinstance(x, np.ndarray):
        raise Unreadable(f"{path} is no array of numbers in .npy format")
    return x


def _read_csv(path: Path, layout: Layout) -> np.ndarray:
    """Return one signal per row."""
    rows: list[list[float]] = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            for number, cells in enumerate(csv.reader(file), start=1):
                if not cells:
                    continue
                try:
                    rows.append([float(cell) for cell in cells])
                except ValueError:
                    if number > 1:
                        raise Unreadable(f"{path}, line {number}: not all are numbers") from None
                    continue  # names of the columns
                if len(rows[-1]) != len(rows[0]):
                    raise Unreadable(
                        f"{path}, line {number}: {len(rows[-1])} numbers, and {len(rows[0])} "
                        "in the first row"
                    )
    except (UnicodeDecodeError, csv.Error) as error:
        raise Unreadable(f"{path} is no table of numbers: {error}") from None
    if not rows:
        raise Unreadable(f"{path} is empty")
    x, channels = np.array(rows), layout.channels or 1
    size = layout.size
    if len(size) == 1 and x.shape[1] % channels == 0:
        size = (x.shape[1] // channels,)  # a sequence may have any length
    if x.shape[1] != channels * math.prod(size):
        raise Unreadable(
            f"{path} has {x.shape[1]} numbers in a row; expected "
            f"{channels * math.prod(size)} ({channels} x {' x '.join(map(str, size))})"
        )
    return x.reshape(len(x), *size) if layout.channels is None else x.reshape(-1, channels, *size)


def write(
    path: Path,
    rows: Sequence[tuple[str, list[list[float]]]],
    *,
    columns: Sequence[str],
    names: bool,
) -> None:
    """Write probabilities, in a CSV with the file's name and the row if there may be several."""
    if path.suffix == ".npy":
        np.save(path, np.array([p for _, part in rows for p in part], dtype=np.float32))
        return
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow([*(["file", "row"] if names else []), *columns])
        for name, part in rows:
            for row, values in enumerate(part):
                cells = [f"{v:.6g}" for v in values]
                table.writerow([*([name, str(row)] if names else []), *cells])
