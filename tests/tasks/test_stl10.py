"""STL-10 from its binary files, and what the authors do to it."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from ccnn.conf import compose
from ccnn.run import find_task
from ccnn.tasks import TASKS, DataDamaged
from ccnn.tasks.augment import turn_crop_and_flip
from ccnn.tasks.stl10 import MEAN, PUBLISHED, STD, read_stl_images

TASK = TASKS["stl10"]


def write(folder: Path, train: int = 20, test: int = 5) -> dict[str, np.ndarray]:
    """Write random images in the binary files, and return them, rows before columns."""
    random = np.random.RandomState(2)
    (folder / "stl10_binary").mkdir()
    made = {}
    for part, n in {"train": train, "test": test}.items():
        made[part] = random.randint(0, 256, (n, 3, 96, 96)).astype(np.uint8)
        columns = made[part].transpose(0, 1, 3, 2)
        (folder / "stl10_binary" / f"{part}_X.bin").write_bytes(columns.tobytes())
        labels = (np.arange(n) % 10 + 1).astype(np.uint8)
        (folder / "stl10_binary" / f"{part}_y.bin").write_bytes(labels.tobytes())
    return made


def test_images_are_stored_column_by_column(tmp_path):
    content = np.zeros(3 * 96 * 96, np.uint8)
    content[96 * 96 + 96 * 5 + 9] = 200  # green, column 5, row 9
    (tmp_path / "a.bin").write_bytes(content.tobytes())
    assert np.argwhere(read_stl_images(tmp_path / "a.bin")).tolist() == [[0, 1, 9, 5]]


def test_parts_and_labels_are_those_of_the_files(tmp_path):
    made = write(tmp_path)
    splits = TASK.load(tmp_path)
    assert (len(splits.train), len(splits.val), len(splits.test)) == (18, 2, 5)
    assert splits.test.y.tolist() == [0, 1, 2, 3, 4]
    expected = (torch.from_numpy(made["test"]) / 255 - MEAN) / STD
    torch.testing.assert_close(splits.test.x, expected, atol=1e-5, rtol=0)
    both = torch.cat([splits.train.y, splits.val.y])
    assert sorted(both.tolist()) == sorted([*range(10)] * 2)


def test_the_published_counts_are_those_of_the_task():
    train, test = (PUBLISHED[f"{part}_y.bin"][0] for part in ("train", "test"))
    assert (train - train // 10, train // 10, test) == TASK.counts == (4_500, 500, 8_000)
    assert PUBLISHED["test_X.bin"][0] == 221_184_000


DAMAGES = ["cut", "empty", "longer", "page", "fewer"]


@pytest.mark.parametrize(
    ("name", "how"),
    [
        *(("train_X.bin", how) for how in DAMAGES),
        *(("test_y.bin", how) for how in ("empty", "longer", "page", "label 0", "label 11")),
    ],
)
def test_a_damaged_file_is_named_with_what_to_do(name, how, tmp_path):
    write(tmp_path)
    path = tmp_path / "stl10_binary" / name
    content = path.read_bytes()
    changed = {
        "cut": content[:-1],
        "empty": b"",
        "longer": content + b"\x01",
        "page": b"<html>404</html>",
        "fewer": content[: -3 * 96 * 96],
        "label 0": b"\0" + content[1:],
        "label 11": b"\x0b" + content[1:],
    }
    path.write_bytes(changed[how])
    with pytest.raises(DataDamaged, match=r"fetch (it|them) again") as refusal:
        TASK.load(tmp_path)
    assert name in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_files_as_long_as_the_published_ones_must_be_those(tmp_path):
    write(tmp_path)
    folder = tmp_path / "stl10_binary"
    (folder / "train_y.bin").write_bytes(b"\x01" * 5_000)
    os.truncate(folder / "train_X.bin", 5_000 * 3 * 96 * 96)  # zeros, which take no room
    with pytest.raises(DataDamaged, match=r"train_X\.bin is not the published file.*918c2871"):
        TASK.load(tmp_path)


def test_a_part_of_the_real_set_is_read(data_root):
    if not TASK.present(data_root):
        pytest.skip(f"no STL-10 in {data_root}")
    splits = TASK.load(data_root)
    parts = (splits.train, splits.val, splits.test)
    assert [len(p) for p in parts] == [70, 10, 20]
    assert all(p.y.bincount(minlength=10).tolist() == [len(p) // 10] * 10 for p in parts)
    assert splits.train.x.shape[1:] == (3, 96, 96)
    assert splits.train.x.std() == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize("how", ["cut", "shape", "labels", "few"])
def test_a_damaged_part_of_it_is_named(how, tmp_path):
    path = tmp_path / "stl10_subset.npz"
    x, y = np.zeros((20, 96, 96, 3), np.uint8), (np.arange(20) % 10).astype(np.uint8)
    match how:
        case "shape":
            x = x.transpose(0, 3, 1, 2)
        case "labels":
            y = y + np.uint8(1)
        case "few":
            x, y = x[:5], y[:5]
    np.savez(path, x=x, y=y)
    if how == "cut":
        path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(DataDamaged, match=r"stl10_subset\.npz.*make it again"):
        TASK.load(tmp_path)


# What the authors do to the images


def images(n: int = 64, side: int = 96) -> torch.Tensor:
    """Return smooth pictures, so that where a pixel is taken from can be told."""
    rows = torch.linspace(-1, 1, side)
    plane = torch.stack([rows[:, None].expand(side, side), rows[None].expand(side, side)])
    return torch.cat([plane, torch.ones(1, side, side)])[None].expand(n, -1, -1, -1)


def test_an_image_of_96_becomes_one_of_102_and_a_piece_of_it_turned():
    out = turn_crop_and_flip(images())
    inside = out[:, 2] > 0.999
    # Each picture is one linear map of its coordinates: fit it, and read off what was done.
    seen = []
    for y, x, ok in zip(out[:, 0], out[:, 1], inside, strict=True):
        where = images(1)[0, :2][:, ok].T  # (n, 2): row, column
        ones = torch.ones(len(where), 1)
        fit = torch.linalg.lstsq(
            torch.cat([where, ones], dim=1), torch.stack([y[ok], x[ok]], dim=1)
        ).solution
        residual = torch.cat([where, ones], dim=1) @ fit - torch.stack([y[ok], x[ok]], dim=1)
        assert residual.abs().max() < 1e-3
        seen.append(fit)
    maps = torch.stack(seen)
    size = maps[:, :2].det().abs().sqrt()
    torch.testing.assert_close(size, torch.full((64,), 96 / 102), atol=1e-4, rtol=0)
    flipped = maps[:, :2].det() < 0
    assert 16 < flipped.sum() < 48
    angle = torch.rad2deg(torch.atan2(maps[:, 0, 1].abs(), maps[:, 0, 0]))
    assert angle.max() <= 15.01
    assert angle.max() > 12
    # The linspace puts the outermost pixels at ±1, which are 95/96 of the half side.
    shift = maps[:, 2].norm(dim=1) * 51 * 95 / 96
    assert shift.max() <= 3 * 2**0.5 + 0.01
    assert shift.max() > 2


def test_without_a_turn_it_is_the_enlarged_image(monkeypatch):
    x = torch.rand(8, 3, 96, 96)
    monkeypatch.setattr(torch, "rand", lambda *size: torch.full(size, 0.5))  # no turn, no flip
    torch.manual_seed(5)
    out = turn_crop_and_flip(x)
    torch.manual_seed(5)
    shifts = torch.randint(0, 7, (8, 2))
    large = F.interpolate(x, size=(102, 102), mode="bilinear", align_corners=False)
    for image, piece, (column, row) in zip(large, out, shifts.tolist(), strict=True):
        expected = image[:, row : row + 96, column : column + 96]
        # Not the outermost pixels, which end at the border of the image here.
        # The positions of pixels differ by rounding, 1e-6 of a side of 96.
        torch.testing.assert_close(piece[:, 1:-1, 1:-1], expected[:, 1:-1, 1:-1], atol=1e-4, rtol=0)


def test_what_a_turned_image_does_not_cover_is_black():
    black = (-MEAN / STD).view(3)
    out = TASK.augment(torch.full((50, 3, 96, 96), 9.0))
    corners = torch.stack([out[..., 0, 0], out[..., 0, -1], out[..., -1, 0], out[..., -1, -1]])
    bare = (corners - black).abs().amax(-1) < 1e-4
    assert bare.any(dim=0).float().mean() > 0.3
    assert (out[..., 40:56, 40:56] - 9).abs().max() < 1e-4


def test_reading_changes_no_image_at_random(tmp_path):
    write(tmp_path)
    torch.manual_seed(1)
    first = TASK.load(tmp_path)
    torch.manual_seed(2)
    second = TASK.load(tmp_path)
    assert torch.equal(first.val.x, second.val.x)
    assert torch.equal(first.train.x, second.train.x)


def test_the_authors_images_are_256_wide_and_the_papers_96(tmp_path):
    write(tmp_path)
    paper, authors = (
        find_task(compose(["task=stl10", f"recipe={name}", f"data.root={tmp_path}"]))
        for name in ("paper", "authors")
    )
    assert (paper.size, authors.size) == ((96, 96), (256, 256))
    small, large = paper.load(tmp_path), authors.load(tmp_path)
    assert large.val.x.shape == (2, 3, 256, 256)
    assert torch.equal(large.test.y, small.test.y)
    # An enlarged image has the colours of the small one, piece by piece.
    pieces = F.adaptive_avg_pool2d(large.test.x, 8), F.adaptive_avg_pool2d(small.test.x, 8)
    torch.testing.assert_close(*pieces, atol=0.2, rtol=0)
    assert authors.augment(large.val.x).shape == large.val.x.shape


def test_a_task_of_one_size_says_so():
    with pytest.raises(ValueError, match=r"data\.size is 64, but task=smnist has one size"):
        find_task(compose(["task=smnist", "data.size=64"]))
