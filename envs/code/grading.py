"""Grades a candidate program by tests, without trusting anything that the program can influence.

The candidate runs in a new sandbox, in an interpreter that resolves the imports of our drivers before it can see the
candidate's folder. Only the candidate's files and the arguments of calls enter that sandbox, and only plain data comes
out. Expected values, tests and grades stay outside: results are decoded into builtins and compared in this process (see
`call_tests`), and test scripts run in a second sandbox that never contains candidate code (see `script_runner`).
Whatever the candidate does to its own process, such as exiting, printing, patching builtins or overriding `__eq__`,
only affects its own results.

Not included: comparing running times, and tests that pass functions or other live objects to the candidate.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files as resources
from typing import Final

from turncredit.envs.code.call_tests import compare, request
from turncredit.envs.code.candidate_process import CandidateProcess
from turncredit.envs.code.grades import GRADES, LATE, LOST, TOO_LONG, CaseResult, CodeGrade, shorten, weight
from turncredit.envs.code.script_relay import ScriptOver, ScriptRelay
from turncredit.envs.code.task import CallTest, CodeTest, ScriptTest, StdioTest, digest, module_of, names_of
from turncredit.tools.sandbox import Box, BoxLost, Limits, PythonSession

__all__ = ["GRADES", "LIMITS", "CaseResult", "CodeGrade", "CodeGrader"]

LIMITS: Final = Limits(
    wall=10, cpu=10, memory=256 << 20, processes=16, output=1 << 20, file_size=4 << 20, disk=16 << 20, files=512
)
_DRIVERS: Final = {
    "candidate_runner": ("serialization", "candidate_runner"),
    "script_runner": ("serialization", "pytest_substitute", "script_runner"),
}
_ISOLATED: Final = ("-I", "-B")  # neither the environment nor the user's or the current folder add modules
_PROGRAM: Final = ("-E", "-s", "-B")  # the same, but a program finds the modules beside it
_START: Final = 1.0  # seconds in which the interpreter of a program starts
_NO_PACKAGES: Final = ("-S",)  # without site packages, the interpreter starts faster


class CodeGrader:
    """Runs tests and caches the grades, which depend only on files and tests.

    Args:
        box: creates an empty sandbox.
        seconds: time limit of a call of the candidate; a set of tests has ten times as much.
        packages: whether the candidate can import the packages of the sandbox's Python, which makes it slower to start.
        key: cache key of the kind of sandbox.
    """

    def __init__(
        self, box: Callable[[], Box], seconds: float = 2.0, packages: bool = False, key: str = "start"
    ) -> None:
        self.box = box
        self.seconds = seconds
        self.words = () if packages else _NO_PACKAGES
        self.key = f"{key} {seconds} {packages}"

    def __call__(self, files: Mapping[str, str], main: str, tests: Sequence[CodeTest]) -> CodeGrade:
        """Return the results of tests on files, from a new sandbox.

        Args:
            files: the candidate's files, by path.
            main: the file that is called or run.
            tests: the tests.

        Raises:
            BadTask: a test is invalid.
            SandboxError: no sandbox works.
        """
        key = digest(files, "judge", main, repr(tests), self.key)
        return GRADES.recall(key, lambda: self._judge(files, main, tests), weight)

    def check_box(self) -> None:
        """Raise SandboxError if sandboxes do not work, rather than one program that ends its own."""
        with self.box() as box:
            result = box.run([box.python, *_ISOLATED, "-c", ""])
        if not result.ok:
            raise BoxLost(f"an empty program ended with code {result.code} ({result.stop}) in a new sandbox")

    def _judge(self, files: Mapping[str, str], main: str, tests: Sequence[CodeTest]) -> CodeGrade:
        """Return the results of tests; a sandbox that dies is replaced once."""
        for _ in range(2):
            try:
                return self._tested(files, main, tests)
            except BoxLost:
                continue
        self.check_box()
        return CodeGrade(tuple(CaseResult(name, False, LOST) for test in tests for name in names_of(test)))

    def _tested(self, files: Mapping[str, str], main: str, tests: Sequence[CodeTest]) -> CodeGrade:
        until = time.monotonic() + 10 * self.seconds
        calls = [test for test in tests if isinstance(test, CallTest)]
        outcomes: list[CaseResult] = []
        results: tuple[CaseResult, ...]
        late = False
        with self._filled(files.items()) as box:
            called = iter(list(self._called(box, main, calls, until)) if calls else ())
            for test in tests:
                if isinstance(test, CallTest):
                    result = next(called)
                    results, slow = (result,), result.message == LATE
                elif isinstance(test, StdioTest):
                    results, slow = self._exchange(box, main, test, until)
                else:
                    results, slow = self._script(box, main, test, until)
                outcomes += results
                late |= slow
        return CodeGrade(tuple(outcomes), late)

    @contextmanager
    def _filled(self, files: Iterable[tuple[str, str]]) -> Iterator[Box]:
        """Open a new sandbox with these files."""
        with self.box() as fresh:
            for path, text in files:
                fresh.put(path, text)
            yield fresh

    def _called(self, box: Box, main: str, calls: Sequence[CallTest], until: float) -> Iterator[CaseResult]:
        with box.session(isolated=True, packages=not self.words) as session:
            candidate = self._candidate(box, session, until)
            for call in calls:
                reply = candidate.ask(request(main, call))
                silence = LATE if reply.late else reply.lost or "the program gave no answer"
                yield compare(call, None if reply.lost else reply.text.encode(), silence)

    def _candidate(self, box: Box, session: PythonSession, until: float) -> CandidateProcess:
        return CandidateProcess(session, _driver("candidate_runner"), self.seconds, until, box.limits.output)

    def _exchange(self, box: Box, main: str, test: StdioTest, until: float) -> tuple[tuple[CaseResult, ...], bool]:
        name = names_of(test)[0]
        left = until - time.monotonic()
        if left <= 0:
            return (CaseResult(name, False, LATE),), True
        program = [box.python, *_PROGRAM, *self.words, main]
        result = box.run(program, test.stdin, timeout=min(left, self.seconds + _START))
        if result.stop in ("timeout", "cpu"):
            return (CaseResult(name, False, LATE),), True
        if not result.ok:
            last = (result.stderr.strip().splitlines() or [f"it ended with code {result.code}"])[-1]
            return (CaseResult(name, False, last[:300]),), False
        same = _lines(result.stdout) == _lines(test.stdout)
        message = "" if same else f"wrote {_quoted(result.stdout)}, not {_quoted(test.stdout)}"
        return (CaseResult(name, same, message),), False

    def _script(self, box: Box, main: str, test: ScriptTest, until: float) -> tuple[tuple[CaseResult, ...], bool]:
        """Run a test script in its own sandbox and forward its calls to the candidate's sandbox."""
        names = names_of(test)
        order = {
            "code": test.code,
            "form": test.form,
            "entry": test.entry,
            "prelude": test.prelude,
            "module": module_of(main),
            "own": sorted({module_of(main), *test.own} - {module_of(path) for path, _ in test.beside}),
        }
        relay = ScriptRelay(_driver("script_runner"), until)
        try:
            with (
                self._filled(test.beside) as test_box,
                test_box.session(isolated=True) as tests,
                box.session(isolated=True) as session,
            ):
                verdicts = relay.run(tests, self._candidate(box, session, until), order)
        except ScriptOver as error:
            return tuple(CaseResult(name, False, str(error)) for name in names), str(error) == TOO_LONG
        failed = any(not passed for name, (passed, _) in verdicts.items() if name not in names)
        outcomes = (CaseResult(name, *verdicts.get(name, (False, "it was not reached"))) for name in names)
        return tuple(CaseResult(case.name, case.passed and not failed, case.message) for case in outcomes), relay.late


def _driver(name: str) -> str:
    """Return the source of a driver for the inside of a sandbox, with the modules that it needs."""
    folder = resources("turncredit.envs.code")
    texts = [folder.joinpath(f"{part}.py").read_text(encoding="utf-8") for part in _DRIVERS[name]]
    lines = [line for text in texts for line in text.splitlines()]
    source = [line for line in lines if not line.startswith(("from turncredit.", "from __future__"))]
    return "\n".join(["from __future__ import annotations", *source])


def _lines(text: str) -> list[str]:
    """Return the lines that count: white space at their ends does not, nor do empty lines before and after all."""
    lines = [line.rstrip() for line in text.rstrip().split("\n")]
    return lines[next((index for index, line in enumerate(lines) if line), 0) :]


def _quoted(text: str) -> str:
    return shorten(repr(text))
