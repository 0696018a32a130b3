"""The two forms in which PhysioNet 2012 comes: a folder of patients, or one table of some of them.

Silva et al. 2012, https://physionet.org/content/challenge-2012
"""

import csv
import gzip
import io
import math
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ccnn.tasks.task import DataDamaged

TABLES = ("physionet2012_seta_500.csv.gz", "physionet2012_seta_500.csv")
FOLDER, OUTCOMES = "set-a", "Outcomes-a.txt"
TABLE_HEADER = ["RecordID", "Time", "Parameter", "Value", "InHospitalDeath"]
FILE_HEADER = ["Time", "Parameter", "Value"]
DEATH = "In-hospital_death"
LAST = 48 * 60  # the last minute


@dataclass
class Patient:
    """One stay: the measurements as minute, name and value; and whether the patient died."""

    died: int
    measurements: list[tuple[int, str, float]] = field(default_factory=list)


def find_table(root: Path) -> Path | None:
    """Return the table in a folder, None if there is none."""
    return next((root / name for name in TABLES if (root / name).is_file()), None)


def patient_files(root: Path) -> list[Path]:
    """Return the files of the original folder, a patient each."""
    return sorted((root / FOLDER).glob("*.txt"))


def read_patients(root: Path) -> list[Patient]:
    """Return all patients, in the order of their numbers: the original files before the table."""
    table = find_table(root)
    if table is not None and not (patient_files(root) and (root / OUTCOMES).is_file()):
        return read_table(table)
    outcomes = read_outcomes(root / OUTCOMES)
    found = []
    for path in patient_files(root):
        if path.stem not in outcomes:
            raise DataDamaged(f"{root / OUTCOMES} does not have the patient of {path}")
        patient = Patient(outcomes[path.stem])
        for number, row in _rows(path, FILE_HEADER):
            _add(path, number, patient, row[0], row[1], row[2])
        found.append(patient)
    return found


def read_table(path: Path) -> list[Patient]:
    """Read the table: a row for each measurement, with the patient's number and outcome."""
    found: dict[str, Patient] = {}
    for number, (record, time, name, value, died) in _rows(path, TABLE_HEADER):
        if not record.isdigit() or died not in ("0", "1"):
            raise DataDamaged(_damaged(path, f"line {number} has no number and outcome"))
        if found.setdefault(record, Patient(int(died))).died != int(died):
            raise DataDamaged(_damaged(path, f"line {number} contradicts an outcome before"))
        _add(path, number, found[record], time, name, value)
    if not found:
        raise DataDamaged(_damaged(path, "it holds no patient"))
    return [found[record] for record in sorted(found)]


def read_outcomes(path: Path) -> dict[str, int]:
    """Return for each patient's number whether the patient died."""
    lines = _lines(path)
    _, header = next(lines, (0, []))
    if "RecordID" not in header or DEATH not in header:
        raise DataDamaged(_damaged(path, f"its first line does not name RecordID and {DEATH}"))
    record, death = header.index("RecordID"), header.index(DEATH)
    found = {}
    for number, row in lines:
        if len(row) != len(header) or row[death] not in ("0", "1") or not row[record].isdigit():
            raise DataDamaged(_damaged(path, f"line {number} is not like the first"))
        found[row[record]] = int(row[death])
    return found


def _add(path: Path, number: int, patient: Patient, time: str, name: str, value: str) -> None:
    """Add a measurement to a patient, or say which line is no measurement."""
    clock = re.fullmatch(r"(\d\d):([0-5]\d)", time)
    minute = 60 * int(clock[1]) + int(clock[2]) if clock else LAST + 1
    try:
        amount = float(value)
    except ValueError:
        amount = math.nan
    if minute > LAST or not math.isfinite(amount):
        raise DataDamaged(_damaged(path, f"line {number} has no time up to 48:00 and a number"))
    patient.measurements.append((minute, name, amount))


def _rows(path: Path, header: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows after the header with their line numbers, all as long as the header."""
    lines = _lines(path)
    if next(lines, (0, []))[1] != header:
        raise DataDamaged(_damaged(path, f"its first line is not {','.join(header)}"))
    for number, row in lines:
        if len(row) != len(header):
            raise DataDamaged(_damaged(path, f"line {number} has {len(row)} fields"))
        yield number, row


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        rows = list(csv.reader(io.StringIO(content.decode("ascii"))))
    except PermissionError:
        raise
    except (OSError, EOFError, UnicodeDecodeError, zlib.error, csv.Error) as error:
        raise DataDamaged(_damaged(path, str(error))) from error
    return enumerate((row for row in rows if row), start=1)


def _damaged(path: Path, why: str) -> str:
    return f"{path} is damaged ({why}): delete it and fetch it again"
