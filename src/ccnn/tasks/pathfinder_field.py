"""Which pixels are taken while Pathfinder's paths grow, in many images at once."""

import numpy as np

from ccnn.tasks.pathfinder_dashes import Dashes, Rules

# Taken plus taken is a clash from 1.8 on: dashes have soft edges, which may touch.
CLASH = 459


class Field:
    """What dashes have taken, 255 being all, in several images with a margin around each.

    Parameters
    ----------
    rules, dashes
        What images are like, and the tables of their dashes.
    taken, near
        What dashes take, and that with a gap around, (n, W, W).
    """

    def __init__(self, rules: Rules, dashes: Dashes, taken: np.ndarray, near: np.ndarray) -> None:
        self.rules, self.dashes = rules, dashes
        self.taken, self.near = taken, near
        self._margin = _margin(dashes)

    @classmethod
    def empty(cls, rules: Rules, dashes: Dashes, count: int) -> "Field":
        """Return images without dashes, in which the outermost pixels are taken."""
        margin = _margin(dashes)
        width = rules.side + 2 * margin
        gap = int(dashes.near.at.max() - dashes.taken.at.max())
        fields = []
        for wall in (1, 1 + gap):
            field = np.full((count, width, width), 255, dtype=np.uint8)
            inside = slice(margin + wall, margin + rules.side - wall)
            field[:, inside, inside] = 0
            fields.append(field)
        return cls(rules, dashes, *fields)

    def __len__(self) -> int:
        return len(self.taken)

    def rows(self, index: np.ndarray) -> "Field":
        """Return some of the images, copied."""
        return Field(self.rules, self.dashes, self.taken[index], self.near[index])

    def set_rows(self, index: np.ndarray, other: "Field") -> None:
        """Replace some of the images."""
        self.taken[index], self.near[index] = other.taken, other.near

    def taken_at(self, rows: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Return what is taken of some pixels, (n, 2) -> (n,)."""
        found: np.ndarray = self.taken[rows, at[..., 0] + self._margin, at[..., 1] + self._margin]
        return found

    def near_at(self, rows: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Return what is taken near some pixels of each image, (n, k, 2) -> (n, k)."""
        down, right = at[..., 0] + self._margin, at[..., 1] + self._margin
        found: np.ndarray = self.near[rows[:, None], down, right]
        return found

    def put(self, rows: np.ndarray, at: np.ndarray, direction: np.ndarray) -> None:
        """Take what dashes need."""
        for field, pixels in ((self.taken, self.dashes.taken), (self.near, self.dashes.near)):
            where = self._where(rows, at, pixels.at[direction])
            flat = field.reshape(-1)
            flat[where] = np.maximum(flat[where], pixels.value[direction])

    def fits(self, rows: np.ndarray, at: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """Tell which dashes clash with nothing, (n,)."""
        needed = self.dashes.taken
        where = self._where(rows, at, needed.at[direction])
        there = self.taken.reshape(-1)[where].astype(np.int16)
        free: np.ndarray = (there + needed.value[direction]).max(axis=1) < CLASH
        return free

    def _where(self, rows: np.ndarray, at: np.ndarray, pixels: np.ndarray) -> np.ndarray:
        """Return the positions, in a flat field, of pixels around others, (n, M)."""
        width = self.taken.shape[-1]
        down, right = (at + self._margin).T
        middle = (rows * width + down) * width + right
        where: np.ndarray = middle[:, None] + pixels[..., 0] * width + pixels[..., 1]
        return where


def _margin(dashes: Dashes) -> int:
    """Return how far beyond an image a stamp, or the search for a place, may reach."""
    place = int(np.abs(dashes.places).max())
    joint = int(np.abs(dashes.step).max()) - place + 2  # beyond a head, with two roundings
    return max(int(np.abs(dashes.near.at).max()), joint + place) + 1
