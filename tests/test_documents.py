"""What the documents show runs, and what they point at exists."""

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parent.parent
DOCS = REPO / "docs"
PAPER = DOCS / "paper.md"
DOCUMENTS = [REPO / "README.md", *sorted(DOCS.glob("*.md"))]
PAGES = [*DOCUMENTS, REPO / "CONTRIBUTING.md", REPO / "CHANGELOG.md"]

# A place in the paper: Eq. (1), Table 5, Fig. 2; §2.1 and App. B.1 with or without a title.
PLACE = re.compile(
    r"Eq\. \(\d+\)|(?:Table|Fig\.) \d+|(?:§\d+(?:\.\d+)?|App\. [A-Z](?:\.\d+)?)(?: \"[^\"]+\")?"
)
TEST = re.compile(r"tests/[\w/]+\.py(?:::(\w+))?")


def blocks(path: Path) -> str:
    """Return the python blocks of a page as one program, on the lines on which they stand."""
    lines, inside = [], False
    for line in path.read_text(encoding="utf-8").splitlines():
        fence = line.startswith("```")
        lines.append(line if inside and not fence else "")
        inside = line == "```python" or (inside and not fence)
    return "\n".join(lines)


def ids(path: Path) -> str:
    return path.relative_to(REPO).as_posix()


@pytest.mark.parametrize("path", DOCUMENTS, ids=ids)
def test_python_blocks_run_from_top_to_bottom(path, tmp_path, monkeypatch):
    program = blocks(path)
    if not program.strip():
        pytest.skip("no python blocks")
    monkeypatch.chdir(tmp_path)
    exec(compile(program, str(path), "exec"), {"__name__": "__main__"})


def test_the_readme_and_the_guides_do_have_python_blocks():
    for name in (
        "README.md",
        "docs/quickstart.md",
        "docs/estimator.md",
        "docs/layers.md",
        "docs/resolution.md",
        "docs/points.md",
    ):
        assert blocks(REPO / name).strip(), name


def links(path: Path) -> Iterator[str]:
    """Yield the relative links of a page, images included, without their fragments."""
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:", target):
            yield target.split("#")[0]


@pytest.mark.parametrize("path", PAGES, ids=ids)
def test_relative_links_lead_somewhere(path):
    assert not [target for target in links(path) if not (path.parent / target).exists()]


def cited(path: Path) -> set[str]:
    """Return the places of the paper that a file names; a title may be broken over lines."""
    return set(PLACE.findall(" ".join(path.read_text(encoding="utf-8").split())))


def test_places_cited_in_the_source_stand_in_the_index():
    index = " ".join(PAPER.read_text(encoding="utf-8").split())
    missing = {
        f"{ids(path)}: {place}"
        for path in (REPO / "src").glob("**/*.py")
        for place in cited(path)
        if place not in index
    }
    assert not missing


def test_citations_are_found_over_a_line_break(tmp_path):
    page = tmp_path / "page.py"
    page.write_text('"""As §3 "Proper\n    initialization" and Eq. (1), App. B.1, Table 5 say."""')
    assert cited(page) == {'§3 "Proper initialization"', "Eq. (1)", "App. B.1", "Table 5"}


def test_tests_named_in_the_index_exist():
    found = list(TEST.finditer(PAPER.read_text(encoding="utf-8")))
    assert len(found) > 20
    missing = set()
    for match in found:
        path = REPO / match[0].split("::")[0]
        if not path.is_file() or (match[1] and match[1] not in functions(path)):
            missing.add(match[0])
    assert not missing


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_modules_named_in_the_index_exist():
    names = re.findall(r"`((?:\w+/)*\w+\.py)`", PAPER.read_text("utf-8"))
    assert len(names) > 10
    assert not [name for name in names if not (REPO / "src" / "ccnn" / name).is_file()]


def test_figures_are_small_and_made_by_their_script(tmp_path):
    spec = importlib.util.spec_from_file_location("make_figures", DOCS / "make_figures.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.main(tmp_path)
    shown = {target for page in DOCUMENTS for target in links(page) if target.endswith(".png")}
    assert {path.name for path in tmp_path.iterdir()} == {Path(target).name for target in shown}
    assert {path.name for path in tmp_path.iterdir()} == {
        path.name for path in (DOCS / "figures").iterdir()
    }
    for path in (DOCS / "figures").iterdir():
        assert path.stat().st_size < 80_000
