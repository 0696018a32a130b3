"""The symbols of ListOps, their numbers, and what an expression is worth."""

from collections.abc import Iterable

PADDING, UNKNOWN, END = 0, 1, 2
CLOSE, DIGIT_0 = 3, 4
MIN, MAX, MED, SM = OPERATORS = (14, 15, 16, 17)
# The authors number symbols by how often they occur, the three special ones before. This is that
# order, but for the ten digits and the four operators among themselves, where chance decides.
VOCABULARY = (
    *("<pad>", "<unk>", "<eos>", "]"),
    *map(str, range(10)),
    *("[MIN", "[MAX", "[MED", "[SM"),
)


def evaluate(symbols: Iterable[int]) -> int:
    """Return the value of an expression, read from left to right with a stack.

    The median of an even number of digits is the mean of the two in the middle, rounded down;
    SM is the sum modulo 10.

    Raises
    ------
    ValueError
        If it is not one whole expression.
    """
    # The list that everything is in at the end is the first; its operator is none.
    lists: list[list[int]] = [[]]
    operators: list[int] = []
    for symbol in symbols:
        if DIGIT_0 <= symbol < DIGIT_0 + 10:
            lists[-1].append(symbol - DIGIT_0)
        elif symbol in OPERATORS:
            operators.append(symbol)
            lists.append([])
        elif symbol == CLOSE and operators and lists[-1]:
            lists[-2].append(_apply(operators.pop(), lists.pop()))
        else:
            raise ValueError(f"symbol {symbol} does not fit where it stands")
    if operators or len(lists[0]) != 1:
        raise ValueError("this is not one whole expression")
    return lists[0][0]


def _apply(operator: int, values: list[int]) -> int:
    if operator == MIN:
        return min(values)
    if operator == MAX:
        return max(values)
    if operator == SM:
        return sum(values) % 10
    values = sorted(values)
    return (values[(len(values) - 1) // 2] + values[len(values) // 2]) // 2
