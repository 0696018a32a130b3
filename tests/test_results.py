"""The tables of results say what the paper says, and a row of ours is whole or empty."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from ccnn.conf import compose
from ccnn.tasks import TASKS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "results.md"
NETWORKS = {"CCNN 4, 110": "ccnn_4_140", "CCNN 6, 380": "ccnn_6_380"}

# The columns of the paper's tables, and what they are called here.
COLUMNS = {
    **{"sMNIST": "smnist", "pMNIST": "pmnist", "sCIFAR10": "scifar10"},
    **{"MFCC": "speech_mfcc", "Raw": "speech_raw"},
    **{"CIFAR10": "cifar10", "CIFAR100": "cifar100", "STL10": "stl10"},
    **{"2DImage": "image2d", "2DPathfinder": "pathfinder2d"},
    **{"ListOps": "listops", "Text": "text", "Retrieval": "retrieval"},
    **{"Image": "image", "Pathfinder": "pathfinder", "Path-X": "pathx"},
}
NOT_TASKS = {"0.5x": (96.22, 96.44), "Avg.": (76.86, 77.02)}
# Rows and columns of results of each of the paper's tables.
SHAPES = [(16, 3), (13, 3), (8, 3), (2, 2), (11, 7)]
RUN = ("ours", "command", "seed", "epochs", "hours", "hardware")

Row = dict[str, str]


def tables(text: str) -> Iterator[list[Row]]:
    """Yield the tables of a page, each row by the names of its columns."""
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        lines = [[cell.strip() for cell in line[1:-1].split("|")] for line in block.splitlines()]
        yield [dict(zip(lines[0], cells, strict=True)) for cells in lines[2:]]


def number(cell: str) -> float | None:
    """Return an accuracy without the paper's emphasis, and None for an empty cell."""
    return float(cell.strip("*")) if cell else None


TABLES = list(tables(PAGE.read_text(encoding="utf-8")))
PAPER = [table for table in TABLES if "" in table[0]]
OURS = [row for table in TABLES if "ours" in table[0] for row in table]


def results(table: list[Row]) -> list[str]:
    return [name for name in table[0] if name not in ("", "Size")]


def test_every_cell_of_the_papers_tables_is_there():
    assert [(len(table), len(results(table))) for table in PAPER] == SHAPES
    assert sum(rows * columns for rows, columns in SHAPES) == 192
    cells = [number(row[name]) for table in PAPER for row in table for name in results(table)]
    filled = [cell for cell in cells if cell is not None]
    assert len(filled) == 157
    assert all(0 < cell <= 100 for cell in filled)


@pytest.mark.parametrize("printed", NETWORKS)
def test_the_ccnn_rows_are_the_accuracies_of_the_tasks(printed):
    seen = set()
    for table in PAPER:
        row = next(row for row in table if row[""] == printed)
        for name in results(table):
            if name in NOT_TASKS:
                assert number(row[name]) == NOT_TASKS[name][list(NETWORKS).index(printed)]
                continue
            seen.add(COLUMNS[name])
            assert number(row[name]) == TASKS[COLUMNS[name]].paper.get(NETWORKS[printed]), name
    assert {name for name, task in TASKS.items() if task.paper} <= seen


def test_the_average_is_over_the_four_tasks_that_have_a_figure():
    for row in PAPER[-1]:
        if row[""] in NETWORKS:
            cells = [number(row[name]) for name in results(PAPER[-1]) if name != "Avg."]
            known = [cell for cell in cells if cell is not None]
            assert len(known) == 4
            assert sum(known) / 4 == pytest.approx(number(row["Avg."]), abs=0.0051)


def test_ours_stands_beside_every_figure_of_a_ccnn():
    beside = {(row["task"], row["network"]): number(row["paper"]) for row in OURS}
    assert len(beside) == len(OURS)
    for name, task in TASKS.items():
        for network in NETWORKS.values() if name in COLUMNS.values() else ["ccnn_4_140"]:
            assert beside[f"`{name}`", f"`{network}`"] == task.paper.get(network)
    for network, figure in zip(NETWORKS.values(), NOT_TASKS["0.5x"], strict=True):
        assert beside["`speech_raw`, every second sample", f"`{network}`"] == figure


def complaint(row: Row) -> str | None:
    """Say what is wrong with a row of ours."""
    given = [name for name in RUN if row[name]]
    if not given:
        return None
    if len(given) < len(RUN):
        return f"half filled: {given}"
    shapes = {"ours": r"\d+\.\d+", "hours": r"\d+\.\d+", "seed": r"\d+", "epochs": r"\d+"}
    if strange := [name for name, shape in shapes.items() if not re.fullmatch(shape, row[name])]:
        return f"not a number: {strange}"
    program, verb, *words = shlex.split(row["command"].strip("`"))
    if (program, verb) != ("ccnn", "train"):
        return f"not a command: {row['command']}"
    config = compose(words)
    task = row["task"].split(",")[0].strip("`")
    said = (config.task.name, config.model.name, config.seed, config.trainer.max_epochs)
    shown = (task, row["network"].strip("`"), int(row["seed"]), int(row["epochs"]))
    # Fewer epochs than the command has only where it may stop early.
    if said[:3] != shown[:3] or shown[3] > said[3]:
        return f"the command says {said}"
    if shown[3] < said[3] and config.optim.early_stopping is None:
        return f"the command says {said[3]} epochs"
    return None


def test_a_row_of_ours_is_whole_or_empty_and_its_command_is_its_own():
    assert not [(row, problem) for row in OURS if (problem := complaint(row))]


def test_a_bad_row_is_found():
    good = {
        **{"task": "`digits`", "network": "`ccnn_4_48`", "paper": "", "ours": "96.00"},
        "command": "`ccnn train task=digits model=ccnn_4_48 trainer.max_epochs=3`",
        **{"seed": "0", "epochs": "3", "hours": "0.01", "hardware": "two cores"},
    }
    assert complaint(good) is None
    assert complaint(good | dict.fromkeys(RUN, "")) is None
    for change in (
        {"hardware": ""},
        {"ours": "about 96"},
        {"seed": "1"},
        {"epochs": "2"},
        {"epochs": "4"},
        {"network": "`ccnn_4_140`"},
        {"command": "`python train.py`"},
    ):
        assert complaint(good | change) is not None, change
