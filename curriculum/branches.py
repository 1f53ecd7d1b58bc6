"""Where group rules let episodes branch: the places of `turncredit.curriculum.fork_places`, as requests of a growth."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate

from turncredit.agents.trajectory import Trajectory, sampling_seed
from turncredit.curriculum.fork_places import WorthRule, choose_forks
from turncredit.curriculum.growth import BranchPoint, Growth, MoreEpisodes, OpenGroup
from turncredit.curriculum.members import asked_for, ordered

__all__ = [
    "best_places",
    "branches",
    "filled",
    "forked_places",
    "response_tokens",
    "token_places",
    "trees",
    "unlikely_places",
]


def best_places(
    members: Iterable[Trajectory], worth: WorthRule, count: int, taken: Collection[tuple[str, int]] = ()
) -> list[BranchPoint]:
    """Return the places that a fork rule finds worth most, at most `count`; see `choose_forks`."""
    return choose_forks(members, worth, count, taken)


def forked_places(members: Iterable[Trajectory]) -> set[tuple[str, int]]:
    """Return where members were forked, as (id of the parent, turn)."""
    return {(member.fork_of, member.fork_turn or 0) for member in members if member.fork_of is not None}


def response_tokens(member: Trajectory) -> int:
    """Return the number of tokens of all answers of an episode."""
    return sum(len(turn.response) for turn in member.turns)


def token_places(member: Trajectory, counts: Iterable[int]) -> list[BranchPoint]:
    """Return the places after some numbers of sampled tokens, each once; none before the first token or at the end.

    Args:
        member: the episode, with the tokens that it took over.
        counts: tokens of its answers before each place.
    """
    ends = list(accumulate(len(turn.response) for turn in member.turns))
    places = []
    for count in counts:
        turn = bisect_right(ends, count)
        if count > 0 and turn < len(ends):
            places.append(BranchPoint(member.id, turn, count - (ends[turn - 1] if turn else 0)))
    return list(dict.fromkeys(places))


def unlikely_places(
    members: Iterable[Trajectory], count: int, taken: Collection[tuple[str, int, int]] = ()
) -> list[BranchPoint]:
    """Return the places before the sampled tokens of the lowest log-probability, at most `count`, the lowest first.

    Not among them are tokens that an episode took over, the first one that it sampled itself, and the first of all.

    Args:
        members: of one group.
        count: how many.
        taken: (id of the episode, turn, tokens) of places that are not to be forked again.
    """
    places = []
    for member in members:
        first = (member.fork_turn or 0, member.fork_tokens)
        for number, turn in enumerate(member.turns):
            for token, logprob in enumerate(turn.logprobs):
                if (number, token) > first and (member.id, number, token) not in taken:
                    at = BranchPoint(member.id, number, token)
                    places.append((logprob, sampling_seed(f"{member.id} {number}:{token}"), at))
    return [at for *_, at in heapq.nsmallest(count, places, key=lambda place: place[:2])]


def trees(members: Iterable[Trajectory]) -> list[list[Trajectory]]:
    """Return the members by the episode that they descend from, in the order of their numbers."""
    roots: dict[str, str] = {}
    grown: dict[str, list[Trajectory]] = {}
    for member in ordered(members):  # a fork after its parent
        root = member.id if member.fork_of is None else roots.get(member.fork_of, member.fork_of)
        roots[member.id] = root
        grown.setdefault(root, []).append(member)
    return list(grown.values())


def branches(places: Iterable[BranchPoint], children: int, budget: int) -> list[MoreEpisodes]:
    """Return requests for some children of each place, until the budget is spent.

    Args:
        places: in the order in which they are served.
        children: episodes that begin at each of them.
        budget: episodes of all places together.
    """
    requests = []
    for point in places:
        if count := min(children, budget):
            requests.append(MoreEpisodes(count, at=point))
            budget -= count
    return requests


def filled(group: OpenGroup, requests: Sequence[MoreEpisodes]) -> Growth:
    """Return the growth of some requests; where they ask for less than the group still lacks, the rest begins anew."""
    missing = group.size - asked_for(group) - sum(request.episodes for request in requests)
    return Growth((*requests, *([MoreEpisodes(missing)] if missing > 0 else [])))
