"""Measuring: interleaved in one process, medians, ratios; and what the machine can do at best."""

import csv
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch


def interleaved(
    variants: Mapping[str, Callable[[], object]], *, rounds: int, warmup: int = 1
) -> dict[str, float]:
    """Return the median seconds of each variant, run in turn so that all share the weather."""
    times: dict[str, list[float]] = {name: [] for name in variants}
    for i in range(warmup + rounds):
        for name, run in variants.items():
            start = time.perf_counter()
            run()
            if i >= warmup:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(t) for name, t in times.items()}


def best(run: Callable[[], object], rounds: int = 7) -> float:
    """Return the shortest time of several: what the machine can do."""
    run()
    shortest = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest


def sgemm_rate() -> float:
    """Return the flops per second of a 2048³ matrix product."""
    a = torch.randn(2048, 2048)
    return 2 * 2048**3 / best(lambda: a @ a)


def copy_rate() -> float:
    """Return the bytes per second of a copy, read and write counted, of 256 MB."""
    a = torch.randn(64 << 20)
    b = torch.empty_like(a)
    return 2 * a.numel() * 4 / best(lambda: b.copy_(a))


def rfft_seconds_per_sample(shape: tuple[int, ...], dims: tuple[int, ...]) -> float:
    """Return the time of a real FFT per real sample."""
    x = torch.randn(shape)
    return best(lambda: torch.fft.rfftn(x, dim=dims)) / x.numel()


def write_csv(path: Path, rows: list[dict[str, object]]) -> None:
    """Write rows with the union of their columns, in order of appearance."""
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = list(dict.fromkeys(key for row in rows for key in row))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)
