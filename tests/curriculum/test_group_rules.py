"""Group rules against groups worked out by hand."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace
from itertools import combinations
from statistics import pvariance
from typing import Any

import numpy as np
import pytest
from toys.corridor import Corridor
from toys.open_groups import Player, after, episode, members, turn
from toys.tokens import Bytes
from toys.wanderer import Wanderer

from turncredit.agents.agent import Agent
from turncredit.agents.rollouts.rollout import rollout
from turncredit.agents.steps import steps_of
from turncredit.agents.trajectory import Group, Trajectory
from turncredit.credit import BadOption, arpo_hard, grpo
from turncredit.curriculum import BranchPoint, GroupRule, Growth, MoreEpisodes, OpenGroup
from turncredit.curriculum.branches import token_places, trees, unlikely_places
from turncredit.curriculum.errors import BadSetting, CurriculumError
from turncredit.curriculum.forests import Forest
from turncredit.curriculum.fork_places import get_fork_rule
from turncredit.curriculum.group_rules.catalogue import get_group_rule
from turncredit.curriculum.group_rules.forest import _confident
from turncredit.curriculum.group_rules.seele import GUESSING, LOCATION, STEEPNESS, fit, share_for
from turncredit.training.config.seeds import Seeds
from turncredit.training.sampling.grown_groups import GrowingGroups
from turncredit.training.tasks.group_draws import DrawnGroup


def numbers(chosen: frozenset[str] | None) -> list[str]:
    """The numbers of members, without task and seed."""
    assert chosen is not None
    return sorted((name.removeprefix("t#").removesuffix("@7") for name in chosen), key=lambda name: (len(name), name))


def advantages(trajectories: tuple[Trajectory, ...], **options: object) -> dict[str, float]:
    """The advantage that GRPO gives each episode."""
    steps = steps_of([Group("t", trajectories)])
    values = grpo(steps, **options)  # type: ignore[arg-type]
    return dict(zip(values.trajectory, values.values.tolist(), strict=True))


# -- dapo --


def test_dapo_drops_groups_that_ended_alike() -> None:
    rule = get_group_rule("dapo")
    assert [rule(after(outcomes)).drop for outcomes in ("1111", "0100", "0000", "1")] == [True, False, True, False]
    assert rule(OpenGroup("t", 4)) == Growth()
    assert rule(OpenGroup("t", 4, 1, members("1"), failed=3)).drop


def test_a_probe_is_dropped_once_it_was_played() -> None:
    rule = get_group_rule("probe")
    assert rule(OpenGroup("t", 4, options={"probe": True})) == Growth()
    assert rule(after("0100", options={"probe": True})).drop
    assert rule(after("0000")) == Growth()


# -- reinforce_ada --


def test_reinforce_ada_plays_until_both_outcomes_are_there() -> None:
    """1 of 8 won, then 2 of 8: two winners and two losers of 16, of which 3 won."""
    rule = get_group_rule("reinforce_ada")
    assert rule(OpenGroup("t", 8)).more == (MoreEpisodes(8),)
    assert rule(after("00100000")).more == rule(after("11111101")).more == (MoreEpisodes(8),)
    assert numbers(rule(after("11111100")).keep) == ["0", "1", "6", "7"]
    end = rule(OpenGroup("t", 8, 2, members("0010000010010000")))
    assert (end.more, end.counted) == ((), None)
    assert numbers(end.keep) == ["0", "1", "2", "8"]
    values = advantages(members("0010000010010000"))
    assert values["t#2@7"] == pytest.approx(2.0156, abs=1e-4)
    assert values["t#0@7"] == pytest.approx(-0.4651, abs=1e-4)


def test_reinforce_ada_fills_up_with_the_other_outcome() -> None:
    rule = get_group_rule("reinforce_ada", rounds=2, keep=4)
    assert numbers(rule(OpenGroup("t", 4, 2, members("00010000"))).keep) == ["0", "1", "2", "3"]
    assert numbers(rule(OpenGroup("t", 4, 2, members("11111111"))).keep) == ["0", "1", "2", "3"]
    positive = get_group_rule("reinforce_ada", mode="positive")
    assert positive(after("0000")).more == (MoreEpisodes(4),)
    assert numbers(positive(after("0001")).keep) == ["0", "1", "2", "3"]
    assert numbers(positive(OpenGroup("t", 6, 1, members("000101"))).keep) == ["0", "1", "3", "5"]


# -- v05 and xrpo --


def test_v05_goes_on_while_the_estimate_gains() -> None:
    """k 4, one win, V .6: MSE .1983 -> .1655, so another one; the group agrees with V -.5, so none."""
    rule = get_group_rule("v05")
    assert rule(OpenGroup("t", 16)).more == (MoreEpisodes(4),)
    surprising = after("0100", size=16, record={"episodes": 10, "wins": 8})
    assert rule(surprising).more == (MoreEpisodes(1),)
    assert get_group_rule("v05", cost=0.0327)(surprising).more
    assert not get_group_rule("v05", cost=0.0329)(surprising).more
    assert rule(after("0100", size=16, record={"episodes": 8, "wins": 2})) == Growth()
    assert rule(after("0100", size=4, record={"episodes": 10, "wins": 8})) == Growth()


def test_v05_of_a_task_without_a_record_has_a_prior_of_its_own() -> None:
    assert get_group_rule("v05", prior=-0.5)(after("0100", size=16)) == Growth()
    assert get_group_rule("v05", prior=0.6, step=3)(after("0100", size=6)).more == (MoreEpisodes(2),)


def test_xrpo_goes_on_while_the_interval_narrows() -> None:
    """Rewards 1, 0, 0, 0: s .5, h(4) = 3.1824 / 4 = .7956, h(5) = 2.7764 * .5 / 5^.5 = .6208; it falls by .1748."""
    group = after("1000", size=8)
    assert get_group_rule("xrpo")(OpenGroup("t", 8)).more == (MoreEpisodes(4),)
    assert get_group_rule("xrpo", price=0.1747)(group).more == (MoreEpisodes(1),)
    assert get_group_rule("xrpo", price=0.1749)(group) == Growth()
    assert get_group_rule("xrpo")(after("0000", size=8)) == Growth()
    assert get_group_rule("xrpo")(OpenGroup("t", 8, 1, members("01"), failed=2)).more == (MoreEpisodes(2),)


# -- subsets --


def scored(outcome: bool, *scores: float) -> Trajectory:
    """An episode whose turns have process scores."""
    return episode(0, outcome, tuple(turn(0.0, extras={"process": score}) for score in scores))


def numbered(*trajectories: Trajectory) -> tuple[Trajectory, ...]:
    """The same episodes with the numbers of their places."""
    return tuple(replace(member, id=f"t#{number}@7") for number, member in enumerate(trajectories))


def complete(*trajectories: Trajectory, **fields: object) -> OpenGroup:
    """A group after its only round."""
    return OpenGroup("t", len(trajectories), 1, numbered(*trajectories), **fields)  # type: ignore[arg-type]


def test_pods_keeps_the_best_and_the_worst() -> None:
    """Rewards 0, .2, .9, 1, .1: of two, 0 and 1; of three, {0, .1, 1} has variance .2022 and {0, .9, 1} .2022 as well:
    the larger number of small ones. Of four, {0, .1, .9, 1}."""
    group = complete(*(episode(0, turns=(turn(reward),)) for reward in (0.0, 0.2, 0.9, 1.0, 0.1)))
    assert [numbers(get_group_rule("pods", keep=keep)(group).keep) for keep in (2, 3, 4)] == [
        ["0", "3"], ["0", "3", "4"], ["0", "2", "3", "4"]
    ]  # fmt: skip
    assert get_group_rule("pods", keep=5)(group) == Growth()


def test_pods_halves_binary_rewards() -> None:
    chosen = get_group_rule("pods")(after("11111010"))
    assert (numbers(chosen.keep), chosen.counted) == (["0", "1", "5", "7"], chosen.keep)
    assert numbers(get_group_rule("pods")(after("11111110")).keep) == ["0", "1", "2", "7"]
    assert get_group_rule("pods", baseline="all")(after("11111010")).counted is None


def test_pods_finds_the_largest_variance_of_all_subsets() -> None:
    dice = random.Random(1)
    for _ in range(20):
        group = complete(*(episode(0, turns=(turn(dice.choice([0.0, 0.25, 0.3, 1.0, -1.0])),)) for _ in range(7)))
        rewards = {member.id: member.reward for member in group.members}
        best = max(pvariance(subset) for subset in combinations(rewards.values(), 4))
        chosen = get_group_rule("pods")(group).keep or ()
        assert pvariance([rewards[name] for name in chosen]) == pytest.approx(best)


def test_prof_keeps_consistent_members() -> None:
    """Five winners with s = .9, .8, .6, .4, .2 and three losers with .7, .3, .1: winners .9, .8 and losers .1, .3."""
    winners = [scored(True, score - 0.1, score + 0.1) for score in (0.9, 0.8, 0.6, 0.4, 0.2)]
    losers = [scored(False, score) for score in (0.7, 0.3, 0.1)]
    chosen = get_group_rule("prof")(complete(*winners, *losers))
    assert (numbers(chosen.keep), chosen.counted) == (["0", "1", "6", "7"], chosen.keep)
    assert numbers(get_group_rule("prof")(complete(*winners)).keep) == ["0", "1", "2", "3"]
    assert numbers(get_group_rule("prof", keep=3)(complete(*winners[:1], *losers)).keep) == ["0", "2", "3"]


def test_rounding_noise_orders_no_members() -> None:
    """0.4 over three turns has the mean 0.4000000000000001: it is worth as much as 0.4 in one turn, and comes after."""
    assert (0.4 + 0.4 + 0.4) / 3 != 0.4
    winners = [scored(True, 0.4), scored(True, 0.4, 0.4, 0.4), scored(True, 0.4)]
    losers = [scored(False, 0.4, 0.4, 0.4), scored(False, 0.4), scored(False, 0.4)]
    assert numbers(get_group_rule("prof", keep=2)(complete(*winners, *losers)).keep) == ["0", "3"]
    rewards = [(0.1, 0.2), (0.3,), (0.0,), (0.1, 0.2), (0.3,), (1.0,)]
    group = complete(*(episode(0, turns=tuple(turn(reward) for reward in member)) for member in rewards))
    assert numbers(get_group_rule("pods", keep=2)(group).keep) == ["2", "5"]
    assert numbers(get_group_rule("pods", keep=4)(group).keep) == ["0", "1", "2", "5"]


def test_prof_needs_its_column() -> None:
    with pytest.raises(CurriculumError, match=r"'process'.*t#0@7 lacks 3 of 3, and has none"):
        get_group_rule("prof")(after("01"))
    with pytest.raises(CurriculumError, match=r"'step'.*has process"):
        get_group_rule("prof", score="step")(complete(scored(True, 1.0)))


def long(outcome: bool, tokens: int) -> Trajectory:
    """An episode of three turns that sampled some tokens in the last one."""
    return episode(0, outcome, (turn(), turn(), turn(float(outcome), (-1.0,) * (tokens - 2))))


def test_rorecomp_keeps_short_winners_and_long_losers() -> None:
    """Lengths of winners 10, 30 and of losers 20, 40: 10 and 40."""
    group = complete(long(True, 10), long(True, 30), long(False, 20), long(False, 40))
    end = get_group_rule("rorecomp")(group)
    assert (numbers(end.keep), end.counted) == (["0", "3"], None)
    turns = complete(*(episode(0, True, count) for count in (5, 4, 3)), episode(0, False, 2), episode(0, False, 9))
    assert numbers(get_group_rule("rorecomp", length="turns")(turns).keep) == ["1", "2", "4"]
    assert get_group_rule("rorecomp")(after("1111")) == Growth()


def test_dagrpo_keeps_members_that_differ_from_the_other_class() -> None:
    """Winners .9, .5 and losers .8, .45: .9 is .45 from .45, and .5 is .3 from .8."""
    group = complete(scored(True, 0.9), scored(True, 0.5), scored(False, 0.8), scored(False, 0.45))
    pairs = {0.4: ["0", "3"], 0.3: ["0", "1", "2", "3"], 0.45: ["0", "3"]}
    for distance, kept in pairs.items():
        assert numbers(get_group_rule("dagrpo", distance=distance, score="process")(group).keep) == kept
    assert get_group_rule("dagrpo", distance=0.46, score="process")(group).keep == frozenset()
    assert get_group_rule("dagrpo")(after("0000")) == Growth()


def test_dagrpo_scores_by_the_probability_of_tokens() -> None:
    """e^-1 = .368 and e^-.5 = .607 are .239 apart."""
    sure = (turn(logprobs=(-0.25, -0.75)),)
    group = complete(episode(0, True), episode(0, False, sure))
    assert numbers(get_group_rule("dagrpo", distance=0.238)(group).keep) == ["0", "1"]
    assert not get_group_rule("dagrpo", distance=0.240)(group).keep


def test_drkernel_keeps_winners_by_their_coverage() -> None:
    """Coverage .3: never; .4: always; .35: half of the time. A loser always."""
    first = turn(extras={"coverage": 0.36})
    covered = [episode(0, True, (first, turn(1.0, extras={"coverage": share}))) for share in (0.3, 0.4, 0.35)]
    rule, kept = get_group_rule("drkernel_prs"), Counter[str]()
    for seed in range(400):
        end = rule(complete(*covered, episode(0, False), rng=np.random.default_rng(seed)))
        kept.update(numbers(end.keep))
    assert (kept["0"], kept["1"], kept["3"]) == (0, 400, 400)
    assert abs(kept["2"] - 200) < 5 * 10
    assert rule(complete(covered[0])) == Growth(keep=frozenset())


def test_ttrl_trains_on_the_first_half() -> None:
    end = get_group_rule("ttrl")(after("0" * 63 + "1"))
    assert (numbers(end.keep), end.counted) == ([str(number) for number in range(32)], None)
    assert numbers(get_group_rule("ttrl")(after("010")).keep) == ["0", "1"]


# -- hints --


def hinted(number: int, won: bool, round: int) -> Trajectory:
    """A member of a later round."""
    return episode(number, won, round=round, hint="1. look")


def test_ghpo_shows_more_until_somebody_wins() -> None:
    """All lost; all lost with a quarter of the plan; one of two won with half of it."""
    rule = get_group_rule("ghpo")
    lost = members("00")
    assert rule(OpenGroup("t", 2)) == Growth()
    assert rule(OpenGroup("t", 2, 1, lost)).more == (MoreEpisodes(2, plan=0.25),)
    lost = (*lost, hinted(2, False, 1), hinted(3, False, 1))
    assert rule(OpenGroup("t", 2, 2, lost)).more == (MoreEpisodes(2, plan=0.5),)
    end = rule(OpenGroup("t", 2, 3, (*lost, hinted(4, False, 2), hinted(5, True, 2))))
    assert (end.more, numbers(end.keep), end.counted) == ((), ["4", "5"], end.keep)
    assert rule(after("01")) == Growth()
    assert get_group_rule("ghpo", start=5)(after("00", iteration=4)) == Growth()


def test_ghpo_ends_with_its_last_hint() -> None:
    rule = get_group_rule("ghpo", shares=[1.0])
    lost = (*members("00"), hinted(2, False, 1))
    end = rule(OpenGroup("t", 2, 2, lost, failed=1))
    assert (end.more, numbers(end.keep)) == ((), ["2"])
    assert rule(OpenGroup("t", 2, 1, (), failed=2)) == Growth()


def test_scaf_grpo_puts_one_winner_in_the_place_of_a_loser() -> None:
    """Eight lost, so did hints 1/12 and 2/12; 3/12 wins. Rewards (1, 0 x 7): A = 2.4749 and -.3536."""
    rule = get_group_rule("scaf_grpo")
    group = OpenGroup("t", 8, 1, members("0" * 8), iteration=50)
    assert rule(replace(group, iteration=49)) == Growth()
    assert rule(group).more == (MoreEpisodes(1, plan=1 / 12),)
    tries = (hinted(8, False, 1), hinted(9, False, 2))
    group = replace(group, round=3, members=(*group.members, *tries))
    assert rule(group).more == (MoreEpisodes(1, plan=0.25),)
    end = rule(replace(group, round=4, members=(*group.members, hinted(10, True, 3))))
    assert (end.more, numbers(end.keep), end.counted) == ((), [*"0123456", "10"], end.keep)
    trained = tuple(member for member in (*group.members, hinted(10, True, 3)) if member.id in (end.keep or ()))
    values = advantages(trained)
    assert values["t#10@7"] == pytest.approx(2.4749, abs=1e-4)
    assert values["t#3@7"] == pytest.approx(-0.3536, abs=1e-4)


def test_scaf_grpo_leaves_a_group_as_it_was_where_no_hint_helps() -> None:
    rule = get_group_rule("scaf_grpo", levels=2, start=0)
    group = OpenGroup("t", 2, 3, (*members("00"), hinted(2, False, 1), hinted(3, False, 2)))
    end = rule(group)
    assert (end.more, numbers(end.keep), end.counted) == ((), ["0", "1"], end.keep)
    assert rule(after("01")) == Growth()


def test_sage_moves_the_level_by_the_success() -> None:
    rule = get_group_rule("sage")
    shares = [rule(OpenGroup("t", 4, record={"level": level})).more for level in (0.0, 1.0, 3.0)]
    assert shares == [(MoreEpisodes(4, plan=share),) for share in (0.0, 0.25, 0.75)]
    moves = [(0.0, "0000", 1.0), (0.0, "1110", 0.0), (2.0, "1110", 1.0), (3.0, "0000", 3.0), (1.0, "1100", 1.0)]
    for level, outcomes, expected in moves:
        assert rule(after(outcomes, record={"level": level})) == Growth(remember={"level": expected})
    assert rule(OpenGroup("t", 2, 1, failed=2)) == Growth()


def test_seele_solves_its_fit() -> None:
    assert share_for(0.5, 10.0, -0.5, 0.0) == 0.5
    assert share_for(0.5, 10.0, -0.5, 0.2) == pytest.approx(0.4489, abs=1e-4)
    assert share_for(0.5, 10.0, -0.5, 0.5) == 0.0


def test_seele_begins_with_what_the_record_holds() -> None:
    assert get_group_rule("seele")(OpenGroup("t", 8)).more == (MoreEpisodes(2, plan=0.75),)
    assert get_group_rule("seele")(OpenGroup("t", 8, record={"hint": 0.3})).more == (MoreEpisodes(2, plan=0.3),)
    sizes = [get_group_rule("seele")(OpenGroup("t", 6, number)).more[0].episodes for number in range(4)]
    assert sizes == [2, 2, 1, 1]


def test_seele_goes_where_the_fit_expects_one_half() -> None:
    """All four won at .75: success .98, m = ln(49)/10 - .75 = -.3608, so .3608; 2 of 4 there: m stays, so .3608."""
    rule, record = get_group_rule("seele", rounds=3), {"hint": 0.75}
    first = tuple(hinted(number, True, 0) for number in range(4))
    (request,) = rule(OpenGroup("t", 12, 1, first, record=record)).more
    assert request.plan == pytest.approx(0.3608, abs=1e-4)
    second = tuple(hinted(number, number > 5, 1) for number in range(4, 8))
    (request,) = rule(OpenGroup("t", 12, 2, (*first, *second), record=record)).more
    assert request.plan == pytest.approx(0.3608, abs=1e-4)
    third = tuple(hinted(number, False, 2) for number in range(8, 12))
    end = rule(OpenGroup("t", 12, 3, (*first, *second, *third), record=record))
    assert end.more == ()
    assert end.remember["hint"] == pytest.approx(0.75)  # m = -ln(49)/10 - .3608, so .75


def test_seele_fits_as_well_as_scipy() -> None:
    optimize = pytest.importorskip("scipy.optimize")
    rng = np.random.default_rng(3)

    def error(parameters: Any, points: Any) -> Any:
        k, m, b = parameters
        return b + (1 - b) / (1 + np.exp(-k * (points[:, 0] + m))) - points[:, 1]

    for _ in range(10):
        points = np.column_stack([rng.uniform(0, 0.9, 4), rng.integers(0, 9, 4) / 8])
        found = np.array(fit([(float(h), float(y)) for h, y in points]))
        bounds = np.array([STEEPNESS, LOCATION, GUESSING])
        assert ((bounds[:, 0] - 1e-9 <= found) & (found <= bounds[:, 1] + 1e-9)).all()
        others = [
            optimize.least_squares(error, start, bounds=bounds.T, args=(points,)).cost * 2
            for start in ((10, -0.5, 0.1), (1, 0.0, 0.5), (30, -0.2, 0.0), (found[0], found[1], found[2]))
        ]
        assert (error(found, points) ** 2).sum() <= min(others) + 1e-5


# -- branches --


def starts(growth: Growth) -> list[tuple[str, int, int]]:
    """Number of the parent, turn and number of episodes of each branch; 0 and the number for episodes without one."""
    return [
        (request.at.trajectory[2:-2], request.at.turn, request.episodes) if request.at else ("", 0, request.episodes)
        for request in growth.more
    ]


def forked(name: str, parent: str, at: int, turns: int = 4, won: bool = False, round: int = 1) -> Trajectory:
    """A member that began in the middle of another one."""
    return episode(name, won, turns, fork_of=f"t#{parent}@7", fork_turn=at, round=round)


def test_expert_roll_in_begins_within_winners() -> None:
    rule = get_group_rule("expert_roll_in", depth=0.5)
    assert rule(OpenGroup("t", 5)).more == (MoreEpisodes(3),)
    group = OpenGroup("t", 5, 1, (*members("00"), episode(2, True, 5)))
    assert starts(rule(group)) == [("2", 3, 1), ("2", 3, 1)]  # ceil(5 / 2)
    assert rule(replace(group, round=2)) == Growth()
    assert starts(rule(OpenGroup("t", 5, 1, (episode(0, True, 1),)))) == [("", 0, 2)]


def test_expert_roll_in_without_a_winner_asks_for_a_guide() -> None:
    rule = get_group_rule("expert_roll_in", depth=1.0)
    group = OpenGroup("t", 4, 1, members("00"))
    assert rule(group).more == (MoreEpisodes(1, plan=1.0),)
    group = replace(group, round=2, members=(*group.members, hinted(2, True, 1)))
    assert starts(rule(group)) == [("2", 2, 1), ("2", 2, 1)]  # the last turn
    end = rule(replace(group, round=3))
    assert (end.more, numbers(end.keep), end.counted) == ((), ["0", "1"], end.keep)
    lost = OpenGroup("t", 4, 2, (*members("00"), hinted(2, False, 1)))
    assert starts(rule(lost)) == [("", 0, 2)]
    assert starts(get_group_rule("expert_roll_in", guide=False)(OpenGroup("t", 4, 1, members("00")))) == [("", 0, 2)]


def test_expert_roll_in_begins_anywhere() -> None:
    """Turns 1, 2 and 3 of a winner of four, each about 200 times in 600."""
    rule, turns = get_group_rule("expert_roll_in", share=0.99), Counter[int]()
    for seed in range(100):
        group = OpenGroup("t", 7, 1, (episode(0, True, 4),), rng=np.random.default_rng(seed))
        turns.update(turn for _, turn, _ in starts(rule(group)))
    assert sorted(turns) == [1, 2, 3]
    assert all(abs(count - 200) < 5 * 12 for count in turns.values())


def surprised(number: int, *surprise: float) -> Trajectory:
    """An episode whose answers have one token each."""
    return episode(number, turns=tuple(turn(0.0, (-value,)) for value in surprise))


def test_arpo_branches_by_the_change_of_entropy() -> None:
    """H_0 = 1: +3 nats make .5 + .2 * 3 > 1, so always; -3 make it negative, so never."""
    rule = get_group_rule("arpo")
    assert rule(OpenGroup("t", 5)).more == (MoreEpisodes(3),)
    group = OpenGroup("t", 6, 1, (surprised(0, 1, 4, 1e-3 - 2, 4), surprised(1, 1, -2, 4), surprised(2, 1, 4)))
    assert starts(rule(group)) == [("0", 1, 1), ("2", 1, 1), ("1", 2, 1)]
    assert starts(rule(replace(group, size=9))) == [
        ("0", 1, 1), ("2", 1, 1), ("1", 2, 1), ("0", 3, 1), ("", 0, 2)
    ]  # fmt: skip


def test_arpo_branches_as_often_as_it_says() -> None:
    """.5 + .2 (1.5 - .5) = .7 of 500."""
    rule, count = get_group_rule("arpo"), 0
    for seed in range(500):
        group = OpenGroup("t", 2, 1, (surprised(0, 0.5, 1.5),), rng=np.random.default_rng(seed))
        count += starts(rule(group)) == [("0", 1, 1)]
    assert abs(count - 350) < 5 * math.sqrt(500 * 0.21)


def test_tree_grpo_has_its_leaves() -> None:
    """m 2, n 2, l 1: two roots, then two branches of each tree: 6 leaves."""
    rule = get_group_rule("tree_grpo")
    assert rule(OpenGroup("t", 6)).more == (MoreEpisodes(2),)
    growth = rule(OpenGroup("t", 6, 1, members("01", turns=4)))
    assert [parent for parent, _, _ in starts(growth)] == ["0", "1", "0", "1"]
    assert len({(parent, at) for parent, at, _ in starts(growth)}) == 4
    assert starts(rule(OpenGroup("t", 6, 1, (episode(0, turns=4),), failed=1)))[-1] == ("", 0, 2)


@pytest.mark.parametrize("name", ["tree_grpo", "treerl", "arpo", "forest", "uct", "spo_tree"])
def test_trees_have_as_many_leaves_as_were_drawn(name: str) -> None:
    for size in (1, 2, 3, 6, 8, 13):
        played = Player(turns=(9, 12)).grow(get_group_rule(name), size)
        assert len(played.members) == size


@pytest.mark.parametrize(("rounds", "nodes", "size"), [(1, 2, 6), (2, 2, 10), (3, 1, 8)])
def test_tree_grpo_grows_every_tree_alike(rounds: int, nodes: int, size: int) -> None:
    """m (1 + n l) leaves, m = 2."""
    played = Player(turns=(9, 9)).grow(get_group_rule("tree_grpo", nodes=nodes, rounds=rounds), size)
    assert [len(tree) for tree in trees(played.members)] == [size // 2] * 2
    assert played.groups[-1].round == 1 + rounds


def test_treerl_branches_where_answers_were_uncertain() -> None:
    """Six leaves of a tree with 2 places and 2 children, and one more: 2 roots and the places of most surprise."""
    rule = get_group_rule("treerl")
    assert rule(OpenGroup("t", 10)).more == (MoreEpisodes(2),)
    assert get_group_rule("treerl")(OpenGroup("t", 30)).more == (MoreEpisodes(6),)
    group = OpenGroup("t", 10, 1, (surprised(0, 9, 1, 3, 2), surprised(1, 9, 5, 1)))
    assert starts(rule(group)) == [("0", 2, 2), ("1", 1, 2), ("0", 3, 2), ("1", 2, 2)]


def test_treerl_branches_before_unlikely_tokens() -> None:
    """The first token of all and those that a fork took over are no places; equal ones are ordered by a hash."""
    first = episode(0, turns=(turn(0.0, (-9.0, -1.0, -7.0)), turn(0.0, (-6.0, -2.0))))
    second = episode(1, turns=(turn(0.0, (-1.0, -1.5)), turn(0.0, (-5.0,))))
    growth = get_group_rule("treerl", unit="tokens")(OpenGroup("t", 10, 1, (first, second)))
    assert [(more.at, more.episodes) for more in growth.more] == [
        (BranchPoint(f"t#{name}@7", at, tokens), 2) for name, at, tokens in ((0, 0, 2), (1, 1, 0), (0, 1, 0), (1, 0, 1))
    ]
    child = replace(first, id="t#0/0:2.0@7", fork_of=first.id, fork_turn=0, fork_tokens=2)
    assert unlikely_places([child], 9) == [BranchPoint(child.id, 1, 0), BranchPoint(child.id, 1, 1)]


def test_spo_tree_branches_after_tokens() -> None:
    """Branching 3, 2 after 5 and 10 tokens; an episode of 10 tokens does not branch again."""
    rule = get_group_rule("spo_tree", span=5, branching=[3, 2], unit="tokens")
    root = episode(0, turns=tuple(turn(0.0, (-1.0,) * 4) for _ in range(3)))
    (request,) = rule(OpenGroup("t", 6, 1, (root,))).more
    assert (request.at, request.episodes) == (BranchPoint("t#0@7", 1, 1), 2)
    short = episode("0/1:1.0", turns=tuple(turn(0.0, (-1.0,) * 5) for _ in range(2)), fork_of="t#0@7", fork_turn=1)
    growth = rule(OpenGroup("t", 6, 2, (root, replace(short, fork_tokens=1))))
    assert [more.at for more in growth.more] == [BranchPoint("t#0@7", 2, 2)]


def test_spo_tree_branches_after_each_span() -> None:
    """Branching 3, 2 after turns 2 and 4: one root, 3 nodes, 6 leaves; an episode of 4 turns does not branch again."""
    rule = get_group_rule("spo_tree", branching=[3, 2])
    assert rule(OpenGroup("t", 6)).more == (MoreEpisodes(1),)
    root = episode(0, turns=5)
    assert starts(rule(OpenGroup("t", 6, 1, (root,)))) == [("0", 2, 2)]
    grown = (root, forked("0/2.0", "0", 2, 5), forked("0/2.1", "0", 2, 4))
    assert starts(rule(OpenGroup("t", 6, 2, grown))) == [("0", 4, 1), ("0/2.0", 4, 1)]
    assert rule(OpenGroup("t", 6, 3, grown)) == Growth()
    assert starts(get_group_rule("spo_tree", branching=[1, 2])(OpenGroup("t", 2, 1, (root,)))) == [("0", 4, 1)]


def test_pppo_continues_the_first_part() -> None:
    """ceil(.15 * 10) = 2 turns; floor(.15 * 103) = 15 tokens, which are 5 of the second answer."""
    rule = get_group_rule("pppo")
    group = OpenGroup("t", 2, 1, (episode(0, turns=10), episode(1, turns=1)))
    assert starts(rule(group)) == [("0", 2, 8)]
    end = rule(replace(group, round=2, members=(*group.members, forked("0/2.0", "0", 2, won=True))))
    assert (end.more, numbers(end.keep), end.counted) == ((), ["0", "1"], None)
    assert end.until == (BranchPoint("t#0@7", 2),)  # the second member has no turn after its first part
    tokens = episode(0, turns=tuple(turn(0.0, (-1.0,) * count) for count in (10, 13, 80)))
    (request,) = get_group_rule("pppo", unit="tokens")(OpenGroup("t", 1, 1, (tokens,))).more
    assert (request.at, request.episodes) == (BranchPoint("t#0@7", 1, 5), 8)
    (request,) = get_group_rule("pppo", unit="tokens", share=0.05)(OpenGroup("t", 1, 1, (tokens,))).more
    assert request.at == BranchPoint("t#0@7", 0, 5)


def test_shared_turns_are_credited_with_all_that_went_through_them() -> None:
    """Two members, three continuations of each after turn 2: 3 and 1 of four ways on won, so A = .25 and -.25."""
    roots = (episode(0, True, 5), episode(1, False, 5))
    ways = [("0", True), ("0", True), ("0", False), ("1", False), ("1", True), ("1", False)]
    children = [forked(f"{parent}/2.{k}", parent, 2, 5, won) for k, (parent, won) in enumerate(ways)]
    steps = steps_of([Group("t", (*roots, *children))])
    values = arpo_hard(steps, scale="none")
    rows = {(name, at): value for name, at, value in zip(values.trajectory, values.turn, values.values, strict=True)}
    assert [rows["t#0@7", at] for at in range(5)] == pytest.approx([0.25, 0.25, 0.5, 0.5, 0.5])
    assert [rows["t#1@7", at] for at in range(5)] == pytest.approx([-0.25, -0.25, -0.5, -0.5, -0.5])


def test_motif_continues_the_first_turn() -> None:
    rule = get_group_rule("motif")
    group = after("011")
    assert starts(rule(group)) == [("0", 1, 3), ("1", 1, 3), ("2", 1, 3)]
    assert rule(OpenGroup("t", 1, 1, (episode(0, turns=1),))) == Growth()
    played = replace(group, round=2, members=(*group.members, forked("0/1.0", "0", 1)))
    assert rule(played).until == tuple(BranchPoint(f"t#{number}@7", 1) for number in range(3))


def test_mrt_continues_the_ends_of_blocks() -> None:
    """Nine turns, four blocks: 1, 3.33, 5.67, 8."""
    rule = get_group_rule("mrt")
    assert starts(rule(OpenGroup("t", 1, 1, (episode(0, turns=9),)))) == [("0", at, 4) for at in (1, 3, 6, 8)]
    assert starts(rule(OpenGroup("t", 1, 1, (episode(0, turns=3),)))) == [("0", at, 4) for at in (1, 2)]
    played = OpenGroup("t", 1, 2, (episode(0, turns=3), forked("0/1.0", "0", 1)))
    assert (numbers(rule(played).keep), rule(played).until) == (["0"], ())  # trained on as a whole


def test_blocks_of_tokens_end_inside_answers() -> None:
    """Of 23 tokens, three places: after 5, 11 and 17, which are 1 of the second answer, 3 and 9 of the third."""
    member = episode(0, turns=tuple(turn(0.0, (-1.0,) * count) for count in (4, 4, 15)))
    growth = get_group_rule("mrt", blocks=3, continuations=2, unit="tokens")(OpenGroup("t", 1, 1, (member,)))
    assert [(more.at, more.episodes) for more in growth.more] == [
        (BranchPoint("t#0@7", at, tokens), 2) for at, tokens in ((1, 1), (2, 3), (2, 9))
    ]


def test_places_after_tokens() -> None:
    """Answers of 3, 0 and 2 tokens: the first answer ends where the third begins."""
    member = episode(0, turns=tuple(turn(0.0, (-1.0,) * count) for count in (3, 0, 2)))
    places = token_places(member, range(7))
    assert [(at.turn, at.tokens) for at in places] == [(0, 1), (0, 2), (2, 0), (2, 1)]
    assert token_places(member, [4, 4]) == [BranchPoint("t#0@7", 2, 1)]


def test_forest_forks_where_its_rule_says() -> None:
    rule = get_group_rule("forest", where={"name": "entropy", "tokens": 1}, roots=2)
    group = OpenGroup("t", 6, 1, (surprised(0, 9, 1, 3), surprised(1, 9, 5)))
    assert starts(rule(group)) == [("1", 1, 1), ("0", 2, 1)]
    forks = (forked("1/1.0", "1", 1, 2), forked("0/2.0", "0", 2, 3))
    group = replace(group, round=2, members=(*group.members, *forks))
    assert starts(rule(group)) == [("", 0, 1), ("0", 1, 1)]
    with pytest.raises(BadSetting, match="entropy"):
        get_group_rule("forest", where="entropie")
    with pytest.raises(BadOption, match="tokens"):
        get_group_rule("forest", where={"name": "entropy", "tokens": 0})


def test_uct_weighs_success_and_visits() -> None:
    """Roots a (lost, 3 turns) and b (won, 2 turns), a fork of a at turn 2 that won.

    N = 3. b before 1: 1 + ln(3)^.5 = 2.048; a before 1 and 2: .5 + (ln(3)/2)^.5 = 1.241; the fork before 3: 2.048.
    """
    a, b = episode(0, False, 3), episode(1, True, 2)
    fork = forked("0/2.0", "0", 2, 4, won=True)
    group = OpenGroup("t", 5, 2, (a, b, fork))
    assert [_confident((a, b, fork), 1.0)[0][at] for at in (1, 2)] == pytest.approx([1.2411, 1.2411], abs=1e-4)
    assert _confident((a, b, fork), 1.0)[1][1] == pytest.approx(2.0481, abs=1e-4)
    assert _confident((a, b, fork), 1.0)[2][3] == pytest.approx(2.0481, abs=1e-4)
    assert starts(get_group_rule("uct")(group))[0] in [("1", 1, 1), ("0/2.0", 3, 1)]
    assert sorted(starts(get_group_rule("uct", at_once=2)(group))) == [("0/2.0", 3, 1), ("1", 1, 1)]
    assert starts(get_group_rule("uct", weight=0)(OpenGroup("t", 5, 1, (a, b)))) == [("1", 1, 1)]


# -- played --


def test_forest_grows_as_train_forks_do() -> None:
    """The same real episodes, forked at the same places in the same order."""

    def played(rule: GroupRule) -> list[Group]:
        growing = GrowingGroups([rule], Seeds(0), 1, max_rounds=99)
        drawn = [DrawnGroup(n, task, 6, 5, n) for n, task in enumerate(["open-3-1", "fetch-3-1"])]
        specs = [group.spec(growing.grow(group)) for group in drawn]
        return rollout(Agent(max_turns=7), Wanderer(plans=0.6, tokenizer=Bytes()), specs, make=Corridor)

    ours = played(get_group_rule("forest", where="entropy", roots=2))
    expected = played(Forest(get_fork_rule("entropy"), 6, 2).rule_of_groups())
    for group, other in zip(ours, expected, strict=True):
        assert [one.id for one in group.trajectories] == [one.id for one in other.trajectories]
        assert [one.turns for one in group.trajectories] == [one.turns for one in other.trajectories]
        assert sum(one.fork_of is not None for one in group.trajectories) == 4


# -- options --


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("reinforce_ada", {"mode": "both"}),
        ("reinforce_ada", {"keep": 1}),
        ("reinforce_ada", {"rounds": 0}),
        ("v05", {"least": 2}),
        ("v05", {"cost": -1}),
        ("v05", {"prior": 2}),
        ("v05", {"step": 0}),
        ("pods", {"keep": 1}),
        ("pods", {"baseline": "none"}),
        ("prof", {"keep": 1}),
        ("prof", {"baseline": "none"}),
        ("rorecomp", {"share": 0}),
        ("rorecomp", {"length": "words"}),
        ("dagrpo", {"distance": 2}),
        ("drkernel_prs", {"width": 0}),
        ("drkernel_prs", {"low": "none"}),
        ("ttrl", {"share": 1.5}),
        ("ghpo", {"shares": []}),
        ("ghpo", {"shares": [0.5, 2]}),
        ("ghpo", {"start": -1}),
        ("scaf_grpo", {"levels": 0}),
        ("scaf_grpo", {"start": -1}),
        ("sage", {"levels": 0}),
        ("sage", {"low": 2}),
        ("sage", {"high": -0.1}),
        ("seele", {"rounds": 0}),
        ("seele", {"target": 0}),
        ("seele", {"most": 1.2}),
        ("expert_roll_in", {"share": 2}),
        ("expert_roll_in", {"depth": -1}),
        ("expert_roll_in", {"guide": 1}),
        ("arpo", {"roots": 0}),
        ("arpo", {"base": 2}),
        ("arpo", {"weight": -1}),
        ("arpo", {"tokens": 0}),
        ("tree_grpo", {"nodes": 0}),
        ("tree_grpo", {"rounds": 0}),
        ("treerl", {"nodes": 0}),
        ("treerl", {"children": 0}),
        ("treerl", {"rounds": 0}),
        ("treerl", {"tokens": 0}),
        ("spo_tree", {"span": 0}),
        ("spo_tree", {"branching": 2}),
        ("spo_tree", {"branching": [2, 0]}),
        ("pppo", {"share": 1}),
        ("pppo", {"continuations": 0}),
        ("pppo", {"unit": "letters"}),
        ("motif", {"continuations": 1}),
        ("mrt", {"blocks": 0}),
        ("mrt", {"unit": "letters"}),
        ("treerl", {"unit": "letters"}),
        ("spo_tree", {"unit": "letters"}),
        ("mrt", {"continuations": 0}),
        ("forest", {"roots": -1}),
        ("uct", {"roots": 0}),
        ("uct", {"weight": -1}),
        ("uct", {"at_once": 0}),
        ("xrpo", {"least": 1}),
        ("xrpo", {"price": 0}),
        ("xrpo", {"confidence": 1}),
        ("xrpo", {"step": 0}),
    ],
)
def test_impossible_options_are_refused(name: str, options: dict[str, object]) -> None:
    (option,) = options
    with pytest.raises(BadOption, match=option):
        get_group_rule(name, **options)


def test_made_up_episodes_are_what_the_tests_say() -> None:
    assert [member.won for member in members("01")] == [False, True]
    assert episode(0, True).reward == 1.0
