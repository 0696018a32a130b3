"""The protocol of benchmarks/resolution.py: how signals are thinned, told, measured and written."""

from dataclasses import replace
from pathlib import Path

import pytest
import resolution
import resolution_problems as problems
import resolution_report as report
import torch
from safetensors.torch import load_file

import ccnn
from ccnn.tasks.task import Samples, Splits

REPO = Path(__file__).resolve().parent.parent


def tones(cycles: list[float], n: int = 400) -> Samples:
    t = torch.arange(n, dtype=torch.float64) / n
    x = torch.stack([torch.cos(2 * torch.pi * c * t + 0.3) for c in cycles])[:, None]
    return Samples(x, torch.zeros(len(cycles), dtype=torch.long))


def test_half_rate_keeps_what_the_coarser_grid_can_carry_and_nothing_else():
    # Nyquist is at 200 cycles before, at 100 after.
    before = tones([7, 99, 101, 180])
    after = problems.half_rate(before).x
    torch.testing.assert_close(after[:2], before.x[:2, :, ::2], rtol=0, atol=1e-12)
    assert after[2:].abs().max() < 1e-12


def test_thinned_images_keep_their_mean_and_lengths_follow():
    x = torch.randn(3, 1, 8, 8)
    means = problems.block_means(Samples(x, torch.zeros(3))).x
    torch.testing.assert_close(means[0, 0, 1, 2], x[0, 0, 2:4, 4:6].mean())
    series = Samples(torch.randn(2, 1, 9), torch.zeros(2), lengths=torch.tensor([9, 4]))
    thin = problems.every(4)(series)
    assert thin.lengths.tolist() == [3, 1]
    torch.testing.assert_close(thin.x, series.x[..., ::4])


@pytest.mark.parametrize("name", ["mnist28", "chartrajectories", "speech"])
def test_the_plain_network_has_as_many_parameters(name):
    problem = problems.PROBLEMS[name]
    ours = resolution.count(resolution.build(problem, resolution.Way()))
    plain = resolution.count(resolution.build(problem, resolution.Way(plain=True)))
    assert ours <= plain < 1.15 * ours  # one channel more or less is up to 15 %


def test_kernels_are_low_passed_only_where_the_grid_is_coarser():
    ours = resolution.Way()
    finer = resolution.tests_of(problems.PROBLEMS["mnist14"], ours)
    assert [(t.rate.spacing, t.told) for t in finer] == [
        (1.0, report.NOTHING),
        (0.5, report.NOTHING),
        (0.5, report.SPACING),
    ]
    coarser = resolution.tests_of(problems.PROBLEMS["speech"], ours)
    assert (2.0, report.LOWPASS) in [(t.rate.spacing, t.told) for t in coarser]


@pytest.fixture
def toy(tmp_path, monkeypatch) -> Splits:
    """Slow and fast tones as a problem of its own, measured into a folder of its own."""
    fast = tones([3.0] * 20 + [7.0] * 20, n=32)
    samples = Samples(fast.x.float(), torch.arange(40) // 20)
    problem = replace(
        problems.PROBLEMS["speech"],
        size=(32,),
        classes=2,
        epochs=1,
        network={"blocks": 1, "channels": 4},
        augment=None,
    )
    monkeypatch.setitem(problems.PROBLEMS, "toy", problem)
    monkeypatch.setattr(resolution, "MEASURED", tmp_path / "resolution.csv")
    monkeypatch.setattr(resolution, "WEIGHTS", tmp_path)
    return Splits(samples, samples, samples)


def test_what_is_measured_is_not_measured_again(toy):
    run = resolution.Run("toy", "band 1", 0, "test")
    resolution.measure(run, toy)
    rows = resolution.read_rows()
    tests = resolution.tests_of(problems.PROBLEMS["toy"], resolution.WAYS["band 1"])
    assert [resolution.key_of(row) for row in rows] == [run.key(test) for test in tests]

    resolution.measure(run, None)  # would fail if it looked at data
    assert resolution.read_rows() == rows


def test_the_network_is_told_the_spacing_of_the_thinned_signals(toy):
    run = resolution.Run("toy", "band 1", 0, "test")
    resolution.measure(run, toy)
    told = {row["told"]: float(row["accuracy"]) for row in resolution.read_rows()}
    model = resolution.build(problems.PROBLEMS["toy"], resolution.WAYS["band 1"])
    model.load_state_dict(load_file(run.weights))
    x = problems.half_rate(toy.test).x
    outputs = model.eval()(x, ccnn.Grid(spacing=2.0))
    right = (outputs.argmax(dim=1) == toy.test.y).float().mean().item()
    assert told[report.SPACING] == pytest.approx(100 * right, abs=0.01)


def test_a_lost_accuracy_is_measured_again_with_the_kept_weights(toy):
    run = resolution.Run("toy", "band 1", 0, "test")
    resolution.measure(run, toy)
    whole = resolution.MEASURED.read_text().splitlines()
    resolution.MEASURED.write_text("\n".join(whole[:-1]) + "\n")
    resolution.measure(run, replace(toy, train=None))  # would fail if it trained
    assert resolution.MEASURED.read_text().splitlines() == whole


def test_tables_give_means_and_ranges_over_seeds():
    row = dict.fromkeys(resolution.COLUMNS, "")
    row |= {"problem": "mnist14", "way": "band 1", "part": "test"}
    rows = [
        row | {"seed": str(seed), "tested at": at, "told": told, "accuracy": str(value)}
        for seed, at, told, value in (
            (0, "14×14", "nothing", 97.0),
            (1, "14×14", "nothing", 98.0),
            (0, "28×28", "spacing", 95.0),
        )
    ]
    last = report.tables(rows).splitlines()[-1]
    assert last == "| band 1 | 2 | 97.5 (97.0 to 98.0) | 95.0 |"


def test_the_documented_tables_and_the_figure_are_those_of_the_measurements(tmp_path):
    text = (REPO / "docs" / "resolution.md").read_text(encoding="utf-8")
    lines = report.tables(resolution.read_rows()).splitlines()
    assert len(lines) > 10
    assert [line for line in lines if line not in text.splitlines()] == []
    report.draw(resolution.read_rows(), tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
