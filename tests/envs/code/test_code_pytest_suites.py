"""Test files in pytest's style: supported features work, others are refused when tasks are read."""

import json
from pathlib import Path

import pytest
from code_boxes import judge
from toys.sandboxes import needs_box

from turncredit.envs.code import CodeEnv
from turncredit.envs.code.task import ScriptTest
from turncredit.envs.code.task_files import read_tasks
from turncredit.envs.errors import GameFileError

pytestmark = pytest.mark.waits

ADD = "from solution import add\n"
BASE = {
    "statement.md": "Write add(a, b).",
    "files/solution.py": "def add(a, b):\n    pass\n",
    "files/data/number.txt": "3",
    "solution/solution.py": "def add(a, b):\n    return a + b\n",
}
WORKS = {
    "setUpClass": (
        f"import unittest\n{ADD}class T(unittest.TestCase):\n    ended = 0\n"
        "    @classmethod\n    def setUpClass(cls):\n        cls.two, cls.begun = 2, getattr(cls, 'begun', 0) + 1\n"
        "    @classmethod\n    def tearDownClass(cls):\n        T.ended += 1\n"
        "    def test_a(self):\n        self.assertEqual(add(self.two, 2), 4)\n"
        "    def test_b(self):\n        self.assertEqual((self.begun, T.ended), (1, 0))\n"
        "def test_end():\n    assert T.ended == 1\n"
    ),
    "setup_class and methods": (
        f"import pytest\n{ADD}said = []\nclass TestA:\n    @classmethod\n    def setup_class(cls):\n"
        "        cls.two = 2\n"
        "    def setup_method(self):\n        said.append('in')\n    def teardown_method(self, method):\n"
        "        said.append('out')\n    def test_a(self):\n        assert add(self.two, 2) == 4\n"
        "    def test_b(self):\n        assert said == ['in', 'out', 'in']\n"
        "@pytest.mark.parametrize('a', [1, 2])\nclass TestB:\n    @pytest.mark.parametrize('b', [3, 4])\n"
        "    def test_c(self, a, b):\n        assert add(a, b) == a + b\n"
    ),
    "marks and param": (
        f"import pytest\nfrom pytest import mark\n{ADD}@pytest.mark.slow\n@mark.timeout(5)\ndef test_a():\n"
        "    assert add(2, 2) == 4\n"
        "@pytest.mark.parametrize(('a', 'b'), [(1, 2), pytest.param(3, 4, id='big')])\ndef test_b(a, b):\n"
        "    assert add(a, b) == a + b\n"
        "@pytest.mark.parametrize('a', [1, pytest.param(3, marks=pytest.mark.slow)])\ndef test_c(a):\n"
        "    if add(a, 0) != a:\n        pytest.fail('no')\n"
    ),
    "helpers": f"from helper import A\nfrom deep.more import B\n{ADD}def test_a():\n    assert add(A, B) == 5\n",
    "files": (
        f"from pathlib import Path\n{ADD}def test_a():\n    assert add(1, 2) == int(open('data/number.txt').read())\n"
        "def test_b():\n    assert add(1, 2) == int((Path(__file__).parent / 'own.txt').read_text())\n"
    ),
    "other decorators": (
        f"from unittest import mock\n{ADD}@mock.patch('os.getcwd', return_value='x')\ndef test_a(found):\n"
        "    import os\n    assert os.getcwd() == 'x' and add(1, 1) == 2\n"
    ),
}
HELPERS = {"hidden/helper.py": "A = 2\n", "hidden/deep/more.py": "B = 3\n", "hidden/own.txt": "3"}
REFUSED = {
    "fixture": (
        f"import pytest\n{ADD}@pytest.fixture\ndef two():\n    return 2\ndef test_a(two): pass\n",
        "pytest.fixture",
    ),
    "fixture by name": (
        "from pytest import fixture\n@fixture()\ndef two(): pass\ndef test_a(): pass\n",
        "pytest.fixture",
    ),
    "tmp_path": ("def test_a(tmp_path): pass\n", "test_a uses the fixture 'tmp_path'"),
    "in a class": ("class TestA:\n    def test_a(self, capsys): pass\n", "test_a uses the fixture 'capsys'"),
    "half given": (
        "import pytest as pt\n@pt.mark.parametrize('a, b', [(1, 2)])\ndef test_a(a, b, c): pass\n",
        "fixture 'c'",
    ),
    "skip": ("import pytest\n@pytest.mark.skipif(True)\ndef test_a(): pass\n", "pytest.mark.skipif"),
    "xfail": ("from pytest import mark\n@mark.xfail\ndef test_a(): pass\n", "pytest.mark.xfail"),
    "unittest's skip": ("import unittest\n@unittest.skip('x')\ndef test_a(): pass\n", "unittest.skip"),
    "skipTest": ("def test_a():\n    self.skipTest('x')\n", "skipTest"),
    "warns": ("import pytest\ndef test_a():\n    with pytest.warns(): pass\n", "pytest.warns"),
    "async": ("async def test_a(): pass\ndef test_b(): pass\n", "test_a is async"),
    "setup_module": ("def setup_module(): pass\ndef test_a(): pass\n", "setup_module is not supported"),
    "relative": ("from .helper import TWO\ndef test_a(): pass\n", "relative import of .helper"),
    "source": ("def test_a():\n    open('solution.py').read()\n", "reads solution.py"),
    "no program": ("def test_a(\n", "not valid Python"),
}


def laid(folder: Path, files: dict[str, str]) -> Path:
    """Lay a task into a folder of tasks, which is returned."""
    for path, text in files.items():
        (folder / "one" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "one" / path).write_text(text)
    return folder


@needs_box
@pytest.mark.parametrize("name", WORKS)
def test_what_is_known_works(name: str, tmp_path: Path) -> None:
    tasks, _ = read_tasks(laid(tmp_path, {**BASE, **HELPERS, "hidden/test_a.py": WORKS[name]}))
    verdict = judge()(tasks[0].solved, tasks[0].main, tasks[0].hidden)
    assert [one for one in verdict.outcomes if not one.passed] == []
    assert judge()(tasks[0].files, tasks[0].main, tasks[0].hidden).share < 1.0


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_known_is_refused_when_it_is_read(name: str, tmp_path: Path) -> None:
    code, why = REFUSED[name]
    for folder in ("visible", "hidden"):
        files = {**BASE, "hidden/test_b.py": f"{ADD}def test_b(): pass\n", f"{folder}/test_a.py": code}
        with pytest.raises(GameFileError, match=rf"{folder}/test_a\.py: .*{why}"):
            read_tasks(laid(tmp_path / folder, files))
    line = tmp_path / "tasks.jsonl"
    line.write_text(json.dumps({"statement": "s", "hidden": [{"code": code}]}))
    with pytest.raises(GameFileError, match=f"hidden test 1: .*{why}"):
        read_tasks(line)


def test_what_lies_beside_the_tests_can_be_refused_too(tmp_path: Path) -> None:
    test = {"hidden/test_a.py": f"{ADD}def test_a(): pass\n"}
    for path, text, why in (
        ("hidden/conftest.py", "TWO = 2\n", "hidden/conftest.py: conftest.py is not supported"),
        ("hidden/solution.py", "def add(a, b): pass\n", "must not have the name of a module"),
        (
            "hidden/helper.py",
            "import pytest\n@pytest.fixture\ndef two(): pass\n",
            "hidden/helper.py: pytest.fixture",
        ),
        ("files/solution.py/more.py", "", "and a file 'solution.py'"),
    ):
        folder = tmp_path / path.replace("/", "_")
        base = (
            BASE if "more" not in path else {name: text for name, text in BASE.items() if name != "files/solution.py"}
        )
        with pytest.raises(GameFileError, match=why):
            read_tasks(laid(folder, {**base, **test, path: text}))


@needs_box
def test_a_candidates_file_does_not_become_a_module_of_the_tests(tmp_path: Path) -> None:
    code = f"from statistics import fmean\nfrom helper import same\n{ADD}"
    code += "def test_a():\n    assert same(fmean([add(1, 2), 5]), 4)\n"
    files = {**BASE, "hidden/helper.py": "def same(a, b):\n    return a == b\n", "hidden/test_a.py": code}
    task = read_tasks(laid(tmp_path, files))[0][0]
    cheat = {
        "solution.py": "def add(a, b):\n    return 0\n",
        "statistics.py": "def fmean(them):\n    return 4\n",
        "helper.py": "def same(a, b):\n    return True\n",
    }
    assert judge()(cheat, task.main, task.hidden).share == 0.0
    assert judge()({**cheat, **task.solved}, task.main, task.hidden).share == 1.0


@needs_box
def test_a_module_of_the_tasks_may_be_called_like_one_of_pythons() -> None:
    code = "from queue import one\nfrom calendar import two\ndef test_a():\n    assert (one(), two()) == (1, 2)\n"
    files = {"queue.py": "def one():\n    return 1\n", "calendar.py": "def two():\n    return 2\n"}
    assert judge()(files, "queue.py", (ScriptTest(code, "functions", own=("calendar", "queue")),)).share == 1.0


@needs_box
def test_where_the_time_was_up_it_is_said(tmp_path: Path) -> None:
    endless = f"{ADD}def test_a():\n    while True:\n        pass\n"
    env = CodeEnv(laid(tmp_path, {**BASE, "hidden/test_a.py": endless}), seconds=0.2)
    env.reset()
    assert env.step("submit")[0] == "Handed in: 0 of 1 hidden tests pass (the time was up)."
    env.close()
