"""Group rules against groups worked out by hand."""

from __future__ import annotations

import pytest
from toys.open_groups import after, episode, members

from turnwise.agents.steps import steps_of
from turnwise.agents.trajectory import Group, Trajectory
from turnwise.credit import BadOption, grpo
from turnwise.training.sampling import Growth, MoreEpisodes, OpenGroup
from turnwise.training.sampling.group_rules.catalogue import get_group_rule


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


# -- reinforce_ada --


def test_reinforce_ada_plays_until_both_outcomes_are_there() -> None:
    """1 of 8 won, then 2 of 8: two winners and two losers of 16, of which 3 won."""
    rule = get_group_rule("reinforce_ada")
    assert rule(OpenGroup("t", 8)).more == (MoreEpisodes(8),)
    assert rule(after("00100000")).more == (MoreEpisodes(8),)
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
