"""What an environment says beside its observation: the keys of `info`, and the methods beyond Gymnasium's.

The keys are the same in every environment, so that an agent loop, a credit rule or a report never asks which
environment it looks at. An environment may add keys of its own; nobody else reads them.

Some methods are optional. `task_ids` makes fixed panels possible, `plan` makes hints and imitation possible, `snapshot`
and `restore` make it possible to save and to branch an episode (see `branch`); an environment without them still plays,
trains and evaluates on tasks that it draws by itself. A class may also have an attribute `demonstrators`: name -> what
makes a `Demonstrator`; `turnwise.envs.demonstrators(id)` reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NotRequired, Protocol, TypedDict, runtime_checkable

__all__ = [
    "ADMISSIBLE",
    "EXTRAS",
    "FREE",
    "KNOWLEDGE_IN_STATE",
    "SCORE",
    "STATE",
    "TASK",
    "TASK_TYPE",
    "VALID",
    "WON",
    "Demonstrator",
    "HasPlan",
    "HasSnapshot",
    "HasTasks",
    "Info",
    "fits",
]

KNOWLEDGE_IN_STATE: Final = "knowledge_in_state"
"""Key of an environment's `metadata`: True if its state keys also hold what the agent has read."""

TASK: Final = "task"
STATE: Final = "state"
ADMISSIBLE: Final = "admissible_actions"
FREE: Final = "free_actions"
EXTRAS: Final = "extras"
VALID: Final = "valid"
SCORE: Final = "score"
WON: Final = "won"
TASK_TYPE: Final = "task_type"


class Info(TypedDict):
    """The dictionary that reset() and step() return, key by key.

    task: id of the task instance; the same id and the same seed give the same episode.
    state: canonical key of the state that the agent now sees (the anchor of step-level credit). Two moments of one task
        have equal keys exactly when everything that can follow is equal: what the agent carries belongs to it, the text
        of the last answer, the number of turns and the task sentence do not. Keys of different tasks are not compared.
    admissible_actions: every action that the environment would accept now; absent where it cannot tell.
    free_actions: forms of actions that it would accept as well and that nobody can list, since a part of them is any
        text: "search[...]" (see `fits`). Where there are any, admissible_actions may hold examples of them.
    valid: the last action was understood and admissible; True after reset().
    score: progress in [0, 1]; at the end, the task's own score.
    won: the task is done. True only together with `terminated`, or as a task that was won when it began.
    extras: further columns of a turn for credit rules, by name: numbers, strings, or tuples of them. Those of reset()
        are defaults for all turns of the episode; those of step() belong to the turn just played.
    task_type: name of the kind of task, for tables per kind.
    """

    task: str
    state: str
    valid: bool
    score: float
    won: bool
    admissible_actions: NotRequired[list[str]]
    free_actions: NotRequired[list[str]]
    extras: NotRequired[dict[str, Any]]
    task_type: NotRequired[str]


def fits(action: str, forms: Iterable[str]) -> bool:
    """Return whether an action has one of the forms, which hold "..." where any text of one character or more may be.

    >>> fits("search[red shoes]", ["search[...]"]), fits("search[]", ["search[...]"])
    (True, False)
    """
    for form in forms:
        head, _, tail = form.partition("...")
        if action.startswith(head) and action.endswith(tail) and len(action) > len(head) + len(tail):
            return True
    return False


@runtime_checkable
class HasTasks(Protocol):
    """An environment that can name its task instances."""

    def task_ids(self, count: int | None = None) -> list[str]:
        """Return ids of the task instances of the chosen split, in an order that never changes.

        Args:
            count: the first so many; None for all of them, or for 1,000 where tasks are generated without end.
        """
        ...


@runtime_checkable
class HasPlan(Protocol):
    """An environment that comes with an expert."""

    def plan(self) -> list[str]:
        """Return actions that lead from the present state to success; [] when the task is won already.

        Raises:
            EnvError: no way leads to success from here (never at the start of an episode).
        """
        ...


@runtime_checkable
class HasSnapshot(Protocol):
    """An environment whose episode can be saved, and resumed in another instance, process or place."""

    def snapshot(self) -> bytes:
        """Return the episode at this moment; nothing about it changes.

        The environment's random generator belongs to it, so that whatever is drawn later is drawn alike. What wrappers
        keep, such as the turns so far, does not: `branch.save` adds it.

        Raises:
            NotReset: before the first reset.
        """
        ...

    def restore(self, data: bytes, /) -> tuple[Any, dict[str, Any]]:
        """Be at the moment of a snapshot, in an instance made with the same arguments, fresh or used.

        The same future follows as in the instance of which it was taken. Any number of instances may take the same
        bytes, which may come from anywhere: they are read as data and never as code.

        Returns:
            Observation and `info` as they were; `valid`, which is about an action, is True, as after reset().

        Raises:
            EnvError: the bytes are none, or torn, or of another environment, other arguments or another version. The
                episode that was being played goes on.
        """
        ...


class Demonstrator(Protocol):
    """A player of one episode that knows no more than the agent does: what it shows, an agent can learn."""

    def start(self, observation: str) -> None:
        """Begin an episode with its first observation.

        Raises:
            EnvError: the text is none that it can begin with.
        """
        ...

    def act(self, observation: str, admissible: Sequence[str]) -> str:
        """Return the next action; called at every turn, the first included, also where others chose the last action.

        Args:
            observation: what is seen now.
            admissible: what the environment would accept; empty where it cannot tell.
        """
        ...
