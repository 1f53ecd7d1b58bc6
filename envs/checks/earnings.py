"""What players earn: returns as shares of the best return, on a fixed panel of starts.

The share of an episode is its return divided by what the expert earns on the same task, or by the best return that the
caller names, or by 1; it is cut to [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from turncredit.envs.checks.contract_rule import RuleSkipped
from turncredit.envs.checks.episode_data import Crash, ProbeEpisode, ProbeStep, same
from turncredit.envs.checks.explorer import Explorer
from turncredit.envs.checks.panel_data import Earned, Start

__all__ = ["IDLE_TURNS", "Choose", "best_return", "earn", "expert_episode", "panel", "share"]

IDLE_TURNS: Final = 300
"""Most turns of an episode of a cheap player."""
_TRIES: Final = 3
"""Seeds that are tried for each start of the panel, where tasks have to be repeated."""

Choose = Callable[[ProbeStep, int], object]


def panel(explorer: Explorer) -> list[Start]:
    """Return different starts, as many as the effort allows: tasks evenly spread, then further seeds of them.

    Without a list of tasks, every seed is a start: chance may lie in the steps alone.
    """
    if explorer.panel is None:
        starts: list[Start] = []
        for task, seed in _draws(explorer):
            first = explorer.play(task, [], seed=seed).last
            if task is None or not any(
                start.task == task and same(start.first.observation, first.observation) for start in starts
            ):
                starts.append(Start(task, seed, first))
            if len(starts) == explorer.effort.floor:
                break
        explorer.panel = starts
    return list(explorer.panel)


def _draws(explorer: Explorer) -> Iterator[tuple[str | None, int]]:
    """Yield tasks and seeds to try for the panel."""
    tasks = explorer.panel_tasks
    count = max(len(tasks), _TRIES * explorer.effort.floor)
    for number in range(count):
        yield tasks[number % len(tasks)], explorer.seed + number // len(tasks)


def best_return(explorer: Explorer, start: Start) -> float:
    """Return the return of a solved episode from a start: as given, else what the expert earns, else 1."""
    if explorer.bounds.best is not None:
        best = explorer.bounds.best
    else:
        expert = expert_episode(explorer, start)
        best = 1.0 if expert is None or expert.earned <= 0 else expert.earned
    return best


def expert_episode(explorer: Explorer, start: Start) -> ProbeEpisode | None:
    """Return the episode of the plan from a start; None without a plan."""
    key = (start.task, start.seed)
    if key not in explorer.expert_episodes:
        explorer.expert_episodes[key] = _expert_episode(explorer, start)
    return explorer.expert_episodes[key]


def _expert_episode(explorer: Explorer, start: Start) -> ProbeEpisode | None:
    if not explorer.has("plan"):
        return None
    env = explorer.free
    explorer.play(start.task, [], env=env, seed=start.seed)
    try:
        plan = list(env.get_wrapper_attr("plan")())
    except Exception:  # the rule "plan" shows it
        return None
    return explorer.play(start.task, plan, env=env, seed=start.seed)


def share(explorer: Explorer, start: Start, earned: float) -> float:
    """Return a return as a share of the best one, in [0, 1]."""
    return min(1.0, max(0.0, earned / best_return(explorer, start)))


def turns_of(explorer: Explorer) -> int:
    """Return the most turns of an episode of a cheap player."""
    if explorer.source.limit is not None:
        return min(explorer.source.limit, IDLE_TURNS)
    return min(IDLE_TURNS, 10 * explorer.effort.turns)


def earn(
    explorer: Explorer,
    label: str,
    player: Callable[[Start, int], Choose],
    *,
    turns: int | None = None,
    starts: Sequence[Start] | None = None,
) -> Earned:
    """Return what a player earns on the panel.

    Args:
        explorer: the environment.
        label: name of the player.
        player: (start, number of the start) -> the function that chooses actions in an episode from there.
        turns: most turns of an episode; None: those of an idle one.
        starts: the starts; None: the whole panel.

    Raises:
        Crash: the environment raised an exception in every episode.
    """
    episodes, shares, crash = [], [], None
    for number, start in enumerate(panel(explorer) if starts is None else starts):
        try:
            episode = explorer.walk(start.task, player(start, number), turns or turns_of(explorer), seed=start.seed)
        except Crash as error:  # an odd action may be refused with an exception; the rule "refused" shows it
            crash = error
            continue
        episodes.append(episode)
        shares.append(share(explorer, start, episode.earned))
    if not episodes:
        raise crash or RuleSkipped("there is no start to play from")
    return Earned(label, tuple(episodes), tuple(shares))
