"""The study and its workers."""

import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import optuna
import torch
from optuna.trial import FrozenTrial, TrialState

from ccnn.conf import compose
from ccnn.run import find_task
from ccnn.training.failures import NotFinite
from ccnn.training.folder import as_json
from ccnn.training.settings import changed_key
from ccnn.tune.outcome import Outcome, recipe_of, write_down
from ccnn.tune.trial import SPACE, try_out

Tell = Callable[[optuna.Study, FrozenTrial], None]


@dataclass(frozen=True, kw_only=True)
class Search:
    """How to search.

    Parameters
    ----------
    trials
        How many trials the study shall have in the end.
    workers
        How many processes this call starts; with 1, the search runs in this one.
    names
        What is searched: keys of `SPACE`.
    folder
        Where the study, the best recipe, the table of trials and the plots go.
    storage
        URL of a database; None is ``study.db`` in the folder.
    name
        The study's name in the database.
    prune
        Whether a trial stops when it falls behind the median of the others.
    """

    trials: int
    workers: int = 1
    names: tuple[str, ...] = ("lr", "dropout", "weight_decay", "omega_0")
    folder: Path
    storage: str | None = None
    name: str
    prune: bool = True


def search(overrides: Sequence[str], how: Search, tell: Tell | None = None) -> Outcome:
    """Search until the study has enough trials, and write down what was found.

    Parameters
    ----------
    overrides
        Words of ``ccnn train``; what they set is not searched.
    how
        How to search.
    tell
        Called after each trial, in the process that ran it.

    Raises
    ------
    ValueError
        If nothing is left to search, the study was begun with other words, or no trial finished.
    """
    given = {word.partition("=")[0] for word in overrides}
    names = tuple(n for n in how.names if SPACE[n][0] not in given)
    if not names:
        raise ValueError("nothing is left to search: the words set every key of tune.search")
    config = compose(overrides)
    how.folder.mkdir(parents=True, exist_ok=True)
    study = open_study(how, overrides)
    _claim(study, {**recipe_of(overrides), "tune.search": list(names)})
    done = len(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED)))
    _work_together(list(overrides), how, names, tell, missing=max(0, how.trials - done))
    return write_down(study, how.folder, recipe_of(overrides), find_task(config).score)


def open_study(how: Search, overrides: Sequence[str], *, index: int = 0) -> optuna.Study:
    """Return the study in the database, made if it is not there; `index` tells workers apart."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    config = compose(overrides)
    pruner: optuna.pruners.BasePruner = optuna.pruners.NopPruner()
    if how.prune:
        pruner = optuna.pruners.MedianPruner(
            n_startup_trials=min(5, max(1, how.trials // 4)),
            n_warmup_steps=config.trainer.max_epochs // 5,
        )
    study = optuna.create_study(
        storage=_storage(how),
        study_name=how.name,
        load_if_exists=True,
        direction="maximize" if find_task(config).score == "accuracy" else "minimize",
        pruner=pruner,
    )
    # A search that goes on must not draw the first values again.
    seed = config.seed + 1000 * index + len(study.get_trials(deepcopy=False))
    study.sampler = optuna.samplers.TPESampler(seed=seed)
    return study


def _storage(how: Search) -> optuna.storages.RDBStorage:
    url = how.storage or f"sqlite:///{how.folder / 'study.db'}"
    patient = {"connect_args": {"timeout": 60}} if url.startswith("sqlite") else {}
    for left in (2, 1, 0):
        try:
            with warnings.catch_warnings():
                # The sign of life is "experimental": without it, a killed process's trial would
                # be taken for running forever.
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                return optuna.storages.RDBStorage(
                    url, engine_kwargs=patient, heartbeat_interval=60, grace_period=180
                )
        except Exception as error:  # of whatever driver the URL names
            if not left:
                first = (str(error).splitlines() or [type(error).__name__])[0]
                raise OSError(f"cannot open the study at {url}: {first}") from error
            time.sleep(1)  # another process may be making the same tables
    raise AssertionError


def _claim(study: optuna.Study, facts: Mapping[str, object]) -> None:
    """Write into the study what it is about, or refuse another study's."""
    before = study.user_attrs.get("facts")
    if before is None:
        study.set_user_attr("facts", dict(facts))
        return
    key = changed_key(before, as_json(facts))
    if key is not None:
        raise ValueError(
            f"the study {study.study_name!r} was begun with another {key}; go on with the same "
            "words, or name another study by tune.folder= (in one database, by tune.name=)"
        )


def _work_together(
    overrides: list[str], how: Search, names: tuple[str, ...], tell: Tell | None, *, missing: int
) -> None:
    """Share the missing trials among the workers, and wait for them."""
    shares = [missing // how.workers + (i < missing % how.workers) for i in range(how.workers)]
    if how.workers == 1:
        work(overrides, how, names, tell, shares[0], 0)
        return
    context = multiprocessing.get_context("spawn")
    workers = [
        context.Process(target=_worker, args=(overrides, how, names, tell, share, index))
        for index, share in enumerate(shares)
        if share > 0
    ]
    for worker in workers:
        worker.start()
    try:
        for worker in workers:
            worker.join()
    except KeyboardInterrupt:  # the terminal has told the workers as well
        for worker in workers:
            worker.join()
        raise
    codes = [worker.exitcode for worker in workers if worker.exitcode]
    if 130 in codes:
        raise KeyboardInterrupt
    if codes:
        raise OSError(f"{len(codes)} of {len(workers)} workers failed; what they said is above")


def _worker(
    overrides: list[str],
    how: Search,
    names: tuple[str, ...],
    tell: Tell | None,
    trials: int,
    index: int,
) -> None:
    """Be one of several processes."""
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // how.workers))
    try:
        work(overrides, how, names, tell, trials, index)
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def work(
    overrides: list[str],
    how: Search,
    names: tuple[str, ...],
    tell: Tell | None,
    trials: int,
    index: int,
) -> None:
    """Run a number of trials of the study; `index` tells workers apart."""
    if trials < 1:
        return
    open_study(how, overrides, index=index).optimize(
        lambda trial: try_out(trial, overrides, names),
        n_trials=trials,
        catch=(NotFinite,),
        callbacks=[] if tell is None else [tell],
    )
