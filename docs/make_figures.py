"""Draw the figures of the documentation: `.venv/bin/python docs/make_figures.py`.

What a figure shows was measured before, by the command that stands beside it in the text; the
numbers lie in ``docs/measured``.
"""

import argparse
import csv
import sys
from pathlib import Path

import torch

from ccnn import nn, plots
from ccnn.nn.init import gabor_spread
from ccnn.nn.masks import default_sigma

DOCS = Path(__file__).resolve().parent
HERE = DOCS / "figures"
MEASURED = DOCS / "measured"
DPI = 90


def smnist_layer(omega_0: float | str) -> nn.SeparableFlexConv:
    """Return a layer as in the paper's network for 784 pixels; the seed is always the same."""
    torch.manual_seed(0)
    spread = gabor_spread([default_sigma(784)])
    kernel = nn.MAGNet(1, 140, omega_0=omega_0, spread=spread, causal=True)
    return nn.SeparableFlexConv(140, 140, size=(784,), kernel=kernel, causal=True)


def spectrum(path: Path) -> None:
    (ax,) = plots.panels(width=6, height=3.6)
    for omega_0 in ("auto", 2976.49):
        plots.plot_spectrum(smnist_layer(omega_0), label=f"omega_0={omega_0!r}", ax=ax)
    ax.set_title("kernels of 784 samples, before training")
    plots.save_figure(ax, path, dpi=DPI)


def resolutions(path: Path) -> None:
    torch.manual_seed(0)
    layer = nn.SeparableFlexConv(4, 4, size=(129,))
    (ax,) = plots.panels(width=6, height=3.2)
    plots.plot_resolutions(layer, (0.5, 1.0, 2.0), ax=ax)
    plots.save_figure(ax, path, dpi=DPI)


def dimensions(path: Path) -> None:
    torch.manual_seed(0)
    axes = plots.panels(3, width=3.6, height=2.8)
    for ax, size in zip(axes, ((33,), (33, 33), (33, 33, 33)), strict=True):
        layer = nn.SeparableFlexConv(4, 4, size=size, mask=nn.GaussianMask(len(size), sigma=0.3))
        plots.plot_kernel(layer, spacing=0.5, channels=range(3) if len(size) == 1 else 0, ax=ax)
        ax.set_title(f"{len(size)}-D" + (", middle slice" if len(size) > 2 else ""))
    plots.save_figure(axes[0], path, dpi=DPI)


def rows(name: str) -> list[dict[str, str]]:
    with (MEASURED / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def speed(path: Path) -> None:
    from speed import plot

    plot(rows("speed.csv"), path)


def irregular(path: Path) -> None:
    from irregular_report import plot

    plot(rows("irregular.csv"), path)


def resolution(path: Path) -> None:
    from resolution_report import draw

    draw(rows("resolution.csv"), path)


def one_and_two(path: Path) -> None:
    accuracies: dict[str, dict[str, float]] = {}
    for row in rows("one_and_two.csv"):
        accuracies.setdefault(row["data"], {})[row["dimension"]] = float(row["accuracy"])
    (ax,) = plots.panels(width=6.5, height=2.6)
    plots.plot_dimensions(accuracies, ax=ax)
    plots.save_figure(ax, path, dpi=DPI)


def main(folder: Path = HERE) -> None:
    folder.mkdir(exist_ok=True)
    sys.path.insert(0, str(DOCS.parent / "benchmarks"))  # which draw their own results
    spectrum(folder / "spectrum.png")
    resolutions(folder / "resolutions.png")
    dimensions(folder / "dimensions.png")
    speed(folder / "speed.png")
    one_and_two(folder / "one_and_two.png")
    irregular(folder / "irregular.png")
    resolution(folder / "resolution.png")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE)
    main(parser.parse_args().out)
