"""``ccnn tasks``: what can be trained on."""

import argparse
import os
import textwrap
from pathlib import Path

from ccnn.cli.text import table
from ccnn.cli.words import assignments

SUMMARY = "list the tasks: size, the paper's accuracy, where data come from"
USAGE = "[data.root=FOLDER]"
TEXT = """\
List every task: its size, its classes, the samples for training, validation and
test, the paper's accuracy for ccnn_4_140 and ccnn_6_380, and whether its data are
in the data folder: data.root=, else the variable CCNN_DATA, else ./data.
"here" means that `ccnn train task=NAME` can start."""
EXAMPLES = ("ccnn tasks", "ccnn tasks data.root=/datasets")


def options(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes."""
    parser.add_argument("words", nargs="*", metavar="data.root=FOLDER", help="where data are")


def run(arguments: argparse.Namespace) -> int:
    """Print the table."""
    from ccnn.tasks import TASKS

    values = assignments(arguments.words, ("data.root",))
    root = Path(values.get("data.root") or os.environ.get("CCNN_DATA") or "data").expanduser()
    rows = []
    sources: dict[str, list[str]] = {}
    for task in TASKS.values():
        state = "here" if task.present(root) else "absent"
        rows.append(
            (
                task.name,
                "×".join(map(str, task.size)),
                str(task.in_channels),
                str(task.classes),
                *(f"{n:,}" for n in task.counts),
                *(_percent(task.paper.get(model)) for model in ("ccnn_4_140", "ccnn_6_380")),
                state,
            )
        )
        sources.setdefault(task.source, []).append(task.name)
    header = ("task", "size", "C", "classes", "train", "val", "test", "4,140", "6,380", "data")
    table(header, rows, "<>>>>>>>><")
    print(
        "\n  C: channels. 4,140 and 6,380: the paper's test accuracy in per cent."
        f"\n  data: whether they are in {root}. They come from\n"
    )
    for source, names in sources.items():
        print(f"  {', '.join(names)}:\n      {source}")
    print("  npz, folder:\n      your own: arrays in a file, or class folders of WAV, PNG or NPY")
    fetched = ", ".join(task.name for task in TASKS.values() if task.fetch is not None)
    print("\n  With data.fetch=true, ccnn train downloads what is absent of\n")
    print(textwrap.fill(f"{fetched}.", 96, initial_indent="      ", subsequent_indent="      "))
    return 0


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
