"""The few pieces of HTML the pages are made of; every text is escaped here."""

import os
import secrets
from collections.abc import Sequence
from html import escape as escape
from importlib import resources
from pathlib import Path

# The browser itself holds the promise: no script, no request, nothing but what is in the page.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(title: str, body: Sequence[str]) -> str:
    """Return a whole page."""
    style = resources.files("ccnn.report").joinpath("style.css").read_text(encoding="utf-8")
    content = "\n".join(part for part in body if part)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n<main>\n{content}\n</main>\n</body>\n</html>\n"
    )


def section(title: str, text: str, *parts: str) -> str:
    """Return a section with a heading and a sentence of introduction; nothing if it is empty."""
    content = "\n".join(part for part in parts if part)
    if not content:
        return ""
    return f"<section>\n<h2>{escape(title)}</h2>\n{paragraph(text)}\n{content}\n</section>"


def paragraph(text: str, *, kind: str = "") -> str:
    """Return a paragraph."""
    attribute = f' class="{kind}"' if kind else ""
    return f"<p{attribute}>{escape(text)}</p>" if text else ""


def figures(*parts: str, large: bool = False) -> str:
    """Lay figures side by side, as many as the screen holds."""
    content = "\n".join(part for part in parts if part)
    kind = "figures large" if large else "figures"
    return f'<div class="{kind}">\n{content}\n</div>' if content else ""


def tiles(*pairs: tuple[str, str]) -> str:
    """Return key figures: number and what it counts."""
    shown = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs
    )
    return f'<dl class="tiles">{shown}</dl>' if shown else ""


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, bars: int | None = None) -> str:
    """Return a table; the first column names the row, the others hold numbers.

    The column ``bars`` holds percentages such as ``97.5 %`` and gets a bar behind each.
    """
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body = "\n".join(f"<tr>{_cells(row, bars)}</tr>" for row in rows)
    return (
        f'<div class="scroll" tabindex="0"><table>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody>\n</table></div>"
    )


def facts(rows: Sequence[tuple[str, str]]) -> str:
    """Return names and what they stand for, in words."""
    shown = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>" for name, text in rows
    )
    return f'<dl class="facts">{shown}</dl>' if shown else ""


def _cells(row: Sequence[str], bars: int | None) -> str:
    cells = [f'<th scope="row">{escape(row[0])}</th>']
    for i, value in enumerate(row[1:], start=1):
        if i == bars and value.endswith("%"):
            share = value.removesuffix("%").strip()
            cells.append(f'<td class="bar" style="--share: {escape(share)}%">{escape(value)}</td>')
        else:
            cells.append(f"<td>{escape(value)}</td>")
    return "".join(cells)


def code(text: str) -> str:
    """Return text as it is typed; one click selects it all."""
    return f'<pre tabindex="0"><code>{escape(text)}</code></pre>'


def details(title: str, content: str) -> str:
    """Return something that opens on a click."""
    return f"<details><summary>{escape(title)}</summary>\n{content}\n</details>"


def notes(lines: Sequence[str]) -> str:
    """Return what is missing, as a box; nothing if nothing is."""
    if not lines:
        return ""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<aside><p>Not everything is here.</p><ul class="notes">{items}</ul></aside>'


def save(text: str, out: Path) -> Path:
    """Write a page so that a reader meets the old or the new one, never half of it."""
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.with_name(f".{out.name}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, out)
    finally:
        temporary.unlink(missing_ok=True)
    return out
