"""Words in a file: ``recipe_file=best.yaml`` stands for the keys and values in it."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ccnn.cli.words import existing, last_value, without

_PLAIN = re.compile(r"[\w./:@%+-]+")


def unfold(words: Sequence[str]) -> list[str]:
    """Put the words of the file in front; what is typed wins over what is in the file."""
    name = last_value(words, "recipe_file")
    typed = without(words, "recipe_file")
    if name is None:
        return typed
    keys = {word.partition("=")[0].lstrip("+~") for word in typed}
    return [*(w for k, w in read(existing(name)).items() if k not in keys), *typed]


def read(path: Path) -> dict[str, str]:
    """Return the words of a file by their keys; ``optim: {lr: 1}`` and ``optim.lr: 1`` are one."""
    import yaml  # type: ignore[import-untyped]  # its stubs are a package of their own

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        first = str(error).splitlines()[0]
        raise ValueError(f"{path} cannot be read as YAML: {first}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds no keys; expected lines such as optim.lr: 0.01")
    return _words("", content)


def _words(section: str, content: dict[Any, Any]) -> dict[str, str]:
    words: dict[str, str] = {}
    for key, value in content.items():
        name = f"{section}{key}"
        if isinstance(value, dict):
            words |= _words(f"{name}.", value)
        else:
            words[name] = f"{name}={_text(value)}"
    return words


def _text(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, list):
        return f"[{','.join(map(_text, value))}]"
    return quoted(value) if isinstance(value, str) else repr(value)


def quoted(text: str) -> str:
    """Return text as Hydra's grammar wants it: as it is, or between quotes."""
    if _PLAIN.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
