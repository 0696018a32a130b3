"""A task of seconds, and a program that trains it: tests import the one and start the other.

``python toy.py kills FOLDER`` trains, is killed ten times at random moments, goes on each time.
"""

import contextlib
import os
import random
import resource
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ccnn.fitting import fit
from ccnn.models import CCNN
from ccnn.training.results import Result
from ccnn.training.settings import Batching, Loggers, Machine, Optim
from ccnn.training.signals import Interrupted

OPTIM = Optim(lr=0.02, epochs=4, warmup_epochs=1, weight_decay=0.01)
BATCHING = Batching(batch_size=8)
SILENT = Machine(progress="none", accelerator="cpu", save_minutes=None)
NO_LOGGERS = Loggers(tensorboard=False)


@dataclass
class Samples:
    x: Tensor
    y: Tensor
    lengths: Tensor | None = None
    positions: Tensor | None = None
    mask: Tensor | None = None
    weights: Tensor | None = None


@dataclass
class Splits:
    train: Samples
    val: Samples | None
    test: Samples | None


def sines(n: int, seed: int, *, classes: int = 2) -> Samples:
    """Sines of one frequency per class with a random phase and some noise."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(0, classes, (n,), generator=generator)
    phase = 6.3 * torch.rand(n, 1, generator=generator)
    t = torch.linspace(0, 1, 24)
    x = torch.sin(6.3 * (2 + 2 * y[:, None]) * t + phase)
    return Samples((x + 0.3 * torch.randn(n, 24, generator=generator))[:, None], y)


def splits(n: int = 64) -> Splits:
    return Splits(sines(n, 1), sines(24, 2), sines(24, 3))


def network(
    *, dropout: float = 0.2, seed: int = 0, out: int = 2, head: str = "pool", in_channels: int = 1
) -> CCNN:
    torch.manual_seed(seed)
    return CCNN(
        in_channels,
        out,
        (24,),
        blocks=1,
        channels=6,
        kernel_channels=4,
        dropout=dropout,
        head=head,
    )


def noisy(x: Tensor) -> Tensor:
    """An augmentation that draws random numbers."""
    return x + 0.1 * torch.randn_like(x)


def run(folder: Path | None, *, resume: bool = False, augment=noisy, **changes) -> Result:
    """Train the toy; ``changes`` are those of `fit`."""
    settings = {
        "optim": OPTIM,
        "batching": BATCHING,
        "machine": SILENT,
        "loggers": NO_LOGGERS,
        "folder": folder,
        "resume": resume,
        "augment": augment,
    }
    model = changes.pop("model", None) or network()
    return fit(model, changes.pop("splits", None) or splits(), **(settings | changes))


# The program


def in_a_process(work) -> int:
    """Fork, work in the child, and return its process id: no imports to wait for."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    except Exception:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def kills(folder: Path, times: int = 10) -> None:
    """Kill a run at random moments, each time after it has got a little further."""
    optim = Optim(lr=0.02, epochs=12, warmup_epochs=1, ema=0.9)
    machine = Machine(progress="none", accelerator="cpu", save_minutes=None, save_steps=3)

    def slowly(x: Tensor) -> Tensor:
        time.sleep(0.02)  # so that ten lives, each killed within 0.12 s of a save, are too few
        return noisy(x)

    def train(where: Path, augment=slowly) -> None:
        run(where, resume=True, optim=optim, machine=machine, augment=augment)

    reference = in_a_process(lambda: train(folder / "whole", noisy))
    assert os.waitpid(reference, 0)[1] == 0
    last, luck = folder / "killed" / "checkpoints" / "last.ckpt", random.Random(0)
    for _ in range(times):
        before = last.stat().st_mtime_ns if last.exists() else 0
        child = in_a_process(lambda: train(folder / "killed"))
        while not last.exists() or last.stat().st_mtime_ns == before:
            time.sleep(0.002)
        time.sleep(luck.uniform(0, 0.12))
        assert os.waitpid(child, os.WNOHANG) == (0, 0), "it was over before it was killed"
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    final = in_a_process(lambda: train(folder / "killed", noisy))
    assert os.waitpid(final, 0)[1] == 0


def full_disk(folder: Path) -> None:
    """Let the disk be full in the middle of a run, then go on with room again."""

    def train() -> None:
        calls = 0

        def fill(x: Tensor) -> Tensor:
            nonlocal calls
            calls += 1
            if calls == 20:  # in the third epoch
                resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
            return noisy(x)

        run(folder / "full", resume=True, augment=fill)

    child = in_a_process(train)
    assert os.waitpid(child, 0)[1] != 0
    again = in_a_process(lambda: run(folder / "full", resume=True))
    assert os.waitpid(again, 0)[1] == 0


def ddp(folder: Path) -> None:
    """Train with as many processes as Lightning is told to start."""
    machine = Machine(
        progress="none", accelerator="cpu", devices=2, strategy="ddp", precision="64-true"
    )
    optim = Optim(lr=0.02, epochs=2, warmup_epochs=1)
    data = Splits(sines(64, 1), sines(25, 2), None)  # an odd number to validate
    run(
        folder,
        model=network(dropout=0.0),
        splits=data,
        optim=optim,
        machine=machine,
        augment=None,
        resume=True,
    )


def ddp_stopped(folder: Path) -> None:
    """Let one of two processes be asked to stop, in the first life of the run."""
    calls, first_life = 0, not (folder / "checkpoints").exists()

    def stop(x: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        if calls == 6 and first_life and os.environ["RANK"] == "1":
            os.kill(os.getpid(), signal.SIGTERM)
        return noisy(x)

    machine = Machine(progress="none", accelerator="cpu", devices=2, strategy="ddp")
    whole = folder.name == "whole"
    with contextlib.suppress(Interrupted):
        run(folder, resume=True, machine=machine, augment=noisy if whole else stop)


PROGRAMS = {"kills": kills, "full_disk": full_disk, "ddp": ddp, "ddp_stopped": ddp_stopped}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](Path(sys.argv[2]))
