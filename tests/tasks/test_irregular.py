"""Series of unequal lengths and times: CharacterTrajectories and PhysioNet 2012."""

import gzip
import os

import numpy as np
import pytest
import torch
from scipy.io import savemat

from ccnn.tasks import TASKS, DataDamaged, Samples
from ccnn.tasks.chartrajectories import LONGEST, find_file, times
from ccnn.tasks.physionet import CHANNELS, SERIES, SIZE
from ccnn.tasks.physionet_files import DEATH, read_patients

PENS, PATIENTS = TASKS["chartrajectories"], TASKS["physionet2012"]
ORIGINAL, PART = "mixoutALL_shifted.mat", "character_trajectories_train.mat"
TABLE = "physionet2012_seta_500.csv.gz"


def cells(arrays) -> np.ndarray:
    out = np.empty((1, len(arrays)), dtype=object)
    out[0] = arrays
    return out


def pens(count: int = 60) -> tuple[list[np.ndarray], np.ndarray]:
    random = np.random.RandomState(0)
    paths = [random.randn(3, 20 + i) + np.array([[5.0], [0], [-2]]) for i in range(count)]
    return paths, np.arange(count) % 20 + 1.0


def write_pens(folder, name: str, paths, labels) -> None:
    if name == ORIGINAL:
        consts = {"key": cells(["a", "b"]), "charlabels": labels[None]}
        savemat(folder / name, {"mixout": cells(paths), "consts": consts}, do_compression=True)
    else:
        savemat(folder / name, {"xtrain": cells(paths), "ytrain": labels[None]})


def rows_of(parts: tuple[Samples, ...]) -> list[bytes]:
    return [row.numpy().tobytes() for part in parts for row in part.x]


# CharacterTrajectories


@pytest.mark.parametrize("name", [ORIGINAL, PART])
def test_both_files_of_trajectories_are_read(name, tmp_path):
    paths, labels = pens()
    write_pens(tmp_path, name, paths, labels)
    splits = PENS.load(tmp_path)
    parts = (splits.train, splits.val, splits.test)
    assert [len(p) for p in parts] == [42, 9, 9]
    assert sorted(torch.cat([p.y for p in parts]).tolist()) == sorted((labels - 1).tolist())
    assert len(set(rows_of(parts))) == 60
    # The length tells which one it is; it must be that one, standardised, and zero after its end.
    train = splits.train
    valid = torch.arange(LONGEST) < train.lengths[:, None]
    kept = np.concatenate([paths[n - 20] for n in train.lengths.tolist()], axis=1)
    mean, std = kept.mean(axis=1), kept.std(axis=1)
    for part in parts:
        for x, y, length in zip(part.x, part.y, part.lengths, strict=True):
            expected = (paths[length - 20] - mean[:, None]) / std[:, None]
            np.testing.assert_allclose(x[:, :length], expected, atol=1e-5)
            assert not x[:, length:].any()
            assert y == labels[length - 20] - 1
    samples = train.x.movedim(1, -1)[valid]
    assert samples.mean(dim=0).abs().max() < 1e-5
    assert (samples.std(dim=0, correction=0) - 1).abs().max() < 1e-5


def test_the_original_trajectories_come_before_a_part_of_them(tmp_path):
    for name in (PART, ORIGINAL):
        write_pens(tmp_path, name, *pens())
        assert find_file(tmp_path).name == name


@pytest.mark.parametrize("size", [0, 60, 130, 5000, -10])
def test_cut_trajectories_are_named(size, tmp_path):
    write_pens(tmp_path, ORIGINAL, *pens())
    path = tmp_path / ORIGINAL
    os.truncate(path, size if size >= 0 else path.stat().st_size + size)
    with pytest.raises(DataDamaged, match="fetch it again") as refusal:
        PENS.load(tmp_path)
    assert ORIGINAL in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_flipped_bytes_of_trajectories_are_named(tmp_path):
    write_pens(tmp_path, ORIGINAL, *pens())
    path = tmp_path / ORIGINAL
    content = path.read_bytes()
    path.write_bytes(content[:4000] + bytes(100) + content[4100:])
    with pytest.raises(DataDamaged, match="fetch it again"):
        PENS.load(tmp_path)


def wrong_pens() -> dict[str, tuple[list[np.ndarray], np.ndarray]]:
    paths, labels = pens()
    return {
        "one label less": (paths, labels[:-1]),
        "label 21": (paths, labels + 1),
        "label 0": (paths, labels - 1),
        "label 1.5": (paths, np.full(60, 1.5)),
        "two channels": ([p[:2] for p in paths], labels),
        "too long": ([np.zeros((3, 206)), *paths[1:]], labels),
        "nan": ([*paths[1:], np.full((3, 9), np.nan)], labels),
        "words": ([*paths[1:], np.array(["a", "b"])], labels),
        "none": ([], np.zeros(0)),
    }


@pytest.mark.parametrize("how", wrong_pens())
def test_what_are_no_trajectories_is_named(how, tmp_path):
    write_pens(tmp_path, PART, *wrong_pens()[how])
    with pytest.raises(DataDamaged, match=rf"{PART} is damaged .*fetch it again"):
        PENS.load(tmp_path)


def test_a_file_of_other_arrays_is_named(tmp_path):
    savemat(tmp_path / PART, {"x": np.zeros(3)})
    with pytest.raises(DataDamaged, match=PART):
        PENS.load(tmp_path)


def test_a_pen_is_sampled_200_times_a_second():
    torch.testing.assert_close(times(3), torch.tensor([0.0, 0.005, 0.01]))


def test_the_real_trajectories(data_root):
    if find_file(data_root) is None:
        pytest.skip(f"no trajectories in {data_root}")
    splits = PENS.load(data_root)
    parts = (splits.train, splits.val, splits.test)
    assert sum(map(len, parts)) in (1429, 2858)
    lengths = torch.cat([p.lengths for p in parts])
    assert (lengths.min(), lengths.max()) == (109, 205)
    assert len(set(rows_of(parts))) == len(lengths)
    for part in parts:
        assert part.x.shape[1:] == (3, 205)
        share = part.y.bincount(minlength=20) / len(part)
        whole = torch.cat([p.y for p in parts]).bincount() / len(lengths)
        assert (share - whole).abs().max() < 0.01  # 214 samples in the smallest part


# PhysioNet 2012


def stay(random, died: int) -> list[tuple[str, str, str]]:
    rows = [("00:00", "RecordID", "1"), ("00:00", "Age", str(random.randint(20, 90)))]
    rows += [("00:00", "Gender", "1"), ("00:00", "Height", "-1" if died else "170.5")]
    rows += [("00:00", "ICUType", str(random.randint(1, 5))), ("00:00", "Weight", "-1")]
    for hour in sorted(random.choice(np.arange(1, 48), 6, replace=False)):
        rows += [(f"{hour:02}:30", "HR", f"{random.randint(50, 120)}")]
    return [*rows, ("47:55", "pH", "7.4"), ("48:00", "Temp", "36.6"), ("48:00", "Temp", "37.6")]


@pytest.fixture
def stays():
    random = np.random.RandomState(0)
    return {1000 + i: (i % 2, stay(random, i % 2)) for i in range(20)}


def write_table(folder, stays, name=TABLE) -> None:
    lines = ["RecordID,Time,Parameter,Value,InHospitalDeath"]
    for record, (died, rows) in stays.items():
        lines += [f"{record},{','.join(row)},{died}" for row in rows]
    text = "\n".join(lines).encode() + b"\n"
    (folder / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)


def write_original(folder, stays) -> None:
    (folder / "set-a").mkdir()
    lines = [f"RecordID,SAPS-I,SOFA,Length_of_stay,Survival,{DEATH}"]
    for record, (died, rows) in stays.items():
        text = "\n".join(["Time,Parameter,Value", *map(",".join, rows)]) + "\n"
        (folder / "set-a" / f"{record}.txt").write_text(text)
        lines.append(f"{record},6,1,5,-1,{died}")
    (folder / "Outcomes-a.txt").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("write", [write_table, write_original])
def test_values_lie_at_the_times_of_each_patient(write, stays, tmp_path):
    write(tmp_path, stays)
    splits = PATIENTS.load(tmp_path)
    parts = (splits.train, splits.val, splits.test)
    assert [len(p) for p in parts] == [14, 3, 3]
    assert torch.cat([p.y for p in parts]).bincount().tolist() == [10, 10]
    hr, ph, temp, age = SERIES.index("HR"), SERIES.index("pH"), SERIES.index("Temp"), 74
    for part in parts:
        assert part.x.shape[1:] == (CHANNELS, SIZE) == (81, 240)
        assert part.lengths.tolist() == [9] * len(part)  # 0, six hours, 47:55 and 48:00
        minutes = part.positions[..., 0] * 12
        assert minutes[:, 0].tolist() == [0] * len(part)
        assert minutes[:, 7].tolist() == [47 * 60 + 55] * len(part)
        assert (minutes[:, 8:] == 48 * 60).all()
        assert (minutes.diff() >= 0).all()
        observed = part.x[:, len(SERIES) : 2 * len(SERIES)]
        assert observed[:, hr, 1:7].all()
        assert observed.sum().item() == len(part) * 8  # HR six times, pH and Temp
        assert observed[:, ph, 7].all()
        assert observed[:, temp, 8].all()
        assert not part.x[:, : len(SERIES)][observed == 0].any()
        assert not part.x[..., 9:].any()
        assert (part.x[:, age, :9] == part.x[:, age, :1]).all()
        # Who died has no height: 0, which is the mean.
        assert not part.x[part.y == 1, 76].any()
        assert (part.x[:, 77:, 0].sum(dim=1) == 1).all()  # one kind of unit
    kept = splits.train.x[:, hr, 1:7]
    assert kept.mean().abs() < 1e-5
    assert kept.std(correction=0) == pytest.approx(1, abs=1e-5)


def test_what_was_measured_twice_at_once_is_averaged(stays, tmp_path):
    first = min(stays)
    stays[first][1][-1] = ("48:00", "Temp", "41.6")
    write_table(tmp_path, stays)
    whole = PATIENTS.load(tmp_path)
    temp = torch.cat(
        [p.x[:, SERIES.index("Temp"), 8] for p in (whole.train, whole.val, whole.test)]
    )
    # (36.6 + 41.6) / 2 once and (36.6 + 37.6) / 2 else.
    assert len(temp.unique()) == 2
    assert (temp == temp.max()).sum() == 1


def test_a_slip_of_the_pen_does_not_blow_a_channel_up(stays, tmp_path):
    for _, rows in list(stays.values())[:1]:
        rows[-3] = ("47:55", "pH", "735")
    write_table(tmp_path, stays)
    for part in vars(PATIENTS.load(tmp_path)).values():
        assert part.x.abs().max() <= 5


def test_the_folder_is_read_before_the_table(stays, tmp_path):
    write_table(tmp_path, stays)
    del stays[1000]
    write_original(tmp_path, stays)
    assert len(read_patients(tmp_path)) == 19
    (tmp_path / "Outcomes-a.txt").unlink()
    assert len(read_patients(tmp_path)) == 20


LINE = b"1000,00:00,Gender,1,0\n"
CHANGES = {
    "a page": lambda text: b"<html>404</html>",
    "empty": lambda text: b"",
    "header alone": lambda text: text.splitlines()[0],
    "another header": lambda text: text.replace(b"Value", b"Values"),
    "cut in a line": lambda text: text[: len(text) // 2 + 3].rstrip(b"\n0123456789").rstrip(b","),
    "a field more": lambda text: text.replace(LINE, b"1000,00:00,Gender,1,0,7\n"),
    "no number": lambda text: text.replace(LINE, b"1000,00:00,Gender,male,0\n"),
    "nan": lambda text: text.replace(LINE, b"1000,00:00,Gender,nan,0\n"),
    "another outcome": lambda text: text.replace(LINE, b"1000,00:00,Gender,1,1\n"),
    "no outcome": lambda text: text.replace(LINE, b"1000,00:00,Gender,1,\n"),
    "third day": lambda text: text.replace(LINE, b"1000,50:00,Gender,1,0\n"),
    "no time": lambda text: text.replace(LINE, b"1000,noon,Gender,1,0\n"),
    "unknown name": lambda text: text.replace(LINE, b"1000,00:00,Shoes,43,0\n"),
    "fifth unit": lambda text: text.replace(LINE, b"1000,00:00,ICUType,5,0\n"),
    "zeros": lambda text: text.replace(LINE, bytes(20)),
    "Greek": lambda text: text.replace(LINE, "1000,00:00,ω,1,0\n".encode()),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_damaged_table_is_named(change, stays, tmp_path):
    name = TABLE.removesuffix(".gz")
    write_table(tmp_path, stays, name)
    path = tmp_path / name
    before = path.read_bytes()
    path.write_bytes(change(before))
    assert path.read_bytes() != before
    with pytest.raises(DataDamaged, match="again") as refusal:
        PATIENTS.load(tmp_path)
    assert str(tmp_path) in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("size", [0, 5, 300, -4])
def test_a_cut_archive_is_named(size, stays, tmp_path):
    write_table(tmp_path, stays)
    path = tmp_path / TABLE
    os.truncate(path, size if size >= 0 else path.stat().st_size + size)
    with pytest.raises(DataDamaged, match=f"{TABLE}.*fetch it again"):
        PATIENTS.load(tmp_path)


@pytest.mark.parametrize("how", ["no such patient", "no outcome", "no column", "cut patient"])
def test_damaged_original_files_are_named(how, stays, tmp_path):
    write_original(tmp_path, stays)
    outcomes, patient = tmp_path / "Outcomes-a.txt", tmp_path / "set-a" / "1003.txt"
    text = outcomes.read_text()
    match how:
        case "no such patient":
            outcomes.write_text(text.replace("1003", "9003"))
        case "no outcome":
            outcomes.write_text(text[:-3])
        case "no column":
            outcomes.write_text(text.replace(DEATH, "Death"))
        case "cut patient":
            patient.write_text(patient.read_text()[:-6])
    with pytest.raises(DataDamaged) as refusal:
        PATIENTS.load(tmp_path)
    assert (patient if how == "cut patient" else outcomes).name in str(refusal.value)


def test_the_real_patients(data_root):
    if not PATIENTS.present(data_root):
        pytest.skip(f"no PhysioNet 2012 in {data_root}")
    splits = PATIENTS.load(data_root)
    parts = (splits.train, splits.val, splits.test)
    if sum(map(len, parts)) == 500:
        assert [len(p) for p in parts] == [350, 75, 75]
        assert sum(int(p.y.sum()) for p in parts) == 68
        assert max(int(p.lengths.max()) for p in parts) == 186
    assert {round(100 * p.y.float().mean().item()) for p in parts} <= {13, 14}
    for part in parts:
        assert part.x.shape[1:] == (81, 240)
        assert part.positions.shape == (len(part), 240, 1)
        assert torch.isfinite(part.x).all()
        assert part.positions.max() <= 240
