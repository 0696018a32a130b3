"""What a run ends with, and what it ran on."""

import dataclasses
import importlib.metadata
import json
import os
import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ccnn.training.metrics import Row


@dataclass(frozen=True, kw_only=True)
class Result:
    """The outcome of a run; all but ``history`` is ``result.json``.

    ``val`` and ``test`` hold ``loss`` and ``accuracy`` (or ``mse``) of the best weights, and are
    empty where there were no such samples. ``seconds`` counts training with its validation.
    """

    task: str | None
    model: str | None
    recipe: str | None
    seed: int
    loss: str
    epochs: int
    steps: int
    parameters: int
    best_epoch: int
    train_samples: int
    val: dict[str, float]
    test: dict[str, float]
    seconds: float
    command: str | None
    versions: dict[str, str]
    hardware: dict[str, Any]
    history: list[Row] = field(default_factory=list, repr=False)

    def to_json(self) -> str:
        """Return the content of ``result.json``."""
        values = dataclasses.asdict(self)
        del values["history"]
        return json.dumps(values, indent=2) + "\n"


def versions() -> dict[str, str]:
    """Return the versions of what computed a result."""
    return {
        "ccnn": importlib.metadata.version("ccnn"),
        "torch": torch.__version__,
        "lightning": importlib.metadata.version("lightning"),
        "python": platform.python_version(),
    }


def hardware(device: torch.device) -> dict[str, Any]:
    """Return what a run ran on; nothing that tells whose machine it was."""
    gpus = device.type == "cuda"
    count = torch.cuda.device_count() if gpus else 0
    return {
        "device": device.type,
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_gb": _memory_gb(),
        "gpus": [torch.cuda.get_device_name(i) for i in range(count)],
    }


def _cpu_name() -> str:
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory_gb() -> float | None:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    return round(size / 2**30, 1)
