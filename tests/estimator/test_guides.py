"""The examples run, in a short form, and stay short enough to be read."""

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

# What each example prints, besides its scores.
SAYS = {
    "series.py": ["accuracy", "median distance to the shape", "the same after loading: True"],
    "unequal_lengths.py": ["lengths: [50, ", "0% missing", "50% missing", "frequency: error"],
    "images.py": ["8 × 8", "15 × 15, told", "15 × 15, not told", "speaks for it"],
    "volumes.py": ["best: {", "accuracy on new volumes", "['ball' 'rod' 'shell']"],
}


def test_all_examples_are_known():
    assert {path.name for path in EXAMPLES.glob("*.py")} == SAYS.keys()


@pytest.mark.parametrize("name", SAYS)
def test_an_example_is_shorter_than_60_lines(name):
    assert len((EXAMPLES / name).read_text().splitlines()) < 60


@pytest.mark.parametrize("name", SAYS)
def test_an_example_runs(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [name, "1"])  # one epoch
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    printed = capsys.readouterr().out
    for text in SAYS[name]:
        assert text in printed
