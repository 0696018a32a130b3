"""``ccnn bench``: measure this machine."""

import argparse

from ccnn.cli.words import Misuse
from ccnn.models.names import suggest

SUMMARY = "measure where which way to convolve is fastest on this machine"
USAGE = "crossover [--store | --forget] [--quick]"
TEXT = """\
Measure on this machine from which kernel size on the FFT is faster than the direct
convolution. --store keeps the numbers for this machine, and `method="auto"` uses them
from then on; --forget goes back to the built-in ones."""
EXAMPLES = ("ccnn bench crossover --quick", "ccnn bench crossover --store")


def options(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes."""
    parser.add_argument("what", metavar="crossover", help="what to measure")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--store", action="store_true", help="keep the numbers for this machine")
    group.add_argument("--forget", action="store_true", help="drop the numbers kept before")
    parser.add_argument("--quick", action="store_true", help="fewer sizes")


def run(arguments: argparse.Namespace) -> int:
    """Hand over to `ccnn.bench`."""
    if arguments.what != "crossover":
        raise Misuse(
            f"there is no benchmark {arguments.what!r}; {suggest(arguments.what, ['crossover'])}"
        )
    from ccnn.bench import crossover

    crossover(store=arguments.store, forget=arguments.forget, quick=arguments.quick, say=print)
    return 0
