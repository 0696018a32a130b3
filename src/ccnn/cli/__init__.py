"""The command line: ``ccnn VERB key=value …``. A verb is a file; each imports what it needs."""

from ccnn.cli.entry import main

__all__ = ["main"]
