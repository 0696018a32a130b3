"""ListOps of the Long Range Arena: nested lists of digits to be evaluated (App. A)."""

import gzip
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, cast

import numpy as np
import torch

from ccnn.tasks.arrays import ANY, read_npz
from ccnn.tasks.generating import in_order, make_file
from ccnn.tasks.listops_generate import Expressions, expressions
from ccnn.tasks.listops_symbols import CLOSE, END, OPERATORS, VOCABULARY
from ccnn.tasks.task import DataDamaged, Samples, Splits, Task

SIZE = 2048
COUNTS = {"train": 96_000, "val": 2_000, "test": 2_000}
# Where the files may lie: beside each other in the folder, or as the Arena's release unpacks.
FAMILIES = (
    "basic_{}.tsv",
    "listops-1000/basic_{}.tsv",
    "lra_release/listops-1000/basic_{}.tsv",
    "lra_release/lra_release/listops-1000/basic_{}.tsv",
    "lra_listops_basic_{}.tsv",
)
GENERATED = "listops_generated_{}.npz"
# Expressions that a process makes at once, from random numbers of their own.
CHUNK = 1000
# One letter for each word, so that every symbol is a byte; and the symbols of those bytes.
_LETTERS = {b"[MIN": b"a", b"[MAX": b"b", b"[MED": b"c", b"[SM": b"d"}
_NO_SYMBOL = 255
_SYMBOLS = dict(zip(b"]0123456789abcd", range(CLOSE, len(VOCABULARY)), strict=True))
_TABLE = bytes(_SYMBOLS.get(byte, _NO_SYMBOL) for byte in range(256))


def find_files(root: Path) -> dict[str, Path] | None:
    """Return the file of each part: the Arena's, compressed or not, else those made here."""
    for family in (*FAMILIES, GENERATED):
        paths = {part: _either(root / family.format(part)) for part in COUNTS}
        if all(path is not None for path in paths.values()):
            return {part: path for part, path in paths.items() if path is not None}
    return None


def _either(path: Path) -> Path | None:
    return next((p for p in (path, path.with_name(f"{path.name}.gz")) if p.is_file()), None)


def find(root: Path) -> bool:
    """Tell whether all three files are there."""
    return find_files(root) is not None


def read_tsv(path: Path) -> Expressions:
    """Read a file of the Arena: a header, then an expression, a tab and its value in each line."""
    symbols: list[bytes] = []
    values: list[int] = []
    try:
        with cast(IO[bytes], gzip.open(path) if path.suffix == ".gz" else path.open("rb")) as file:
            if file.readline(100).split() != [b"Source", b"Target"]:
                raise DataDamaged(_damaged(path, "it does not begin with Source and Target"))
            for number, line in enumerate(file, start=2):
                expression, value = _split_line(path, number, line)
                symbols.append(encode(expression, f"{path}, line {number},"))
                values.append(value)
    except PermissionError:
        raise
    except (OSError, EOFError, zlib.error) as error:
        raise DataDamaged(_damaged(path, str(error))) from error
    if not values:
        raise DataDamaged(_damaged(path, "it holds no expression"))
    lengths = np.array([len(s) for s in symbols])
    return Expressions(np.frombuffer(b"".join(symbols), np.uint8), lengths, np.array(values))


def _split_line(path: Path, number: int, line: bytes) -> tuple[bytes, int]:
    expression, _, value = line.rstrip(b"\r\n").partition(b"\t")
    # A file that was cut ends in the middle of a line.
    if not line.endswith(b"\n") or len(value) != 1 or not value.isdigit():
        raise DataDamaged(_damaged(path, f"line {number} does not end with one digit"))
    return expression, int(value)


def encode(expression: bytes, where: str = "the expression") -> bytes:
    """Return the symbols of an expression such as ``b"( ( ( [MAX 2 ) 9 ) ] )"``, one per byte.

    The round brackets only group and are left out.

    Raises
    ------
    DataDamaged
        If it is not made of symbols, or is cut; `where` begins the sentence.
    """
    short = expression
    for word, letter in _LETTERS.items():
        short = short.replace(word, letter)
    symbols = short.translate(_TABLE, b"() ")
    words = len(symbols) + short.count(b"(") + short.count(b")")
    if _NO_SYMBOL in symbols or words != short.count(b" ") + 1:
        raise DataDamaged(f"{where} is damaged (a word is no symbol): fetch the file again")
    operators = sum(symbols.count(operator) for operator in OPERATORS)
    if not operators == symbols.count(CLOSE) == expression.count(b"["):
        raise DataDamaged(f"{where} is damaged (not all that opens closes): fetch the file again")
    return symbols


def read_generated(path: Path) -> Expressions:
    """Read a file that `make` wrote."""
    wanted = {"symbols": (np.uint8, (ANY,)), "lengths": (np.uint16, (ANY,))}
    symbols, lengths, values = read_npz(path, {**wanted, "values": (np.uint8, (ANY,))})
    fits = len(lengths) == len(values) > 0 and lengths.sum(dtype=np.int64) == len(symbols)
    known = fits and lengths.min() > 0 and symbols.min() >= CLOSE
    if not known or symbols.max() >= len(VOCABULARY) or values.max() > 9:
        raise DataDamaged(
            f"{path} is damaged (its arrays contradict each other): delete it and make it again"
        )
    return Expressions(symbols, lengths.astype(np.int64), values)


def as_samples(data: Expressions, path: Path) -> Samples:
    """Return expressions as symbols with their end, (n, 2048), and how many of each exist."""
    longest = data.lengths.max()
    if longest >= SIZE:
        raise DataDamaged(_damaged(path, f"expressions of {longest} symbols; {SIZE - 1} fit"))
    x = np.zeros((len(data.lengths), SIZE), dtype=np.int32)
    x[np.arange(SIZE) < data.lengths[:, None]] = data.symbols
    x[np.arange(len(x)), data.lengths] = END
    return Samples(
        torch.from_numpy(x),
        torch.from_numpy(data.values.astype(np.int64)),
        torch.from_numpy(data.lengths + 1),
    )


def read(root: Path) -> Splits:
    """Return expressions as symbols; what lies behind the length of each does not exist."""
    paths = find_files(root)
    assert paths is not None  # `find` has seen them
    parts = (
        as_samples((read_generated if path.suffix == ".npz" else read_tsv)(path), path)
        for path in paths.values()
    )
    return Splits(*parts)


@dataclass(frozen=True)
class Chunk:
    """Some expressions to make: which ones of which part, and how many."""

    seed: int
    part: int
    index: int
    count: int


def make_chunk(chunk: Chunk) -> Expressions:
    """Return the expressions of a chunk, whichever process makes it."""
    rng = np.random.default_rng([chunk.seed, chunk.part, chunk.index])
    return expressions(chunk.count, rng)


def make(
    root: Path,
    counts: Mapping[str, int] = COUNTS,
    *,
    seed: int = 0,
    processes: int | None = None,
) -> None:
    """Generate the files that a folder does not have, with a progress bar.

    Parameters
    ----------
    root
        The folder; it is created.
    counts
        How many expressions each part gets.
    seed
        What the expressions depend on.
    processes
        How many work at once; None is one for each core. The files do not depend on it.
    """
    for number, (part, count) in enumerate(counts.items()):
        jobs = [
            Chunk(seed, number, begin // CHUNK, min(CHUNK, count - begin))
            for begin in range(0, count, CHUNK)
        ]
        title = f"ListOps, {count:,} for {part}"
        write = partial(_write, jobs=jobs, title=title, processes=processes)
        make_file(root / GENERATED.format(part), write)


def _write(path: Path, *, jobs: list[Chunk], title: str, processes: int | None) -> None:
    chunks = list(in_order(make_chunk, jobs, title=title, processes=processes))
    symbols, lengths, values = (np.concatenate(arrays) for arrays in zip(*chunks, strict=True))
    with path.open("wb") as file:
        np.savez_compressed(file, symbols=symbols, lengths=lengths.astype(np.uint16), values=values)


def _damaged(path: Path, why: str) -> str:
    return f"{path} is damaged ({why}): delete it and fetch it again"


LISTOPS = Task(
    name="listops",
    title="LRA ListOps",
    size=(SIZE,),
    in_channels=1,
    classes=10,
    vocabulary=len(VOCABULARY),
    counts=(96_000, 2_000, 2_000),
    source="Long Range Arena release, listops-1000/basic_{train,val,test}.tsv; or generated",
    files="basic_{train,val,test}.tsv (.gz or not; or in listops-1000)",
    paper={"ccnn_4_140": 44.85, "ccnn_6_380": 43.60},
    find=find,
    read=read,
    fetch=make,
)
