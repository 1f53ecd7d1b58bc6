"""Rules of where to fork: what a fork before each turn of a group's finished episodes is worth.

A rule is a function `(episodes, *, options) -> numbers`, one for every turn of every episode. The places with the
largest numbers are forked; -inf says that a place is not to be. An installed package adds its own through an entry
point in the group `turncredit.fork_rules`. Before a run begins its rule is called without episodes, to check the
options.

A rule that takes `could_win` as well may ask whether the environment's expert could still win before a turn of one of
the episodes. Each answer plays the episode over again, so a rule should ask about few turns.

Which places are chosen depends on the episodes, and not on their order: equal places are ordered by a hash of their
names, as sampling seeds are.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from turncredit.agents.trajectory import Trajectory, Turn, sampling_seed
from turncredit.credit.option_checks import check_choice, check_number
from turncredit.credit.registry import Method
from turncredit.curriculum.errors import BadSetting
from turncredit.curriculum.growth import BranchPoint
from turncredit.registry import CannotLoad, Registry, UnknownName

__all__ = [
    "FORK_RULES",
    "NOWHERE",
    "CouldWin",
    "ForkRule",
    "choose_forks",
    "contested",
    "entropy",
    "failed",
    "forkable",
    "get_fork_rule",
    "uniform",
]

NOWHERE = -math.inf
"""The worth of a place at which no episode is to be forked."""

Worth = list[list[float]]
"""The worth of a fork before each turn of each episode."""

CouldWin = Callable[[Trajectory, int], bool]
"""Whether the environment's expert could still win before a turn of an episode, within the turns that are left."""

ASKING = "could_win"
"""The parameter of a rule that is no option: a `CouldWin`."""

WorthRule = Callable[[Sequence[Trajectory]], Worth]
"""What a rule of where to fork is to its callers."""


@dataclass(frozen=True)
class ForkRule(Method):
    """A rule of where to fork: `function(episodes, *, options) -> worth`; it may also take `could_win`."""

    def __call__(self, episodes: Sequence[Trajectory], could_win: CouldWin | None = None) -> Worth:
        """Return the worth of a fork before each turn of each episode.

        Args:
            episodes: the finished ones of a group.
            could_win: asks the environment's expert, for a rule that wants to; None if there is nobody to ask.

        Raises:
            BadSetting: the function returned another number of them, or nobody could answer it.
        """
        asking = {ASKING: could_win} if ASKING in self.parameters else {}
        worth = [[float(value) for value in values] for values in self.function(episodes, **asking)]
        turns = [len(episode.turns) for episode in episodes]
        if [len(values) for values in worth] != turns:
            raise BadSetting(f"the rule {self.name!r} must return one number a turn, {turns}; got {worth!r:.80}")
        return worth

    @property
    def options(self) -> Mapping[str, object]:
        """The options by name, with their defaults."""
        return {name: default for name, default in list(self.parameters.items())[1:] if name != ASKING}


def uniform(episodes: Sequence[Trajectory]) -> Worth:
    """Return the same worth for every turn."""
    return [[0.0] * len(episode.turns) for episode in episodes]


def entropy(episodes: Sequence[Trajectory], *, tokens: int = 8) -> Worth:
    """Return how uncertain the policy was about the beginning of each answer, nats per token.

        worth = mean of -log p over the first tokens of the answer

    -log p of a sampled token is an unbiased estimate of the entropy of the distribution that it was drawn from.

    Args:
        episodes: of one group.
        tokens: how many tokens of the answer count.

    Raises:
        BadOption: tokens < 1.

    Source: Dong et al. 2025 (ARPO), arXiv 2507.19849, which compares the entropy after each tool call with that of the
    first turn. Ours: the entropy of the sampled tokens, compared between all turns of the group.
    """
    check_number("tokens", tokens, 1, whole=True)
    return [[_surprise(turn, tokens) for turn in episode.turns] for episode in episodes]


def contested(episodes: Sequence[Trajectory]) -> Worth:
    """Return how mixed the outcomes are of the episodes that visited a turn's state.

        worth = p (1 - p)        p = share of won episodes among those that visited the state

    Where all of them ended alike there is no place to fork.
    """
    visitors: dict[str, dict[str, bool]] = {}
    for episode in episodes:
        for turn in episode.turns:
            visitors.setdefault(turn.state, {})[episode.id] = episode.won

    def worth(state: str) -> float:
        share = sum(visitors[state].values()) / len(visitors[state])
        return share * (1.0 - share) or NOWHERE

    return [[worth(turn.state) for turn in episode.turns] for episode in episodes]


def failed(
    episodes: Sequence[Trajectory], *, by: Literal["members", "expert"] = "members", could_win: CouldWin | None = None
) -> Worth:
    """Return 1 at the last turn of each lost episode from which it could still be won; no other turn is a place.

    Args:
        episodes: of one group.
        by: who could win: "members", another episode of the group that was in the same state and won; or the
            environment's "expert", whose plan from there is no longer than the turns that are left.
        could_win: asks the expert.

    Raises:
        BadOption: nobody of this name could win.
        BadSetting: by="expert", and there is no environment to ask.
    """
    check_choice("by", by, Literal["members", "expert"])
    if by == "expert" and could_win is None and episodes:
        raise BadSetting('the rule "failed" with by = "expert" needs an environment to ask, and there is none')
    won = {turn.state for episode in episodes if episode.won for turn in episode.turns}

    def a_member_won(episode: Trajectory, turn: int) -> bool:
        return episode.turns[turn].state in won

    winnable = could_win if by == "expert" and could_win is not None else a_member_won
    worth = [[NOWHERE] * len(episode.turns) for episode in episodes]
    for values, episode in zip(worth, episodes, strict=True):
        backwards = range(len(values) - 1, 0, -1) if not episode.won else ()
        last = next((turn for turn in backwards if winnable(episode, turn)), None)
        if last is not None:
            values[last] = 1.0
    return worth


def _surprise(turn: Turn, tokens: int) -> float:
    first = turn.logprobs[:tokens]
    return -math.fsum(first) / len(first) if first else NOWHERE


BUILTIN = (
    ForkRule("uniform", "Any turn", None, "paper", "Each turn with the same probability.", uniform),
    ForkRule("entropy", "Uncertain answers (ARPO)", "2507.19849", "our reading",
             "The turns at whose first tokens the policy was least certain.", entropy),
    ForkRule("contested", "States with both outcomes", None, "our reading",
             "Turns in states that won and lost episodes of the group visited, the most mixed first.", contested),
    ForkRule("failed", "Where a lost episode could still be won", None, "our reading",
             "The last turn of a lost episode from which another member won, or from which the expert could.", failed),
)  # fmt: skip


def _adapt(name: str, loaded: object) -> ForkRule:
    if isinstance(loaded, ForkRule):
        return replace(loaded, name=name)
    if not callable(loaded):
        raise TypeError(f"expected a ForkRule or a function, got {type(loaded).__name__}")
    title = (inspect.getdoc(loaded) or name).splitlines()[0]
    return ForkRule(name, title, None, "our reading", title, loaded)


FORK_RULES: Registry[ForkRule] = Registry("rule of where to fork", group="turncredit.fork_rules", adapt=_adapt)
for _rule in BUILTIN:
    FORK_RULES.register(_rule.name, _rule)


def get_fork_rule(name: str, **options: object) -> ForkRule:
    """Return a rule of where to fork with its options bound.

    Args:
        name: a name of `FORK_RULES`, or "module:function".
        options: of the rule.

    Raises:
        BadSetting: there is no such rule, or it cannot be imported.
        BadOption: it has no such option, or the option has an impossible value.
    """
    try:
        rule = FORK_RULES.get(name).bind(**options)
    except (UnknownName, CannotLoad) as error:
        raise BadSetting(str(error)) from error
    rule(())
    return rule


def forkable(episode: Trajectory) -> range:
    """Return the turns before which an episode can be forked.

    They are turns that it sampled itself, since what it took over belongs to its parent; not its first turn, where a
    fork would be another beginning, nor the turn at which it parted from its parent, which is a place of the parent.
    """
    return range(1 if episode.fork_turn is None else episode.fork_turn + 1, len(episode.turns))


def choose_forks(
    episodes: Iterable[Trajectory], rule: WorthRule, count: int, taken: Collection[tuple[str, int]] = ()
) -> list[BranchPoint]:
    """Return the places of a group that are worth most, at most `count`, the best one first.

    Args:
        episodes: the finished ones of the group, in any order.
        rule: says what each place is worth.
        count: how many.
        taken: (id of the episode, turn) of places that are not to be forked again.

    Returns:
        Turns of `forkable`.
    """
    members = list(episodes)
    places = []
    for episode, worth in zip(members, rule(members), strict=True):
        for turn in forkable(episode):
            if math.isfinite(worth[turn]) and (episode.id, turn) not in taken:
                name = f"{episode.id.rpartition('@')[0] or episode.id}/{turn}"  # what the ids of its forks begin with
                places.append((-worth[turn], sampling_seed(name), name, BranchPoint(episode.id, turn)))
    return [point for *_, point in sorted(places, key=lambda place: place[:3])[:count]]
