"""Text for people: headings, tables, numbers, durations."""

from collections.abc import Iterable, Sequence

_ALIGN = {"<": str.ljust, ">": str.rjust}


def heading(title: str, text: str = "") -> None:
    """Print an underlined title, and what it is about."""
    print(f"\n{title}\n{'─' * len(title)}")
    print("".join(f"  {line}\n" for line in text.splitlines()))


def table(header: Sequence[str], rows: Iterable[Sequence[str]], align: str) -> None:
    """Print columns aligned to the left (<) or right (>), three blanks apart."""
    lines = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for row in lines:
        cells = [_ALIGN[a](c, w) for c, w, a in zip(row, widths, align, strict=True)]
        print(("  " + "   ".join(cells)).rstrip(), flush=True)


def number(x: float) -> str:
    """Return three or more significant digits."""
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.1f}" if abs(x) >= 10 else f"{x:.2f}"


def duration(seconds: float) -> str:
    """Return ``12 s``, ``3 min 20 s`` or ``2 h 5 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def score(values: dict[str, float]) -> str:
    """Return ``accuracy 97.33 %`` or ``mse 0.0123`` of a result's ``test`` or ``val``."""
    if "accuracy" in values:
        return f"accuracy {100 * values['accuracy']:.2f} %"
    return "  ".join(f"{k} {v:.5g}" for k, v in values.items() if k != "loss")
