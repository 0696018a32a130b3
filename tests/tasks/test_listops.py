"""ListOps: expressions are worth what their labels say, and ours are like the Arena's."""

import gzip
import math

import numpy as np
import pytest
import torch

from ccnn.tasks import TASKS, DataDamaged
from ccnn.tasks.listops import GENERATED, as_samples, encode, make, read_generated, read_tsv
from ccnn.tasks.listops_generate import Expressions, Rules, expressions
from ccnn.tasks.listops_symbols import CLOSE, DIGIT_0, OPERATORS, VOCABULARY, evaluate

TASK = TASKS["listops"]
ARENA = [f"lra_listops_basic_{part}.tsv.gz" for part in ("val", "test")]
HEADER = b"Source\tTarget\r\n"


def split(data: Expressions) -> list[np.ndarray]:
    return np.split(data.symbols, np.cumsum(data.lengths)[:-1])


def wrong(data: Expressions) -> int:
    values = [evaluate(symbols.tolist()) for symbols in split(data)]
    return sum(a != b for a, b in zip(values, data.values.tolist(), strict=True))


def as_text(symbols: np.ndarray) -> bytes:
    """Write an expression as the Arena does: an argument and what is left of it in brackets."""
    stack: list[list[str]] = [[]]
    for symbol in symbols.tolist():
        word = VOCABULARY[symbol]
        if symbol in OPERATORS:
            stack.append([word])
            continue
        if symbol == CLOSE:
            inner = stack.pop()
            word = f"( {inner[0]} ] )"
        left = stack[-1]
        stack[-1] = [f"( {left[0]} {word} )"] if left else [word]
    return stack[0][0].encode()


def write_tsv(path, data: Expressions) -> None:
    rows = [
        as_text(s) + b"\t%d\r\n" % v for s, v in zip(split(data), data.values.tolist(), strict=True)
    ]
    content = HEADER + b"".join(rows)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


@pytest.fixture(scope="module")
def generated() -> Expressions:
    return expressions(10_000, np.random.default_rng(0))


@pytest.fixture(scope="module")
def real(data_root) -> Expressions:
    files = [data_root / name for name in ARENA]
    if not all(path.is_file() for path in files):
        pytest.skip(f"no {' and '.join(ARENA)} in {data_root}")
    parts = zip(*(read_tsv(path) for path in files), strict=True)
    return Expressions(*(np.concatenate(arrays) for arrays in parts))


# What an expression is worth


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("( ( ( [MAX 2 ) 9 ) ] )", 9),
        ("( ( ( ( [MIN 7 ) 3 ) 5 ) ] )", 3),
        ("( ( ( ( [MED 1 ) 9 ) 4 ) ] )", 4),
        ("( ( ( [MED 1 ) 4 ) ] )", 2),  # 2.5, rounded down
        ("( ( ( ( ( [MED 9 ) 0 ) 8 ) 1 ) ] )", 4),  # the middle ones are 1 and 8
        ("( ( ( ( [SM 7 ) 8 ) 9 ) ] )", 4),
        ("( ( ( [SM ( ( ( [MAX 4 ) 6 ) ] ) ) ( ( ( [MIN 9 ) 8 ) ] ) ) ] )", 4),
    ],
)
def test_small_expressions_are_worth_what_one_sees(text, value):
    assert evaluate(encode(text.encode())) == value


@pytest.mark.parametrize("symbols", [[], [4, 4], [14, 4], [14, 3], [3], [14, 4, 3, 3], [0], [18]])
def test_what_is_no_expression_has_no_value(symbols):
    with pytest.raises(ValueError, match=r"does not fit|not one whole"):
        evaluate(symbols)


def test_no_label_of_the_arenas_files_is_wrong(real):
    assert len(real.values) == 400
    assert wrong(real) == 0


def test_no_label_of_the_original_files_is_wrong(data_root):
    path = data_root / "listops_test_d20s.tsv.gz"
    if not path.is_file():
        pytest.skip(f"no {path.name} in {data_root}")
    rows = [line.split(b"\t") for line in gzip.decompress(path.read_bytes()).splitlines()]
    assert len(rows) == 10_000
    assert sum(evaluate(encode(text)) != int(value) for value, text in rows) == 0


def test_no_label_of_ten_thousand_generated_expressions_is_wrong(generated):
    assert len(generated.values) == 10_000
    assert wrong(generated) == 0


# What generated expressions are like


def test_generated_expressions_keep_the_rules(generated):
    assert generated.lengths.min() > 500
    assert generated.lengths.max() < 2000
    for symbols in split(generated)[:500]:
        arguments: list[int] = []
        for symbol in symbols.tolist():
            if symbol == CLOSE:
                assert 2 <= arguments.pop() <= 10
            elif arguments:
                arguments[-1] += 1
            if symbol in OPERATORS:
                arguments.append(0)
            assert len(arguments) <= 9  # nine levels of operators, digits at the tenth
        assert not arguments


def test_no_two_generated_expressions_are_the_same(generated):
    assert len({symbols.tobytes() for symbols in split(generated)}) == 10_000


def measures(data: Expressions) -> dict[str, np.ndarray]:
    """Return numbers for each expression: length, depth, and how often what occurs."""
    parts = split(data)
    counts = np.stack([np.bincount(symbols, minlength=len(VOCABULARY)) for symbols in parts])
    step = np.isin(data.symbols, OPERATORS).astype(int) - (data.symbols == CLOSE)
    nested = [np.cumsum(s) for s in np.split(step, np.cumsum(data.lengths)[:-1])]
    operators = counts[:, list(OPERATORS)]
    return {
        "length": data.lengths,
        "depth": np.array([level.max() for level in nested]),
        "mean level": np.array([level.mean() for level in nested]),
        "value": data.values,
        # Every argument is a digit or an operator, but for the outermost one.
        "arguments": (counts[:, DIGIT_0 : DIGIT_0 + 10].sum(1) + operators.sum(1) - 1)
        / operators.sum(1),
        **{
            VOCABULARY[symbol]: counts[:, symbol] / counts.sum(1)
            for symbol in range(CLOSE, len(VOCABULARY))
        },
    }


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """Return the largest difference of two empirical distribution functions."""
    at = np.union1d(a, b)
    shares = (np.searchsorted(np.sort(s), at, side="right") / len(s) for s in (a, b))
    return float(np.abs(np.subtract(*shares)).max())


def unlike(a: Expressions, b: Expressions) -> list[str]:
    """Return the measures in which two sets differ more than chance allows.

    Kolmogorov and Smirnov: samples of one distribution are farther apart than this once in
    10,000 times, each measure by itself.
    """
    one, two = measures(a), measures(b)
    n, m = len(a.values), len(b.values)
    allowed = math.sqrt(-math.log(1e-4 / 2) / 2 * (n + m) / (n * m))
    return [name for name in one if distance(one[name], two[name]) > allowed]


def test_generated_expressions_are_like_the_arenas(generated, real):
    assert unlike(real, generated) == []


@pytest.mark.parametrize(
    ("rules", "seen"),
    [
        (Rules(levels=8), "depth"),
        (Rules(most_arguments=8), "arguments"),
        (Rules(operator_share=0.3), "]"),
        (Rules(shorter_than=1500), "length"),
    ],
)
def test_other_rules_would_be_noticed(rules, seen, real):
    assert seen in unlike(real, expressions(1000, np.random.default_rng(0), rules))


def test_a_preferred_operator_would_be_noticed(real, generated):
    symbols = generated.symbols.copy()
    some = np.flatnonzero(symbols == OPERATORS[0])[::4]
    symbols[some] = OPERATORS[1]  # every fourth MIN a MAX
    assert "[MAX" in unlike(real, generated._replace(symbols=symbols))


# Making files


COUNTS = {"train": 1002, "val": 3, "test": 2}  # two chunks, one and one


def contents(folder) -> list[bytes]:
    return [(folder / GENERATED.format(part)).read_bytes() for part in COUNTS]


def test_files_depend_on_the_seed_and_not_on_the_processes(tmp_path):
    make(tmp_path / "one", COUNTS, processes=1)
    make(tmp_path / "two", COUNTS, processes=2)
    make(tmp_path / "other", COUNTS, seed=1, processes=1)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert not set(contents(tmp_path / "one")) & set(contents(tmp_path / "other"))


def test_made_files_are_kept_and_read(tmp_path):
    counts = {"train": 40, "val": 30, "test": 20}
    assert not TASK.present(tmp_path)
    make(tmp_path, counts, processes=1)
    before = contents(tmp_path)
    make(tmp_path, counts, seed=1, processes=1)  # does nothing: they are there
    assert contents(tmp_path) == before
    assert TASK.present(tmp_path)
    splits = TASK.load(tmp_path)
    assert [len(part) for part in (splits.train, splits.val, splits.test)] == [40, 30, 20]


def test_a_file_that_was_not_finished_is_not_there(tmp_path, monkeypatch):
    def stop(file, **arrays):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez_compressed", stop)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, {"train": 3}, processes=1)
    assert [path.name for path in tmp_path.iterdir()] in ([], [".fetch.lock"])


# Reading files


@pytest.fixture
def small(tmp_path):
    """The three files of the Arena, short."""
    data = expressions(30, np.random.default_rng(3), Rules(longer_than=4, shorter_than=100))
    folder = tmp_path / "lra_release" / "listops-1000"
    folder.mkdir(parents=True)
    write_tsv(folder / "basic_train.tsv", data)
    for part in ("val", "test"):
        write_tsv(folder / f"basic_{part}.tsv.gz", data)
    return tmp_path, folder, data


def test_what_is_read_is_what_was_written(small):
    root, _, data = small
    splits = TASK.load(root)
    for part in (splits.train, splits.val, splits.test):
        assert part.y.tolist() == data.values.tolist()
        assert (part.x.shape, part.y.dtype) == ((30, 2048), torch.int64)
        for row, length, symbols in zip(part.x, part.lengths, split(data), strict=True):
            assert row[: length - 1].tolist() == symbols.tolist()
            assert VOCABULARY[row[length - 1]] == "<eos>"
            assert not row[length:].any()


def test_padding_changes_no_result(small):
    """The lengths are such that what lies behind an expression does not exist."""
    import ccnn

    samples = TASK.load(small[0]).val.take(slice(3))
    model = ccnn.CCNN(
        4, 10, (2048,), blocks=1, channels=4, kernel_size=33, embedding=len(VOCABULARY)
    ).eval()
    one = model(samples.x, ccnn.Grid(lengths=samples.lengths))
    behind = torch.arange(2048) >= samples.lengths[:, None]
    two = model(torch.where(behind, 7, samples.x), ccnn.Grid(lengths=samples.lengths))
    torch.testing.assert_close(one, two)


def test_the_arenas_file_goes_before_a_made_one(small):
    root, _, data = small
    make(root, {"train": 4, "val": 3, "test": 2}, processes=1)
    assert len(TASK.load(root).train) == len(data.values)


def test_a_real_file_is_read(data_root, real):
    samples = as_samples(read_tsv(data_root / ARENA[0]), data_root / ARENA[0])
    assert (len(samples), samples.x.shape[1]) == (200, 2048)
    assert samples.lengths.min() >= 502  # with the end; the data's own README says 501 to 1,995
    assert samples.lengths.max() <= 1996
    assert samples.x.max() == len(VOCABULARY) - 1


ROW = b"( ( ( [MAX 2 ) 9 ) ] )\t9\r\n"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        HEADER,
        b"<html>404</html>",
        HEADER + ROW[:-1] + ROW,  # a line that does not end
        HEADER + ROW[:-3],
        HEADER + ROW + ROW[:10],
        HEADER + ROW.replace(b"\t9", b"\t10"),
        HEADER + ROW.replace(b"\t9", b"\tx"),
        HEADER + ROW.replace(b"\t9", b""),
        HEADER + ROW.replace(b"2 )", b"22 )"),
        HEADER + ROW.replace(b"2", b"?"),
        HEADER + ROW.replace(b"[MAX", b"[MUX"),
        HEADER + ROW.replace(b"[MAX", b"a"),
        HEADER + ROW.replace(b"]", b"2"),
        HEADER + b"( ( [SM" + b" 1 )" * 2100 + b" ] )\t0\r\n",
    ],
)
def test_a_damaged_text_is_named_with_what_to_do(content, small):
    root, folder, _ = small
    (folder / "basic_train.tsv").write_bytes(content)
    with pytest.raises(DataDamaged, match=r"basic_train.tsv.*fetch") as refusal:
        TASK.load(root)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("how", ["cut", "empty", "flipped", "plain"])
def test_a_damaged_compressed_text_is_named(how, small):
    root, folder, _ = small
    path = folder / "basic_test.tsv.gz"
    content = path.read_bytes()
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :]
    path.write_bytes({"cut": content[:middle], "flipped": flipped, "plain": HEADER}.get(how, b""))
    with pytest.raises(DataDamaged, match=r"basic_test.tsv.gz.*fetch"):
        TASK.load(root)


def arrays(path) -> dict[str, np.ndarray]:
    with np.load(path) as file:
        return dict(file)


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a | {"values": a["values"][:-1]},
        lambda a: a | {"values": a["values"] + 10},
        lambda a: a | {"values": a["values"].astype(np.int64)},
        lambda a: a | {"symbols": a["symbols"][:-1]},
        lambda a: a | {"symbols": a["symbols"] * 0},
        lambda a: a | {"symbols": a["symbols"] + 100},
        lambda a: a | {"lengths": a["lengths"] * 0},
        lambda a: {"symbols": a["symbols"], "lengths": a["lengths"]},
        lambda a: a | {"symbols": np.array([None, {}], dtype=object)},
        lambda a: {name: array[:0] for name, array in a.items()},
    ],
)
def test_damaged_arrays_are_named(change, tmp_path):
    make(tmp_path, {"train": 4, "val": 3, "test": 2}, processes=1)
    path = tmp_path / GENERATED.format("val")
    np.savez(path, **change(arrays(path)))
    with pytest.raises(DataDamaged, match=f"{path.name}.*(make|fetch) it again"):
        TASK.load(tmp_path)


def test_any_flipped_byte_of_a_made_file_is_noticed_or_harmless(tmp_path):
    make(tmp_path, {"train": 2}, processes=1)
    path = tmp_path / GENERATED.format("train")
    content, whole = path.read_bytes(), read_generated(path)
    noticed = 0
    for position in range(0, len(content), 37):
        damaged = bytearray(content)
        damaged[position] ^= 0x55
        path.write_bytes(damaged)
        try:
            read = read_generated(path)
        except DataDamaged:
            noticed += 1
        else:  # dates and the like
            assert all(np.array_equal(a, b) for a, b in zip(read, whole, strict=True))
    assert noticed > len(content) / 37 * 0.7
