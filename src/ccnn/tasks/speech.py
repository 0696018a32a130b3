"""Speech Commands, ten words: the sound itself, and its MFCCs (App. A)."""

import hashlib
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ccnn.tasks import clip_cache
from ccnn.tasks.arrays import ANY, read_npz
from ccnn.tasks.audio import mfcc, read_wav
from ccnn.tasks.fetch import Download, fetcher
from ccnn.tasks.splitting import stratified
from ccnn.tasks.task import DataDamaged, Samples, Splits, Task

WORDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")
LENGTH = RATE = 16_000
COUNTS = (24_482, 5_246, 5_247)
SUBSET = "speech_commands10_subset.npz"
VERSIONS = ("speech_commands_v0.02", "speech_commands_v0.01")  # the paper's first
BLOCK = 256  # clips that are prepared at once

Feature = Callable[[Tensor], Tensor]
Part = tuple[np.ndarray, np.ndarray, np.ndarray]  # clips, labels, and which of them


def find_folder(root: Path) -> Path | None:
    """Return the folder of the ten words, where torchaudio or the archive itself puts it."""
    for version in VERSIONS:
        for folder in (root / "SpeechCommands" / version, root / version):
            if all((folder / word).is_dir() for word in WORDS):
                return folder
    return None


def find(root: Path) -> bool:
    """Tell whether the ten words or a part of them are there."""
    return find_folder(root) is not None or (root / SUBSET).is_file()


# The whole set


class ClipFile(NamedTuple):
    """One recording, and what changes when its file does."""

    word: str
    path: Path
    size: int
    modified: int


def list_files(folder: Path) -> list[ClipFile]:
    """Return the recordings of the ten words by word and name: the same on every disk."""
    files = []
    for word in WORDS:
        with os.scandir(folder / word) as entries:
            names = {e.name: e for e in entries if e.name.endswith(".wav") and e.name[0] != "."}
        for name in sorted(names):
            path = folder / word / name
            try:
                state = names[name].stat()
            except FileNotFoundError as error:  # a link to nothing
                raise DataDamaged(f"{path} is damaged ({error}): fetch it again") from error
            files.append(ClipFile(word, path, state.st_size, state.st_mtime_ns))
    return files


def read_clips(folder: Path) -> clip_cache.Clips:
    """Return all clips of exactly 16,000 samples, from the cache if it is of the same files.

    Shapes
    ------
    result : clips (n, 16000) and labels (n,), both int16
    """
    files = list_files(folder)
    listing = "".join(f"{f.word}/{f.path.name} {f.size} {f.modified}\n" for f in files)
    key = hashlib.sha256(os.fsencode(listing)).hexdigest()
    place = clip_cache.place_of(folder)
    found = clip_cache.load(place, key)
    if found is None:
        found = _read_files(folder, files)
        clip_cache.store(place, key, *found)
        found = clip_cache.load(place, key) or found  # mapped, which gives the memory back
    return found


def _read_files(folder: Path, files: list[ClipFile]) -> clip_cache.Clips:
    samples, labels = bytearray(), []
    for file in files:
        wav = read_wav(file.path)
        if (wav.rate, wav.bits, len(wav.samples)) != (RATE, 16, 1):
            raise DataDamaged(
                f"{file.path} has {len(wav.samples)} channels of {wav.bits} bits at {wav.rate} Hz; "
                "expected one of 16 bits at 16,000: delete it and fetch it again"
            )
        if wav.samples.shape[1] == LENGTH:
            samples += wav.samples.tobytes()
            labels.append(WORDS.index(file.word))
    missing = [word for i, word in enumerate(WORDS) if i not in labels]
    if missing:
        raise DataDamaged(
            f"{folder} holds no clip of 16,000 samples of {', '.join(missing)}: "
            "unpack the archive again"
        )
    clips = np.frombuffer(samples, "<i2").reshape(-1, LENGTH)
    return clips, np.array(labels, np.int16)


def split(labels: np.ndarray) -> list[np.ndarray]:
    """Return the positions of the clips of each part: 70, 15 and 15 per cent of every word."""
    train = int(0.7 * len(labels))
    val = (len(labels) - train) // 2
    return stratified(labels, (train, val, len(labels) - train - val))


# A part of it, with a split of its own


def read_subset(path: Path) -> list[clip_cache.Clips]:
    """Read clips (n, 16000) and labels (n,) of the three parts from one file of arrays."""
    names = ("train", "validation", "testing")
    wanted = {f"x_{name}": (np.int16, (ANY, LENGTH)) for name in names}
    arrays = read_npz(path, wanted | {f"y_{name}": (np.int64, (ANY,)) for name in names})
    for clips, labels in zip(arrays[:3], arrays[3:], strict=True):
        known = len(labels) > 0 and labels.min() >= 0 and labels.max() < len(WORDS)
        if len(clips) != len(labels) or not known:
            raise DataDamaged(
                f"{path} is damaged ({len(clips)} clips, {len(labels)} labels; expected as many, "
                "with labels from 0 to 9): delete it and make it again"
            )
    return list(zip(arrays[:3], arrays[3:], strict=True))


# As the network takes it


def reader(feature: Feature) -> Callable[[Path], Splits]:
    """Return a function that reads a folder.

    Parameters
    ----------
    feature
        What becomes of sound in [-1, 1), (n, 16000) -> (n, C, S).
    """

    def read(root: Path) -> Splits:
        folder = find_folder(root)
        parts = _subset(root / SUBSET) if folder is None else _whole(folder)
        samples = [
            Samples(
                _features(clips, index, feature), torch.from_numpy(labels[index].astype(np.int64))
            )
            for clips, labels, index in parts
        ]
        # By channel. The authors standardise every time step by itself, which fits one length only.
        std, mean = torch.std_mean(samples[0].x, dim=(0, 2), keepdim=True)
        for part in samples:
            part.x.sub_(mean).div_(std.clamp(min=1e-8))
        return Splits(*samples)

    return read


def _subset(path: Path) -> list[Part]:
    """Return the three parts; the file has them by word, and training may take the first few."""
    random = np.random.RandomState(0)
    return [(clips, labels, random.permutation(len(labels))) for clips, labels in read_subset(path)]


def _whole(folder: Path) -> list[Part]:
    clips, labels = read_clips(folder)
    if len(labels) != sum(COUNTS):
        warnings.warn(
            f"{folder} has {len(labels):,} clips of 16,000 samples, and the paper's set "
            f"{sum(COUNTS):,} (v0.02): results cannot be compared with it",
            stacklevel=2,
        )
    return [(clips, labels, index) for index in split(labels)]


def _features(clips: np.ndarray, index: np.ndarray, feature: Feature) -> Tensor:
    """Return what the network takes of some clips, made a few at a time to save memory."""
    result = torch.empty(0)
    for begin in range(0, len(index), BLOCK):
        block = clips[index[begin : begin + BLOCK]]
        x = feature(torch.from_numpy(np.divide(block, 32_768, dtype=np.float32)))
        if begin == 0:
            result = x.new_empty(len(index), *x.shape[1:])
        result[begin : begin + BLOCK] = x
    return result


ARCHIVE = Download(
    urls=(f"http://download.tensorflow.org/data/{VERSIONS[0]}.tar.gz",),
    checksum="sha256:af14739ee7dc311471de98f5f9d2c9191b18aedfe957f4a6ff791c709868ff58",
    path=f"SpeechCommands/{VERSIONS[0]}",
    unpacked=5_000_000_000,
)
_SHARED: dict[str, Any] = {
    "classes": 10,
    "counts": COUNTS,
    "source": "Speech Commands v0.02, download.tensorflow.org, ten of its 35 words",
    "files": f"SpeechCommands/{VERSIONS[0]}, {VERSIONS[0]} or {SUBSET}",
    "find": find,
    "fetch": fetcher(ARCHIVE),
}
SPEECH_RAW = Task(
    name="speech_raw",
    title="Speech Commands, raw",
    size=(LENGTH,),
    in_channels=1,
    paper={"ccnn_4_140": 98.34, "ccnn_6_380": 98.44},
    read=reader(lambda x: x[:, None]),
    **_SHARED,
)
SPEECH_MFCC = Task(
    name="speech_mfcc",
    title="Speech Commands, MFCC",
    size=(161,),
    in_channels=20,
    paper={"ccnn_4_140": 95.01, "ccnn_6_380": 97.98},
    read=reader(mfcc),
    **_SHARED,
)
