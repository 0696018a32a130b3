"""What a search ends with: the best recipe, a table of trials, two plots."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import optuna
import yaml  # type: ignore[import-untyped]  # its stubs are a package of their own
from optuna.trial import TrialState

STATES: dict[str, TrialState] = {
    "complete": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "failed": TrialState.FAIL,
}
# Where and how a trial ran is no part of a recipe.
_NOT_RECIPE = ("run", "resume", "data.root", "data.fetch", "data.workers", "trainer")
_NOT_RECIPE_SECTIONS = ("trainer.", "logger.", "hydra")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a search ends with; ``best`` holds the searched values by their keys."""

    study: str
    states: dict[str, int]
    number: int
    value: float
    metric: str
    best: dict[str, float]
    importances: dict[str, float]
    recipe: Path
    plots: list[Path]


def recipe_of(overrides: Sequence[str]) -> dict[str, object]:
    """Return what words of ``ccnn train`` say about the recipe, by their keys."""
    recipe: dict[str, object] = {}
    for word in overrides:
        key, _, value = word.partition("=")
        kept = not key.startswith(_NOT_RECIPE_SECTIONS) or key == "trainer.max_epochs"
        if kept and key not in _NOT_RECIPE:
            recipe[key] = yaml.safe_load(value)
    return recipe


def write_down(
    study: optuna.Study, folder: Path, recipe: Mapping[str, object], metric: str
) -> Outcome:
    """Write ``best.yaml``, ``trials.csv`` and the plots of a study.

    Raises
    ------
    ValueError
        If no trial of the study was finished.
    """
    trials = study.get_trials(deepcopy=False)
    states = {name: sum(t.state == s for t in trials) for name, s in STATES.items()}
    if not states["complete"]:
        raise ValueError(
            f"no trial of the study {study.study_name!r} finished ({states['failed']} failed, "
            f"{states['pruned']} pruned); try a narrower search or more trials"
        )
    best = study.best_trial
    importances = _importances(study)
    _write_table(trials, folder / "trials.csv")
    path = folder / "best.yaml"
    shown = f"{100 * best.values[0]:.2f} %" if metric == "accuracy" else f"{best.values[0]:.5g}"
    head = (
        f"# Trial {best.number} of {len(trials)} of the study {study.study_name!r}: "
        f"validation {metric} {shown}.\n"
        f"# ccnn train recipe_file={path}\n"
    )
    content = {**recipe, **best.params}
    path.write_text(head + yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return Outcome(
        study=study.study_name,
        states=states,
        number=best.number,
        value=best.values[0],
        metric=metric,
        best=dict(best.params),
        importances=importances,
        recipe=path,
        plots=_draw(study, trials, importances, folder, metric),
    )


def _importances(study: optuna.Study) -> dict[str, float]:
    """Return each key's share in the differences between trials; nothing if there are too few."""
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if len(complete) < 4 or len({t.values[0] for t in complete}) < 2:
        return {}
    evaluator = optuna.importance.PedAnovaImportanceEvaluator()
    return dict(optuna.importance.get_param_importances(study, evaluator=evaluator))


def _write_table(trials: Sequence[optuna.trial.FrozenTrial], path: Path) -> None:
    keys = sorted({key for trial in trials for key in trial.params})
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["trial", "state", "value", "epochs", "seconds", *keys])
        for trial in trials:
            seconds = "" if trial.duration is None else f"{trial.duration.total_seconds():.1f}"
            value = "" if trial.values is None else repr(trial.values[0])
            epochs = str(len(trial.intermediate_values))
            values = [repr(trial.params[k]) if k in trial.params else "" for k in keys]
            table.writerow(
                [str(trial.number), trial.state.name.lower(), value, epochs, seconds, *values]
            )


def _draw(
    study: optuna.Study,
    trials: Sequence[optuna.trial.FrozenTrial],
    importances: Mapping[str, float],
    folder: Path,
    metric: str,
) -> list[Path]:
    from ccnn import plots

    scale = 100.0 if metric == "accuracy" else 1.0
    ended = [t for t in trials if t.values is not None and t.state == TrialState.COMPLETE]
    pruned = {
        t.number: scale * t.intermediate_values[max(t.intermediate_values)]
        for t in trials
        if t.state == TrialState.PRUNED and t.intermediate_values
    }
    (ax,) = plots.panels(width=6)
    plots.plot_trials(
        {t.number: scale * t.values[0] for t in ended},
        pruned=pruned,
        maximize=study.direction == optuna.study.StudyDirection.MAXIMIZE,
        ax=ax,
    )
    ax.set_ylabel("validation accuracy (%)" if metric == "accuracy" else f"validation {metric}")
    paths = [folder / "history.png"]
    plots.save_figure(ax, paths[0])
    if importances:
        (ax,) = plots.panels(width=5, height=2.5)
        plots.plot_importances(importances, ax=ax)
        paths.append(folder / "importance.png")
        plots.save_figure(ax, paths[1])
    return paths
