"""What was learned: the kernels, their windows, and where the parameters are."""

import math
import re
from collections.abc import Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from torch import nn

from ccnn.nn.conv import AbstractContinuousConv
from ccnn.nn.kernels import AbstractKernelNet
from ccnn.nn.masks import GaussianMask
from ccnn.nn.norm import BatchNorm, LayerNorm
from ccnn.plots import plot_kernel, plot_masks, plot_resolutions
from ccnn.plots.colours import BLUE, RED, SERIES, fading
from ccnn.report import html
from ccnn.report.draw import figure
from ccnn.report.words import count

_SPACINGS = (2.0, 1.0, 0.5)
_NEAR = 12  # training samples to either side of lag zero, where resolutions are compared
_MOST_LAYERS = 12
_ROLES: dict[type[nn.Module], str] = {
    AbstractKernelNet: "kernel network",
    GaussianMask: "window",
    BatchNorm: "normalisation",
    LayerNorm: "normalisation",
}
_REST = "mixing and bias"


def convolutions(model: nn.Module) -> list[AbstractContinuousConv]:
    """Return the continuous convolutions of a model, in order of depth."""
    return [m for m in model.modules() if isinstance(m, AbstractContinuousConv)]


def kernel_section(model: nn.Module) -> str:
    """Return the section that shows each layer's strongest kernel at several resolutions."""
    layers = convolutions(model)[:_MOST_LAYERS]
    if not layers:
        return ""
    draw = _draw_lines if layers[0].dim == 1 else _draw_images
    text = "Of each layer the kernel with the most energy. It is a function of position, so it "
    text += (
        "can be sampled on any grid: on the left as training uses it; on the right, the "
        "shaded part on three grids, whose samples lie on one curve."
        if layers[0].dim == 1
        else "can be sampled on any grid: here with twice the spacing of the training grid, with "
        "the same, and with half of it. Blue is negative, red positive."
    )
    if layers[0].dim > 2:
        text += " Slices through the middle."
    parts = [draw(layer, name) for layer, name in zip(layers, _names(model), strict=False)]
    return html.section("The learned kernels", text, html.figures(*parts, large=True))


def mask_figure(model: nn.Module) -> str:
    """Return the windows of all layers above each other."""
    layers = [layer for layer in convolutions(model) if layer.mask is not None]
    if not layers:
        return ""
    several = layers[0].dim > 1
    return figure(
        lambda ax: (plot_masks(layers, ax=ax), ax.grid(False), ax.set_ylabel("")),
        caption="The window of each layer over depth, as far as it is not cut"
        + ("; broken lines are the further axes." if several else "."),
        height=max(2.7, 0.55 + 0.38 * len(layers)),
    )


def _names(model: nn.Module) -> list[str]:
    """Return `Stem`, `Block 1`, … for the convolutions, `Block 1, second` where it has two."""
    names = []
    for path, module in model.named_modules():
        if isinstance(module, AbstractContinuousConv):
            found = re.search(r"blocks\.(\d+)\.", path)
            block = f"Block {int(found[1]) + 1}" if found else "Stem"
            names.append(f"{block}, second" if path.endswith(".conv2") else block)
    return names


@torch.no_grad()
def _strongest(layer: AbstractContinuousConv) -> int:
    kernel = layer.sampled_kernel()
    flat = kernel.flatten(1) if layer.depthwise else kernel.flatten(0, 1).flatten(1)
    return int(flat.square().sum(dim=1).argmax())


def _taps(layer: AbstractContinuousConv, spacing: float) -> str:
    shape = layer.sampled_kernel(spacing).shape[-layer.dim :]
    return "×".join(map(str, shape))


def _draw_lines(layer: AbstractContinuousConv, name: str) -> str:
    chosen = _strongest(layer)

    def draw(whole: Axes, near: Axes) -> None:
        plot_kernel(layer, channels=chosen, ax=whole)
        line = whole.get_lines()[0]
        line.set(color=BLUE, linewidth=1.2, markersize=3)
        plot_resolutions(layer, _SPACINGS, channel=chosen, ax=near)
        middle = _peak(line.get_xdata(), line.get_ydata())
        ends = whole.get_xlim()
        whole.axvspan(middle - _NEAR, middle + _NEAR, color=BLUE, alpha=0.1, linewidth=0)
        whole.set_xlim(ends)
        _zoom(near, middle - _NEAR, middle + _NEAR)
        for samples, colour in zip(near.get_lines()[1:], SERIES, strict=False):
            samples.set(color=colour, markeredgewidth=1.2)
        near.legend(fontsize=7.5, loc="upper left", handletextpad=0.2, borderaxespad=0)
        for ax in (whole, near):
            ax.set(ylabel="", xlabel="position")
            ax.xaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))

    caption = f"{name}: {_taps(layer, 1.0)} taps, kernel {chosen} of {layer.kernel_count}."
    return figure(draw, caption=caption, columns=2, width=5.2, height=2.4)


def _peak(positions: object, values: object) -> float:
    x, y = torch.as_tensor(positions), torch.as_tensor(values)
    return float(x[int(y.abs().argmax())])


def _zoom(ax: Axes, left: float, right: float) -> None:
    """Show a part of the x-axis, with the y-axis fitted to it and room for a legend."""
    x, y = (torch.as_tensor(v) for v in ax.get_lines()[0].get_data())
    inside = y[(x >= left) & (x <= right)]
    if not len(inside):
        return
    low, high = float(inside.min()), float(inside.max())
    height = (high - low) or 1.0
    ax.set_xlim(max(left, float(x.min())) - 0.5, min(right, float(x.max())) + 0.5)
    ax.set_ylim(low - 0.08 * height, high + 0.55 * height)


def _draw_images(layer: AbstractContinuousConv, name: str) -> str:
    chosen = _strongest(layer)

    def draw(*axes: Axes) -> None:
        for ax, spacing in zip(axes, _SPACINGS, strict=True):
            plot_kernel(layer, spacing=spacing, channels=chosen, colorbar=False, ax=ax)
            ax.get_images()[0].set_cmap(fading(BLUE, RED))
            ax.set_title(f"spacing {spacing:g}", fontsize=9)
            ax.set(xlabel="", ylabel="")
            ax.grid(False)
            ax.tick_params(labelsize=7.5)
            ax.locator_params(nbins=4)
        _share_limits(axes)

    taps = ", ".join(_taps(layer, spacing) for spacing in _SPACINGS)
    caption = f"{name}: {taps} taps, kernel {chosen} of {layer.kernel_count}."
    return figure(draw, caption=caption, columns=3, width=5.2, height=1.95)


def _share_limits(axes: Sequence[Axes]) -> None:
    """Give all images the frame of the largest, that one position is at one place."""
    right = max(abs(ax.get_xlim()[1]) for ax in axes)
    bottom = max(abs(ax.get_ylim()[0]) for ax in axes)
    for ax in axes:
        ax.set_xlim(-right, right)
        ax.set_ylim(bottom, -bottom)


def parameter_section(model: nn.Module) -> str:
    """Return the table of parameters: where they are, and what they are for."""
    table = parameters_by_part(model)
    known = dict.fromkeys((*_ROLES.values(), _REST))
    roles = [role for role in known if any(role in row for row in table.values())]
    total = sum(sum(row.values()) for row in table.values())
    rows = [
        (
            place,
            *(count(row[role]) if role in row else "–" for role in roles),
            count(sum(row.values())),
            f"{100 * sum(row.values()) / max(total, 1):.1f} %",
        )
        for place, row in table.items()
    ]
    sums = [sum(row.get(role, 0) for row in table.values()) for role in roles]
    rows.append(("all", *map(count, sums), count(total), "100.0 %"))
    text = f"{count(total)} parameters. Their number does not depend on the length of the signal."
    header = ("part", *roles, "together", "share")
    return html.section("Parameters", text, html.table(header, rows, bars=len(header) - 1))


def parameters_by_part(model: nn.Module) -> dict[str, dict[str, int]]:
    """Count parameters by place (stem, each block, ...) and by what they are for."""
    roles: dict[int, str] = {}
    for module in model.modules():
        for kind, role in _ROLES.items():
            if isinstance(module, kind):
                roles |= {id(p): role for p in module.parameters()}
    table: dict[str, dict[str, int]] = {}
    for name, parameter in model.named_parameters():
        row = table.setdefault(_place(name), {})
        role = roles.get(id(parameter), _REST)
        row[role] = row.get(role, 0) + math.prod(parameter.shape)
    return table


def _place(name: str) -> str:
    """Return `block 2` for `blocks.1.conv.bias`, `stem` for `stem.bias`."""
    first, *rest = name.split(".")
    if rest and rest[0].isdigit():
        return f"{first.removesuffix('s')} {int(rest[0]) + 1}"
    return first.replace("_", " ")
