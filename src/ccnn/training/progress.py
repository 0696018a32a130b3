"""How a run shows itself: a bar on a terminal, a line per epoch in a log, or nothing."""

import sys
import time
from collections.abc import Mapping
from typing import Any

from torch import Tensor


class Progress:
    """Shows nothing; the others show more."""

    def start(self, *, total: int, step: int) -> None:
        """Begin at a step of a number of steps."""

    def step(self, step: int, sums: Tensor) -> None:
        """Show that a step is done; the sums are those of `ccnn.training.metrics.Sums`."""

    def epoch(self, row: Mapping[str, Any], epochs: int, *, better: bool) -> None:
        """Show that an epoch is done; better means the best so far."""

    def say(self, text: str) -> None:
        """Show a line that is not about one epoch."""

    def close(self) -> None:
        """Put the terminal back."""


class PlainProgress(Progress):
    """One line per epoch on standard output."""

    def epoch(self, row: Mapping[str, Any], epochs: int, *, better: bool) -> None:
        """Write the line."""
        self.say(epoch_line(row, epochs, better=better))

    def say(self, text: str) -> None:
        """Write a line."""
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


class RichProgress(Progress):
    """A bar with the time left, and a line per epoch above it."""

    def __init__(self) -> None:
        from rich import progress

        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(),
        )
        self._task = self._bar.add_task("training", total=None)
        self._shown = 0.0

    def start(self, *, total: int, step: int) -> None:
        """Show the bar."""
        self._bar.update(self._task, total=total, completed=step)
        self._bar.start()

    def step(self, step: int, sums: Tensor) -> None:
        """Move the bar, a few times per second: reading the loss waits for its device."""
        now = time.monotonic()
        if now - self._shown < 0.2:
            return
        self._shown = now
        mean = float(sums[0] / sums[2].clamp(min=1))
        self._bar.update(self._task, completed=step, description=f"loss {mean:.4f}")

    def epoch(self, row: Mapping[str, Any], epochs: int, *, better: bool) -> None:
        """Write the line above the bar."""
        self._bar.update(self._task, completed=row["step"])
        self.say(epoch_line(row, epochs, better=better))

    def say(self, text: str) -> None:
        """Write a line above the bar."""
        self._bar.console.print(text, highlight=False, markup=False)

    def close(self) -> None:
        """Remove the bar."""
        self._bar.stop()


def make_progress(kind: str) -> Progress:
    """Return what shows a run: ``"auto"``, ``"rich"``, ``"plain"`` or ``"none"``."""
    if kind == "auto":
        kind = "rich" if sys.stdout.isatty() else "plain"
    if kind == "rich":
        return RichProgress()
    return PlainProgress() if kind == "plain" else Progress()


def epoch_line(row: Mapping[str, Any], epochs: int, *, better: bool) -> str:
    """Return a row of ``metrics.csv`` as a line to read."""
    parts = [f"epoch {row['epoch'] + 1}/{epochs}", f"lr {row['lr']:.2g}"]
    for part in ("train", "val"):
        parts += [f"{part} loss {row[f'{part}_loss']:.4f}"] if f"{part}_loss" in row else []
        if f"{part}_accuracy" in row:
            parts.append(f"accuracy {100 * row[f'{part}_accuracy']:.2f} %")
    parts.append(f"{row['seconds']:.1f} s")
    return "  ".join(parts) + ("  best" if better and "val_loss" in row else "")
