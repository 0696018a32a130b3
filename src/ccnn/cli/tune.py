"""``ccnn tune``: search a recipe."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ccnn.cli import recipe_file
from ccnn.cli.text import table
from ccnn.cli.words import Misuse, assignments, listed
from ccnn.models.names import suggest

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial

SUMMARY = "search learning rate, dropout, weight decay and ω₀ with Optuna"
USAGE = "[task=NAME] [key=value ...] [tune.KEY=value ...]"
TEXT = """\
Train many times, keep the study, and write the best recipe for `ccnn train`.
  tune.trials=20         in the whole study; the same command again goes on with it
  tune.workers=1         processes at once; others may join from anywhere
  tune.search=[lr,dropout,weight_decay,omega_0]    also: mask_sigma
  tune.folder=FOLDER     study.db, best.yaml, trials.csv, plots (runs/tune-TASK-MODEL)
  tune.storage=URL       any database of Optuna's in place of study.db
  tune.prune=true        stop trials that fall behind
Everything else is a word of `ccnn train`; what it sets is not searched."""
EXAMPLES = (
    "ccnn tune task=digits model=ccnn_4_48 tune.trials=20 tune.workers=2",
    "ccnn tune task=smnist tune.storage=postgresql://host/studies",
)
KEYS = ("trials", "workers", "search", "folder", "storage", "prune", "name")


def options(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes."""
    parser.add_argument("words", nargs="*", metavar="key=value", help="see above")


def run(arguments: argparse.Namespace) -> int:
    """Search, and print the best."""
    words = recipe_file.unfold(arguments.words)
    own = [w.removeprefix("tune.") for w in words if w.startswith("tune.")]
    rest = [w for w in words if not w.startswith("tune.")]
    values = _own(own)
    from ccnn.conf import compose
    from ccnn.tune import SPACE, Search, search

    config = compose(rest)
    names = listed(values.get("search", "[lr,dropout,weight_decay,omega_0]"))
    for name in names:
        if name not in SPACE:
            raise Misuse(f"tune.search has {name!r}; {suggest(name, SPACE)}")
    outcome = search(
        rest,
        Search(
            trials=_whole("trials", values.get("trials", "20")),
            workers=_whole("workers", values.get("workers", "1")),
            names=tuple(names),
            folder=Path(
                values.get("folder") or f"runs/tune-{config.task.name}-{config.model.name}"
            ),
            storage=values.get("storage") or None,
            name=values.get("name") or f"{config.task.name}-{config.model.name}",
            prune=_truth("prune", values.get("prune", "true")),
        ),
        tell=_tell,
    )
    shown = 100 * outcome.value if outcome.metric == "accuracy" else outcome.value
    unit = " %" if outcome.metric == "accuracy" else ""
    counts = ", ".join(f"{n} {state}" for state, n in outcome.states.items() if n)
    print(f"\nstudy {outcome.study!r}: {counts}")
    known = outcome.importances  # empty after a few trials only
    rows = [
        (name, f"{value:.4g}", f"{known[name]:.0%}" if name in known else "")
        for name, value in outcome.best.items()
    ]
    print(f"best: trial {outcome.number}, validation {outcome.metric} {shown:.4g}{unit}\n")
    table(("", "value", "importance" if known else ""), rows, "<>>")
    print(f"\nrecipe   {outcome.recipe}\ntrain    ccnn train recipe_file={outcome.recipe}")
    for plot in outcome.plots:
        print(f"plot     {plot}")
    return 0


def _tell(study: "Study", trial: "FrozenTrial") -> None:
    """Print a line about a trial that has ended."""
    finished = trial.state.name == "COMPLETE"
    shown = f"{trial.value:.4f}" if finished and trial.value is not None else ""
    chosen = "  ".join(f"{k.rpartition('.')[2]} {v:.3g}" for k, v in trial.params.items())
    print(
        f"trial {trial.number:3}  {trial.state.name.lower():<8}  {shown:<8}  {chosen}", flush=True
    )


def _own(words: list[str]) -> dict[str, str]:
    try:
        return assignments(words, KEYS)
    except Misuse as error:
        raise Misuse(f"tune.*: {error}") from None


def _whole(key: str, value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise Misuse(f"tune.{key} is {value!r}; expected a whole number of at least 1")
    return int(value)


def _truth(key: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise Misuse(f"tune.{key} is {value!r}; expected true or false")
    return value.lower() == "true"
