"""Results of tests, and the cache that keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from turncredit.envs.caching import ByteLimitedCache

__all__ = ["GRADES", "LATE", "LOST", "STOPPED", "TOO_LONG", "CaseResult", "CodeGrade", "shorten", "weight", "why"]

LATE: Final = "it took too long"
TOO_LONG: Final = "the tests took too long"
LOST: Final = "the program ended its sandbox"
STOPPED: Final = "the tests were stopped by the limit: "


@dataclass(frozen=True, slots=True)
class CaseResult:
    """Result of one test.

    Args:
        name: the call, or the name of the test.
        passed: whether it passed.
        message: what went wrong; "" if it passed. May quote expected values, so hidden tests must not show it.
    """

    name: str
    passed: bool
    message: str = ""


@dataclass(frozen=True, slots=True)
class CodeGrade:
    """Results of a list of tests, in order; `late` is True if a time limit was hit, so another run may differ."""

    outcomes: tuple[CaseResult, ...]
    late: bool = False

    @property
    def share(self) -> float:
        """Fraction of the tests that passed; 1 if there are none."""
        return sum(outcome.passed for outcome in self.outcomes) / len(self.outcomes) if self.outcomes else 1.0


GRADES: Final[ByteLimitedCache[CodeGrade]] = ByteLimitedCache()
"""Cache of this process's grades, by files, tests and grader."""


def weight(grade: CodeGrade) -> int | None:
    """Return the approximate size of a grade in bytes; None if it must not be cached."""
    if grade.late or any(outcome.message.startswith((STOPPED, LOST)) for outcome in grade.outcomes):
        return None
    return sum(len(outcome.name) + len(outcome.message) for outcome in grade.outcomes)


def why(stop: str) -> str:
    """Return what a stop of the sandbox means for the program."""
    return "it exited" if stop == "exit" else f"stopped by the limit: {stop}"


def shorten(text: str) -> str:
    """Return a text of at most about 120 characters."""
    return text if len(text) <= 120 else f"{text[:80]}...{text[-30:]}"
