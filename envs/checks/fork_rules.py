"""The rules about forks: whether an episode can begin in the middle of another, and whether chance is in its steps.

Both are optional features, so no environment breaks these rules; what they saw is in their details.
"""

from __future__ import annotations

from typing import Final

from turncredit.envs.branch import load, reseed, save
from turncredit.envs.checks.contract_rule import ContractRule, RuleSkipped, all_episodes
from turncredit.envs.checks.episode_data import ProbeEpisode, ProbeStep, difference, read_step
from turncredit.envs.checks.explorer import Explorer
from turncredit.envs.errors import EnvError
from turncredit.envs.info import NO_FORKS, Environment

__all__ = ["RULES"]

_NOISES: Final = 3
_MOMENTS: Final = 12
"""States from which actions are repeated with other random numbers."""


def forks(explorer: Explorer) -> str:
    """An episode can begin in the middle of another, from a snapshot or by replay."""
    if why := explorer.env.metadata.get(NO_FORKS):
        raise RuleSkipped(f"an episode cannot be forked: {why}")
    ways, reasons = list[str](), list[str]()
    for way, problem in (("by snapshot", _snapshot_problem(explorer)), ("by replay", _replay_problem(explorer))):
        (reasons if problem else ways).append(f"not {way}, since {problem}" if problem else way)
    if not ways:
        raise RuleSkipped(f"an episode cannot be forked: {'; '.join(reasons)}")
    return "; ".join([" and ".join(ways), *reasons])


def deterministic(explorer: Explorer) -> str:
    """The same state and action give the same next state for all random numbers."""
    moments = [
        (episode, turn)
        for episode in _long_episodes(explorer)
        for turn in range(0, len(episode.actions), max(1, len(episode.actions) // 4))
    ][:_MOMENTS]
    for episode, turn in moments:
        for noise in range(_NOISES):
            if mismatch := difference(episode.moments[turn + 1], _repeated(explorer, episode, turn, noise)):
                return f"no: with other random numbers, {mismatch} after {episode.actions[turn]!r:.60}"
    if not moments:
        raise RuleSkipped("no step was taken")
    return f"yes: {len(moments)} actions repeated with {_NOISES} other seeds gave the same next states"


def _repeated(explorer: Explorer, episode: ProbeEpisode, turn: int, noise: int) -> ProbeStep:
    """Return the step of an action that is taken again, from the same state with other random numbers."""
    env = explorer.env
    explorer.play(episode.task, episode.actions[:turn])
    reseed(env, explorer.seed + 1_000 + noise)
    return read_step(env.step(episode.actions[turn]), episode.task, episode.seed, episode.actions[: turn + 1])


def _snapshot_problem(explorer: Explorer) -> str:
    """Return why a saved state cannot be continued in another instance, or an empty text."""
    if not explorer.has("snapshot") or not explorer.has("restore"):
        return "the environment has no snapshot() and restore()"
    episode, fresh = _longest(explorer), explorer.source.build()
    turn = len(episode.actions) // 2
    try:
        explorer.play(episode.task, episode.actions[:turn])
        load(fresh, save(explorer.env))
        return _departs(fresh, episode, turn)
    except EnvError as error:
        return str(error)
    except Exception as error:  # the rule "snapshot" shows it
        return f"it raises {type(error).__name__}: {error}"
    finally:
        fresh.close()


def _replay_problem(explorer: Explorer) -> str:
    """Return why the same actions do not lead another instance to a state again, or an empty text."""
    episode, fresh = _longest(explorer), explorer.source.build()
    try:
        again = explorer.play(episode.task, episode.actions, env=fresh)
    finally:
        fresh.close()
    for moment, other in zip(episode.moments, again.moments, strict=False):
        if mismatch := difference(moment, other, start=moment.turn == 0):
            return f"the same actions differ at turn {moment.turn}: {mismatch}"
    return "" if len(again.moments) == len(episode.moments) else "the same actions end an episode elsewhere"


def _departs(env: Environment, episode: ProbeEpisode, turn: int) -> str:
    """Return how an instance that was restored at a turn differs from the rest of the episode, or an empty text."""
    for number, action in enumerate(episode.actions[turn:], start=turn + 1):
        other = read_step(env.step(action), episode.task, episode.seed, episode.actions[:number])
        if mismatch := difference(episode.moments[number], other):
            return f"the future of a restored state differs at turn {number}: {mismatch}"
    return ""


def _longest(explorer: Explorer) -> ProbeEpisode:
    return max(all_episodes(explorer), key=lambda episode: len(episode.actions))


def _long_episodes(explorer: Explorer) -> list[ProbeEpisode]:
    return sorted(all_episodes(explorer), key=lambda episode: -len(episode.actions))[:4]


RULES: Final = (
    ContractRule("forks", "an episode can begin in the middle of another", forks, ("protocol", "info")),
    ContractRule("deterministic", "chance plays no part in steps", deterministic, ("protocol", "repeatable")),
)
"""What this module checks."""
