"""What a network is called with: lengths, holes, positions, and what is dropped in training."""

import pytest
import torch

import ccnn
from ccnn.training.data import Batch
from ccnn.training.placing import drop, place
from ccnn.training.resampling import resample_batch
from ccnn.training.settings import Batching, Optim

WAYS = ("mask", "density", "points")


def batch_of(n: int = 3, length: int = 24, *, holes: bool = True) -> Batch:
    torch.manual_seed(0)
    x = torch.randn(n, 1, length)
    mask = torch.rand(n, 1, length) < 0.7 if holes else None
    return Batch(x, torch.zeros(n), torch.tensor([length, length - 4, length - 9])[:n], mask=mask)


def test_a_whole_grid_needs_no_domain():
    x = torch.randn(2, 1, 24)
    assert place(Batch(x, x)).domain is None


@pytest.mark.parametrize("missing", WAYS)
def test_what_is_missing_holds_any_value(toy, missing):
    batch, model = batch_of(), toy.network().eval()
    exists = batch.mask & (torch.arange(24) < batch.lengths[:, None, None])
    other = batch._replace(x=torch.where(exists, batch.x, 99.0))
    one, two = (place(b, missing=missing).through(model) for b in (batch, other))
    torch.testing.assert_close(one, two)
    assert not torch.allclose(one, model(batch.x))


def test_holes_with_their_density_are_points(toy):
    batch, model = batch_of(), toy.network().eval()
    grid, points = (place(batch, missing=m).through(model) for m in ("density", "points"))
    torch.testing.assert_close(grid, points, rtol=1e-3, atol=1e-4)


def test_points_take_no_more_room_than_the_fullest_signal():
    batch = batch_of()
    exists = batch.mask & (torch.arange(24) < batch.lengths[:, None, None])
    placed = place(batch, missing="points")
    assert placed.x.shape[2] == exists.sum(dim=2).max()
    for row in range(3):
        mask = placed.domain.mask[row, 0]
        where = placed.domain.positions[row, mask, 0].long()
        assert where.tolist() == exists[row, 0].nonzero().flatten().tolist()
        assert torch.equal(placed.x[row, :, mask], batch.x[row][:, where])


def test_the_observed_channel_marks_holes_and_lengths_stay_lengths():
    batch = batch_of()
    placed = place(batch, missing="observed")
    assert placed.x.shape == (3, 2, 24)
    assert torch.equal(placed.x[:, 1:] > 0, batch.mask)
    assert torch.equal(placed.x[:, :1], torch.where(batch.mask, batch.x, 0.0))
    assert placed.domain.lengths.tolist() == batch.lengths.tolist()


def test_positions_with_lengths_are_points_with_a_mask(toy):
    batch = batch_of(holes=False)._replace(positions=torch.rand(3, 24, 1) * 24)
    model = toy.network().eval()
    inside = torch.arange(24) < batch.lengths[:, None]
    wanted = model(batch.x, ccnn.Points(batch.positions, inside))
    torch.testing.assert_close(place(batch).through(model), wanted, rtol=1e-4, atol=1e-5)


def test_dropping_leaves_something_of_every_signal_and_nothing_new():
    torch.manual_seed(0)
    batch = Batch(torch.randn(500, 1, 6), torch.zeros(500), torch.randint(1, 7, (500,)))
    dropped = drop(batch, 0.999)
    within = torch.arange(6) < batch.lengths[:, None, None]
    assert dropped.mask.any(dim=2).all()
    assert not (dropped.mask & ~within).any()
    shares = dropped.mask.sum(dim=2)[batch.lengths == 6] / 6
    assert 0.3 < shares.mean() < 0.75  # one half, a bit more where nothing would be left


def test_a_thinned_batch_keeps_lengths_and_holes_true():
    batch = batch_of()
    thin = resample_batch(batch, 2.0)
    assert thin.lengths.tolist() == [12, 10, 8]
    assert torch.equal(thin.mask, batch.mask[..., ::2])


@pytest.mark.parametrize("missing", [*WAYS, "observed"])
def test_training_with_dropped_samples_learns(toy, missing):
    train, test = toy.sines(128, 1), toy.sines(48, 3)
    model = toy.network(dropout=0.0, in_channels=2 if missing == "observed" else 1)
    result = toy.run(
        None,
        model=model,
        splits=toy.Splits(train, None, test),
        augment=None,
        optim=Optim(lr=0.02, epochs=12, warmup_epochs=1),
        batching=Batching(batch_size=16, drop=0.5, missing=missing),
    )
    assert result.test["accuracy"] > 0.85


def test_training_at_random_spacings_learns_both(toy):
    train, test = toy.sines(128, 1), toy.sines(48, 3)
    model = toy.network(dropout=0.0)
    toy.run(
        None,
        model=model,
        splits=toy.Splits(train, None, None),
        augment=None,
        optim=Optim(lr=0.02, epochs=12, warmup_epochs=1),
        batching=Batching(batch_size=16, spacings=(1, 2)),
    )
    with torch.no_grad():
        for spacing in (1, 2):
            says = model(test.x[..., ::spacing], ccnn.Grid(spacing=float(spacing))).argmax(dim=1)
            assert (says == test.y).float().mean() > 0.85


def test_a_signal_of_weight_zero_teaches_nothing(toy):
    train = toy.sines(32, 1)
    wrong = toy.Samples(
        torch.cat([train.x, train.x]),
        torch.cat([train.y, 1 - train.y]),
        weights=torch.cat([torch.ones(32), torch.zeros(32)]),
    )
    models = []
    for samples in (train, toy.Samples(train.x, train.y, weights=torch.full((32,), 3.0))):
        model = toy.network()
        toy.run(
            None,
            model=model,
            splits=toy.Splits(samples, None, None),
            augment=None,
        )
        models.append(model)
    for p, q in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-4)  # equal weights are none
    model = toy.network(dropout=0.0)
    result = toy.run(
        None,
        model=model,
        splits=toy.Splits(wrong, None, train),
        augment=None,
        optim=Optim(lr=0.02, epochs=15, warmup_epochs=1),
        batching=Batching(batch_size=16),
    )
    assert result.test["accuracy"] > 0.9


@pytest.mark.parametrize(
    ("batching", "samples", "message"),
    [
        (
            Batching(spacings=(1, 2)),
            {"positions": torch.zeros(64, 24, 1)},
            "positions of their own",
        ),
        (Batching(batch_size=8), {"weights": -torch.ones(64)}, "finite and not negative"),
        (Batching(batch_size=8), {"mask": torch.ones(3, 1, 24, dtype=torch.bool)}, "3 masks"),
    ],
)
def test_what_does_not_fit_is_refused_before_training(toy, batching, samples, message):
    plain = toy.sines(64, 1)
    with pytest.raises(ValueError, match=message):
        toy.run(
            None,
            model=toy.network(),
            splits=toy.Splits(toy.Samples(plain.x, plain.y, **samples), None, None),
            augment=None,
            batching=batching,
        )


@pytest.mark.parametrize("change", [{"spacings": (0,)}, {"drop": 1.0}, {"missing": "zeros"}])
def test_settings_that_make_no_sense_are_refused(change):
    with pytest.raises(ValueError, match=f"data.{next(iter(change))}"):
        Batching(**change)
