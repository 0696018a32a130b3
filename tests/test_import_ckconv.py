"""`ccnn import-ckconv`: from the authors' file to a folder that the other commands take."""

import json

import numpy as np
import pytest
import torch

import ccnn
from ccnn.cli import main
from ccnn.models import CKCNN, load_ckconv
from ccnn.run import evaluate
from ccnn.tasks import mnist

OMEGA = "31.09195739463897"


@pytest.fixture(scope="module")
def file(data_root):
    return data_root / "checkpoints" / "ckcnn_smnist_30.pt"


def only_line(capsys) -> str:
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1, captured.err
    return captured.err


def test_the_folder_is_a_model(file, tmp_path, capsys):
    folder = tmp_path / "ckcnn"
    assert main(["import-ckconv", str(file), f"omega_0={OMEGA}", f"out={folder}"]) == 0
    line = capsys.readouterr().out
    assert "1 × 784, 10 classes, 98,286 parameters" in line
    assert f'ccnn.load("{folder}")' in line
    model = ccnn.load(folder)
    assert type(model) is CKCNN
    x = torch.randn(2, 1, 784)
    assert torch.equal(model(x), load_ckconv(file, omega_0=float(OMEGA))(x))


@pytest.fixture(scope="module")
def run(file, tmp_path_factory):
    """The folder of a run with the published weights."""
    folder = tmp_path_factory.mktemp("imported") / "run"
    words = [str(file), f"omega_0={OMEGA}", f"out={folder}", "task=smnist"]
    assert main(["import-ckconv", *words]) == 0
    return folder


def test_with_a_task_the_folder_is_a_finished_run(run):
    result = json.loads((run / "result.json").read_text())
    assert (result["task"], result["model"], result["parameters"]) == ("smnist", "ckcnn", 98_286)
    assert (result["epochs"], result["test"]) == (0, {})  # nothing is claimed of it
    assert type(ccnn.load(run / "model")) is CKCNN


def test_predict_takes_the_run(run, data_root, tmp_path):
    images = mnist.read_idx(mnist.find_file(data_root, mnist.IMAGES["test"]), 3)[:20]
    labels = mnist.read_idx(mnist.find_file(data_root, mnist.LABELS["test"]), 1)[:20]
    x = (images.reshape(20, 1, 784).astype(np.float32) / 255 - mnist.MEAN) / mnist.STD
    np.save(tmp_path / "x.npy", x)
    assert main(["predict", f"run={run}", f"input={tmp_path / 'x.npy'}"]) == 0
    probabilities = np.load(tmp_path / "x.probabilities.npy")
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    assert (probabilities.argmax(axis=1) == labels).all()


@pytest.mark.slow
def test_evaluate_gives_the_published_accuracy(run, data_root):
    assert evaluate(run, data_root=data_root).score == 0.9931


def test_a_folder_with_a_run_is_left_alone(file, run, capsys):
    before = {p: p.read_bytes() for p in run.rglob("*") if p.is_file()}
    assert main(["import-ckconv", str(file), f"omega_0={OMEGA}", f"out={run}"]) == 1
    assert "holds a run; name another folder" in only_line(capsys)
    assert {p: p.read_bytes() for p in run.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["FILE", "out=x"], "no omega_0 was named; say omega_0="),
        (["FILE", f"omega_0={OMEGA}"], "no out was named; say out="),
        ([f"omega_0={OMEGA}", "out=x"], "name one file of weights"),
        (["FILE", "FILE", f"omega_0={OMEGA}", "out=x"], "name one file of weights"),
        (["FILE", "omega_0=high", "out=x"], "omega_0 is 'high'; expected a number"),
        (["FILE", f"omega_0={OMEGA}", "out=x", "size=long"], "size is 'long'; expected the length"),
        (["FILE", f"omega_0={OMEGA}", "out=x", "taks=smnist"], "did you mean 'task'?"),
        (["FILE", f"omega_0={OMEGA}", "out=x", "task=smnits"], "did you mean 'smnist'?"),
        (["FILE", "omega_0=20", "out=x"], "give size="),
        (["FILE", f"omega_0={OMEGA}", "out=x", "task=cifar10"], "task=cifar10 has 2 axis/axes"),
    ],
)
def test_what_is_not_understood_is_one_line_and_exit_code_2(
    words, says, file, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(["import-ckconv", *(str(file) if w == "FILE" else w for w in words)]) == 2
    assert says in only_line(capsys)
    assert not (tmp_path / "x").exists()


def test_files_that_are_not_there_or_something_else_are_named(tmp_path, capsys):
    words = [f"omega_0={OMEGA}", f"out={tmp_path / 'x'}"]
    assert main(["import-ckconv", str(tmp_path / "net.pt"), *words]) == 1
    assert "there is no" in only_line(capsys)
    (tmp_path / "net.pt").write_text("weights\n")
    assert main(["import-ckconv", str(tmp_path / "net.pt"), *words]) == 2
    assert "net.pt cannot be read as weights" in only_line(capsys)
    assert not (tmp_path / "x").exists()
