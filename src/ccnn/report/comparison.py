"""The page of several runs beside each other."""

import os
from collections.abc import Sequence
from pathlib import Path

from ccnn.plots import plot_dimensions, plot_history
from ccnn.report import html
from ccnn.report.draw import figure
from ccnn.report.folder import Run, number, read
from ccnn.report.network import convolutions
from ccnn.report.words import count, duration, paper_accuracy, percent, wilson

# One data set under several names, since as a sequence and as an image it is two tasks.
_DATA_SETS = {
    "smnist": "MNIST",
    "pmnist": "MNIST, permuted",
    "mnist": "MNIST",
    "scifar10": "CIFAR-10",
    "cifar10": "CIFAR-10",
}
_DIMENSIONS = ("1d", "2d", "3d", "_1d", "_2d", "_3d")


def compare(
    runs: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str] | None = None
) -> Path:
    """Write two or more runs beside each other as one HTML page.

    Its first figure is the paper's comparison of a network on sequences with one on images of the
    same data.

    Parameters
    ----------
    runs
        The folders.
    out
        The page; `comparison.html` in the first folder unless given.

    Returns
    -------
    The path of the page.
    """
    if isinstance(runs, str | os.PathLike) or len(runs) < 2:
        raise ValueError("expected the folders of two runs or more; `write` is for one")
    contents = [read(run) for run in runs]
    path = contents[0].folder / "comparison.html" if out is None else Path(out)
    names = _names(contents)
    body = [
        "<header>",
        html.paragraph(f"{len(contents)} runs", kind="kicker"),
        f"<h1>{html.escape(_headline(contents, names))}</h1>",
        html.paragraph(_lead(contents), kind="lead"),
        "</header>",
        html.notes(
            [f"{n}: {note}" for n, r in zip(names, contents, strict=True) for note in r.notes]
        ),
        _dimension_section(contents, names),
        _table_section(contents, names),
        _curve_section(contents, names),
        _command_section(contents, names),
    ]
    return html.save(html.page(" · ".join(names), body), path)


def dimension(run: Run) -> int | None:
    """Return D of the run's model, as far as it can be known."""
    layers = [] if run.model is None else convolutions(run.model)
    if layers:
        return layers[0].dim
    sizes = None if run.metrics is None else run.metrics.sizes
    return None if sizes is None else int(sizes.shape[2])


def _names(runs: Sequence[Run]) -> list[str]:
    """Name each run by its task, and by what else is needed to tell them apart."""
    candidates = (
        lambda run: run.task,
        lambda run: f"{run.task}, {run.model_name}",
        lambda run: f"{run.task}, {run.model_name}, seed {run.result.get('seed', '?')}",
        lambda run: run.folder.resolve().name,
        lambda run: str(run.folder),
    )
    for name in candidates:
        names = [name(run) for run in runs]
        if len(set(names)) == len(names):
            return names
    return [f"{run.folder} ({i + 1})" for i, run in enumerate(runs)]


def _headline(runs: Sequence[Run], names: Sequence[str]) -> str:
    scored = [(r.accuracy, n) for r, n in zip(runs, names, strict=True) if r.accuracy is not None]
    if len(scored) < 2:
        return " against ".join(names)
    return ", ".join(f"{name} {value:.2f}\u00a0%" for value, name in sorted(scored, reverse=True))


def _lead(runs: Sequence[Run]) -> str:
    """Say whether the best and the worst run can be told apart by their test sets."""
    known = [
        (run.accuracy, run.targets.size)
        for run in runs
        if run.accuracy is not None and run.targets is not None and 0 <= run.accuracy <= 100
    ]
    if len(known) < 2:
        return ""
    low, high = min(known), max(known)
    text = f"{high[0] - low[0]:.2f} points lie between the best and the worst. "
    if wilson(*high)[0] <= wilson(*low)[1]:
        return text + "On test sets of this size that may be chance: their 95 % intervals overlap."
    return text + "Their 95 % intervals, as the size of the test sets gives them, do not overlap."


def _data_set(run: Run) -> str:
    name = run.task
    for ending in _DIMENSIONS:
        name = name.removesuffix(ending)
    return _DATA_SETS.get(name, name)


def _dimension_section(runs: Sequence[Run], names: Sequence[str]) -> str:
    rows: dict[str, dict[str, float]] = {}
    for run, name in zip(runs, names, strict=True):
        if run.accuracy is None:
            continue
        # A pair is a pair, whatever it is called: its two runs share a row.
        row = rows.setdefault("" if len(runs) == 2 else _data_set(run), {})
        d = dimension(run)
        label = name if d is None else f"{d}-D"
        row[label if label not in row else name] = run.accuracy
    if not rows:
        return ""
    if "" in rows:
        rows = {" / ".join(dict.fromkeys(map(_data_set, runs))): rows[""]}
    picture = figure(
        lambda ax: (plot_dimensions(rows, ax=ax), ax.grid(False)),
        caption="Accuracy on the test set. The axis does not begin at zero.",
        width=4.8,
        height=1.3 + 0.75 * len(rows),
        wide=True,
    )
    text = (
        "An image can be read as a sequence of pixels, or as an image. The network is the same, "
        "its kernels are functions of one coordinate or of two."
        if {dimension(run) for run in runs} >= {1, 2}
        else ""
    )
    return html.section("1-D against 2-D" if text else "Accuracy", text, html.figures(picture))


def _table_section(runs: Sequence[Run], names: Sequence[str]) -> str:
    rows = []
    for run, name in zip(runs, names, strict=True):
        d = dimension(run)
        rows.append(
            (
                name,
                run.model_name,
                "–" if d is None else str(d),
                percent(run.accuracy),
                percent(paper_accuracy(run.task, run.model_name)),
                count(number(run.result.get("parameters"))),
                count(number(run.result.get("epochs"))),
                str(run.result.get("seed", "–")),
                duration(number(run.result.get("seconds"))),
            )
        )
    header = ["run", "model", "D", "accuracy", "paper", "parameters", "epochs", "seed", "time"]
    return html.section("The runs", "", html.table(header, rows))


def _curve_section(runs: Sequence[Run], names: Sequence[str]) -> str:
    parts = [
        _curves(runs, names, "val_accuracy", "validation accuracy (%)", 100),
        _curves(runs, names, "val_mse", "validation mean squared error", 1),
        _curves(runs, names, "val_loss", "validation loss", 1),
        _curves(runs, names, "train_loss", "training loss", 1),
        _curves(runs, names, "lr", "learning rate", 1),
    ]
    return html.section("Curves over each other", "", html.figures(*parts))


def _curves(
    runs: Sequence[Run], names: Sequence[str], column: str, ylabel: str, scale: float
) -> str:
    shown = {
        name: run.metrics
        for run, name in zip(runs, names, strict=True)
        if run.metrics is not None and run.metrics.has(column)
    }
    if not shown:
        return ""
    epochs = sorted({epoch for metrics in shown.values() for epoch in metrics.epochs})
    curves = {}
    for name, metrics in shown.items():
        known = dict(zip(metrics.epochs, metrics.columns[column], strict=True))
        curves[name] = [scale * known.get(epoch, float("nan")) for epoch in epochs]
    return figure(
        lambda ax: plot_history(epochs, curves, ylabel=ylabel, ax=ax),
        caption=f"{ylabel.capitalize()} after each epoch.",
    )


def _command_section(runs: Sequence[Run], names: Sequence[str]) -> str:
    parts = [
        f"<h3>{html.escape(name)}</h3>{html.code(str(run.command or run.result.get('command')))}"
        for run, name in zip(runs, names, strict=True)
        if run.command or run.result.get("command")
    ]
    return html.section("To repeat them", "One click selects a command.", *parts)
