"""Pathfinder: images are read as published, and ours are like the original generator's."""

import io
import math
import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import ndimage

from ccnn.tasks import TASKS, DataDamaged
from ccnn.tasks.pathfinder import Chunk, make, make_chunk, read_arrays
from ccnn.tasks.pathfinder_dashes import (
    DEGREES,
    PATHFINDER_32,
    PATHFINDER_128,
    dashes_of,
    disc,
    mark_of,
)
from ccnn.tasks.pathfinder_field import Field
from ccnn.tasks.pathfinder_generate import _long_paths, _short_paths, draw, images, scenes

RULES = {32: PATHFINDER_32, 128: PATHFINDER_128}
COUNT = {32: 1000, 128: 44}


@pytest.fixture(scope="module", params=[32, 128])
def side(request) -> int:
    return request.param


@pytest.fixture(scope="module")
def generated(side):
    return images(COUNT[side], np.random.default_rng(0), RULES[side])


@pytest.fixture(scope="module")
def real(side, data_root):
    path = data_root / f"pathfinder{side}_sample.npz"
    if not path.is_file():
        pytest.skip(f"no {path.name} in {data_root}")
    return read_arrays(path, side)


# What generated images show


@pytest.fixture(scope="module", params=[(32, 1), (128, 2), (128, 3)])
def shown(request):
    size, gap = request.param
    rules = RULES[size]
    return rules, gap, scenes(60 if size == 32 else 6, np.random.default_rng(1), rules, gap)


def test_the_label_says_whether_both_marks_are_on_one_path(shown):
    _, _, scene = shown
    ends = np.stack([scene.long.at[:, :, 0], scene.long.at[:, :, -1]], axis=2)  # (n, path, end, 2)
    where = (scene.marks[:, :, None, None] == ends[:, None]).all(-1)  # (n, mark, path, end)
    assert where.any((2, 3)).all()
    assert where[:, 0, :, 0].any(1).all()  # the first mark is where a path begins,
    assert where[:, 1, :, 1].any(1).all()  # the second where one ends
    on_path = where.any(3)
    assert ((on_path[:, 0] & on_path[:, 1]).any(1) == (scene.labels == 1)).all()
    assert 0 < scene.labels.sum() < len(scene.labels)


def test_paths_have_their_dashes_one_after_the_other(shown):
    rules, gap, scene = shown
    assert scene.long.direction.shape[1:] == (2, 14)
    assert (scene.long.direction >= 0).all()
    assert scene.short.direction.shape[2] == 4
    for paths in (scene.long, scene.short):
        there = (paths.direction >= 0).all(-1)
        assert (there == (paths.direction >= 0).any(-1)).all()  # a path is whole or not there
        heads = paths.at[there][:, 1:]
        assert (heads >= 0).all()
        assert (heads < rules.side).all()
        # From head to head it is a dash and two halves of a gap, but for rounding to pixels.
        steps = np.linalg.norm(np.diff(heads, axis=1), axis=-1)
        assert steps.max() < rules.dash + 2 * gap + 3
        assert steps.min() > gap


def test_no_dash_lies_on_one_that_was_there(shown):
    """A long path crosses neither itself nor the other, but for a dash and those of its turn."""
    rules, gap, scene = shown
    ink = dashes_of(rules, gap).ink > 90
    side = ink.shape[-1]
    for at, direction in zip(scene.long.at, scene.long.direction, strict=True):
        dark = np.zeros((rules.length, 2, rules.side + side, rules.side + side), dtype=bool)
        for dash, path in np.ndindex(rules.length, 2):
            y, x = at[path, dash]
            dark[dash, path, y : y + side, x : x + side] = ink[direction[path, dash]]
        for dash in range(2, rules.length):
            assert dark[dash].any((-1, -2)).all()
            assert not (dark[dash] & dark[: dash - 1].any((0, 1))).any()


def test_drawing_many_is_drawing_each_by_itself(shown):
    """The slow twin: one dash after the other, cut at the border, in plain loops."""
    rules, gap, scene = shown
    fast = draw(scene, rules, gap)
    ink, mark = dashes_of(rules, gap).ink, mark_of(rules.mark)
    for row in range(5):
        canvas = np.zeros((rules.side, rules.side), dtype=np.float32)
        things = [(at, (mark / 255).astype(np.float32)) for at in scene.marks[row]]
        for paths, contrast in (
            (scene.long, rules.contrast),
            (scene.short, rules.distractor_contrast),
        ):
            for at, direction in zip(
                paths.at[row].reshape(-1, 2), paths.direction[row].ravel(), strict=True
            ):
                if direction >= 0:
                    things.append((at, (contrast * ink[direction] / 255).astype(np.float32)))
        for (y, x), picture in things:
            half = len(picture) // 2
            for dy, dx in np.ndindex(picture.shape):
                i, j = y + dy - half, x + dx - half
                if 0 <= i < rules.side and 0 <= j < rules.side:
                    canvas[i, j] = max(canvas[i, j], picture[dy, dx])
        grey = canvas.astype(np.float64) * (255 / np.float64(canvas.max()))
        np.testing.assert_array_equal(fast[row], (grey + 0.5).astype(np.uint8))


def test_what_is_near_is_what_is_taken_and_a_gap_around(side):
    rules = RULES[side]
    for gap in rules.gaps:
        rng = np.random.default_rng(2)
        field, _ = _long_paths(rng, rules, dashes_of(rules, gap), 2)
        _short_paths(rng, field)
        for taken, near in zip(field.taken, field.near, strict=True):
            expected = ndimage.grey_dilation(taken, footprint=disc(gap), mode="nearest")
            np.testing.assert_array_equal(near, expected)


def test_a_place_next_to_a_wall_is_never_taken(side):
    rules = RULES[side]
    field = Field.empty(rules, dashes_of(rules, rules.gaps[0]), 1)
    rows = np.zeros(rules.side, dtype=int)
    edge = np.stack([rows, np.arange(rules.side)], axis=1)
    direction = np.full(rules.side, DEGREES)
    assert not field.fits(rows, edge, direction).any()
    middle = np.array([[rules.side // 2, rules.side // 2]])
    assert field.fits(rows[:1], middle, direction[:1]).all()


# What generated images are like


def measures(x: np.ndarray) -> dict[str, np.ndarray]:
    """Return numbers for each image: ink, shades, pieces and where ink is."""
    side = x.shape[-1]
    row = np.arange(side) - (side - 1) / 2
    ink = x.sum((1, 2), dtype=np.int64) / 255
    bright = x > 127
    pieces = [ndimage.label(image, np.ones((3, 3))) for image in bright]
    sizes = [np.bincount(labels.ravel())[1:] for labels, _ in pieces]
    return {
        "ink": ink,  # grows with the number of dashes
        "touched": (x > 0).mean((1, 2)),
        "bright": bright.mean((1, 2)),
        "dark grey": ((x > 0) & (x < 64)).mean((1, 2)),
        "grey": ((x >= 64) & (x < 192)).mean((1, 2)),
        "white": (x == 255).sum((1, 2)),
        "pieces": np.array([count for _, count in pieces]),
        "largest piece": np.array([size.max() for size in sizes]),
        "median piece": np.array([np.median(size) for size in sizes]),
        "spread": (x * (row**2)).sum((1, 2)) / 255 / ink,
        "down": (x.sum(2) * row).sum(1) / 255 / ink,
        "right": (x.sum(1) * row).sum(1) / 255 / ink,
    }


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """Return the largest difference of two empirical distribution functions."""
    at = np.union1d(a, b)
    shares = (np.searchsorted(np.sort(s), at, side="right") / len(s) for s in (a, b))
    return float(np.abs(np.subtract(*shares)).max())


def unlike(a: np.ndarray, b: np.ndarray) -> dict[str, float]:
    """Return the measures in which two sets differ more than chance allows.

    Kolmogorov and Smirnov: samples of one distribution are farther apart than this once in
    10,000 times, each measure by itself.
    """
    one, two = measures(a), measures(b)
    allowed = math.sqrt(-math.log(1e-4 / 2) / 2 * (len(a) + len(b)) / (len(a) * len(b)))
    distances = {name: distance(one[name], two[name]) for name in one}
    return {name: value for name, value in distances.items() if value > allowed}


def test_generated_images_are_like_the_published_generators(real, generated):
    assert unlike(real[0], generated[0]) == {}


def test_shades_are_those_of_the_published_generator(real, generated):
    """Anti-aliasing leaves some shades and no others."""
    shares = [np.bincount(x.ravel(), minlength=256) / x.size for x, _ in (real, generated)]
    assert 0.5 * np.abs(shares[0] - shares[1]).sum() < 0.02


def test_both_labels_are_as_frequent(generated):
    _, y = generated
    assert abs(y.mean() - 0.5) < 4 * 0.5 / math.sqrt(len(y))  # four standard deviations


def test_the_labels_of_the_published_sample_are_as_frequent(real):
    _, y = real
    assert abs(y.mean() - 0.5) < 4 * 0.5 / math.sqrt(len(y))


@pytest.mark.parametrize("label", [0, 1])
def test_images_of_each_label_are_like_the_published_ones(label, real, generated):
    assert unlike(real[0][real[1] == label], generated[0][generated[1] == label]) == {}


def test_ink_and_pieces_do_not_tell_the_label(generated):
    """What can be measured without following a path says nothing: the task cannot be cheated."""
    x, y = generated
    assert unlike(x[y == 0], x[y == 1]) == {}


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ({"length": 11}, "ink"),
        ({"distractors": 3}, "ink"),
        ({"contrast": 1.0}, "ink"),
        ({"mark": 2.5}, "largest piece"),
        ({"dash": 3}, "ink"),
    ],
)
def test_other_rules_would_be_noticed(change, seen, data_root):
    from dataclasses import replace

    path = data_root / "pathfinder32_sample.npz"
    if not path.is_file():
        pytest.skip(f"no {path.name} in {data_root}")
    others, _ = images(200, np.random.default_rng(0), replace(PATHFINDER_32, **change))
    assert seen in unlike(read_arrays(path, 32)[0], others)


# Making files


def test_images_depend_on_the_seed_and_the_chunk_alone(side):
    rules = RULES[side]
    x, y = make_chunk(Chunk(rules, 0, 7, 3))
    again, labels = make_chunk(Chunk(rules, 0, 7, 3))
    assert np.array_equal(x, again)
    assert np.array_equal(y, labels)
    for other in (Chunk(rules, 1, 7, 3), Chunk(rules, 0, 8, 3)):
        assert not (make_chunk(other)[0] == x).all((1, 2)).any()


def test_a_made_file_is_kept_and_read(tmp_path):
    task = TASKS["pathfinder2d"]
    assert not task.present(tmp_path)
    make(tmp_path, count=520, processes=1)  # a chunk and a little
    path = tmp_path / "pathfinder32_generated.npz"
    before = path.read_bytes()
    make(tmp_path, count=520, seed=1, processes=1)  # does nothing: it is there
    assert path.read_bytes() == before
    x, y = (np.concatenate(a) for a in zip(*_chunks(520), strict=True))
    with np.load(path) as file:
        assert np.array_equal(file["x"], x)
        assert np.array_equal(file["y"], y)
    splits = task.load(tmp_path)
    assert [len(part) for part in (splits.train, splits.val, splits.test)] == [416, 52, 52]


def _chunks(count):
    return [
        make_chunk(Chunk(PATHFINDER_32, 0, begin // 500, min(500, count - begin)))
        for begin in range(0, count, 500)
    ]


# Reading files


def write_arena(folder, x, y, *, as_text=True) -> None:
    """Write images as the Arena does: two folders of PNG, and a list of each."""
    (folder / "metadata").mkdir(parents=True)
    half = len(x) // 2
    # The folder 10 comes after 2, as numbers go and not as letters do.
    for number, part in ((2, slice(half)), (10, slice(half, None))):
        (folder / "imgs" / str(number)).mkdir(parents=True)
        rows = []
        for index, (image, label) in enumerate(zip(x[part], y[part], strict=True)):
            name = f"sample_{index}.png"
            Image.fromarray(image).save(folder / "imgs" / str(number) / name)
            rows.append([f"imgs/{number}", name, index, label, 1.0, 14, 4, 2, 0.5, 1, 1])
        path = folder / "metadata" / f"{number}.npy"
        if as_text:
            path.write_text("".join(" ".join(map(str, row)) + "\n" for row in rows))
        else:
            np.save(path, np.array(rows, dtype=str))


@pytest.fixture
def arena(tmp_path):
    x = np.random.RandomState(0).randint(0, 256, (20, 32, 32)).astype(np.uint8)
    y = np.arange(20).astype(np.uint8) % 3 % 2
    folder = tmp_path / "lra_release" / "pathfinder32" / "curv_contour_length_14"
    write_arena(folder, x, y)
    return tmp_path, folder, x, y


def test_the_arenas_files_are_read_and_split_as_the_authors_do(arena):
    root, _, x, y = arena
    flat, image = TASKS["pathfinder"].load(root), TASKS["pathfinder2d"].load(root)
    order = torch.randperm(20, generator=torch.Generator().manual_seed(42))
    parts = zip((16, 18, 20), (0, 16, 18), ("train", "val", "test"), strict=True)
    for end, begin, name in parts:
        expected = torch.from_numpy(x)[order[begin:end]].float() / 255
        torch.testing.assert_close(vars(image)[name].x[:, 0], expected)
        assert torch.equal(vars(flat)[name].x, vars(image)[name].x.flatten(-2))
        assert vars(flat)[name].y.tolist() == y[order[begin:end]].tolist()


def test_a_list_may_be_an_array_of_words(arena, tmp_path):
    root, _, x, y = arena
    other = tmp_path / "other"
    write_arena(other / "pathfinder32" / "curv_contour_length_14", x, y, as_text=False)
    one, two = (TASKS["pathfinder"].load(folder).train for folder in (root, other))
    assert torch.equal(one.x, two.x)
    assert torch.equal(one.y, two.y)


def test_path_x_is_read_from_images_of_128(tmp_path):
    x = np.random.RandomState(0).randint(0, 256, (10, 128, 128)).astype(np.uint8)
    write_arena(
        tmp_path / "pathfinder128" / "curv_contour_length_14", x, np.arange(10, dtype=np.uint8) % 2
    )
    splits = TASKS["pathx"].load(tmp_path)
    assert splits.train.x.shape == (8, 1, 16384)
    assert not TASKS["pathfinder"].present(tmp_path)


def test_the_published_sample_is_read(real, side, data_root):
    task = TASKS["pathfinder" if side == 32 else "pathx"]
    splits = task.load(data_root)
    total = len(splits.train) + len(splits.val) + len(splits.test)
    assert total == len(real[0]) == {32: 420, 128: 44}[side]
    assert splits.train.x.max() == 1
    assert splits.train.x.min() == 0


def png(image: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return file.getvalue()


def damage_png(content: bytes, how: str) -> bytes:
    middle = len(content) // 2
    match how:
        case "cut":
            return content[:middle]
        case "empty":
            return b""
        case "page":
            return b"<html>404</html>"
        case "flipped":
            return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        case "small":
            return png(np.zeros((16, 16), dtype=np.uint8))
        case "huge":
            header = struct.pack(">2I5B", 2**31 - 1, 2**31 - 1, 8, 0, 0, 0, 0)
            chunk = b"IHDR" + header
            start = content[:8] + struct.pack(">I", 13) + chunk
            return start + struct.pack(">I", zlib.crc32(chunk)) + content[33:]
        case "headless":
            return content[:8] + content[33:]
    return content[:-12]  # without its end


@pytest.mark.parametrize(
    "how", ["cut", "empty", "page", "flipped", "small", "huge", "headless", "endless"]
)
def test_a_damaged_image_is_named_with_what_to_do(how, arena):
    root, folder, _, _ = arena
    path = folder / "imgs" / "10" / "sample_3.png"
    path.write_bytes(damage_png(path.read_bytes(), how))
    with pytest.raises(DataDamaged, match=r"sample_3.png is damaged.*unpack it again") as refusal:
        TASKS["pathfinder"].load(root)
    assert "\n" not in str(refusal.value)


def test_a_missing_image_is_named(arena):
    root, folder, _, _ = arena
    (folder / "imgs" / "2" / "sample_0.png").unlink()
    with pytest.raises(DataDamaged, match=r"sample_0.png is listed and not there"):
        TASKS["pathfinder"].load(root)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n\n",
        b"<html>404</html>",
        b"imgs/2 sample_0.png 0\n",
        b"imgs/2 sample_0.png 0 2 1.0\n",
        b"imgs/2 sample_0.png 0 x 1.0\n",
        b"imgs/../../.. sample_0.png 0 1 1.0\n",
        b"/etc passwd 0 1 1.0\n",
        b"imgs/2 ../../secret.png 0 1 1.0\n",
        b"imgs/2 sample_0.png 0 1 1.0\nimgs/2 sam",
        b"\xff\xfe\x00 sample_0.png 0 1\n",
        b"\x93NUMPY",
        b"\x93NUMPY\x01\x00\x10\x00{'descr': '<i8'}",
    ],
)
def test_a_damaged_list_is_named_with_what_to_do(content, arena):
    root, folder, _, _ = arena
    (folder / "metadata" / "2.npy").write_bytes(content)
    with pytest.raises(DataDamaged, match=r"2.npy is damaged.*unpack it again"):
        TASKS["pathfinder"].load(root)


@pytest.mark.parametrize("table", [np.zeros((3, 4)), np.array([["a"], [{}]], dtype=object)])
def test_a_list_of_something_else_is_refused_and_never_unpickled(table, arena):
    root, folder, _, _ = arena
    np.save(folder / "metadata" / "2.npy", table)
    with pytest.raises(DataDamaged, match=r"2.npy is damaged"):
        TASKS["pathfinder"].load(root)


@pytest.mark.parametrize(
    "arrays",
    [
        {"x": np.zeros((4, 32, 32), np.uint8)},
        {"x": np.zeros((4, 32, 32), np.uint8), "y": np.zeros(3, np.uint8)},
        {"x": np.zeros((4, 32, 32), np.uint8), "y": np.full(4, 2, np.uint8)},
        {"x": np.zeros((4, 32, 32), np.float32), "y": np.zeros(4, np.uint8)},
        {"x": np.zeros((4, 16, 32), np.uint8), "y": np.zeros(4, np.uint8)},
        {"x": np.zeros((0, 32, 32), np.uint8), "y": np.zeros(0, np.uint8)},
        {"x": np.asfortranarray(np.ones((4, 32, 32), np.uint8)), "y": np.zeros(4, np.uint8)},
        {"x": np.array([None, {}], dtype=object), "y": np.zeros(4, np.uint8)},
    ],
)
def test_wrong_arrays_are_named_with_what_to_do(arrays, tmp_path):
    np.savez(tmp_path / "pathfinder32_generated.npz", **arrays)
    with pytest.raises(DataDamaged, match=r"pathfinder32_generated.npz.*make it again"):
        TASKS["pathfinder"].load(tmp_path)


@pytest.mark.parametrize("how", ["cut", "empty", "page", "flipped", "liar"])
def test_a_damaged_file_of_arrays_is_named(how, tmp_path):
    path = tmp_path / "pathfinder32_generated.npz"
    x = np.random.RandomState(0).randint(0, 256, (4, 32, 32)).astype(np.uint8)
    np.savez(path, x=x, y=np.zeros(4, np.uint8))
    content = path.read_bytes()
    if how == "liar":  # announces more than a machine has
        path.write_bytes(content.replace(b"(4, 32, 32), }", b"(4000000000000, 32, 32), }", 1))
    else:
        path.write_bytes(damage_png(content, how))
    with pytest.raises(DataDamaged, match=r"pathfinder32_generated.npz.*make it again"):
        TASKS["pathfinder"].load(tmp_path)
