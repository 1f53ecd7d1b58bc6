"""The rule about seeds: another seed gives another episode. That equal seeds repeat is the rule "repeatable"."""

from __future__ import annotations

from typing import Final

import numpy as np

from turncredit.envs.checks.contract_rule import ContractRule, RuleFailed, RuleWarned
from turncredit.envs.checks.episode_data import difference
from turncredit.envs.checks.explorer import Explorer

__all__ = ["RULES"]


def seeds(explorer: Explorer) -> str:
    """Without a task, different seeds give different episodes."""
    count = 2 * explorer.effort.floor
    first, *others = (explorer.play(None, [], seed=explorer.seed + number).last for number in range(count))
    differing = sum(difference(first, other, start=True) is not None for other in others)
    if differing:
        return f"{differing} of {len(others)} other seeds start differently"
    ids = explorer.task_ids(explorer.env, 2) if explorer.has("task_ids") else []
    if len(ids) > 1:
        problem = f"{count} seeds start the same episode, although there are several tasks: reset() ignores its seed"
        code = (
            f"{explorer.source.code}\n\nstarts = [env.reset(seed=seed) for seed in "
            f"range({explorer.seed}, {explorer.seed + count})]\n"
            "assert any(str(start) != str(starts[0]) for start in starts)\n"
        )
        raise RuleFailed(problem, code)
    if _steps_differ(explorer, count):
        return f"{count} seeds start alike, and differ in their steps"
    raise RuleWarned(f"{count} seeds give the same episode: there is one task, and no chance in it")


def _steps_differ(explorer: Explorer, count: int) -> bool:
    """Return whether the same actions lead elsewhere with another seed."""
    choose = explorer.chooser(np.random.default_rng(explorer.seed))
    episode = explorer.walk(None, choose, explorer.effort.turns)
    for number in range(1, count):
        again = explorer.play(None, episode.actions, seed=explorer.seed + number)
        if len(again.moments) != len(episode.moments) or any(map(difference, again.moments, episode.moments)):
            return True
    return False


RULES: Final = (
    ContractRule("seeds", "other seeds give other episodes", seeds, ("protocol", "repeatable"), "semantic"),
)
"""What this module checks."""
