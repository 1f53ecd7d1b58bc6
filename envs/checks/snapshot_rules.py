"""The rule about snapshots: a restored state has the same future as the saved one.

Both are played side by side, from the start, the middle and the end of the expert's episode, of a random one and of one
that reaches the turn limit. Each snapshot is restored twice into a new instance: before any reset, and after playing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final

from turncredit.envs.branch import load, save
from turncredit.envs.checks.contract_rule import ContractRule, RuleFailed, RuleSkipped, failed, last_line, raises
from turncredit.envs.checks.episode_data import CONTRACT, ProbeEpisode, ProbeStep, difference, literal, read_step
from turncredit.envs.checks.explorer import Explorer
from turncredit.envs.errors import EnvError
from turncredit.envs.info import VALID, Environment

__all__ = ["RULES"]

_SEEN: Final = tuple(key for key in CONTRACT if key != VALID)  # valid is about an action
_IMPORT: Final = "from turncredit.envs import load, save\n\n"


def snapshot(explorer: Explorer) -> str:
    """A restored state has the same future as the saved one, and saving changes nothing."""
    if not explorer.has("snapshot") or not explorer.has("restore"):
        raise RuleSkipped("the environment has no snapshot() and restore()")
    moments = 0
    for task, episodes in explorer.episodes.items():
        fresh = explorer.source.build()
        try:
            for episode in {
                id(chosen): chosen for chosen in (episodes[0], episodes[len(episodes) // 2], episodes[-1])
            }.values():
                last = len(episode.actions)
                for turn in sorted({0, last // 2, last}, reverse=moments == 0):
                    moments += 1
                    _moment(explorer, fresh, episode, turn)
        finally:
            fresh.close()
        _torn(explorer, task)
    return f"{moments} moments restored twice in other instances, and torn bytes refused"


def _moment(explorer: Explorer, fresh: Environment, episode: ProbeEpisode, turn: int) -> None:
    """Save a state and compare what follows."""
    explorer.play(episode.task, episode.actions[:turn])
    data = _saved(explorer, episode, turn)
    remaining = episode.actions[turn:]
    problem = _departs(explorer.env, episode, turn)
    if problem:
        claim = (
            f"{_IMPORT}play({literal(list(episode.actions[:turn]))})\nsave(env)\n"
            f"for action, seen in zip({literal(list(remaining))}, answers[{turn + 1} :]):\n"
            "    assert env.step(action) == seen"
        )
        text = f"saving the moment of turn {turn} changes what follows: {problem}"
        raise failed(explorer, episode, len(episode.actions), text, claim)
    over = _after(explorer.env, episode)
    for time in ("", "a second time "):
        problem = _resumed(fresh, data, episode, turn)
        if not problem and (refusal := _after(fresh, episode)) != over:
            problem = f"after the end, a step raises {refusal}, not {over}"
        if problem:
            raise _failed(
                explorer, episode, turn, f"restored {time}at turn {turn} of {len(episode.actions)}, {problem}"
            )


def _saved(explorer: Explorer, episode: ProbeEpisode, turn: int) -> bytes:
    """Return a snapshot of the shared instance."""
    try:
        return save(explorer.env)
    except EnvError as error:
        core = explorer.env.get_wrapper_attr("snapshot")
        if raises(core) is None and isinstance(core(), bytes):
            raise RuleSkipped(str(error)) from error  # the problem is an unknown wrapper
        problem = f"at turn {turn}, {error}"
    except Exception as error:
        problem = f"snapshot() at turn {turn} raised {type(error).__name__}: {error}"
    claim = "assert isinstance(env.get_wrapper_attr('snapshot')(), bytes)"
    raise failed(explorer, episode, turn, problem, claim)


def _resumed(env: Environment, data: bytes, episode: ProbeEpisode, turn: int) -> str | None:
    """Restore a snapshot, and return how the instance differs from the episode, or None."""
    try:
        returned: object = load(env, data)
    except Exception as error:
        return f"restore() raised {type(error).__name__}: {error}"
    if not isinstance(returned, tuple) or len(returned) != 2 or not isinstance(returned[1], dict):
        return "restore() did not return observation and info"
    here = ProbeStep(turn, returned[0], 0.0, False, False, returned[1])
    mismatch = difference(episode.moments[turn], here, keys=_SEEN, start=True)
    return f"the {mismatch}" if mismatch else _departs(env, episode, turn)


def _departs(env: Environment, episode: ProbeEpisode, turn: int) -> str | None:
    """Return how an instance at a turn differs from the rest of the episode, or None."""
    for number, action in enumerate(episode.actions[turn:], start=turn + 1):
        try:
            raw = env.step(action)
        except Exception as error:
            return f"step() at turn {number} raised {type(error).__name__}: {error}"
        other = read_step(raw, episode.task, episode.seed, episode.actions[:number])
        if mismatch := difference(episode.moments[number], other, keys={*CONTRACT, *other.info}):
            return f"at turn {number}, {mismatch}"
    return None


def _after(env: Environment, episode: ProbeEpisode) -> str | None:
    """Return what a step after the end raises, or None if the episode did not end."""
    if not episode.last.over or not episode.actions:
        return None
    return raises(functools.partial(env.step, episode.actions[-1]))


def _failed(explorer: Explorer, episode: ProbeEpisode, turn: int, problem: str) -> RuleFailed:
    remaining = [*episode.actions[turn:], *(episode.actions[-1:] if episode.last.over else ())]
    claim = (
        f"{_IMPORT}data = save(env)\n\n\ndef future(env):\n    steps = []\n    for action in {literal(remaining)}:\n"
        "        try:\n            steps.append(env.step(action))\n"
        "        except Exception as error:\n            steps.append(type(error).__name__)\n    return steps\n\n\n"
        f"expected = future(env)\n{last_line(explorer)}\nfor time in (1, 2):\n"
        "    observation, info = load(env, data)\n    assert observation == answers[-1][0]\n"
        "    assert info | {'valid': True} == answers[-1][4] | {'valid': True}\n    assert future(env) == expected"
    )
    return failed(explorer, episode, turn, problem, claim)


def _torn(explorer: Explorer, task: str | None) -> None:
    """Check that damaged bytes are refused and leave the episode unchanged."""
    episode = max(
        explorer.episodes[task], key=lambda candidate: len({repr(moment.observation) for moment in candidate.moments})
    )
    for turn in sorted({len(episode.actions) * part // 4 for part in (1, 2, 3)}):
        _torn_at(explorer, task, episode, turn)


def _torn_at(explorer: Explorer, task: str | None, episode: ProbeEpisode, turn: int) -> None:
    restore: Callable[[bytes], object] = explorer.env.get_wrapper_attr("restore")
    explorer.play(task, episode.actions[:turn])
    data: bytes = explorer.env.get_wrapper_attr("snapshot")()
    for bad in (b"", data[: len(data) // 2], b"\x80 no snapshot"):
        if raises(functools.partial(restore, bad)) is None:
            claim = (
                f"try:\n    env.get_wrapper_attr('restore')({_bytes_code(bad, data)})\nexcept Exception:\n    pass\n"
                "else:\n    raise AssertionError('accepted')"
            )
            raise failed(
                explorer, episode, turn, f"restore() accepts {len(bad)} bytes that are no whole snapshot", claim
            )
    if mismatch := _departs(explorer.env, episode, turn):
        claim = (
            "for bad in (b'', b'no snapshot'):\n    try:\n        env.get_wrapper_attr('restore')(bad)\n"
            "    except Exception:\n        pass\n"
            f"seen = [env.step(action) for action in {literal(list(episode.actions[turn:]))}]\n"
            f"assert seen == play({literal(list(episode.actions))})[{turn + 1} :]"
        )
        raise failed(
            explorer, episode, turn, f"bytes that restore() refused have changed what follows: {mismatch}", claim
        )


def _bytes_code(bad: bytes, data: bytes) -> str:
    """Return code for bytes, without writing out a snapshot."""
    if bad and data.startswith(bad):
        return f"env.get_wrapper_attr('snapshot')()[:{len(bad)}]"
    return repr(bad)


_NEEDS: Final = ("protocol", "repeatable", "group", "after-end")
RULES: Final = (ContractRule("snapshot", "a restored state has the same future as the saved one", snapshot, _NEEDS),)
