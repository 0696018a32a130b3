"""PhysioNet 2012: who dies in hospital, from measurements at times of their own."""

from pathlib import Path

import numpy as np
import torch

from ccnn.tasks.physionet_files import (
    FOLDER,
    LAST,
    OUTCOMES,
    TABLES,
    Patient,
    find_table,
    patient_files,
    read_patients,
)
from ccnn.tasks.splitting import stratified
from ccnn.tasks.task import DataDamaged, Samples, Splits, Task

SERIES = (
    *("ALP", "ALT", "AST", "Albumin", "BUN", "Bilirubin", "Cholesterol", "Creatinine"),
    *("DiasABP", "FiO2", "GCS", "Glucose", "HCO3", "HCT", "HR", "K", "Lactate", "MAP"),
    *("MechVent", "Mg", "NIDiasABP", "NIMAP", "NISysABP", "Na", "PaCO2", "PaO2", "Platelets"),
    *("RespRate", "SaO2", "SysABP", "Temp", "TroponinI", "TroponinT", "Urine", "WBC", "Weight"),
    "pH",
)
STATIC = ("Age", "Gender", "Height")
UNITS = (1, 2, 3, 4)  # kinds of intensive care, ICUType
# Values, whether each was observed, and what does not change during a stay.
CHANNELS = 2 * len(SERIES) + len(STATIC) + len(UNITS)
# Two days in 240 units of 12 minutes: of time, and room for so many times of one patient.
SIZE = 240
UNIT = LAST / SIZE
LIMIT = 5.0  # standard deviations: what lies further out is a slip of the pen
SHARES = (0.15, 0.15)  # of all patients, for validation and for the test


def find(root: Path) -> bool:
    """Tell whether the table, or the original folder with its outcomes, is there."""
    original = bool(patient_files(root)) and (root / OUTCOMES).is_file()
    return original or find_table(root) is not None


def read(root: Path) -> Splits:
    """Return values, observed and static channels at the times of each patient.

    ``x`` is (n, 81, 240): 37 values and 37 times whether they were observed, then what does not
    change, repeated at each time. ``lengths`` says how many times a patient has, ``positions``
    when they were, in units of 12 minutes. Values are standardised by the training part; a missing
    one is zero, which is the mean.
    """
    patients = read_patients(root)
    died = np.array([p.died for p in patients])
    counts = [round(share * len(died)) for share in SHARES]
    val, test, train = stratified(died, [*counts, len(died) - sum(counts)])
    each = [np.unique([minute for minute, _, _ in p.measurements]) for p in patients]
    lengths = np.array([len(minutes) for minutes in each])
    if lengths.min() < 1:
        raise DataDamaged(f"{root / FOLDER}: a patient has no measurement: fetch the files again")
    room = max(SIZE, int(lengths.max()))
    sums, seen, static = _tables(root, patients, each, room)
    values = _standardise(sums / np.maximum(seen, 1), seen > 0, train)
    x = np.zeros((len(died), CHANNELS, room), np.float32)
    x[:, : len(SERIES)], x[:, len(SERIES) : 2 * len(SERIES)] = values, seen > 0
    known = _standardise(np.nan_to_num(static)[..., None], ~np.isnan(static)[..., None], train)
    known[:, len(STATIC) :] = np.nan_to_num(static[:, len(STATIC) :])[..., None]  # 0 or 1
    inside = np.arange(room) < lengths[:, None]
    x[:, 2 * len(SERIES) :] = known * inside[:, None]
    positions = np.stack([np.pad(m, (0, room - len(m)), mode="edge") for m in each]) / UNIT
    whole = Samples(
        torch.from_numpy(x),
        torch.from_numpy(died.astype(np.int64)),
        torch.from_numpy(lengths.astype(np.int64)),
        torch.from_numpy(positions.astype(np.float32)).unsqueeze(-1),
    )
    return Splits(*(whole.take(torch.from_numpy(i)) for i in (train, val, test)))


def _tables(
    root: Path, patients: list[Patient], each: list[np.ndarray], room: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return sums and counts of what was measured at each time, and what does not change.

    Shapes
    ------
    result : (n, 37, room) twice, and (n, 7) with NaN where it is missing
    """
    place = {name: i for i, name in enumerate(SERIES)}
    sums = np.zeros((len(patients), len(SERIES), room), np.float32)
    seen = np.zeros_like(sums)
    static = np.full((len(patients), len(STATIC) + len(UNITS)), np.nan, np.float32)
    for row, (patient, minutes) in enumerate(zip(patients, each, strict=True)):
        columns = {int(minute): i for i, minute in enumerate(minutes)}
        for minute, name, value in patient.measurements:
            if name == "RecordID" or not name or value < 0:  # -1 stands for a missing value
                continue
            if name in place:
                column = columns[minute]
                sums[row, place[name], column] += value
                seen[row, place[name], column] += 1
            elif name == "ICUType" and value in UNITS:
                static[row, len(STATIC) :] = np.array(UNITS) == value
            elif name in STATIC:
                static[row, STATIC.index(name)] = value
            else:
                raise DataDamaged(
                    f"{root}: a patient has {value:g} for {name!r}, which PhysioNet 2012 does not "
                    "have: fetch the data again"
                )
    return sums, seen, static


def _standardise(values: np.ndarray, seen: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Return values in deviations from the mean of the training part, 0 where nothing was seen.

    Shapes
    ------
    values, seen : (n, C, N)
    """
    scaled = np.zeros_like(values, dtype=np.float32)
    for channel in range(values.shape[1]):
        there = seen[:, channel]
        known = values[train, channel][there[train]]
        if not known.size:
            continue  # it says nothing that was learned
        std = float(known.std(dtype=np.float64)) or 1.0
        away = (values[:, channel] - float(known.mean(dtype=np.float64))) / std
        scaled[:, channel] = np.where(there, away.clip(-LIMIT, LIMIT), 0)
    return scaled


PHYSIONET2012 = Task(
    name="physionet2012",
    title="PhysioNet 2012, death in hospital",
    size=(SIZE,),
    in_channels=CHANNELS,
    classes=2,
    counts=(2_800, 600, 600),
    source="PhysioNet/CinC Challenge 2012, physionet.org/content/challenge-2012, set A",
    files=f"{FOLDER}/*.txt with {OUTCOMES}, nor {TABLES[0]}",
    find=find,
    read=read,
)
