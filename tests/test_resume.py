"""A run that was stopped, however roughly, ends as if it had not been."""

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ccnn.training.checkpoints import read_checkpoint
from ccnn.training.settings import Batching, Machine, Optim
from ccnn.training.signals import Interrupted

TOY = Path(__file__).parent / "training" / "toy.py"
spec = importlib.util.spec_from_file_location("toy", TOY)
toy = importlib.util.module_from_spec(spec)
spec.loader.exec_module(toy)


def last(folder: Path) -> dict:
    return read_checkpoint(folder / "checkpoints" / "last.ckpt")


def assert_same_run(one: Path, other: Path) -> None:
    """Weights, optimiser, averages, best weights and metrics are equal bit for bit."""
    a, b = last(one), last(other)
    for key in ("model", "average", "optimizer", "train_sums", "random", "epoch", "step"):
        assert_equal(a[key], b[key], key)
    assert_equal(a["best"]["weights"], b["best"]["weights"], "best")
    assert timeless(one) == timeless(other)


def assert_equal(a: object, b: object, where: str) -> None:
    if isinstance(a, torch.Tensor):
        assert torch.equal(a, b), where
    elif isinstance(a, dict):
        assert a.keys() == b.keys(), where
        for key in a:
            assert_equal(a[key], b[key], f"{where}.{key}")
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_equal(x, y, f"{where}[{i}]")
    else:
        assert a == b, where


def timeless(folder: Path) -> list[list[str]]:
    """The cells of metrics.csv but for the time they took."""
    rows = [line.split(",") for line in (folder / "metrics.csv").read_text().splitlines()]
    column = rows[0].index("seconds")
    return [row[:column] + row[column + 1 :] for row in rows]


def program(name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, str(TOY), name, str(folder)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=100,
    )


def stopping_at(call: int, signum: int):
    """Return the toy's augmentation, which sends a signal to this process at one of its calls."""
    calls = 0

    def augment(x):
        nonlocal calls
        calls += 1
        if calls == call:
            os.kill(os.getpid(), signum)
        return toy.noisy(x)

    return augment


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "whole"
    toy.run(folder)
    return folder


def test_killed_ten_times_at_random_moments(tmp_path):
    ended = program("kills", tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert_same_run(tmp_path / "whole", tmp_path / "killed")
    assert len(timeless(tmp_path / "killed")) == 1 + 12  # no row twice, none lost
    for name in ("predictions.npz", "result.json", "config.yaml"):
        assert (tmp_path / "killed" / name).exists()
    assert not list((tmp_path / "killed").rglob("*.tmp"))


def test_full_disk_loses_nothing(tmp_path, whole):
    ended = program("full_disk", tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "last.ckpt" in ended.stderr
    assert "Make room" in ended.stderr
    assert_same_run(whole, tmp_path / "full")


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
@pytest.mark.parametrize("call", [3, 8, 21])  # inside an epoch, and with its last step
def test_signal_saves_and_the_run_goes_on(tmp_path, whole, signum, call):
    before = signal.getsignal(signum)
    with pytest.raises(Interrupted, match=r"resume=true") as stop:
        toy.run(tmp_path / "run", augment=stopping_at(call, signum))
    assert stop.value.signum == signum
    assert signal.getsignal(signum) is before
    assert last(tmp_path / "run")["step"] == call  # the step was finished
    toy.run(tmp_path / "run", resume=True)
    assert_same_run(whole, tmp_path / "run")


def test_run_goes_on_inside_accumulation_and_with_an_average(tmp_path):
    settings = {
        "optim": Optim(lr=0.02, epochs=3, warmup_epochs=1, ema=0.9, clip=1.0, mixup=0.3,
                       decay="authors", weight_decay=1e-3, aliasing=0.1),
        "batching": Batching(batch_size=8, accumulate=2),
    }  # fmt: skip
    toy.run(tmp_path / "whole", **settings)
    with pytest.raises(Interrupted):
        # The first half of step 9 has been computed when the signal comes.
        toy.run(tmp_path / "run", augment=stopping_at(19, signal.SIGINT), **settings)
    assert last(tmp_path / "run")["batch"] % 2 == 0
    toy.run(tmp_path / "run", resume=True, **settings)
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_damaged_checkpoint_falls_back_to_the_one_before(tmp_path, whole, capsys):
    machine = Machine(progress="plain", accelerator="cpu", save_minutes=None, save_steps=2)
    with pytest.raises(Interrupted):
        toy.run(tmp_path / "run", augment=stopping_at(13, signal.SIGINT), machine=machine)
    path = tmp_path / "run" / "checkpoints" / "last.ckpt"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1  # one bit
    path.write_bytes(content)
    toy.run(tmp_path / "run", resume=True, machine=machine)
    assert "checksum differs" in capsys.readouterr().out
    assert_same_run(whole, tmp_path / "run")


def test_both_checkpoints_cut_off_start_again(tmp_path, whole, capsys):
    machine = Machine(progress="plain", accelerator="cpu", save_minutes=None)
    with pytest.raises(Interrupted):
        toy.run(tmp_path / "run", augment=stopping_at(18, signal.SIGINT), machine=machine)
    for name in ("last.ckpt", "previous.ckpt"):
        path = tmp_path / "run" / "checkpoints" / name
        path.write_bytes(path.read_bytes()[:1000])
    toy.run(tmp_path / "run", resume=True, machine=machine)
    assert capsys.readouterr().out.count("cut off") == 2
    assert_same_run(whole, tmp_path / "run")


def test_folder_of_another_run_is_refused(whole):
    with pytest.raises(FileExistsError, match="already holds a run"):
        toy.run(whole)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"optim": Optim(lr=0.03, epochs=4, warmup_epochs=1, weight_decay=0.01)}, "optim.lr"),
        ({"batching": Batching(batch_size=16)}, "data.batch_size"),
        ({"seed": 1}, "seed"),
        ({"augment": None}, "data.augment"),
        ({"model": toy.network(dropout=0.5)}, "model.dropout"),
    ],
)
def test_changed_recipe_is_refused_by_name(whole, change, key):
    with pytest.raises(ValueError, match=rf"with {key}=.*same recipe only"):
        toy.run(whole, resume=True, **change)


def test_finished_run_is_not_trained_again(tmp_path, whole):
    before = last(whole)
    result = toy.run(whole, resume=True)
    assert result.steps == before["step"]
    assert_equal(last(whole)["model"], before["model"], "model")


def test_longer_run_goes_on(tmp_path):
    toy.run(tmp_path, machine=Machine(progress="none", accelerator="cpu", max_epochs=2))
    result = toy.run(tmp_path, resume=True)
    assert result.epochs == 4
    assert len(timeless(tmp_path)) == 1 + 4
