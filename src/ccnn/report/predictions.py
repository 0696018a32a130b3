"""What the network made of the test set."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccnn.plots import plot_agreement, plot_confusion
from ccnn.report import html
from ccnn.report.draw import figure
from ccnn.report.words import count, percent

_MOST_ROWS = 30


def prediction_section(logits: NDArray[Any] | None, targets: NDArray[Any] | None) -> str:
    """Return the section about the test set: confusions, or predicted over true values."""
    if logits is None or targets is None:
        return ""
    if np.issubdtype(targets.dtype, np.floating):
        return _values(logits, targets)
    matrix = confusion(classes(logits), targets.ravel(), at_least=logits.shape[1:2])
    if matrix is None:
        return ""
    size = min(4.4, 2.6 + 0.18 * len(matrix))
    picture = figure(
        lambda ax: (plot_confusion(matrix, ax=ax), ax.grid(False)),
        caption="Rows are true classes, columns what the network said; "
        "colour is the share of the row, the numbers are test samples.",
        width=size,
        height=size,
    )
    return html.section(
        "The test set, class by class",
        "",
        f'<div class="figures">{picture}{_per_class(matrix)}</div>',
    )


def classes(logits: NDArray[Any]) -> NDArray[np.int64]:
    """Return the predicted class of each sample (or position): (n, C, *S) -> (n · S,)."""
    if logits.ndim == 1 or logits.shape[1] == 1:  # one logit for two classes
        return np.asarray(logits.ravel() > 0, dtype=np.int64)
    return np.asarray(logits.argmax(axis=1).ravel(), dtype=np.int64)


def confusion(
    predicted: NDArray[np.int64], targets: NDArray[Any], *, at_least: tuple[int, ...] = ()
) -> NDArray[np.int64] | None:
    """Count true classes over predicted ones; None where they do not fit each other."""
    if predicted.shape != targets.shape or targets.min() < 0:
        return None
    number = max(int(predicted.max()), int(targets.max()), *(n - 1 for n in at_least)) + 1
    matrix = np.zeros((number, number), dtype=np.int64)
    np.add.at(matrix, (targets.astype(np.int64), predicted), 1)
    return matrix


def _per_class(matrix: NDArray[np.int64]) -> str:
    rows = []
    for i, row in enumerate(matrix):
        total = int(row.sum())
        wrong = row.copy()
        wrong[i] = 0
        other = f"{wrong.argmax()} ({wrong.max()})" if wrong.any() else "–"
        right = percent(100 * row[i] / total) if total else "–"
        rows.append((str(i), count(total), right, other))
    if len(rows) > _MOST_ROWS:
        rows.sort(key=lambda row: float(row[2].removesuffix("%").strip() or 0) if total else 0)
    header = ("class", "samples", "right", "taken for")
    shown = html.table(header, rows[:_MOST_ROWS], bars=2)
    left = len(rows) - _MOST_ROWS
    return shown if left <= 0 else shown + html.paragraph(f"… and {left} classes that do better.")


def _values(logits: NDArray[Any], targets: NDArray[Any]) -> str:
    if logits.size != targets.size:
        return ""
    picture = figure(
        lambda ax: plot_agreement(targets, logits, ax=ax),
        caption="Each dot is one test sample; on the line both are equal.",
        height=3.6,
    )
    return html.section("The test set", "", html.figures(picture))
