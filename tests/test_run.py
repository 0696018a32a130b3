"""From a configuration to a result, and back from the result's folder to a network."""

import json
import os
import shlex
import signal
import threading
import time
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

import ccnn
from ccnn.conf import compose
from ccnn.run import Interrupted, build_model, command_of, evaluate, predict, train
from ccnn.tasks import TASKS
from ccnn.tasks.task import Samples
from ccnn.training.resampling import resample

SMALL = [
    *("task=digits", "model=ccnn_4_48", "model.blocks=1", "model.channels=8", "data.limit=400"),
    *("model.kernel_channels=4", "trainer.max_epochs=2", "trainer.progress=false"),
    *("trainer.accelerator=cpu", "logger.tensorboard=false", "optim.lr=0.02"),
    "data.batch_size=20",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "digits"
    result = train(compose([*SMALL, f"run={folder}"]))
    return folder, result


def test_result_json_is_the_result(run):
    folder, result = run
    content = json.loads((folder / "result.json").read_text())
    assert content["task"] == "digits"
    assert content["model"] == "ccnn_4_48"
    assert content["recipe"] == "paper"
    assert content["epochs"] == 2
    assert content["train_samples"] == 400
    assert content["test"]["accuracy"] == result.test["accuracy"] > 0.2  # ten classes
    assert set(content["versions"]) == {"ccnn", "torch", "lightning", "python"}


def test_the_command_repeats_the_run(run, tmp_path):
    folder, result = run
    words = shlex.split((folder / "command.txt").read_text())
    assert words[:2] == ["ccnn", "train"]
    again = train(compose([*words[2:], f"run={tmp_path / 'again'}"]))
    assert again.val == result.val
    assert again.test == result.test


def test_config_of_the_run_composes_to_itself(run):
    config = OmegaConf.load(run[0] / "config.yaml")
    words = shlex.split(command_of(config))[2:]
    same = OmegaConf.to_container(compose(words))
    stored = OmegaConf.to_container(config)
    assert stored.pop("run") is not None
    same.pop("run")
    assert same == stored


def test_evaluation_finds_the_tested_accuracy_again(run):
    folder, result = run
    found = evaluate(folder)
    assert found.score == result.test["accuracy"]
    assert found.loss == pytest.approx(result.test["loss"], rel=1e-6)
    assert evaluate(folder, split="val").score == pytest.approx(result.val["accuracy"])


def test_evaluation_at_another_spacing_is_the_network_on_every_second_sample(run):
    folder, _ = run
    found = evaluate(folder, spacing=2)
    assert found.size == (32,)
    test = TASKS["digits"].load(folder).test
    model = ccnn.load(folder / "model")
    with torch.no_grad():
        expected = model(test.x[..., ::2], ccnn.Grid(spacing=2.0))
    torch.testing.assert_close(found.outputs, expected, atol=1e-4, rtol=1e-3)


def test_prediction_is_the_softmax_of_the_logits(run):
    folder, _ = run
    x = TASKS["digits"].load(folder).test.x[:5]
    p = predict(folder, x)
    with torch.no_grad():
        expected = ccnn.load(folder / "model")(x).softmax(dim=1)
    torch.testing.assert_close(p, expected, atol=1e-5, rtol=1e-4)


def test_unfinished_and_missing_runs_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        evaluate(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="has not finished"):
        predict(tmp_path, torch.zeros(1, 1, 8))


def test_unknown_split_is_named(run):
    with pytest.raises(ValueError, match="unknown split 'tests'; did you mean 'test'"):
        evaluate(run[0], split="tests")


def test_augmentation_that_a_task_does_not_have_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"data\.augment is true, but task=digits"):
        train(compose([*SMALL, "data.augment=true", f"run={tmp_path / 'run'}"]))


def test_resume_with_another_recipe_names_the_key(run):
    with pytest.raises(ValueError, match=r"optim\.lr=0\.02, and now it is 0\.03"):
        train(compose([*SMALL, f"run={run[0]}", "resume=true", "optim.lr=0.03"]))


def test_interrupted_run_says_how_to_go_on_and_does(run, tmp_path):
    _, result = run
    folder = tmp_path / "run"
    timer = threading.Thread(target=interrupt_after, args=(folder / "checkpoints" / "last.ckpt",))
    timer.start()
    with pytest.raises(Interrupted, match="To go on:") as stop:
        train(compose([*SMALL, f"run={folder}"]))
    timer.join()
    words = shlex.split(str(stop.value).splitlines()[-1])
    assert words[:2] == ["ccnn", "train"]
    again = train(compose(words[2:]))
    assert again.test == result.test
    assert again.steps == result.steps


def interrupt_after(path: Path) -> None:
    """Press Ctrl-C when the first epoch is over."""
    while not path.exists():
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGINT)


def test_single_logit_builds_one_output():
    config = compose(["task=pathfinder", "optim.loss=single_logit", "model.blocks=1"])
    assert build_model(config, TASKS["pathfinder"]).out_channels == 1


def test_pairs_are_judged_by_one_network():
    config = compose(["task=retrieval", "model=ccnn_4_48", "model.blocks=1"])
    task = TASKS["retrieval"]
    model = build_model(config, task).eval()
    symbols = torch.randint(0, 5, (2, 2, 64))
    if config.model.embedding is None:
        from ccnn.tasks.feeding import as_signals

        symbols = as_signals(Samples(symbols, torch.zeros(2)), 1, embedded=False).x
    with torch.no_grad():
        assert model(symbols).shape[0] == 2


def test_resampling_draws_straight_lines():
    x = torch.arange(7.0).view(1, 1, 7)
    assert resample(x, 2).flatten().tolist() == [0, 2, 4, 6]
    assert resample(x, 1.5).flatten().tolist() == [0, 1.5, 3, 4.5, 6]
    assert resample(x, 0.5).flatten().tolist() == [i / 2 for i in range(13)]
    assert resample(torch.zeros(1, 1, 6, 9), (2, 3)).shape == (1, 1, 3, 3)


def test_a_run_with_dropped_samples_knows_how_it_is_told_of_them(tmp_path):
    words = [*SMALL, "data.drop=0.5", "data.missing=observed", "data.spacings=[1,2]"]
    folder = tmp_path / "dropped"
    result = train(compose([*words, f"run={folder}"]))
    assert ccnn.load(folder / "model").in_channels == 2  # the image, and what was observed of it
    found = evaluate(folder)
    assert found.score == result.test["accuracy"]
    test = TASKS["digits"].load(Path()).test
    says = predict(folder, test.x)
    torch.testing.assert_close(says, found.outputs.softmax(dim=1))
    half = torch.arange(64).expand(len(test.x), 1, -1) % 2 == 0
    assert not torch.allclose(predict(folder, test.x, mask=half), says)
    commanded = shlex.split((folder / "command.txt").read_text())
    assert compose(commanded[2:]).data.drop == 0.5


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("data.missing=zeros", "mask, density, observed, points"),
        ("data.drop=1", "data.drop"),
        ("data.spacings=[0]", "data.spacings"),
    ],
)
def test_settings_of_missing_samples_are_checked_before_training(tmp_path, word, message):
    with pytest.raises(ValueError, match=message):
        train(compose([*SMALL, word, f"run={tmp_path / 'run'}"]))
    assert not (tmp_path / "run").exists()
