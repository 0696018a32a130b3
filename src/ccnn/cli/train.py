"""``ccnn train``: one run, or with ``-m`` a sweep of runs through Hydra."""

import argparse
import os
import shlex
import sys
import time
from typing import TYPE_CHECKING, Any

from ccnn.cli import recipe_file
from ccnn.cli.text import duration, score
from ccnn.cli.words import existing, last_value, without

if TYPE_CHECKING:
    from omegaconf import DictConfig

SUMMARY = "train a network with the paper's recipe, or your changes of it"
USAGE = "[-m] [task=NAME] [model=NAME] [key=value ...]"
TEXT = """\
Train, keep the best weights, test them once, and leave a folder (run=FOLDER).
  task=digits  model=ccnn_4_140  recipe=paper|authors  trainer=default|ddp
  optim.lr=0.01  trainer.max_epochs=20  data.root=FOLDER  seed=0      any key
  data.fetch=true           download the files of the task that are not in data.root
  run=FOLDER resume=true    go on with a run; resume=FOLDER does it with its own words
  recipe_file=best.yaml     words from a file, such as `ccnn tune` writes"""
EXAMPLES = (
    "ccnn train task=digits model=ccnn_4_48 run=runs/digits",
    "ccnn train -m task=digits optim.lr=0.005,0.01 seed=0,1",
)


def options(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes."""
    parser.add_argument("words", nargs="*", metavar="key=value", help="see above")
    parser.add_argument(
        "-m", "--multirun", action="store_true", help="one run for each of a,b,... (a sweep)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Train once, or sweep."""
    words = recipe_file.unfold(_resumed(arguments.words))
    return _sweep(words) if arguments.multirun else _once(words)


def _resumed(words: list[str]) -> list[str]:
    """Turn ``resume=FOLDER`` into the words of the run in the folder."""
    value = last_value(words, "resume")
    if value is None or value.lower() in ("true", "false"):
        return words
    folder = existing(value)
    try:
        command = (folder / "command.txt").read_text(encoding="utf-8")
    except OSError:
        raise FileNotFoundError(f"{folder} holds no run: there is no command.txt in it") from None
    rest = without(words, "resume", "run")
    before = without(shlex.split(command)[2:], *(word.partition("=")[0] for word in rest))
    return [*before, *rest, f"run={recipe_file.quoted(str(folder))}", "resume=true"]


def _once(words: list[str]) -> int:
    from ccnn.conf import compose

    _train(compose(words))
    return 0


def _train(config: "DictConfig") -> None:
    from ccnn.run import default_folder, train
    from ccnn.training.engine import is_main_process

    if config.run is None:
        config.run = str(default_folder(config))
    result = train(config)
    if not is_main_process():
        return
    folder = shlex.quote(config.run)
    print(
        f"\n{result.task}, {result.model}, recipe {result.recipe}, seed {result.seed}: "
        f"{result.epochs} epoch{'s' * (result.epochs != 1)} in {duration(result.seconds)}, "
        f"{result.parameters:,} parameters"
    )
    print(f"test {score(result.test)}, validation {score(result.val)}")
    print(f"folder   {config.run}\nreport   ccnn report run={folder}")


def _sweep(words: list[str]) -> int:
    """Hand the words to Hydra, which calls `_job` for every combination."""
    import hydra
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    from ccnn.conf import CONFIG_PATH, ConfigError, register
    from ccnn.conf.loading import explain

    register()
    # Hydra reads sys.argv, and ends the process on an error unless asked to raise it.
    before = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    sys.argv = [sys.argv[0], "--multirun", *_own_folders(words)]
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        hydra.main(config_path=CONFIG_PATH, config_name="config", version_base="1.3")(_job)()
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(explain(error)) from error
    finally:
        sys.argv = before[0]
        if before[1] is None:
            del os.environ["HYDRA_FULL_ERROR"]
    return 0


def _own_folders(words: list[str]) -> list[str]:
    """Give every job of a sweep a folder of its own, unless the words do."""
    folder = last_value(words, "run")
    if folder is None or folder == "null":
        stamp = time.strftime("%Y%m%d-%H%M%S")
        folder = f"runs/sweep-{stamp}"
    elif "${" in folder or "," in folder:
        return words
    # Hydra keeps its own notes of a sweep there.
    place = [] if last_value(words, "hydra.sweep.dir") else [f"hydra.sweep.dir={folder}"]
    return [*without(words, "run"), *place, f"run={folder}/${{hydra:job.num}}"]


def _job(config: "DictConfig") -> None:
    """Run one job of a sweep."""
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.hydra_config import HydraConfig

    from ccnn.conf import resolve
    from ccnn.run import Interrupted

    words = list(HydraConfig.get().overrides.task)
    sys.argv = [sys.argv[0], "train", *words]  # what Lightning starts further processes with
    shown = " ".join(without(words, "run"))
    print(f"\n── job {HydraConfig.get().job.num}: {shown} → {config.run}", flush=True)
    hydra: Any = GlobalHydra.instance()
    # A run composes configurations of its own, which Hydra permits one of at a time.
    running, hydra.hydra = hydra.hydra, None
    try:
        _train(resolve(config))
    except Interrupted as stop:
        print(f"ccnn: {stop}", file=sys.stderr)
        raise KeyboardInterrupt from None  # the other jobs shall not start
    finally:
        hydra.hydra = running
