"""``ccnn bench crossover``: the fit finds the costs that made the times, and storing works."""

from dataclasses import asdict, replace

import pytest

from ccnn import bench
from ccnn.bench import CASES, Row, fit
from ccnn.ops import costs, plan
from ccnn.ops.costs import MEASURED, Costs
from ccnn.ops.plan import Work

OTHER = Costs(
    direct_start=(2.0, 3.0, 4.0),
    direct_tap=(0.1, 0.2, 0.3),
    direct_slow=(5.0, 6.0, 7.0),
    gradient_start=(1.0, 2.0, 3.0),
    gradient_tap=(0.5, 0.6, 0.7),
    fft=(0.4, 0.5, 0.6),
    fft_large=0.9,
    blocks_forward=0.25,
    blocks_training=0.75,
)


def rows_of(c: Costs) -> list[Row]:
    """Return what a machine with these costs would measure."""
    rows = []
    for case in CASES:
        dim, batch, side, taps = case
        for training in (False, True):
            shape = (batch, bench.CHANNELS, *(side,) * dim)
            work = Work.of(shape, (bench.CHANNELS, *(taps,) * dim), training=training)
            seconds = {m: ns / 1e9 for m, ns in work.nanoseconds(c).items()}
            rows.append(Row(case, work, seconds))
    return rows


def test_the_fit_finds_the_costs():
    found, right = asdict(fit(rows_of(OTHER))), asdict(OTHER)
    # The grid has no 3-D kernel of more than 9 taps a side, so that one keeps our value.
    right["direct_slow"] = (*right["direct_slow"][:2], MEASURED.direct_slow[2])
    for name, value in right.items():
        assert found[name] == pytest.approx(value, rel=1e-3), name


def test_a_rule_with_the_right_costs_always_takes_the_best():
    rows = rows_of(OTHER)
    assert max(row.ratio(OTHER) for row in rows) == 1
    assert max(row.ratio(replace(OTHER, fft=(90.0,) * 3)) for row in rows) > 2
    assert "at worst, above 1.15 in 0 of" in bench.summary(rows, OTHER)


def test_measured_stored_and_forgotten(tmp_path, monkeypatch):
    monkeypatch.setenv("CCNN_CACHE", str(tmp_path))
    monkeypatch.setattr(bench, "QUICK", [(1, 1, 40, 3), (1, 1, 40, 9), (2, 1, 8, 3), (2, 1, 8, 5)])
    lines: list[str] = []
    rows = bench.crossover(quick=True, rounds=1, store=True, say=lines.append)
    assert len(rows) == 8
    assert all(t > 0 for row in rows for t in row.seconds.values())
    assert any(str(tmp_path / "costs.json") in line for line in lines)
    assert costs.load() == fit(rows)
    assert bench.crossover(forget=True, say=lines.append) == []
    assert costs.load() is MEASURED


def test_the_plan_follows_stored_costs(monkeypatch):
    shapes = (4, 8, 500), (8, 5)
    assert plan(*shapes, training=False).method == "direct"
    dear = replace(MEASURED, direct_start=(1e6,) * 3)
    monkeypatch.setattr(costs, "CURRENT", dear)
    assert plan(*shapes, training=False).method != "direct"
