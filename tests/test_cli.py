"""What a person meets who types `ccnn`."""

import contextlib
import io
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ccnn import __version__
from ccnn.cli import main

PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> tuple[str, Path, float]:
    """What `ccnn demo` printed, where it wrote, and how many seconds it took."""
    out = tmp_path_factory.mktemp("demo") / "not" / "there"
    printed, start = io.StringIO(), time.process_time()
    with contextlib.redirect_stdout(printed):
        assert main(["demo", "--out", str(out)]) == 0
    return printed.getvalue(), out, time.process_time() - start


def section(text: str, title: str) -> list[list[str]]:
    """Return the cells of the table under a title; columns are three blanks apart."""
    body = text.split(title)[1].split("\n\n")[1]
    return [re.split(r" {3,}", line.strip()) for line in body.splitlines()]


def test_demo_builds_one_class_in_three_dimensions(demo):
    rows = section(demo[0], "One class, any dimension")[1:]
    assert [row[2] for row in rows] == ["(784,)", "(32, 32)", "(12, 12, 12)"]
    # The first two are the reference implementation's; each further axis adds the same number.
    assert [row[3] for row in rows] == ["198,769", "200,694", "202,619"]
    assert {row[5] for row in rows} == {"(4, 10)"}


def test_demo_shows_kernels_of_energy_one_beside_uninitialised_ones(demo):
    stem, *blocks, logits = section(demo[0], "The scale of a fresh network")[1:]
    assert len(blocks) == 4
    for _, std, least, most, plain_std, _, plain_most in (stem, *blocks):
        assert least == most == "1.00"
        assert float(plain_std) > 3 * float(std)
        assert float(plain_most) > 10
    assert logits[0] == "logits"


def test_demo_shows_that_the_response_does_not_depend_on_the_resolution(demo):
    rows = section(demo[0], "any resolution: Eq. (1)")[1:]
    assert [row[0] for row in rows] == [f"Grid(spacing={s})" for s in ("0.5", "1", "2")]
    told, untold = ([float(row[i].rstrip("%")) for row in rows] for i in (-2, -1))
    assert max(told) < 2
    assert min(untold[0], untold[2]) > 20


def test_demo_shows_that_padding_changes_nothing(demo):
    rows = section(demo[0], "Padding never changes a result")[1:]
    assert len(rows) == 3
    assert max(float(row[-1]) for row in rows) < 1e-5


def test_demo_writes_the_two_figures_it_names(demo):
    text, out, _ = demo
    assert sorted(path.name for path in out.iterdir()) == ["dimensions.png", "resolutions.png"]
    for path in out.iterdir():
        assert str(path) in text
        assert path.read_bytes().startswith(PNG)


def test_demo_is_read_on_one_screen_of_a_hundred_columns(demo):
    assert max(map(len, demo[0].replace(str(demo[1]), "").splitlines())) <= 100
    assert len(demo[0].splitlines()) <= 60


def test_demo_takes_seconds(demo):
    # Two cores in under 30 s; time of this process only, so that a busy machine does not matter.
    assert demo[2] < 60


def test_demo_without_matplotlib_says_so_and_shows_the_rest(tmp_path, monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "ccnn.plots", raising=False)
    monkeypatch.delattr("ccnn.plots", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    assert main(["demo", "--out", str(tmp_path)]) == 0
    assert "pip install matplotlib" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_named_before_any_work(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["demo", "--out", str(tmp_path / "file")]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert str(tmp_path / "file") in captured.err


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"ccnn {__version__}\n"


def test_help_fits_a_screen(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert any("demo" in line for line in lines)


@pytest.mark.parametrize(
    ("argv", "word"),
    [(["tran"], "'tran'"), (["demo", "--color"], "--color"), (["demo", "--ou", "x"], "--ou")],
)
def test_what_is_not_understood_is_one_line_and_exit_code_2(argv, word, capsys):
    assert main(argv) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("ccnn: ")
    assert word in captured.err


def test_no_command_shows_the_help(capsys):
    assert main([]) == 2
    assert "demo" in capsys.readouterr().err


def test_a_terminal_without_greek_letters_is_no_failure():
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    code = "from ccnn.cli import main; main(['--version']); print('Σ')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.split()[-1] == b"?"


def test_the_command_line_loads_matplotlib_only_in_its_verb():
    code = "import sys, ccnn.cli; ccnn.cli.main(['--version']); print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split()[-1] == "False", done.stderr
