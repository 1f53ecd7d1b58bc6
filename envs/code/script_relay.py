"""The host's side of a test script: it carries calls from the tests' sandbox to the candidate's, and answers back.

Answers of the candidate are not read here. They are limited in length and handed to the tests' sandbox, which decodes
them under its own limits of time and memory. Messages of the tests' sandbox are read under limits as well.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, Final

from turncredit.envs.code.candidate_process import CandidateProcess
from turncredit.envs.code.grades import STOPPED, TOO_LONG
from turncredit.envs.code.task import BadTask
from turncredit.tools.sandbox import PythonSession, UntrustedData
from turncredit.tools.sandbox.untrusted_frames import FrameLimits, decode_frame

__all__ = ["ScriptOver", "ScriptRelay"]

_MOST: Final = 4 << 20  # characters of a message of the tests' sandbox
_LIMITS: Final = FrameLimits(bytes=_MOST, depth=4, items=200_000, text=_MOST)


class ScriptOver(Exception):
    """The test script did not finish; the message says why."""


class ScriptRelay:
    """Forwards calls from a test script to the candidate, and answers back, until the script finishes.

    Args:
        driver: source of `script_runner`.
        until: `time.monotonic()` at which the script is stopped.
    """

    def __init__(self, driver: str, until: float) -> None:
        self.driver, self.until = driver, until
        self.late = False

    def run(
        self, tests: PythonSession, candidate: CandidateProcess, order: Mapping[str, Any]
    ) -> dict[str, tuple[bool, str]]:
        """Return the results of a test script, name -> (passed, what went wrong).

        Raises:
            ScriptOver: the script did not finish.
            BadTask: the script is not valid, whatever the candidate does.
        """
        self._load(tests, self.driver)
        message = self._say(tests, f"begin({json.dumps(order)!r})")
        while "ask" in message:
            reply = candidate.ask(str(message["ask"]))
            message = self._say(tests, f"go_on({reply.text!r}, {reply.lost!r})")
        if "broken" in message:
            raise BadTask(f"the tests cannot be run: {message['broken']}")
        self.late = candidate.late or message.get("late") is True
        return _verdicts(message.get("done"))

    def _load(self, session: PythonSession, source: str) -> None:
        answer = session.run(source, timeout=self._left())
        if answer.stop != "exit" or answer.error:
            raise _over(answer.stop, answer.error)

    def _say(self, tests: PythonSession, code: str) -> dict[str, object]:
        answer = tests.run(code, timeout=self._left())
        if answer.stop != "exit":
            raise _over(answer.stop, answer.error)
        try:
            return decode_frame(answer.value.encode(), _LIMITS)
        except (UntrustedData, UnicodeEncodeError):
            raise ScriptOver(answer.error[-300:] or "no answer") from None

    def _left(self) -> float:
        left = self.until - time.monotonic()
        if left <= 0:
            raise ScriptOver(TOO_LONG)
        return left


def _over(stop: str, error: str) -> ScriptOver:
    if stop == "exit":
        return ScriptOver(error[-300:])
    return ScriptOver(TOO_LONG if stop in ("timeout", "cpu") else f"{STOPPED}{stop}")


def _verdicts(done: object) -> dict[str, tuple[bool, str]]:
    verdicts = {}
    for entry in done if isinstance(done, list) else []:
        if isinstance(entry, list) and len(entry) == 3:
            verdicts[str(entry[0])] = (entry[1] is True, str(entry[2])[:300])
    return verdicts
