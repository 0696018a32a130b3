"""One signal in one file: WAV, PNG or NPY."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ccnn.tasks.arrays import ERRORS
from ccnn.tasks.audio import read_wav
from ccnn.tasks.task import DataDamaged

SUFFIXES = (".wav", ".png", ".npy")


@dataclass(frozen=True)
class Signal:
    """What a file holds; ``rate`` is in samples per second, where it is sound.

    Shapes
    ------
    values : (C, *S)
    """

    values: np.ndarray
    rate: int | None = None


def read_signal(path: Path) -> Signal:
    """Return the signal in a file.

    Sound is in [-1, 1), an image in [0, 1] with its rows first, an array what it is: (C, *S), or
    (S,) where there is one channel.

    Raises
    ------
    DataDamaged
        One line that names the file, and what was expected.
    """
    match path.suffix.lower():
        case ".wav":
            wav = read_wav(path)
            return Signal(wav.signal().numpy(), wav.rate)
        case ".png":
            return Signal(read_png(path))
        case ".npy":
            return Signal(read_npy(path))
    raise DataDamaged(f"{path} is neither WAV nor PNG nor NPY: convert it")


def read_png(path: Path) -> np.ndarray:
    """Return an image, (1, H, W) where it is grey and (3, H, W) in colour, from 0 to 1."""
    # Importing it takes a while, and only images need it.
    from PIL import Image

    try:
        with Image.open(path, formats=["PNG"]) as image:
            image.verify()  # all parts are there, with the right checksums
        with Image.open(path, formats=["PNG"]) as image:
            if image.mode.startswith("I"):  # grey in 16 bits
                return np.asarray(image, np.float32)[None] / 65535
            grey = image.mode in ("1", "L", "LA")
            pixels = np.asarray(image.convert("L" if grey else "RGB"), np.float32) / 255
    except PermissionError:
        raise
    # Of a damaged file Pillow complains in many ways, SyntaxError and struct.error among them.
    except Exception as error:
        raise DataDamaged(f"{path} is no PNG that can be read ({error}): make it again") from error
    return pixels[None] if pixels.ndim == 2 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def read_npy(path: Path) -> np.ndarray:
    """Return an array of real numbers, (C, *S)."""
    try:
        with path.open("rb") as file:
            values = np.load(file, allow_pickle=False)
    except PermissionError:
        raise
    except ERRORS as error:
        raise DataDamaged(
            f"{path} is no array that can be read ({error}): save it again with numpy.save"
        ) from error
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "biuf":
        kind = values.dtype if isinstance(values, np.ndarray) else "an archive"
        raise DataDamaged(f"{path} holds {kind}; expected an array of real numbers")
    if values.ndim == 1:
        values = values[None]
    if values.ndim < 2 or not values.size:
        raise DataDamaged(f"{path} has shape {values.shape}; expected (C, *S), or (S,)")
    return np.asarray(values, dtype=np.float32)
