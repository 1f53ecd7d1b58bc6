"""The rule about collecting: the same reward cannot be earned twice.

After each reward before the end, what earned it is done again, several times: the action alone, the last actions, and
both after leaving. Three things are faults: a return above the best one; a way that leads back to the same state key
with a gain, which can be gone without end; and a reward that is paid again after the episode was saved and resumed,
although it is not without that. Rewards may repeat otherwise, as for each of several dishes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from turncredit.envs.branch import load, save
from turncredit.envs.checks.contract_rule import ContractRule, Measured, RuleFailed, RuleSkipped, all_episodes
from turncredit.envs.checks.earnings import best_return
from turncredit.envs.checks.episode_data import ProbeEpisode, literal, script
from turncredit.envs.checks.explorer import Explorer
from turncredit.envs.checks.floor_rules import TOLERANCE
from turncredit.envs.checks.panel_data import Start

__all__ = ["RULES"]

_LAPS: Final = 6
_WINDOW: Final = 3
_SPOTS: Final = 10
_DETOURS: Final = 4


@dataclass(frozen=True, slots=True)
class _Spot:
    """A turn of an episode that was rewarded and did not end it."""

    episode: ProbeEpisode
    turn: int

    @property
    def prefix(self) -> tuple[object, ...]:
        """The actions up to the rewarded one."""
        return self.episode.actions[: self.turn]


def twice(explorer: Explorer) -> Measured:
    """No reward is earned again by doing again what earned it."""
    spots, plays = list(_spots(explorer))[:_SPOTS], 0
    if not spots:
        raise RuleSkipped("no reward was paid before the end of an episode")
    for spot in spots:
        for loop in _loops(explorer, spot):
            actions = [*spot.prefix, *loop * _LAPS]
            again = explorer.play(spot.episode.task, actions, seed=spot.episode.seed)
            plays += 1
            _require_best(explorer, again)
            _require_no_gain(explorer, again, spot.turn)
            _require_same_after_restore(explorer, spot, loop, again)
    return Measured(f"{len(spots)} rewards before the end, {plays} ways to earn them again", {"spots": len(spots)})


def _spots(explorer: Explorer) -> Iterator[_Spot]:
    """Yield different rewarded turns that did not end their episode."""
    seen: set[tuple[object, object, object]] = set()
    experts = [episode for episode in explorer.expert_episodes.values() if episode is not None]
    for episode in [*experts, *all_episodes(explorer)]:
        for moment in episode.moments[1:]:
            key = (episode.task, repr(episode.actions[moment.turn - 1]), moment.key)
            if float(moment.reward) > TOLERANCE and not moment.over and key not in seen:
                seen.add(key)
                yield _Spot(episode, moment.turn)


def _loops(explorer: Explorer, spot: _Spot) -> Iterator[list[object]]:
    """Yield actions that may earn the reward again."""
    for size in range(1, min(_WINDOW, spot.turn) + 1):
        yield list(spot.episode.actions[spot.turn - size : spot.turn])
    moment = spot.episode.moments[spot.turn]
    rewarded = spot.episode.actions[spot.turn - 1]
    for action in explorer.candidates(moment)[:_DETOURS]:
        if action != rewarded:
            yield [action, rewarded]


def _require_best(explorer: Explorer, again: ProbeEpisode) -> None:
    start = Start(again.task, again.seed, again.moments[0])
    best = best_return(explorer, start)
    if again.earned > best + TOLERANCE:
        problem = f"a reward is paid again and again: {again.earned:g} in all, and a solved episode earns {best:g}"
        claim = f"assert sum(answer[1] for answer in answers) <= {best + TOLERANCE!r}"
        code = script(explorer.source, again.task, again.seed, claim, runs={"answers": again.actions})
        raise RuleFailed(problem, code, {"earned": again.earned, "best": best})


def _require_no_gain(explorer: Explorer, again: ProbeEpisode, turn: int) -> None:
    """Fail if a way back to the same state key earns something."""
    first: dict[object, tuple[int, float]] = {}
    total = sum(float(moment.reward) for moment in again.moments[: turn + 1])
    for moment in again.moments[turn:]:
        total += float(moment.reward) if moment.turn > turn else 0.0
        if moment.key is None or moment.over:
            return
        earlier, before = first.setdefault(moment.key, (moment.turn, total))
        if total > before + TOLERANCE:
            gain = total - before
            way = list(again.actions[earlier : moment.turn])
            problem = f"{literal(way)} leads back to the same state and earns {gain:g}, as often as one likes"
            claim = (
                f"a, b = {earlier}, {moment.turn}\n"
                "assert answers[a][4]['state'] != answers[b][4]['state'] or "
                "sum(answer[1] for answer in answers[a + 1 : b + 1]) <= 0"
            )
            actions = again.actions[: moment.turn]
            code = script(explorer.source, again.task, again.seed, claim, runs={"answers": actions})
            raise RuleFailed(problem, code, {"gain": gain})


def _require_same_after_restore(explorer: Explorer, spot: _Spot, loop: Sequence[object], again: ProbeEpisode) -> None:
    """Fail if a saved and resumed episode pays a reward that it had paid before."""
    if not explorer.has("snapshot") or not explorer.has("restore") or len(again.actions) <= spot.turn:
        return
    explorer.play(spot.episode.task, spot.prefix, seed=spot.episode.seed)
    fresh = explorer.source.build()
    try:
        load(fresh, save(explorer.env))
        resumed = float(fresh.step(loop[0])[1])
    except Exception:  # the rule "snapshot" shows it
        return
    finally:
        fresh.close()
    paid = float(again.moments[spot.turn + 1].reward)
    if resumed > paid + TOLERANCE:
        problem = f"{literal([loop[0]])} pays {resumed:g} after the episode was saved and resumed, and {paid:g} without"
        claim = (
            "from turncredit.envs import load, save\n\n"
            f"data = save(env)\npaid = env.step({literal(loop[0])})[1]\nload(env, data)\n"
            f"assert env.step({literal(loop[0])})[1] <= paid"
        )
        code = script(explorer.source, spot.episode.task, spot.episode.seed, claim, runs={"answers": spot.prefix})
        raise RuleFailed(problem, code, {"resumed": resumed, "paid": paid})


RULES: Final = (
    ContractRule("twice", "a reward cannot be earned twice", twice, ("protocol", "repeatable"), "semantic"),
)
"""What this module checks."""
