"""What a person meets who types `ccnn`."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from ccnn import __version__
from ccnn.cli import main
from ccnn.cli.entry import VERBS
from ccnn.cli.recipe_file import read, unfold
from ccnn.tasks import TASKS

SMALL = [
    *("task=digits", "model=ccnn_4_48", "model.blocks=1", "model.channels=8", "data.limit=300"),
    *("model.kernel_channels=4", "trainer.max_epochs=2", "trainer.progress=false"),
    *("trainer.accelerator=cpu", "logger.tensorboard=false", "optim.lr=0.02"),
    "data.batch_size=20",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """The folder of a small finished run."""
    folder = tmp_path_factory.mktemp("runs") / "digits"
    assert main(["train", *SMALL, f"run={folder}"]) == 0
    return folder


def only_line(capsys) -> str:
    """Return the one line that was printed on standard error, nothing being on the other."""
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1, captured.err
    assert captured.err.startswith("ccnn: ")
    return captured.err


# The frame


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"ccnn {__version__}\n"


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_fits_a_screen_and_shows_two_examples(verb, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "90")
    assert main([verb, "--help"] if verb else ["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 90
    examples = lines[lines.index("examples:") + 1 :]
    start = f"  ccnn {verb}".rstrip()
    assert sum(line.startswith(start) for line in examples) >= 2


def test_examples_of_the_verbs_name_keys_that_exist():
    from ccnn.conf import compose

    words = shlex.split(VERBS["train"].examples[0])
    assert compose(words[2:]).run == "runs/digits"


def test_no_command_shows_the_help(capsys):
    assert main([]) == 2
    assert "demo" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["trian"], "did you mean 'train'?"),
        (["--verbose"], "no option '--verbose'"),
        (["demo", "--color"], "--color"),
        (["demo", "--ou", "x"], "--ou"),
        (["train", "task=digit"], "unknown task 'digit'; did you mean 'digits'?"),
        (["train", "optim.lrr=1"], "unknown key 'optim.lrr'; did you mean 'optim.lr'?"),
        (["train", "optim.lr=fast"], "optim.lr"),
        (["train", "digits"], "cannot read 'digits'"),
        (["train", *SMALL, "optim.lr=-1"], "optim.lr is -1"),
        (["evaluate"], "say run="),
        (["evaluate", "ru=x"], "did you mean 'run'?"),
        (["evaluate", "run=.", "spacing=0"], "expected a number above 0"),
        (["tune", "tune.trails=3"], "did you mean 'trials'?"),
        (["tune", "tune.trials=many"], "whole number"),
        (["tune", "tune.search=[lrr]"], "did you mean 'lr'?"),
        (["tasks", "root=x"], "did you mean 'data.root'?"),
    ],
)
def test_what_is_not_understood_is_one_line_and_exit_code_2(argv, words, capsys, cwd):
    assert main(argv) == 2
    assert words in only_line(capsys)


@pytest.fixture
def cwd(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["train", "task=smnist", "data.root=nowhere"], "task=smnist"),
        (["train", "task=listops", "data.root=nowhere"], "data.fetch=true"),
        (["train", "resume=run"], "there is no run; did you mean 'runs'?"),
        (["train", "resume=runs"], "no command.txt"),
        (["train", "recipe_file=best.yml"], "there is no best.yml; did you mean 'best.yaml'?"),
        (["evaluate", "run=runs"], "has not finished"),
        (["evaluate", "run=gone/run"], "no folder gone"),
        (["report", "run=rums"], "did you mean 'runs'?"),
        (["predict", "run=runs", "input=x.npy"], "there is no x.npy"),
    ],
)
def test_what_is_not_there_is_one_line_and_exit_code_1(argv, words, capsys, cwd):
    (cwd / "runs").mkdir()
    (cwd / "best.yaml").write_text("optim.lr: 0.1\n")
    assert main(argv) == 1
    assert words in only_line(capsys)


@pytest.mark.skipif(find_spec("wandb") is not None, reason="wandb is installed")
def test_logger_that_is_not_installed_is_named(capsys, cwd):
    assert main(["train", *SMALL, "logger.wandb=true"]) == 1
    assert "pip install wandb" in only_line(capsys)


def test_a_terminal_without_greek_letters_is_no_failure():
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = ccnn("tasks", env=environment)
    assert done.returncode == 0, done.stderr
    assert "8?8" in done.stdout


def test_a_pipe_that_closes_is_no_traceback():
    command = f"{shlex.quote(sys.executable)} -m ccnn tasks | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stdout.split()[:2] == ["task", "size"]
    assert "Traceback" not in done.stderr


def test_the_command_line_loads_libraries_only_in_their_verbs():
    heavy = ("matplotlib", "lightning", "hydra", "optuna", "sklearn", "omegaconf", "yaml")
    code = f"import sys, ccnn.cli; ccnn.cli.main(['--help']); print(*{heavy} & sys.modules.keys())"
    code = code.replace(f"*{heavy}", f"*set({heavy})")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == ""


def ccnn(*words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ccnn", *words]
    return subprocess.run(command, capture_output=True, text=True, env=env)


# tasks


def test_tasks_lists_every_task_with_its_facts(capsys, cwd):
    assert main(["tasks"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 100
    rows = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    for task in TASKS.values():
        assert "×".join(map(str, task.size)) in rows[task.name]
        assert all(f"{value:.2f}" in rows[task.name] for value in task.paper.values())
        assert task.source in out
    assert rows["digits"].endswith("here")
    assert rows["smnist"].endswith("absent")


def test_tasks_sees_data_that_are_there(capsys, data_root):
    assert main(["tasks", f"data.root={data_root}"]) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert rows["smnist"].endswith("here") == TASKS["smnist"].present(data_root)


# train


def test_train_prints_its_result_and_leaves_only_the_folder_of_the_run(capsys, cwd):
    assert main(["train", *SMALL]) == 0
    out = capsys.readouterr().out
    assert re.search(r"test accuracy \d+\.\d\d %", out)
    folder = re.search(r"folder +(\S+)", out)
    assert folder is not None
    assert (cwd / folder[1] / "result.json").is_file()
    assert [p.name for p in cwd.iterdir()] == ["runs"]
    assert len(list((cwd / "runs").iterdir())) == 1


def test_a_run_is_not_overwritten_and_goes_on_by_its_folder_alone(run, capsys):
    assert main(["train", *SMALL, f"run={run}"]) == 1
    assert "already holds a run" in only_line(capsys)
    before = (run / "result.json").read_text()
    assert main(["train", f"resume={run}"]) == 0
    assert str(run) in capsys.readouterr().out
    assert (run / "result.json").read_text() == before


def test_recipe_file_gives_way_to_what_is_typed(tmp_path):
    path = tmp_path / "best.yaml"
    path.write_text("task: digits\noptim: {lr: 1.0e-05, loss: auto}\nmodel.mask_sigma: null\n")
    assert list(read(path).values()) == [
        *("task=digits", "optim.lr=1e-05", "optim.loss=auto", "model.mask_sigma=null"),
    ]
    words = unfold(["seed=3", f"recipe_file={path}", "optim.lr=2"])
    assert words == [
        "task=digits",
        "optim.loss=auto",
        "model.mask_sigma=null",
        "seed=3",
        "optim.lr=2",
    ]


def test_recipe_file_quotes_what_hydra_would_take_apart(tmp_path):
    from ccnn.conf import compose

    path = tmp_path / "recipe.yaml"
    path.write_text("data.root: \"a, b/c = 'd'\"\n")
    assert compose(unfold([f"recipe_file={path}"])).data.root == "a, b/c = 'd'"


@pytest.mark.parametrize("text", ["- a\n- b\n", "a: [1\n", "just words"])
def test_recipe_file_that_holds_no_keys_is_named(text, tmp_path, capsys):
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    assert main(["train", f"recipe_file={path}"]) == 2
    assert str(path) in only_line(capsys)


def test_sweep_runs_every_combination_in_a_folder_of_its_own(cwd):
    # In a process of its own: Hydra keeps global state.
    done = ccnn("train", "-m", *SMALL, "seed=0,1", f"run={cwd / 'sweep'}")
    assert done.returncode == 0, done.stderr
    found = sorted(p.parent.name for p in cwd.glob("**/result.json"))
    assert found == ["0", "1"]
    seeds = [(cwd / "sweep" / name / "config.yaml").read_text() for name in found]
    assert ["seed: 0" in seeds[0], "seed: 1" in seeds[1]] == [True, True]
    assert [p.name for p in cwd.iterdir()] == ["sweep"]


def test_sweep_with_a_bad_job_runs_the_others_and_fails(cwd):
    words = [*SMALL, "optim.lr=-1,0.01", f"run={cwd / 'sweep'}"]
    done = ccnn("train", "-m", *words)
    assert done.returncode == 2
    assert "ccnn: optim.lr is -1" in done.stderr
    assert "Traceback" not in done.stderr
    assert [p.parent.name for p in cwd.glob("**/result.json")] == ["1"]


def test_ctrl_c_ends_with_130_and_the_words_to_go_on(tmp_path):
    words = ["train", *SMALL, "trainer.max_epochs=500", f"run={tmp_path / 'run'}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "ccnn", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (tmp_path / "run" / "metrics.csv").exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "resume=true" in err
    assert "Traceback" not in err


# evaluate, report


def test_evaluate_prints_the_tested_accuracy_and_that_at_another_spacing(run, capsys):
    accuracy = json.loads((run / "result.json").read_text())["test"]["accuracy"]
    assert main(["evaluate", f"run={run}"]) == 0
    assert f"accuracy {100 * accuracy:.2f} %" in capsys.readouterr().out
    assert main(["evaluate", f"run={run}", "spacing=2", "split=val"]) == 0
    out = capsys.readouterr().out
    assert "size 32" in out
    assert "200 samples" in out


def test_report_writes_one_page_and_a_comparison(run, tmp_path, capsys):
    assert main(["report", f"run={run}", f"output={tmp_path / 'a.html'}"]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "a.html")
    assert main(["report", f"run=[{run},{run}]", f"output={tmp_path / 'ab.html'}"]) == 0
    assert (tmp_path / "ab.html").read_text().count("<h1>") == 1


# predict


@pytest.fixture(scope="module")
def signals(run) -> np.ndarray:
    return TASKS["digits"].load(run).test.x[:5].numpy()


@pytest.fixture(scope="module")
def expected(run, signals) -> np.ndarray:
    import torch

    from ccnn.run import predict

    return predict(run, torch.from_numpy(signals)).numpy()


@pytest.mark.parametrize("layout", ["(n, C, S)", "(n, S)"])
def test_predict_writes_probabilities_beside_the_input(layout, run, signals, expected, tmp_path):
    x = signals if layout == "(n, C, S)" else signals[:, 0]
    np.save(tmp_path / "x.npy", x)
    assert main(["predict", f"run={run}", f"input={tmp_path / 'x.npy'}"]) == 0
    found = np.load(tmp_path / "x.probabilities.npy")
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)


def test_predict_reads_a_table_with_names(run, signals, expected, tmp_path):
    names = ",".join(f"pixel {i}" for i in range(64))
    path, output = tmp_path / "x.csv", tmp_path / "p.csv"
    np.savetxt(path, signals[:, 0], delimiter=",", header=names, comments="")
    assert main(["predict", f"run={run}", f"input={path}", f"output={output}"]) == 0
    head, *rows = output.read_text().splitlines()
    assert head.split(",") == [f"class_{i}" for i in range(10)]
    found = np.array([[float(v) for v in row.split(",")] for row in rows])
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_predict_takes_a_folder_names_bad_files_and_does_the_rest(
    run, signals, expected, tmp_path, capsys
):
    folder = tmp_path / "signals"
    folder.mkdir()
    np.save(folder / "a.npy", signals[0, 0])
    np.save(folder / "two channels.npy", np.zeros((2, 2, 64)))
    np.save(folder / "nan.npy", np.full((1, 1, 64), np.nan))
    (folder / "broken.npy").write_bytes(b"not an array")
    (folder / "words.csv").write_text("1,2\n3,four\n")
    (folder / "ragged.csv").write_text("1,2\n3\n")
    np.savetxt(folder / "z.csv", signals[1:3, 0], delimiter=",")
    assert main(["predict", f"run={run}", f"input={folder}"]) == 1
    err = capsys.readouterr().err.splitlines()
    bad = ("broken.npy", "nan.npy", "ragged.csv, line 2", "two channels.npy", "words.csv, line 2")
    assert [name in line for name, line in zip(bad, err, strict=True)] == [True] * 5
    rows = [row.split(",") for row in (tmp_path / "signals.probabilities.csv").read_text().split()]
    assert [row[:2] for row in rows[1:]] == [["a.npy", "0"], ["z.csv", "0"], ["z.csv", "1"]]
    found = np.array([[float(v) for v in row[2:]] for row in rows[1:]])
    np.testing.assert_allclose(found, expected[:3], atol=1e-5)


def test_predict_refuses_to_write_over_its_input(run, tmp_path, capsys):
    path = tmp_path / "x.npy"
    np.save(path, np.zeros((1, 64)))
    assert main(["predict", f"run={run}", f"input={path}", f"output={path}"]) == 2
    assert "output is the input" in only_line(capsys)
