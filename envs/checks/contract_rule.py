"""Contract rules: what a rule is, how it fails, and the scripts that reproduce a failure.

A rule is a function of an `Explorer`. It returns a sentence about what it saw, or raises RuleFailed, RuleWarned or
RuleSkipped. It inspects the episodes that the explorer has played, and plays more if needed. What it measured goes with
each of these (`Measured` for a rule that holds).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from turncredit.envs.checks.episode_data import Crash, ProbeEpisode, ProbeStep, script
from turncredit.envs.checks.explorer import Explorer

__all__ = [
    "LAST",
    "LEVELS",
    "ContractRule",
    "Level",
    "Measured",
    "RuleFailed",
    "RuleSkipped",
    "RuleWarned",
    "all_episodes",
    "crashed",
    "failed",
    "free_script",
    "last_line",
    "options_code",
    "raises",
    "states_seen",
]

LAST: Final = "observation, reward, terminated, truncated, info = answers[-1]\n"
"""Code that unpacks the last answer."""


Level = Literal["runtime", "semantic", "adversarial"]
LEVELS: Final[tuple[Level, ...]] = ("runtime", "semantic", "adversarial")
"""Levels of rules, in order: the contract; what rewards mean; what an attacker earns."""

Values = Mapping[str, object]
"""What a rule measured, by name: numbers, texts, and lists and tables of these."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a rule that holds saw, in words and as values."""

    detail: str
    values: Values = field(default_factory=dict)


class RuleFailed(Exception):
    """The rule is broken; `reproduce` is a script that shows it."""

    def __init__(self, detail: str, reproduce: str, values: Values | None = None) -> None:
        """Keep the description, the script, and what was measured."""
        super().__init__(detail)
        self.reproduce, self.values = reproduce, values or {}


class RuleWarned(Exception):
    """The rule holds, but its author should know what the message says."""

    def __init__(self, detail: str, values: Values | None = None) -> None:
        """Keep the description and what was measured."""
        super().__init__(detail)
        self.values = values or {}


class RuleSkipped(Exception):
    """The rule cannot be tested here; the message says why."""


@dataclass(frozen=True, slots=True)
class ContractRule:
    """A rule: name, short description, function, the rules that must hold before it can be tested, and its level."""

    name: str
    says: str
    judge: Callable[[Explorer], str | Measured]
    needs: tuple[str, ...] = ()
    level: Level = "runtime"


def all_episodes(explorer: Explorer) -> list[ProbeEpisode]:
    """Return all explored episodes."""
    return [episode for episodes in explorer.episodes.values() for episode in episodes]


def failed(explorer: Explorer, episode: ProbeEpisode, turn: int, problem: str, claim: str) -> RuleFailed:
    """Return the failure of a rule at a turn of an episode; `claim` is an assertion about `answers`."""
    code = script(explorer.source, episode.task, episode.seed, claim, runs={"answers": episode.actions[:turn]})
    return RuleFailed(problem, code)


def free_script(explorer: Explorer, task: str | None, claim: str, actions: Sequence[object]) -> str:
    """Return a script that plays without a turn limit."""
    code = explorer.source if explorer.source.limit is None else explorer.source.limited_code(-1)
    return script(code, task, explorer.seed, claim, runs={"answers": actions})


def raises(call: Callable[[], Any], *, full: bool = False) -> str | None:
    """Return the name or full text of the exception that a call raises, or None."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}" if full else type(error).__name__
    return None


def options_code(task: str | None) -> str:
    """Return the code of the reset options of a task."""
    return "" if task is None else f", options={{'task': {task!r}}}"


def last_line(explorer: Explorer) -> str:
    """Return the line of code that makes the environment."""
    return explorer.source.code.rpartition("\n")[2]


def states_seen(episodes: Sequence[ProbeEpisode], most: int) -> list[tuple[tuple[Any, ...], ProbeStep]]:
    """Return unfinished steps in different states, spread over the episodes."""
    states: dict[object, tuple[tuple[object, ...], ProbeStep]] = {}
    for episode in episodes:
        for moment in episode.moments:
            if not moment.over:
                key = moment.key if moment.key is not None else episode.actions[: moment.turn]
                states.setdefault(key, (episode.actions[: moment.turn], moment))
    spots = list(states.values())
    return spots[:: max(1, -(-len(spots) // most))]


def crashed(explorer: Explorer, crash: Crash) -> RuleFailed:
    """Return a crash as the failure of a rule."""
    code = script(explorer.source, crash.task, crash.seed, crash.claim, runs={"answers": crash.actions})
    return RuleFailed(str(crash), code)
