"""The user's own data: what is read from them, what is refused, and a whole run on them."""

import json
import struct
import zipfile

import numpy as np
import pytest
import torch
from PIL import Image

from ccnn.cli import main
from ccnn.run import evaluate, predict
from ccnn.tasks import DataDamaged, DataMissing
from ccnn.tasks.own import folder_task, npz_task
from ccnn.tasks.scaling import Scaling

N = 40


def signals(*shape: int, seed: int = 0) -> np.ndarray:
    """Signals whose channels have means and deviations far from 0 and 1."""
    random = np.random.RandomState(seed)
    channels = np.arange(1, shape[1] + 1).reshape(-1, *[1] * (len(shape) - 2))
    return random.randn(*shape) * channels * 3 + 10 * channels


def saved(tmp_path, **arrays: np.ndarray):
    path = tmp_path / "mine.npz"
    np.savez(path, **arrays)
    return path


def parts_of(task):
    splits = task.load(task.source)
    return splits.train, splits.val, splits.test


# Facts


@pytest.mark.parametrize("size", [(9,), (5, 6), (3, 4, 5), (2, 3, 2, 3)])
def test_facts_come_from_the_arrays_in_any_dimension(size, tmp_path):
    y = np.arange(N) % 4 + 7
    task = npz_task(saved(tmp_path, X=signals(N, 2, *size), y=y))
    assert (task.size, task.in_channels, task.classes, task.kind) == (size, 2, 4, "class")
    assert task.counts == (28, 6, 6)
    assert task.scaling.labels == ("7", "8", "9", "10")
    for part in parts_of(task):
        assert part.x.shape[1:] == (2, *size)
        assert (part.x.dtype, part.y.dtype) == (torch.float32, torch.int64)
        assert part.y.bincount(minlength=4).max() - part.y.bincount(minlength=4).min() <= 1


def test_parts_are_disjoint_complete_repeatable_and_standardised(tmp_path):
    x = signals(N, 3, 8)
    path = saved(tmp_path, X=x, y=np.arange(N) % 2)
    task = npz_task(path)
    parts = parts_of(task)
    back = torch.cat([p.x for p in parts]) * torch.tensor(task.scaling.std)[:, None]
    back = back + torch.tensor(task.scaling.mean)[:, None]
    order = np.lexsort(back[:, 0].numpy().T.round(3))
    expected = np.lexsort(x[:, 0].T.round(3))
    np.testing.assert_allclose(back.numpy()[order], x[expected], atol=1e-3)
    flat = parts[0].x.movedim(1, -1).flatten(0, 1)
    assert flat.mean(dim=0).abs().max() < 1e-5
    assert (flat.std(dim=0, correction=0) - 1).abs().max() < 1e-5
    for one, other in zip(parts, parts_of(npz_task(path)), strict=True):
        assert torch.equal(one.x, other.x)


def test_two_axes_are_signals_of_one_channel(tmp_path):
    x = (signals(N, 1, 12)[:, 0] * 10).astype(np.int16)
    task = npz_task(saved(tmp_path, X=x, y=np.arange(N) % 2))
    assert (task.in_channels, task.size) == (1, (12,))


def test_the_users_own_parts_are_kept_and_only_the_missing_are_split_off(tmp_path):
    x, y = signals(N, 1, 8), np.arange(N) % 2
    arrays = {"X": x, "y": y, "X_test": x[:10] + 1, "y_test": y[:10]}
    task = npz_task(saved(tmp_path, **arrays))
    assert task.counts == (34, 6, 10)
    test = parts_of(task)[2]
    expected = (x[:10] + 1 - task.scaling.mean[0]) / task.scaling.std[0]
    np.testing.assert_allclose(test.x, expected, atol=1e-4)
    assert test.y.tolist() == y[:10].tolist()
    task = npz_task(saved(tmp_path, **arrays, X_val=x[:3], y_val=y[:3]))
    assert task.counts == (40, 3, 10)


def test_padding_counts_for_nothing(tmp_path):
    x, lengths = signals(N, 2, 8), np.arange(N) % 8 + 1
    inside = np.arange(8) < lengths[:, None]
    x = np.where(inside[:, None], x, np.nan)
    task = npz_task(saved(tmp_path, X=x, y=np.arange(N) % 2, lengths=lengths))
    train = parts_of(task)[0]
    valid = torch.arange(8) < train.lengths[:, None]
    kept = train.x.movedim(1, -1)[valid]
    assert torch.isfinite(train.x).all()
    assert kept.mean(dim=0).abs().max() < 1e-5
    assert (kept.std(dim=0, correction=0) - 1).abs().max() < 1e-5


def test_images_may_have_two_lengths_each(tmp_path):
    lengths = np.stack([np.arange(N) % 4 + 1, np.full(N, 5)], axis=1)
    x = signals(N, 1, 4, 5)
    task = npz_task(saved(tmp_path, X=x, y=np.arange(N) % 2, lengths=lengths))
    train = parts_of(task)[0]
    assert train.lengths.shape == (28, 2)
    mean = np.concatenate(
        [row[0, : n[0], : n[1]].ravel() for row, n in zip(x, lengths, strict=True)]
    )
    assert task.scaling.mean[0] == pytest.approx(mean.mean(), abs=0.5)  # of 28 of the 40


# Targets


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (np.array(["cat", "ant"] * 20), ("ant", "cat")),
        (np.array([b"cat", b"ant"] * 20), ("ant", "cat")),
        (np.array([1, -1] * 20), ("-1", "1")),
        (np.array([True, False] * 20), ("False", "True")),
        (np.array([[10], [9]] * 20, dtype=np.uint8), ("9", "10")),
    ],
)
def test_labels_may_be_words_or_any_integers(labels, names, tmp_path):
    x = signals(N, 1, 6)
    x[:, 0, 0] = np.arange(N)
    task = npz_task(saved(tmp_path, X=x, y=labels))
    assert task.scaling.labels == names
    for part in parts_of(task):
        index = (part.x[:, 0, 0] * task.scaling.std[0] + task.scaling.mean[0]).round().long()
        expected = [labels[i].item() if labels.ndim == 1 else labels[i, 0] for i in index]
        expected = [v.decode() if isinstance(v, bytes) else str(v) for v in expected]
        assert [names[i] for i in part.y.tolist()] == expected


@pytest.mark.parametrize("columns", [None, 1, 3])
def test_numbers_are_standardised_and_come_back(columns, tmp_path):
    y = signals(N, columns or 1, 1)[..., 0]
    task = npz_task(saved(tmp_path, X=signals(N, 1, 6), y=y if columns else y[:, 0]))
    assert (task.kind, task.classes, task.score) == ("value", columns or 1, "mse")
    train = parts_of(task)[0]
    assert train.y.shape == (28, columns or 1)
    assert train.y.mean(dim=0).abs().max() < 1e-5
    back = torch.cat([task.scaling.restore(p.y) for p in parts_of(task)]).numpy()
    np.testing.assert_allclose(np.sort(back, axis=0), np.sort(y, axis=0), rtol=1e-4)


def test_every_position_may_have_a_class(tmp_path):
    y = np.random.RandomState(0).choice([3, 5, 9, -100], (N, 4, 5))
    lengths = np.tile([3, 5], (N, 1))
    y[:, 3] = 77  # in the padding, where nobody looks
    task = npz_task(saved(tmp_path, X=signals(N, 1, 4, 5), y=y, lengths=lengths))
    assert (task.kind, task.classes, task.score) == ("position", 3, "accuracy")
    assert task.scaling.labels == ("3", "5", "9")
    found = torch.cat([p.y for p in parts_of(task)])
    assert found.unique().tolist() == [-100, 0, 1, 2]
    assert (found[:, 3] == -100).all()
    assert (found[:, :3] == 2).sum() == (y[:, :3] == 9).sum()


@pytest.mark.parametrize("channels", [None, 2])
def test_every_position_may_have_numbers(channels, tmp_path):
    y = signals(N, channels or 1, 6)
    task = npz_task(saved(tmp_path, X=signals(N, 1, 6), y=y if channels else y[:, 0]))
    assert (task.kind, task.classes, task.score) == ("position_value", channels or 1, "mse")
    assert parts_of(task)[0].y.shape == (28, channels or 1, 6)
    restored = task.scaling.restore(parts_of(task)[1].y)
    assert restored.mean(dim=(0, 2))[-1] == pytest.approx(10 * (channels or 1), abs=3)


# What is refused

X, Y = signals(N, 1, 6), np.arange(N) % 2
REFUSED = {
    "no X": ({"x": X, "labels": Y}, "no array X; it holds x, labels"),
    "no y": ({"X": X}, "no array y"),
    "nothing": ({}, "it holds nothing"),
    "objects": (
        {"X": X, "y": np.array(["a", "b"] * 20, object)},
        r"y holds Python objects.*astype",
    ),
    "counts": ({"X": X, "y": Y[:-1]}, r"40 signals and y has shape \(39,\)"),
    "no signals": ({"X": X[:0], "y": Y[:0]}, r"shape \(0, 1, 6\)"),
    "words as signals": ({"X": X.astype(str), "y": Y}, "expected real numbers"),
    "complex": ({"X": X * 1j, "y": Y}, "expected real numbers"),
    "one axis": ({"X": X[:, 0, 0], "y": Y}, r"shape \(40,\)"),
    "one number": ({"X": X, "y": np.array(3)}, "expected a target for each"),
    "one class": ({"X": X, "y": np.zeros(N, int)}, r"one class \(0\)"),
    "nan": ({"X": np.where(X[3, 0, 2] == X, np.nan, X), "y": Y}, "NaN or infinite.*sample 3"),
    "infinite": ({"X": np.where(X[3, 0, 2] == X, np.inf, X), "y": Y}, "NaN or infinite"),
    "too large": ({"X": X * 1e300, "y": Y}, "NaN or infinite"),
    "nan targets": ({"X": X, "y": np.full(N, np.nan)}, "y holds NaN"),
    "odd targets": ({"X": X, "y": np.zeros((N, 5), int)}, r"shape \(40, 5\); expected"),
    "odd numbers": ({"X": X, "y": np.zeros((N, 5, 5))}, r"shape \(40, 5, 5\); expected"),
    "complex targets": ({"X": X, "y": Y * 1j}, "complex128"),
    "lengths": ({"X": X, "y": Y, "lengths": np.full(N, 7)}, "goes from 7 to 7"),
    "lengths of 0": ({"X": X, "y": Y, "lengths": Y}, "goes from 0 to 1"),
    "float lengths": ({"X": X, "y": Y, "lengths": np.full(N, 3.0)}, "expected integers"),
    "few lengths": ({"X": X, "y": Y, "lengths": np.full(3, 3)}, r"expected integers \(40,\)"),
    "half a part": ({"X": X, "y": Y, "X_val": X}, "no array y_val"),
    "another size": ({"X": X, "y": Y, "X_test": X[..., :5], "y_test": Y}, "X_test has shape"),
    "another kind": ({"X": X, "y": Y, "X_test": X, "y_test": Y + 0.5}, "y_test holds float64"),
    "new class": ({"X": X, "y": Y, "X_val": X, "y_val": Y + 1}, "y_val has the class '2'"),
    "too few": ({"X": X[:3], "y": Y[:3]}, "3 samples are too few"),
    "all different": ({"X": X, "y": np.arange(N)}, "numbers to be learned are saved as floats"),
}


@pytest.mark.parametrize(("arrays", "words"), REFUSED.values(), ids=REFUSED)
def test_arrays_that_make_no_sense_are_refused_in_one_line(arrays, words, tmp_path):
    path = saved(tmp_path, **arrays)
    with pytest.raises(DataDamaged, match=words) as refusal:
        npz_task(path)
    assert str(path) in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("how", ["empty", "cut", "page", "flipped", "single", "pickle", "lying"])
def test_a_damaged_file_of_arrays_is_named(how, tmp_path):
    path = saved(tmp_path, X=X, y=Y)
    content = path.read_bytes()
    match how:
        case "empty":
            path.write_bytes(b"")
        case "cut":
            path.write_bytes(content[:700])
        case "page":
            path.write_text("<html>404</html>")
        case "flipped":
            path.write_bytes(content[:300] + bytes(100) + content[400:])
        case "single":
            with path.open("wb") as file:
                np.save(file, X)
        case "pickle":
            path.write_bytes(b"\x80\x04]\x94.")
        case "lying":
            with zipfile.ZipFile(path) as archive:
                member = archive.read("X.npy").replace(b"(40, 1, 6)", b"(9999, 99)")
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("X.npy", member)
    with pytest.raises(DataDamaged, match=r"no NPZ file that can be read|no array") as refusal:
        npz_task(path)
    assert str(path) in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_no_code_in_a_file_is_run(tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    path = saved(tmp_path, X=X, y=np.array([Trap()] * N, dtype=object))
    with pytest.raises(DataDamaged, match="Python objects"):
        npz_task(path)
    assert not (tmp_path / "sprung").exists()


def test_a_place_without_data_says_what_to_do(tmp_path):
    with pytest.raises(DataMissing, match=r"data\.root=FILE\.npz.*X=X, y=y"):
        npz_task(tmp_path)
    with pytest.raises(DataMissing, match=r"data\.root=FOLDER"):
        folder_task(tmp_path / "nowhere")


# Folders


def write_wav(path, samples: np.ndarray, rate: int = 8000) -> None:
    data = samples.astype("<i2").tobytes()
    head = struct.pack("<4sI4s4sIHHIIHH", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, 1, 1, rate,
                       2 * rate, 2, 16)  # fmt: skip
    path.write_bytes(head + b"data" + struct.pack("<I", len(data)) + data)


def write_class_folders(root, write, count: int = 10) -> None:
    for label, name in enumerate(("dog", "cat")):
        (root / name).mkdir(parents=True)
        for i in range(count):
            write(root / name, label, i)


def write_sounds(folder, label: int, i: int) -> None:
    write_wav(folder / f"{i}.wav", 1000 * np.sin(np.arange(30 + i) * (label + 1) / 5))


def write_images(folder, label: int, i: int) -> None:
    pixels = np.full((6, 8, 3), 20 * i + label, np.uint8)
    pixels[..., 1] = label
    Image.fromarray(pixels).save(folder / f"{i}.PNG", format="PNG")


def write_arrays(folder, label: int, i: int) -> None:
    np.save(folder / f"{i}.npy", np.full((2, 3, 4, 5), i + 10 * label))


def test_sounds_of_unequal_length_become_sequences_with_lengths(tmp_path):
    write_class_folders(tmp_path, write_sounds)
    task = folder_task(tmp_path)
    assert (task.size, task.in_channels, task.classes) == ((39,), 1, 2)
    assert (task.scaling.labels, task.scaling.rate) == (("cat", "dog"), 8000)
    assert task.counts == (14, 3, 3)
    for part in parts_of(task):
        assert part.lengths.min() >= 30
        for x, y, length in zip(part.x, part.y, part.lengths.tolist(), strict=True):
            sound = x[0, :length] * task.scaling.std[0] + task.scaling.mean[0]
            label = {"dog": 0, "cat": 1}[task.scaling.labels[y]]
            expected = 1000 * np.sin(np.arange(length) * (label + 1) / 5) / 2**15
            np.testing.assert_allclose(sound, expected, atol=1e-4)


def test_images_are_read_in_colour_and_in_grey(tmp_path):
    write_class_folders(tmp_path / "colour", write_images)
    (tmp_path / "colour" / "dog" / ".DS_Store").write_text("left by a Mac")
    task = folder_task(tmp_path / "colour")
    assert (task.size, task.in_channels) == ((6, 8), 3)
    back = parts_of(task)[0].x[:, 1, 0, 0] * task.scaling.std[1] + task.scaling.mean[1]
    # Green is the number of the class: 0 for dog and 1 for cat, whose place is 0.
    np.testing.assert_allclose(back * 255, 1 - parts_of(task)[0].y, atol=1e-3)

    def grey(folder, label, i):
        Image.fromarray(np.full((4, 4), 100 * label + i, np.uint8)).save(folder / f"{i}.png")

    write_class_folders(tmp_path / "grey", grey)
    assert folder_task(tmp_path / "grey").in_channels == 1


def test_images_of_sixteen_bits_and_palettes(tmp_path):
    Image.fromarray(np.full((2, 3), 65535, np.uint16)).save(tmp_path / "deep.png")
    palette = Image.fromarray(np.array([[0, 1]], np.uint8), mode="L").convert("P")
    palette.putpalette([255, 0, 0, 0, 0, 255])
    palette.putdata([0, 1])
    palette.save(tmp_path / "palette.png")
    from ccnn.tasks.signal_files import read_png

    np.testing.assert_array_equal(read_png(tmp_path / "deep.png"), np.ones((1, 2, 3)))
    found = read_png(tmp_path / "palette.png")
    np.testing.assert_array_equal(found[:, 0], [[1, 0], [0, 0], [0, 1]])


def test_arrays_may_have_any_dimension_and_parts_of_their_own(tmp_path):
    for part, count in {"train": 8, "val": 2, "test": 3}.items():
        write_class_folders(tmp_path / part, write_arrays, count)
    task = folder_task(tmp_path)
    assert (task.size, task.in_channels, task.counts) == ((3, 4, 5), 2, (16, 4, 6))


def wrong_folder(root, how: str) -> str:
    """Make a folder that is wrong, and return the name that must be in the complaint."""
    write_class_folders(root, write_images)
    first, odd = root / "cat" / "0.PNG", root / "dog" / "3.PNG"
    match how:
        case "empty class":
            (root / "bird").mkdir()
            return "bird is empty"
        case "unequal sizes":
            Image.fromarray(np.zeros((6, 9, 3), np.uint8)).save(odd)
        case "grey among colour":
            Image.fromarray(np.zeros((6, 8), np.uint8)).save(odd)
        case "text":
            odd.write_text("no image")
        case "cut":
            odd.write_bytes(first.read_bytes()[:-20])
        case "empty file":
            odd.write_bytes(b"")
        case "jpeg inside":
            Image.fromarray(np.zeros((6, 8, 3), np.uint8)).save(odd, format="JPEG")
        case "other file":
            (root / "dog" / "notes.txt").write_text("good dogs")
            return "notes.txt"
        case "folder in a class":
            (root / "dog" / "more").mkdir()
            return "more"
        case "two kinds":
            write_arrays(root / "dog", 0, 99)
            return "different kinds"
        case "one class":
            for path in (root / "cat").iterdir():
                path.unlink()
            (root / "cat").rmdir()
            return r"one class \(dog\)"
        case "no classes":
            return "holds no folders"
    return odd.name


@pytest.mark.parametrize(
    "how",
    [
        *("empty class", "unequal sizes", "grey among colour", "text", "cut", "empty file"),
        *("jpeg inside", "other file", "folder in a class", "two kinds", "one class", "no classes"),
    ],
)
def test_folders_that_make_no_sense_are_refused_in_one_line(how, tmp_path):
    words = wrong_folder(tmp_path, how)
    with pytest.raises(DataDamaged, match=words) as refusal:
        folder_task(tmp_path / "dog" if how == "no classes" else tmp_path)
    assert str(tmp_path) in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("how", ["rate", "cut", "nan", "objects", "words", "pages"])
def test_wrong_sounds_and_arrays_are_named(how, tmp_path):
    sounds = how in ("rate", "cut")
    write_class_folders(tmp_path, write_sounds if sounds else write_arrays)
    path = tmp_path / "dog" / ("7.wav" if sounds else "7.npy")
    shape = (2, 3, 4, 5)
    match how:
        case "rate":
            write_wav(path, np.zeros(30), rate=16_000)
        case "cut":
            path.write_bytes(path.read_bytes()[:-7])
        case "nan":
            np.save(path, np.full(shape, np.nan))
        case "objects":
            np.save(path, np.full(shape, None, dtype=object))
        case "words":
            np.save(path, np.full(shape, "word"))
        case "pages":
            path.write_text("<html>404</html>")
    with pytest.raises(DataDamaged, match=path.name) as refusal:
        folder_task(tmp_path)
    assert "\n" not in str(refusal.value)


# Whole runs

TINY = ["model=ccnn_4_48", "model.channels=6", "model.blocks=1", "model.kernel_channels=4"]
TINY += ["data.batch_size=8", "trainer.max_epochs=1", "trainer.progress=none"]
TINY += ["logger.tensorboard=false", "optim.warmup_epochs=0"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Two classes by name, told apart by the sign of a slope, on a scale of thousands."""
    random = np.random.RandomState(0)
    y = np.array(["up", "down"])[np.arange(80) % 2]
    slope = np.where(y == "up", 1.0, -1.0)[:, None] * np.linspace(-1, 1, 16)
    x = 5000 + 300 * slope + random.randn(80, 16)
    path = tmp_path_factory.mktemp("own") / "slopes.npz"
    np.savez(path, X=x[:, None], y=y)
    return path


@pytest.fixture(scope="module")
def run(data):
    folder = data.parent / "run"
    words = [*TINY, "trainer.max_epochs=6", "optim.lr=0.03"]
    assert main(["train", "task=npz", f"data.root={data}", f"run={folder}", *words]) == 0
    return folder


def test_train_evaluate_and_predict_on_arrays(data, run, tmp_path, capsys):
    scaling = Scaling.from_json((run / "data.json").read_text())
    assert scaling.labels == ("down", "up")
    assert scaling.mean[0] == pytest.approx(5000, abs=30)
    assert main(["evaluate", f"run={run}"]) == 0
    assert "12 samples: accuracy 100.00 %" in capsys.readouterr().out
    assert main(["evaluate", f"run={run}", "spacing=2", "split=val"]) == 0
    assert "size 8" in capsys.readouterr().out

    # Raw signals are scaled as in training, and the columns are the user's own words.
    with np.load(data) as arrays:
        x, y = arrays["X"], arrays["y"]
    np.save(tmp_path / "new.npy", x[:6])
    output = tmp_path / "answers.csv"
    assert main(["predict", f"run={run}", f"input={tmp_path / 'new.npy'}", f"output={output}"]) == 0
    header, *rows = [line.split(",") for line in output.read_text().split()]
    assert header == ["down", "up"]
    assert [header[np.argmax([float(v) for v in row])] for row in rows] == y[:6].tolist()


def test_other_arrays_are_tested_with_the_scale_and_the_classes_of_the_run(data, run, tmp_path):
    with np.load(data) as arrays:
        x, y = arrays["X"], arrays["y"]
    # Far off in the mean, so that a scale of their own would show; and in test one class only.
    up = y == "up"
    other = tmp_path / "other.npz"
    np.savez(other, X=np.concatenate([x, x + 1e5]), y=np.tile(y, 2), X_test=x[up], y_test=y[up])
    found = evaluate(run, data_root=other)
    assert found.targets.unique().tolist() == [1]
    assert found.score == 1
    expected = predict(run, torch.from_numpy(x[up]).float())
    torch.testing.assert_close(found.outputs.softmax(dim=1), expected)
    np.savez(other, X=x, y=np.where(up, "left", "right"))
    with pytest.raises(DataDamaged, match="class 'left'"):
        evaluate(run, data_root=other)
    np.savez(other, X=x, y=np.zeros(80))
    with pytest.raises(DataDamaged, match="targets are classes"):
        evaluate(run, data_root=other)


def test_numbers_are_predicted_in_the_users_unit(tmp_path):
    random = np.random.RandomState(0)
    y = 2000 + 500 * random.randn(64)
    x = y[:, None, None] / 100 + 0.01 * random.randn(64, 1, 12)
    path, run = tmp_path / "levels.npz", tmp_path / "run"
    np.savez(path, X=x, y=y)
    words = [*TINY, "trainer.max_epochs=8", "optim.lr=0.03"]
    assert main(["train", "task=npz", f"data.root={path}", f"run={run}", *words]) == 0
    assert json.loads((run / "result.json").read_text())["loss"] == "mse"
    found = predict(run, torch.from_numpy(x).float())[:, 0].numpy()
    assert np.corrcoef(found, y)[0, 1] > 0.9
    assert abs(found.mean() - 2000) < 200
    np.save(tmp_path / "new.npy", x[:3])
    output = tmp_path / "o.csv"
    assert main(["predict", f"run={run}", f"input={tmp_path / 'new.npy'}", f"output={output}"]) == 0
    assert output.read_text().splitlines()[0] == "value_0"


def test_a_class_for_every_position_is_trained_and_predicted(tmp_path, capsys):
    random = np.random.RandomState(0)
    x = random.randn(48, 1, 5, 6)
    path, run = tmp_path / "maps.npz", tmp_path / "run"
    np.savez(path, X=x, y=(x[:, 0] > 0).astype(int))
    assert main(["train", "task=npz", f"data.root={path}", f"run={run}", *TINY]) == 0
    assert json.loads((run / "result.json").read_text())["loss"] == "position_cross_entropy"
    np.save(tmp_path / "new.npy", x[:3])
    words = ["predict", f"run={run}", f"input={tmp_path / 'new.npy'}"]
    assert main(words) == 0
    assert np.load(tmp_path / "new.probabilities.npy").shape == (3, 2, 5, 6)
    capsys.readouterr()
    assert main([*words, f"output={tmp_path / 'o.csv'}"]) == 2
    assert "output=FILE.npy" in capsys.readouterr().err


def test_train_and_predict_on_a_folder_of_sounds(tmp_path, capsys):
    root, run = tmp_path / "sounds", tmp_path / "run"
    write_class_folders(root, write_sounds, 20)
    assert main(["train", "task=folder", f"data.root={root}", f"run={run}", *TINY]) == 0
    assert main(["predict", f"run={run}", f"input={root / 'dog'}"]) == 0
    header, *rows = (root / "dog.probabilities.csv").read_text().split()
    assert header == "file,row,cat,dog"
    assert len(rows) == 20
    capsys.readouterr()
    write_wav(tmp_path / "slow.wav", np.arange(20), rate=4000)
    assert main(["predict", f"run={run}", f"input={tmp_path / 'slow.wav'}"]) == 1
    assert "spacing=2" in capsys.readouterr().err
    assert main(["predict", f"run={run}", f"input={tmp_path / 'slow.wav'}", "spacing=2"]) == 0
    assert (tmp_path / "slow.probabilities.csv").is_file()


def test_bad_data_end_a_command_with_one_line(tmp_path, capsys):
    np.savez(tmp_path / "bad.npz", X=X)
    words = ["train", "task=npz", f"run={tmp_path / 'run'}", *TINY]
    assert main([*words, f"data.root={tmp_path / 'bad.npz'}"]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert main([*words, f"data.root={tmp_path}"]) == 1
    assert "data.root=FILE.npz" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_numbers_are_not_embedded(data, tmp_path, capsys):
    words = [*TINY, f"data.root={data}", f"run={tmp_path / 'run'}"]
    assert main(["train", "task=npz", "model.embedding=5", "model.in_channels=2", *words]) == 2
    assert "model.embedding is for symbols" in capsys.readouterr().err
