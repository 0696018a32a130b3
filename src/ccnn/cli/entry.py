"""From the words after ``ccnn`` to a verb, and from what happens to an exit code."""

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from ccnn import __version__
from ccnn.allocator import keep_freed_memory
from ccnn.cli import bench, demo, evaluate, import_ckconv, predict, report, tasks, train, tune
from ccnn.cli.words import Misuse
from ccnn.models.names import suggest


@dataclass(frozen=True)
class Verb:
    """A command: its line in the help, its own help, and what it does with its words."""

    summary: str
    usage: str
    text: str
    examples: tuple[str, str]
    run: Callable[[argparse.Namespace], int]
    options: Callable[[argparse.ArgumentParser], None]


VERBS: dict[str, Verb] = {
    name: Verb(m.SUMMARY, m.USAGE, m.TEXT, m.EXAMPLES, m.run, m.options)
    for name, m in {
        "demo": demo,
        "tasks": tasks,
        "train": train,
        "evaluate": evaluate,
        "predict": predict,
        "import-ckconv": import_ckconv,
        "tune": tune,
        "report": report,
        "bench": bench,
    }.items()
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0: done. 1: it failed. 2: it was not understood. 130: stopped by Ctrl-C (128 + signal).
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Greek letters
    if argv is None:  # a process of our own
        keep_freed_memory()
    try:
        return _run(list(sys.argv[1:] if argv is None else argv))
    except SystemExit as stop:  # argparse's
        return int(stop.code or 0)
    except KeyboardInterrupt:
        return _complain("stopped", 130)
    except BrokenPipeError:  # `ccnn tasks | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:  # sorted by `exit_code`; a bug of ours is raised again
        if os.environ.get("CCNN_TRACEBACK"):
            raise
        code = exit_code(error)
        if code is None:
            raise
        return _complain(_sentence(error), code)


def exit_code(error: Exception) -> int | None:
    """Return 1 or 2 for what a user can mend, 128 + signal for a stop, None for a bug of ours."""
    from ccnn.tasks import DataDamaged

    signum = getattr(error, "signum", None)  # of ccnn.training.signals.Interrupted
    if signum is not None:
        return 128 + int(signum)
    if isinstance(error, DataDamaged | OSError | ArithmeticError | ImportError):
        return 1
    # A bad key, name or number: ConfigError and the settings' own checks are ValueErrors.
    return 2 if isinstance(error, ValueError) else None


def _run(argv: list[str]) -> int:
    if not argv:
        print(_help(), end="", file=sys.stderr)
        return 2
    if argv[0] in ("-h", "--help"):
        print(_help(), end="")
        return 0
    if argv[0] in ("-V", "--version"):
        print(f"ccnn {__version__}")
        return 0
    name, *words = argv
    if name not in VERBS:
        what = "option" if name.startswith("-") else "command"
        raise Misuse(f"there is no {what} {name!r}; {suggest(name, VERBS)}")
    verb = VERBS[name]
    return verb.run(_parser(name, verb).parse_intermixed_args(words))


class _Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        raise Misuse(f"{message}; see {self.prog} --help")


def _parser(name: str, verb: Verb) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=f"ccnn {name}",
        usage=f"ccnn {name} {verb.usage}".rstrip(),
        description=verb.text,
        epilog="examples:\n" + "\n".join(f"  {line}" for line in verb.examples),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    verb.options(parser)
    return parser


def _help() -> str:
    lines = [
        "usage: ccnn COMMAND [key=value ...]",
        "",
        "Continuous convolutional networks: signals of any length, resolution and dimension.",
        "",
        "commands:",
        *(f"  {name:<15}{verb.summary}" for name, verb in VERBS.items()),
        "",
        "examples:",
        "  ccnn demo",
        "  ccnn train task=digits model=ccnn_4_48",
        "",
        "ccnn COMMAND --help says more about a command; ccnn --version says which ccnn.",
    ]
    return "\n".join(lines) + "\n"


def _sentence(error: Exception) -> str:
    # Without a name it is ours, and says what to do; with one, Python has not found a package.
    if isinstance(error, ModuleNotFoundError) and not (error.name or "ccnn").startswith("ccnn"):
        return f"this needs the package {error.name}: pip install 'ccnn[train]'"
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.strerror}: {error.filename}"
    return str(error) or type(error).__name__


def _complain(text: str, code: int) -> int:
    print(f"ccnn: {text}", file=sys.stderr)
    return code
