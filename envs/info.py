"""Keys of `info`, and optional methods of environments.

The keys are the same in every environment, so that agents, credit rules and reports need not know the environment. An
environment may add keys of its own.

Methods beyond Gymnasium's are optional: `task_ids` allows fixed panels, `plan` allows hints and imitation, `snapshot`
and `restore` allow saving and branching (see `branch`). An environment without them can still be played, trained on and
evaluated, on tasks that it draws itself. A class may also have an attribute `demonstrators`, which maps names to
factories of a `Demonstrator` (see `turncredit.envs.demonstrators`), and `metadata["agent"]` says how a language model
is asked (see `turncredit.envs.agent_defaults`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NotRequired, Protocol, SupportsFloat, TypeAlias, TypedDict, runtime_checkable

import gymnasium

__all__ = [
    "ADMISSIBLE",
    "EXTRAS",
    "FREE",
    "KNOWLEDGE_IN_STATE",
    "NO_FORKS",
    "RESULTS",
    "SCORE",
    "STATE",
    "STEP_LIMIT",
    "TASK",
    "TASK_TYPE",
    "TOOLS",
    "TOUCH",
    "VALID",
    "WON",
    "Demonstrator",
    "EnvArguments",
    "Environment",
    "HasPlan",
    "HasSnapshot",
    "HasTasks",
    "Info",
    "ResetOptions",
    "ResetResult",
    "StepResult",
    "fits",
]

Environment: TypeAlias = gymnasium.Env[Any, Any]
"""An environment with any observations and actions."""
EnvArguments: TypeAlias = dict[str, Any]
"""Arguments of an environment, by name."""
ResetOptions: TypeAlias = EnvArguments
"""Options of reset(), as Gymnasium declares them."""
ResetResult: TypeAlias = tuple[Any, dict[str, Any]]
"""Observation and info, as Gymnasium declares them; the keys of info are those of `Info`."""
StepResult: TypeAlias = tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]
"""Observation, reward, terminated, truncated and info, as Gymnasium declares them."""

KNOWLEDGE_IN_STATE: Final = "knowledge_in_state"
"""Key of an environment's `metadata`: True if its state keys also hold what the agent has read."""

NO_FORKS: Final = "no_forks"
"""Key of an environment's `metadata`: a sentence that says why no episode can begin in the middle of another, where
neither snapshots nor the same actions lead to a state again."""

TASK: Final = "task"
STATE: Final = "state"
ADMISSIBLE: Final = "admissible_actions"
FREE: Final = "free_actions"
VALID: Final = "valid"
SCORE: Final = "score"
WON: Final = "won"
TASK_TYPE: Final = "task_type"
EXTRAS: Final = "extras"
TOOLS: Final = "tools"
RESULTS: Final = "results"
STEP_LIMIT: Final = "step_limit"
TOUCH: Final = "touch"


class Info(TypedDict):
    """The dictionary that reset() and step() return.

    task: id of the task instance. The same id and seed give the same start, and the same actions then the same episode.
    state: key of the current state, the anchor of step-level credit. Two states of a task have equal keys exactly when
        everything that can follow is equal. What the agent carries belongs to it; the last observation, the number of
        turns and the task sentence do not. Keys of different tasks are not compared.
    admissible_actions: all actions that are possible now; absent if the environment cannot list them.
    free_actions: forms of further actions with free text, such as "search[...]" (see `fits`). If there are any,
        admissible_actions may contain examples of them.
    valid: the last action was understood and admissible; True after reset().
    score: progress in [0, 1]; at the end, the task's score.
    won: the task is done. True only with `terminated`, or if the task was won from the start.
    task_type: name of the kind of task, for tables per kind.
    step_limit: turns that this task allows, if tasks differ; not more than the environment's own limit.
    extras: columns for credit rules: name -> number, str or tuple of these. From reset(), defaults for all turns of the
        episode; from step(), values of the turn just taken.
    tools: JSON schemas of functions that a chat template describes to the agent, from reset(); absent where the first
        observation says how to act.
    results: texts of the results of the calls in the last action, one for each call and in their order; absent where
        the action was read as something else. They are in the observation as well.
    touch: where the last action touched the screen, as shares (x, y) of its width and height: a point, or the start and
        the end of a swipe; absent if it touched nothing.
    reward_parts: what the reward of an episode was computed from, by the environment's own names, at the end.
    """

    task: str
    state: str
    valid: bool
    score: float
    won: bool
    admissible_actions: NotRequired[list[str]]
    free_actions: NotRequired[list[str]]
    task_type: NotRequired[str]
    step_limit: NotRequired[int]
    extras: NotRequired[Mapping[str, object]]
    tools: NotRequired[list[dict[str, object]]]
    results: NotRequired[list[str]]
    touch: NotRequired[list[tuple[float, float]]]
    reward_parts: NotRequired[Mapping[str, object]]


def fits(action: str, forms: Iterable[str]) -> bool:
    """Return whether an action has one of the forms, in which each "..." is any text of at least one character.

    >>> fits("search[red shoes]", ["search[...]"]), fits("search[]", ["search[...]"])
    (True, False)
    """
    patterns = (".+".join(map(re.escape, form.split("..."))) for form in forms)
    return any(re.fullmatch(pattern, action, re.DOTALL) for pattern in patterns)


@runtime_checkable
class HasTasks(Protocol):
    """An environment that can list its task instances."""

    def task_ids(self, count: int | None = None) -> list[str]:
        """Return the ids of the task instances of the split, in a fixed order.

        Args:
            count: return only the first `count`; None returns all, or 1,000 where tasks are generated without end.
        """
        ...


@runtime_checkable
class HasPlan(Protocol):
    """An environment with an expert."""

    def plan(self) -> list[str]:
        """Return actions that lead from the current state to success; [] if the task is won already.

        Raises:
            EnvError: success cannot be reached from here (never at the start of an episode).
        """
        ...


@runtime_checkable
class HasSnapshot(Protocol):
    """An environment whose episode can be saved, and resumed in another instance or process."""

    def snapshot(self) -> bytes:
        """Return the current episode, including the state of the random generator, without changing it.

        The state of wrappers, such as the number of turns, is not included: `branch.save` adds it.

        Raises:
            NotReset: called before the first reset.
        """
        ...

    def restore(self, data: bytes, /) -> ResetResult:
        """Resume the episode of a snapshot, in an instance made with the same arguments.

        The same future follows as in the saved instance. The bytes may come from untrusted sources, and may be restored
        any number of times.

        Returns:
            Observation and `info` as they were, except that `valid` is True.

        Raises:
            EnvError: the bytes are damaged, or belong to another environment, version or arguments. The current episode
                stays as it is.
        """
        ...


class Demonstrator(Protocol):
    """A player of one episode that knows no more than the agent, so that an agent can learn what it shows."""

    def start(self, observation: str) -> None:
        """Start an episode with its first observation.

        Raises:
            EnvError: the demonstrator cannot play from this observation.
        """
        ...

    def act(self, observation: str, admissible: Sequence[str]) -> str:
        """Return the next action. Called at every turn, even if somebody else chose the last action.

        Args:
            observation: the current observation.
            admissible: the admissible actions; empty if the environment does not list them.
        """
        ...
