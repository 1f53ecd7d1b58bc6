"""Code tasks as they are published: right programs win, wrong ones lose, and what cannot be judged is refused."""

import base64
import gzip
import json
import pickle
import zlib
from pathlib import Path

import pytest
from code_boxes import judge
from toys.sandboxes import needs_box

from turncredit.envs.code import CodeEnv
from turncredit.envs.code.task import CallTest, StdioTest, fingerprint, names_of
from turncredit.envs.code.task_files import read_tasks
from turncredit.envs.errors import GameFileError

pytestmark = pytest.mark.waits

HUMANEVAL_PLUS = {
    "task_id": "HumanEval/0",
    "prompt": 'def square(n):\n    """Return the square.\n    >>> square(2)\n    4\n    """\n',
    "entry_point": "square",
    "canonical_solution": "    return n * n\n",
    "test": "def same(o, e):\n    assert o == e\n\ndef check(candidate):\n    for a, b in ((3, 9), (-5, 25)):\n"
    "        same(candidate(a), b)",
}
MBPP_PLUS = {
    "task_id": 2,
    "code": "def similar(a, b):\n    return tuple(set(a) & set(b))",
    "prompt": "Write a function to find the shared elements.",
    "source_file": "Benchmark Questions Verification V2.ipynb",
    "test_imports": [],
    "test_list": ["assert set(similar((3, 4), (4, 5))) == {4}", "assert set(similar((1,), (1,))) == {1}"],
    "test": "import math\n\ndef assertion(out, exp, atol):\n    exact = out == exp\n    if atol == 0:\n"
    "        assert exact\n    assert exact or math.isclose(out, exp)\n\n"
    "inputs = [[(3, 4), (4, 5)], [(), ()]]\nresults = [{4}, set()]\n"
    "for i, (inp, exp) in enumerate(zip(inputs, results)):\n    assertion(set(similar(*inp)), exp, 0)\n",
}
APPS = {
    "problem_id": 7,
    "question": "Add two numbers.\n\n-----Input-----\nTwo lines.",
    "solutions": json.dumps(["a = int(input())\nb = int(input())\nprint(a + b)\n"]),
    "input_output": json.dumps({"inputs": ["1\n2\n", ["30", "4"]], "outputs": ["3\n", ["34"]]}),
    "difficulty": "interview",
    "url": "https://example.org/7",
    "starter_code": "",
}
APPS_CALL = {
    **APPS,
    "problem_id": 8,
    "solutions": json.dumps(
        ["class Solution:\n    def both(self, nums: List[int]) -> List[int]:\n        return nums[::-1]\n"]
    ),
    "input_output": json.dumps({"fn_name": "both", "inputs": [[[1, 2]], [[3]]], "outputs": [[[2, 1]], [[3]]]}),
    "starter_code": "\nclass Solution:\n    def both(self, nums: List[int]) -> List[int]:\n        ",
}
TACO = {
    "question": "Double it.",
    "solutions": json.dumps(["def double(n):\n    return 2 * n"]),
    "starter_code": "def double(n):\n    ",
    "input_output": json.dumps({"fn_name": "double", "inputs": [[1], [2]], "outputs": [[2], [4]]}),
    "difficulty": "EASY",
    "raw_tags": "[]",
    "name": None,
    "source": "codewars",
}


def packed(tests: list) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests)))).decode()


def stdin(given: str, wanted: str) -> dict:
    return {"input": given, "output": wanted, "testtype": "stdin"}


LIVE = {
    "question_title": "A. Short Sort",
    "question_content": "Print the sorted letters.",
    "platform": "codeforces",
    "question_id": "1873_A",
    "contest_id": "1873",
    "contest_date": "2023-08-21T00:00:00",
    "starter_code": "",
    "difficulty": "easy",
    "public_test_cases": json.dumps([stdin("cba\n", "abc\n")]),
    "private_test_cases": packed([stdin("b a\n", " ab\n"), stdin("z\n", "z")]),
    "metadata": "{}",
}
LIVE_CALL = {
    **LIVE,
    "question_id": "2857",
    "platform": "leetcode",
    "starter_code": "class Solution:\n    def pairs(self, nums: List[int], k: int) -> List[List[int]]:\n        ",
    "public_test_cases": json.dumps([{"input": "[1, 2]\n2", "output": "[[1, 2]]", "testtype": "functional"}]),
    "private_test_cases": json.dumps([{"input": "[]\n1", "output": "[]", "testtype": "functional"}]),
    "metadata": json.dumps({"func_name": "pairs"}),
}
PRIME = {
    "problem": "Triple it.",
    "solutions": ["```python\ndef triple(n):\n    return 3 * n\n```"],
    "tests": json.dumps([{"type": "function_call", "fn_name": "triple", "input": [2], "output": [6]}]),
}
CONTESTS = {
    "name": "1_A. Echo",
    "description": "Echo.",
    "public_tests": {"input": ["a\n"], "output": ["a\n"]},
    "private_tests": {"input": ["b\n"], "output": ["b\n"]},
    "generated_tests": {"input": ["c\n"], "output": ["c\n"]},
}
VERL = {
    "data_source": "taco",
    "prompt": [{"role": "system", "content": "You code."}, {"role": "user", "content": "Add one."}],
    "ability": "code",
    "reward_model": {"style": "rule", "ground_truth": json.dumps({"inputs": ["1\n"], "outputs": ["2\n"]})},
    "extra_info": {"split": "train", "index": 3},
}
BIGCODE = {
    "task_id": "BigCodeBench/0",
    "complete_prompt": 'import itertools\n\ndef task_func(numbers=[1, 2]):\n    """Return all pairs."""\n',
    "instruct_prompt": "Return all pairs.",
    "canonical_solution": "    return list(itertools.permutations(numbers, 2))",
    "code_prompt": "import itertools\ndef task_func(numbers=[1, 2]):\n",
    "test": "import unittest\n\nclass TestCases(unittest.TestCase):\n    def test_default(self):\n"
    "        self.assertEqual(task_func(), [(1, 2), (2, 1)])\n    def test_one(self):\n"
    "        self.assertEqual(len(task_func([1])), 0)\n",
    "entry_point": "task_func",
    "doc_struct": "{}",
    "libs": "['itertools']",
}


def written(path: Path, *rows: dict) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def shares(path: Path, *programs: str) -> list[float]:
    (task,) = read_tasks(path)[0]
    return [judge()({task.main: program}, task.main, task.hidden).share for program in programs]


@needs_box
@pytest.mark.parametrize(
    ("row", "right", "wrong", "count"),
    [
        (HUMANEVAL_PLUS, "def square(n):\n    return n * n", "def square(n):\n    return n * n if n > 0 else 0", 1),
        (MBPP_PLUS, MBPP_PLUS["code"], "def similar(a, b):\n    return [b[0]] if len(b) < 2 else [b[0]]", 3),
        (APPS, "print(int(input()) + int(input()))", "print(int(input()) * 3)", 2),
        (APPS_CALL, "class Solution:\n    def both(self, nums):\n        return nums[::-1]", "class Solution: pass", 2),
        (TACO, "def double(n):\n    return n + n", "def double(n):\n    return 3 * n", 2),
        (LIVE, "print(''.join(sorted(input())))", "print('abc')", 3),
        (LIVE_CALL, "class Solution:\n    def pairs(self, n, k):\n        return [tuple(n)] if n else []", "x = 1", 2),
        (PRIME, "def triple(n):\n    return 3 * n", "def triple(n):\n    return [7]", 1),
        (CONTESTS, "print(input())", "print('a')", 3),
        (VERL, "print(int(input()) + 1)", "print(3)", 1),
        (BIGCODE, BIGCODE["complete_prompt"] + BIGCODE["canonical_solution"], "def task_func(n=0):\n    return []", 2),
    ],
    ids=[
        "humaneval+",
        "mbpp+",
        "apps",
        "apps call",
        "taco",
        "lcb",
        "lcb call",
        "deepcoder",
        "contests",
        "verl",
        "bigcode",
    ],
)
def test_right_programs_win_and_wrong_ones_lose(row: dict, right: str, wrong: str, count: int, tmp_path: Path) -> None:
    path = written(tmp_path / "tasks.jsonl", row)
    (task,) = read_tasks(path)[0]
    assert sum(len(names_of(test)) for test in task.hidden) == count
    win, lose = shares(path, right, wrong)
    assert win == 1.0
    assert lose < 1.0


@needs_box
@pytest.mark.parametrize("row", [HUMANEVAL_PLUS, MBPP_PLUS, APPS, APPS_CALL, TACO, PRIME, BIGCODE])
def test_the_published_solution_is_a_plan_that_wins(row: dict, tmp_path: Path) -> None:
    env = CodeEnv(written(tmp_path / "tasks.jsonl", row))
    env.reset(options={"task": env.task_ids()[0]})
    for action in env.plan():
        said, reward, over, _, info = env.step(action)
    assert (reward, over, info["won"]) == (1.0, True, True), said
    env.close()


@needs_box
def test_a_program_that_is_right_on_a_part_of_the_tests_does_not_win(tmp_path: Path) -> None:
    on_list_alone = "def similar(a, b):\n    return (set(a) & set(b)) if a else (1,)"
    (share,) = shares(written(tmp_path / "mbpp.jsonl", MBPP_PLUS), on_list_alone)
    assert share == 2 / 3
    (share,) = shares(written(tmp_path / "lcb.jsonl", LIVE), "print(input()[::-1])")  # right on the public test
    assert share < 1.0


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({**HUMANEVAL_PLUS, "plus_input": [[3]], "base_input": [[2]]}, "EvalPlus's release .* holds no results"),
        ({**HUMANEVAL_PLUS, "more_tests": ["x"]}, "tests under 'more_tests' that are not known"),
        (
            {**HUMANEVAL_PLUS, "test": HUMANEVAL_PLUS["test"] + "\n\nassert square(1) == 1"},
            "an assert outside of check",
        ),
        ({**HUMANEVAL_PLUS, "test": "def check(c):\n    assert c(1)\n" * 2}, "define check.candidate. 2 times"),
        ({**HUMANEVAL_PLUS, "language": "java"}, "is in java, and turncredit runs Python"),
        ({**MBPP_PLUS, "test": "import math\nx = 1\n"}, "no statement that tests"),
        ({**MBPP_PLUS, "test_list": [1, "assert similar(1, 2)"]}, r"'test_list' must be a list of strings, got \[1, "),
        ({**MBPP_PLUS, "test_list": {"a": 1}}, r"'test_list' must be a list of strings, got \{'a': 1\}"),
        ({**MBPP_PLUS, "test_imports": "['import math', math]"}, r"'test_imports': .*\['import math', math\]"),
        ({**MBPP_PLUS, "test_list": []}, "has an empty test_list"),
        ({**APPS, "input_output": ""}, "has no tests"),
        ({**APPS, "input_output": '{"inputs": ["1"], "outputs": []}'}, "as many outputs as inputs"),
        ({**LIVE, "private_test_cases": "[]"}, "private_test_cases is empty"),
        ({**LIVE, "private_test_cases": "no base64!"}, "neither JSON nor packed JSON"),
        ({**LIVE_CALL, "metadata": "{}"}, "does not name the function"),
        ({**PRIME, "tests": '[{"type": "interactive", "input": "1", "output": "2"}]'}, "unknown type 'interactive'"),
        ({**VERL, "reward_model": {"ground_truth": "42"}}, "the ground truth of taco is no tests"),
        (
            {**BIGCODE, "test": "from unittest.mock import patch\n" + BIGCODE["test"]},
            "use unittest.mock.patch, so they",
        ),
        (
            {**BIGCODE, "test": "import pandas as pd\n" + BIGCODE["test"]},
            "use pandas, so they look at more than values",
        ),
        (
            {"instruction": "Write f.", "output": "def f(): ..."},
            r"expected a code task as in HumanEval \(prompt, test, entry_point\); BigCodeBench .*; MBPP .*; APPS .*"
            r"got a record with the keys instruction, output",
        ),
    ],
)
def test_what_cannot_be_judged_is_refused_in_one_sentence(row: dict, sentence: str, tmp_path: Path) -> None:
    path = written(tmp_path / "tasks.jsonl", row, PRIME)
    with pytest.raises(GameFileError, match=sentence) as error:
        read_tasks(path)
    assert (error.value.line, len(str(error.value).splitlines())) == (1, 1)
    tasks, skipped = read_tasks(path, strict=False)
    assert ([task.id for task in tasks], skipped) == (["DeepCoder/2"], 1)


def test_a_pickle_of_private_tests_is_never_loaded(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple:
            return (Path(tmp_path / "loaded").touch, ())

    trap = base64.b64encode(zlib.compress(pickle.dumps(Trap()))).decode()
    for data in (trap, base64.b64encode(zlib.compress(pickle.dumps(["[]", "[]"]))).decode()):
        with pytest.raises(GameFileError, match="the pickle is not one string"):
            read_tasks(written(tmp_path / "lcb.jsonl", {**LIVE, "private_test_cases": data}))
    assert not (tmp_path / "loaded").exists()


def test_tasks_come_from_any_container(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    rows = [HUMANEVAL_PLUS, {**HUMANEVAL_PLUS, "task_id": "HumanEval/1"}]
    polars.DataFrame(rows).write_parquet(tmp_path / "test-00000-of-00001.parquet")
    (tmp_path / "HumanEval.jsonl.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    (tmp_path / "list.json").write_text(json.dumps(rows, indent=1))
    expected = [fingerprint(task) for task in read_tasks(written(tmp_path / "plain.jsonl", *rows))[0]]
    for name in ("test-00000-of-00001.parquet", "HumanEval.jsonl.gz", "list.json"):
        assert [fingerprint(task) for task in read_tasks(tmp_path / name)[0]] == expected
    polars.DataFrame([VERL]).write_parquet(tmp_path / "verl.parquet")
    assert read_tasks(tmp_path / "verl.parquet")[0][0].id == "taco/train/3"


def test_what_an_agent_sees_of_a_contest(tmp_path: Path) -> None:
    env = CodeEnv(written(tmp_path / "tasks.jsonl", LIVE_CALL, LIVE, APPS))
    observation, info = env.reset(options={"task": "2857"})
    assert "Write Solution.pairs in solution.py." in observation
    assert "from typing import *" in observation
    assert "Solution().pairs([1, 2], 2) == [[1, 2]]" in observation
    assert "pairs([], 1)" not in observation
    assert info["task_type"] == "LiveCodeBench easy"
    observation, _ = env.reset(options={"task": "1873_A"})
    assert "reads standard input and writes the answer to standard output" in observation
    assert env.task_ids() == ["2857", "1873_A", "APPS/7"]


@needs_box
def test_a_helper_that_asserts_is_no_test_of_its_own_and_a_library_may_assert(tmp_path: Path) -> None:
    inside = {
        **HUMANEVAL_PLUS,
        "test": "def check(candidate):\n    def same(a, b):\n        assert a == b\n    same(candidate(3), 9)\n",
    }
    library = {
        **HUMANEVAL_PLUS,
        "test": "from unittest import TestCase\n\ndef check(candidate):\n    TestCase().assertEqual(candidate(3), 9)\n",
    }
    unknown = {
        **HUMANEVAL_PLUS,
        "test": "import operator\n\ndef check(candidate):\n    {9: 0}[candidate(3)]\n    {25: 0}[candidate(-5)]\n",
    }
    for row, right, half in ((inside, 1, 0.0), (library, 1, 0.0), (unknown, 2, 0.5)):
        path = written(tmp_path / "tasks.jsonl", row)
        assert len(names_of(read_tasks(path)[0][0].hidden[0])) == right
        assert shares(path, "def square(n):\n    return n ** 2") == [1.0]
        assert shares(path, "def square(n):\n    return -n * 5") == [half]


@needs_box
@pytest.mark.parametrize(
    ("call", "returns", "right", "wrong"),
    [
        ("add(1e999, 2)", "1e999", "return a + b", "return -a"),
        ("add([-1e999, 'inf'], b=2)", "(-1e999, 'inf', 2)", "return (*a, b)", "return (a, b)"),
        ("add({1e999: 'nan'}, 0)", "{1e999}", "return set(a)", "return {1.0}"),
    ],
)
def test_infinite_numbers_are_arguments_and_results(
    call: str, returns: str, right: str, wrong: str, tmp_path: Path
) -> None:
    row = {"id": "add", "statement": "Write add.", "hidden": [{"call": call, "returns": returns}]}
    path = written(tmp_path / "tasks.jsonl", row)
    assert shares(path, f"def add(a, b):\n    {right}", f"def add(a, b):\n    {wrong}") == [1.0, 0.0]


@needs_box
@pytest.mark.parametrize(
    ("stdout", "program", "passes"),
    [
        ("7\n", "print(7)", True),
        ("\n7\n", "print(7)", True),
        ("7", "print('\\n\\n7 \\n')", True),
        ("a\r\nb\r\n", "print('a\\nb')", True),
        ("  *\n ***\n", "print('  *\\n ***')", True),
        ("  *\n ***\n", "print('*\\n ***')", False),
        ("a\n\nb", "print('a\\nb')", False),
        ("7", "print('7.0')", False),
        ("", "print()", True),
    ],
)
def test_how_output_is_compared(stdout: str, program: str, passes: bool) -> None:
    grade = judge()({"solution.py": program}, "solution.py", (StdioTest("", stdout),))
    assert grade.outcomes[0].passed == passes


@needs_box
def test_a_result_of_json_is_compared_as_json() -> None:
    tests = [
        CallTest("f", "()", "[[1, 2]]", form="json"),
        CallTest("f", "()", "[[1, 2]]", form="listed"),
        CallTest("f", "()", "[[[1, 2]]]", form="listed"),
        CallTest("f", "()", "[[[1, 2]]]", form="json"),
        CallTest("f", "()", "[(1, 2)]"),
        CallTest("f", "()", "[[1, 2]]"),
    ]
    grade = judge()({"solution.py": "def f():\n    return [(1, 2)]"}, "solution.py", tests)
    assert [outcome.passed for outcome in grade.outcomes] == [True, True, True, False, True, False]


def test_lists_in_the_cells_of_a_table_are_read(tmp_path: Path) -> None:
    row = "7,Write f.,def f(x): return x,\"['assert f(1) == 1', 'assert f(2) == 2']\"\n"
    (tmp_path / "mbpp.csv").write_text(f"task_id,text,code,test_list\n{row}")
    (task,), skipped = read_tasks(tmp_path / "mbpp.csv")
    assert skipped == 0
    assert {name for test in (*task.visible, *task.hidden) for name in names_of(test)} >= {"f(1)", "f(2)"}
