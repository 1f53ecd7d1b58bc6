"""Time limits of candidates that switch off what interrupts them: the host's clock decides, for every kind of test."""

import pytest
from code_boxes import judge
from toys.sandboxes import ALL, LIMITS, needed, needs_box

from turncredit.envs.code.grades import LATE, CodeGrade
from turncredit.envs.code.grading import CodeGrader
from turncredit.envs.code.task import CodeTest, ScriptTest, StdioTest, call_of
from turncredit.tools.sandbox import start

pytestmark = pytest.mark.waits

SECONDS = 0.5
# Each runs in the candidate's process before its slow part.
ESCAPES = {
    "stops the timer": "signal.setitimer(signal.ITIMER_REAL, 0)",
    "ignores the signal": "signal.signal(signal.SIGALRM, signal.SIG_IGN)",
    "blocks the signal": "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})",
    "has no timer from now on": "signal.setitimer(signal.ITIMER_REAL, 0); signal.setitimer = lambda *_: None",
    "has a longer timer from now on": "keep = signal.setitimer; keep(0, 0); signal.setitimer = lambda *_: keep(0, 99)",
}
CALLS = (call_of("f(1)", "2", ""), call_of("f(2)", "3", ""))
CHECK = ScriptTest("def check(f):\n    assert f(1) == 2\n    assert f(2) == 3\n", "check", entry="f")
SUITE = ScriptTest(
    "from solution import f\ndef test_one():\n    assert f(1) == 2\ndef test_two():\n    assert f(2) == 3\n",
    "functions",
    own=("solution",),
)
KINDS: dict[str, tuple[CodeTest, ...]] = {
    "calls": CALLS,
    "check": (CHECK,),
    "suite": (SUITE,),
    "exchange": (StdioTest("1\n", "2\n"), StdioTest("2\n", "3\n")),
}


def slow(escape: str, seconds: float) -> dict[str, str]:
    """A right program that takes some time for every call, or for its output."""
    code = f"import signal, sys, time\ndef f(n):\n    {escape}\n    time.sleep({seconds})\n    return n + 1\n"
    return {"solution.py": f"{code}if __name__ == '__main__':\n    print(f(int(input())))\n"}


def graded(files: dict[str, str], tests: tuple[CodeTest, ...], seconds: float = SECONDS) -> CodeGrade:
    return judge(seconds)(files, "solution.py", tests)


@needs_box
@pytest.mark.parametrize(
    ("kind", "escape"),
    [*(("calls", escape) for escape in ESCAPES), *((kind, "stops the timer") for kind in KINDS if kind != "calls")],
)
def test_a_candidate_cannot_switch_off_its_time_limit(kind: str, escape: str) -> None:
    grade = graded(slow(ESCAPES[escape], 1.6), KINDS[kind])
    assert grade.share == 0
    assert grade.late, "such a grade is not cached"


@needs_box
@pytest.mark.parametrize("kind", KINDS)
def test_a_candidate_in_time_passes_also_without_its_timer(kind: str) -> None:
    assert graded(slow(ESCAPES["stops the timer"], 0.01), KINDS[kind], seconds=20.0).share == 1


@pytest.mark.parametrize("backend", ALL)
def test_the_clock_of_the_host_counts_on_every_back_end(backend: str) -> None:
    needed(backend)
    grader = CodeGrader(lambda: start(LIMITS, backend=backend), SECONDS, key=backend)
    grade = grader(slow(ESCAPES["stops the timer"], 1.6), "solution.py", CALLS)
    assert [one.message for one in grade.outcomes] == [LATE, LATE]


@needs_box
def test_an_interrupted_call_leaves_the_others_their_time() -> None:
    code = "import time\ndef f(n):\n    time.sleep(60 * (n == 1))\n    return n + 1\n"
    grade = graded({"solution.py": code}, CALLS, seconds=2.0)
    assert [(one.passed, one.message) for one in grade.outcomes] == [(False, LATE), (True, "")]


@needs_box
def test_calls_in_time_have_a_limit_together() -> None:
    """Twelve calls, each within what one may take, and together above ten times the limit of one."""
    calls = tuple(call_of(f"f({number})", f"{number + 1}", "") for number in range(12))
    grade = graded(slow(ESCAPES["stops the timer"], 0.45), calls, seconds=0.25)
    assert 1 <= sum(one.passed for one in grade.outcomes) <= 6
    assert grade.outcomes[-1].message == LATE


AHEAD = """
import gc, os, sys
def f(text):
    frame, seen = sys._getframe(), [repr(one) for one in gc.get_objects() if isinstance(one, (list, dict, tuple))]
    while frame:
        seen += [repr(value) for value in frame.f_locals.values()]
        frame = frame.f_back
    return any("".join(("to", "morrow")) in one for one in seen)
"""


@needs_box
def test_a_call_does_not_see_the_arguments_of_later_ones() -> None:
    """Otherwise it could compute their results in its own time."""
    calls = (call_of("f('today')", "False", ""), call_of("f('to' 'morrow')", "True", ""))
    assert graded({"solution.py": AHEAD}, calls, seconds=20.0).share == 1
