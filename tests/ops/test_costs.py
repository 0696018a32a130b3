"""Costs that a user measured are stored, read back, and never trusted blindly."""

import json
import math
from dataclasses import asdict, fields, replace

import pytest

from ccnn.ops import costs
from ccnn.ops.costs import MEASURED, Costs


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CCNN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_without_a_file_ours_are_used():
    assert costs.load() is MEASURED


def test_what_is_stored_is_read_back(folder):
    mine = replace(MEASURED, fft=(1.0, 2.0, 3.5), fft_large=7.25)
    path = costs.store(mine)
    assert path == folder / "costs.json"
    assert [p.name for p in folder.iterdir()] == ["costs.json"]  # nothing half-written stays
    assert costs.load() == mine


def test_the_usual_cache_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("CCNN_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert costs.stored_at() == tmp_path / "ccnn" / "costs.json"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert costs.stored_at() == tmp_path / "home" / ".cache" / "ccnn" / "costs.json"


def broken() -> dict[str, str]:
    good = asdict(MEASURED)
    return {
        "no JSON": "{",
        "a list": "[1, 2]",
        "a number": "3",
        "nothing": "",
        "a cost too few": json.dumps({k: v for k, v in good.items() if k != "fft"}),
        "a cost too many": json.dumps(good | {"speed": 1.0}),
        "negative": json.dumps(good | {"fft_large": -1.0}),
        "not finite": json.dumps(good | {"fft_large": math.nan}),
        "text": json.dumps(good | {"fft_large": "fast"}),
        "two of three": json.dumps(good | {"fft": [1.0, 2.0]}),
    }


@pytest.mark.parametrize("name", broken())
def test_a_broken_file_is_named_and_ignored(name, folder):
    folder.mkdir()
    (folder / "costs.json").write_text(broken()[name])
    with pytest.warns(UserWarning, match=r"costs\.json .*delete it or store again"):
        assert costs.load() is MEASURED


@pytest.mark.parametrize("field", [f.name for f in fields(Costs)])
def test_no_cost_may_be_negative(field):
    value = asdict(MEASURED)[field]
    wrong = (*value[:2], -1.0) if isinstance(value, tuple) else -1.0
    with pytest.raises(ValueError, match=field):
        replace(MEASURED, **{field: wrong})
