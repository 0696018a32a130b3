"""``ccnn evaluate``: a trained network on a part of its data, at any resolution."""

import argparse

from ccnn.cli.words import assignments, existing, spacing

SUMMARY = "test a trained network, at its resolution or another"
USAGE = "run=FOLDER [spacing=S] [split=test|val|train] [data.root=FOLDER]"
TEXT = """\
Test the network of a finished run. spacing=2 keeps every second sample of each axis
and tells the network so; spacing=0.5 draws straight lines between samples; [2,1] is
one number per axis. Nothing is trained again."""
EXAMPLES = ("ccnn evaluate run=runs/digits", "ccnn evaluate run=runs/digits spacing=2")
KEYS = ("run", "spacing", "split", "data.root")


def options(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes."""
    parser.add_argument("words", nargs="*", metavar="key=value", help="see above")


def run(arguments: argparse.Namespace) -> int:
    """Print one line: what was tested, and how good it is."""
    values = assignments(arguments.words, KEYS, needed=("run",))
    folder = existing(values["run"])
    step = spacing(values.get("spacing", "1"))
    from ccnn.run import evaluate

    found = evaluate(
        folder,
        spacing=step,
        split=values.get("split", "test"),
        data_root=existing(values["data.root"]) if values.get("data.root") else None,
    )
    shown = f"{100 * found.score:.2f} %" if found.score_name == "accuracy" else f"{found.score:.5g}"
    size = "×".join(map(str, found.size))
    steps = "×".join(f"{s:g}" for s in (step if isinstance(step, tuple) else (step,)))
    print(
        f"{found.task}, {found.split}, spacing {steps} (size {size}), {found.samples:,} samples: "
        f"{found.score_name} {shown}, loss {found.loss:.4f}"
    )
    return 0
