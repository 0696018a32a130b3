"""The problems of `resolution.py`: real signals, at the rate of training and at others."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ccnn.tasks import chartrajectories, mnist, speech
from ccnn.tasks.task import Samples, Splits
from ccnn.training.resampling import resample_samples


def whole(samples: Samples) -> Samples:
    return samples


def block_means(samples: Samples) -> Samples:
    """Average 2×2 pixels; the result lies half a pixel off, which no difference of places sees."""
    return replace(samples, x=F.avg_pool2d(samples.x, 2))


def every(step: int) -> Callable[[Samples], Samples]:
    """Take every so-manieth sample of each axis, low-passing nothing."""
    return lambda samples: Samples(*resample_samples(samples, float(step)))


def half_rate(samples: Samples) -> Samples:
    """Take every second sample of sounds of even length, all above the new Nyquist removed."""
    n = samples.x.shape[-1]
    spectrum = torch.fft.rfft(samples.x)[..., : n // 4 + 1] / 2
    spectrum[..., -1] = 0  # what is left of Nyquist would depend on its phase
    return replace(samples, x=torch.fft.irfft(spectrum, n=n // 2))


def shifted(x: Tensor) -> Tensor:
    """Move a batch of sounds by up to a tenth of a second, for training."""
    most = x.shape[-1] // 10
    return x.roll(int(torch.randint(-most, most + 1, ())), dims=-1)


@dataclass(frozen=True)
class Rate:
    """A sampling rate: what it is called, its spacing in training samples, how to come there."""

    name: str
    spacing: float
    thin: Callable[[Samples], Samples] = whole


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Signals to classify, and the network and the recipe for all ways alike.

    ``trained`` and ``others`` start from what ``read`` returns; ``omega_0`` is the paper's for
    these data (Table 5), or for the nearest.
    """

    title: str
    read: Callable[[Path], Splits]
    size: tuple[int, ...]
    trained: Rate
    others: tuple[Rate, ...]
    omega_0: float
    epochs: int
    in_channels: int = 1
    classes: int = 10
    batch_size: int = 25
    lr: float = 0.01
    network: Mapping[str, Any] = field(default_factory=dict)
    plain: Mapping[str, Any] = field(default_factory=dict)
    augment: Callable[[Tensor], Tensor] | None = None


def _limited(
    read: Callable[[Path], Splits], train: int, val: int, test: int
) -> Callable[[Path], Splits]:
    def few(root: Path) -> Splits:
        parts = read(root)
        counts = ((parts.train, train), (parts.val, val), (parts.test, test))
        return Splits(*(samples.take(slice(count)) for samples, count in counts))

    return few


def loudest_half(samples: Samples) -> Samples:
    """Return the half of each clip that holds most of its energy, at the same loudness."""
    n = samples.x.shape[-1] // 2
    energy = F.pad(samples.x.square().cumsum(dim=-1), (1, 0))
    begin = (energy[..., n:] - energy[..., :-n]).argmax(dim=-1, keepdim=True)  # (n, 1, 1)
    x = samples.x.gather(-1, begin + torch.arange(n))
    return replace(samples, x=x / x.square().mean(dim=-1, keepdim=True).sqrt())


def _few_clips(root: Path) -> Splits:
    """Return the ten words; all that is not learned from is tested, being so few."""
    parts = speech.SPEECH_RAW.load(root)
    x, y = torch.cat([parts.val.x, parts.test.x]), torch.cat([parts.val.y, parts.test.y])
    return Splits(*(loudest_half(s) for s in (parts.train, parts.val, Samples(x, y))))


_IMAGES = {
    "read": _limited(mnist.MNIST.load, 6_000, 2_000, 4_000),
    "omega_0": 2976.49,
    "network": {"blocks": 4, "channels": 24},
}
_AT_28 = _IMAGES | {
    "size": (28, 28),
    "trained": Rate("28×28", 1.0),
    "others": (Rate("14×14", 2.0, block_means), Rate("14×14, every 2nd", 2.0, every(2))),
}
PROBLEMS = {
    "mnist28": Problem(title="MNIST, trained at 28×28", epochs=2, **_AT_28),
    "mnist28_longer": Problem(
        title="MNIST, trained at 28×28, three times as long", epochs=6, **_AT_28
    ),
    "mnist14": Problem(
        title="MNIST, trained at 14×14",
        size=(14, 14),
        trained=Rate("14×14", 1.0, block_means),
        others=(Rate("28×28", 0.5),),
        epochs=3,
        **_IMAGES,
    ),
    "mnist14_every_second": Problem(
        title="MNIST, trained at 14×14, every second pixel",
        size=(14, 14),
        trained=Rate("14×14, every 2nd", 1.0, every(2)),
        others=(Rate("28×28", 0.5),),
        epochs=3,
        **_IMAGES,
    ),
    "smnist": Problem(
        title="MNIST as a sequence",
        read=_limited(mnist.SMNIST.load, 6_000, 2_000, 4_000),
        size=(784,),
        trained=Rate("784", 1.0),
        others=(Rate("392", 2.0, every(2)), Rate("196", 4.0, every(4))),
        omega_0=2976.49,
        epochs=2,
        network={"blocks": 4, "channels": 24, "causal": True},
    ),
    "chartrajectories": Problem(
        title="CharacterTrajectories",
        read=chartrajectories.CHARTRAJECTORIES.load,
        size=(chartrajectories.LONGEST,),
        trained=Rate("200 Hz", 1.0),
        others=(Rate("100 Hz", 2.0, every(2)), Rate("50 Hz", 4.0, every(4))),
        omega_0=750.18,  # of the sequences of 161 MFCCs
        epochs=15,
        in_channels=3,
        classes=20,
        network={"blocks": 4, "channels": 24},
    ),
    "speech": Problem(
        title="ten spoken words, 200 clips",
        read=_few_clips,
        size=(8_000,),
        trained=Rate("16 kHz", 1.0),
        others=(Rate("8 kHz", 2.0, half_rate),),
        omega_0=1295.61,
        epochs=35,
        batch_size=10,
        network={"blocks": 4, "channels": 16},
        plain={"kernel_size": 9, "stride": 4},
        augment=shifted,
    ),
}
