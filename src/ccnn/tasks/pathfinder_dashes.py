"""The dashes of Pathfinder: all that is known of them before the first image is drawn.

Pathfinder (Linsley et al. 2018, after Houtkamp and Roelfsema 2010) shows paths of dashes on a
pixel grid. Dashes begin and end at whole pixels, so there are only a few hundred different ones:
each is drawn once, as a stamp, and growing a path is looking up numbers in tables.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

# Dashes and marks are drawn on a grid this much finer, then made coarser.
FINE = 2
# Of 255: Lanczos' filter leaves traces around what it draws, which keep no dash away.
FAINT = 7
# A path may begin in any whole degree.
DEGREES = 360


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What images are like; lengths are in pixels.

    Parameters
    ----------
    side
        Of the square image.
    dash, thickness
        Length and thickness of a dash.
    gaps
        Half of the space between two dashes; one is drawn for each image.
    mark
        Radius of the discs that mark two ends.
    apart
        The distance between the beginnings of the two long paths.
    continuity
        How straight paths are: the chance of a turn by δ is cos²(continuity · δ).
    length, distractor_length
        Dashes in each of the two long paths, and in the short ones that distract.
    distractors
        How many short ones are tried.
    contrast, distractor_contrast
        How bright dashes are beside the marks, before the brightest pixel is set to 255.
    """

    side: int
    dash: int
    thickness: float
    gaps: tuple[int, ...]
    mark: float
    apart: int
    continuity: float
    distractors: int
    contrast: float
    distractor_contrast: float
    length: int = 14
    distractor_length: int = 4


# The hard sets of the Long Range Arena, at both sizes.
PATHFINDER_32 = Rules(
    side=32,
    dash=2,
    thickness=0.5,
    gaps=(1,),
    mark=1.5,
    apart=7,
    continuity=1.0,
    distractors=5,
    contrast=1.5,
    distractor_contrast=2.0,
)
PATHFINDER_128 = Rules(
    side=128,
    dash=5,
    thickness=1.5,
    gaps=(2, 3),
    mark=3.0,
    apart=20,
    continuity=1.8,
    distractors=8,
    contrast=0.9,
    distractor_contrast=0.9,
)


class Pixels(NamedTuple):
    """Pixels of stamps, as lists: most of a square around a dash is empty.

    Shapes
    ------
    at : (directions, M, 2), from the middle of a stamp; where there are fewer, one is repeated
    value : (directions, M)
    """

    at: np.ndarray
    value: np.ndarray


class Dashes(NamedTuple):
    """Tables of the dashes of one set of rules and one gap.

    A direction is a number: one of the 360 degrees in which a first dash leaves its tail, or 360
    plus the number of the place at which a later dash has its head. Stamps are centred on the
    tail of first dashes and on the head of later ones. 255 is ink, or taken.

    Shapes
    ------
    step : (directions, 2), from a joint to the next one
    first_joint : (360, 2), from the tail of a first dash to the joint behind it
    places : (places, 2), from a joint to where the next head may be
    chance : (directions, places), of each place after each direction
    ink : (directions, P, P), how it looks
    taken : where no other dash may be
    near : the same and `gap` pixels around
    solid : (360, M, 2), from a tail to what must be free for a first dash
    begins : (360,), whether a path that is placed at random may begin so
    """

    step: np.ndarray
    first_joint: np.ndarray
    places: np.ndarray
    chance: np.ndarray
    ink: np.ndarray
    taken: Pixels
    near: Pixels
    solid: np.ndarray
    begins: np.ndarray


@cache
def dashes_of(rules: Rules, gap: int) -> Dashes:
    """Return the tables of some rules; they are made once in a process."""
    first = np.deg2rad(np.arange(-180, DEGREES - 180))
    places = _places(rules.dash + gap)
    later = np.arctan2(places[:, 0], places[:, 1])
    heading = np.concatenate([first, later])
    # A later dash is drawn from its head back.
    stamps = [_stamp(rules, gap, angle) for angle in (*first, *(later + math.pi))]
    ink, taken, near = (np.stack(images) for images in zip(*stamps, strict=True))
    tail_to_head = _toward(first, rules.dash)
    solid = _solid(taken[:DEGREES], rules.dash + gap)
    return Dashes(
        step=_toward(heading, rules.dash + 2 * gap),
        first_joint=tail_to_head + _toward(first + math.pi, rules.dash + gap),
        places=places,
        chance=_chance(heading, later, rules.continuity),
        ink=ink,
        taken=_pixels(taken),
        near=_pixels(near),
        solid=solid,
        begins=_begins(solid),
    )


def _pixels(stamps: np.ndarray) -> Pixels:
    """Return what is not empty of square stamps, (directions, P, P)."""
    middle = stamps.shape[-1] // 2
    lists = [np.argwhere(image) for image in stamps]
    most = max(map(len, lists))
    at = np.stack([np.pad(a, ((0, most - len(a)), (0, 0)), mode="edge") for a in lists])
    value = stamps[np.arange(len(at))[:, None], at[..., 0], at[..., 1]]
    return Pixels(at - middle, value)


def _toward(angle: np.ndarray, distance: float) -> np.ndarray:
    """Return whole steps down and right in given directions, rounded up, (n, 2)."""
    exact = distance * np.stack([np.sin(angle), np.cos(angle)], axis=-1)
    # Rounded before, so that a sine of 1e-16 is no step.
    return np.ceil(np.round(exact, 9)).astype(np.int64)


def _places(radius: int) -> np.ndarray:
    """Return the pixels on a circle, (places, 2), each once."""
    angle = np.arange(0, 2 * math.pi, 1 / radius)  # one pixel apart
    exact = radius * np.stack([np.sin(angle), np.cos(angle)], axis=-1)
    return np.unique(np.floor(np.round(exact, 9)).astype(np.int64), axis=0)


def _chance(heading: np.ndarray, later: np.ndarray, continuity: float) -> np.ndarray:
    """Return how likely each place is after each direction, (directions, places), unnormalised."""
    turn = np.abs(heading[:, None] - later)
    turn = np.minimum(turn, 2 * math.pi - turn)
    chance: np.ndarray = np.cos(np.minimum(turn * continuity, math.pi / 2)) ** 2
    return chance.astype(np.float32)


def _stamp(rules: Rules, gap: int, angle: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ink, what it takes, and that with `gap` pixels around, centred on its beginning."""
    reach = rules.dash + math.ceil(rules.thickness) + gap
    down, right = (int(n) for n in _toward(np.array(angle), FINE * rules.dash))
    return _drawn(down, right, reach, round(rules.thickness * FINE), gap)


@cache
def _drawn(
    down: int, right: int, reach: int, width: int, gap: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    # Optional libraries load when used, not with `import ccnn.tasks`.
    from PIL import Image, ImageDraw
    from scipy.ndimage import grey_dilation  # type: ignore[import-untyped]  # it has no types

    centre = FINE * reach
    image = Image.new("L", (2 * centre + 1, 2 * centre + 1), 0)
    ends = [(centre, centre), (centre + right, centre + down)]
    ImageDraw.Draw(image).line(ends, fill=255, width=width)
    wide = grey_dilation(np.asarray(image), footprint=disc(FINE * gap), mode="constant")
    taken = coarse(wide, 2 * reach + 1)
    taken = np.where(taken > FAINT, taken, 0)
    near = grey_dilation(np.pad(taken, gap), footprint=disc(gap), mode="constant")
    return coarse(np.asarray(image), 2 * reach + 1), taken, near


def disc(radius: float) -> np.ndarray:
    """Return the pixels no farther than a radius from the one in the middle."""
    reach = math.floor(radius)
    y, x = np.ogrid[-reach : reach + 1, -reach : reach + 1]
    return np.asarray(x**2 + y**2 <= radius**2)


def coarse(image: np.ndarray, side: int) -> np.ndarray:
    """Return an image of bytes with fewer pixels, by Lanczos' filter."""
    from PIL import Image

    small = Image.fromarray(image).resize((side, side), Image.Resampling.LANCZOS)
    return np.asarray(small)


def mark_of(radius: float) -> np.ndarray:
    """Return a disc as bytes, centred."""
    reach = math.ceil(radius) + 3  # 3 pixels: where Lanczos' filter ends
    # The fine pixel at twice the centre is the middle, as in the published images.
    y, x = np.ogrid[: FINE * (2 * reach + 1), : FINE * (2 * reach + 1)]
    inside = (y - FINE * reach) ** 2 + (x - FINE * reach) ** 2 <= (FINE * radius) ** 2
    return coarse((255 * inside).astype(np.uint8), 2 * reach + 1)


def _solid(taken: np.ndarray, reach: int) -> np.ndarray:
    """Return which pixels a first dash needs, from its tail, (360, M, 2).

    The published generator looks one pixel further down and right than it draws, and not farther
    than `reach`; where dashes lie depends on it, so it is kept. Directions that need fewer pixels
    repeat one.
    """
    middle = taken.shape[-1] // 2
    each = []
    for stamp in taken:
        offsets = np.argwhere(stamp == 255) - middle + 1
        each.append(offsets[np.abs(offsets).max(1) <= reach])
    most = max(map(len, each))
    return np.stack([np.pad(o, ((0, most - len(o)), (0, 0)), mode="edge") for o in each])


def _begins(solid: np.ndarray) -> np.ndarray:
    """Return in which directions a path that is placed at random may begin, (360,).

    The published generator looks for a place at every pixel of the image at once, and finds none
    if all that the dash needs lies outside the image at some pixel of the border. So it needs
    something in each quarter around the pixel, axes included: at 32 x 32 that leaves 31 degrees of
    360, and many images without a distractor. Kept, for images as published.
    """
    down, right = solid[..., 0], solid[..., 1]
    quarters = [(a * down >= 0) & (b * right >= 0) for a in (1, -1) for b in (1, -1)]
    every: np.ndarray = np.logical_and.reduce([quarter.any(axis=1) for quarter in quarters])
    return every
