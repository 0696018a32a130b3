"""The networks of `irregular.py`, and the ways in which they are told what is missing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from baselines import GRUClassifier
from torch import nn

import ccnn
from ccnn.training.settings import Batching, Optim


@dataclass(frozen=True, kw_only=True)
class Way:
    """A network, how it is trained, and the names under which it is tested.

    Parameters
    ----------
    network
        Makes it.
    optim, batching
        As for `ccnn.fitting.fit`; ``batching.missing`` says how training tells what is missing.
    tested
        How tests tell it, by the name in the table. A grid with holes whose sum is corrected by
        the density is the same sum as at points, so that one network can stand for both.
    folds
        Only the first so many, for what is measured beside the others; None is all.
    """

    network: Callable[[], nn.Module]
    optim: Optim
    batching: Batching
    tested: Mapping[str, str]
    folds: int | None = None


def _letters(extra: int = 0) -> nn.Module:
    return ccnn.CCNN(3 + extra, 20, (205,), blocks=4, channels=32, mask_sigma=0.15)


def _letters_gru() -> nn.Module:
    return GRUClassifier(3, 20, 64)


def _patients(extra: int = 0) -> nn.Module:
    return ccnn.CCNN(81 + extra, 2, (240,), blocks=1, channels=16, dropout=0.5, dropout_in=0.3)


def _patients_gru() -> nn.Module:
    return GRUClassifier(81, 2, 24, dropout=0.5)


_LETTERS = Optim(lr=0.02, weight_decay=0.01, warmup_epochs=2, epochs=24)
_PATIENTS = Optim(lr=0.003, weight_decay=0.3, warmup_epochs=2, epochs=15)


def _letters_way(
    missing: str, network: Callable[[], nn.Module] = _letters, *, drop: float = 0.7
) -> Way:
    batching = Batching(batch_size=32, drop=drop, missing=missing)
    return Way(network=network, optim=_LETTERS, batching=batching, tested={missing: missing})


def _patients_way(missing: str, network: Callable[[], nn.Module] = _patients) -> Way:
    batching = Batching(batch_size=32, missing=missing)
    return Way(network=network, optim=_PATIENTS, batching=batching, tested={missing: missing})


def _renamed(way: Way, name: str, *, folds: int | None = None) -> Way:
    (missing,) = way.tested.values()
    return replace(way, tested={name: missing}, folds=folds)


def _recurrent(way: Way, *, lr: float, weight_decay: float) -> Way:
    optim = replace(way.optim, lr=lr, weight_decay=weight_decay, clip=1.0)
    return replace(_renamed(way, "gru"), optim=optim)


# By the name that `--ways` takes.
LETTERS: dict[str, Way] = {
    "points": replace(_letters_way("density"), tested={"points": "points", "density": "density"}),
    "mask": _letters_way("mask"),
    "observed": _letters_way("observed", lambda: _letters(extra=1)),
    "gru": _recurrent(_letters_way("points", _letters_gru), lr=0.01, weight_decay=0.01),
    "trained at points": _renamed(_letters_way("points"), "points, trained there", folds=1),
    "nothing dropped": replace(
        _letters_way("density", drop=0.0), tested={"points, trained on all": "points"}, folds=1
    ),
}
PATIENTS: dict[str, Way] = {
    "points": _patients_way("points"),
    "mask": _patients_way("mask"),
    "observed": _patients_way("observed", lambda: _patients(extra=1)),
    "gru": _recurrent(_patients_way("points", _patients_gru), lr=0.003, weight_decay=0.1),
}
