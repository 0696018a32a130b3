"""What each way to convolve costs: as measured by us, or on the user's own machine.

``ccnn bench crossover --store`` measures and writes a small JSON file into the user's cache
folder, which is read once, when this module is imported.
"""

import json
import math
import os
import warnings
from dataclasses import asdict, dataclass, fields
from pathlib import Path

# One number for each D; the last stands for more than 3 axes, too.
PerDimension = tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Nanoseconds per sample of the result (direct), or per transform; only their order matters.

    Attributes
    ----------
    direct_start, direct_tap
        A direct convolution of up to 9 taps on every axis, for which torch has a fast kernel: a
        start, and so much for every tap.
    direct_slow
        Beyond 9 taps, for every tap.
    gradient_start, gradient_tap
        The gradient of the kernel in a direct convolution.
    fft
        A transform of n samples, per n log₂ n.
    fft_large
        The same once n no longer fits the cache.
    blocks_forward, blocks_training
        Cutting into pieces and joining them, for every sample of a transform.
    """

    direct_start: PerDimension
    direct_tap: PerDimension
    direct_slow: PerDimension
    gradient_start: PerDimension
    gradient_tap: PerDimension
    fft: PerDimension
    fft_large: float
    blocks_forward: float
    blocks_training: float

    def __post_init__(self) -> None:
        """Refuse what is no cost: a file may hold anything."""
        for field in fields(self):
            value = asdict(self)[field.name]
            numbers = value if field.type == PerDimension else (value,)
            if len(numbers) not in (1, 3) or not all(
                isinstance(n, int | float) and math.isfinite(n) and n >= 0 for n in numbers
            ):
                raise ValueError(f"{field.name} must be {field.type} of costs ≥ 0, got {value!r}")


# Two cores of a server, 110 channels: `ccnn bench crossover`.
MEASURED = Costs(
    direct_start=(0.86, 0.94, 2.0),
    direct_tap=(0.033, 0.0144, 0.042),
    direct_slow=(0.39, 0.465, 0.08),
    gradient_start=(2.8, 2.0, 5.3),
    gradient_tap=(0.0, 0.15, 0.155),
    fft=(0.134, 0.195, 0.266),
    fft_large=0.229,
    blocks_forward=0.5,
    blocks_training=0.8,
)


def stored_at() -> Path:
    """Return the file with the user's own costs: under CCNN_CACHE, or the usual cache folder."""
    folder = os.environ.get("CCNN_CACHE")
    if folder:
        return Path(folder) / "costs.json"
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "ccnn" / "costs.json"


def load() -> Costs:
    """Return the stored costs, or ours where there are none; a broken file is named and ignored."""
    try:
        path = stored_at()
        text = path.read_text()
    except (OSError, RuntimeError):  # no such file, or no home folder
        return MEASURED
    try:
        found = {k: tuple(v) if isinstance(v, list) else v for k, v in json.loads(text).items()}
        return Costs(**found)  # type: ignore[arg-type]  # the constructor checks them
    except (ValueError, TypeError, AttributeError) as error:
        warnings.warn(
            f"{path} is not what `ccnn bench crossover --store` writes ({error}); it is ignored: "
            "delete it or store again",
            stacklevel=2,
        )
        return MEASURED


def store(costs: Costs) -> Path:
    """Write costs for this user's future processes, all or nothing, and return where."""
    path = stored_at()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_text(json.dumps(asdict(costs), indent=2) + "\n")
    os.replace(partial, path)
    return path


# Read now and not at the first convolution: a compiler must not trace the reading of a file.
CURRENT = load()
