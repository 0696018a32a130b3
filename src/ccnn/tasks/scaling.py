"""How a user's own data were prepared, so that further data are prepared alike."""

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """Means and deviations of the training signals and targets, and the names of the classes.

    Parameters
    ----------
    mean, std
        Of each channel, over all training samples that exist.
    labels
        The classes in the order of the network's outputs; empty where targets are numbers.
    target_mean, target_std
        Of each number that is learned; empty where targets are classes.
    rate
        Samples per second, where the signals are sound.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    labels: tuple[str, ...] = ()
    target_mean: tuple[float, ...] = ()
    target_std: tuple[float, ...] = ()
    rate: int | None = None

    def apply(self, x: Tensor) -> Tensor:
        """Return signals, (n, C, *S), standardised by channel."""
        if x.ndim < 2 or x.shape[1] != len(self.mean):
            raise ValueError(
                f"signals of shape {tuple(x.shape)} do not have the {len(self.mean)} channel(s) "
                "that the network was trained on"
            )
        return (x.float() - _beside(self.mean, x)) / _beside(self.std, x)

    def scale_targets(self, y: Tensor) -> Tensor:
        """Return numbers, (n, K) or (n, K, *S), as the network learns them."""
        return (y - _beside(self.target_mean, y)) / _beside(self.target_std, y)

    def restore(self, outputs: Tensor) -> Tensor:
        """Return what the network says in the user's unit; probabilities stay what they are."""
        if not self.target_mean:
            return outputs
        return outputs * _beside(self.target_std, outputs) + _beside(self.target_mean, outputs)

    def to_json(self) -> str:
        """Return the text of the file that a run keeps."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Scaling":
        """Return what `to_json` wrote."""
        content: dict[str, Any] = json.loads(text)
        fields: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in content.items()
        }
        return cls(**fields)


def _beside(numbers: tuple[float, ...], like: Tensor) -> Tensor:
    """Return one number per channel, (K,) -> (K, 1, …), to be laid under (n, K, …)."""
    return torch.tensor(numbers, dtype=torch.float32).view(-1, *[1] * (like.ndim - 2))
