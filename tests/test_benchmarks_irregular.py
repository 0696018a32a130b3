"""The protocol of ``benchmarks/irregular.py``: folds, dropped samples, scaling, and its rivals."""

from dataclasses import replace

import irregular
import irregular_data
import pytest
import torch
from baselines import GRUClassifier, PlainCNN, in_order, time_gaps
from irregular_report import append_rows, read_rows, table
from irregular_ways import Way
from sklearn.metrics import roc_auc_score

import ccnn
from ccnn.tasks.task import Samples
from ccnn.training.settings import Batching, Optim

LENGTHS = torch.tensor([50, 31, 40, 12])


def test_every_series_is_tested_once_and_every_fold_has_all_letters(data_root):
    samples = irregular_data.characters(data_root)
    parts = irregular_data.folds(samples.y)
    tested = torch.cat([test for _, test in parts])
    assert tested.sort().values.equal(torch.arange(len(samples.y)))
    all_of_them = samples.y.bincount(minlength=20)
    for train, test in parts:
        assert not set(train.tolist()) & set(test.tolist())
        assert len(train) + len(test) == len(samples.y)
        share = samples.y[test].bincount(minlength=20)
        assert ((share - all_of_them / 5).abs() <= 1).all()


@pytest.mark.parametrize("share", irregular_data.DROPS)
def test_the_share_that_was_asked_for_is_dropped_from_each_series(share):
    mask = irregular_data.kept(LENGTHS, 50, share)
    assert mask.shape == (4, 1, 50)
    assert mask.sum(dim=(1, 2)).tolist() == ((1 - share) * LENGTHS).round().tolist()
    assert not (mask & ~irregular_data.inside(LENGTHS, 50)).any()


def test_what_fewer_drops_drop_is_dropped_by_more_of_them():
    few, many = (irregular_data.kept(LENGTHS, 50, share) for share in (0.3, 0.7))
    assert not (many & ~few).any()
    assert few.equal(irregular_data.kept(LENGTHS, 50, 0.3))


def test_scaling_comes_from_the_training_part_and_from_what_was_seen():
    x = 3 * torch.randn(20, 2, 30) + 5
    seen = torch.rand(20, 2, 30) > 0.3
    samples = Samples(x, torch.zeros(20, dtype=torch.long))
    train = torch.arange(12)
    scaled = irregular_data.standardised(samples, seen, train, [0, 1]).x
    for channel in (0, 1):
        known = scaled[train, channel][seen[train, channel]]
        assert abs(known.mean()) < 1e-5
        assert abs(known.std(correction=0) - 1) < 1e-5
    assert (scaled[~seen] == 0).all()
    other = x.clone()
    other[12:] = 99.0
    again = irregular_data.standardised(replace(samples, x=other), seen, train, [0, 1]).x
    assert again[:12].equal(scaled[:12])


def some_patients() -> Samples:
    """Three patients with 9, 7 and 4 times of measurement, some within one step."""
    lengths, count = torch.tensor([9, 7, 4]), len(irregular_data.SERIES)
    there = irregular_data.inside(lengths, 9)
    observed = (torch.rand(3, count, 9) < 0.4) & there
    static = torch.randn(3, 7, 1).expand(-1, -1, 9) * there
    x = torch.cat([torch.randn(3, count, 9) * observed, observed.float(), static], dim=1)
    positions = (0.4 * torch.arange(9.0)).expand(3, 9)[..., None] + 236.9  # to 240.1, the end
    return Samples(x, torch.tensor([0, 1, 0]), lengths, positions)


def test_patients_on_a_grid_are_means_of_what_was_measured_in_each_step():
    samples = some_patients()
    grid = irregular_data.on_grid(samples)
    count = len(irregular_data.SERIES)
    for who in range(3):
        values: dict[tuple[int, int], list[float]] = {}
        for i in range(int(samples.lengths[who])):
            step = min(int(samples.positions[who, i, 0]), irregular_data.SIZE - 1)
            assert grid.mask[who, 0, step]
            for channel in range(count):
                if samples.x[who, count + channel, i]:
                    values.setdefault((channel, step), []).append(float(samples.x[who, channel, i]))
        assert int(grid.x[who, count : 2 * count].sum()) == len(values)
        for (channel, step), measured in values.items():
            mean = sum(measured) / len(measured)
            assert float(grid.x[who, channel, step]) == pytest.approx(mean, abs=1e-5)
            assert grid.x[who, count + channel, step] == 1
    # What does not change is the same in every step that has a measurement.
    static = grid.x[:, 2 * count :]
    first = samples.x[:, 2 * count :, :1]
    torch.testing.assert_close(static, first * grid.mask, atol=1e-5, rtol=1e-5)


def test_auc_is_that_of_scikit_learn():
    y = (torch.rand(80) < 0.2).long()
    outputs = torch.randn(80, 2).round(decimals=1)  # so that there are ties
    expected = roc_auc_score(y, outputs[:, 1] - outputs[:, 0])
    assert irregular.auc(outputs, y) == pytest.approx(expected, abs=1e-9)


def test_gru_reads_points_in_the_order_of_time_and_no_others():
    model = GRUClassifier(2, 3, 8).eval()
    x, t = torch.randn(2, 2, 12), 50 * torch.rand(2, 12)
    expected = model(x, ccnn.Points(t))
    order = torch.randperm(12)
    torch.testing.assert_close(model(x[..., order], ccnn.Points(t[:, order])), expected)
    mask = torch.ones(2, 15, dtype=torch.bool)
    mask[:, [0, 5, 14]] = False
    wide = torch.full((2, 2, 15), torch.nan)
    places = torch.full((2, 15), torch.nan)
    wide[:, :, mask[0]], places[:, mask[0]] = x, t
    torch.testing.assert_close(model(wide, ccnn.Points(places, mask)), expected)


def test_gru_sees_the_holes_of_a_grid_and_the_time_since_the_last_sample():
    mask = torch.tensor([[True, False, False, True, True, False]])
    x = torch.randn(1, 2, 6)
    values, times, exists = in_order(x, ccnn.Grid(spacing=2.0, mask=mask))
    assert (values[0, [1, 2, 5]] == 0).all()
    gaps = time_gaps(times, exists).expm1()
    torch.testing.assert_close(gaps[0], torch.tensor([0.0, 2, 4, 6, 2, 2]).double())
    model = GRUClassifier(2, 3, 8).eval()
    longer = torch.cat([x, torch.full((1, 2, 4), torch.nan)], dim=-1)
    padded = torch.cat([mask, torch.zeros(1, 4, dtype=torch.bool)], dim=-1)
    torch.testing.assert_close(
        model(longer, ccnn.Grid(mask=padded)), model(x, ccnn.Grid(mask=mask))
    )


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_padding_changes_nothing_for_the_plain_cnn(dim, stride):
    model = PlainCNN(2, 4, dim, 6, 2, stride=stride)
    x = torch.randn(3, 2, *[8] * dim)
    model(x)  # statistics of its norms
    model.eval()
    padded = torch.full((3, 2, *[12] * dim), torch.nan)
    padded[(..., *[slice(8)] * dim)] = x
    lengths = torch.full((3, dim), 8)
    torch.testing.assert_close(model(padded, ccnn.Grid(lengths=lengths)), model(x))


def test_a_run_gives_a_row_for_each_share_and_is_not_repeated(tmp_path):
    y = torch.arange(40) % 4
    x = torch.randn(40, 1, 24) + y[:, None, None]
    samples = Samples(x, y, torch.full((40,), 24) - torch.arange(40) % 5)
    way = Way(
        network=lambda: ccnn.CCNN(1, 4, (24,), blocks=1, channels=4),
        optim=Optim(epochs=1, warmup_epochs=0),
        batching=Batching(batch_size=8, drop=0.7, missing="density"),
        tested={"points": "points", "density": "density"},
    )
    problem = replace(irregular.PROBLEMS["chartrajectories"], ways={"points": way})
    rows = [
        {"data": "chartrajectories"} | row for row in irregular.measure(problem, way, samples, 1, 0)
    ]
    apart = [float(r["value"]) for r in rows if r["score"].startswith("largest")]
    assert (len(rows), len(apart)) == (12, 4)
    assert max(apart) < 1e-4
    path = tmp_path / "irregular.csv"
    append_rows(path, rows[:3])
    assert not irregular.is_done(read_rows(path), "chartrajectories", way, 1, 0)
    append_rows(path, rows[3:])
    assert irregular.is_done(read_rows(path), "chartrajectories", way, 1, 0)
    assert not irregular.is_done(read_rows(path), "chartrajectories", way, 2, 0)
    lines = list(table(read_rows(path), "chartrajectories", "accuracy %"))
    assert len(lines) == 4
    assert lines[2].startswith(f"| points | {float(rows[0]['value']):.2f} |")
