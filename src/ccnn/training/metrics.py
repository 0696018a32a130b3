"""What is measured in an epoch: sums that add up over batches and processes, and learned sizes."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ccnn.nn.conv import AbstractContinuousConv
from ccnn.training.penalties import convolutions

Row = dict[str, float | int | str]


class Sums:
    """Loss, score and count over the batches of an epoch, in double precision."""

    def __init__(self) -> None:
        self.values = torch.zeros(3, dtype=torch.float64)

    def add(self, loss: Tensor, score: Tensor, count: Tensor) -> None:
        """Add what `ccnn.training.losses` returned for one batch."""
        new = torch.stack([loss.detach().double(), score.detach().double(), count.double()])
        self.values = self.values.to(new.device) + new

    def total(self) -> Tensor:
        """Return the sums over all processes, on the host."""
        values = self.values.clone()
        if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            dist.all_reduce(values)
        return values.cpu()

    def means(self) -> tuple[float, float]:
        """Return the mean loss and the mean score over all processes."""
        loss, score, count = self.total().tolist()
        return loss / (count or 1), score / (count or 1)


def window_columns(model: nn.Module) -> Row:
    """Return ``kernel_size_i`` and ``sigma_i`` of every continuous convolution.

    Sizes are samples per axis that the window keeps, joined by x: ``5x5``.
    """
    row: Row = {}
    layers = convolutions(model)
    for i, layer in enumerate(layers):
        row[f"kernel_size_{i}"] = "x".join(map(str, learned_size(layer)))
    for i, layer in enumerate(layers):
        if layer.mask is not None:
            row[f"sigma_{i}"] = "x".join(f"{s:.6g}" for s in layer.mask.sigma.tolist())
    return row


def learned_size(layer: AbstractContinuousConv) -> tuple[int, ...]:
    """Return how many samples of the kernel lie inside of its window, per axis."""
    if layer.mask is None:
        return layer.kernel_size
    sizes = []
    for extent, k in zip(layer.mask.extent().tolist(), layer.kernel_size, strict=True):
        most = k - 1 if layer.causal else k // 2
        # The direct neighbours are always kept; `not <` is true for a NaN as well.
        reach = extent * (k - 1) / 2
        inside = most if not reach < most else max(int(reach), min(1, most))
        sizes.append(inside + 1 if layer.causal else 2 * inside + 1)
    return tuple(sizes)


def csv_bytes(history: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the rows as the content of ``metrics.csv``."""
    if not history:
        return b""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(history[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(history)
    return text.getvalue().encode()


def numbers(row: Mapping[str, Any]) -> dict[str, float]:
    """Return a row for loggers, which take numbers only; of 5x7 the larger."""
    return {k: max(float(part) for part in str(v).split("x")) for k, v in row.items()}
