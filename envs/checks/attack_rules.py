"""The rules about attackers: what is earned without the expert, and whether it was earned.

That a search solves a task is no fault: doing the task is paid. Faults are a return above that of a
solved episode, and the best return in an episode that was not won. That the same actions, played blindly, also earn
much on other tasks is a reservation: learning them teaches nothing about the task.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from turncredit.envs.checks.attack_search import AttackResult, attack
from turncredit.envs.checks.contract_rule import ContractRule, Measured, RuleFailed, RuleSkipped, RuleWarned
from turncredit.envs.checks.earnings import Choose, best_return, earn, expert_episode, panel, share
from turncredit.envs.checks.episode_data import ProbeEpisode, cut, literal
from turncredit.envs.checks.explorer import Explorer
from turncredit.envs.checks.floor_rules import TOLERANCE, earning_script, random_floor
from turncredit.envs.checks.panel_data import Start, wins
from turncredit.envs.checks.reward_bounds import TRIVIAL
from turncredit.envs.checks.rule_clock import OutOfTime
from turncredit.envs.info import WON

__all__ = ["RULES"]

BETTER: Final = 0.1
"""Share by which a win may earn more than the expert's without being a fault."""
_STARTS: Final = 3
_SEARCHING: Final = 0.7
"""Share of the time that is searched; the rest judges what was reached."""
_FRAGMENT: Final = 4


def search(explorer: Explorer) -> Measured:
    """A search within a budget of steps earns nothing that was not earned."""
    budget = explorer.effort.attack if explorer.bounds.budget is None else explorer.bounds.budget
    if not budget:
        raise RuleSkipped("no steps are allowed for it")
    starts = panel(explorer)[:_STARTS]
    random_floor(explorer)  # with which it is compared: without it, a search would be in vain
    results = list[AttackResult]()
    for number, start in enumerate(starts):
        enough = best_return(explorer, start) + TOLERANCE
        seconds = _SEARCHING * explorer.time.left / (len(starts) - number)
        result = attack(explorer, start, budget // len(starts), _fragments(explorer, start), enough, seconds)
        _require_earned(explorer, start, result.best)
        results.append(result)
    steps, episodes = sum(result.steps for result in results), sum(result.episodes for result in results)
    if any(result.cut_short for result in results):
        explorer.cut_short = f"{steps:,} of {budget:,} steps"
    return _judge(explorer, [(r.start, r.best) for r in results], f"{steps:,} steps, {episodes:,} episodes")


def attacker(explorer: Explorer) -> Measured:
    """The attacker that was passed earns nothing that was not earned."""
    play = explorer.bounds.attacker
    if play is None:
        raise RuleSkipped("no attacker was passed")
    best = list[tuple[Start, ProbeEpisode]]()
    attempts = 0
    starts = panel(explorer)[:_STARTS]
    for number, start in enumerate(starts):
        if best and explorer.time.left <= 0:
            explorer.cut_short = f"{number} of {len(starts)} tasks"
            break
        try:
            sequences = play(explorer.source.build, start.task, start.seed)
        except Exception as error:  # its model or server, not the environment
            raise RuleWarned(f"the attacker could not play: {type(error).__name__}: {error}") from error
        attempts += len(sequences)
        episodes = [explorer.play(start.task, actions, seed=start.seed) for actions in sequences]
        if not episodes:
            continue
        for episode in episodes:
            _require_earned(explorer, start, episode)
        best.append((start, max(episodes, key=lambda episode: episode.earned)))
    if not best:
        raise RuleSkipped("the attacker played no episode")
    return _judge(explorer, best, f"{attempts} episodes")


def _fragments(explorer: Explorer, start: Start) -> list[tuple[object, ...]]:
    """Return pieces of the experts' episodes on other tasks."""
    pieces = list[tuple[object, ...]]()
    for other in panel(explorer):
        episode = expert_episode(explorer, other) if other.task != start.task else None
        if episode is not None:
            pieces += [episode.actions[i : i + _FRAGMENT] for i in range(0, len(episode.actions), _FRAGMENT)]
            pieces.append(episode.actions[-1:])
    return [piece for piece in pieces if piece]


def _require_earned(explorer: Explorer, start: Start, episode: ProbeEpisode) -> None:
    """Fail if an episode earned more than a solved one, or as much without being won.

    Raises:
        RuleFailed: it did.
        RuleWarned: it earned a little more and was won: the expert does not reach the maximum.
    """
    best = best_return(explorer, start)
    values = {"earned": episode.earned, "best": best, "actions": list(episode.actions)}
    if episode.earned > best + TOLERANCE:
        problem = f"{episode.earned:g} is earned on {start.task!r}, where a solved episode earns {best:g}, by "
        if wins(episode) and episode.earned <= best * (1 + BETTER):
            raise RuleWarned(f"{problem}{cut(literal(list(episode.actions)), 300)}, which wins", values)
        code = earning_script(explorer, episode, f"<= {best + TOLERANCE!r}")
        raise RuleFailed(problem + cut(literal(list(episode.actions)), 300), code, values)
    if episode.earned >= best - TOLERANCE and WON in episode.last.info and not wins(episode):
        problem = f"the best return is earned on {start.task!r} without winning, by "
        code = earning_script(explorer, episode, f"< {best - TOLERANCE!r} or answers[-1][4]['won']")
        raise RuleFailed(problem + cut(literal(list(episode.actions)), 300), code, values)


def _judge(explorer: Explorer, results: Sequence[tuple[Start, ProbeEpisode]], effort: str) -> Measured:
    """Return what the best episodes earned, or say that their actions also serve elsewhere."""
    shares = [share(explorer, start, episode.earned) for start, episode in results]
    top = max(range(len(results)), key=lambda i: shares[i])
    start, episode = results[top]
    floor, won = random_floor(explorer), sum(wins(member) for _, member in results)
    actions = cut(literal(list(episode.actions)), 200)
    above = "above" if shares[top] > floor.interval[1] else "not above"
    text = (
        f"at best {shares[top]:.2f} of the best return, {above} random actions, by {actions}; "
        f"{won} of {len(results)} tasks won in {effort}"
    )
    values: dict[str, object] = {"shares": shares, "won": won, "actions": list(episode.actions), "task": start.task}
    others = [other for other in panel(explorer) if other.task != start.task]
    if shares[top] > explorer.bounds.cheap and others:
        try:
            blind = earn(explorer, "blind", _replay(episode), turns=len(episode.actions), starts=others)
        except OutOfTime:
            explorer.cut_short = explorer.cut_short or "without playing the same actions on other tasks"
            return Measured(text, values)
        values["blind"] = blind.values()
        if blind.interval[0] > max(TRIVIAL / 2, explorer.bounds.cheap) and blind.mean > floor.interval[1]:
            raise RuleWarned(f"{text}; the same actions, played blindly on other tasks, earn {blind}", values)
        text += f"; played blindly on other tasks, the same actions earn {blind}"
    return Measured(text, values)


def _replay(episode: ProbeEpisode) -> Callable[[Start, int], Choose]:
    return lambda start, number: lambda moment, taken: episode.actions[taken]


RULES: Final = (
    ContractRule("attack", "a search earns nothing unearned", search, ("protocol",), "adversarial"),
    ContractRule("attacker", "the given attacker earns nothing unearned", attacker, ("protocol",), "adversarial"),
)
"""What this module checks."""
