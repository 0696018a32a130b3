"""Random Pathfinder images, many at once.

Two long paths begin near the middle and grow by turns, a dash at a time, where no dash is yet; a
pair that comes to a dead end is given up. Short paths are added to distract. At last one end of a
long path is marked, and the other end of the same path (label 1) or of the other long one (label
0). The two kinds of image differ in nothing else.

All images of a batch grow together: a step is a few operations on arrays.
"""

from typing import NamedTuple

import numpy as np

from ccnn.tasks.pathfinder_dashes import DEGREES, Dashes, Rules, dashes_of, mark_of
from ccnn.tasks.pathfinder_field import Field

# Pairs of paths that grow at once.
BATCH = 512
# How often a dash and a short path are tried, and at how many places the latter may begin.
DASH_TRIES, PATH_TRIES, PLACES = 3, 5, 256
# A first dash needs pixels of which less than 0.3 is taken.
FREE = 76


class Paths(NamedTuple):
    """Paths of dashes in several images.

    Shapes
    ------
    at : (n, paths, dashes, 2), the tail of the first dash and the heads of the others
    direction : (n, paths, dashes), -1 where there is none
    """

    at: np.ndarray
    direction: np.ndarray


class Scenes(NamedTuple):
    """What several images show.

    Shapes
    ------
    long, short : of two and of some more paths in each image
    marks : (n, 2, 2), where the two discs are
    labels : (n,), 1 where both are on the same path
    """

    long: Paths
    short: Paths
    marks: np.ndarray
    labels: np.ndarray


def images(count: int, rng: np.random.Generator, rules: Rules) -> tuple[np.ndarray, np.ndarray]:
    """Return random images as bytes and their labels.

    Shapes
    ------
    result : (n, side, side) and (n,)
    """
    x = np.zeros((count, rules.side, rules.side), dtype=np.uint8)
    y = np.zeros(count, dtype=np.uint8)
    choice = rng.integers(len(rules.gaps), size=count)
    for number, gap in enumerate(rules.gaps):
        rows = np.flatnonzero(choice == number)
        shown = scenes(len(rows), rng, rules, gap)
        x[rows], y[rows] = draw(shown, rules, gap), shown.labels
    return x, y


def scenes(count: int, rng: np.random.Generator, rules: Rules, gap: int) -> Scenes:
    """Return random scenes with one gap."""
    field, long = _long_paths(rng, rules, dashes_of(rules, gap), count)
    short = _short_paths(rng, field)
    labels = rng.integers(2, size=count)
    begin = rng.integers(2, size=count)
    end = np.where(labels == 1, begin, 1 - begin)
    rows = np.arange(count)
    marks = np.stack([long.at[rows, begin, 0], long.at[rows, end, -1]], axis=1)
    return Scenes(long, short, marks, labels)


def draw(shown: Scenes, rules: Rules, gap: int) -> np.ndarray:
    """Return scenes as bytes, (n, side, side), the brightest pixel of each being 255."""
    ink, mark = dashes_of(rules, gap).ink, (mark_of(rules.mark) / 255).astype(np.float32)
    margin = max(ink.shape[-1], len(mark)) // 2
    rows = np.arange(len(shown.labels))
    canvas = np.zeros((len(rows), *(rules.side + 2 * margin,) * 2), dtype=np.float32)
    for paths, contrast in ((shown.long, rules.contrast), (shown.short, rules.distractor_contrast)):
        bright = (contrast * ink / 255).astype(np.float32)
        for path, dash in np.ndindex(paths.direction.shape[1:]):
            some = np.flatnonzero(paths.direction[:, path, dash] >= 0)
            stamps = bright[paths.direction[some, path, dash]]
            _stamp(canvas, some, paths.at[some, path, dash] + margin, stamps)
    for end in (0, 1):
        discs = np.broadcast_to(mark, (len(rows), *mark.shape))
        _stamp(canvas, rows, shown.marks[:, end] + margin, discs)
    # In double precision from here, as published: 0.9 of 255 is 229 then, and 230 before.
    image = canvas[:, margin:-margin, margin:-margin].astype(np.float64)
    brightest = image.max(axis=(1, 2), keepdims=True)
    drawn: np.ndarray = (image * (255 / brightest) + 0.5).astype(np.uint8)
    return drawn


def _stamp(canvas: np.ndarray, rows: np.ndarray, at: np.ndarray, stamps: np.ndarray) -> None:
    """Put the brighter of canvas and stamp where stamps have their middle.

    Shapes
    ------
    canvas : (images, W, W)
    rows : (n,), each image at most once
    at : (n, 2)
    stamps : (n, P, P)
    """
    width, side = canvas.shape[-1], stamps.shape[-1]
    steps = np.arange(side) - side // 2
    middle = (rows * width + at[:, 0]) * width + at[:, 1]
    pixels = middle[:, None, None] + steps[:, None] * width + steps
    flat = canvas.reshape(-1)
    flat[pixels] = np.maximum(flat[pixels], stamps)


def _long_paths(
    rng: np.random.Generator, rules: Rules, dashes: Dashes, count: int
) -> tuple[Field, Paths]:
    """Return pairs of long paths, one for each image, and what they take."""
    fields, found = [Field.empty(rules, dashes, 0)], [_no_paths(0, 2, rules.length)]
    missing = count
    while missing > 0:
        field = Field.empty(rules, dashes, BATCH)
        first = _first_pairs(rng, rules, dashes)
        rows, paths = _grow(rng, field, np.arange(BATCH), first, rules.length)
        rows = rows[:missing]
        fields.append(field.rows(rows))
        found.append(Paths(paths.at[rows], paths.direction[rows]))
        missing -= len(rows)
    taken = np.concatenate([field.taken for field in fields])
    near = np.concatenate([field.near for field in fields])
    at = np.concatenate([paths.at for paths in found])
    direction = np.concatenate([paths.direction for paths in found])
    return Field(rules, dashes, taken, near), Paths(at, direction)


def _no_paths(count: int, paths: int, length: int) -> Paths:
    shape = (count, paths, length)
    return Paths(np.zeros((*shape, 2), dtype=np.int64), np.full(shape, -1))


def _first_pairs(rng: np.random.Generator, rules: Rules, dashes: Dashes) -> Paths:
    """Return the first dashes of two long paths: one in the middle, and one beside it."""
    wall = 2 * rules.apart
    low = wall - dashes.solid.min(axis=1)
    high = rules.side - 1 - wall - dashes.solid.max(axis=1)
    possible = dashes.begins & (low <= high).all(axis=1)
    one = rng.choice(np.flatnonzero(possible), size=BATCH)
    two = rng.integers(DEGREES, size=BATCH)
    tail = rng.integers(low[one], high[one] + 1)
    angle = np.deg2rad(rng.integers(DEGREES, size=BATCH))
    beside = tail + rules.apart * np.stack([np.sin(angle), np.cos(angle)], axis=-1)
    at = np.stack([tail, np.round(beside).astype(np.int64)], axis=1)
    return Paths(at[:, :, None], np.stack([one, two], axis=1)[:, :, None])


def _short_paths(rng: np.random.Generator, field: Field) -> Paths:
    """Add paths that distract, as far as there is room."""
    rules = field.rules
    added = _no_paths(len(field), rules.distractors, rules.distractor_length)
    for path in range(rules.distractors):
        left = np.arange(len(field))
        for _ in range(PATH_TRIES):
            if not len(left):
                break
            trial = field.rows(left)
            rows, first = _first_short(rng, trial)
            rows, grown = _grow(rng, trial, rows, first, rules.distractor_length)
            done = left[rows]
            field.set_rows(done, trial.rows(rows))
            added.at[done, path] = grown.at[rows, 0]
            added.direction[done, path] = grown.direction[rows, 0]
            left = np.delete(left, rows)
    return added


def _first_short(rng: np.random.Generator, field: Field) -> tuple[np.ndarray, Paths]:
    """Return a first dash at a free place of each image, and the rows in which there is one."""
    count = len(field)
    direction = rng.integers(DEGREES, size=count)
    tails = rng.integers(field.rules.side, size=(count, PLACES, 2))
    row = np.repeat(np.flatnonzero(field.dashes.begins[direction]), PLACES)
    place = np.arange(len(row)) % PLACES
    for pixel in range(field.dashes.solid.shape[1]):
        needed = tails[row, place] + field.dashes.solid[direction[row], pixel]
        free = field.taken_at(row, needed) <= FREE
        row, place = row[free], place[free]
    rows, first = np.unique(row, return_index=True)
    at = np.zeros((count, 2), dtype=np.int64)
    at[rows] = tails[rows, place[first]]
    return rows, Paths(at[:, None, None], direction[:, None, None])


def _grow(
    rng: np.random.Generator, field: Field, rows: np.ndarray, first: Paths, length: int
) -> tuple[np.ndarray, Paths]:
    """Let the paths of each image grow by turns until they have `length` dashes.

    Returns
    -------
    tuple
        Of the given rows, those in which all paths did; and the paths of all images.
    """
    count, paths = first.direction.shape[:2]
    at, direction = _no_paths(count, paths, length)
    at[:, :, :1], direction[:, :, :1] = first
    joint = at[:, :, 0] + field.dashes.first_joint[direction[:, :, 0]]
    for dash in range(1, length):
        for path in range(paths):
            last = direction[rows, path, dash - 1]
            joint[rows, path] += field.dashes.step[last]
            heads, found = _extend(rng, field, rows, joint[rows, path], last)
            good = found >= 0
            rows = rows[good]
            at[rows, path, dash], direction[rows, path, dash] = heads[good], found[good]
            # Only now: a dash may come close to the one before it.
            field.put(rows, at[rows, path, dash - 1], last[good])
    for path in range(paths):
        field.put(rows, at[rows, path, -1], direction[rows, path, -1])
    return rows, Paths(at, direction)


def _extend(
    rng: np.random.Generator, field: Field, rows: np.ndarray, joint: np.ndarray, last: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Look for the next dash of paths whose joint and last direction are given.

    Returns
    -------
    tuple of numpy.ndarray
        Where its head is, (n, 2), and its direction, (n,), -1 where none was found.
    """
    places = joint[:, None] + field.dashes.places
    sums = np.cumsum(field.dashes.chance[last] * (255 - field.near_at(rows, places)), axis=1)
    at, direction = np.zeros_like(joint), np.full(len(rows), -1)
    left = np.flatnonzero(sums[:, -1] > 0.01)
    for _ in range(DASH_TRIES):
        if not len(left):
            break
        aim = rng.random((len(left), 1)) * sums[left, -1:]
        pick = (sums[left] > aim).argmax(axis=1)
        heads = places[left, pick]
        fits = field.fits(rows[left], heads, DEGREES + pick)
        at[left[fits]], direction[left[fits]] = heads[fits], DEGREES + pick[fits]
        left = left[~fits]
    return at, direction
