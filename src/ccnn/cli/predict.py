"""``ccnn predict``: probabilities for signals in files."""

import argparse
import sys
from pathlib import Path

from ccnn.cli import signal_files
from ccnn.cli.words import Misuse, assignments, existing, spacing

SUMMARY = "write the probabilities of signals in files"
USAGE = "run=FOLDER input=FILE|FOLDER [output=FILE.csv|FILE.npy] [spacing=S]"
TEXT = """\
Write what the network of a finished run says of signals: one row of probabilities each.
  x.npy     (n, C, *S), or (C, *S) for one signal; (n, *S) where there is one channel
  x.csv     one signal per row, channel after channel; a first row of names is skipped
  x.wav     one sound, and x.png one image
  a folder  every such file in it, into one table with the file names
Signals are scaled as in training by a run on data of your own (task=npz, task=folder);
for any other task they must have been prepared as the task does it."""
EXAMPLES = (
    "ccnn predict run=runs/digits input=x.npy",
    "ccnn predict run=runs/digits input=signals output=answers.csv",
)
KEYS = ("run", "input", "output", "spacing")


def options(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes."""
    parser.add_argument("words", nargs="*", metavar="key=value", help="see above")


def run(arguments: argparse.Namespace) -> int:
    """Read, predict, write; files that cannot be read are named, and the others done."""
    values = assignments(arguments.words, KEYS, needed=("run", "input"))
    folder, source = existing(values["run"]), existing(values["input"])
    step = spacing(values.get("spacing", "1"))
    files = signal_files.files_of(source)
    output = _output(source, values.get("output"))
    layout = signal_files.Layout.of_run(folder)
    from ccnn.run import predict

    rows: list[tuple[str, list[list[float]]]] = []
    bad = 0
    for path in files:
        try:
            probabilities = predict(folder, layout.read(path, step), spacing=step)
        except (ValueError, OSError) as error:
            if not source.is_dir():
                raise
            bad += 1
            print(f"ccnn: left out: {error}", file=sys.stderr)
            continue
        if probabilities.ndim > 2 and output.suffix != ".npy":
            raise Misuse("this run has an answer for every position; say output=FILE.npy")
        rows.append((path.name, probabilities.tolist()))
    if not rows:
        raise OSError(f"no file in {source} could be read")
    columns = layout.columns(len(rows[0][1][0]))
    signal_files.write(output, rows, columns=columns, names=source.is_dir())
    count = sum(len(r) for _, r in rows)
    print(f"{output}: {count:,} signals of {len(rows)} file{'s' if len(rows) > 1 else ''}")
    return 1 if bad else 0


def _output(source: Path, given: str | None) -> Path:
    """Return where to write: what is given, else beside the input."""
    suffix = source.suffix if source.suffix in signal_files.TABLES else ".csv"
    path = Path(given) if given else source.with_name(f"{source.stem}.probabilities{suffix}")
    if path.suffix not in (".npy", ".csv"):
        raise Misuse(f"output is {str(path)!r}; expected a name that ends in .npy or .csv")
    if path.resolve() == source.resolve():
        raise Misuse("output is the input; name another file")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} for the output")
    return path
