"""The page of one run."""

import os
import statistics
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ccnn.plots import plot_history, plot_kernel_sizes, plot_sigmas
from ccnn.report import html
from ccnn.report.comparison import compare
from ccnn.report.draw import figure
from ccnn.report.folder import Metrics, Run, number, read
from ccnn.report.network import kernel_section, mask_figure, parameter_section
from ccnn.report.predictions import prediction_section
from ccnn.report.words import count, duration, paper_accuracy, percent, wilson

AnyPath = str | os.PathLike[str]


def write(
    run: AnyPath | Sequence[AnyPath], out: AnyPath | None = None, *, paper: float | None = None
) -> Path:
    """Write a run as one HTML page that needs nothing but itself.

    What is missing in the folder, because the run is not finished or was damaged, is said on the
    page.

    Parameters
    ----------
    run
        The folder of a run; several are handed to `compare`.
    out
        The page; `report.html` in the (first) folder unless given.
    paper
        The accuracy in percent to lay beside the result; that of the paper for this task and
        model unless given.

    Returns
    -------
    The path of the page.

    Raises
    ------
    FileNotFoundError
        If there is no such folder.
    ValueError
        If the folder holds nothing of a run.
    """
    if not isinstance(run, str | os.PathLike):
        folders = list(run)
        if len(folders) != 1:
            return compare(folders, out)
        run = folders[0]
    content = read(run)
    path = content.folder / "report.html" if out is None else Path(out)
    return html.save(_page(content, paper), path)


def _page(run: Run, paper: float | None) -> str:
    if paper is None:
        paper = paper_accuracy(run.task, run.model_name)
    body = [
        *_opening(run, paper),
        html.notes(run.notes),
        _training_section(run.metrics, run.result.get("best_epoch")),
        prediction_section(run.logits, run.targets),
        "" if run.model is None else kernel_section(run.model),
        _size_section(run),
        "" if run.model is None else parameter_section(run.model),
        _timing_section(run),
        _command_section(run),
    ]
    return html.page(f"{run.task} · {run.model_name}", body)


def _opening(run: Run, paper: float | None) -> list[str]:
    settings = [(key, run.result.get(key)) for key in ("recipe", "seed")]
    about = [run.model_name, *(f"{key} {value}" for key, value in settings if value is not None)]
    tiles = [("test accuracy", percent(run.accuracy))] if run.accuracy is not None else []
    mse = run.score("test", "mse")
    if mse is not None:
        tiles.append(("test mean squared error", f"{mse:.4g}"))
    if paper is not None:
        tiles.append(("in the paper", percent(paper)))
    for name, key, show in (
        ("parameters", "parameters", count),
        ("epochs", "epochs", count),
        ("training samples", "train_samples", count),
        ("time", "seconds", duration),
    ):
        value = number(run.result.get(key))
        if value is not None:
            tiles.append((name, show(value)))
    return [
        "<header>",
        html.paragraph(" · ".join(about), kind="kicker"),
        f"<h1>{html.escape(_headline(run))}</h1>",
        html.paragraph(_lead(run, paper), kind="lead"),
        html.tiles(*tiles),
        "</header>",
    ]


def _headline(run: Run) -> str:
    if run.accuracy is not None:
        return f"{run.task}: {run.accuracy:.2f}\u00a0% right"
    if run.score("test", "mse") is not None:
        return f"{run.task}: a mean squared error of {run.score('test', 'mse'):.4g}"
    return f"{run.task}: not finished"


def _lead(run: Run, paper: float | None) -> str:
    if run.accuracy is None:
        epochs = run.metrics.epochs if run.metrics else []
        return f"{len(epochs)} epochs are on record so far." if not run.result else ""
    text = ""
    if run.targets is not None and 0 <= run.accuracy <= 100:
        samples = run.targets.size
        low, high = wilson(run.accuracy, samples)
        text = (
            f"Measured on {count(samples)} test samples, which leaves it uncertain between "
            f"{low:.1f} and {high:.1f} % (95 % interval)."
        )
    if paper is not None:
        gap = run.accuracy - paper
        side = "above" if gap >= 0 else "below"
        text += f" The paper reports {paper:.2f} %; this run is {abs(gap):.2f} points {side} it."
    return text.strip()


def _training_section(metrics: Metrics | None, best: object) -> str:
    if metrics is None:
        return ""
    kept = best if isinstance(best, int) else None
    parts = [
        _curves(metrics, "loss", "loss", kept),
        _curves(metrics, "accuracy", "accuracy (%)", kept, scale=100),
        _curves(metrics, "mse", "mean squared error", kept),
    ]
    if metrics.has("lr"):
        rates = {"learning rate": metrics.columns["lr"]}
        parts.append(
            figure(
                lambda ax: plot_history(metrics.epochs, rates, ylabel="learning rate", ax=ax),
                caption="Learning rate at the end of each epoch.",
            )
        )
    text = "The dot marks the epoch whose weights were kept." if kept is not None else ""
    return html.section("Training", text, html.figures(*parts))


def _curves(metrics: Metrics, name: str, ylabel: str, best: int | None, scale: float = 1) -> str:
    titles = {"train": f"train_{name}", "validation": f"val_{name}"}
    curves = {
        title: [scale * value for value in metrics.columns[column]]
        for title, column in titles.items()
        if metrics.has(column)
    }
    if not curves:
        return ""
    kept = best if "validation" in curves else None
    caption = f"{name.capitalize() if name != 'mse' else 'Mean squared error'} after each epoch"
    if "validation" in curves:
        last = [v for v in curves["validation"] if np.isfinite(v)][-1]
        caption += f"; the last on the validation set is {last:.4g}{' %' if scale == 100 else ''}"
    return figure(
        lambda ax: plot_history(metrics.epochs, curves, ylabel=ylabel, best=kept, ax=ax),
        caption=caption + ".",
    )


def _size_section(run: Run) -> str:
    parts = ["" if run.model is None else mask_figure(run.model)]
    metrics = run.metrics
    if metrics is not None and metrics.sizes is not None:
        sizes = metrics.sizes
        parts.append(
            figure(
                lambda ax: plot_kernel_sizes(metrics.epochs, sizes, ax=ax),
                caption="Taps of each layer's kernel: as many as its window leaves.",
            )
        )
    if metrics is not None and metrics.sigmas is not None:
        sigmas = metrics.sigmas
        parts.append(
            figure(
                lambda ax: plot_sigmas(metrics.epochs, sigmas, ax=ax),
                caption="Width of each layer's window; 1 is half the longest kernel.",
            )
        )
    text = "A window decides how far a kernel reaches, and its width is learned."
    return html.section("How large the kernels became", text, html.figures(*parts))


def _timing_section(run: Run) -> str:
    rows = []
    seconds = [] if run.metrics is None else run.metrics.columns.get("seconds", [])
    measured = [value for value in seconds if np.isfinite(value)]
    if measured:
        typical = statistics.median(measured)
        rows.append(("Seconds per epoch, median", duration(typical)))
        samples = number(run.result.get("train_samples"))
        if samples is not None and typical > 0:
            rows.append(("Training samples per second", count(samples / typical)))
    if (total := number(run.result.get("seconds"))) is not None:
        rows.append(("Whole run", duration(total)))
    if (hardware := run.result.get("hardware")) is not None:
        rows.append(("Hardware", _flat(hardware)))
    if (versions := run.result.get("versions")) is not None:
        rows.append(("Versions", _flat(versions)))
    return html.section("Time and machine", "", html.facts(rows))


def _flat(value: object) -> str:
    if isinstance(value, dict):
        known = {k: v for k, v in value.items() if v not in (None, "", [], {})}
        return ", ".join(f"{key.replace('_', ' ')} {_flat(item)}" for key, item in known.items())
    return ", ".join(map(_flat, value)) if isinstance(value, list) else str(value)


def _command_section(run: Run) -> str:
    parts = []
    command = run.command or run.result.get("command")
    if command:
        parts.append(html.code(str(command)))
    if run.config_text:
        parts.append(html.details("The whole configuration", html.code(run.config_text)))
    return html.section("To repeat it", "One click selects the command.", *parts)
