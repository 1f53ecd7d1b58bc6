"""Hostile values, actions and names: each is bounded by its size before it costs the host time or memory."""

import difflib
import json
import re
import subprocess
import sys

import pytest
from code_boxes import judge
from hypothesis import given
from hypothesis import strategies as st
from toys.sandboxes import needs_box

from turncredit.envs.code import CodeEnv
from turncredit.envs.code.actions import LONGEST_ACTION, CodeAction, parse_action
from turncredit.envs.code.call_tests import compare
from turncredit.envs.code.env import _similar
from turncredit.envs.code.serialization import COLLISIONS, DEEPEST, MOST, NotPlain, decode, encode, refuse
from turncredit.envs.code.task import call_of
from turncredit.envs.truncation import escape_unprintable

pytestmark = pytest.mark.waits

PRIME = sys.hash_info.modulus
CALL = call_of("f(1, 2)", "3", "")


def answer(value: object) -> bytes:
    return json.dumps({"v": value}).encode()


# The data of a value, and how a decoder without limits fails at it.
HOSTILE = {
    "a set whose members have one hash": {"s": [{"i": hex(PRIME * n)} for n in range(1000)]},
    "a dict whose keys have one hash": {"d": [[{"i": hex(PRIME * n)}, 0] for n in range(1000)]},
    "a frozen set in a set": {"s": [{"z": [{"i": hex(PRIME * n)} for n in range(1000)]}]},
    "tuples whose hashes are equal": {"s": [{"t": [{"i": hex(PRIME * n)}]} for n in range(1000)]},
    "a range whose length is a quotient": {"r": [0, {"i": hex(3**90_000)}, {"i": hex(7**30_000)}]},
    "lists in lists": json.loads("[" * 90 + "]" * 90),
    "tuples in tuples": json.loads('{"t": [' * 90 + "]}" * 90),
    "many values": [0] * (MOST + 1),
    "a number in quotes": {"i": "9" * 100 + "x"},
    "digits as a float": {"f": "9" * 10_000 + "e9"},
    "half a pair": {"d": [[1]]},
    "a list as a key": {"d": [[[], 1]]},
    "text that is no text": {"u": "ff"},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_value_is_refused(name: str) -> None:
    with pytest.raises(NotPlain):
        decode(HOSTILE[name], refuse)
    assert not compare(CALL, answer(HOSTILE[name]), "silent").passed


def test_equal_hashes_are_what_makes_a_set_slow() -> None:
    """Control: these members are different, and a set has to compare each with all before it."""

    class Counted(int):
        compared = 0
        __hash__ = int.__hash__

        def __eq__(self, other: object) -> bool:
            Counted.compared += 1
            return int.__eq__(self, other)  # type: ignore[arg-type]

    for members, most in (([PRIME * n for n in range(300)], 300 * 299 // 2), (list(range(300)), 0)):
        Counted.compared = 0
        assert len({Counted(member) for member in members}) == 300
        assert Counted.compared >= most if most else Counted.compared < 300


@given(st.sets(st.integers() | st.floats(allow_nan=False) | st.text() | st.tuples(st.integers())))
def test_honest_sets_are_spread(value: set[object]) -> None:
    assert decode(encode(value, refuse), refuse) == value
    assert COLLISIONS > 2


def test_values_at_the_limits_cross() -> None:
    deep: object = 1
    for _ in range(DEEPEST):
        deep = [deep]
    for value in (deep, list(range(MOST - 1)), "\ud800 \udfff", range(0, 10**30, 7), -(2**70), {-1: 1, -2: 2}):
        assert decode(json.loads(json.dumps(encode(value, refuse))), refuse) == value


@pytest.mark.parametrize(
    "line",
    [
        b'{"v": ' + b"[" * 500_000 + b"]" * 500_000 + b"}",
        b'{"v": [' + b"[]," * 300_000 + b"1]}",
        b'{"v": {"i": "0x' + b"f" * 1_000_000 + b'"}}',
        b'{"v": "' + b"\\u0000" * 160_000 + b'"}',
        b'{"e": [' + b'"a",' * 200_000 + b'"b"]}',
        b'{"e": ["a"], "m": "' + b"x" * 1_000_000 + b'"}',
    ],
    ids=range(6),
)
def test_an_answer_much_longer_than_the_expected_value_is_not_read(line: bytes) -> None:
    """The control is the first of them: a decoder without limits does not survive it."""
    result = compare(CALL, line, "silent")
    assert result.message == f"returned {len(line):,} bytes of data, not 3"
    if line.count(b"[") > 1:
        with pytest.raises(RecursionError):
            json.loads(b"[" * 500_000)


def test_a_long_value_is_read_where_one_is_expected() -> None:
    value = [float(n) for n in range(20_000)]
    long = call_of("f()", repr(list(range(20_000))), "")
    assert compare(long, answer(encode(value, refuse)), "silent").passed
    assert not compare(CALL, answer(encode(value, refuse)), "silent").passed


@needs_box
@pytest.mark.parametrize(
    "value",
    [
        "{(2**61 - 1) * n for n in range(20_000)}",
        "frozenset((2**61 - 1) * n for n in range(20_000))",
        "1 << 8_000_000",
        "range(0, 3**2_000_000, 7**700_000)",
        "'\\x00' * 10**6",
        "[[]] * 190_000",
        "10**5000",
        "-(10**400_000)",
    ],
)
def test_a_program_that_returns_them_just_fails(value: str) -> None:
    grade = judge(5.0)({"solution.py": f"def f(a, b):\n    return {value}\n"}, "solution.py", (CALL,))
    assert [one.passed for one in grade.outcomes] == [False]
    assert len(grade.outcomes[0].message) < 400


# The two blocks of an action as expressions, which take all pairs of marks into account.
_EDIT = (
    r"\A<{5,9}[^\n]*\n(?P<old>.*?)(?:(?<=\n)|\A)={5,9}[ \t]*\n"
    r"(?P<new>.*?)(?:(?<=\n)|\A)>{5,9}[^\n]*\n?\Z"
)
_FENCE = r"\A```[\w+.-]*[ \t]*\n(?P<text>.*?)\n?```[ \t]*\n?\Z"
LINES = st.lists(
    st.sampled_from(["=======", "====", "======= x", "", "a", "<<<<<<<", ">>>>>>>", ">>>>>", "  b", "```"])
)


def test_an_edit_with_many_marks_is_read_in_one_pass() -> None:
    said = "edit a\n<<<<<<<\n" + "=======\n" * 40_000 + ">>>>>>>\nx"
    assert len(said) <= LONGEST_ACTION
    assert isinstance(parse_action(said), str)
    control = f"import re, sys; re.match({_EDIT!r}, sys.stdin.read(), re.DOTALL)"
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([sys.executable, "-c", control], input=said[7:], text=True, timeout=3)


@given(LINES)
def test_edits_are_what_the_expression_says(lines: list[str]) -> None:
    body = "<<<<<<<\n" + "\n".join(lines)
    found, action = re.match(_EDIT, body, re.DOTALL), parse_action(f"edit a\n{body}")
    if found and found["old"].strip():
        assert action == CodeAction("edit", "a", found["new"], found["old"])
    else:
        assert isinstance(action, str)


@given(LINES)
def test_fences_are_what_the_expression_says(lines: list[str]) -> None:
    body = "```py\n" + "\n".join(lines)
    found, action = re.match(_FENCE, body.strip("\n") + "\n", re.DOTALL), parse_action(f"write a\n{body}")
    text = found["text"] if found else f"{body}\n".rstrip("\n")
    assert isinstance(action, CodeAction)
    assert action.text.rstrip("\n") == text.rstrip("\n")


@pytest.mark.parametrize("word", ["write a\n", "edit a\n", "run\n", "replace 1: ", "show ", "\n" * 9, "replace "])
def test_an_action_has_a_longest_length(word: str) -> None:
    said = parse_action(word + "x " * LONGEST_ACTION)
    assert isinstance(said, str)
    assert said.startswith("an action has at most 400,000 characters")
    parse_action((word + "1 " * LONGEST_ACTION)[:LONGEST_ACTION])  # and up to it, each is read in one pass


def test_names_are_compared_only_if_they_are_short() -> None:
    long = [("ab" * 100)[:90] + f"{number:02}" for number in range(64)]
    assert _similar(long[0] + "c", long).startswith("the choices are")
    assert difflib.get_close_matches(long[0] + "c", long)  # control: they are similar
    assert _similar("solutoin.py", ["solution.py", *long]) == "did you mean 'solution.py'?"


def test_unprintable_output_is_escaped_in_one_pass() -> None:
    assert escape_unprintable("a\x00\x85\ud800\u00e9\r\n\t") == "a\\x00\\x85\\xd800\u00e9\n\t"
    assert len(escape_unprintable("\0" * 1_000_000)) == 4_000_000


@needs_box
@pytest.mark.parametrize(
    "program",
    [
        "import os\nfor n in range(400):\n    open('x' * 200 + str(n), 'w').write('x')",
        "import os\nfor n in range(60):\n    open('ab' * 40 + f'{n:03}', 'w').write('y' * 100)",
        "import os\nfor n in range(60):\n    os.mkdir('d' * 80)\n    os.chdir('d' * 80)",
        "import os\nos.mkdir('a\\nb'); open('a\\nb/c', 'w'); open('\\x1b[2J', 'w'); open(b'\\xff\\xfe', 'w')",
        "print('\\x00' * 10**6, end='')",
        "open('e', 'w').write('\\U0001f600' * 90_000)",
    ],
    ids=range(6),
)
def test_what_a_program_leaves_does_not_end_the_episode(program: str) -> None:
    env = CodeEnv(level="tiny", seconds=10.0)
    env.reset(seed=1)
    said, _, over, _, info = env.step(f"run\n{program}")
    assert info["valid"]
    assert not over
    assert len(said) < 4000
    for action in ("show solutoin.py" + "x" * 40, "show " + "ab" * 45, "show " + "x" * 300, "test", "submit"):
        said, _, over, _, _ = env.step(action)
        assert len(said) < 4000
    assert over
    env.close()
