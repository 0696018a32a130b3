"""Numbers as one reads them, and what the paper says."""

import math


def percent(value: float | None) -> str:
    """Return `97.50 %` for 97.5, a dash for nothing."""
    return "–" if value is None else f"{value:.2f} %"


def count(value: float | None) -> str:
    """Return `198 769`, the thousands set apart by a narrow space."""
    return "–" if value is None else f"{value:,.0f}".replace(",", "\u202f")


def duration(seconds: float | None) -> str:
    """Return seconds in the unit one would say them in."""
    if seconds is None:
        return "–"
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def wilson(accuracy: float, samples: int) -> tuple[float, float]:
    """Return the 95 % interval of an accuracy measured on so many samples, all in percent."""
    p, z = accuracy / 100, 1.96
    middle = p + z**2 / (2 * samples)
    half = z * math.sqrt(p * (1 - p) / samples + z**2 / (4 * samples**2))
    scale = 100 / (1 + z**2 / samples)
    return scale * (middle - half), scale * (middle + half)


def paper_accuracy(task: str, model: str) -> float | None:
    """Return the paper's accuracy in percent, or None where it gives none."""
    try:
        from ccnn.tasks import TASKS
    except ImportError:  # the tasks' libraries are an extra; the page is complete without
        return None
    return TASKS[task].paper.get(model) if task in TASKS else None
