"""Sound: files are read exactly or refused, rates change as scipy changes them, MFCCs are right."""

import math
import struct
import wave

import numpy as np
import pytest
import scipy.fft
import scipy.signal
import torch

from ccnn.tasks import DataDamaged
from ccnn.tasks.audio import PCM_GUID, mfcc, read_wav, resample


def write_wav(path, samples, *, bits=16, rate=16_000):
    """Write integers (channels, n) with the standard library."""
    flat = np.asarray(samples).T.reshape(-1)
    width = bits // 8
    if bits == 8:
        flat = flat + 128
    content = b"".join(int(s).to_bytes(width, "little", signed=bits > 8) for s in flat)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(len(samples))
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(content)


# WAV


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("bits", [8, 16, 24, 32])
def test_every_integer_comes_back(bits, channels, tmp_path):
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    random = np.random.RandomState(bits)
    samples = random.randint(low, high, (channels, 7), dtype=np.int64)
    samples[:, :4] = [low, high, 0, -1]
    write_wav(tmp_path / "a.wav", samples, bits=bits, rate=8000)
    wav = read_wav(tmp_path / "a.wav")
    assert (wav.rate, wav.bits) == (8000, bits)
    np.testing.assert_array_equal(wav.samples, samples)
    signal = wav.signal()
    assert signal.dtype == torch.float32
    assert signal[:, 0].tolist() == [-1.0] * channels
    np.testing.assert_allclose(signal, samples / -low, atol=1e-7)  # 24 bits of mantissa


def chunk(name, content):
    return name + struct.pack("<I", len(content)) + content + bytes(len(content) % 2)


def riff(*chunks):
    content = b"WAVE" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(content)) + content


SAMPLES = np.arange(-5, 5, dtype="<i2") * 300
FORMAT = struct.pack("<HHIIHH", 1, 1, 16_000, 32_000, 2, 16)
SOUND = SAMPLES.tobytes()
GOOD = riff(chunk(b"LIST", b"odd"), chunk(b"fmt ", FORMAT), chunk(b"data", SOUND))


def test_other_parts_are_passed_over_and_the_long_name_of_the_format_is_known(tmp_path):
    long = struct.pack("<HHIIHHHHI", 0xFFFE, 1, 16_000, 32_000, 2, 16, 22, 16, 0) + PCM_GUID
    for content in (
        GOOD,
        riff(chunk(b"fmt ", long), chunk(b"data", SOUND), chunk(b"LIST", b"behind")),
        riff(chunk(b"fmt ", FORMAT), chunk(b"data", SOUND), b"id3 \3\0\0\0abc") + b"\0",
    ):
        (tmp_path / "a.wav").write_bytes(content)
        np.testing.assert_array_equal(read_wav(tmp_path / "a.wav").samples, SAMPLES[None])


WRONG = {
    "empty": b"",
    "page": b"<html>404</html>",
    "too long": GOOD + b"\0\0",
    "another form": GOOD.replace(b"WAVE", b"AVI "),
    "no format": riff(chunk(b"data", SOUND)),
    "short format": riff(chunk(b"fmt ", FORMAT[:12]), chunk(b"data", SOUND)),
    "no sound": riff(chunk(b"fmt ", FORMAT)),
    "silence of length 0": riff(chunk(b"fmt ", FORMAT), chunk(b"data", b"")),
    "half a sample": riff(chunk(b"fmt ", FORMAT), chunk(b"data", SOUND[:-1])),
    "two sounds": riff(chunk(b"fmt ", FORMAT), chunk(b"data", SOUND), chunk(b"data", SOUND)),
    "floats": riff(
        chunk(b"fmt ", struct.pack("<HHIIHH", 3, 1, 16_000, 64_000, 4, 32)), chunk(b"data", SOUND)
    ),
    "three channels": riff(
        chunk(b"fmt ", struct.pack("<HHIIHH", 1, 3, 16_000, 96_000, 6, 16)), chunk(b"data", SOUND)
    ),
    "no length": GOOD[:4] + b"\xff" * 4 + GOOD[8:],
    "no rate": riff(
        chunk(b"fmt ", struct.pack("<HHIIHH", 1, 1, 0, 0, 2, 16)), chunk(b"data", SOUND)
    ),
}


@pytest.mark.parametrize("content", WRONG.values(), ids=WRONG)
def test_what_is_no_wav_is_refused_by_name(content, tmp_path):
    path = tmp_path / "bad one.wav"
    path.write_bytes(content)
    with pytest.raises(DataDamaged, match=r"bad one\.wav.*(fetch it again|convert it)") as refusal:
        read_wav(path)
    assert "\n" not in str(refusal.value)


def test_a_folder_named_like_a_file_is_refused(tmp_path):
    (tmp_path / "a.wav").mkdir()
    with pytest.raises(DataDamaged, match=r"a\.wav"):
        read_wav(tmp_path / "a.wav")


def test_a_wav_that_is_cut_anywhere_is_refused(tmp_path):
    path = tmp_path / "a.wav"
    for length in range(len(GOOD)):
        path.write_bytes(GOOD[:length])
        with pytest.raises(DataDamaged):
            read_wav(path)


def test_a_damaged_header_never_gives_other_samples(tmp_path):
    """Whatever single bit outside of the sound is changed."""
    path = tmp_path / "a.wav"
    refused = 0
    for place in range(len(GOOD) - len(SOUND)):
        for bit in range(8):
            changed = bytes([GOOD[place] ^ 1 << bit])
            path.write_bytes(GOOD[:place] + changed + GOOD[place + 1 :])
            try:
                wav = read_wav(path)
            except DataDamaged:
                refused += 1
            else:
                np.testing.assert_array_equal(wav.samples, SAMPLES[None])
                assert (wav.rate, wav.bits) == (16_000, 16)
    assert refused > 44 * 8  # all but what the other part holds or is called


# Sampling rates


@pytest.mark.parametrize(
    ("old", "new"), [(44_100, 16_000), (8_000, 16_000), (48_000, 16_000), (16_000, 22_050), (7, 5)]
)
@pytest.mark.parametrize("n", [1, 50, 1001])
def test_resampling_is_that_of_scipy(old, new, n):
    x = torch.randn(2, 3, n, dtype=torch.float64)
    factor = math.gcd(old, new)
    expected = scipy.signal.resample_poly(x.numpy(), new // factor, old // factor, axis=-1)
    np.testing.assert_allclose(resample(x, old, new), expected, atol=1e-12)


@pytest.mark.parametrize(("old", "new"), [(44_100, 16_000), (8_000, 16_000), (16_000, 11_025)])
def test_a_tone_stays_the_same_tone(old, new):
    hertz = 1234.5
    x = torch.sin(2 * math.pi * hertz * torch.arange(old, dtype=torch.float64) / old)
    expected = torch.sin(2 * math.pi * hertz * torch.arange(new, dtype=torch.float64) / new)
    error = (resample(x, old, new) - expected)[100:-100]
    assert error.abs().max() < 2e-3  # the ripple of a Kaiser window with β = 5 is -57 dB


def test_a_tone_that_the_new_rate_cannot_hold_is_gone():
    x = torch.sin(2 * math.pi * 12_000 * torch.arange(44_100, dtype=torch.float64) / 44_100)
    assert resample(x, 44_100, 16_000)[100:-100].abs().max() < 2e-3


def test_the_same_rate_is_no_change_and_a_wrong_one_is_refused():
    x = torch.randn(5)
    assert resample(x, 16_000, 16_000) is x
    assert resample(x, 8_000, 16_000).dtype == torch.float32
    with pytest.raises(ValueError, match="positive"):
        resample(x, 0, 16_000)


# MFCC


def slow_mfcc(x):
    """(n,) -> (20, frames), frame by frame, in NumPy and SciPy."""
    window = scipy.signal.get_window("hann", 200)
    wide = np.pad(x, 100, mode="reflect")
    corners = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + 8000 / 700), 66) / 2595) - 1)
    frequencies = np.fft.rfftfreq(200, 1 / 16_000)
    columns = []
    for begin in range(0, len(wide) - 199, 100):
        power = np.abs(np.fft.rfft(wide[begin : begin + 200] * window)) ** 2
        mels = [
            power @ np.interp(frequencies, corners[i : i + 3], [0, 1, 0], left=0, right=0)
            for i in range(64)
        ]
        columns.append(scipy.fft.dct(np.log(np.array(mels) + 1e-6), norm="ortho")[:20])
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("n", [101, 1650])
def test_mfccs_are_those_of_a_slow_computation(n):
    x = 0.1 * torch.randn(2, 3, n, dtype=torch.float64)
    got = mfcc(x)
    assert got.shape == (2, 3, 20, 1 + n // 100)
    np.testing.assert_allclose(got[1, 2], slow_mfcc(x[1, 2].numpy()), atol=1e-9)


def test_a_second_has_161_frames_also_in_single_precision():
    x = 0.1 * torch.randn(1, 16_000)
    got = mfcc(x)
    assert (got.shape, got.dtype) == ((1, 20, 161), torch.float32)
    # A logarithm of sums of squares, whose relative error is some 1e-6; 64 of them are added.
    torch.testing.assert_close(got.double(), mfcc(x.double()), rtol=0, atol=1e-3)


def test_silence_is_the_logarithm_of_the_offset():
    got = mfcc(torch.zeros(16_000, dtype=torch.float64))
    torch.testing.assert_close(got[0], torch.full((161,), 8 * math.log(1e-6)).double())
    assert got[1:].abs().max() < 1e-12


def test_a_signal_shorter_than_half_a_window_is_refused():
    with pytest.raises(ValueError, match="100 samples is too short"):
        mfcc(torch.zeros(2, 100))
