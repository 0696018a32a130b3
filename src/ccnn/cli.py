"""The command line: ``ccnn demo``."""

import argparse
import io
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ccnn import __version__

if TYPE_CHECKING:
    from torch import Tensor

    from ccnn.nn.conv import SeparableFlexConv

_ALIGN = {"<": str.ljust, ">": str.rjust}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 1 (it failed) or 2 (it was not understood)."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without Greek letters
    parser = _parser()
    try:
        arguments = parser.parse_args(argv)
    except SystemExit as stop:
        return int(stop.code or 0)
    if arguments.verb is None:
        parser.print_help(sys.stderr)
        return 2
    try:
        demo(arguments.out)
    except OSError as error:
        print(f"ccnn: {error}", file=sys.stderr)
        return 1
    return 0


class _Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        message = message.replace("argument COMMAND: invalid choice:", "there is no command")
        self.exit(2, f"ccnn: {message}; see ccnn --help\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="ccnn",
        description="Continuous convolutional networks: signals of any length, resolution and "
        "dimension.",
        epilog="ccnn COMMAND --help says more about a command.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"ccnn {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="COMMAND", title="commands")
    text = "build the network in 1-D, 2-D and 3-D, check what it promises, draw its kernels"
    verb = verbs.add_parser("demo", help=text, description=text, allow_abbrev=False)
    verb.add_argument(
        "--out",
        type=Path,
        default=Path("ccnn-demo"),
        metavar="FOLDER",
        help="where the figures go (default: %(default)s)",
    )
    return parser


def demo(out: Path) -> None:
    """Show in half a minute what the network is and that it keeps its promises."""
    import torch

    out.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    print(f"ccnn {__version__}, torch {torch.__version__}, {torch.get_num_threads()} threads")
    torch.manual_seed(0)
    _show_dimensions()
    _show_initialisation()
    _show_resolutions()
    _show_padding()
    _draw(out)
    print(f"\nDone in {time.perf_counter() - start:.0f} s. To try next:\n")
    print("  - put your own numbers in: README.md, 'Quick start'")
    print("  - one layer in your own network: docs/layers.md")
    print("  - other sampling rates, padded batches, missing samples: docs/resolution.md")
    print("  - what of the paper is where, and what holds it: docs/paper.md")


def _show_dimensions() -> None:
    import torch

    from ccnn.models import create_model

    _heading("One class, any dimension", 'create_model("ccnn_4_140", size=...), four signals')
    rows = []
    for what, size in (("sequence", (784,)), ("image", (32, 32)), ("volume", (12, 12, 12))):
        model = create_model("ccnn_4_140", in_channels=1, out_channels=10, size=size).eval()
        x = torch.randn(4, 1, *size)
        with torch.inference_mode():
            shape = tuple(model(x).shape)  # also warms up
            begin = time.perf_counter()
            model(x)
            elapsed = 1000 * (time.perf_counter() - begin)
        parameters = sum(p.numel() for p in model.parameters())
        rows.append(
            (f"{len(size)}-D", what, str(size), f"{parameters:,}", f"{elapsed:.0f} ms", str(shape))
        )
    _table(("", "signal", "size", "parameters", "forward", "output"), rows, "<<<>><")


def _show_initialisation() -> None:
    _heading(
        "The scale of a fresh network",
        'white noise through "ccnn_4_140" in training mode, size (784,), causal;\n'
        "a kernel with energy Σk² = 1 keeps the variance of white noise",
    )
    ours, plain = _scales("energy"), _scales("none")
    rows = [(*a, *b[1:]) for a, b in zip(ours, plain, strict=True)]
    header = ("after", "std", "Σk² from", "to", 'init="none": std', "Σk² from", "to")
    _table(header, rows, "<>>>>>>")


def _scales(init: str) -> list[tuple[str, str, str, str]]:
    """Return one row for the stem, each block and the logits: name, std, least and most Σk²."""
    import torch

    from ccnn.models import create_model

    torch.manual_seed(0)
    model = create_model(
        "ccnn_4_140", in_channels=1, out_channels=10, size=(784,), causal=True, init=init
    )
    stds: list[float] = []
    for module in (model.stem, *model.blocks):
        module.register_forward_hook(lambda _, __, output: stds.append(float(output.std())))
    with torch.no_grad():
        logits = model(torch.randn(8, 1, 784))
        energies = [c.sampled_kernel().square().sum(dim=-1) for c in model.convolutions()]
    names = ["stem", *(f"block {i + 1}" for i in range(len(model.blocks)))]
    rows = [
        (name, _number(std), _number(float(e.min())), _number(float(e.max())))
        for name, std, e in zip(names, stds, energies, strict=True)
    ]
    return [*rows, ("logits", _number(float(logits.std())), "", "")]


def _show_resolutions() -> None:
    import torch

    from ccnn.domain import Grid

    _heading(
        "One kernel, any resolution: Eq. (1)",
        "one layer, one smooth signal, sampled at three spacings; channel 0 of the response",
    )
    layer = _smooth_layer()
    with torch.no_grad():
        responses = {s: layer(_smooth_signal(s), Grid(spacing=s))[0] for s in (0.5, 1.0, 2.0)}
        untold = {s: layer(_smooth_signal(s))[0] for s in responses}
    reference = _shared(responses[1.0], 1.0)
    rows = []
    for s, response in responses.items():
        values = _shared(response, s)
        rows.append(
            (
                f"Grid(spacing={s:g})",
                str(response.shape[-1]),
                *(f"{v:+.3f}" for v in values[0, 24:40:4].tolist()),
                f"{_difference(values, reference):.1%}",
                f"{_difference(_shared(untold[s], s), reference):.0%}",
            )
        )
    places = [f"at {4 * i}" for i in range(24, 40, 4)]
    _table(("", "samples", *places, "off by", "if not told"), rows, "<>>>>>>>")


def _smooth_layer() -> "SeparableFlexConv":
    import torch

    from ccnn.nn import SeparableFlexConv

    torch.manual_seed(0)
    return SeparableFlexConv(4, 4, size=(257,))


def _smooth_signal(spacing: float) -> "Tensor":
    """Return four sines under a bell, (1, 4, S), over 257 training samples."""
    import torch

    t = torch.arange(0, 257, spacing)
    bell = torch.exp(-(((t - 128) / 50) ** 2))
    return torch.stack([torch.sin(t / period) * bell for period in (6, 8, 10, 12)])[None]


def _shared(response: "Tensor", spacing: float) -> "Tensor":
    """Return every fourth training sample, which all three grids have."""
    return response[..., :: round(4 / spacing)]


def _difference(x: "Tensor", reference: "Tensor") -> float:
    return float((x - reference).norm() / reference.norm())


def _show_padding() -> None:
    import torch

    from ccnn.domain import Grid
    from ccnn.models import create_model

    _heading(
        "Padding never changes a result", "Grid(lengths=...), and NaN wherever there is no sample"
    )
    torch.manual_seed(0)
    model = create_model("ccnn_4_140", in_channels=1, out_channels=10, size=(200,)).eval()
    lengths = (200, 117, 40)
    signals = [torch.randn(1, 1, n) for n in lengths]
    batch = torch.full((len(lengths), 1, max(lengths)), torch.nan)
    for row, signal in zip(batch, signals, strict=True):
        row[:, : signal.shape[-1]] = signal[0]
    with torch.inference_mode():
        together = model(batch, Grid(lengths=lengths))
        alone = torch.cat([model(signal) for signal in signals])
    rows = [
        (
            str(n),
            f"{a[0].item():+.6f}",
            f"{b[0].item():+.6f}",
            f"{float((a - b).abs().max() / b.abs().max()):.0e}",
        )
        for n, a, b in zip(lengths, together, alone, strict=True)
    ]
    header = ("length", "in the batch", "alone", "largest difference, relative")
    _table(header, rows, ">>>>")


def _draw(out: Path) -> None:
    import torch

    from ccnn.nn import GaussianMask, SeparableFlexConv

    try:
        from ccnn import plots
    except ImportError:
        _heading("Figures", "none: they need matplotlib (pip install matplotlib)")
        return
    torch.manual_seed(0)
    (ax,) = plots.panels(width=6)
    plots.plot_resolutions(_smooth_layer(), (0.5, 1.0, 2.0), ax=ax)
    ax.set_title("one kernel at three resolutions")
    resolutions = out / "resolutions.png"
    plots.save_figure(ax, resolutions)

    axes = plots.panels(3)
    for ax, size in zip(axes, ((33,), (33, 33), (33, 33, 33)), strict=True):
        layer = SeparableFlexConv(4, 4, size=size, mask=GaussianMask(len(size), sigma=0.3))
        plots.plot_kernel(layer, spacing=0.5, channels=range(3) if len(size) == 1 else 0, ax=ax)
        ax.set_title(f"{len(size)}-D" + (", middle slice" if len(size) > 2 else ""))
    dimensions = out / "dimensions.png"
    plots.save_figure(axes[0], dimensions)
    _heading(
        "Figures",
        f"{resolutions}   one kernel at spacing 0.5, 1 and 2\n"
        f"{dimensions}    kernels in 1-D, 2-D and 3-D",
    )


def _heading(title: str, text: str) -> None:
    print(f"\n{title}\n{'─' * len(title)}")
    print("".join(f"  {line}\n" for line in text.splitlines()))


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], align: str) -> None:
    """Print columns aligned to the left (<) or right (>)."""
    table = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = [_ALIGN[a](c, w) for c, w, a in zip(row, widths, align, strict=True)]
        print(("  " + "   ".join(cells)).rstrip())


def _number(x: float) -> str:
    """Return three or more significant digits."""
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.1f}" if abs(x) >= 10 else f"{x:.2f}"


if __name__ == "__main__":
    sys.exit(main())
