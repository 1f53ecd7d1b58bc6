"""The host's side of the candidate's process: one request at a time, with the time by this host's clock.

The candidate shares its process with the driver that interrupts calls which take too long, so it can switch that off.
What counts is therefore when an answer arrives here: one that comes `GRACE` after the limit of its call, or after the
limit of all calls, is late. Requests are handed out one by one, so that a call cannot use the time of another one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from turncredit.envs.code.grades import why
from turncredit.tools.sandbox import PythonSession

__all__ = ["GRACE", "CandidateProcess", "CandidateReply"]

GRACE: Final = 0.5  # seconds of a call beyond its limit, which the candidate's own process enforces first

_INSTANT: Final = 0.001  # seconds


@dataclass(frozen=True, slots=True)
class CandidateReply:
    """What came of a request.

    Args:
        text: the answer, JSON if it is of our driver; "" if there is none, or it is too long.
        lost: why there is no answer; "" if there is one.
        late: whether a limit of time is the reason.
    """

    text: str
    lost: str = ""
    late: bool = False


class CandidateProcess:
    """The interpreter in which the candidate's functions are called.

    Args:
        session: a new one in the candidate's sandbox.
        driver: source of `candidate_runner`.
        seconds: time limit of a call.
        until: `time.monotonic()` after which no call begins or ends in time.
        most: maximum length of an answer in characters.
    """

    def __init__(self, session: PythonSession, driver: str, seconds: float, until: float, most: int) -> None:
        self.seconds, self.until, self.most = seconds, until, most
        self.late = False
        self._session = session
        self._gone: CandidateReply | None = None
        begun = session.run(f"{driver}\nprepare()", timeout=max(_INSTANT, self._left()))
        if begun.stop != "exit" or begun.error:
            self._gone = self._lost(begun.stop)

    def ask(self, request: str) -> CandidateReply:
        """Return the answer to a request; once the process has ended, why."""
        if self._gone is None and self._left() <= 0:
            self._gone = self._lost("timeout")
        if self._gone is not None:
            return self._gone
        limit = min(self.seconds, self._left())
        return self._run(f"serve({request!r}, {limit!r})", limit + GRACE)

    def _run(self, code: str, seconds: float) -> CandidateReply:
        answer = self._session.run(code, timeout=seconds)
        if answer.restarted or answer.stop != "exit":
            reply = self._lost(answer.stop)
            self._gone = reply if answer.restarted else None
            return reply
        readable = len(answer.value) <= self.most and answer.value.isascii()
        return CandidateReply(answer.value if readable else "")

    def _lost(self, stop: str) -> CandidateReply:
        late = stop in ("timeout", "cpu")
        self.late = self.late or late
        return CandidateReply("", f"the program ended ({why(stop)})", late)

    def _left(self) -> float:
        return self.until - time.monotonic()
