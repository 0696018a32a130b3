"""ModelNet10 as clouds: where points lie, how they vary, and that a network is trained at them."""

import numpy as np
import pytest
import torch

from ccnn import Points, load
from ccnn.conf import compose
from ccnn.data import find_task, load_splits
from ccnn.run import evaluate, train
from ccnn.tasks import TASKS
from ccnn.tasks.modelnet import GRIDS
from ccnn.tasks.modelnet_points import clouds, vary
from ccnn.tasks.points import surface

TASK, CLOUDS = TASKS["modelnet10"], TASKS["modelnet10_points"]


@pytest.fixture
def grids(tmp_path):
    """A folder with a few shapes, of a class each: filled boxes of several sizes."""
    arrays = {}
    for part, n in {"train": 20, "test": 10}.items():
        voxels = np.zeros((n, 30, 30, 30), np.int32)
        for i, grid in enumerate(voxels):
            grid[3:27, 10 : 14 + i % 10, 12:18] = 1
        arrays |= {f"X_{part}": voxels, f"y_{part}": np.arange(n) % 10}
    np.savez_compressed(tmp_path / GRIDS, **arrays)
    return tmp_path


def test_a_cloud_lies_in_the_voxels_of_its_surface_on_half_voxels(grids):
    voxels = TASK.load(grids).test
    cloud = clouds(voxels, 300, seed=0)
    assert torch.equal(cloud.x, torch.ones(len(voxels), 1, 300))
    assert torch.equal(cloud.y, voxels.y)
    assert cloud.positions.shape == (len(voxels), 300, 3)
    assert torch.equal(cloud.positions * 2, (cloud.positions * 2).round())
    for grid, points in zip(voxels.x[:, 0].numpy(), cloud.positions, strict=True):
        cells = torch.from_numpy(np.argwhere(surface(grid.astype(bool))))
        away = (points[:, None] - cells).abs().amax(dim=-1).amin(dim=-1)
        assert away.max() <= 0.5
        middle = (points.mean(dim=0) - cells.float().mean(dim=0)).abs()
        assert middle.max() < 4 * 30 / 12**0.5 / 300**0.5  # four standard errors
    assert torch.equal(clouds(voxels, 300, seed=0).positions, cloud.positions)
    assert not torch.equal(clouds(voxels, 300, seed=1).positions, cloud.positions)


def test_a_shape_without_voxels_is_left_out(grids):
    voxels = TASK.load(grids).test
    voxels.x[3] = 0
    cloud = clouds(voxels, 50, seed=0)
    assert torch.equal(cloud.y, torch.cat([voxels.y[:3], voxels.y[4:]]))
    assert cloud.x.shape == (len(voxels) - 1, 1, 50)


def test_clouds_are_the_shapes_of_the_voxels(grids):
    points, voxels = CLOUDS.load(grids), TASK.load(grids)
    for name in ("train", "val", "test"):
        assert torch.equal(vars(points)[name].y, vars(voxels)[name].y)
        assert vars(points)[name].positions.shape[1:] == (1024, 3)


def test_training_clouds_are_mirrored_stretched_and_moved_and_never_turned_over():
    corner = torch.tensor([[[4.5, 4.5, 24.5]]]).expand(500, 1, 3)
    away = vary(corner) - 14.5
    assert torch.equal(away * 2, (away * 2).round())
    assert away.abs().min() >= 10 * 0.85 - 0.75
    assert away.abs().max() <= 10 * 1.15 + 0.75
    assert (away[..., 2] > 0).all()
    assert {tuple(s) for s in away[:, 0, :2].sign().tolist()} == {
        (a, b) for a in (-1.0, 1.0) for b in (-1.0, 1.0)
    }
    assert (away[..., 0].abs() != away[..., 1].abs()).any()  # each axis by itself
    torch.manual_seed(1)
    first = vary(corner)
    torch.manual_seed(1)
    assert torch.equal(vary(corner), first)


def test_points_of_one_shape_are_stretched_together():
    corner = torch.tensor([[[4.5, 4.5, 24.5]]]).expand(200, 50, 3)
    spread = (vary(corner) - 14.5).std(dim=1)  # within ±½, on a lattice of ½
    assert spread.max() < 0.55


def test_a_network_is_trained_at_points(grids):
    words = ["task=modelnet10_points", "model=ccnn_4_48", "model.channels=4", "model.blocks=1"]
    words += ["model.kernel_channels=4", "data.batch_size=6", "trainer.max_epochs=1"]
    words += ["logger.tensorboard=false", "trainer.progress=none", f"data.root={grids}"]
    words += ["data.points=100"]
    run = grids / "run"
    result = train(compose([*words, f"run={run}"]))
    assert result.steps == 3
    test = CLOUDS.with_points(100).load(grids).test
    with torch.inference_mode():
        expected = load(run / "model")(test.x, Points(test.positions))
    torch.testing.assert_close(evaluate(run).outputs, expected, rtol=1e-4, atol=1e-5)


def test_clouds_have_as_many_points_as_asked_for(grids):
    words = [f"data.root={grids}", "data.points=200"]
    config = compose(["task=modelnet10_points", "model=ccnn_4_48", *words])
    task = find_task(config)
    assert task.size == (30, 30, 30)
    splits = load_splits(config, task)
    assert splits.train.x.shape == (18, 1, 200)
    assert splits.test.positions.shape == (10, 200, 3)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["task=modelnet10_points", "data.points=0"], "data.points is 0, expected 1 or more"),
        (["task=modelnet10", "data.points=100"], "task=modelnet10 has no clouds of points"),
    ],
)
def test_counts_that_make_no_sense_are_refused(words, problem):
    with pytest.raises(ValueError, match=problem):
        find_task(compose(["model=ccnn_4_48", *words]))
