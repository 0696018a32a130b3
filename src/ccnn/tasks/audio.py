"""Sound: WAV files, other sampling rates, and MFCCs."""

import math
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ccnn.tasks.task import DataDamaged

PCM, EXTENSIBLE = 1, 0xFFFE
# The long name of the same format, as Windows writes it.
PCM_GUID = bytes.fromhex("01000000 0000 1000 8000 00aa00389b71")

# The MFCCs of the paper's task: torchaudio's, with these settings.
MFCC_RATE = 16_000
COEFFICIENTS, MELS, WINDOW, HOP = 20, 64, 200, 100
LOG_OFFSET = 1e-6

ZERO_CROSSINGS = 10  # of the sinc on each side of its centre
KAISER_BETA = 5.0


@dataclass(frozen=True)
class Wav:
    """What a WAV file holds.

    Parameters
    ----------
    samples
        Integers, from -2^(bits-1) to 2^(bits-1) - 1.
    rate
        Samples per second.
    bits
        Of each sample in the file.

    Shapes
    ------
    samples : (channels, n)
    """

    samples: np.ndarray
    rate: int
    bits: int

    def signal(self) -> Tensor:
        """Return the samples as float32 in [-1, 1), (channels, n)."""
        return torch.from_numpy((self.samples / 2 ** (self.bits - 1)).astype(np.float32))


# WAV


def read_wav(path: Path) -> Wav:
    """Read a WAV file of integers, 8, 16, 24 or 32 bits, mono or stereo.

    Raises
    ------
    DataDamaged
        If it is cut, longer than it says, contradicts itself, or holds anything else.
    """
    try:
        content = path.read_bytes()
    except PermissionError:
        raise
    except OSError as error:
        raise DataDamaged(_damaged(path, str(error))) from error
    chunks = _chunks(path, content)
    for name in (b"fmt ", b"data"):
        if name not in chunks:
            raise DataDamaged(_damaged(path, f"it has no part named {name.decode().strip()!r}"))
    channels, rate, bits = _format(path, chunks[b"fmt "])
    data, frame = chunks[b"data"], channels * bits // 8
    if not data or len(data) % frame:
        raise DataDamaged(
            _damaged(path, f"it holds {len(data)} bytes of sound, {frame} for each position")
        )
    return Wav(_integers(data, bits).reshape(-1, channels).T, rate, bits)


def _chunks(path: Path, content: bytes) -> dict[bytes, bytes]:
    """Return the parts of a RIFF file by name."""
    if len(content) < 12 or content[:4] != b"RIFF" or content[8:12] != b"WAVE":
        raise DataDamaged(_damaged(path, "it does not begin like a WAV file"))
    end = 8 + struct.unpack_from("<I", content, 4)[0]
    # A part of odd length is followed by a byte that not every program counts.
    if len(content) != end and len(content) != end + end % 2:
        raise DataDamaged(_damaged(path, f"it says {end} bytes, and has {len(content)}"))
    chunks: dict[bytes, bytes] = {}
    place = 12
    while place < end:
        name, size = content[place : place + 4], content[place + 4 : place + 8]
        begin = place + 8
        if begin > end or not all(32 <= byte < 127 for byte in name) or name in chunks:
            raise DataDamaged(_damaged(path, f"byte {place} begins no part of a WAV file"))
        place = begin + struct.unpack("<I", size)[0]
        if place > end:
            raise DataDamaged(_damaged(path, f"its part {name.decode()!r} is cut"))
        chunks[name] = content[begin:place]
        place += place % 2
    return chunks


def _format(path: Path, content: bytes) -> tuple[int, int, int]:
    """Return channels, samples per second, and bits per sample."""
    if len(content) < 16:
        raise DataDamaged(_damaged(path, f"its format has {len(content)} bytes, not 16"))
    kind, channels, rate, speed, frame, bits = struct.unpack_from("<HHIIHH", content)
    integers = kind == PCM or (kind == EXTENSIBLE and content[24:40] == PCM_GUID)
    if not integers or bits not in (8, 16, 24, 32) or channels not in (1, 2):
        raise DataDamaged(
            f"{path} holds {channels} channels of {bits} bits in format {kind}; expected integers "
            "(format 1) of 8, 16, 24 or 32 bits, mono or stereo: convert it"
        )
    if rate == 0 or frame != channels * bits // 8 or speed != rate * frame:
        raise DataDamaged(
            _damaged(path, f"{rate} samples of {frame} bytes are not {speed} bytes a second")
        )
    return channels, rate, bits


def _integers(data: bytes, bits: int) -> np.ndarray:
    if bits == 8:  # the only width without a sign
        return np.frombuffer(data, np.uint8).astype(np.int16) - 128
    if bits == 24:
        wide = np.zeros((len(data) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
        return wide.view("<i4")[:, 0] >> 8
    return np.frombuffer(data, f"<i{bits // 8}")


def _damaged(path: Path, why: str) -> str:
    return f"{path} is damaged ({why}): delete it and fetch it again"


# Sampling rates


def resample(x: Tensor, old: int, new: int) -> Tensor:
    """Return signals at another sampling rate, (…, n) -> (…, ⌈n · new / old⌉).

    Polyphase filtering with a sinc under a Kaiser window (β = 5) of ten zero crossings on each
    side, which cuts off at the lower of the two Nyquist frequencies. Outside its samples a signal
    is zero.

    Parameters
    ----------
    x
        The signals.
    old, new
        Samples per second.
    """
    if old < 1 or new < 1:
        raise ValueError(f"sampling rates must be positive integers, got {old} and {new}")
    if old == new:
        return x
    up, down = new // math.gcd(old, new), old // math.gcd(old, new)
    first, weights = _phases(up, down)
    count = -(-x.shape[-1] * up // down)
    output = torch.arange(count)
    phase = output % up
    begin = output // up * down + first[phase]  # where the first sample that counts lies
    taps = weights.shape[1]
    before = int(-first.min())
    after = max(0, int(begin[-1]) + taps - x.shape[-1])
    padded = torch.nn.functional.pad(x, (before, after))
    y = x.new_zeros(*x.shape[:-1], count)
    for tap in range(taps):
        weight = weights[phase, tap].to(x)
        y += padded.index_select(-1, (begin + before + tap).to(x.device)) * weight
    return y


def _phases(up: int, down: int) -> tuple[Tensor, Tensor]:
    """Return the first input sample of each of the `up` first outputs, and its taps' weights.

    Output m lies at m · down / up in input samples. The filter has `up` taps for each of them.
    """
    widest = max(up, down)
    half = ZERO_CROSSINGS * widest
    places = torch.arange(-half, half + 1, dtype=torch.float64)
    window = torch.kaiser_window(
        2 * half + 1, periodic=False, beta=KAISER_BETA, dtype=torch.float64
    )
    filter_ = torch.sinc(places / widest) * window
    filter_ *= up / filter_.sum()
    centres = torch.arange(up) * down
    first = -((half - centres) // up)  # rounded up
    taps = 2 * half // up + 1
    index = half + centres[:, None] - (first[:, None] + torch.arange(taps)) * up
    return first, torch.where(index >= 0, filter_[index.clamp(min=0)], 0.0)


# MFCC


def mfcc(x: Tensor) -> Tensor:
    """Return 20 MFCCs of sound in [-1, 1) at 16 kHz, (…, n) -> (…, 20, 1 + n // 100).

    As torchaudio defines them with ``log_mels``: the power spectrum of 200 samples under a Hann
    window, every 100 samples, the signal mirrored at its ends; 64 triangles on the HTK mel scale;
    log(· + 1e-6); an orthonormal cosine transform (DCT-II).
    """
    if x.shape[-1] <= WINDOW // 2:
        raise ValueError(
            f"a signal of {x.shape[-1]} samples is too short: MFCCs need more than {WINDOW // 2}"
        )
    window = torch.hann_window(WINDOW, dtype=x.dtype, device=x.device)
    flat = x.reshape(-1, x.shape[-1])
    spectrum = torch.stft(flat, WINDOW, HOP, window=window, return_complex=True)
    power = spectrum.real.square() + spectrum.imag.square()  # (B, 101, frames)
    mels = mel_triangles().to(x) @ power
    coefficients = cosine_transform().to(x) @ torch.log(mels + LOG_OFFSET)
    return coefficients.reshape(*x.shape[:-1], *coefficients.shape[1:])


def mel_triangles() -> Tensor:
    """Return the share of each frequency of the spectrum in each mel, (64, 101).

    The corners lie evenly on the HTK scale, 2595 log₁₀(1 + f / 700), from 0 to 8 kHz. At this
    window the lowest triangles are narrower than a frequency bin, and some hold none.
    """
    frequencies = torch.linspace(0, MFCC_RATE / 2, WINDOW // 2 + 1, dtype=torch.float64)
    highest = 2595 * math.log10(1 + MFCC_RATE / 2 / 700)
    mels = torch.linspace(0, highest, MELS + 2, dtype=torch.float64)
    corners = (700 * (10 ** (mels / 2595) - 1))[:, None]
    left, top, right = corners[:-2], corners[1:-1], corners[2:]
    rising, falling = (frequencies - left) / (top - left), (right - frequencies) / (right - top)
    return torch.minimum(rising, falling).clamp(min=0)


def cosine_transform() -> Tensor:
    """Return the first rows of the orthonormal DCT-II, (20, 64)."""
    order = torch.arange(COEFFICIENTS, dtype=torch.float64)[:, None]
    place = torch.arange(MELS, dtype=torch.float64) + 0.5
    rows = torch.cos(math.pi / MELS * order * place) * math.sqrt(2 / MELS)
    rows[0] /= math.sqrt(2)
    return rows
