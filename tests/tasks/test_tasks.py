"""What a task says about its data is what is read, and what is damaged is named."""

import gzip
import json
import re
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.io import savemat

from ccnn.tasks import TASKS, DataDamaged, DataMissing
from ccnn.tasks.augment import crop_and_flip, crop_and_flip_sequence, turn_crop_and_flip
from ccnn.tasks.mnist import IMAGES, LABELS

REPO = Path(__file__).resolve().parents[2]
DIGITS = ("digits", "digits2d")


def write_idx(path: Path, array: np.ndarray) -> None:
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    content = header + array.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


@pytest.fixture
def small(tmp_path):
    """A folder with a few samples in the files of each data set."""
    random = np.random.RandomState(0)
    for part, n in {"train": 24, "test": 6}.items():
        write_idx(tmp_path / f"{IMAGES[part]}.gz", random.randint(0, 256, (n, 28, 28)))
        write_idx(tmp_path / LABELS[part], np.arange(n) % 10)
    arrays = {}
    for part, n in {"train": 20, "test": 5}.items():
        arrays[f"x_{part}"] = random.randint(0, 256, (n, 3, 32, 32)).astype(np.uint8)
        arrays[f"y_{part}"] = (np.arange(n) % 10).astype(np.uint8)
    np.savez(tmp_path / "cifar10.npz", **arrays)
    np.savez(tmp_path / "cifar100.npz", **arrays)
    photographs = random.randint(0, 256, (20, 96, 96, 3)).astype(np.uint8)
    np.savez(tmp_path / "stl10_subset.npz", x=photographs, y=arrays["y_train"])
    write_voxels_and_series(tmp_path)
    write_sound_and_text(tmp_path)
    write_lists_and_paths(tmp_path)
    return tmp_path


def write_voxels_and_series(folder: Path) -> None:
    """Write a few shapes, trajectories and patients."""
    shapes = {}
    for part, n in {"train": 20, "test": 10}.items():
        grids = np.zeros((n, 30, 30, 30), np.int32)
        grids[np.arange(n), np.arange(n)] = 1
        shapes |= {f"X_{part}": grids, f"y_{part}": np.arange(n) % 10}
    np.savez(folder / "modelnet10_voxel30.npz", **shapes)
    paths = np.empty((1, 40), dtype=object)
    paths[0] = [np.sin(np.arange(3 * (109 + i)).reshape(3, -1)) for i in range(40)]
    pens = {"xtrain": paths, "ytrain": np.arange(40)[None] % 20 + 1}
    savemat(folder / "character_trajectories_train.mat", pens)
    lines = ["RecordID,Time,Parameter,Value,InHospitalDeath"]
    for i in range(20):
        lines += [f"{i},0{i % 10}:00,HR,{70 + i},{i % 2}", f"{i},30:00,Temp,37,{i % 2}"]
    (folder / "physionet2012_seta_500.csv").write_text("\n".join(lines))


def write_sound_and_text(folder: Path) -> None:
    """Write a few clips, reviews and pairs of papers."""
    sound = {}
    for part, n in {"train": 20, "validation": 10, "testing": 10}.items():
        clips = np.random.RandomState(n).randint(-99, 99, (n, 16_000)).astype(np.int16)
        sound |= {f"x_{part}": clips, f"y_{part}": np.arange(n) % 10}
    np.savez(folder / "speech_commands10_subset.npz", **sound)
    reviews = [
        json.dumps({"split": part, "label": i % 2, "text": f"review {i}, {part}"})
        for part, n in {"train": 20, "test": 4}.items()
        for i in range(n)
    ]
    (folder / "imdb_subset.jsonl.gz").write_bytes(gzip.compress("\n".join(reviews).encode()))
    for part, n in {"train": 8, "eval": 4, "test": 4}.items():
        lines = [f"{i % 2}\tP{i}\tQ{i}\tb'paper {i}'\tb'another'\n" for i in range(n)]
        (folder / f"new_aan_pairs.{part}.tsv").write_text("".join(lines))


def write_lists_and_paths(folder: Path) -> None:
    """Write a few expressions of ListOps and images of Pathfinder."""
    rows = [f"( ( ( [MAX {i} ) 0 ) ] )\t{i}\n" for i in range(10)]
    for part in ("train", "val", "test"):
        (folder / f"basic_{part}.tsv").write_text("Source\tTarget\n" + "".join(rows))
    for side in (32, 128):
        drawn = np.random.RandomState(side).randint(0, 256, (20, side, side)).astype(np.uint8)
        labels = (np.arange(20) % 2).astype(np.uint8)
        np.savez(folder / f"pathfinder{side}_sample.npz", x=drawn, y=labels)


@pytest.mark.parametrize("name", TASKS)
def test_facts_are_those_of_the_samples(name, small):
    task = TASKS[name]
    assert task.present(small)
    splits = task.load(small)
    for part in (splits.train, splits.val, splits.test):
        if task.vocabulary:
            assert part.x.shape[1:] == ((2,) if task.pair else ()) + task.size
            assert not part.x.is_floating_point()
            assert 0 <= part.x.min() <= part.x.max() < task.vocabulary
            assert part.lengths is not None
        else:
            cloud = part.positions is not None and len(task.size) > 1
            samples = part.positions.shape[1:2] if cloud else task.size
            assert part.x.shape[1:] == (task.in_channels, *samples)
            assert part.x.dtype == torch.float32
        assert (part.y.dtype, part.y.shape) == (torch.int64, part.x.shape[:1])
        assert part.y.min() >= 0
        assert part.y.max() < task.classes
        assert len(part) > 0
        if part.lengths is not None:
            assert part.lengths.shape == ((len(part), 2) if task.pair else (len(part),))
            assert 1 <= part.lengths.min() <= part.lengths.max() <= task.size[0]
        if part.positions is not None:
            assert part.positions.shape == (len(part), part.x.shape[-1], len(task.size))


@pytest.mark.parametrize("name", TASKS)
def test_a_split_is_always_the_same_and_leaves_torchs_numbers_alone(name, small):
    before = torch.get_rng_state()
    first = TASKS[name].load(small)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(17)
    np.random.seed(17)
    again = TASKS[name].load(small)
    for part in ("train", "val", "test"):
        assert torch.equal(vars(first)[part].x, vars(again)[part].x)
        assert torch.equal(vars(first)[part].y, vars(again)[part].y)


@pytest.mark.parametrize("name", DIGITS)
def test_digits_have_their_share_of_every_class_in_every_part(name):
    task = TASKS[name]
    splits = task.load(Path("nowhere"))
    parts = [splits.train, splits.val, splits.test]
    assert tuple(map(len, parts)) == task.counts == (1297, 200, 300)
    whole = torch.cat([p.y for p in parts]).bincount()
    for part in parts:
        share = part.y.bincount() - whole * len(part) / 1797
        assert share.abs().max() < 2  # rounding, once for the test part and once for validation
    assert abs(splits.train.x.mean()) < 1e-6
    assert splits.train.x.std() == pytest.approx(1, abs=1e-3)


def test_no_digit_is_in_two_parts_and_none_is_lost():
    from sklearn.datasets import load_digits

    splits = TASKS["digits"].load(Path("nowhere"))
    x = torch.cat([p.x for p in (splits.train, splits.val, splits.test)])[:, 0].double()
    images = load_digits().data
    scale = images.std() / x.std(correction=0)
    back = (x * scale + images.mean() - (x * scale).mean()).round().numpy()
    assert sorted(map(tuple, back)) == sorted(map(tuple, images))


def test_images_are_the_sequences_in_rows(small):
    for flat, image, side in (("digits", "digits2d", 8), ("smnist", "mnist", 28)):
        one, two = TASKS[flat].load(small).val, TASKS[image].load(small).val
        assert torch.equal(one.x.reshape(-1, 1, side, side), two.x)
        assert torch.equal(one.y, two.y)
    for flat, image in (("scifar10", "cifar10"), ("image", "image2d")):
        one, two = TASKS[flat].load(small).train, TASKS[image].load(small).train
        assert torch.equal(one.x, two.x.flatten(-2))


def test_the_permutation_is_the_published_one(small):
    plain, mixed = (TASKS[name].load(small).test.x for name in ("smnist", "pmnist"))
    first = [693, 85, 647, 392, 765, 14, 299, 711]
    assert torch.equal(mixed[..., :8], plain[..., first])


def test_pixels_are_standardised_as_published(small):
    with np.load(small / "cifar10.npz") as file:
        image = file["x_test"][0].astype(np.float64) / 255
    mean, std = np.array([0.4914, 0.4822, 0.4465]), np.array([0.247, 0.243, 0.261])
    expected = (image - mean[:, None, None]) / std[:, None, None]
    np.testing.assert_allclose(TASKS["cifar10"].load(small).test.x[0], expected, atol=1e-5)
    grey = 0.299 * image[0] + 0.587 * image[1] + 0.114 * image[2]
    expected = (grey - 122.6 / 255) / (61 / 255)
    np.testing.assert_allclose(TASKS["image2d"].load(small).test.x[0, 0], expected, atol=1e-5)


def test_mnist_is_read_from_its_usual_folder_too(small, tmp_path):
    home = tmp_path / "elsewhere"
    (home / "MNIST" / "raw").mkdir(parents=True)
    for name in (*IMAGES.values(), *LABELS.values()):
        path = small / f"{name}.gz"
        path = path if path.exists() else small / name
        (home / "MNIST" / "raw" / path.name).write_bytes(path.read_bytes())
    assert torch.equal(TASKS["smnist"].load(home).test.x, TASKS["smnist"].load(small).test.x)


IMAGE_FILE = f"{IMAGES['train']}.gz"


def damage(folder: Path, how: str) -> Path:
    """Spoil one file and return it."""
    path = folder / {"idx": IMAGE_FILE, "lab": LABELS["train"], "npz": "cifar10.npz"}[how[:3]]
    content = path.read_bytes()
    match how:
        case "idx cut" | "npz cut" | "lab cut":
            path.write_bytes(content[: len(content) // 2])
        case "idx empty" | "lab empty" | "npz empty":
            path.write_bytes(b"")
        case "idx page" | "npz page":
            path.write_bytes(b"<html>404</html>")
        case "idx flipped":
            path.write_bytes(content[:200] + bytes(100) + content[300:])
        case "idx small images":
            write_idx(path, np.zeros((24, 14, 14)))
        case "lab longer":
            path.write_bytes(content + b"1")
        case "lab of others":
            write_idx(path, np.zeros(23))
        case "lab eleven":
            write_idx(path, np.full(24, 11))
        case "lab huge":
            path.write_bytes(bytes([0, 0, 8, 1]) + b"\xff" * 4)
        case "npz alone":
            with path.open("wb") as file:
                np.save(file, np.zeros(3))
        case "npz key":
            np.savez(path, x_train=np.zeros(3))
        case "npz type":
            with np.load(path) as file:
                np.savez(path, **(dict(file) | {"x_test": file["x_test"] / 255}))
        case "npz objects":
            np.savez(path, x_train=np.array([None, {}], dtype=object))
        case "npz labels":
            with np.load(path) as file:
                np.savez(path, **(dict(file) | {"y_test": file["y_test"][:3]}))
    return path


@pytest.mark.parametrize(
    "how",
    [
        *("idx cut", "idx empty", "idx page", "idx flipped", "idx small images"),
        *("lab cut", "lab empty", "lab longer", "lab of others", "lab eleven", "lab huge"),
        *(
            "npz cut",
            "npz empty",
            "npz page",
            "npz alone",
            "npz key",
            "npz type",
            "npz objects",
            "npz labels",
        ),
    ],
)
def test_a_damaged_file_is_named_with_what_to_do(how, small):
    path = damage(small, how)
    with pytest.raises(DataDamaged, match=r"fetch (it|them) again|make it again") as refusal:
        TASKS["cifar10" if how.startswith("npz") else "smnist"].load(small)
    assert path.name in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", [name for name in TASKS if name not in DIGITS])
def test_missing_data_come_with_three_ways_out(name, tmp_path):
    assert not TASKS[name].present(tmp_path)
    with pytest.raises(DataMissing) as refusal:
        TASKS[name].load(tmp_path)
    for part in (str(tmp_path), "Fetch", TASKS[name].source, "data.root", "task=digits"):
        assert part in str(refusal.value)


def test_tasks_are_filed_under_their_names():
    assert all(name == task.name for name, task in TASKS.items())


def test_a_part_of_the_real_cifar_is_read(data_root):
    if not TASKS["cifar10"].present(data_root):
        pytest.skip(f"no CIFAR-10 in {data_root}")
    splits = TASKS["cifar10"].load(data_root)
    assert len(splits.val) == (len(splits.train) + len(splits.val)) // 10
    assert splits.test.y[:4].tolist() == [3, 8, 8, 0]  # cat, ship, ship, plane
    assert splits.train.x.std() == pytest.approx(1, abs=0.05)


# Augmentation


def test_a_crop_is_a_piece_of_the_mirrored_image_flipped_or_not():
    image = torch.arange(12.0).reshape(1, 1, 3, 4)
    wide = torch.from_numpy(np.pad(image[0, 0].numpy(), 1, mode="symmetric"))
    pieces = [wide[i : i + 3, j : j + 4] for i in range(3) for j in range(3)]
    pieces += [p.flip(-1) for p in pieces]
    seen = set()
    for _ in range(400):
        out = crop_and_flip(image, margin=1)[0, 0]
        seen |= {i for i, piece in enumerate(pieces) if torch.equal(piece, out)}
        assert any(torch.equal(piece, out) for piece in pieces)
    assert len(seen) == 18


@pytest.mark.parametrize("augment", [crop_and_flip, turn_crop_and_flip])
def test_images_change_each_in_its_own_way_and_repeat_with_the_seed(augment):
    x = torch.randn(1, 3, 32, 32).expand(8, -1, -1, -1)
    torch.manual_seed(3)
    first = augment(x)
    assert first.shape == x.shape
    assert not any(torch.equal(first[0], other) for other in first[1:])
    torch.manual_seed(3)
    assert torch.equal(augment(x), first)


def test_sequences_change_as_their_images_do():
    x = torch.randn(4, 3, 16, 16)
    torch.manual_seed(3)
    expected = crop_and_flip(x).flatten(-2)
    torch.manual_seed(3)
    assert torch.equal(crop_and_flip_sequence(x.flatten(-2)), expected)


def test_turning_keeps_what_is_in_the_middle():
    rows = torch.linspace(-1, 1, 64)
    blob = torch.exp(-(rows[:, None] ** 2 + rows[None] ** 2) / 0.02)[None, None]
    out = turn_crop_and_flip(blob.expand(50, 1, 64, 64))
    centre_rows = (out.sum(-1) * rows).sum(-1) / out.sum((-1, -2))
    assert centre_rows.abs().max() < 0.1  # a shift by up to 16/272 of half the image
    assert centre_rows.abs().max() > 0.03
    assert out.sum((-1, -2)).mean().item() == pytest.approx(
        blob.sum().item() * (272 / 256) ** 2, rel=0.02
    )


# The document


def table(path: Path) -> dict[str, list[str]]:
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {name: [cell.strip() for cell in rest.split("|")] for name, rest in rows}


def test_the_document_agrees_with_the_tasks():
    written = table(REPO / "docs" / "tasks.md")
    assert list(written) == list(TASKS)
    for name, task in TASKS.items():
        signal = f"{task.in_channels} × " + " × ".join(f"{n:,}" for n in task.size)
        signal = f"{task.vocabulary} symbols × {task.size[0]:,}" if task.vocabulary else signal
        signal = f"2 × {signal}" if task.pair else signal
        accuracies = [
            f"{task.paper[model]:.2f}" if model in task.paper else ""
            for model in ("ccnn_4_140", "ccnn_6_380")
        ]
        counts = " / ".join(f"{n:,}" for n in task.counts)
        fetched = "yes" if task.fetch else ""
        facts = [task.title, signal, str(task.classes), counts, *accuracies, task.source, fetched]
        assert written[name] == facts
