"""Speech Commands: the paper's clips and split on every disk, from files or from their cache."""

import os
import shutil
import tarfile
import wave

import numpy as np
import pytest
import torch

from ccnn.conf import compose
from ccnn.run import evaluate, train
from ccnn.tasks import TASKS, DataDamaged, clip_cache
from ccnn.tasks.archive import unpack
from ccnn.tasks.audio import mfcc
from ccnn.tasks.speech import (
    ARCHIVE,
    COUNTS,
    LENGTH,
    SUBSET,
    WORDS,
    find_folder,
    read_clips,
    split,
)
from ccnn.training.resampling import resample_samples

RAW = TASKS["speech_raw"]
EACH = 4  # clips of every word
COMPARED = "results cannot be compared"  # what a folder that is not the whole set says
pytestmark = pytest.mark.filterwarnings(f"ignore:.*{COMPARED}")


def clip(word, number, n=LENGTH):
    """Return sound that tells which clip it is, int16."""
    random = np.random.RandomState(100 * WORDS.index(word) + number)
    return random.randint(-3000, 3000, n).astype(np.int16)


def write_clip(path, samples, rate=16_000):
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.astype("<i2").tobytes())


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """A folder as torchaudio leaves it: four clips of each word, shorter ones, other words."""
    root = tmp_path_factory.mktemp("recordings")
    for word in (*reversed(WORDS), "bed"):
        folder = root / "SpeechCommands" / "speech_commands_v0.02" / word
        folder.mkdir(parents=True)
        for number in reversed(range(EACH)):
            label = word if word in WORDS else "yes"
            write_clip(folder / f"{number}_nohash_0.wav", clip(label, number))
        write_clip(folder / "short_nohash_0.wav", clip("yes", 99, n=LENGTH - 1))
        (folder / "._0_nohash_0.wav").write_bytes(b"what a Mac leaves behind")
    return root


@pytest.fixture
def root(recordings, tmp_path, monkeypatch):
    """A copy to be changed, with a cache of its own."""
    monkeypatch.setenv("CCNN_CACHE", str(tmp_path / "cache"))
    shutil.copytree(recordings, tmp_path / "data")  # keeps the times of the files
    return tmp_path / "data"


def folder_of(root):
    return root / "SpeechCommands" / "speech_commands_v0.02"


def a_clip(root):
    return folder_of(root) / "no" / "2_nohash_0.wav"


# The clips


def test_clips_of_one_second_are_read_by_word_and_name(root):
    clips, labels = read_clips(folder_of(root))
    assert (clips.dtype, clips.shape) == (np.int16, (10 * EACH, LENGTH))
    assert labels.tolist() == [i for i in range(10) for _ in range(EACH)]
    for row in (0, 3, 17, 39):
        np.testing.assert_array_equal(clips[row], clip(WORDS[row // EACH], row % EACH))


def test_the_archives_own_folder_is_found_too_and_the_papers_version_first(root, tmp_path):
    expected = RAW.load(root).test.x
    folder_of(root).rename(root / "speech_commands_v0.02")
    assert torch.equal(RAW.load(root).test.x, expected)
    (root / "speech_commands_v0.02").rename(root / "SpeechCommands" / "speech_commands_v0.01")
    assert torch.equal(RAW.load(root).test.x, expected)
    for word in WORDS:  # empty, and asked all the same
        (root / "speech_commands_v0.02" / word).mkdir(parents=True)
    with pytest.raises(DataDamaged, match=r"v0\.02 holds no clip .* of yes, no.*unpack"):
        RAW.load(root)


def test_a_folder_that_is_not_the_papers_set_is_warned_of(root):
    with pytest.warns(UserWarning, match=rf"40 clips .* 34,975 .*{COMPARED}"):
        RAW.load(root)


def test_a_name_that_is_no_text_is_a_name(root):
    a_clip(root).rename(a_clip(root).with_name(os.fsdecode(b"2\xff.wav")))
    assert len(read_clips(folder_of(root))[0]) == 40


# Their split


def test_the_whole_set_has_the_papers_split():
    labels = np.sort(np.random.RandomState(1).randint(0, 10, sum(COUNTS)))
    parts = split(labels)
    assert tuple(map(len, parts)) == COUNTS
    assert sorted(np.concatenate(parts)) == list(range(34_975))
    for part, share in zip(parts, (0.7, 0.15, 0.15), strict=True):
        each = np.bincount(labels[part])
        assert abs(each - share * np.bincount(labels)).max() < 2  # rounded at each of two cuts
        first = np.bincount(labels[part][:1000], minlength=10)  # what data.limit would take
        assert first.min() > 60


def test_the_split_depends_on_names_only_not_on_the_disk(root, tmp_path):
    first = RAW.load(root)
    for word in WORDS:  # new folders, filled in another order
        old = folder_of(root) / word
        old.rename(tmp_path / word)
        old.mkdir()
        for path in sorted((tmp_path / word).iterdir()):
            shutil.copy(path, old)
    again = RAW.load(root)
    for part, count in {"train": 28, "val": 6, "test": 6}.items():
        one, two = vars(first)[part], vars(again)[part]
        assert len(one) == count
        assert torch.equal(one.x, two.x)
        assert torch.equal(one.y, two.y)


def test_no_clip_is_in_two_parts_and_none_is_lost(root):
    splits = RAW.load(root)
    x = torch.cat([splits.train.x, splits.val.x, splits.test.x])[:, 0]
    y = torch.cat([splits.train.y, splits.val.y, splits.test.y])
    clips, labels = read_clips(folder_of(root))
    order = torch.from_numpy(clips.astype(np.float32)) @ x.T  # large where they are the same
    match = order.argmax(1)
    assert sorted(match.tolist()) == list(range(40))
    assert y[match].tolist() == labels.tolist()


# What the network sees


def test_sound_is_standardised_as_a_whole(root):
    """One mean and one deviation, of the training part, for every time step."""
    splits = RAW.load(root)
    assert splits.train.x.mean().abs() < 1e-6
    assert splits.train.x.std() == pytest.approx(1, abs=1e-5)
    clips, labels = read_clips(folder_of(root))
    parts = [torch.from_numpy(clips[i].astype(np.float64)) for i in split(labels)]
    mean, std = parts[0].mean(), parts[0].std()
    torch.testing.assert_close(splits.test.x[:, 0].double(), (parts[2] - mean) / std)


def test_mfccs_are_standardised_by_coefficient(root):
    splits = TASKS["speech_mfcc"].load(root)
    assert splits.train.x.shape == (28, 20, 161)
    assert splits.train.x.mean((0, 2)).abs().max() < 1e-4  # float32, values up to 100
    torch.testing.assert_close(splits.train.x.std((0, 2)), torch.ones(20), atol=1e-4, rtol=0)
    clips, labels = read_clips(folder_of(root))
    parts = [mfcc(torch.from_numpy(clips[i].astype(np.float64) / 32_768)) for i in split(labels)]
    std, mean = torch.std_mean(parts[0], dim=(0, 2), keepdim=True)
    got = splits.val.x.double()
    torch.testing.assert_close(got, (parts[1] - mean) / std, atol=1e-3, rtol=0)


def test_half_the_rate_is_every_second_sample_without_a_filter(root):
    test = RAW.load(root).test
    assert torch.equal(resample_samples(test, 2).x, test.x[..., ::2])


def test_a_run_is_evaluated_at_half_the_rate(root, tmp_path):
    words = "task=speech_raw model=ccnn_4_48 model.blocks=1 model.channels=4 data.batch_size=14"
    words += " trainer.max_epochs=1 trainer.progress=none model.omega_0=auto"
    train(compose([*words.split(), f"data.root={root}", f"run={tmp_path / 'run'}"]))
    whole, half = (evaluate(tmp_path / "run", spacing=s) for s in (1, 2))
    assert (whole.size, half.size) == ((16_000,), (8_000,))
    assert (whole.samples, half.samples) == (6, 6)


# The cache


def test_clips_are_mapped_from_the_cache_and_the_files_left_alone(root):
    first = read_clips(folder_of(root))[0].copy()
    path, state = a_clip(root), a_clip(root).stat()
    path.write_bytes(bytes(state.st_size))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))  # as if nothing had happened
    clips, _ = read_clips(folder_of(root))
    assert isinstance(clips, np.memmap)
    assert not clips.flags.writeable
    assert clips.dtype == np.int16
    np.testing.assert_array_equal(clips, first)


@pytest.mark.parametrize("change", ["sound", "gone", "new"])
def test_a_cache_of_other_files_is_made_again(change, root):
    old = read_clips(folder_of(root))[0].copy()
    match change:
        case "sound":
            write_clip(a_clip(root), clip("go", 77))
            os.utime(a_clip(root), (1, 1))
        case "gone":
            a_clip(root).unlink()
        case "new":
            write_clip(a_clip(root).with_name("3_nohash_1.wav"), clip("go", 77))
    clips, labels = read_clips(folder_of(root))
    assert len(clips) == len(labels) == {"sound": 40, "gone": 39, "new": 41}[change]
    place = {"sound": 6, "gone": 6, "new": 8}[change]
    expected = clip("no", 3) if change == "gone" else clip("go", 77)
    np.testing.assert_array_equal(clips[place], expected)
    np.testing.assert_array_equal(clips[:6], old[:6])


DAMAGE = {
    "empty": lambda content: b"",
    "cut": lambda content: content[:-2],
    "longer": lambda content: content + b"\0\0",
    "header only": lambda content: content[:512],
    "page": lambda content: b"<html>404</html>",
    "no object": lambda content: b"[1, 2]".ljust(512) + content[512:],
    "other shape": lambda content: content.replace(b"[40, 16000]", b"[16000, 40]"),
    "negative": lambda content: content.replace(b"[40, 16000]", b"[-1, 16000]"),
    "huge": lambda content: content.replace(b"[40, 16000]", b"[9e99, 9999]"),
    "key gone": lambda content: content.replace(b"checksum", b"chicksum"),
    "a sample": lambda content: content[:9999] + bytes([content[9999] ^ 1]) + content[10_000:],
    "a label": lambda content: content[:-1] + b"\1",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_cache_is_made_again(damage, root):
    clips, labels = (a.copy() for a in read_clips(folder_of(root)))
    path = clip_cache.place_of(folder_of(root))
    content = path.read_bytes()
    assert damage(content) != content
    path.write_bytes(damage(content))
    again, labels_again = read_clips(folder_of(root))
    np.testing.assert_array_equal(again, clips)
    np.testing.assert_array_equal(labels_again, labels)
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]  # and nothing half written beside it


def test_without_a_cache_the_files_are_read(root, tmp_path, monkeypatch):
    expected = read_clips(folder_of(root))[0].copy()
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("CCNN_CACHE", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match=r"cannot keep the clips.*CCNN_CACHE"):
        clips, _ = read_clips(folder_of(root))
    np.testing.assert_array_equal(clips, expected)


def test_two_folders_have_a_cache_each(root, tmp_path):
    assert clip_cache.place_of(root) != clip_cache.place_of(tmp_path)


def test_the_cache_is_in_the_usual_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("CCNN_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert clip_cache.place_of(tmp_path).parent == tmp_path / "ccnn"


# Damaged files


def spoil(path, how):
    content = path.read_bytes()
    match how:
        case "cut":
            path.write_bytes(content[:-2])
        case "empty":
            path.write_bytes(b"")
        case "page":
            path.write_bytes(b"<html>404</html>")
        case "rate":
            write_clip(path, clip("no", 2), rate=8_000)
        case "link":
            path.unlink()
            path.symlink_to(path.with_name("nothing"))


@pytest.mark.parametrize("how", ["cut", "empty", "page", "rate", "link"])
def test_a_damaged_recording_is_named_and_never_left_out(how, root):
    spoil(a_clip(root), how)
    with pytest.raises(DataDamaged, match=r"no.2_nohash_0\.wav.*fetch it again") as refusal:
        RAW.load(root)
    assert "\n" not in str(refusal.value)
    assert not clip_cache.place_of(folder_of(root)).exists()


# A part of the set, in one file


def arrays(**changes):
    parts = {}
    for part, n in {"train": 20, "validation": 10, "testing": 10}.items():
        parts[f"x_{part}"] = np.stack([clip("up", i, 16_000) for i in range(n)])
        parts[f"y_{part}"] = np.arange(n) % 10
    return parts | changes


def test_a_file_of_arrays_keeps_its_own_split(tmp_path):
    np.savez(tmp_path / SUBSET, **arrays())
    splits = RAW.load(tmp_path)
    assert [len(p) for p in (splits.train, splits.val, splits.test)] == [20, 10, 10]
    clips = torch.from_numpy(arrays()["x_testing"].astype(np.float32))
    match = (clips @ splits.test.x[:, 0].T).argmax(1)
    assert splits.test.y[match].tolist() == list(range(10))
    assert splits.train.x.std() == pytest.approx(1, abs=1e-4)


WRONG_ARRAYS = {
    "type": {"x_train": arrays()["x_train"] / 32_768},
    "length": {"x_train": arrays()["x_train"][:, :8000]},
    "axes": {"x_testing": arrays()["x_testing"][:, None]},
    "fewer": {"y_testing": np.arange(9)},
    "eleven": {"y_train": np.full(20, 10)},
    "negative": {"y_validation": np.full(10, -1)},
    "none": {"x_testing": np.zeros((0, 16_000), np.int16), "y_testing": np.zeros(0, np.int64)},
    "objects": {"y_train": np.array([None] * 20, dtype=object)},
}


@pytest.mark.parametrize("changes", WRONG_ARRAYS.values(), ids=WRONG_ARRAYS)
def test_wrong_arrays_are_refused(changes, tmp_path):
    np.savez(tmp_path / SUBSET, **arrays(**changes))
    with pytest.raises(DataDamaged, match=rf"{SUBSET} is damaged.*make it again"):
        RAW.load(tmp_path)


@pytest.mark.parametrize("how", ["cut", "empty", "page", "missing"])
def test_a_damaged_file_of_arrays_is_refused(how, tmp_path):
    path = tmp_path / SUBSET
    parts = arrays()
    np.savez(
        path, **({k: parts[k] for k in parts if k != "y_train"} if how == "missing" else parts)
    )
    if how != "missing":
        spoil(path, how)
    with pytest.raises(DataDamaged, match=rf"{SUBSET} is damaged.*make it again"):
        RAW.load(tmp_path)


def test_a_part_of_the_real_recordings_is_read(data_root):
    if not (data_root / SUBSET).is_file():
        pytest.skip(f"no {SUBSET} in {data_root}")
    for name in ("speech_raw", "speech_mfcc"):
        task = TASKS[name]
        splits = task.load(data_root)
        for part, count in {"train": 20, "val": 4, "test": 8}.items():
            samples = vars(splits)[part]
            assert samples.x.shape == (10 * count, task.in_channels, *task.size)
            assert samples.y.bincount().tolist() == [count] * 10
            assert samples.x.isfinite().all()


def test_the_published_archive_becomes_the_folder_that_is_looked_for(tmp_path):
    archive = tmp_path / "speech_commands_v0.02.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        for word in (*WORDS, "_background_noise_"):  # as published: no folder around the words
            write_clip(tmp_path / "clip.wav", clip("yes", 0))
            file.add(tmp_path / "clip.wav", f"./{word}/0_nohash_0.wav")
    unpack(archive, tmp_path / ARCHIVE.path, limit=ARCHIVE.unpacked)
    assert find_folder(tmp_path) == folder_of(tmp_path)
