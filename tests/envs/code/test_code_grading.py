"""Grading of programs: correct ones pass, wrong ones fail, and cheating does not help."""

import ast

import pytest
from code_boxes import CHEATS, box, judge
from hypothesis import example, given
from hypothesis import strategies as st
from toys.sandboxes import needs_box

from turncredit.envs.code.grading import GRADES
from turncredit.envs.code.serialization import NotPlain, decode, encode, refuse
from turncredit.envs.code.task import BadTask, CallTest, ScriptTest, StdioTest, call_of

pytestmark = pytest.mark.waits

CALLS = (call_of("f(1, 2)", "3", ""), call_of("f(2, b=5)", "7", ""), call_of("f([1], [2])", "[1, 2]", ""))
RIGHT = "def f(a, b):\n    return a + b\n"
CHECK = ScriptTest(
    "def check(candidate):\n    x = 5\n    assert candidate(1, 2) == 3\n    for i in range(3):\n"
    "        assert candidate(i, x) == right(i, x), 'no'\n    assert candidate('x', 'y') == 'xy'\n",
    "check",
    "f",
    "def right(a, b):\n    return a + b\n",
)
UNIT = ScriptTest(
    "import unittest\nfrom solution import f\n\n\ndef test_sum():\n    assert f(1, 2) == 3\n\n\n"
    "class TestF(unittest.TestCase):\n    def test_more(self):\n        self.assertEqual(f(2, 5), 7)\n",
    "functions",
)
ALL = (*CALLS, CHECK, UNIT)


@needs_box
@pytest.mark.parametrize("name", CHEATS)
def test_no_cheat_passes_a_single_test(name: str) -> None:
    tests = CALLS if "loops" in name else ALL
    grade = judge(0.2 if "loops" in name else 20.0)({"solution.py": CHEATS[name]}, "solution.py", tests)
    assert len(grade.outcomes) == (3 if "loops" in name else 8)
    assert [one.name for one in grade.outcomes if one.passed] == []


@needs_box
def test_the_right_program_passes_every_form_of_test() -> None:
    grade = judge()({"solution.py": RIGHT}, "solution.py", ALL)
    assert [one for one in grade.outcomes if not one.passed] == []
    assert len(grade.outcomes) == 8


@needs_box
def test_what_a_program_leaves_running_does_not_judge_the_next_one() -> None:
    daemon = (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        while True:\n"
        "            try:\n                open('solution.py', 'w').write('def f(a, b): return a + b')\n"
        "            except OSError:\n                pass\n"
        "            time.sleep(0.01)\n    os._exit(0)\ndef f(a, b):\n    return None\n"
    )
    one = judge()
    assert one({"solution.py": daemon}, "solution.py", CALLS).share == 0.0
    assert one({"solution.py": "def f(a, b):\n    return 0\n"}, "solution.py", CALLS).share == 0.0


@needs_box
def test_programs_that_read_and_write() -> None:
    tests = (StdioTest("3 4\n", "7\n"), StdioTest("1 1", "2"))
    right = "a, b = map(int, input().split())\nprint(a + b, ' ')\n"
    for text, share in (
        (right, 1.0),
        ("print(7)\n", 0.5),
        ("raise SystemExit('7')\n", 0.0),
        ("print('x' * 10**8)", 0.0),
    ):
        assert judge()({"solution.py": text}, "solution.py", tests).share == share


@needs_box
def test_objects_of_the_candidate_can_be_used_from_tests_and_equal_nothing() -> None:
    code = (
        "import pytest\nfrom solution import Stack, Empty\n\n\ndef test_stack():\n"
        "    s = Stack()\n    s.push(3)\n    s.push(4)\n"
        "    assert len(s) == 2 and s.pop() == 4 and s.size == 1 and list(s) == [3]\n\n\n"
        "def test_error():\n    with pytest.raises(Empty):\n        Stack().pop()\n\n\n"
        "@pytest.mark.parametrize('n, total', [(1, 1), (2, 3)])\ndef test_many(n, total):\n    s = Stack()\n"
        "    for i in range(1, n + 1):\n        s.push(i)\n    assert sum(s) == pytest.approx(total)\n\n\n"
        "def test_equal():\n    assert Stack() == 3\n"
    )
    solution = (
        "class Empty(Exception):\n    pass\n\n\nclass Stack:\n    def __init__(self):\n        self.items = []\n"
        "    def __eq__(self, other):\n        return True\n    def push(self, item):\n"
        "        self.items.append(item)\n"
        "    def pop(self):\n        if not self.items:\n"
        "            raise Empty('empty')\n        return self.items.pop()\n"
        "    def __len__(self):\n        return len(self.items)\n"
        "    def __iter__(self):\n        return iter(self.items)\n"
        "    @property\n    def size(self):\n        return len(self.items)\n"
    )
    grade = judge()({"solution.py": solution}, "solution.py", (ScriptTest(code, "functions"),))
    assert {one.name: one.passed for one in grade.outcomes} == {
        "test_stack": True,
        "test_error": True,
        "test_many": True,
        "test_equal": False,
    }


@needs_box
def test_a_container_of_the_candidates_own_keeps_its_methods_and_is_compared_outside() -> None:
    code = (
        "from solution import Pile, f\n\n\ndef test_pile():\n    p = Pile()\n    p.push(1)\n    p.push(2)\n"
        "    assert p == [1, 2] and p.pop() == 2 and p == [1]\n"
        "def test_guesses():\n    assert f() in ([1], [2], [3])\n"
    )
    cheat = (
        "class Pile(list):\n    push = list.append\n    __eq__ = lambda self, other: True\n    __hash__ = None\n\n\n"
        "class Guess(list):\n    tries = 0\n    __eq__ = lambda self, other: True\n    __hash__ = None\n"
        "    def __iter__(self):\n        self[:] = [self[0] + 1] if self else [1]\n"
        "        return list.__iter__(self)\n"
        "def f():\n    return Guess()\n"
    )
    grade = judge()({"solution.py": cheat}, "solution.py", (ScriptTest(code, "functions"),))
    assert [(one.name, one.passed) for one in grade.outcomes] == [("test_pile", True), ("test_guesses", False)]


@needs_box
def test_verdicts_are_remembered_and_a_changed_program_is_judged_anew() -> None:
    made = []

    def counted() -> object:
        made.append(1)
        return box()

    GRADES.forget()
    one = judge()
    one.box = counted  # type: ignore[assignment]
    for text in (RIGHT, RIGHT, RIGHT + "\n", RIGHT):
        one({"solution.py": text}, "solution.py", CALLS)
    assert len(made) == 2


@needs_box
def test_tests_that_are_broken_are_the_tasks_fault() -> None:
    with pytest.raises(BadTask, match="cannot be run"):
        judge()(
            {"solution.py": RIGHT},
            "solution.py",
            (ScriptTest("import nothing\ndef test_a():\n    pass\n", "functions"),),
        )


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.integers() | st.text(), inner, max_size=3)
        | st.sets(st.integers() | st.text(), max_size=3)
        | st.frozensets(st.integers(), max_size=3)
    ),
    max_leaves=20,
)


@given(PLAIN)
def test_plain_values_cross_unchanged(value: object) -> None:
    back = decode(encode(value, refuse), refuse)
    assert back == value
    assert type(back) is type(value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ifcbatdszrhkE"), inner, max_size=2)
        ),
    )
)
@example({"c": ""})
@example({"c": {}})
def test_any_data_is_a_value_or_refused(data: object) -> None:
    try:
        value = decode(data, refuse)
    except NotPlain:
        return
    assert type(value).__module__ == "builtins"


@pytest.mark.parametrize("text", ["f", "f(x)", "g.f(1)", "f(1) + 1", "f(", ""])
def test_what_is_no_call_is_refused(text: str) -> None:
    with pytest.raises(BadTask, match="must be a call with literal"):
        call_of(text, "1", "task 1")


def test_a_call_is_shown_as_it_is_written() -> None:
    assert [call.text for call in CALLS] == ["f(1, 2)", "f(2, b=5)", "f([1], [2])"]
    assert CallTest("f", "(1,)", "2").text == "f(1)"
    assert ast.literal_eval(CALLS[1].keywords) == {"b": 5}
