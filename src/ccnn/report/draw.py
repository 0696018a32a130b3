"""Figures as inline SVG whose ink follows the page, light or dark."""

import io
import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Colours that stand for a role; the page's style sheet says what they are.
_ROLES = {"#101112": "ink", "#707172": "muted", "#d0d1d2": "line"}
_INK, _MUTED, _LINE = _ROLES
_SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.size": 10,
    "text.color": _INK,
    "axes.edgecolor": _LINE,
    "axes.labelcolor": _MUTED,
    "axes.labelsize": 9.5,
    "axes.titlesize": 10,
    "axes.titlecolor": _INK,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": _LINE,
    "grid.linewidth": 0.6,
    "xtick.color": _LINE,
    "ytick.color": _LINE,
    "xtick.labelcolor": _MUTED,
    "ytick.labelcolor": _MUTED,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "ytick.major.size": 0,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "legend.frameon": False,
    "image.interpolation": "none",
}
_numbers = itertools.count()


@contextmanager
def page_style() -> Iterator[None]:
    """Draw as the page wants it, and leave matplotlib's settings as they were."""
    with style.context(_SETTINGS):
        yield


def figure(
    draw: Callable[..., object],
    *,
    caption: str,
    columns: int = 1,
    width: float = 4.2,
    height: float = 2.7,
    wide: bool = False,
) -> str:
    """Return an HTML figure; ``draw`` gets one axes, or several where there are columns."""
    with page_style():
        canvas = Figure(figsize=(width, height), layout="constrained")
        axes = list(canvas.subplots(1, columns, squeeze=False)[0])
        draw(*axes)
        for ax in axes:
            _recolour(ax)
        picture = _svg(canvas, caption)
    kind = ' class="wide"' if wide else ""
    return f"<figure{kind}>{picture}<figcaption>{escape(caption)}</figcaption></figure>"


def _recolour(ax: Axes) -> None:
    """Give lines that plots draws in a fixed grey the page's own grey."""
    for line in ax.get_lines():
        if line.get_color() in ("0.6", "0.7", "0.8"):
            line.set_color(_MUTED if line.get_color() == "0.7" else _LINE)


def _svg(canvas: Figure, label: str) -> str:
    file = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    canvas.savefig(file, format="svg", metadata=nothing)
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r' (?:xmlns(?::xlink)?|version)="[^"]*"', "", text)
    text = text.replace("xlink:href", "href")
    # Names of one figure must not be those of another on the same page.
    prefix = f"f{next(_numbers)}-"
    text = re.sub(r'( id="|url\(#|href="#)', rf"\g<1>{prefix}", text)
    text = re.sub(r"font: ([^;\"]*?)'[^;\"]*", r"font: \1var(--font)", text)
    for colour, role in _ROLES.items():
        text = text.replace(colour, f"var(--{role})")
    text = re.sub(
        r'^<svg width="([\d.]+)pt" height="([\d.]+)pt"',
        lambda m: f'<svg role="img" aria-label="{escape(label)}"',
        text,
    )
    return text.strip()
