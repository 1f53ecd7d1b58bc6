"""Rules about rewards: the expert earns the best one, and players that do nothing of the task earn next to nothing.

Every cheap player is played, and what it earned is in the report whether it is a fault or not: it is the floor above
which an agent has to rise. Random actions may solve easy tasks, so a high floor of theirs is only a reservation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from turncredit.envs.checks import cheap_players
from turncredit.envs.checks.cheap_players import CheapPlayer
from turncredit.envs.checks.contract_rule import ContractRule, Measured, RuleFailed, RuleSkipped, RuleWarned
from turncredit.envs.checks.earnings import best_return, earn, expert_episode, panel
from turncredit.envs.checks.episode_data import ProbeEpisode, cut, script
from turncredit.envs.checks.explorer import Explorer
from turncredit.envs.checks.panel_data import Earned, Start, wins
from turncredit.envs.checks.reward_bounds import TRIVIAL
from turncredit.envs.checks.rule_clock import OutOfTime
from turncredit.envs.info import SCORE

__all__ = ["RULES", "TOLERANCE", "earning_script", "random_floor"]

TOLERANCE: Final = 1e-6
"""Difference of returns that counts as rounding."""

Variants = Callable[[Explorer], Iterator[CheapPlayer]]


def oracle(explorer: Explorer) -> Measured:
    """The expert earns the best return and the score 1 on every task."""
    returns = []
    for start in panel(explorer):
        episode = expert_episode(explorer, start)
        if episode is None:
            raise RuleWarned("no plan() shows that the best reward can be earned")
        returns.append(episode.earned)
        best = explorer.bounds.best
        if best is not None and episode.earned < best - TOLERANCE:
            problem = f"the expert earns {episode.earned:g} on {start.task!r}, and the best return is {best:g}"
            raise RuleFailed(problem, earning_script(explorer, episode, f">= {best - TOLERANCE!r}"))
        score = episode.last.info.get(SCORE, 1.0)
        if wins(episode) and not score >= 1 - TOLERANCE:
            claim = f"assert not answers[-1][4]['won'] or answers[-1][4]['score'] >= {1 - TOLERANCE!r}"
            code = script(_free_code(explorer), start.task, start.seed, claim, runs={"answers": episode.actions})
            raise RuleFailed(f"the expert wins {start.task!r} with the score {score:g}, not 1", code)
    low, high = min(returns), max(returns)
    if returns and high <= 0:
        raise RuleWarned(f"the expert earns {high:g} at best, n={len(returns)}", {"returns": returns})
    text = f"the expert earns {low:g}" + (f" to {high:g}" if high > low else "")
    return Measured(f"{text}, n={len(returns)}", {"returns": returns})


def _floor(explorer: Explorer, variants: Variants) -> Measured:
    """Return what the best variant of a cheap player earned, if that is not too much."""
    played = _played(explorer, variants)
    best = max(played, key=lambda earned: earned.mean)
    text, bound = f"{best}, by {cut(best.label, 100)}", explorer.bounds.cheap
    if best.interval[0] > bound and explorer.foreign is None:
        raise RuleWarned(f"it earns {text}; no numbered action is known to do nothing", best.values())
    if best.interval[0] > bound:
        episode = max(best.episodes, key=lambda episode: episode.earned)
        start = next(s for s in panel(explorer) if (s.task, s.seed) == (episode.task, episode.seed))
        code = earning_script(explorer, episode, f"<= {_limit(explorer, start)!r}")
        raise RuleFailed(f"it earns {text}; the bound is {bound:g}", code, best.values())
    rich = max(played, key=lambda earned: sum(share > bound for share in earned.shares))
    if tasks := [e.task for e, share in zip(rich.episodes, rich.shares, strict=True) if share > bound]:
        note = f"{len(tasks)} of {len(rich.shares)} tasks, such as {tasks[0]!r}, pay more than {bound:g}"
        raise RuleWarned(f"{rich}, by {cut(rich.label, 100)}: {note}", rich.values())
    return Measured(text, best.values())


def _played(explorer: Explorer, variants: Variants) -> list[Earned]:
    """Return what the variants of a player earned, evenly spread where the effort allows fewer."""
    players = list(variants(explorer))
    players = players[:: max(1, -(-len(players) // explorer.effort.variants))]
    played: list[Earned] = []
    for player in players:
        try:
            played.append(earn(explorer, player.label, player.play, turns=player.turns))
        except OutOfTime:
            if not played:
                raise
            explorer.cut_short = f"{len(played)} of {len(players)} variants"
            break
    if not played:
        raise RuleSkipped(f"no such player for actions in {explorer.env.action_space}")
    return played


def _best(explorer: Explorer, variants: Variants) -> Earned:
    return max(_played(explorer, variants), key=lambda earned: earned.mean)


def random_floor(explorer: Explorer) -> Earned:
    """Return what random actions earn on the panel; they are played once."""
    if explorer.random_floor is None:
        (player,) = cheap_players.random(explorer)
        explorer.random_floor = earn(explorer, player.label, player.play)
    return explorer.random_floor


def random(explorer: Explorer) -> Measured:
    """Random actions earn less than half of the best return."""
    floor = random_floor(explorer)
    return _below_half(floor, f"{floor}, {floor.won} won")


def guess(explorer: Explorer) -> Measured:
    """The same short answer to all tasks earns less than half of the best return."""
    best = _best(explorer, cheap_players.guess)
    return _below_half(best, f"{best}, by {best.label}")


def _below_half(earned: Earned, text: str) -> Measured:
    """Return what was earned, with a reservation if it is much."""
    if earned.interval[0] > TRIVIAL:
        raise RuleWarned(f"{text}: there is little to learn", earned.values())
    return Measured(text, earned.values())


def _limit(explorer: Explorer, start: Start) -> float:
    """Return the return that a cheap player may earn from a start."""
    return explorer.bounds.cheap * best_return(explorer, start)


def earning_script(explorer: Explorer, episode: ProbeEpisode, claim: str) -> str:
    """Return a script that plays an episode and asserts something of its return."""
    assertion = f"assert sum(answer[1] for answer in answers) {claim}"
    return script(explorer.source, episode.task, episode.seed, assertion, runs={"answers": episode.actions})


def _free_code(explorer: Explorer) -> str:
    return explorer.source.code if explorer.source.limit is None else explorer.source.limited_code(-1)


_NEEDS: Final = ("protocol",)
_CHEAP: Final = (
    ("idle", "doing nothing earns nothing", cheap_players.idle),
    ("empty", "the empty answer earns nothing", cheap_players.empty),
    ("echo", "repeating the task earns nothing", cheap_players.echo),
    ("shotgun", "answering with every candidate earns nothing", cheap_players.shotgun),
    ("junk", "texts without meaning earn nothing", cheap_players.junk),
)
RULES: Final = (
    ContractRule("oracle", "the expert earns the best return", oracle, _NEEDS, "semantic"),
    *(ContractRule(name, says, partial(_floor, variants=play), _NEEDS, "semantic") for name, says, play in _CHEAP),
    ContractRule("guess", "one answer to all tasks earns less than half", guess, _NEEDS, "semantic"),
    ContractRule("random", "random actions earn less than half", random, _NEEDS, "semantic"),
)
"""What this module checks."""
