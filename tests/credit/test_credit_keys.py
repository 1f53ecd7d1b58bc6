"""Which two keys are the same key."""

import dataclasses
import enum
import fractions

import numpy as np
import pytest

from turncredit.credit import BadTable, Steps, gigpo
from turncredit.credit.key_codes import Coder, freeze


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass(frozen=True)
class Board:
    cells: tuple[int, ...]


SAME = [
    ("a", np.str_("a")),
    (1, np.int32(1)),
    (1.5, np.float64(1.5)),
    (True, np.bool_(True)),
    (float("nan"), float("nan")),
    ([1, [2, 3]], [1, [2, 3]]),
    ({"b": [1], "a": 2}, {"a": 2, "b": [1]}),
    ({1, 2}, frozenset({2, 1})),
    (np.array([[1, 2], [3, 4]]), np.array([[1, 3], [2, 4]]).T),
    (np.array(["x", None], dtype=object), np.array(["x", None], dtype=object)),
    (Board((1, 2)), Board((1, 2))),
]
DIFFERENT = [
    (1, True),
    (1, 1.0),
    (0, False),
    (1, "1"),
    (1, fractions.Fraction(1)),
    (1, Colour.RED),
    ("a", b"a"),
    (None, "None"),
    ([1, 2], (1, 2)),
    ([1], [True]),
    ([[1, 2], [3, 4]], [1, 2, 3, 4]),
    (np.array([[1, 2], [3, 4]]), np.array([1, 2, 3, 4])),
    (np.array([1, 2]), np.array([1.0, 2.0])),
    (np.array([1, 2], dtype=np.int32), np.array([1, 2], dtype=np.int64)),
    (np.array([1, 2]), [1, 2]),
    ({"a": 1}, {"a": 1.0}),
    (np.array([1, True], dtype=object), np.array([1, 1], dtype=object)),
]


@pytest.mark.parametrize(("one", "two"), SAME)
def test_same_key(one, two):
    assert freeze(one) == freeze(two)
    assert hash(freeze(one)) == hash(freeze(two))


@pytest.mark.parametrize(("one", "two"), DIFFERENT)
def test_different_keys(one, two):
    assert freeze(one) != freeze(two)


def test_codes_come_in_order_of_first_appearance_with_their_originals():
    coder = Coder()
    board = np.zeros((2, 2))
    assert coder.encode([board, "b", board.copy(), 1, True]).tolist() == [0, 1, 0, 2, 3]
    assert coder.names[0] is board
    assert coder.encode(["b", "new"]).tolist() == [1, 4]


@pytest.mark.parametrize("values", [[3, 1, 3], [True, False, True], ["b", "a", "b"], [2.5, 0.0, 2.5]])
def test_an_array_of_keys_is_coded_like_its_values(values):
    """The fast way for arrays must not make other groups: equal codes exactly where a list has equal codes."""
    fast, slow = Coder(), Coder()
    first, second = fast.encode(np.asarray(values)), slow.encode(values)
    assert first.tolist() == second.tolist()
    assert fast.names == slow.names
    assert [type(name) for name in fast.names] == [type(name) for name in slow.names]


def test_what_has_no_equality_is_refused():
    looped = []
    looped.append(looped)
    for value in (bytearray(b"x"), looped, slice(0, [1])):
        with pytest.raises(BadTable, match="a key must be hashable or array-like"):
            freeze(value)


def test_a_board_is_not_its_flattened_self():
    """Peers that hash the flattened values merge the two states; their turns have nothing in common."""
    states = [np.array([[1, 2], [3, 4]]), np.array([1, 2, 3, 4]), True, 1]
    rows = [{"task": 0, "trajectory": i, "turn": 0, "reward": i, "state": state} for i, state in enumerate(states)]
    assert gigpo(Steps.from_rows(rows)).parts["step"].tolist() == [0.0, 0.0, 0.0, 0.0]
