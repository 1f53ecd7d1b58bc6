"""Grades a candidate program by tests, without trusting anything that the program can influence.

The candidate runs in a sandbox. Only its own files and the arguments of calls enter that sandbox, and only plain data
comes out. Expected values, tests and grades stay outside: results are decoded into builtins and compared in this
process, and test scripts run in a second sandbox that never contains candidate code (see `script_runner`). Whatever the
candidate does to its own process, such as exiting, printing, patching builtins or overriding `__eq__`, only affects its
own results.

Not included: comparing running times, and tests that pass functions or other live objects to the candidate.
"""

from __future__ import annotations

import ast
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files as resources
from typing import Any, Final

from turnwise.envs.caching import ByteLimitedCache
from turnwise.envs.code.serialization import NotPlain, decode, encode, refuse
from turnwise.envs.code.task import BadTask, CallTest, CodeTest, ScriptTest, StdioTest, digest, module_of, names_of
from turnwise.tools.sandbox import Box, Limits, PythonSession

__all__ = ["GRADES", "LIMITS", "CaseResult", "CodeGrade", "CodeGrader", "weight"]

LIMITS: Final = Limits(
    wall=10, cpu=10, memory=256 << 20, processes=16, output=1 << 20, file_size=4 << 20, disk=16 << 20, files=512
)
_GRACE: Final = 1.0
_IMPORTS: Final = "from turnwise.envs.code.serialization import "
_QUICK: Final = ("-I", "-B", "-S")  # without site packages, the interpreter starts faster


@dataclass(frozen=True, slots=True)
class CaseResult:
    """Result of one test.

    Args:
        name: the call, or the name of the test.
        passed: whether it passed.
        said: what went wrong; "" if it passed. May quote expected values, so hidden tests must not show it.
    """

    name: str
    passed: bool
    said: str = ""


@dataclass(frozen=True, slots=True)
class CodeGrade:
    """Results of a list of tests, in order; `late` is True if a time limit was hit, so another run may differ."""

    outcomes: tuple[CaseResult, ...]
    late: bool = False

    @property
    def share(self) -> float:
        """Fraction of the tests that passed; 1 if there are none."""
        return sum(one.passed for one in self.outcomes) / len(self.outcomes) if self.outcomes else 1.0


GRADES: Final[ByteLimitedCache[CodeGrade]] = ByteLimitedCache()
"""Cache of this process's grades, by files, tests and grader."""


def weight(grade: CodeGrade) -> int | None:
    """Return the approximate size of a grade in bytes; None if it must not be cached."""
    if grade.late or any(one.said.startswith(_STOPPED) for one in grade.outcomes):
        return None
    return sum(len(one.name) + len(one.said) for one in grade.outcomes)


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
        self.words = _QUICK[:2] if packages else _QUICK
        self.key = f"{key} {seconds} {packages}"

    def __call__(
        self, files: Mapping[str, str], main: str, tests: Sequence[CodeTest], box: Box | None = None
    ) -> CodeGrade:
        """Return the results of tests on files.

        Args:
            files: the candidate's files, by path.
            main: the file that is called or run.
            tests: the tests.
            box: a sandbox that already contains the files; default: a new one. Tests that grade a submission need a new
                one, since the agent may have left processes running in its own.

        Raises:
            BadTask: a test is invalid.
            SandboxError: no sandbox works.
        """
        key = digest(files, "judge", main, repr(tests), self.key)
        return GRADES.recall(key, lambda: self._judge(files, main, tests, box), weight)

    def _judge(self, files: Mapping[str, str], main: str, tests: Sequence[CodeTest], box: Box | None) -> CodeGrade:
        until = time.monotonic() + 10 * self.seconds
        calls = [test for test in tests if isinstance(test, CallTest)]
        outcomes: dict[int, tuple[CaseResult, ...]] = {}
        late = False
        with self._box(files, box) as where:
            if calls:
                said = iter(self._call(where, main, calls))
                outcomes |= {number: (next(said),) for number, test in enumerate(tests) if isinstance(test, CallTest)}
                late = any(one.said == _LATE for (one,) in outcomes.values())
            for number, test in enumerate(tests):
                if isinstance(test, StdioTest):
                    outcomes[number], slow = self._exchange(where, main, test, until)
                    late |= slow
                elif isinstance(test, ScriptTest):
                    outcomes[number], slow = self._script(where, files, main, test, until)
                    late |= slow
        return CodeGrade(tuple(one for number in sorted(outcomes) for one in outcomes[number]), late)

    @contextmanager
    def _box(self, files: Mapping[str, str], box: Box | None) -> Iterator[Box]:
        if box is not None:
            yield box
            return
        with self.box() as fresh:
            for path, text in files.items():
                fresh.put(path, text)
            yield fresh

    def _call(self, box: Box, main: str, calls: Sequence[CallTest]) -> list[CaseResult]:
        requests = [
            {
                "do": "call",
                "module": module_of(main),
                "name": call.name,
                "alone": True,
                "arguments": encode([list(ast.literal_eval(call.arguments)), ast.literal_eval(call.keywords)], refuse),
                "seconds": self.seconds,
            }
            for call in calls
        ]
        driver = [box.python, *self.words, "-c", f"{_driver('candidate_runner')}\nbatch()"]
        result = box.run(driver, json.dumps(requests), timeout=min(box.limits.wall, 10 * self.seconds))
        answers = _answers(result.stdout_bytes, len(calls))
        silence = _LATE if result.stop in ("timeout", "cpu") else f"the program ended ({_why(result.stop)})"
        return [_compared(call, answer, silence) for call, answer in zip(calls, answers, strict=True)]

    def _exchange(self, box: Box, main: str, test: StdioTest, until: float) -> tuple[tuple[CaseResult, ...], bool]:
        name = names_of(test)[0]
        left = until - time.monotonic()
        if left <= 0:
            return (CaseResult(name, False, _LATE),), True
        program = [box.python, *(word for word in self.words if word != "-I"), main]
        result = box.run(program, test.stdin, timeout=min(left, self.seconds + _GRACE))
        if result.stop in ("timeout", "cpu"):
            return (CaseResult(name, False, _LATE),), True
        if not result.ok:
            last = (result.stderr.strip().splitlines() or [f"it ended with code {result.code}"])[-1]
            return (CaseResult(name, False, last[:300]),), False
        same = _lines(result.stdout) == _lines(test.stdout)
        said = "" if same else f"wrote {_short(result.stdout)}, not {_short(test.stdout)}"
        return (CaseResult(name, same, said),), False

    def _script(
        self, box: Box, files: Mapping[str, str], main: str, test: ScriptTest, until: float
    ) -> tuple[tuple[CaseResult, ...], bool]:
        """Run a test script in its own sandbox and forward its calls to the candidate's sandbox."""
        names = names_of(test)
        order = {
            "code": test.code,
            "form": test.form,
            "entry": test.entry,
            "prelude": test.prelude,
            "module": module_of(main),
            "modules": sorted({module_of(path) for path in files if path.endswith(".py")}),
            "own": sorted({module_of(main), *test.own} - {module_of(path) for path, _ in test.beside}),
        }
        talk = _Talk(self.seconds, until)
        try:
            with self.box() as test_box:
                for path, text in test.beside:
                    test_box.put(path, text)
                with test_box.session() as tests, box.session() as candidate:
                    verdicts = talk.run(tests, candidate, order)
        except _Over as error:
            return tuple(CaseResult(name, False, str(error)) for name in names), str(error) == _TOO_LONG
        found = {str(name): (bool(passed), str(said)) for name, passed, said in verdicts}
        failed = any(not passed for name, (passed, _) in found.items() if name not in names)
        outcomes = (CaseResult(name, *found.get(name, (False, "it was not reached"))) for name in names)
        return tuple(CaseResult(one.name, one.passed and not failed, one.said) for one in outcomes), talk.late


class _Over(Exception):
    """The test script did not finish; the message says why."""


class _Talk:
    """Forwards calls from the test script to the candidate, and results back, until the script finishes."""

    def __init__(self, seconds: float, until: float) -> None:
        self.seconds, self.until, self.late = seconds, until, False

    def run(self, tests: PythonSession, candidate: PythonSession, order: dict[str, Any]) -> list[list[Any]]:
        """Return the results of the test script."""
        self._say(tests, _driver("script_runner"), None)
        self._say(
            candidate,
            f"{_driver('candidate_runner')}\nimport os as _os, sys as _sys; _sys.path.insert(0, _os.getcwd())",
            None,
        )
        message = self._say(tests, "begin", json.dumps(order))
        lost = ""
        while "ask" in message:
            request = {**message["ask"], "seconds": min(self.seconds, self._left())}
            answer = {"e": ["RuntimeError"], "m": lost} if lost else self._asked(candidate, request)
            lost = lost or str(answer.get("lost", ""))
            self.late = self.late or "CallTimeout" in answer.get("e", ())
            message = self._say(tests, "go_on", json.dumps(answer))
        if "done" not in message:
            raise BadTask(f"the tests cannot be run: {message.get('broken')}")
        verdicts = message["done"]
        assert isinstance(verdicts, list)
        return verdicts

    def _asked(self, candidate: PythonSession, request: dict[str, Any]) -> dict[str, Any]:
        """Return the candidate's response to a request; an invalid response counts as an exception that it raised."""
        answer = candidate.run(f"serve({json.dumps(request)!r})", timeout=min(self._left(), self.seconds + _GRACE))
        if answer.restarted or answer.stop != "exit":
            self.late = self.late or answer.stop in ("timeout", "cpu")
            said = f"the program ended ({_why(answer.stop)})"
            return {"e": ["RuntimeError"], "m": said, "lost": said}
        data = _returned_json(answer.value)
        if isinstance(data, dict) and ("v" in data or isinstance(data.get("e"), list)):
            return data
        return {"e": ["RuntimeError"], "m": answer.error[-200:] or "the program gave no answer"}

    def _say(self, tests: PythonSession, word: str, text: str | None) -> dict[str, Any]:
        answer = tests.run(word if text is None else f"{word}({text!r})", timeout=self._left())
        if answer.stop != "exit":
            raise _Over(_TOO_LONG if answer.stop in ("timeout", "cpu") else f"{_STOPPED}{answer.stop}")
        if text is None:
            if answer.error:
                raise _Over(answer.error[-300:])
            return {}
        data = _returned_json(answer.value)
        if not isinstance(data, dict):
            raise _Over(answer.error[-300:] or "no answer")
        return data

    def _left(self) -> float:
        left = self.until - time.monotonic()
        if left <= 0:
            raise _Over(_TOO_LONG)
        return left


_LATE: Final = "it took too long"
_TOO_LONG: Final = "the tests took too long"
_STOPPED: Final = "the tests were stopped by the limit: "


def _compared(call: CallTest, answer: dict[str, Any] | None, silence: str) -> CaseResult:
    """Return the result of a call, whose value is decoded into builtins and compared in this process."""
    if answer is None:
        return CaseResult(call.text, False, silence)
    if "v" not in answer:
        names = answer.get("e")
        kind = str(names[0]) if isinstance(names, list) and names else "an error"
        said = f"{kind}: {answer.get('m', '')}".rstrip(": ")
        return CaseResult(call.text, False, _LATE if kind == "CallTimeout" else f"raised {said[:300]}")
    want = ast.literal_eval(call.returns)
    try:
        value = decode(answer["v"], _foreign)
        same = bool(value == want)
        shown = repr(value)
    except (NotPlain, RecursionError, ValueError, MemoryError):
        return CaseResult(call.text, False, f"returned what is no plain data, not {_short(call.returns, 0)}")
    return CaseResult(call.text, same, "" if same else f"returned {_short(shown, 0)}, not {_short(call.returns, 0)}")


def _foreign(data: dict[str, Any]) -> Any:
    raise NotPlain("not plain")


def _answers(data: bytes, count: int) -> list[dict[str, Any] | None]:
    """Return the responses by number; anything else in the output is ignored."""
    found: list[dict[str, Any] | None] = [None] * count
    for line in data.split(b"\n"):
        with suppress(ValueError, RecursionError):
            message = json.loads(line)
            if isinstance(message, list) and len(message) == 2 and isinstance(message[1], dict):
                number = message[0]
                if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < count:
                    found[number] = message[1]
    return found


def _returned_json(value: str) -> Any:
    """Return the JSON in the text that a session's last expression returned; None for anything else."""
    with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
        text = ast.literal_eval(value)
        return json.loads(text) if isinstance(text, str) else None
    return None


def _driver(name: str) -> str:
    """Return the source of a driver module for the inside of a sandbox, preceded by that of `serialization`."""
    folder = resources("turnwise.envs.code")
    plain = folder.joinpath("serialization.py").read_text(encoding="utf-8")
    text = folder.joinpath(f"{name}.py").read_text(encoding="utf-8")
    kept = [line for line in text.splitlines() if not line.startswith((_IMPORTS, "from __future__"))]
    return plain + "\n" + "\n".join(kept)


def _why(stop: str) -> str:
    return "it exited" if stop == "exit" else f"stopped by the limit: {stop}"


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().split("\n")]


def _short(text: str, quote: int = 1) -> str:
    shown = repr(text) if quote else text
    return shown if len(shown) <= 120 else f"{shown[:80]}...{shown[-30:]}"
