"""Contract rules: what a rule is, how it fails, and the scripts that reproduce a failure.

A rule is a function of an `Explorer`. It returns a sentence about what it saw, or raises RuleFailed or RuleSkipped. It
inspects the episodes that the explorer has played, and plays more if needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from turnwise.envs.checks.episode_data import Crash, ProbeEpisode, ProbeStep, script
from turnwise.envs.checks.explorer import Explorer

__all__ = [
    "LAST",
    "ContractRule",
    "RuleFailed",
    "RuleSkipped",
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


class RuleFailed(Exception):
    """The rule is broken; `reproduce` is a script that shows it."""

    def __init__(self, detail: str, reproduce: str) -> None:
        """Keep the description and the script."""
        super().__init__(detail)
        self.reproduce = reproduce


class RuleSkipped(Exception):
    """The rule cannot be tested here; the message says why."""


@dataclass(frozen=True, slots=True)
class ContractRule:
    """A rule: name, short description, function, and the rules that must hold before it can be tested."""

    name: str
    says: str
    judge: Callable[[Explorer], str]
    needs: tuple[str, ...] = ()


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
