"""The rows that `irregular.py` has measured: their file, their tables and their figure."""

import csv
import statistics
from collections.abc import Iterator
from pathlib import Path

COLUMNS = (
    *("data", "way", "fold", "drop", "score", "value"),
    *("seconds", "parameters", "epochs", "seed"),
)
Row = dict[str, str]


def read_rows(path: Path) -> list[Row]:
    """Return what was measured so far; nothing where there is no file."""
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def append_rows(path: Path, rows: list[Row]) -> None:
    """Write rows behind those that are there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.is_file()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if new:
            writer.writeheader()
        writer.writerows(rows)


def values_of(rows: list[Row], way: str, drop: str) -> list[float]:
    """Return the scores of a way at a share, one per fold and seed."""
    return [float(r["value"]) for r in rows if (r["way"], r["drop"]) == (way, drop)]


def table(rows: list[Row], data: str, score: str) -> Iterator[str]:
    """Yield the lines of a table: ways down, shares across, mean ± deviation over the folds."""
    mine = [r for r in rows if (r["data"], r["score"]) == (data, score)]
    if not mine:
        return
    drops = sorted({r["drop"] for r in mine}, key=float)
    shares = [f"{score}, {100 * float(d):.0f} % dropped" for d in drops]
    yield f"| {data} | " + " | ".join(shares) + " | trainings | parameters | seconds of training |"
    yield "|---|" + "---:|" * (len(drops) + 3)
    for way in dict.fromkeys(r["way"] for r in mine):
        here = [r for r in mine if r["way"] == way and r["drop"] == drops[0]]
        cells = [_mean(values_of(mine, way, drop)) for drop in drops]
        cells += [str(len(here)), f"{int(here[0]['parameters']):,}"]
        seconds = statistics.mean(float(r["seconds"]) for r in here)
        yield f"| {way} | " + " | ".join(cells) + f" | {seconds:.0f} |"


def _mean(values: list[float]) -> str:
    digits = 2 if max(values) > 1 else 3
    mean = f"{statistics.mean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.{digits}f}"


def plot(rows: list[Row], path: Path) -> None:
    """Draw the accuracy over the share that was dropped, a line for each way."""
    # Matplotlib takes a while, and measuring does not need it.
    from ccnn import plots
    from ccnn.plots.colours import SERIES

    mine = [r for r in rows if r["score"] == "accuracy %" and r["way"] != "density"]
    (ax,) = plots.panels(width=6.5, height=3.8)
    for way, colour in zip(dict.fromkeys(r["way"] for r in mine), SERIES, strict=False):
        drops = sorted({r["drop"] for r in mine if r["way"] == way}, key=float)
        means = [statistics.mean(values_of(mine, way, drop)) for drop in drops]
        count = len(values_of(mine, way, drops[0]))
        label = f"{way}, {count} fold{'s' if count > 1 else ''}"
        ax.plot([100 * float(d) for d in drops], means, "o-", color=colour, label=label)
    ax.set_xlabel("samples dropped at random (%)")
    ax.set_ylabel("accuracy (%)")
    ax.set_title("CharacterTrajectories, mean over folds")
    ax.legend(frameon=False)
    plots.save_figure(ax, path, dpi=90)
