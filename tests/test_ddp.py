"""Two processes with gloo learn what one process learns from the doubled batch."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ccnn.training.checkpoints import read_checkpoint
from ccnn.training.settings import Batching, Machine, Optim

TOY = Path(__file__).parent / "training" / "toy.py"
spec = importlib.util.spec_from_file_location("toy", TOY)
toy = importlib.util.module_from_spec(spec)
spec.loader.exec_module(toy)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A run that Lightning's own launcher started in two processes."""
    folder = tmp_path_factory.mktemp("ddp")
    clean = {k: v for k, v in os.environ.items() if k not in ("LOCAL_RANK", "RANK", "WORLD_SIZE")}
    ended = subprocess.run(
        [sys.executable, str(TOY), "ddp", str(folder)],
        capture_output=True,
        text=True,
        env=clean | {"OMP_NUM_THREADS": "1"},
        timeout=100,
    )
    assert ended.returncode == 0, ended.stderr
    return folder


def one_process(folder: Path) -> dict:
    toy.run(
        folder,
        model=toy.network(dropout=0.0),
        splits=toy.Splits(toy.sines(64, 1), toy.sines(25, 2), None),
        optim=Optim(lr=0.02, epochs=2, warmup_epochs=1),
        batching=Batching(batch_size=16),
        machine=Machine(progress="none", accelerator="cpu", precision="64-true"),
        augment=None,
    )
    return read_checkpoint(folder / "checkpoints" / "last.ckpt")


def test_two_processes_equal_one_with_the_doubled_batch(folder, tmp_path):
    two = read_checkpoint(folder / "checkpoints" / "last.ckpt")
    one = one_process(tmp_path)
    assert two["step"] == one["step"] == 8
    assert two["model"].keys() == one["model"].keys()
    for name, value in one["model"].items():
        # In double precision: the stem's biases stand before a normalisation and have a gradient
        # of rounding errors only, which Adam would scale up to the learning rate in single.
        assert value.dtype == torch.float64 or not value.is_floating_point()
        torch.testing.assert_close(two["model"][name], value, atol=1e-5, rtol=1e-5, msg=name)
    for a, b in zip(two["history"], one["history"], strict=True):
        for key in ("train_loss", "train_accuracy", "val_loss", "val_accuracy"):
            assert a[key] == pytest.approx(b[key], abs=1e-5), key


def test_processes_draw_their_own_random_numbers(folder):
    first, second = read_checkpoint(folder / "checkpoints" / "last.ckpt")["random"]
    assert not torch.equal(first["torch"], second["torch"])


@pytest.mark.slow
def test_processes_stop_together_and_go_on_bit_for_bit(tmp_path):
    for folder in ("whole", "stopped", "stopped"):
        launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
        ended = subprocess.run(
            [*launch, "--standalone", str(TOY), "ddp_stopped", str(tmp_path / folder)],
            capture_output=True,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            timeout=100,
        )
        assert ended.returncode == 0, ended.stderr
        if folder == "stopped":
            finished = (tmp_path / folder / "result.json").exists()
            steps = read_checkpoint(tmp_path / folder / "checkpoints" / "last.ckpt")["step"]
            assert (steps, finished) in ((6, False), (16, True))
    one, two = (
        read_checkpoint(tmp_path / name / "checkpoints" / "last.ckpt")["model"]
        for name in ("whole", "stopped")
    )
    assert all(torch.equal(value, two[name]) for name, value in one.items())


def test_one_process_wrote_the_files(folder):
    assert (folder / "result.json").exists()
    assert len((folder / "metrics.csv").read_text().splitlines()) == 1 + 2
