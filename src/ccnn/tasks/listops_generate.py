"""Random ListOps expressions in the form of the Long Range Arena, and their values.

The Arena's rules (Tay et al. 2021, after Nangia and Bowman 2018): an argument is an operator with
probability 1/4 and else a digit, operators stand at nine levels at most, have two to ten arguments
and are MIN, MAX, MED or SM with equal chances. Of the expressions that come out, those with more
than 500 and fewer than 2,000 symbols are kept, brackets that only group not counted.

Nobody writes expressions one symbol at a time here: all trees of a batch grow level by level, and
sizes, positions and values are sums over runs of neighbours.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ccnn.tasks.listops_symbols import CLOSE, DIGIT_0, MAX, MED, MIN, OPERATORS, SM

# Trees that grow at once: enough to keep NumPy busy, few enough for the processor's cache.
BATCH = 512


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What expressions are like.

    Parameters
    ----------
    levels
        Levels of nesting: an argument at the last one is always a digit.
    most_arguments
        Operators have from two to this many.
    operator_share
        The probability that an argument is an operator.
    longer_than, shorter_than
        Bounds of the number of symbols, themselves excluded.
    """

    levels: int = 10
    most_arguments: int = 10
    operator_share: float = 0.25
    longer_than: int = 500
    shorter_than: int = 2000


class Expressions(NamedTuple):
    """Expressions one after the other, how long each is, and what each is worth.

    Shapes
    ------
    symbols : (sum of lengths,), numbers of the vocabulary
    lengths : (n,)
    values : (n,)
    """

    symbols: np.ndarray
    lengths: np.ndarray
    values: np.ndarray


class Level(NamedTuple):
    """The nodes of all trees at one depth, those with the same parent being neighbours.

    Shapes
    ------
    tree : (nodes,), which tree each belongs to
    symbol : (nodes,), an operator or a digit
    arguments : (nodes,), 0 for digits
    """

    tree: np.ndarray
    symbol: np.ndarray
    arguments: np.ndarray


def expressions(count: int, rng: np.random.Generator, rules: Rules | None = None) -> Expressions:
    """Return `count` random expressions."""
    rules = rules or Rules()
    parts: list[Expressions] = []
    found = 0
    while found < count:
        levels = _grow(rng, rules)
        parts.append(_write(levels))
        found += len(parts[-1].lengths)
    symbols, lengths, values = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return Expressions(symbols[: lengths[:count].sum()], lengths[:count], values[:count])


def _grow(rng: np.random.Generator, rules: Rules) -> list[Level]:
    """Return the trees of one batch that have the right length, from the roots down."""
    lengths = np.zeros(BATCH, dtype=np.int64)
    tree = np.arange(BATCH)
    levels = []
    for depth in range(1, rules.levels + 1):
        level = _draw_level(rng, rules, tree, depth, lengths < rules.shorter_than)
        levels.append(level)
        lengths += np.bincount(tree, weights=_own_size(level), minlength=BATCH).astype(np.int64)
        tree = np.repeat(tree, level.arguments)
    right = (lengths > rules.longer_than) & (lengths < rules.shorter_than)
    number = np.cumsum(right) - 1  # of the trees that are kept
    kept = (right[level.tree] for level in levels)
    return [
        Level(number[level.tree[keep]], level.symbol[keep], level.arguments[keep])
        for level, keep in zip(levels, kept, strict=True)
    ]


def _draw_level(
    rng: np.random.Generator, rules: Rules, tree: np.ndarray, depth: int, alive: np.ndarray
) -> Level:
    """Return what stands at one depth: operators, with their number of arguments, and digits."""
    n = len(tree)
    # A root that is a digit would be too short, and a tree that is too long stops growing:
    # neither is kept in the end.
    if depth == 1:
        is_operator = np.ones(n, dtype=bool)
    elif depth < rules.levels:
        is_operator = (rng.random(n) < rules.operator_share) & alive[tree]
    else:
        is_operator = np.zeros(n, dtype=bool)
    operators = np.array(OPERATORS, dtype=np.uint8)[rng.integers(len(OPERATORS), size=n)]
    digits = DIGIT_0 + rng.integers(10, size=n, dtype=np.uint8)
    arguments = rng.integers(2, rules.most_arguments + 1, size=n)
    return Level(
        tree, np.where(is_operator, operators, digits), np.where(is_operator, arguments, 0)
    )


def _own_size(level: Level) -> np.ndarray:
    """Return the symbols of each node without its arguments: an operator has its closing one."""
    return np.where(level.arguments > 0, 2, 1)


def _write(levels: list[Level]) -> Expressions:
    """Write trees as symbols, and work them out."""
    levels = [level for level in levels if len(level.tree)]
    if not levels:
        empty = np.zeros(0, dtype=np.int64)
        return Expressions(empty.astype(np.uint8), empty, empty.astype(np.uint8))
    sizes, values = _measure(levels)
    lengths = sizes[0]
    symbols = np.full(lengths.sum(), CLOSE, dtype=np.uint8)
    position = np.cumsum(lengths) - lengths
    for index, level in enumerate(levels):
        symbols[position] = level.symbol
        if index + 1 < len(levels):
            position = _arguments_positions(position, level.arguments, sizes[index + 1])
    return Expressions(symbols, lengths, values)


def _measure(levels: list[Level]) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the symbols below and at each node, level by level, and the values of the roots."""
    sizes: list[np.ndarray] = []
    value = np.zeros(0, dtype=np.int64)
    for level in reversed(levels):
        is_operator = level.arguments > 0
        size = _own_size(level)
        own = level.symbol.astype(np.int64) - DIGIT_0
        if is_operator.any():
            count = level.arguments[is_operator]
            start = np.cumsum(count) - count
            size[is_operator] += np.add.reduceat(sizes[-1], start)
            own[is_operator] = _apply(level.symbol[is_operator], value, start, count)
        sizes.append(size)
        value = own
    return sizes[::-1], value.astype(np.uint8)


def _apply(
    operator: np.ndarray, value: np.ndarray, start: np.ndarray, count: np.ndarray
) -> np.ndarray:
    """Return what operators make of their arguments, which lie at ``start`` to start + count."""
    group = np.repeat(np.arange(len(count)), count)
    ordered = value[np.lexsort((value, group))]
    lower, upper = ordered[start + (count - 1) // 2], ordered[start + count // 2]
    return np.select(
        [operator == MIN, operator == MAX, operator == MED, operator == SM],
        [
            ordered[start],
            ordered[start + count - 1],
            (lower + upper) // 2,
            np.add.reduceat(value, start) % 10,
        ],
    )


def _arguments_positions(
    position: np.ndarray, arguments: np.ndarray, sizes: np.ndarray
) -> np.ndarray:
    """Return where the arguments of nodes begin, whose own positions and sizes are given."""
    before = np.cumsum(sizes) - sizes  # of all arguments, whoever's they are
    is_operator = arguments > 0
    count = arguments[is_operator]
    first = before[np.cumsum(count) - count]
    begin: np.ndarray = before + np.repeat(position[is_operator] + 1 - first, count)
    return begin
