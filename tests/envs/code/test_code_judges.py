"""Attacks on the judge: each wins against one that runs the candidate in its own process, and loses here."""

import json
from pathlib import Path

import pytest
from code_boxes import box, judge
from naive_judge import accepts
from toys.sandboxes import ALL as ALL_BACKENDS
from toys.sandboxes import needed, needs_box

from turncredit.envs.code import CodeEnv
from turncredit.envs.code.grading import GRADES
from turncredit.envs.code.task import BadTask, CodeTest, ScriptTest, StdioTest, call_of

pytestmark = pytest.mark.waits

TEST = ScriptTest("from solution import f\ndef test_sum():\n    assert f(1, 2) == 3\n", "functions")
RAISES = ScriptTest(
    "import pytest\nfrom solution import f\ndef test_text():\n    with pytest.raises({}):\n        f('a', 2)\n",
    "functions",
)
RANDOM = ScriptTest(
    "import random\nfrom solution import f\ndef test_many():\n    for n in range(9):\n"
    "        a = random.randint(1, 99)\n        assert f(a, n) == a + n\n",
    "functions",
)
OPTIONAL = ScriptTest(
    "try:\n    from fastcompare import same\nexcept ImportError:\n    from operator import eq as same\n"
    "from solution import f\ndef test_sum():\n    assert same(f(1, 2), 3)\n",
    "functions",
)
ALL = ScriptTest(
    "from solution import f\ndef right(case):\n    return f(*case[0]) == case[1]\n"
    "def test_cases():\n    assert all(map(right, [((1, 2), 3), ((2, 2), 4)]))\n",
    "functions",
)
HELPED = ScriptTest(
    "from helper import same\nfrom solution import f\ndef test_sum():\n    assert same(f(1, 2), 3)\n",
    "functions",
    beside=(("helper.py", "def same(a, b):\n    return a == b\n"),),
)
WRONG = "def f(a, b):\n    return None\n"


def raising(kind: str) -> ScriptTest:
    return ScriptTest(RAISES.code.format(kind), "functions")


# name -> files of the candidate, none of which computes f; and the test that it has to get past
FORGERIES: dict[str, tuple[dict[str, str], ScriptTest]] = {
    "stands in for a module that only some machines have": (
        {"solution.py": WRONG, "fastcompare.py": "def same(a, b):\n    return True\n"},
        OPTIONAL,
    ),
    "stands in for a helper of the tests": (
        {"solution.py": WRONG, "helper.py": "def same(a, b):\n    return True\n"},
        HELPED,
    ),
    "stands in for a module of Python": (
        {"solution.py": "def f(a, b):\n    return 1\n", "random.py": "def randint(a, b):\n    return seen.pop()\n"
         "seen = [-7, -6, -5, -4, -3, -2, -1, 0, 1]\n"},
        RANDOM,
    ),
    "exits while an exception is expected": (
        {"solution.py": "import os\ndef f(a, b):\n    os._exit(0)\n"},
        raising("TypeError"),
    ),
    "fails in any way where any exception is expected": (
        {"solution.py": "import os, signal\ndef f(a, b):\n    os.kill(os.getpid(), signal.SIGKILL) or 1\n"
         "import solution\nsolution.f = lambda a, b: 1 / 0\nif not __import__('os').path.exists('tests.py'):\n"
         "    solution.f = lambda a, b: os._exit(1)\n"},
        raising("Exception"),
    ),
    "ends the loop of a test": (
        {"solution.py": "def f(a, b):\n    raise StopIteration\n"},
        ALL,
    ),
    "a value that equals everything": (
        {"solution.py": "class E:\n    __eq__ = lambda self, other: True\ndef f(a, b):\n    return E()\n"},
        TEST,
    ),
    "rewrites the tests in memory": (
        {"solution.py": "import gc, types\ndef f(a, b):\n    return None\ndef g(a, b):\n    return 3\n"
         "class Late:\n    def __eq__(self, other):\n"
         "        for one in gc.get_objects():\n"
         "            if isinstance(one, types.FunctionType) and one.__name__.startswith('test'):\n"
         "                one.__code__ = (lambda: None).__code__\n        return True\n"
         "def f(a, b):\n    return Late()\n"},
        TEST,
    ),
    "rewrites what an assertion means": (
        {"solution.py": "import sys, os\ndef hook(*e):\n    os._exit(0)\nsys.excepthook = hook\n" + WRONG},
        TEST,
    ),
    "deletes the tests": (
        {"solution.py": "import os\nopen('tests.py', 'w').close()\n" + WRONG},
        TEST,
    ),
    "replaces an import of the tests in sys.modules": (
        {"solution.py": "import sys, types\nfake = types.ModuleType('random')\nfake.randint = lambda a, b: 0\n"
         "sys.modules['random'] = fake\nclass E(int):\n    __eq__ = lambda self, other: True\n"
         "def f(a, b):\n    return b\n"},
        RANDOM,
    ),
    "ends the process after the tests": (
        {"solution.py": "import atexit, os\natexit.register(os._exit, 0)\n" + WRONG},
        TEST,
    ),
    "traces the test and returns from it": (
        {"solution.py": "import sys\nclass Quiet(Exception):\n    pass\n"
         "def f(a, b):\n    frame = sys._getframe(1)\n    frame.f_globals['AssertionError'] = Quiet\n"
         "    import os, threading\n    threading.Thread(target=lambda: None).start()\n    os._exit(0)\n"},
        TEST,
    ),
}  # fmt: skip


def test_the_forgeries_do_not_compute() -> None:
    for files, _ in FORGERIES.values():
        assert "a + b" not in "".join(files.values())


@needs_box
@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_wins_where_the_judge_trusts_its_process(name: str) -> None:
    assert accepts(*FORGERIES[name])
    assert not accepts({"solution.py": WRONG}, FORGERIES[name][1])


@needs_box
@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_loses_here(name: str) -> None:
    files, test = FORGERIES[name]
    grade = judge()(files, "solution.py", (test,))
    assert [one for one in grade.outcomes if one.passed] == []


@needs_box
def test_a_right_program_passes_the_same_tests() -> None:
    right = {"solution.py": "def f(a, b):\n    return a + b\n"}
    for test in (TEST, RANDOM, OPTIONAL, ALL, HELPED, raising("TypeError"), raising("Exception")):
        assert judge()(right, "solution.py", (test,)).share == 1.0


@needs_box
@pytest.mark.parametrize("kind", ["Exception", "AssertionError", "RuntimeError", "BaseException"])
@pytest.mark.parametrize(
    "end", ["os._exit(0)", "os.kill(os.getpid(), 9)", "time.sleep(9)", "answer = 1 / 0", "[0] * 10**10"]
)
def test_a_program_that_ends_or_hangs_raises_nothing(end: str, kind: str) -> None:
    """`1 / 0` is the control: where any exception is expected, that one counts."""
    files = {"solution.py": f"import os, sys, time\ndef f(a, b):\n    {end}\n"}
    expected = {"answer = 1 / 0": ("Exception", "BaseException"), "[0] * 10**10": ("Exception", "BaseException")}
    grade = judge(0.5)(files, "solution.py", (raising(kind),))
    assert grade.outcomes[0].passed is (kind in expected.get(end, ()))


@needs_box
def test_a_module_that_is_missing_beside_the_tests_is_the_tasks_fault() -> None:
    test = ScriptTest(
        "import checkers\nfrom solution import f\ndef test_a():\n    checkers.same(f(1, 2), 3)\n", "functions"
    )
    stand_in = {"solution.py": WRONG, "checkers.py": "def same(a, b):\n    pass\n"}
    assert accepts(stand_in, test)
    with pytest.raises(BadTask, match="No module named 'checkers'"):
        judge()(stand_in, "solution.py", (test,))


PLANTED = {
    "conftest.py": "import solution\nsolution.f = lambda a, b: a + b\n",
    "pytest.ini": "[pytest]\naddopts = -p solution\n",
    "sitecustomize.py": "import os\nos._exit(0)\n",
    "usercustomize.py": "import os\nos._exit(0)\n",
    ".local/lib/python3.11/site-packages/usercustomize.py": "import os\nos._exit(0)\n",
    ".local/lib/python3.11/site-packages/x.pth": "import os; os._exit(0)\n",
    **{
        f"{name}.py": "import os\nos._exit(0)\n"
        for name in ("json", "signal", "queue", "ast", "struct", "unittest", "re")
    },
    "unittest/__init__.py": "raise SystemExit(0)\n",
}


@needs_box
def test_files_that_python_or_pytest_load_by_their_name_change_nothing() -> None:
    tests: tuple[CodeTest, ...] = (TEST, RANDOM, call_of("f(1, 2)", "3", ""))
    wrong = {"solution.py": WRONG, **PLANTED}
    assert judge()(wrong, "solution.py", tests).share == 0.0
    harmless = {**wrong, "solution.py": "def f(a, b):\n    return a + b\n"}
    assert judge()(harmless, "solution.py", tests).share == 1.0
    with box() as where:  # control: an interpreter that is not isolated runs one of them instead of the program
        result = where.run([where.python, "-c", "import json; print('ran')"], files=wrong)
        assert (result.stdout, result.code) == ("", 0)


@needs_box
def test_a_task_file_may_have_the_name_of_a_module_of_python() -> None:
    files = {
        "json.py": "def dumps(value):\n    return 'own ' + str(value)\n",
        "random.py": "def randint(a, b):\n    return 4\n",
        "solution.py": "import json, random\ndef f(x):\n    return json.dumps(random.randint(0, x))\n"
        "if __name__ == '__main__':\n    print(f(int(input())))\n",
    }
    script = ScriptTest(
        "import json\nfrom solution import f\ndef test_own():\n"
        "    assert f(9) == 'own 4' and json.dumps(1) == 'own 1'\n",
        "functions",
        own=("json", "random", "solution"),
    )
    tests = (call_of("f(9)", "'own 4'", ""), StdioTest("9\n", "own 4\n"), script)
    assert [one.message for one in judge()(files, "solution.py", tests).outcomes] == ["", "", ""]
    assert judge()(files, "json.py", (call_of("dumps(2)", "'own 2'", ""),)).share == 1.0


@needs_box
def test_modules_of_a_package_are_the_candidates_too() -> None:
    files = {
        "solution.py": "",
        "tools/__init__.py": "def g():\n    return 1\n",
        "tools/more.py": "def h():\n    return 2\n",
    }
    script = ScriptTest(
        "import tools.more\nfrom tools import g\nfrom tools.more import h\n"
        "def test_all():\n    assert (g(), h(), tools.more.h(), tools.g()) == (1, 2, 2, 1)\n",
        "functions",
        own=("solution", "tools.__init__", "tools.more"),
    )
    assert [one.message for one in judge()(files, "solution.py", (script,)).outcomes] == [""]


def env_with(folder: Path, tests: list[dict[str, str]], sandbox: str = "auto") -> CodeEnv:
    files = {"solution.py": "pass\n"}
    task = {"statement": "Write f(a, b).", "files": files, "visible": tests, "hidden": tests}
    (folder / "tasks.jsonl").write_text(json.dumps(task))
    env = CodeEnv(folder / "tasks.jsonl", seconds=10.0, sandbox=sandbox)
    env.reset()
    return env


TEMPORARY = "__import__('tempfile').gettempdir() + '/answer'"
PREPARED = {
    "a temporary file": (f"open({TEMPORARY}, 'w').write('3')", f"open({TEMPORARY}).read()"),
    "a binary file": ("open('answer', 'wb').write(b'\\xff3')", "open('answer', 'rb').read()[1:]"),
    "a hidden file": ("open('.answer', 'w').write('3')", "open('.answer').read()"),
}


@pytest.mark.parametrize("backend", ALL_BACKENDS)
@pytest.mark.parametrize("name", PREPARED)
def test_what_the_agent_prepared_in_its_sandbox_does_not_count(name: str, backend: str, tmp_path: Path) -> None:
    needed(backend)
    prepare, read = PREPARED[name]
    GRADES.forget()
    tests = [
        {"call": "f(1, 2)", "returns": "3"},
        {"code": "from solution import f\ndef test_a():\n    assert f(1, 2) == 3"},
    ]
    env = env_with(tmp_path, tests, backend)
    program = f"def f(a, b):\n    return int({read})\nif __name__ == '__main__':\n    print(f(1, 2))\n"
    env.step(f"write solution.py\n{program}")
    prepared = env.step(f"run\nimport runpy\n{prepare}\nrunpy.run_path('solution.py', run_name='__main__')")
    assert prepared[0].startswith("3")  # control: in its own sandbox, the program is right
    assert env.step("test")[0].startswith("0 of 2 tests pass")
    said, reward, over, _, info = env.step("submit")
    assert (said, reward, over, info["won"]) == ("Handed in: 0 of 2 hidden tests pass.", 0.0, True, False)
    env.close()


@needs_box
@pytest.mark.parametrize(
    "answer",
    [
        "{'a': 1}",  # where the test expects a key
        "None",
        "[]",
        "__import__('threading').Lock()",
        "type('E', (dict,), {'__getitem__': lambda *a: 1 / 0})()",
    ],
)
def test_a_value_that_breaks_the_script_is_not_the_tasks_fault(answer: str, tmp_path: Path) -> None:
    tests = [{"code": "import solution\nTABLE = solution.f(1, 2)['key']\ndef test_a():\n    assert TABLE == 3"}]
    env = env_with(tmp_path, tests)
    env.step(f"write solution.py\ndef f(a, b):\n    return {answer}\n")
    assert env.step("submit")[:2] == ("Handed in: 0 of 1 hidden tests pass.", 0.0)
    env.close()
    env = env_with(tmp_path, tests)
    env.step("write solution.py\ndef f(a, b):\n    return {'key': 3}\n")
    assert env.step("submit")[:2] == ("Handed in: 1 of 1 hidden tests pass.", 1.0)
    env.close()


FORGED_ANSWERS = {
    "no JSON": "'{'",
    "nested without end": "'[' * 100_000",
    "a list": "'[1, 2]'",
    "no names": "'{\"e\": []}'",
    "numbers as names": '\'{"e": [1, 2], "m": {}}\'',
    "an unknown mark": '\'{"v": {"?": 1}}\'',
    "a reference to nothing": '\'{"v": {"h": [1]}}\'',
    "half an answer": "'{\"v\": [3]}'",
    "very long": "'{\"v\": \"' + 'x' * 10**6 * 3 + '\"}'",
    "not ASCII": '\'{"v": "\\ud800"}\'',
    "the driver's last word": '\'{"done": [["test_sum", true, ""]], "late": false}\'',
}


@needs_box
@pytest.mark.parametrize("name", FORGED_ANSWERS)
def test_a_forged_answer_fails_the_test_and_nothing_else(name: str) -> None:
    program = (
        "import json, sys, types\nclass Raw(str):\n    __repr__ = str.__str__\n"
        f"forged = lambda *a: Raw({FORGED_ANSWERS[name]})\n"
        "for module in list(sys.modules.values()):\n    if hasattr(module, 'serve'):\n"
        "        module.serve, module.json = forged, types.SimpleNamespace(dumps=forged, loads=json.loads)\n"
    )
    for test in (TEST, raising("Exception"), raising("AssertionError"), ALL):
        grade = judge()({"solution.py": program + WRONG}, "solution.py", (test,))
        assert [one.passed for one in grade.outcomes] == [False]
    assert judge()({"solution.py": program + WRONG}, "solution.py", (call_of("f(1, 2)", "3", ""),)).share == 0.0
