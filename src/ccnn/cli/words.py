"""What was typed: ``key=value`` words, paths, numbers; and what was probably meant."""

from collections.abc import Collection, Sequence
from pathlib import Path

from ccnn.models.names import suggest


class Misuse(ValueError):  # noqa: N818 (what it says is a sentence)
    """A command that was not understood; one line says why."""


def assignments(
    words: Sequence[str], known: Collection[str], *, needed: Collection[str] = ()
) -> dict[str, str]:
    """Return ``key=value`` words as a dict; a key that is not known is refused by name."""
    values: dict[str, str] = {}
    for word in words:
        key, sign, value = word.partition("=")
        if not sign:
            raise Misuse(f"cannot read {word!r}; expected key=value, as in {next(iter(known))}=…")
        if key not in known:
            raise Misuse(f"unknown key {key!r}; {suggest(key, known)}")
        values[key] = value
    missing = [key for key in needed if not values.get(key)]
    if missing:
        raise Misuse(f"no {missing[0]} was named; say {missing[0]}=…")
    return values


def last_value(words: Sequence[str], key: str) -> str | None:
    """Return what the last ``key=value`` among words says, None if there is none."""
    values = [word.partition("=")[2] for word in words if word.partition("=")[0] == key]
    return values[-1] if values else None


def without(words: Sequence[str], *keys: str) -> list[str]:
    """Return the words that do not set one of some keys."""
    return [word for word in words if word.partition("=")[0].lstrip("+~") not in keys]


def listed(value: str) -> list[str]:
    """Return the parts of ``a,b`` or ``[a,b]``."""
    inner = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    return [part.strip() for part in inner.split(",") if part.strip()]


def spacing(value: str) -> float | tuple[float, ...]:
    """Return ``2`` as a number and ``[2,1]`` as one number per axis."""
    try:
        numbers = tuple(float(part) for part in listed(value))
    except ValueError:
        numbers = ()
    if not numbers or not all(0 < s < float("inf") for s in numbers):
        raise Misuse(f"spacing is {value!r}; expected a number above 0, or one per axis: [2,1]")
    return numbers[0] if len(numbers) == 1 else numbers


def existing(path: str) -> Path:
    """Return the path of a file or folder that is there; suggest a neighbour if it is not."""
    found = Path(path).expanduser()
    if found.exists():
        return found
    parent = found.parent
    if not parent.is_dir():
        raise FileNotFoundError(f"there is no {path}, and no folder {parent} either")
    names = [p.name for p in parent.iterdir()]
    hint = suggest(found.name, names) if names else ""
    near = f"; {hint}" if hint.startswith("did you mean") else ""
    raise FileNotFoundError(f"there is no {path}{near}")
