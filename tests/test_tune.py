"""Searching a recipe: workers together, going on, and a recipe that trains."""

import csv
import json
import os
from pathlib import Path

import optuna
import pytest
import torch
import yaml
from optuna.trial import TrialState, create_trial

from ccnn.cli import main
from ccnn.tune import SPACE, Search, search
from ccnn.tune.outcome import recipe_of
from ccnn.tune.search import open_study, work
from ccnn.tune.trial import try_out

SMALL = [
    *("task=digits", "model=ccnn_4_48", "model.blocks=1", "model.channels=8", "data.limit=200"),
    *("model.kernel_channels=4", "trainer.max_epochs=2", "trainer.progress=false"),
    *("trainer.accelerator=cpu", "logger.tensorboard=false", "data.batch_size=20"),
]
NAMES = ("lr", "dropout", "weight_decay", "omega_0")


def how(folder: Path, trials: int = 2) -> Search:
    return Search(trials=trials, folder=folder, name="study")


@pytest.fixture(scope="module")
def tuned(tmp_path_factory) -> Path:
    """The folder of a search with four trials by two processes at once."""
    folder = tmp_path_factory.mktemp("tune") / "study"
    words = ["tune.trials=4", "tune.workers=2", "tune.prune=false", f"tune.folder={folder}"]
    assert main(["tune", *SMALL, *words]) == 0
    return folder


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "trials.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_two_workers_share_the_trials(tuned):
    table = rows(tuned)
    assert [row["trial"] for row in table] == ["0", "1", "2", "3"]
    assert {row["state"] for row in table} == {"complete"}
    rates = {row["optim.lr"] for row in table}
    assert len(rates) == 4  # not the same draws in both


def test_best_recipe_is_that_of_the_best_trial(tuned):
    recipe = yaml.safe_load((tuned / "best.yaml").read_text())
    best = max(rows(tuned), key=lambda row: float(row["value"]))
    assert repr(recipe["optim.lr"]) == best["optim.lr"]
    assert recipe["task"] == "digits"
    assert "trainer.accelerator" not in recipe


def test_best_recipe_trains_to_the_value_of_its_trial(tuned, tmp_path):
    words = [f"recipe_file={tuned / 'best.yaml'}", f"run={tmp_path / 'run'}"]
    threads = torch.get_num_threads()
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // 2))  # as each of the two workers
    try:
        assert main(["train", *words, "trainer.progress=false", "trainer.accelerator=cpu"]) == 0
    finally:
        torch.set_num_threads(threads)
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    best = max(float(row["value"]) for row in rows(tuned))
    assert result["val"]["accuracy"] == pytest.approx(best, abs=1e-9)


def test_plots_are_written(tuned):
    assert (tuned / "history.png").read_bytes().startswith(b"\x89PNG")


def test_search_goes_on_where_it_stood(tuned, capsys):
    before = rows(tuned)
    words = ["tune.trials=5", "tune.prune=false", f"tune.folder={tuned}"]
    assert main(["tune", *SMALL, *words]) == 0
    assert "trial   4" in capsys.readouterr().out
    assert rows(tuned)[:4] == before
    assert len(rows(tuned)) == 5
    assert main(["tune", *SMALL, *words]) == 0  # enough
    assert len(rows(tuned)) == 5


def test_study_of_other_words_is_refused_by_key(tuned, capsys):
    assert main(["tune", *SMALL, "optim.clip=1", f"tune.folder={tuned}"]) == 2
    assert "begun with another optim.clip" in capsys.readouterr().err


def test_what_the_words_set_is_not_searched(tmp_path):
    given = [f"{SPACE[name][0]}=0.1" for name in NAMES[:3]]
    found = search([*SMALL, *given], how(tmp_path, trials=1))
    assert set(found.best) == {"model.omega_0"}
    with pytest.raises(ValueError, match="nothing is left to search"):
        search([*SMALL, *given, "model.omega_0=1"], how(tmp_path))


def test_mask_sigma_is_searched_by_name(tmp_path):
    one = Search(trials=1, folder=tmp_path, name="sigma", names=("mask_sigma",))
    assert set(search(SMALL, one).best) == {"model.mask_sigma"}


def test_a_trial_that_falls_behind_is_stopped(tmp_path):
    settings = how(tmp_path, trials=8)
    study = open_study(settings, SMALL)
    for _ in range(6):  # perfect from the first epoch on
        perfect = create_trial(value=1.0, intermediate_values={0: 1.0, 1: 1.0})
        study.add_trial(perfect)
    work(SMALL, settings, ("lr",), None, 1, 0)
    last = study.get_trials()[-1]
    assert last.state == TrialState.PRUNED
    assert len(last.intermediate_values) == 1


def test_trial_whose_loss_is_no_number_ends_alone(tmp_path):
    settings = how(tmp_path, trials=2)
    words = [*SMALL, "optim.lr=1e6", "optim.weight_decay=0.1"]  # weights grow without end
    with pytest.raises(ValueError, match="no trial"):
        search(words, settings)
    states = [t.state for t in open_study(settings, words).get_trials()]
    assert states == [TrialState.FAIL, TrialState.FAIL]


def test_value_of_a_trial_is_its_best_validation_accuracy():
    study = optuna.create_study(direction="maximize")
    trial = study.ask()
    value = try_out(trial, SMALL, ("lr",))
    reported = study.get_trials()[0].intermediate_values
    assert value == max(reported.values())
    assert sorted(reported) == [0, 1]


def test_recipe_leaves_out_where_a_trial_ran():
    words = ["task=digits", "trainer.devices=2", "trainer=ddp", "trainer.max_epochs=3", "run=x"]
    assert recipe_of(words) == {"task": "digits", "trainer.max_epochs": 3}


def test_database_that_cannot_be_opened_is_named(tmp_path, capsys):
    url = "sqlite:////nowhere/at/all/study.db"
    assert main(["tune", *SMALL, f"tune.storage={url}", f"tune.folder={tmp_path}"]) == 1
    err = capsys.readouterr().err
    assert url in err
    assert err.count("\n") == 1


@pytest.mark.slow
def test_twenty_trials_of_two_workers_on_digits_finish_and_their_recipe_trains(tmp_path):
    words = ["task=digits", "model=ccnn_4_48", "trainer.max_epochs=3", "logger.tensorboard=false"]
    folder = tmp_path / "study"
    own = ["tune.trials=20", "tune.workers=2", f"tune.folder={folder}"]
    assert main(["tune", *words, *own]) == 0
    assert len(rows(folder)) == 20
    assert (folder / "importance.png").exists()
    recipe = f"recipe_file={folder / 'best.yaml'}"
    assert main(["train", recipe, f"run={tmp_path / 'run'}", "trainer.progress=false"]) == 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["test"]["accuracy"] > 0.8
