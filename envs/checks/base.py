"""What the rules of the check have in common: what a rule is, how it fails, and the scripts that show a failure.

A rule is a function of the Lab: it returns what was seen, or raises Failed or Skipped. It looks at the episodes that
the Lab has explored, and plays more where it has to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from turnwise.envs.checks.lab import Lab
from turnwise.envs.checks.probe import Crash, Episode, Moment, script

__all__ = [
    "LAST",
    "Failed",
    "Rule",
    "Skipped",
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
"""Code that names the parts of the last answer."""


class Failed(Exception):
    """The rule is broken; `reproduce` is a script that shows it."""

    def __init__(self, detail: str, reproduce: str) -> None:
        """Keep both."""
        super().__init__(detail)
        self.reproduce = reproduce


class Skipped(Exception):
    """The rule cannot be judged here, and why."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: its name, what it says in a few words, and the rules without which it cannot be judged."""

    name: str
    says: str
    judge: Callable[[Lab], str]
    needs: tuple[str, ...] = ()


def all_episodes(lab: Lab) -> list[Episode]:
    """Return all explored episodes."""
    return [episode for episodes in lab.episodes.values() for episode in episodes]


def failed(lab: Lab, episode: Episode, turn: int, what: str, claim: str) -> Failed:
    """Return the failure of a rule at one turn of an episode; `claim` speaks of `answers`."""
    code = script(lab.source, episode.task, episode.seed, claim, runs={"answers": episode.actions[:turn]})
    return Failed(what, code)


def free_script(lab: Lab, task: str | None, claim: str, actions: Sequence[Any]) -> str:
    """Return a script that plays without the turn limit."""
    code = lab.source if lab.source.limit is None else lab.source.limited_code(-1)
    return script(code, task, lab.seed, claim, runs={"answers": actions})


def raises(call: Callable[[], Any], *, full: bool = False) -> str | None:
    """Return what a call raises, by name or in full; None when it returns."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}" if full else type(error).__name__
    return None


def options_code(task: str | None) -> str:
    """Return the code of the options of reset() for a task."""
    return "" if task is None else f", options={{'task': {task!r}}}"


def last_line(lab: Lab) -> str:
    """Return the line of code that makes an instance."""
    return lab.source.code.rpartition("\n")[2]


def states_seen(episodes: Sequence[Episode], most: int) -> list[tuple[tuple[Any, ...], Moment]]:
    """Return moments that are not ends, of different states where there are keys, spread over the episodes."""
    found: dict[Any, tuple[tuple[Any, ...], Moment]] = {}
    for episode in episodes:
        for moment in episode.moments:
            if not moment.over:
                key = moment.key if moment.key is not None else episode.actions[: moment.turn]
                found.setdefault(key, (episode.actions[: moment.turn], moment))
    spots = list(found.values())
    return spots[:: max(1, -(-len(spots) // most))]


def crashed(lab: Lab, crash: Crash) -> Failed:
    """Return a crash as the failure of the rule during which it came."""
    code = script(lab.source, crash.task, crash.seed, crash.claim, runs={"answers": crash.actions})
    return Failed(str(crash), code)
