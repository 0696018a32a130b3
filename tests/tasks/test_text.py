"""Text and Retrieval: letters as symbols, nothing from padding, a validation part of their own."""

import gzip
import json
import tarfile

import numpy as np
import pytest
import torch

from ccnn.conf import compose
from ccnn.run import build_model, evaluate, train
from ccnn.tasks import TASKS, DataDamaged
from ccnn.tasks.archive import unpack
from ccnn.tasks.text import (
    ARCHIVE,
    END,
    PAIRS,
    REVIEW,
    SPECIAL,
    SUBSET,
    UNKNOWN,
    encode,
    read_folder,
    symbols_of,
)

TEXT, RETRIEVAL = TASKS["text"], TASKS["retrieval"]
COMPARED = "results cannot be compared"  # what a folder that is not the whole set says
pytestmark = pytest.mark.filterwarnings(f"ignore:.*{COMPARED}")


def review(part, kind, number):
    return f"{part} {kind} {number}: quite a café, <br />really " + "so " * (number + 1)


@pytest.fixture
def folder(tmp_path):
    """Twenty reviews of each kind for training and three for testing, as the archive has them."""
    for part, count in {"train": 20, "test": 3}.items():
        for kind in ("pos", "neg"):
            where = tmp_path / "aclImdb" / part / kind
            where.mkdir(parents=True)
            for i in reversed(range(count)):
                path = where / f"{i}_{9 if kind == 'pos' else 2}.txt"
                path.write_text(review(part, kind, i), encoding="utf-8")
            (where / "._0_9.txt").write_bytes(b"\xff what a Mac leaves behind")
    return tmp_path


# Symbols


def test_frequent_letters_have_small_symbols_and_rare_ones_none():
    symbols = symbols_of(["e" * 40 + "a" * 20 + "b" * 20 + "é" * 15 + "z" * 14, "e"])
    assert [int(symbols[ord(c)]) for c in "eabé"] == [3, 4, 5, 6]  # a before b, as in Unicode
    assert symbols[ord("z")] == UNKNOWN
    assert symbols.max() == 6


def test_there_are_never_more_symbols_than_the_task_says():
    many = [chr(1000 + i) * (15 + i % 7) for i in range(300)]
    symbols = symbols_of(many)
    assert symbols.max() == TEXT.vocabulary - 1
    assert (symbols != UNKNOWN).sum() == TEXT.vocabulary - SPECIAL


def test_a_long_text_is_cut_and_ends_all_the_same():
    symbols = symbols_of(["ab" * 20])
    short, long, odd = "ab", "ab" * 4000, "a\ud800b"  # the last is half a letter
    samples = encode([short, long, odd], [0, 1, 0], symbols)
    assert (samples.x.dtype, samples.x.shape) == (torch.uint8, (3, REVIEW))
    assert samples.lengths.tolist() == [3, REVIEW, 4]
    assert samples.x[0, :4].tolist() == [3, 4, END, 0]
    assert samples.x[1, -3:].tolist() == [4, 3, END]
    assert samples.x[2, :4].tolist() == [3, UNKNOWN, 4, END]


def test_letters_behind_the_cut_are_not_counted():
    assert symbols_of(["a" * (REVIEW - 1) + "b" * 100])[ord("b")] == UNKNOWN


# Reviews


def test_reviews_of_the_archive_are_read_by_label_and_name(folder):
    train_part, test_part = read_folder(folder / "aclImdb")
    assert train_part.labels == [0] * 20 + [1] * 20
    assert test_part.texts == [review("test", kind, i) for kind in ("neg", "pos") for i in range(3)]


def test_validation_is_a_tenth_of_training_with_both_classes_and_never_test(folder):
    splits = TEXT.load(folder)
    assert [len(p) for p in (splits.train, splits.val, splits.test)] == [36, 4, 6]
    assert splits.val.y.bincount().tolist() == [2, 2]
    rows = {}
    for samples in (splits.train, splits.val):
        for row in range(len(samples)):
            rows[bytes(samples.x[row].tolist())] = int(samples.y[row])
    assert len(rows) == 40  # no review twice, none lost: no two of them have the same letters
    assert sorted(rows.values()) == read_folder(folder / "aclImdb")[0].labels
    assert 0 < splits.train.y[:8].sum() < 8  # mixed, for those who take the first few


def test_a_letter_is_the_same_symbol_everywhere(folder):
    test = TEXT.load(folder).test
    meaning = {}
    for row, text in enumerate(read_folder(folder / "aclImdb")[1].texts):
        assert test.lengths[row] == len(text) + 1
        assert test.x[row, len(text)] == END
        assert not test.x[row, len(text) + 1 :].any()
        for letter, symbol in zip(text, test.x[row, : len(text)].tolist(), strict=True):
            assert meaning.setdefault(letter, symbol) == symbol
    assert meaning[" "] == SPECIAL  # the most frequent one
    known = [symbol for symbol in meaning.values() if symbol != UNKNOWN]
    assert len(set(known)) == len(known) > 15


def test_the_split_repeats(folder):
    one, two = TEXT.load(folder), TEXT.load(folder)
    for part in ("train", "val", "test"):
        assert torch.equal(vars(one)[part].x, vars(two)[part].x)
        assert torch.equal(vars(one)[part].y, vars(two)[part].y)


def test_a_folder_that_is_not_the_whole_set_is_warned_of(folder):
    with pytest.warns(UserWarning, match=rf"40 \+ 6 reviews.*{COMPARED}"):
        TEXT.load(folder)


def test_the_published_archive_becomes_the_folder_that_is_looked_for(folder, tmp_path):
    archive = tmp_path / "aclImdb_v1.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(folder / "aclImdb", "aclImdb")
    root = tmp_path / "elsewhere"
    unpack(archive, root / ARCHIVE.path, limit=ARCHIVE.unpacked)
    assert torch.equal(TEXT.load(root).val.x, TEXT.load(folder).val.x)


@pytest.mark.parametrize("how", ["empty", "no text", "binary", "folder"])
def test_a_damaged_review_is_named(how, folder):
    path = folder / "aclImdb" / "train" / "pos" / "3_9.txt"
    match how:
        case "empty":
            path.write_bytes(b"")
        case "no text":
            path.write_bytes(bytes(100))
        case "binary":
            path.write_bytes(b"caf\xe9")
        case "folder":
            path.unlink()
            path.mkdir()
    with pytest.raises(DataDamaged, match=r"3_9\.txt is damaged.*fetch it again") as refusal:
        TEXT.load(folder)
    assert "\n" not in str(refusal.value)


def test_a_kind_without_reviews_is_refused(folder):
    for path in (folder / "aclImdb" / "test" / "neg").iterdir():
        path.unlink()
    with pytest.raises(DataDamaged, match=r"no review in .*test.neg: unpack the archive again"):
        TEXT.load(folder)


# Reviews in one file


def rows():
    return [
        {"split": part, "label": label, "file": "x", "text": review(part, "any", i)}
        for part, count in {"train": 20, "test": 4}.items()
        for i, label in enumerate([0, 1] * (count // 2))
    ]


def write_rows(path, content):
    path.write_bytes(gzip.compress("".join(json.dumps(r) + "\n" for r in content).encode()))


def test_a_file_of_reviews_is_read(tmp_path):
    write_rows(tmp_path / SUBSET, rows())
    splits = TEXT.load(tmp_path)
    assert [len(p) for p in (splits.train, splits.val, splits.test)] == [18, 2, 4]
    assert splits.test.y.tolist() == [0, 1, 0, 1]
    assert splits.test.lengths.tolist() == [len(r["text"]) + 1 for r in rows()[20:]]


def damaged_lines(how):
    good = "".join(json.dumps(r) + "\n" for r in rows()).encode()
    packed = gzip.compress(good)
    first = rows()[0]
    return {
        "empty": b"",
        "page": b"<html>404</html>",
        "cut": packed[: len(packed) // 2],
        "flipped": packed[:200] + bytes(9) + packed[209:],
        "nothing": gzip.compress(b""),
        "one class": gzip.compress(json.dumps(first).encode()),
        "json": gzip.compress(good[:-30]),
        "letters": gzip.compress(good + b'{"split": "\xff"}'),
        "nested": gzip.compress(b"[" * 100_000),
        "list": gzip.compress(good + b"[1, 2]"),
        "number": gzip.compress(good + b"7"),
        "part": gzip.compress(good + json.dumps(first | {"split": "dev"}).encode()),
        "parts": gzip.compress(good + json.dumps(first | {"split": ["train"]}).encode()),
        "label": gzip.compress(good + json.dumps(first | {"label": 2}).encode()),
        "text": gzip.compress(good + json.dumps(first | {"text": ""}).encode()),
        "texts": gzip.compress(good + json.dumps(first | {"text": ["a"]}).encode()),
        "key": gzip.compress(good + b"{}"),
    }[how]


@pytest.mark.parametrize(
    "how",
    [
        *("empty", "page", "cut", "flipped", "nothing", "one class", "json", "letters", "nested"),
        *("list", "number", "part", "parts", "label", "text", "texts", "key"),
    ],
)
def test_a_damaged_file_of_reviews_is_named(how, tmp_path):
    (tmp_path / SUBSET).write_bytes(damaged_lines(how))
    with pytest.raises(DataDamaged, match=rf"{SUBSET}.*fetch it again") as refusal:
        TEXT.load(tmp_path)
    assert "\n" not in str(refusal.value)


def test_real_reviews_are_read(data_root):
    if not (data_root / SUBSET).is_file():
        pytest.skip(f"no {SUBSET} in {data_root}")
    splits = TEXT.load(data_root)
    assert [len(p) for p in (splits.train, splits.val, splits.test)] == [900, 100, 500]
    assert splits.train.y.bincount().tolist() == [450, 450]
    assert splits.val.y.bincount().tolist() == [50, 50]
    assert splits.train.x.max() < TEXT.vocabulary
    with gzip.open(data_root / SUBSET, "rt", encoding="utf-8") as file:
        test_texts = [row["text"] for row in map(json.loads, file) if row["split"] == "test"]
    space, e = splits.train.x[splits.train.x >= SPECIAL].bincount().argsort(descending=True)[:2]
    assert (space, e) == (SPECIAL, SPECIAL + 1)  # the two most frequent letters of English
    for row, text in enumerate(test_texts):
        cut = text[: REVIEW - 1]
        assert splits.test.lengths[row] == len(cut) + 1
        got = splits.test.x[row, : len(cut)]
        places = torch.tensor([c == " " for c in cut])
        assert torch.equal(got == space, places)
    unknown = (splits.test.x == UNKNOWN).sum() / splits.test.lengths.sum()
    assert unknown < 1e-3


# Pairs


def table(count, seed=0):
    """Return lines as in the Arena's files: label, two names, two papers as Python prints bytes."""
    random = np.random.RandomState(seed)
    lines = []
    for i in range(count):
        texts = [bytes(random.randint(32, 127, random.randint(1, 40)).tolist()) for _ in "ab"]
        lines.append(f"{i % 2}.0\tP{i}\tQ{i}\t{texts[0]!r}\t{texts[1]!r}\n")
    return "".join(lines).encode()


@pytest.fixture
def pairs(tmp_path):
    folder = tmp_path / "lra_release" / "tsv_data"
    folder.mkdir(parents=True)
    for seed, (name, count) in enumerate(zip(PAIRS.values(), (12, 4, 4), strict=True)):
        (folder / name).write_bytes(table(count, seed))
    return tmp_path


def test_pairs_are_read_as_they_stand(pairs):
    splits = RETRIEVAL.load(pairs)
    assert [len(p) for p in (splits.train, splits.val, splits.test)] == [12, 4, 4]
    lines = table(4, seed=2).decode().splitlines()
    for row, line in enumerate(lines):
        label, _, _, *texts = line.split("\t")
        assert splits.test.y[row] == float(label)
        for side, text in enumerate(texts):
            length = splits.test.lengths[row, side]
            assert length == len(text) + 1
            symbols = splits.test.x[row, side]
            got = "".join(chr(s - SPECIAL + 32) for s in symbols[: length - 1].tolist())
            assert got == text
            assert symbols[length - 1] == END
            assert not symbols[length:].any()


def test_pairs_have_the_declared_shape_and_no_more_memory_than_letters(pairs):
    train_part = RETRIEVAL.load(pairs).train
    assert (train_part.x.dtype, train_part.x.shape) == (torch.uint8, (12, 2, 4000))
    assert train_part.lengths.shape == (12, 2)
    assert train_part.x.max() < RETRIEVAL.vocabulary


@pytest.mark.parametrize("place", [".", "tsv_data", "lra_release/lra_release/tsv_data", "aan"])
def test_pairs_are_found_where_people_put_them(place, pairs, tmp_path):
    root = tmp_path / "elsewhere"
    (root / place).parent.mkdir(parents=True, exist_ok=True)
    (pairs / "lra_release" / "tsv_data").rename(root / place)
    assert RETRIEVAL.present(root)


def test_long_papers_are_cut_and_strange_letters_unknown(pairs):
    path = pairs / "lra_release" / "tsv_data" / PAIRS["test"]
    path.write_bytes(b"1\ta\tb\t" + b"x" * 5000 + b"\tcaf\xc3\xa9\x01\r\n0\ta\tb\tb''\tb\"'\"\n")
    test = RETRIEVAL.load(pairs).test
    assert test.y.tolist() == [1, 0]
    assert test.lengths.tolist() == [[4000, 7], [4, 5]]
    assert (test.x[0, 0, :-1] == SPECIAL + ord("x") - 32).all()
    assert test.x[0, 0, -1] == END
    assert test.x[0, 1, 3:8].tolist() == [UNKNOWN, UNKNOWN, UNKNOWN, END, 0]


LINE = b"1.0\tP1\tP2\tb'one'\tb'two'\n"
WRONG_TABLES = {
    "empty": b"",
    "page": b"<html>404</html>\n",
    "four fields": LINE + b"1.0\tP1\tP2\tb'one'\n",
    "six fields": LINE + b"1.0\tP1\tP2\tb'one'\tb'two'\tb'three'\n",
    "cut in the text": LINE + LINE[:-3],
    "cut after the quote": LINE + LINE[: LINE.index(b"two")],
    "cut in the name": LINE + LINE[:6],
    "label": LINE + b"2.0" + LINE[3:],
    "header": b"label\tid1\tid2\ttext1\ttext2\n" + LINE,
    "no text": LINE + b"1.0\tP1\tP2\t\tb'two'\n",
    "empty line": LINE + b"\n" + LINE,
    "zeros": bytes(1000),
}


@pytest.mark.parametrize("content", WRONG_TABLES.values(), ids=WRONG_TABLES)
@pytest.mark.parametrize("part", PAIRS)
def test_a_damaged_table_is_named(content, part, pairs):
    (pairs / "lra_release" / "tsv_data" / PAIRS[part]).write_bytes(content)
    with pytest.raises(DataDamaged, match=rf"{PAIRS[part]} is damaged.*fetch it again") as refusal:
        RETRIEVAL.load(pairs)
    assert "\n" not in str(refusal.value)


# What the network makes of them

TINY = ["model=ccnn_4_48", "model.blocks=1", "model.channels=4", "model.kernel_channels=4"]
TINY += ["trainer.max_epochs=1", "trainer.progress=none", "data.batch_size=6"]


def test_what_stands_in_the_padding_changes_nothing(folder):
    import ccnn

    config = compose(["task=text", *TINY])
    model = build_model(config, TEXT).eval()
    samples = TEXT.load(folder).test
    other = samples.x.clone()
    behind = torch.arange(REVIEW) >= samples.lengths[:, None]
    other[behind] = 77
    grid = ccnn.Grid(lengths=samples.lengths)
    with torch.no_grad():
        assert torch.equal(model(samples.x, grid), model(other, grid))
        short = int(samples.lengths.max())
        cut = model(samples.x[:, :short], grid)
        # Another length of the transforms, in float32.
        torch.testing.assert_close(cut, model(samples.x, grid), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("recipe", ["paper", "authors"])
def test_text_is_learned_as_symbols_or_as_the_authors_numbers(recipe, folder, tmp_path):
    run = tmp_path / "run"
    words = ["task=text", *TINY, f"recipe={recipe}", f"data.root={folder}", f"run={run}"]
    result = train(compose(words))
    assert result.steps == 6
    assert evaluate(run).samples == 6


@pytest.mark.parametrize("recipe", ["paper", "authors"])
def test_pairs_of_unequal_length_are_learned(recipe, pairs, tmp_path):
    run = tmp_path / "run"
    words = ["task=retrieval", *TINY, f"recipe={recipe}", f"data.root={pairs}", f"run={run}"]
    result = train(compose(words))
    assert result.steps == 2
    assert evaluate(run).samples == 4
