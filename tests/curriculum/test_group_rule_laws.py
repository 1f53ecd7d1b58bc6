"""Laws of all group rules: groups stop growing within a bound, the order of members means nothing, answers repeat."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from toys.open_groups import Played, Player

from turncredit.agents.trajectory import Trajectory
from turncredit.curriculum import OpenGroup
from turncredit.curriculum.group_rules.catalogue import CATALOGUE, get_group_rule
from turncredit.curriculum.growth import decide

BOUNDS: dict[str, tuple[Callable[[int], int], Callable[[int], int]]] = {
    "dapo": (lambda size: size, lambda size: 1),
    "reinforce_ada": (lambda size: 4 * size, lambda size: 4),
    "ghpo": (lambda size: 4 * size, lambda size: 4),
    "scaf_grpo": (lambda size: size + 12, lambda size: 13),
    "seele": (lambda size: size, lambda size: min(4, size)),
    "sage": (lambda size: size, lambda size: 1),
    "expert_roll_in": (lambda size: size + (size > 1), lambda size: 1 if size == 1 else 3),
    "forest": (lambda size: size, lambda size: min(size, 2)),
    "uct": (lambda size: size, lambda size: max(1, size - 1)),
    "arpo": (lambda size: size, lambda size: min(size, 2)),
    "tree_grpo": (lambda size: size, lambda size: min(size, 2)),
    "treerl": (lambda size: size, lambda size: min(size, 2)),
    "spo_tree": (lambda size: size, lambda size: min(size, 3)),
    "pppo": (lambda size: 9 * size, lambda size: 2),
    "motif": (lambda size: 4 * size, lambda size: 2),
    "mrt": (lambda size: 17 * size, lambda size: 2),
    "v05": (lambda size: size, lambda size: max(1, size - 3)),
    "xrpo": (lambda size: size, lambda size: max(1, size - 3)),
}
BOUNDS |= dict.fromkeys(
    (
        "pods",
        "probe",
        "prof",
        "rorecomp",
        "dagrpo",
        "drkernel_prs",
        "ttrl",
        "arpo_gui",
        "r3_ccr",
        "ssb",
        "lessons",
        "self_reflection",
        "slea",
        "rl_plus",
        "ampo",  # which asks nobody here, since there are no teachers
    ),
    (lambda size: size, lambda size: 1),
)
"""The most episodes and the most rounds of a group of a size, as the docstrings say."""

RULES = [rule.name for rule in CATALOGUE]
SIZES = (1, 2, 5, 8)
PLAYERS = {
    "mixed": Player(),
    "seldom won": Player(win=0.1, seed=1),
    "all won": Player(win=1.0),
    "all lost": Player(win=0.0),
    "some failed": Player(win=0.4, fail=0.4, seed=2),
    "all failed": Player(fail=1.0),
    "some without a turn": Player(empty=0.5, seed=4),
    "none with a turn": Player(empty=1.0),
    "one turn": Player(turns=(1, 1)),
    "long": Player(win=0.3, turns=(7, 12), seed=3),
}


@functools.cache
def grown(name: str) -> list[tuple[int, str, Played]]:
    """Groups of every size with every kind of episodes, early and late in a run, with and without a record."""
    rule = get_group_rule(name)
    fields: list[dict[str, object]] = [
        {},
        {"iteration": 80, "total": 100, "record": {"episodes": 20.0, "wins": 5.0, "level": 2.0, "hint": 0.4}},
    ]
    return [
        (size, kind, player.grow(rule, size, **more))
        for size in SIZES
        for kind, player in PLAYERS.items()
        for more in fields
    ]


def test_every_rule_has_its_bounds() -> None:
    assert sorted(BOUNDS) == sorted(RULES)


@pytest.mark.parametrize("name", RULES)
def test_groups_stop_growing_within_their_bounds(name: str) -> None:
    episodes, rounds = BOUNDS[name]
    for size, kind, played in grown(name):
        assert played.episodes <= episodes(size), (size, kind)
        assert played.groups[-1].round <= rounds(size), (size, kind)


@pytest.mark.parametrize("name", RULES)
def test_bounds_are_reached(name: str) -> None:
    """Otherwise the docstring promises too little."""
    episodes, rounds = BOUNDS[name]
    played = grown(name)
    assert any(one.episodes == episodes(size) for size, _, one in played)
    assert any(one.groups[-1].round == rounds(size) for size, _, one in played)


@pytest.mark.parametrize("name", RULES)
def test_the_order_of_members_means_nothing(name: str) -> None:
    rule, shuffled = get_group_rule(name), random.Random(4)
    for size, kind, played in grown(name):
        for group, growth in zip(played.groups, played.growths, strict=True):
            other = list(group.members)
            shuffled.shuffle(other)
            asked = replace(PLAYERS[kind].asked(group), members=tuple(other))
            assert rule(asked) == growth, (size, kind, group.round)
            assert rule(asked) == growth, "asked again with the same generator"


@pytest.mark.parametrize("name", RULES)
def test_a_group_as_it_was_gets_the_answer_that_it_got(name: str) -> None:
    """A run that was stopped asks again; and a group that is complete stays so."""
    rule = get_group_rule(name)
    for _, kind, played in grown(name):
        for group, growth in zip(played.groups, played.growths, strict=True):
            assert rule(PLAYERS[kind].asked(group)) == growth
        end = played.groups[-1]
        later = PLAYERS[kind].asked(replace(end, round=end.round + 1))
        assert not rule(later).more


MAY_KEEP_NOBODY = {"dagrpo", "drkernel_prs"}
"""Rules that judge members one by one."""


@pytest.mark.parametrize("name", RULES)
def test_what_is_kept_and_counted_are_members(name: str) -> None:
    for _, kind, played in grown(name):
        names = {member.id for member in played.members}
        end = played.end
        assert (end.keep or set()) <= names
        assert (end.counted or names) <= names
        assert (end.keep or set()) <= (names if end.counted is None else end.counted), "what is trained on is counted"
        if names and not end.drop and name not in MAY_KEEP_NOBODY:
            assert end.keep is None or end.keep, (kind, "somebody is kept")


@pytest.mark.parametrize("name", RULES)
def test_branches_begin_at_turns_of_members(name: str) -> None:
    for _, _, played in grown(name):
        for group, growth in zip(played.groups, played.growths, strict=True):
            turns = {member.id: len(member.turns) for member in group.members}
            for request in growth.more:
                if request.at is not None:
                    assert 0 <= request.at.turn < turns[request.at.trajectory]
                    assert request.at.turn or request.at.tokens, "a branch before the first turn is a beginning"


CHOOSING = ("dapo", "pods", "prof", "rorecomp", "dagrpo", "drkernel_prs", "ttrl")


@pytest.mark.parametrize("name", sorted(set(RULES) - set(CHOOSING)))
def test_a_rule_that_plays_on_goes_before_one_that_chooses(name: str) -> None:
    """The group grows as it does without the second rule, and then both choose."""
    for other in CHOOSING:
        rules = [get_group_rule(name), get_group_rule(other)]
        for kind in ("mixed", "seldom won", "some failed"):
            alone = PLAYERS[kind].grow(rules[0], 5)
            both = PLAYERS[kind].grow(functools.partial(decide, rules), 5)
            assert [group.members for group in both.groups] == [group.members for group in alone.groups]
            second = rules[1](PLAYERS[kind].asked(both.groups[-1]))
            assert both.end.drop == second.drop
            if not both.end.drop:
                chosen = [growth.keep for growth in (alone.end, second) if growth.keep is not None]
                assert both.end.keep == (frozenset.intersection(*chosen) if chosen else None)


def test_every_docstring_says_how_many_episodes() -> None:
    bound = re.compile(r"^    At most .* episodes", re.MULTILINE)
    assert [rule.name for rule in CATALOGUE if not bound.search(rule.function.__doc__ or "")] == []


def test_members_of_a_group_without_episodes() -> None:
    for name in RULES:
        assert not get_group_rule(name)(OpenGroup("t", 2)).drop
        nobody: tuple[Trajectory, ...] = ()
        end = get_group_rule(name)(OpenGroup("t", 2, 50, nobody, failed=2))
        assert not end.keep
        assert not end.counted
