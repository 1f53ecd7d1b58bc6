"""Trees of a fixed shape: some roots, then branches at some places of each tree, round by round."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

from turncredit.agents.trajectory import Trajectory
from turncredit.credit.errors import BadOption
from turncredit.credit.option_checks import check_choice, check_number
from turncredit.curriculum.branches import (
    best_places,
    branches,
    filled,
    token_places,
    trees,
    unlikely_places,
)
from turncredit.curriculum.fork_places import get_fork_rule, uniform
from turncredit.curriculum.growth import BranchPoint, Growth, MoreEpisodes, OpenGroup
from turncredit.curriculum.members import asked_for, ordered

Unit = Literal["turns", "tokens"]


def tree_grpo(group: OpenGroup, *, nodes: int = 2, rounds: int = 1) -> Growth:
    """Let every tree branch at random turns, once at each, round by round.

        m roots, then `rounds` times n = `nodes` branches of each tree:  m (1 + n rounds) leaves,
        m = ceil(size / (1 + n rounds)), the last round as far as the size reaches

    Where a tree has no turn to branch at, episodes begin with a reset. Credit: the rule of the same name.

    At most size episodes in 1 + rounds rounds.

    Args:
        group: the group so far.
        nodes: branches of a tree in a round.
        rounds: rounds of branches.

    Raises:
        BadOption: nodes < 1 or rounds < 1.

    Source: Ji et al. 2025 (Tree-GRPO), arXiv 2509.21240, and its code. There, nodes are drawn with replacement, and
    the beginning is one of them; here each place is another turn, and beginnings are roots. "Random" is a hash of the
    place's name, as for `train.forks`.
    """
    check_number("nodes", nodes, 1, whole=True)
    check_number("rounds", rounds, 1, whole=True)
    return _grow(group, lambda tree: best_places(tree, uniform, nodes), nodes, 1, rounds)


def treerl(
    group: OpenGroup, *, nodes: int = 2, children: int = 2, rounds: int = 1, tokens: int = 8, unit: Unit = "turns"
) -> Growth:
    """Let every tree branch at the turns whose answers the policy was least certain about.

        m roots, then `rounds` times `children` branches at each of the `nodes` places of a tree that are the first by
        turns:   the mean of -log p over the first tokens of the turn's answer
        tokens:  -log p of the token that follows, anywhere in an answer
        m (1 + nodes children rounds) leaves

    m and the last round are such that there are `size` leaves. Where a tree has no turn to branch at, episodes begin
    with a reset.

    At most size episodes in 1 + rounds rounds.

    Args:
        group: the group so far.
        nodes: places of a tree in a round.
        children: branches at each of them.
        rounds: rounds of branches.
        tokens: how many tokens of an answer count; for turns.
        unit: whether branches begin before turns or before tokens.

    Raises:
        BadOption: a number < 1, or an unknown unit.

    Source: Hou et al. 2025 (TreeRL), arXiv 2506.11902, and its code: 6 roots, and once 2 branches at each of 2 tokens,
    which are 30 leaves, with tokens. Not included: the choice of leaves that are trained on.
    """
    for name, value in {"nodes": nodes, "children": children, "rounds": rounds}.items():
        check_number(name, value, 1, whole=True)
    check_choice("unit", unit, Unit)
    uncertain = get_fork_rule("entropy", tokens=tokens)

    def places(tree: list[Trajectory]) -> list[BranchPoint]:
        return best_places(tree, uncertain, nodes) if unit == "turns" else unlikely_places(tree, nodes)

    return _grow(group, places, nodes, children, rounds)


def _grow(
    group: OpenGroup, places_of: Callable[[list[Trajectory]], list[BranchPoint]], nodes: int, children: int, rounds: int
) -> Growth:
    """Return the roots, the branches of the next round, or nothing where the group has its size."""
    if not group.round:
        return Growth((MoreEpisodes(math.ceil(group.size / (1 + nodes * children * rounds))),))
    places = [places_of(tree) for tree in trees(group.members)] if group.round <= rounds else []
    in_turn = [tree[rank] for rank in range(nodes) for tree in places if rank < len(tree)]  # every tree before another
    requests = branches(in_turn, children, group.size - asked_for(group))
    return Growth(tuple(requests)) if requests and group.round < rounds else filled(group, requests)


def spo_tree(group: OpenGroup, *, span: int = 2, branching: Sequence[int] = (2, 2), unit: Unit = "turns") -> Growth:
    """Let every episode branch after each `span` turns or sampled tokens, a fixed number of times.

        m roots; at span, 2 span, ... each episode that goes on becomes branching[0], branching[1], ... episodes
        m = ceil(size / product of branching), the last round as far as the size reaches

    An episode that ended before is a leaf, so that there may be fewer than `size`. Credit: `spo_segment` with
    `mode = "tree"`.

    At most size episodes in 1 + branching rounds.

    Args:
        group: the group so far.
        span: turns or tokens between branches.
        branching: children of each node, level by level.
        unit: what the span is of.

    Raises:
        BadOption: span < 1, an unknown unit, or no list of numbers from 1 on.

    Source: Guo et al. 2025 (SPO-tree), arXiv 2505.23564, with segments of tokens and a branching of 6, 6, 6.
    """
    check_number("span", span, 1, whole=True)
    check_choice("unit", unit, Unit)
    if not isinstance(branching, list | tuple) or not branching:
        raise BadOption(f"branching must be a list of numbers of children, such as [2, 2], got {branching!r}")
    for children in branching:
        check_number("each of branching", children, 1, whole=True)
    if not group.round:
        return Growth((MoreEpisodes(math.ceil(group.size / math.prod(branching))),))
    levels = [(level * span, children) for level, children in enumerate(branching, start=1) if children > 1]
    if group.round > len(levels):
        return Growth()
    end, children = levels[group.round - 1]
    members = ordered(group.members)
    if unit == "turns":
        places = [BranchPoint(member.id, end) for member in members if len(member.turns) > end]
    else:
        places = [at for member in members for at in token_places(member, [end])]
    return Growth(tuple(branches(places, children - 1, group.size - asked_for(group))))
