"""ARPO: episodes branch by chance where the policy became less certain than it was at first."""

from __future__ import annotations

import math

from turncredit.agents.trajectory import Trajectory
from turncredit.credit.option_checks import check_number
from turncredit.curriculum.branches import branches, filled
from turncredit.curriculum.fork_places import entropy, forkable
from turncredit.curriculum.growth import BranchPoint, Growth, MoreEpisodes, OpenGroup
from turncredit.curriculum.members import asked_for, dice, ordered


def arpo(group: OpenGroup, *, roots: float = 0.5, base: float = 0.5, weight: float = 0.2, tokens: int = 20) -> Growth:
    """Play half of the group, and let it branch by chance after each answer of the environment.

        P(branch before turn t) = clip(base + weight (H_t - H_0), 0, 1)
        H_t = mean of -log p over the first tokens of the answer of turn t, nats per token

    Places are tried in the order of turns until there are `size` episodes; those that are missing begin with a reset.
    Credit: `arpo_soft` or `arpo_hard`.

    At most size episodes in 2 rounds.

    Args:
        group: the group so far.
        roots: share of the episodes that begin with a reset.
        base: chance of a place where nothing changed.
        weight: of the change, per nat.
        tokens: how many tokens of an answer count.

    Raises:
        BadOption: roots or base outside [0, 1], a negative weight, or tokens < 1.

    Source: Dong et al. 2025 (ARPO), arXiv 2507.19849, and its code. There, H is the entropy of the ten most likely
    tokens, summed over 20 tokens and divided by the log of the vocabulary's size; sampled tokens estimate it without
    bias. There, branches begin at once, and branch again; here, in a second round.
    """
    check_number("roots", roots, 0, 1, open_low=True)
    check_number("base", base, 0, 1)
    check_number("weight", weight, 0)
    check_number("tokens", tokens, 1, whole=True)
    if not group.round:
        return Growth((MoreEpisodes(math.ceil(roots * group.size)),))
    places = _lucky_places(group, base, weight, tokens) if group.round == 1 else []
    return filled(group, branches(places, 1, group.size - asked_for(group)))


def _lucky_places(group: OpenGroup, base: float, weight: float, tokens: int) -> list[BranchPoint]:
    """Return the places at which the dice fall so that an episode branches, in the order of turns."""
    members = ordered(group.members)
    changes = {member.id: _changes(member, tokens) for member in members}
    tries = sorted((turn, rank, member) for rank, member in enumerate(members) for turn in forkable(member))
    rolls = dice(group).random(len(tries))
    return [
        BranchPoint(member.id, turn)
        for (turn, _, member), roll in zip(tries, rolls, strict=True)
        if math.isfinite(change := changes[member.id][turn]) and roll < base + weight * change
    ]


def _changes(member: Trajectory, tokens: int) -> list[float]:
    """Return H_t - H_0 of each turn; not finite where an answer has no tokens."""
    (surprise,) = entropy([member], tokens=tokens)
    return [value - surprise[0] for value in surprise]
