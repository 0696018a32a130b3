"""What a newcomer sees first."""

import contextlib
import io
import re
from pathlib import Path

import pytest
import torch

from ccnn.cli import main
from ccnn.cli.demo_data import SOLIDS, PlainCNN, make_solids

PNG = b"\x89PNG"


def show(out: Path, *words: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(["demo", "--out", str(out), *words]) == 0
    return printed.getvalue()


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> tuple[str, Path]:
    """What `ccnn demo --quick` printed, and where it wrote."""
    out = tmp_path_factory.mktemp("demo") / "not" / "there"
    return show(out, "--quick"), out


def per_cents(text: str, start: str) -> list[float]:
    """Return the percentages of the line that starts with some words."""
    line = next(line for line in text.splitlines() if line.strip().startswith(start))
    return [float(value) for value in re.findall(r"(\d+\.\d) %", line)]


def test_demo_learns_sequences_and_images_and_shows_volumes(demo):
    text, _ = demo
    # Two small blocks and a few steps on ten classes; the solids are for the whole demo, below.
    assert per_cents(text, "1-D")[0] > 20
    assert per_cents(text, "2-D")[0] > 30
    assert len(per_cents(text, "3-D")) == 1
    assert "generated" in text
    assert "interpolation" in text


def test_demo_needs_the_spacing_on_another_grid(demo):
    coarse, told, untold = per_cents(demo[0], "continuous CNN")
    assert coarse == per_cents(demo[0], "2-D")[0]  # the same network, the same test
    assert told > coarse - 15
    assert untold < told - 15


def test_demo_compares_with_a_plain_network(demo):
    assert len(per_cents(demo[0], "plain CNN")) == 2


def test_demo_writes_what_it_names(demo):
    text, out = demo
    for name in ("report.html", "comparison.html"):
        assert str(out / name) in text
        assert (out / name).read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    for name in ("dimensions.png", "resolutions.png"):
        assert str(out / name) in text
        assert (out / name).read_bytes().startswith(PNG)


def test_demo_is_read_on_one_screen_of_a_hundred_columns(demo):
    text = demo[0].replace(str(demo[1]), "")
    assert max(map(len, text.splitlines())) <= 100
    assert len(text.splitlines()) <= 45


def test_what_the_demo_names_next_works(demo, capsys):
    assert main(["evaluate", f"run={demo[1] / 'digits-2d'}", "spacing=0.5"]) == 0
    assert "size 15×15" in capsys.readouterr().out


def test_demo_does_not_touch_folders_that_are_not_its_own(tmp_path, capsys):
    (tmp_path / "digits-2d").mkdir()
    (tmp_path / "digits-2d" / "result.json").write_text("{}")
    assert main(["demo", "--out", str(tmp_path)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert str(tmp_path / "digits-2d") in captured.err
    assert (tmp_path / "digits-2d" / "result.json").exists()
    assert not (tmp_path / "digits-1d").exists()


def test_a_folder_that_cannot_be_made_is_named_before_any_work(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["demo", "--out", str(tmp_path / "file")]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert str(tmp_path / "file") in captured.err


def test_solids_are_of_equal_shares_and_repeat():
    splits = make_solids(80)
    assert splits.train.x.shape == (48, 1, 8, 8, 8)
    assert torch.equal(splits.train.x, make_solids(80).train.x)
    labels = torch.cat([splits.train.y, splits.val.y, splits.test.y])
    assert labels.bincount().tolist() == [20] * len(SOLIDS)


def test_solids_differ_in_what_they_fill():
    splits = make_solids(400)
    mean = splits.train.x.flatten(1).mean(dim=1)
    filled = [float(mean[splits.train.y == i].mean()) for i in range(len(SOLIDS))]
    assert len({round(v, 2) for v in filled}) == len(SOLIDS)


def test_plain_network_ignores_the_grid():
    model = PlainCNN(10).eval()
    assert model(torch.randn(2, 1, 16, 16)).shape == (2, 10)


@pytest.mark.slow
def test_the_whole_demo_reaches_what_it_promises(tmp_path):
    text = show(tmp_path)
    assert per_cents(text, "1-D")[0] >= 95
    assert per_cents(text, "2-D")[0] >= 97
    assert per_cents(text, "3-D")[0] >= 90
    coarse, told, untold = per_cents(text, "continuous CNN")
    assert told >= coarse - 3
    assert untold < 60
    parameters = re.findall(r"(?:continuous CNN \(ccnn\)|3×3 kernels) +([\d,]+)", text)
    ours, plain = (int(p.replace(",", "")) for p in parameters)
    assert 0.7 < plain / ours < 1.4
