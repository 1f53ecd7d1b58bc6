"""What an audit finds: problems with their place, and one result for each check."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

EXAMPLES = 5
"""Maximum number of problems of a check that are kept beside their number."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a problem is; the parts that do not apply are None."""

    iteration: int | None = None
    trajectory: str | None = None
    turn: int | None = None
    """Index of the turn, from 0."""

    def __str__(self) -> str:
        """Return the place in words.

        >>> str(Place(3, "small/7#0@42", 1))
        'iteration 3, trajectory small/7#0@42, turn 1'
        """
        parts = [f"{name} {value}" for name in self.__slots__ if (value := getattr(self, name)) is not None]
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class AuditProblem:
    """Something that is not in order."""

    check: str
    location: Place
    text: str

    def __str__(self) -> str:
        """Return place and text as one sentence."""
        where = str(self.location)
        return f"{where}: {self.text}" if where else self.text


@dataclass(slots=True)
class AuditResult:
    """The result of one check.

    Attributes:
        name: of the check.
        asks: what it checks, in words.
        unit: what `checked` counts.
        checked: how many units were checked.
        count: number of problems.
        problems: the first of them, in the order of iterations and trajectories.
        not_done: sentences about what could not be checked; not a failure.
        details: further numbers, as JSON can hold them.
    """

    name: str
    asks: str
    unit: str
    checked: int = 0
    count: int = 0
    problems: list[AuditProblem] = field(default_factory=list)
    not_done: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)

    def add(self, problems: Iterable[tuple[Place, str]], *, ahead: bool = False) -> None:
        """Count problems, and keep the first ones; `ahead` puts them before those that were found earlier."""
        additions = [AuditProblem(self.name, where, text) for where, text in problems]
        self.count += len(additions)
        self.problems = (additions + self.problems if ahead else self.problems + additions)[:EXAMPLES]

    @property
    def state(self) -> str:
        """Return "failed", "passed", or "not done" where nothing was checked."""
        return "failed" if self.count else "passed" if self.checked else "not done"

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON can hold it."""
        return {
            "name": self.name,
            "asks": self.asks,
            "state": self.state,
            "checked": self.checked,
            "unit": self.unit,
            "problems": self.count,
            "examples": [
                {
                    "iteration": problem.location.iteration,
                    "trajectory": problem.location.trajectory,
                    "turn": problem.location.turn,
                }
                | {"text": problem.text}
                for problem in self.problems
            ],
            "not_done": self.not_done,
            **({"details": self.details} if self.details else {}),
        }
