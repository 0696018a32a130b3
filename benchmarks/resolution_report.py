"""What `resolution.py` measured, as tables and as a figure."""

import statistics
from collections.abc import Iterable
from pathlib import Path

from resolution_problems import PROBLEMS, Problem, Rate

# How the network hears of another rate.
SPACING, LOWPASS, NOTHING, RESIZED = "spacing", "spacing, low-pass", "nothing", "resized"
MARKS = {SPACING: "s", LOWPASS: "D", NOTHING: "x", RESIZED: "^"}
Row = dict[str, str]


class Accuracies:
    """Accuracies of one part of one problem, by way, rate and what the network is told."""

    def __init__(self, rows: Iterable[Row], problem: str, part: str) -> None:
        self.values: dict[tuple[str, str, str], dict[int, float]] = {}
        for row in rows:
            if (row["problem"], row["part"]) == (problem, part):
                key = (row["way"], row["tested at"], row["told"])
                self.values.setdefault(key, {})[int(row["seed"])] = float(row["accuracy"])

    @property
    def ways(self) -> list[str]:
        return list(dict.fromkeys(way for way, _, _ in self.values))

    def of(self, way: str, rate: Rate, told: str) -> list[float]:
        return list(self.values.get((way, rate.name, told), {}).values())


def mean_and_range(values: list[float]) -> str:
    if not values:
        return ""
    mean = f"{statistics.mean(values):.1f}"
    return mean if len(values) == 1 else f"{mean} ({min(values):.1f} to {max(values):.1f})"


def table(problem: Problem, accuracies: Accuracies) -> str:
    """Return one table in Markdown: a row for each way, means and ranges over the seeds."""
    columns = [(rate, told) for rate in problem.others for told in MARKS]
    columns = [c for c in columns if any(accuracies.of(w, *c) for w in accuracies.ways)]
    head = ["way", "seeds", problem.trained.name, *(f"{r.name}, {told}" for r, told in columns)]
    lines = [head, ["---", *["---:"] * (len(head) - 1)]]
    for way in accuracies.ways:
        trained = accuracies.of(way, problem.trained, NOTHING)
        cells = [mean_and_range(accuracies.of(way, *column)) for column in columns]
        lines.append([way, str(len(trained)), mean_and_range(trained), *cells])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def tables(rows: list[Row]) -> str:
    """Return every table, those of the search first."""
    parts = []
    for part, what in (("val", "search, validation part"), ("test", "test part")):
        for name, problem in PROBLEMS.items():
            found = Accuracies(rows, name, part)
            if found.ways:
                parts.append(f"**{problem.title}** ({what})\n\n{table(problem, found)}")
    return "\n\n".join(parts)


def draw(rows: list[Row], path: Path) -> None:
    """Draw a panel for each problem and other rate: means over seeds, bars from least to most.

    A problem with one way only has nothing to compare, and no panel.
    """
    from matplotlib.figure import Figure

    found = {name: Accuracies(rows, name, "test") for name in PROBLEMS}
    panels = [(n, r) for n, p in PROBLEMS.items() if len(found[n].ways) > 1 for r in p.others]
    across = 3
    down = -(-len(panels) // across)
    figure = Figure(figsize=(4.2 * across, 0.6 + 2.1 * down), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False).ravel()
    for ax, (name, rate) in zip(axes, panels, strict=False):
        _panel(ax, PROBLEMS[name], rate, found[name])
    for ax in axes[len(panels) :]:
        ax.set_axis_off()
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    figure.savefig(path, dpi=72)


def _panel(ax, problem: Problem, rate: Rate, accuracies: Accuracies) -> None:
    ways = accuracies.ways[::-1]
    series = {"at the rate of training": (problem.trained, NOTHING, "o")}
    series |= {f"other rate, told: {told}": (rate, told, mark) for told, mark in MARKS.items()}
    for label, (at, told, mark) in series.items():
        points = [(i, accuracies.of(way, at, told)) for i, way in enumerate(ways)]
        points = [(i, values) for i, values in points if values]
        means = [statistics.mean(values) for _, values in points]
        spans = [
            [m - min(v) for m, (_, v) in zip(means, points, strict=True)],
            [max(v) - m for m, (_, v) in zip(means, points, strict=True)],
        ]
        ax.errorbar(
            means, [i for i, _ in points], xerr=spans, fmt=mark, label=label, ms=6, mfc="none", lw=1
        )
    ax.set_yticks(range(len(ways)), ways, fontsize=8)
    ax.set_ylim(-0.5, len(ways) - 0.5)
    ax.set_title(f"{problem.title}: {problem.trained.name} → {rate.name}", fontsize=8)
    ax.set_xlabel("accuracy, %", fontsize=8)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="x", lw=0.4)
