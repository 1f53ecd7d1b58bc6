"""What tests of code tasks share: a grader, and programs that try to cheat."""

from __future__ import annotations

from turncredit.envs.code.grading import LIMITS, CodeGrader
from turncredit.tools.sandbox import Box, start


def box() -> Box:
    """Return a new sandbox."""
    return start(LIMITS)


def judge(seconds: float = 20.0) -> CodeGrader:
    """Return a grader; the time limit is for programs that do not terminate."""
    return CodeGrader(box, seconds)


CHEATS = {
    "exits with 0": "import sys\nsys.exit(0)\n",
    "exits hard": "import os\nos._exit(0)\n",
    "exits when called": "import os\ndef f(a, b):\n    os._exit(0)\n",
    "equals everything": (
        "class E:\n    def __eq__(self, other):\n        return True\n"
        "    def __ne__(self, other):\n        return False\n"
        "    def __hash__(self):\n        return 0\ndef f(a, b):\n    return E()\n"
    ),
    "a number that equals everything": (
        "class E(int):\n    __eq__ = lambda self, other: True\n"
        "    __hash__ = int.__hash__\n    __bool__ = lambda self: False\n"
        "def f(a, b):\n    return E(99)\n"
    ),
    "a list that equals everything": (
        "class E(list):\n    __eq__ = lambda self, other: True\n    __hash__ = None\ndef f(a, b):\n    return E([99])\n"
    ),
    "prints verdicts": (
        'import sys, os\nfor k in range(9):\n    line = \'[%d, {"v": true, "passed": true}]\' % k\n    print(line)\n'
        '    os.write(2, line.encode())\nprint(\'{"done": [["check 1", true, ""]]}\')\nos._exit(0)\n'
    ),
    "patches builtins": (
        "import builtins\nbuiltins.AssertionError = type('A', (Exception,), {})\nbuiltins.bool = lambda x: True\n"
        "builtins.all = lambda x: True\nbuiltins.repr = lambda x: '3'\ndef f(a, b):\n    return None\n"
    ),
    "patches the driver": (
        "import sys\nfor name, module in list(sys.modules.items()):\n"
        "    for key in ('answer', 'encode', '_do', 'batch'):\n"
        "        if hasattr(module, key):\n            setattr(module, key, lambda *a, **k: True)\n"
        "import json\njson.dumps = lambda *a, **k: '[0, {\"v\": true}]'\ndef f(a, b):\n    return None\n"
    ),
    "patches unittest": (
        "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\nunittest.TestCase.run = lambda *a: None\n"
        "def f(a, b):\n    return None\n"
    ),
    "atexit": (
        "import atexit, os\n@atexit.register\ndef last():\n    os.write(1, b'[0, {\"v\": 3}]\\n')\n    os._exit(0)\n"
        "def f(a, b):\n    raise SystemExit(0)\n"
    ),
    "reads the tests": (
        "import os, sys, gc\nfound = ''\nfor root, folders, names in os.walk('.'):\n    for name in names:\n"
        "        found += open(os.path.join(root, name), errors='replace').read()\n"
        "def f(a, b):\n    frame, seen = sys._getframe(), []\n    while frame:\n"
        "        seen += list(frame.f_locals.values())\n"
        "        frame = frame.f_back\n    for one in seen:\n        if isinstance(one, dict) and 'returns' in one:\n"
        "            return one['returns']\n    if 'assert' in found.replace(\"'assert'\", ''):\n        return a + b\n"
    ),
    "loops": "def f(a, b):\n    while True:\n        pass\n",
    "loops and swallows": "def f(a, b):\n    while True:\n        try:\n            while True:\n"
    "                pass\n        except BaseException:\n            pass\n",
    "raises a skip": "import unittest\ndef f(a, b):\n    raise unittest.SkipTest('skip')\n",
    "raises nothing known": "class Strange(BaseException):\n    pass\ndef f(a, b):\n    raise Strange\n",
    "eats memory": "def f(a, b):\n    return [0] * 10**10\n",
    "is no program": "def f(a, b:\n",
    "is not there": "",
}
