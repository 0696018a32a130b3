"""``ccnn report``: a run as a page."""

import argparse

from ccnn.cli.words import assignments, existing, listed

SUMMARY = "write a run, or several beside each other, as one HTML page"
USAGE = "run=FOLDER|[FOLDER,FOLDER,...] [output=PAGE.html]"
TEXT = """\
Write a run as one HTML page that needs nothing but itself: curves, confusion matrix,
learned kernels and windows, timing, the command to repeat it. Several runs are
compared; a 1-D and a 2-D run on the same data make the paper's figure."""
EXAMPLES = ("ccnn report run=runs/digits", "ccnn report run=[runs/a,runs/b] output=ab.html")


def options(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes."""
    parser.add_argument("words", nargs="*", metavar="key=value", help="see above")


def run(arguments: argparse.Namespace) -> int:
    """Write the page and print where it is."""
    values = assignments(arguments.words, ("run", "output"), needed=("run",))
    folders = [existing(name) for name in listed(values["run"])]
    from ccnn import report

    print(report.write(folders, values.get("output") or None))
    return 0
