"""A judge without protection: candidate and tests in one process and one folder, as in a plain run of pytest.

It runs in a sandbox, so that the controls cannot harm this machine. A verdict is what its process says: exit code 0.
"""

from __future__ import annotations

from collections.abc import Mapping

from code_boxes import box

from turncredit.envs.code.task import ScriptTest

_RUNNER = """
import contextlib, sys
sys.path.insert(0, "")
import solution
space = {"__name__": "tests"}
exec(open("tests.py").read(), space)
for name, value in list(space.items()):
    if name.startswith("test"):
        value()
"""
PYTEST = """
import contextlib
@contextlib.contextmanager
def raises(kind):
    try:
        yield
    except kind:
        return
    raise AssertionError
"""


def accepts(files: Mapping[str, str], test: ScriptTest) -> bool:
    """Return the verdict of a judge that trusts the candidate's process."""
    with box() as where:
        placed = {**dict(test.beside), "tests.py": test.code, "pytest.py": PYTEST, "run.py": _RUNNER, **files}
        return where.run([where.python, "-S", "-B", "run.py"], files=placed, timeout=2).code == 0
