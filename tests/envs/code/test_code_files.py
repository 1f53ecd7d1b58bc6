"""Tasks from files: HumanEval, MBPP, JSON lines and folders, and errors in them."""

import json
import os
from pathlib import Path

import pytest
from code_boxes import judge
from toys.sandboxes import needs_box

from turncredit.envs.code import CodeEnv
from turncredit.envs.code.task import CallTest, ScriptTest
from turncredit.envs.code.task_files import read_tasks
from turncredit.envs.errors import GameFileError, NoGames, UnknownOption

pytestmark = pytest.mark.waits

DATA = Path(os.environ.get("TURNCREDIT_DATA", "")) / "code"
HUMAN, MBPP = DATA / "HumanEval.jsonl", DATA / "mbpp_release_v1.mxeval.jsonl"
needs_data = pytest.mark.skipif(
    "TURNCREDIT_DATA" not in os.environ or not HUMAN.is_file(),
    reason="TURNCREDIT_DATA does not name a folder with code/",
)
# Their own solution does not pass their own tests: names or classes that are nowhere, wrong answers, no program.
BROKEN = {f"MBPP/{number}" for number in (64, 160, 367, 596, 601, 607, 631, 642, 927, 966)}
SLOW = {"MBPP/123"}


@needs_data
@needs_box
@pytest.mark.parametrize(("path", "every"), [(HUMAN, 4), (MBPP, 24)])
def test_their_solutions_pass_and_their_beginnings_fail(path: Path, every: int) -> None:
    tasks, skipped = read_tasks(path)
    assert skipped == 0
    assert len(tasks) in (164, 974)
    one = judge(5.0)
    sample = [task for task in tasks[::every] if task.id not in BROKEN | SLOW]
    assert len(sample) >= 40
    for task in sample:
        assert one(task.solved, task.main, task.hidden).share == 1.0, task.id
    for task in sample[::5]:
        assert one(task.files, task.main, task.hidden).share < 1.0, task.id


@needs_data
@needs_box
def test_solutions_that_are_broken_in_the_data_fail_here_too() -> None:
    for task in read_tasks(MBPP)[0]:
        if task.id in ("MBPP/64", "MBPP/160", "MBPP/601"):
            assert judge()(task.solved, task.main, task.hidden).share < 1.0


@needs_data
def test_mbpp_has_its_splits_and_both_show_their_examples() -> None:
    assert [len(CodeEnv(MBPP, split=split).task_ids()) for split in ("prompt", "test", "validation", "train")] == [
        10,
        500,
        90,
        374,
    ]
    task = read_tasks(HUMAN)[0][0]
    assert [test.text for test in task.visible if isinstance(test, CallTest)] == [
        "has_close_elements([1.0, 2.0, 3.0], 0.5)",
        "has_close_elements([1.0, 2.8, 3.0, 4.0, 5.0, 2.0], 0.3)",
    ]
    assert any(isinstance(test, ScriptTest) for one in read_tasks(HUMAN)[0] for test in one.hidden)
    observation, _ = CodeEnv(HUMAN).reset(options={"task": "HumanEval/0"})
    assert "canonical" not in observation
    assert "0.95" not in observation
    with pytest.raises(UnknownOption, match="all, test"):
        CodeEnv(HUMAN, split="train")


OWN = {
    "id": "double",
    "statement": "Write double(n).",
    "files": {"solution.py": "def double(n):\n    pass\n", "notes.txt": "two\n"},
    "solution": "def double(n):\n    return 2 * n\n",
    "visible": [{"call": "double(1)", "returns": "2"}],
    "hidden": [
        {"call": "double(n=4)", "returns": "8"},
        {"code": "from solution import double\ndef test_text():\n    assert double('a') == 'aa'"},
        {"check": "def check(candidate):\n    assert candidate(3) == 6", "entry": "double"},
    ],
    "split": "train",
}


def written(path: Path, *lines: object) -> Path:
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


@needs_box
def test_a_task_of_our_own_schema_is_played(tmp_path: Path) -> None:
    echo = {"id": "echo", "statement": "Echo.", "solution": "print(input())", "hidden": [{"stdin": "a", "stdout": "a"}]}
    env = CodeEnv(written(tmp_path / "tasks.jsonl", OWN, "", echo))
    assert env.task_ids() == ["double", "echo"]
    for id in env.task_ids():
        env.reset(options={"task": id})
        for action in env.plan():
            _, reward, over, _, info = env.step(action)
        assert (reward, over, info["won"]) == (1.0, True, True)
    env.close()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ({**OWN, "hidden": []}, "no hidden tests"),
        ({**OWN, "statement": " "}, "no statement"),
        ({**OWN, "hidden": [{"call": "double(x)", "returns": "2"}]}, "literal arguments"),
        ({**OWN, "hidden": [{"code": "def test("}]}, "not valid Python"),
        ({**OWN, "hidden": [{"check": "x = 1", "entry": "double"}]}, "not define a function check"),
        ({**OWN, "hidden": [3]}, "a test must have"),
        ({**OWN, "hiden": []}, "unknown key 'hiden'"),
        ({**OWN, "files": {"../x": ""}}, "does not go up"),
        ({**OWN, "files": {"x": 1}}, "must map paths to strings"),
        ({**OWN, "files": {"a": "", "a/b/c": ""}}, "and a file 'a'"),
        ({**OWN, "files": {"a/b": ""}, "solution": {"a": ""}}, "and a file 'a'"),
        ({**OWN, "files": {"a": "\ud800"}}, "the contents of a under 'files' are not valid Unicode"),
        ('{"id": "torn', "not valid JSON"),
        ("[1]", "expected a JSON object"),
    ],
)
def test_what_is_wrong_with_a_line_is_told(tmp_path: Path, line: object, why: str) -> None:
    path = written(tmp_path / "tasks.jsonl", OWN, line)
    with pytest.raises(GameFileError, match=why) as error:
        read_tasks(path)
    assert error.value.line == 2
    tasks, skipped = read_tasks(path, strict=False)
    assert ([task.id for task in tasks], skipped) == (["double"], 1)


RAW = {  # as in mbpp.jsonl
    "text": "Write a function to find the longest chain of pairs.",
    "code": "class Pair(object):\r\n    def __init__(self, a, b):\r\n        self.a, self.b = a, b\r\n"
    "def chain(pairs, n):\r\n    return len({pair.a for pair in pairs[:n]})",
    "task_id": 601,
    "test_setup_code": "",
    "test_list": [
        "assert chain([Pair(5, 24), Pair(15, 25)], 2) == 2",
        "assert chain([Pair(1, 2)], 1) == 1",
        "assert chain([], 0) == 0",
    ],
    "challenge_test_list": ["assert chain([Pair(1, 2), Pair(1, 3)], 2) == 1"],
}
CLEAN = {  # as in sanitized-mbpp.json
    "source_file": "x.ipynb",
    "task_id": 4,
    "prompt": "Write a function to halve a number.",
    "code": "def half(n):\n    return n / 2",
    "test_imports": ["import math"],
    "test_list": ["assert math.isclose(half(3), 1.5)", "assert half(2) == 1", "assert set([half(4)]) == {2}"],
}
PLAIN = {
    "task_id": 11,
    "text": "Write f.",
    "code": "def f(x): return x",
    "test_list": ["assert f(1)==1", "assert f(2)==2"],
}


@needs_box
def test_mbpp_is_played_in_both_forms_of_its_authors(tmp_path: Path) -> None:
    raw = written(tmp_path / "mbpp.jsonl", RAW, PLAIN)
    clean = tmp_path / "sanitized-mbpp.json"
    clean.write_text(json.dumps([CLEAN], indent=2))
    for path, ids in ((raw, ["MBPP/601", "MBPP/11"]), (clean, ["MBPP/4"])):
        env = CodeEnv(path)
        assert env.task_ids() == ids
        for id in ids:
            observation, _ = env.reset(options={"task": id})
            task = read_tasks(path)[0][ids.index(id)]
            assert len(task.hidden) == {"MBPP/601": 4, "MBPP/11": 2, "MBPP/4": 3}[id]
            shown = {"MBPP/601": "Pair(5, 24)", "MBPP/11": "f(1) == 1", "MBPP/4": "isclose(half(3), 1.5)"}[id]
            assert shown in observation
            assert not any(one in observation for one in ("Pair(1, 2)", "f(2)", "half(2)", "half(4)"))
            assert f"Call the function {'chain' if '601' in id else 'f' if '11' in id else 'half'}." in observation
            for action in env.plan():
                said, reward, over, _, info = env.step(action)
            assert (reward, over, info["won"]) == (1.0, True, True), said
        env.close()
        split = "prompt" if path == clean else "train"
        assert CodeEnv(path, split=split).task_ids() == ids[:1]
    wrong = "def half(n):\n    return 1.5\n"
    task = read_tasks(clean)[0][0]
    assert [one.passed for one in judge()({"solution.py": wrong}, "solution.py", task.hidden).outcomes] == [
        True,
        False,
        False,
    ]


@needs_box
def test_what_an_assert_of_mbpp_takes_from_the_solution(tmp_path: Path) -> None:
    own = {
        **PLAIN,
        "code": "def sum(n, *more):\n    return -n",
        "test_list": ["assert sum(3) == -3", "assert sum(1, 2) < 0"],
    }
    setup = {
        **PLAIN,
        "task_id": 12,
        "code": "class Node:\n    def __init__(self, n):\n        self.n = n\ndef top(node):\n    return node.n",
        "test_setup_code": "root = Node(7)\nroot.n = 8",
        "test_list": ["assert top(root) == 8 and all(top(Node(i)) == i for i in range(3))"],
    }
    for task in read_tasks(written(tmp_path / "mbpp.jsonl", own, setup))[0]:
        verdict = judge()(task.solved, task.main, task.hidden)
        assert [one for one in verdict.outcomes if not one.passed] == []
        assert judge()(task.files, task.main, task.hidden).share == 0.0


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"test_list": []}, "empty test_list"),
        ({"test_list": ["f(1)"]}, "must be an assert"),
        ({"test_list": ["assert f("]}, "not valid Python"),
        ({"test_list": ["assert 1 == 1"]}, "does not call a function"),
        ({"test_list": "assert f(1)"}, "'test_list' must be a list"),
        ({"code": 3}, "'code' must be a string"),
        ({"text": 3}, "'text' must be a string"),
    ],
)
def test_what_is_wrong_with_a_task_of_mbpp_is_told(tmp_path: Path, change: dict[str, object], why: str) -> None:
    with pytest.raises(GameFileError, match=why):
        read_tasks(written(tmp_path / "mbpp.jsonl", {**PLAIN, **change}))


def test_ids_that_are_there_twice_and_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(GameFileError, match="duplicate"):
        read_tasks(written(tmp_path / "tasks.jsonl", OWN, OWN))
    for path in (tmp_path / "nothing", written(tmp_path / "empty.jsonl")):
        with pytest.raises(NoGames):
            read_tasks(path)


@needs_box
def test_a_folder_is_played(tmp_path: Path) -> None:
    for path, text in {
        "stack/statement.md": "Repair the stack.\n",
        "stack/files/stack.py": "class Stack(list):\n    def push(self, item):\n        self.insert(0, item)\n",
        "stack/solution/stack.py": "class Stack(list):\n    def push(self, item):\n        self.append(item)\n",
        "stack/visible/test_seen.py": "from stack import Stack\ndef test_one():\n    s = Stack()\n    s.push(1)\n",
        "stack/hidden/test_order.py": (
            "from stack import Stack\ndef test_order():\n    s = Stack()\n    s.push(1)\n"
            "    s.push(2)\n    assert s.pop() == 2\n"
        ),
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    env = CodeEnv(tmp_path)
    observation, _ = env.reset(options={"task": "stack"})
    assert "test_seen.py" in observation
    assert "test_order" not in observation
    for action in ("test", *env.plan()):
        _, reward, over, _, _ = env.step(action)
    assert over
    assert reward == 1.0
    env.close()
