"""Finding things by name, with a suggestion for a name that is nearly right."""

import difflib
from collections.abc import Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")


def pick(name: str, table: Mapping[str, T], what: str) -> T:
    """Return ``table[name]``, or raise a ValueError that says what was probably meant."""
    if name in table:
        return table[name]
    raise ValueError(f"unknown {what} {name!r}; {suggest(name, table)}")


def suggest(name: str, known: Iterable[str]) -> str:
    """Return "did you mean …?" for a near miss, else the whole list."""
    names = sorted(known)
    by_lower = {n.lower(): n for n in names}
    close = difflib.get_close_matches(str(name).lower(), by_lower, n=1)
    if close:
        return f"did you mean {by_lower[close[0]]!r}?"
    return f"known are {', '.join(names)}"
