"""ModelNet10: meshes are read, become the voxels of the published grids, and give points."""

import os

import numpy as np
import pytest
import torch

from ccnn import Grid, load
from ccnn.conf import compose
from ccnn.ops import convolve
from ccnn.run import evaluate, train
from ccnn.tasks import TASKS, DataDamaged, DataMissing
from ccnn.tasks.meshes import Mesh, read_off, voxelise
from ccnn.tasks.modelnet import CLASSES, GRIDS, mirror, resize
from ccnn.tasks.points import sample_points, surface

TASK = TASKS["modelnet10"]
CUBE = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=float)
FACES = ["4 0 1 3 2", "4 4 5 7 6", "4 0 1 5 4", "4 2 3 7 6", "4 0 2 6 4", "4 1 3 7 5"]


def box_text(size=(1.0, 1.0, 1.0), header="OFF\n8 6 0", faces=FACES) -> str:
    rows = [" ".join(f"{v:g}" for v in row) for row in CUBE * np.array(size)]
    return "\n".join([header, *rows, *faces]) + "\n"


def triangles_text() -> str:
    """A cube's faces, cut into triangles by hand."""
    faces = []
    for face in FACES:
        _, a, b, c, d = face.split()
        faces += [f"3 {a} {b} {c}", f"3 {a} {c} {d}"]
    return box_text(header="OFF\n8 12 0", faces=faces)


@pytest.fixture
def cube(tmp_path) -> Mesh:
    (tmp_path / "cube.off").write_text(box_text())
    return read_off(tmp_path / "cube.off")


# OFF


def test_squares_become_the_triangles_that_they_are_made_of(cube, tmp_path):
    (tmp_path / "t.off").write_text(triangles_text())
    other = read_off(tmp_path / "t.off")
    np.testing.assert_array_equal(cube.vertices, CUBE)
    np.testing.assert_array_equal(cube.triangles, other.triangles)
    assert cube.triangles.shape == (12, 3)


@pytest.mark.parametrize(
    "header", ["OFF8 6 0", "OFF 8 6 0", "# a box\nOFF\n# six faces\n8 6 0 # !"]
)
def test_headers_that_are_known_to_be_odd_are_read(header, tmp_path, cube):
    (tmp_path / "odd.off").write_text(box_text(header=header))
    found = read_off(tmp_path / "odd.off")
    np.testing.assert_array_equal(found.triangles, cube.triangles)
    np.testing.assert_array_equal(found.vertices, cube.vertices)


DAMAGED = {
    "empty": "",
    "a page": "<html>404</html>",
    "another format": "PLY\n8 6 0",
    "no counts": "OFF\n",
    "a word": box_text().replace("0 1 1", "0 one 1"),
    "nan": box_text().replace("0 1 1", "0 nan 1"),
    "cut in the vertices": box_text()[:30],
    "cut in the faces": "\n".join(box_text().splitlines()[:-1]),
    "cut in a face": box_text().rsplit(" ", 1)[0],
    "one number more": box_text() + "7\n",
    "no such vertex": box_text().replace("4 1 3 7 5", "4 1 3 8 5"),
    "negative vertex": box_text().replace("4 1 3 7 5", "4 1 3 -1 5"),
    "a fraction of a vertex": box_text().replace("4 1 3 7 5", "4 1 3 6.5 5"),
    "a face of two": box_text().replace("4 1 3 7 5", "2 1 3 0 0"),
    "huge counts": box_text(header="OFF\n1e15 1e15 0"),
    "fractions of counts": box_text(header="OFF\n8.5 6 0"),
    "no face": box_text(header="OFF\n8 0 0"),
    "Greek": box_text() + "# ω",
}


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_mesh_is_named_with_what_to_do(text, tmp_path):
    path = tmp_path / "chair_0001.off"
    path.write_bytes(text.encode())
    with pytest.raises(DataDamaged, match="fetch it again") as refusal:
        read_off(path)
    assert path.name in str(refusal.value)
    assert "\n" not in str(refusal.value)


# Voxels


def test_a_box_fills_the_faces_of_a_box_and_nothing_else(tmp_path):
    (tmp_path / "box.off").write_text(box_text(size=(10, 20, 5)))
    grid = voxelise(read_off(tmp_path / "box.off"))
    # The longest edge fills voxels 3 … 26; the others are centred: 23 · 10/20 = 11.5 about 14.5.
    low, high = np.array([9, 3, 12]), np.array([20, 26, 17])
    expected = np.zeros((30, 30, 30), dtype=bool)
    expected[9:21, 3:27, 12:18] = True
    expected[10:20, 4:26, 13:17] = False
    found = np.argwhere(grid)
    np.testing.assert_array_equal(found.min(axis=0), low)
    np.testing.assert_array_equal(found.max(axis=0), high)
    np.testing.assert_array_equal(grid, expected)


def test_a_slanted_triangle_leaves_no_hole():
    corners = np.array([[0.0, 0, 0], [10, 9, 1], [1, 10, 8]])
    grid = voxelise(Mesh(corners, np.array([[0, 1, 2]])))
    # Of many more points, nearly all lie in filled voxels, and the others beside them.
    scaled = (corners - corners.min(0) - np.ptp(corners, axis=0) / 2) * 23 / 10 + 14.5
    u = np.random.RandomState(0).dirichlet([1, 1, 1], 20_000)
    cells = np.floor(u @ scaled + 0.5).astype(int)
    missed = np.unique(cells[~grid[tuple(cells.T)]], axis=0)
    assert len(missed) < 0.15 * grid.sum()  # of which the triangle touches a corner or an edge
    assert grid.sum() <= len(np.unique(cells, axis=0)) + 3
    for cell in missed:
        assert grid[tuple(slice(c - 1, c + 2) for c in cell)].any()


@pytest.fixture(scope="module")
def real(data_root):
    if not (data_root / GRIDS).is_file():
        pytest.skip(f"no {GRIDS} in {data_root}")
    return TASK.load(data_root)


def test_published_grids_have_the_margins_of_ours(real):
    for grid in real.test.x[::50, 0]:
        found = np.argwhere(grid.numpy())
        low, high = found.min(axis=0), found.max(axis=0)
        assert (high - low).max() == 23
        assert np.abs(low + high - 29).max() <= 1  # centred


def test_half_as_many_voxels_hold_the_means_of_cubes():
    x = torch.rand(2, 1, 30, 30, 30)
    coarse = resize(x, 15)
    assert coarse.shape == (2, 1, 15, 15, 15)
    assert coarse[1, 0, 4, 5, 6] == pytest.approx(x[1, 0, 8:10, 10:12, 12:14].mean().item())
    with pytest.raises(ValueError, match=r"data.size is 14, .* 10, 15, 30"):
        resize(x, 14)


def test_a_kernel_finds_the_same_in_coarse_and_fine_voxels():
    """What makes the mean honest: a kernel constant in each coarse cell gives equal sums."""
    x = (torch.rand(1, 1, 12, 12, 12, dtype=torch.float64) < 0.1).double()
    kernel = torch.randn(1, 3, 3, 3, dtype=torch.float64)
    fine = kernel
    for axis in (1, 2, 3):
        fine = fine.repeat_interleave(2, dim=axis)
    at_coarse = convolve(torch.nn.functional.avg_pool3d(x, 2), kernel)
    # At spacing 0.5 a kernel is multiplied by 0.5³; the middle of 6 taps is 3, that of 3 is 1.
    at_fine = convolve(x, fine / 8)[..., 1::2, 1::2, 1::2]
    torch.testing.assert_close(at_fine, at_coarse)


def test_shapes_are_mirrored_sideways_and_never_turned_over():
    x = torch.zeros(200, 1, 4, 4, 4)
    x[:, :, 0, 1, 3] = 1
    places = {tuple(p) for p in mirror(x).nonzero()[:, 2:].tolist()}
    assert places == {(0, 1, 3), (3, 1, 3), (0, 2, 3), (3, 2, 3)}
    torch.manual_seed(1)
    first = mirror(x)
    torch.manual_seed(1)
    assert torch.equal(mirror(x), first)


# Points


def test_points_are_spread_over_a_mesh_by_area(tmp_path):
    (tmp_path / "box.off").write_text(box_text(size=(4, 2, 1)))
    points = sample_points(read_off(tmp_path / "box.off"), 20_000, seed=0)
    half = torch.tensor([1, 0.5, 0.25])
    on_face = ((points.abs() - half).abs() < 1e-6).double()
    assert (on_face.sum(dim=1) >= 1).all()
    assert (points.abs() <= half + 1e-6).all()
    share = torch.tensor([2 * 1, 4 * 1, 4 * 2]) / 14  # of the faces at both ends of each axis
    torch.testing.assert_close(on_face.mean(dim=0).float(), share, atol=0.015, rtol=0)
    # On a face, all quarters hold as many.
    face = points[on_face[:, 2] == 1]
    quarters = (face[:, :2] > 0).float() @ torch.tensor([1.0, 2.0])
    assert (quarters.long().bincount() / len(face) - 0.25).abs().max() < 0.02


def test_points_repeat_with_their_seed(cube):
    grid = voxelise(cube)
    for shape in (cube, grid):
        first = sample_points(shape, 64, seed=3)
        assert (first.shape, first.dtype) == ((64, 3), torch.float32)
        assert torch.equal(sample_points(shape, 64, seed=3), first)
        assert not torch.equal(sample_points(shape, 64, seed=4), first)


def test_points_of_voxels_lie_in_cells_of_the_surface_each_as_often():
    solid = np.zeros((9, 9, 9), dtype=np.uint8)
    solid[2:7, 2:7, 2:7] = 1
    outside = surface(solid.astype(bool))
    assert outside.sum() == 5**3 - 3**3
    points = sample_points(solid, 980, seed=0)
    assert points.abs().max() <= 1
    cells = (points * 2.5 + 4.5).floor().long()
    counts = torch.zeros(9, 9, 9, dtype=torch.long)
    counts.index_put_(tuple(cells.T), torch.ones(980, dtype=torch.long), accumulate=True)
    assert counts[torch.from_numpy(outside)].unique().tolist() == [10]
    assert counts.sum() == 980
    inside = points * 2.5 + 4.5 - cells
    assert inside.mean(dim=0).sub(0.5).abs().max() < 0.05


@pytest.mark.parametrize(
    ("shape", "count", "words"),
    [
        (np.zeros((3, 3, 3)), 5, "filled voxels"),
        (np.ones((3, 3)), 5, "filled voxels"),
        (Mesh(np.zeros((3, 3)), np.array([[0, 1, 2]])), 5, "no area"),
        (np.ones((3, 3, 3)), 0, "count is 0"),
    ],
)
def test_what_has_no_surface_gives_no_points(shape, count, words):
    with pytest.raises(ValueError, match=words):
        sample_points(shape, count, seed=0)


# The task


@pytest.fixture
def meshes(tmp_path, monkeypatch):
    """A folder like the original one, with boxes of a different shape for every class."""
    monkeypatch.setenv("CCNN_CACHE", str(tmp_path / "cache"))
    for label, name in enumerate(CLASSES):
        for part, count in {"train": 5, "test": 2}.items():
            folder = tmp_path / "ModelNet10" / name / part
            folder.mkdir(parents=True)
            for i in range(count):
                text = box_text(size=(1 + label, 1 + i, 4))
                (folder / f"{name}_{i:04}.off").write_text(text)
    return tmp_path


def test_meshes_become_the_same_task_as_grids(meshes, capfd):
    splits = TASK.load(meshes)
    assert [len(p) for p in (splits.train, splits.val, splits.test)] == [45, 5, 20]
    assert splits.test.y.tolist() == [label for label in range(10) for _ in range(2)]
    expected = voxelise(Mesh(CUBE * [3, 2, 4], read_off(next(meshes.rglob("*.off"))).triangles))
    np.testing.assert_array_equal(splits.test.x[5, 0].numpy(), expected)  # the third class
    again = TASK.load(meshes)  # from the cache
    assert torch.equal(again.train.x, splits.train.x)
    assert torch.equal(again.val.y, splits.val.y)
    assert len(list((meshes / "cache").iterdir())) == 2


def test_voxels_are_made_again_when_a_mesh_or_the_cache_changes(meshes):
    before = TASK.load(meshes).test
    path = meshes / "ModelNet10" / "bathtub" / "test" / "bathtub_0000.off"
    path.write_text(box_text(size=(1, 1, 9)))
    assert not torch.equal(TASK.load(meshes).test.x[0], before.x[0])
    for cached in (meshes / "cache").iterdir():
        cached.write_bytes(cached.read_bytes()[:100])
    assert torch.equal(TASK.load(meshes).test.x[1:], before.x[1:])


def test_a_damaged_mesh_of_the_folder_is_named(meshes):
    path = meshes / "ModelNet10" / "sofa" / "train" / "sofa_0003.off"
    path.write_text("OFF\n")
    with pytest.raises(DataDamaged, match=r"sofa_0003\.off"):
        TASK.load(meshes)
    path.write_text(box_text(size=(0, 0, 0)))
    with pytest.raises(DataDamaged, match=r"sofa_0003.off.*at one place.*fetch it again"):
        TASK.load(meshes)


def test_a_class_without_meshes_is_missing(meshes):
    for path in (meshes / "ModelNet10" / "desk" / "test").iterdir():
        path.unlink()
    with pytest.raises(DataMissing, match=r"modelnet10_voxel30\.npz"):
        TASK.load(meshes)


def small_grids(path, **changes) -> None:
    random = np.random.RandomState(0)
    arrays = {}
    for part, n in {"train": 20, "test": 10}.items():
        arrays[f"X_{part}"] = (random.rand(n, 30, 30, 30) < 0.1).astype(np.int32)
        arrays[f"y_{part}"] = np.arange(n) % 10
    np.savez_compressed(path, **(arrays | changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"X_train": np.zeros((20, 30, 30), np.int32)},
        {"X_train": np.zeros((20, 30, 30, 30))},
        {"X_test": np.full((10, 30, 30, 30), 2, np.int32)},
        {"y_train": np.arange(19) % 10},
        {"y_test": np.arange(10) + 1},
        {"y_test": np.array([None] * 10, dtype=object)},
    ],
)
def test_wrong_grids_are_refused(changes, tmp_path):
    small_grids(tmp_path / GRIDS, **changes)
    with pytest.raises(DataDamaged, match=GRIDS):
        TASK.load(tmp_path)


@pytest.mark.parametrize("size", [0, 100, 5000])
def test_cut_grids_are_refused(size, tmp_path):
    small_grids(tmp_path / GRIDS)
    os.truncate(tmp_path / GRIDS, size)
    with pytest.raises(DataDamaged, match=rf"{GRIDS} is damaged .* again"):
        TASK.load(tmp_path)


def test_small_grids_are_read_at_both_sizes(tmp_path):
    small_grids(tmp_path / GRIDS)
    fine, coarse = TASK.load(tmp_path), TASK.at(15).load(tmp_path)
    assert fine.train.x.shape == (18, 1, 30, 30, 30)
    assert fine.train.x.unique().tolist() == [0, 1]
    assert TASK.at(15).size == (15, 15, 15)
    torch.testing.assert_close(coarse.val.x, resize(fine.val.x, 15))


def test_the_real_grids_are_all_of_modelnet10(real):
    parts = (real.train, real.val, real.test)
    assert tuple(map(len, parts)) == TASK.counts == (3592, 399, 908)
    assert real.test.y.bincount().tolist() == [50, 100, 100, 86, 86, 100, 86, 100, 100, 100]
    whole = (real.train.y.bincount() + real.val.y.bincount()).tolist()
    assert whole == [106, 515, 889, 200, 200, 465, 200, 680, 392, 344]
    assert (real.val.y.bincount() - torch.tensor(whole) / 10).abs().max() < 1
    # So many are distinct in the file, some being there twice: no sample is in two parts.
    rows = {row.numpy().tobytes() for p in (real.train, real.val) for row in p.x}
    assert len(rows) == 3800


def test_a_network_of_coarse_voxels_is_tested_on_the_fine_ones_of_the_data(tmp_path):
    small_grids(tmp_path / GRIDS)
    words = ["task=modelnet10", "model=ccnn_4_48", "model.channels=4", "model.blocks=1"]
    words += ["model.kernel_channels=4", "data.batch_size=9", "trainer.max_epochs=1"]
    words += ["logger.tensorboard=false", "trainer.progress=none", "data.size=15"]
    run = tmp_path / "run"
    train(compose([*words, f"data.root={tmp_path}", f"run={run}"]))
    model = load(run / "model")
    assert model.size == (15, 15, 15)
    fine, coarse = evaluate(run, spacing=0.5), evaluate(run)
    assert (fine.size, coarse.size) == ((30, 30, 30), (15, 15, 15))
    x = TASK.load(tmp_path).test.x
    with torch.inference_mode():
        torch.testing.assert_close(fine.outputs, model(x, Grid(spacing=0.5)))
        torch.testing.assert_close(coarse.outputs, model(resize(x, 15)))
    # Elsewhere lines are drawn between the coarse samples: 14 · 4 + 1 of them.
    assert evaluate(run, spacing=0.25, split="val").size == (57, 57, 57)
