"""Colours that can be read on white and on black alike."""

from collections.abc import Sequence

from matplotlib.colors import LinearSegmentedColormap, to_rgb

BLUE = "#3b82c4"
RED = "#d9534f"
SERIES = (BLUE, "#e08a3c", "#3fa37c", "#a06cc4", RED, "#7d8790")

# From the first layer to the last: all of middle lightness.
_DEPTH = LinearSegmentedColormap.from_list("depth", ["#e3a43c", "#d95f6b", "#9a68c0", "#3b82c4"])


def depth_colours(count: int) -> list[tuple[float, float, float, float]]:
    """Return one colour per layer, in order of depth."""
    return [_DEPTH(i / max(count - 1, 1)) for i in range(count)]


def fading(*colours: str) -> LinearSegmentedColormap:
    """Return a map whose zero is transparent: the page shows through, light or dark.

    One colour is for values from zero on, two are for negative and positive ones.
    """
    ends: Sequence[tuple[float, ...]] = [(*to_rgb(c), 1.0) for c in colours]
    clear = [(*to_rgb(c), 0.0) for c in colours]
    if len(colours) == 1:
        return LinearSegmentedColormap.from_list("fading", [clear[0], ends[0]])
    stops = [(0.0, ends[0]), (0.5, clear[0]), (0.5, clear[1]), (1.0, ends[1])]
    return LinearSegmentedColormap.from_list("fading", stops)
