"""``ccnn demo``: one network, one recipe, signals of one, two and three dimensions."""

import argparse
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccnn import __version__
from ccnn.cli.text import duration, heading
from ccnn.cli.words import without

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from torch import Tensor, nn

    from ccnn.tasks import Splits
    from ccnn.training.results import Result

SUMMARY = "see in a minute or two what the network is for; needs no data"
USAGE = "[--out FOLDER] [--quick]"
TEXT = """\
Train one small network with one recipe on sequences, images and volumes; test the
image network at a resolution it has never seen, beside a plain CNN; write the report
of a run and figures of its kernels. Offline, and in under three minutes on two cores."""
EXAMPLES = ("ccnn demo", "ccnn demo --out /tmp/demo")
_MARK = "demo.txt"
# One network and one recipe: the words of `ccnn train` that all trainings share.
WORDS = (
    *("model=ccnn_4_48", "model.channels=32", "model.kernel_channels=16", "model.causal=false"),
    *("optim.lr=0.02", "data.batch_size=25", "trainer.max_epochs=10", "seed=0"),
    *("trainer.accelerator=cpu", "trainer.progress=false", "logger.tensorboard=false"),
)
QUICK = ("model.channels=8", "model.blocks=2", "trainer.max_epochs=5", "data.limit=600")


def options(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes."""
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("ccnn-demo"),
        metavar="FOLDER",
        help="where runs, figures and the report go (default: %(default)s)",
    )
    parser.add_argument("--quick", action="store_true", help="seconds, and worse numbers")


def run(arguments: argparse.Namespace) -> int:
    """Show it, with one thread: signals this small gain nothing from more, and numbers repeat."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        _show(arguments)
    finally:
        torch.set_num_threads(threads)
    return 0


def _show(arguments: argparse.Namespace) -> None:
    start = time.perf_counter()
    out: Path = arguments.out
    folders = {name: out / name for name in ("digits-1d", "digits-2d", "solids-3d", "plain-cnn")}
    _make_room(list(folders.values()))
    import torch

    from ccnn.conf import compose
    from ccnn.saving import load

    words = list(WORDS)
    if arguments.quick:
        words = [*without(WORDS, *(word.partition("=")[0] for word in QUICK)), *QUICK]
    config = compose(["task=digits2d", *words])
    print(f"ccnn {__version__}, torch {torch.__version__}, one thread, seed 0")
    _show_dimensions(words, config, folders, quick=arguments.quick)
    network = load(folders["digits-2d"] / "model")
    _show_resolutions(network, config, folders["plain-cnn"])
    _show_files(folders, out)
    print(f"\nDone in {duration(time.perf_counter() - start)}. To try next:\n")
    run_2d = folders["digits-2d"]
    print(f"  ccnn evaluate run={run_2d} spacing=0.5    straight lines between pixels")
    print("  ccnn train task=digits model=ccnn_4_140   the paper's size, every number changeable")
    print("  ccnn tune task=digits model=ccnn_4_48     search a better recipe")
    print("  ccnn tasks                                the paper's tasks, and where data come from")
    print("  your own arrays and layers: docs/quickstart.md, docs/training.md, docs/layers.md")


def _make_room(folders: list[Path]) -> None:
    """Make the folders of the runs; remove what an earlier demo left, refuse what others did."""
    for folder in folders:
        if folder.exists() and not (folder / _MARK).is_file():
            raise FileExistsError(f"{folder} is not of a demo; name another folder by --out")
    for folder in folders:
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        (folder / _MARK).write_text("Written by ccnn demo, and removed by the next one.\n")


def _show_dimensions(
    words: list[str], config: "DictConfig", folders: dict[str, Path], *, quick: bool
) -> None:
    import torch

    from ccnn.cli.demo_data import SOLIDS, make_solids
    from ccnn.conf import compose
    from ccnn.models import CCNN
    from ccnn.run import train

    heading(
        "One network, one recipe, any dimension",
        "4 blocks, AdamW; only the size of the signal differs. Accuracy on samples never seen.",
    )
    row = "  {:<46}  {:>6}  {:>10}  {:>6}  {:>8}"
    print(row.format("trained on", "size", "parameters", "time", "accuracy"))
    for task, name, size, what in (
        ("digits", "digits-1d", "64", "1-D  scikit-learn's digits, pixel by pixel"),
        ("digits2d", "digits-2d", "8×8", "2-D  scikit-learn's digits, as images"),
    ):
        _wait(what)
        result = train(compose([f"task={task}", *words, f"run='{folders[name]}'"]))
        _print_row(row, what, size, result)
    what = f"3-D  generated solids ({', '.join(SOLIDS)})"
    _wait(what)
    solids = make_solids(80 if quick else 400)
    arguments: Any = {**config.model}
    del arguments["name"], arguments["in_channels"]
    torch.manual_seed(0)
    network = CCNN(1, len(SOLIDS), tuple(solids.train.x.shape[2:]), **arguments)
    result = _fit(network, solids, config, folders["solids-3d"], "generated solids")
    _print_row(row, what, "×".join(map(str, solids.train.x.shape[2:])), result)


def _fit(
    network: "nn.Module", splits: "Splits", config: "DictConfig", folder: Path, task: str
) -> "Result":
    """Train on tensors with the recipe of a configuration."""
    from ccnn.run import Labels, fit
    from ccnn.training.settings import Batching, Loggers, Machine, Optim

    return fit(
        network,
        splits,
        optim=Optim(**config.optim),
        batching=Batching(batch_size=config.data.batch_size),
        machine=Machine(max_epochs=config.trainer.max_epochs, accelerator="cpu", progress="none"),
        loggers=Loggers(tensorboard=False),
        folder=folder,
        labels=Labels(task=task, command="ccnn demo"),
    )


def _print_row(row: str, what: str, size: str, result: "Result") -> None:
    cells = (f"{result.parameters:,}", f"{result.seconds:.0f} s", _percent(result.test["accuracy"]))
    print("\r" * sys.stdout.isatty() + row.format(what, size, *cells), flush=True)


def _wait(what: str) -> None:
    """Say on a terminal what is being trained; the row of the result is written over it."""
    if sys.stdout.isatty():
        print(f"  {what}: training …", end="", flush=True)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _show_resolutions(network: "nn.Module", config: "DictConfig", folder: Path) -> None:
    import torch
    import torch.nn.functional as F

    from ccnn.cli.demo_data import PlainCNN
    from ccnn.tasks import TASKS

    heading(
        "The 2-D network on another grid, unchanged",
        "The test digits at 16×16: made by bicubic interpolation of the 8×8 ones, so that they\n"
        "show the same at twice the rate. Both networks were trained at 8×8 with the same recipe.",
    )
    splits = TASKS["digits2d"].load(folder)
    x, y = splits.test.x, splits.test.y
    fine = F.interpolate(x, scale_factor=2, mode="bicubic", align_corners=False)
    torch.manual_seed(0)
    plain = PlainCNN(10, channels=config.model.channels)
    _wait("plain CNN")
    _fit(plain, splits, config, folder, "digits2d")
    row = "  {:<26}  {:>10}  {:>8}  {:>18}  {:>18}"
    header = ("", "parameters", "8×8", "16×16, spacing=½", "16×16, not told")
    print("\r" * sys.stdout.isatty() + row.format(*header))
    told = _percent(_accuracy(network, fine, y, spacing=0.5))
    rows = (("continuous CNN (ccnn)", network, told), ("plain CNN, 3×3 kernels", plain, "-"))
    for name, model, with_spacing in rows:
        parameters = f"{sum(p.numel() for p in model.parameters()):,}"
        coarse, untold = _accuracy(model, x, y), _accuracy(model, fine, y)
        print(row.format(name, parameters, _percent(coarse), with_spacing, _percent(untold)))


def _accuracy(model: "nn.Module", x: "Tensor", y: "Tensor", *, spacing: float = 1.0) -> float:
    from ccnn.training.evaluation import outputs_of

    outputs = outputs_of(model, x, spacing=spacing)
    return float((outputs.argmax(dim=1) == y).double().mean())


def _show_files(folders: dict[str, Path], out: Path) -> None:
    """Draw learned kernels, write the reports, and say where they are."""
    from ccnn import plots, report
    from ccnn.models import CCNN
    from ccnn.saving import load

    heading("To look at")
    names = ("digits-1d", "digits-2d", "solids-3d")
    networks = [load(folders[name] / "model") for name in names]
    layers = [list(n.convolutions())[1] for n in networks if isinstance(n, CCNN)]
    axes = plots.panels(3)
    for ax, layer in zip(axes, layers, strict=True):
        plots.plot_kernel(layer, spacing=0.25, channels=range(3) if layer.dim == 1 else 0, ax=ax)
        ax.set_title(f"{layer.dim}-D" + (", middle slice" if layer.dim > 2 else ""))
    plots.save_figure(axes[0], out / "dimensions.png")
    (ax,) = plots.panels(width=6)
    plots.plot_resolutions(layers[0], (0.25, 1.0, 2.0), ax=ax)
    ax.set_title("one learned kernel at three resolutions")
    plots.save_figure(ax, out / "resolutions.png")
    for text, path in (
        ("the 2-D run, all of it", report.write(folders["digits-2d"], out / "report.html")),
        (
            "digits in 1-D against 2-D",
            report.compare([folders[n] for n in names[:2]], out / "comparison.html"),
        ),
        ("learned kernels in 1-D, 2-D, 3-D", out / "dimensions.png"),
        ("one of them at three resolutions", out / "resolutions.png"),
    ):
        print(f"  {text:<34}{path}")
