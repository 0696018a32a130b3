"""Text and Retrieval of the Long Range Arena: documents letter by letter (App. A)."""

import gzip
import json
import warnings
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from ccnn.tasks.fetch import Download, fetcher
from ccnn.tasks.splitting import stratified
from ccnn.tasks.task import DataDamaged, Samples, Splits, Task

PADDING, UNKNOWN, END = 0, 1, 2
SPECIAL = 3  # how many those are
REMEDY = "delete it and fetch it again"
# What damaged lines make gzip and json raise.
ERRORS = (OSError, EOFError, ValueError, LookupError, TypeError, RecursionError, zlib.error)


# Reviews

REVIEW = 4096  # symbols, the end included
LETTERS = 132  # which leaves 135 symbols with the special ones, as published
RARE = 15  # a letter that occurs less often is unknown
REVIEWS = 25_000  # for training, and as many for testing
KINDS = ("neg", "pos")  # by label
FOLDER, SUBSET = "aclImdb", "imdb_subset.jsonl.gz"


class Reviews(NamedTuple):
    """Texts, and for each whether it praises (1) or not (0)."""

    texts: list[str]
    labels: list[int]


def has_folder(root: Path) -> bool:
    """Tell whether the unpacked archive is there."""
    parts = [root / FOLDER / part / kind for part in ("train", "test") for kind in KINDS]
    return all(folder.is_dir() for folder in parts)


def read_reviews(root: Path) -> Splits:
    """Return reviews as symbols, a tenth of the training part being held out for validation.

    The published runs choose their best epoch on the test set; these do not.
    """
    whole = has_folder(root)
    train, test = read_folder(root / FOLDER) if whole else read_lines(root / SUBSET)
    if whole and (len(train.texts), len(test.texts)) != (REVIEWS, REVIEWS):
        warnings.warn(
            f"{root / FOLDER} has {len(train.texts):,} + {len(test.texts):,} reviews, not "
            f"{REVIEWS:,} + {REVIEWS:,}: results cannot be compared with the paper's",
            stacklevel=2,
        )
    held = len(train.texts) // 10
    val, kept = stratified(np.array(train.labels), (held, len(train.texts) - held))
    learned = [train.texts[i] for i in kept]
    symbols = symbols_of(learned)
    return Splits(
        encode(learned, [train.labels[i] for i in kept], symbols),
        encode([train.texts[i] for i in val], [train.labels[i] for i in val], symbols),
        encode(test.texts, test.labels, symbols),
    )


def read_folder(folder: Path) -> tuple[Reviews, Reviews]:
    """Read the reviews of the unpacked archive, by label and name: training and test."""
    parts = []
    for part in ("train", "test"):
        reviews = Reviews([], [])
        for label, kind in enumerate(KINDS):
            paths = sorted(p for p in (folder / part / kind).glob("*.txt") if p.name[0] != ".")
            if not paths:
                raise DataDamaged(
                    f"there is no review in {folder / part / kind}: unpack the archive again"
                )
            reviews.texts.extend(_read_text(path) for path in paths)
            reviews.labels.extend([label] * len(paths))
        parts.append(reviews)
    return parts[0], parts[1]


def _read_text(path: Path) -> str:
    try:
        text = path.read_bytes().decode("utf-8")
    except PermissionError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        raise DataDamaged(f"{path} is damaged ({error}): {REMEDY}") from error
    if not text or "\0" in text:
        raise DataDamaged(f"{path} is damaged (it is empty, or no text): {REMEDY}")
    return text


def read_lines(path: Path) -> tuple[Reviews, Reviews]:
    """Read reviews from a compressed file with one JSON object in each line."""
    parts = {"train": Reviews([], []), "test": Reviews([], [])}
    number = 0
    try:
        with gzip.open(path) as file:
            for number, line in enumerate(file, start=1):
                row = json.loads(line)
                reviews, label, text = parts[row["split"]], row["label"], row["text"]
                if label not in (0, 1) or not isinstance(text, str) or not text:
                    raise DataDamaged(
                        f"{path} is damaged (line {number} is no review with a label 0 or 1): "
                        f"{REMEDY}"
                    )
                reviews.labels.append(int(label))
                reviews.texts.append(text)
    except DataDamaged:
        raise
    except PermissionError:
        raise
    except (
        OSError,
        EOFError,
        ValueError,
        LookupError,
        TypeError,
        RecursionError,
        zlib.error,
    ) as error:
        why = f"after line {number}: {type(error).__name__} {error}"
        raise DataDamaged(f"{path} is damaged ({why}): {REMEDY}") from error
    for part, reviews in parts.items():
        if set(reviews.labels) != {0, 1}:
            raise DataDamaged(f"{path}: the {part} part lacks a class or is empty: {REMEDY}")
    return parts["train"], parts["test"]


def symbols_of(texts: Sequence[str]) -> np.ndarray:
    """Return the symbol of every Unicode letter: the more frequent in the texts, the smaller.

    Shapes
    ------
    result : (0x110000,), uint8
    """
    counts = np.bincount(_codes("".join(t[: REVIEW - 1] for t in texts)), minlength=0x110000)
    frequent = np.flatnonzero(counts >= RARE)
    frequent = frequent[np.argsort(-counts[frequent], kind="stable")][:LETTERS]
    symbols = np.full(0x110000, UNKNOWN, np.uint8)
    symbols[frequent] = SPECIAL + np.arange(len(frequent))
    return symbols


def encode(texts: Sequence[str], labels: Sequence[int], symbols: np.ndarray) -> Samples:
    """Return texts as symbols (n, 4096), each cut if need be and followed by an end."""
    x = np.full((len(texts), REVIEW), PADDING, np.uint8)
    lengths = np.empty(len(texts), np.int64)
    for row, text in enumerate(texts):
        letters = symbols[_codes(text[: REVIEW - 1])]
        x[row, : len(letters)] = letters
        x[row, len(letters)] = END
        lengths[row] = len(letters) + 1
    y = torch.tensor(labels, dtype=torch.int64)
    return Samples(torch.from_numpy(x), y, torch.from_numpy(lengths))


def _codes(text: str) -> np.ndarray:
    # Half a surrogate pair is no letter, but JSON may hold one.
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")


ARCHIVE = Download(
    urls=("https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",),
    checksum="md5:7c2ac02c03563afcf9b574c7e56c153a",
    path=FOLDER,
    unpacked=1_000_000_000,
)
TEXT = Task(
    name="text",
    title="LRA Text, IMDb reviews",
    size=(REVIEW,),
    in_channels=1,
    classes=2,
    vocabulary=SPECIAL + LETTERS,
    counts=(22_500, 2_500, 25_000),
    source="Large Movie Review Dataset, ai.stanford.edu/~amaas/data/sentiment",
    paper={"ccnn_4_140": 83.59, "ccnn_6_380": 84.08},
    files=f"{FOLDER}/{{train,test}}/{{pos,neg}} or {SUBSET}",
    find=lambda root: has_folder(root) or (root / SUBSET).is_file(),
    read=read_reviews,
    fetch=fetcher(ARCHIVE),
)


# Pairs of papers

PAPER = 4000  # symbols, the end included
PAIRS = {part: f"new_aan_pairs.{part}.tsv" for part in ("train", "eval", "test")}
PLACES = ("", "tsv_data", "lra_release/tsv_data", "lra_release/lra_release/tsv_data", "aan")
LONGEST = 1 << 25  # bytes of a line; more is no table
# The papers are written as Python writes bytes, so all of their letters are printable ASCII.
ASCII = bytes(SPECIAL + code - 32 if 32 <= code < 127 else UNKNOWN for code in range(256))


def find_pairs(root: Path) -> Path | None:
    """Return the folder of the three tables."""
    folders = [root / place for place in PLACES]
    return next((f for f in folders if all((f / n).is_file() for n in PAIRS.values())), None)


def read_pairs(root: Path) -> Splits:
    """Return pairs of papers as symbols, and whether one cites the other."""
    folder = find_pairs(root)
    assert folder is not None  # `find` has seen it
    train, val, test = (read_table(folder / name) for name in PAIRS.values())
    return Splits(train, val, test)


def read_table(path: Path) -> Samples:
    """Read label, two names and two texts from each line of a table.

    Shapes
    ------
    result : x (n, 2, 4000) of symbols, lengths (n, 2)
    """
    x = bytearray()
    lengths: list[int] = []
    labels: list[int] = []
    try:
        with path.open("rb") as file:
            while line := file.readline(LONGEST):
                label, texts = _pair(path, len(labels) + 1, line)
                labels.append(label)
                for text in texts:
                    letters = text[: PAPER - 1].translate(ASCII)
                    x += letters + bytes([END]) + bytes(PAPER - 1 - len(letters))
                    lengths.append(len(letters) + 1)
    except PermissionError:
        raise
    except OSError as error:
        raise DataDamaged(f"{path} is damaged ({error}): {REMEDY}") from error
    if not labels:
        raise DataDamaged(f"{path} is damaged (it is empty): {REMEDY}")
    return Samples(
        torch.frombuffer(x, dtype=torch.uint8).view(-1, 2, PAPER),
        torch.tensor(labels, dtype=torch.int64),
        torch.tensor(lengths, dtype=torch.int64).view(-1, 2),
    )


def _pair(path: Path, number: int, line: bytes) -> tuple[int, list[bytes]]:
    """Return the label and the texts of a line."""
    fields = line.rstrip(b"\r\n").split(b"\t")
    labels = {b"0": 0, b"1": 1, b"0.0": 0, b"1.0": 1}
    texts = fields[3:]
    if len(fields) != 5 or fields[0] not in labels or not all(_complete(t) for t in texts):
        raise DataDamaged(
            f"{path} is damaged (line {number} is not a label 0 or 1, two names and two whole "
            f"texts): {REMEDY}"
        )
    return labels[fields[0]], texts


def _complete(text: bytes) -> bool:
    """Tell whether there is text, and its quote, if it begins with one, is closed."""
    if text[:2] in (b"b'", b'b"'):
        return len(text) > 2 and text[-1:] == text[1:2]
    return bool(text)


RETRIEVAL = Task(
    name="retrieval",
    title="LRA Retrieval, AAN citations",
    size=(PAPER,),
    in_channels=1,
    classes=2,
    vocabulary=SPECIAL + 95,
    pair=True,
    counts=(147_086, 18_090, 17_437),
    source="Long Range Arena release, new_aan_pairs.{train,eval,test}.tsv",
    files=", ".join(PAIRS.values()) + " (or in lra_release/tsv_data)",
    find=lambda root: find_pairs(root) is not None,
    read=read_pairs,
)
