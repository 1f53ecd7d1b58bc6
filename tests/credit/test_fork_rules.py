"""The rules vine, bpo and continuations: hand-computed tables, edges, and what they have in common with other rules."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_tree_methods import by_trajectory, forests, path_rows
from toys.full_tables import random_rows, seeds

from turncredit.credit import (
    BadOption,
    BadTable,
    MissingColumn,
    Steps,
    arpo_hard,
    bpo,
    continuations,
    dr_grpo,
    gae,
    vine,
)
from turncredit.credit.numerics import discounted_returns

MANY = settings(max_examples=60, deadline=None)


def episode(rewards: list[float], value: list[float], trajectory: object = "a", **columns: list[Any]) -> Steps:
    count = len(rewards)
    return Steps.from_columns(
        task=["q"] * count,
        trajectory=[trajectory] * count,
        turn=range(count),
        reward=rewards,
        value=value,
        **columns,
    )


# -- vine --


def test_vine_is_the_change_in_value():
    """0.9 * 0.5 - 0.25, 0 + 0.9 * 1 - 0.5, and the reward of the end less what was expected."""
    advantages = vine(episode([0.0, 0.0, 1.0], [0.25, 0.5, 1.0]), gamma=0.9)
    assert advantages.values == pytest.approx([0.2, 0.4, 0.0])
    assert advantages.parts["value"].tolist() == [0.25, 0.5, 1.0]


def test_vine_subtracts_the_penalty_at_the_invalid_turn():
    steps = episode([0.0, 1.0], [0.5, 0.75], valid=[False, True])
    assert vine(steps, gamma=1.0, invalid_penalty=0.1).values == pytest.approx([0.15, 0.25])


def test_vine_takes_values_of_actions_where_there_are_some():
    """Q - V: the reward of this one draw of chance does not count, and no penalty twice."""
    steps = episode([5.0, 1.0], [0.5, 0.75], action_value=[0.25, 1.0], valid=[False, True])
    assert vine(steps, gamma=0.5, invalid_penalty=1.0).values.tolist() == [-0.25, 0.25]


def test_vine_leaves_out_turns_without_forks():
    advantages = vine(episode([0.0, 1.0], [0.5, 0.75], forks=[0, 4]), gamma=1.0)
    assert (advantages.values.tolist(), advantages.keep.tolist()) == ([0.0, 0.25], [False, True])


def test_vine_telescopes_to_return_less_value():
    """The undiscounted advantages of an episode add up to its return less the value of its beginning."""
    advantages = vine(episode([1.0, -2.0, 0.5, 3.0], [0.3, 0.9, -1.0, 2.0]), gamma=1.0)
    assert advantages.values.sum() == pytest.approx(2.5 - 0.3)


def test_vine_is_gae_without_its_decay():
    steps = episode([1.0, -2.0, 0.5], [0.3, 0.9, -1.0], valid=[True, False, True])
    assert vine(steps, gamma=0.7).values.tolist() == gae(steps, gamma=0.7, lam=0.0).values.tolist()


# a won episode of five turns, two of which have forks; the second action is not valid
FORKED = {"forks": [4, 0, 0, 4, 0], "valid": [True, False, True, True, True]}
SEGMENTS = episode([0.0, 0.0, 0.0, 0.0, 1.0], [0.25, 9.0, 9.0, 0.5, 9.0], **FORKED)


def test_vine_spreads_the_advantage_of_a_segment_evenly():
    """gamma 1: D = 0.5 - 0.25 over three turns and 1 - 0.5 over two; the penalty of turn 1 is its own."""
    advantages = vine(SEGMENTS, gamma=1.0, at="spaced", invalid_penalty=0.1)
    assert advantages.values == pytest.approx([0.25 / 3, 0.25 / 3 - 0.1, 0.25 / 3, 0.25, 0.25])
    assert advantages.keep.all()
    # V from the back: 1 - 0.25 = 0.75 | 0.5 - 0.25/3 | ... - 0.1 is paid in turn 1, as its advantage says
    assert advantages.parts["value"] == pytest.approx([0.25, 0.5 - 0.5 / 3, 0.5 - 0.25 / 3, 0.5, 0.75])
    assert advantages.report == {"segments": 2.0, "segment_turns": 2.5}


def test_vine_gives_the_advantage_of_a_segment_to_the_turn_that_was_forked():
    """gamma 1/2: D = 1/8 * 0.5 - 0.25 and 1/2 * 1 - 0.5; V between is what comes next, discounted."""
    advantages = vine(SEGMENTS, gamma=0.5, at="entropy", between="first", invalid_penalty=0.1)
    assert advantages.values == pytest.approx([-0.1875, -0.1, 0.0, 0.0, 0.0])
    assert advantages.parts["value"] == pytest.approx([0.25, 0.125, 0.25, 0.5, 1.0])


def test_vine_discounts_within_segments():
    """gamma 1/2: the weights of three turns add up to 7/4, those of two to 3/2."""
    values = vine(SEGMENTS, gamma=0.5, at="spaced", invalid_penalty=0.0).values
    assert values == pytest.approx([-0.1875 * 4 / 7] * 3 + [0.0] * 2)


def test_vine_leaves_out_what_comes_before_the_first_value_of_an_episode():
    steps = episode([0.0, 0.0, 1.0], [9.0, 0.5, 9.0], forks=[0, 4, 0])
    advantages = vine(steps, gamma=1.0, at="spaced")
    assert (advantages.values.tolist(), advantages.keep.tolist()) == ([0.0, 0.25, 0.25], [False, True, True])
    assert advantages.parts["value"].tolist() == [0.0, 0.5, 0.75]
    nothing = vine(episode([0.0, 1.0], [9.0, 9.0], forks=[0, 0]), at="spaced")
    assert not nothing.values.any()
    assert not nothing.keep.any()


@given(seed=seeds)
@MANY
def test_vine_with_a_value_of_every_turn_is_the_same_at_every_choice(seed):
    steps = Steps.from_rows([{**row, "forks": 4} for row in random_rows(seed)])
    plain = vine(steps, gamma=0.7)
    for at in ("spaced", "entropy", "contested"):
        for between in ("even", "first"):
            segments = vine(steps, gamma=0.7, at=at, between=between)
            assert segments.values == pytest.approx(plain.values, abs=1e-12)
            assert segments.parts["value"].tolist() == plain.parts["value"].tolist()


@given(seed=seeds, gamma=st.sampled_from([0.0, 0.5, 1.0]), between=st.sampled_from(["even", "first"]))
@MANY
def test_segments_of_vine_keep_the_discounted_sum_of_advantages(seed, gamma, between):
    """From a forked turn to the end: the return less the value, whichever turns in between have forks. And the filled V
    have these advantages."""
    rows = random_rows(seed)
    dice = np.random.default_rng(seed)
    steps = Steps.from_rows([{**row, "forks": int(dice.integers(2))} for row in rows])
    advantages = vine(steps, gamma=gamma, at="spaced", between=between, invalid_penalty=0.3)
    paid = steps.reward - 0.3 * steps.invalid
    sums = discounted_returns(steps, gamma, reward=advantages.values)
    returns = discounted_returns(steps, gamma, reward=paid)
    forked = steps.column("forks") > 0
    value = steps.column("value")
    assert sums[forked] == pytest.approx((returns - value)[forked], abs=1e-9)
    filled = {(entry["task"], entry["trajectory"], entry["turn"]): number for number, entry in enumerate(rows)}
    for (task, trajectory, turn), row in filled.items():
        after = filled.get((task, trajectory, turn + 1))
        following = 0.0 if after is None else gamma * advantages.parts["value"][after]
        if advantages.keep[row]:
            change = paid[row] + following - advantages.parts["value"][row]
            assert advantages.values[row] == pytest.approx(change, abs=1e-9)


@given(seed=seeds)
@MANY
def test_segments_of_vine_know_nothing_of_values_without_forks(seed):
    rows = random_rows(seed)
    dice = np.random.default_rng(seed)
    rows = [{**row, "forks": int(dice.integers(2))} for row in rows]
    others = [{**row, "value": row["value"] if row["forks"] else -7.0} for row in rows]
    for between in ("even", "first"):
        plain, changed = (vine(Steps.from_rows(table), at="spaced", between=between) for table in (rows, others))
        assert changed.values.tolist() == plain.values.tolist()


@pytest.mark.parametrize(
    "options", [{"at": "third"}, {"share": 0.0}, {"share": 1.5}, {"between": "last"}, {"gamma": -0.5}]
)
def test_vine_refuses_what_makes_no_sense(options):
    with pytest.raises(BadOption, match=next(iter(options))):
        vine(SEGMENTS, **options)


def test_vine_needs_values_and_refuses_those_that_are_not_numbers():
    with pytest.raises(MissingColumn, match=r"^vine needs the column 'value'"):
        vine(Steps.from_columns(task=["q"], trajectory=["a"], turn=[0], reward=[1.0]))
    with pytest.raises(BadTable, match="'value' must be finite"):
        episode([0.0, 1.0], [0.5, float("nan")])


# -- bpo --


def test_bpo_compares_the_branches_of_a_fork_and_the_trunks_of_a_task():
    """Two trees: xa won, xb lost and xbc, a fork of it, won; yd lost. The mean of the task is 1/2.

    x is passed by three, of which two won: 2/3 - 1/2. From there a (1) and b (1/2) go out, with 2/3 as their mean; from
    b the two ends, 0 and 1, with 1/2. y has no fork.
    """
    table = path_rows(["xa1", "xb2", "xb3", "yd4"], [1.0, 0.0, 1.0, 0.0])
    advantages = by_trajectory(table, bpo(Steps.from_rows(table)).values)
    assert advantages["q", 0] == pytest.approx([1 / 6, 1 / 3, 1 / 3])
    assert advantages["q", 1] == pytest.approx([1 / 6, -1 / 6, -1 / 2])
    assert advantages["q", 2] == pytest.approx([1 / 6, -1 / 6, 1 / 2])
    assert advantages["q", 3] == pytest.approx([-1 / 2, -1 / 2, -1 / 2])


def test_bpo_of_independent_episodes_is_their_outcome_less_the_mean():
    table = path_rows(["ax", "by", "cz"], [1.0, 0.0, 0.5])
    steps = Steps.from_rows(table)
    assert bpo(steps).values == pytest.approx(dr_grpo(steps).values)


@given(table=forests())
@MANY
def test_bpo_gives_shared_turns_one_advantage_and_branches_of_a_fork_a_sum_of_zero(table):
    steps = Steps.from_rows(table)
    advantages = bpo(steps, invalid_penalty=0.0)
    paths_of: dict[Any, list[int]] = {}
    for row, entry in enumerate(table):
        paths_of.setdefault((entry["task"], entry["next_state"]), []).append(row)
    for rows in paths_of.values():
        assert np.ptp(advantages.values[rows]) == pytest.approx(0.0, abs=1e-12)
    baselines: dict[Any, list[float]] = {}
    for row, entry in enumerate(table):
        siblings = {end for task, end in paths_of if task == entry["task"] and end[:-1] == entry["parent"]}
        if entry["parent"] and len({end[len(entry["parent"])] for end in siblings}) > 1:
            baselines.setdefault((entry["task"], entry["parent"]), []).append(advantages.values[row])
    for values in baselines.values():
        assert sum(values) == pytest.approx(0.0, abs=1e-9)


@given(table=forests())
@MANY
def test_bpo_is_arpo_hard_less_the_value_of_the_last_fork(table):
    steps = Steps.from_rows(table)
    advantages = bpo(steps, invalid_penalty=0.0)
    hard = arpo_hard(steps, scale="none", invalid_penalty=0.0).values
    assert advantages.parts["after"] == pytest.approx(hard, abs=1e-12)
    assert advantages.values == pytest.approx(advantages.parts["after"] - advantages.parts["before"], abs=1e-12)


def test_bpo_of_one_episode_of_equal_ones_and_of_none():
    assert not bpo(Steps.from_rows(path_rows(["abc"], [1.0]))).values.any()
    assert not bpo(Steps.from_rows(path_rows(["ab1", "ab2", "cd3"], [0.3, 0.3, 0.3]))).values.any()
    assert len(bpo(Steps.empty())) == 0
    with pytest.raises(MissingColumn, match=r"^bpo needs the column 'parent'"):
        bpo(Steps.from_columns(task=["q"], trajectory=["a"], turn=[0], reward=[1.0]))


# -- continuations --


def ways_on(scores: list[tuple[str, int, float]], turns: int = 3) -> Steps:
    """Episodes of some turns: (tree, turn at which it was forked or -1, score)."""
    return Steps.from_rows(
        [
            {
                "task": "q",
                "trajectory": number,
                "turn": turn,
                "reward": score if turn == turns - 1 else 0.0,
                "tree": tree,
                "forked": int(at >= 0),
                "fork_turn": max(at, 0),
            }
            for number, (tree, at, score) in enumerate(scores)
            for turn in range(turns)
        ]
    )


def of_roots(advantages: Any, part: str = "") -> list[list[float]]:
    values = advantages.parts[part] if part else advantages.values
    return values[advantages.keep].reshape(-1, 3).tolist()


def test_an_episode_is_worth_its_own_win_and_those_of_its_continuations():
    """PPPO: 1 + 2, 0 + 1 and 1 + 3 wins of three continuations: mean 8/3, spread 1.5275."""
    wins = [("a", -1, 1.0), ("b", -1, 0.0), ("c", -1, 1.0)]
    wins += [(tree, 1, won) for tree, ways in (("a", (1, 0, 1)), ("b", (0, 0, 1)), ("c", (1, 1, 1))) for won in ways]
    advantages = continuations(ways_on(wins), eps=0.0)
    expected = [(wins - 8 / 3) / np.std([3, 1, 4], ddof=1) for wins in (3, 1, 4)]
    assert of_roots(advantages) == [pytest.approx([value] * 3) for value in expected]
    assert expected == pytest.approx([0.2182, -1.0911, 0.8729], abs=1e-4)
    assert advantages.keep.sum() == 9
    assert not advantages.values[~advantages.keep].any()


def test_means_of_rewards_in_place_and_elsewhere():
    """MOTIF: rewards 2, 1, 0 and 1 of four ways on make 1, and 0, 0, 2, 0 make .5."""
    scores = [
        ("a", -1, 2.0),
        ("b", -1, 0.0),
        *[("a", 1, score) for score in (1.0, 0.0, 1.0)],
        *[("b", 1, score) for score in (0.0, 2.0, 0.0)],
    ]
    assert of_roots(continuations(ways_on(scores), scale="none")) == [[0.25] * 3, [-0.25] * 3]


def test_progress_from_place_to_place():
    """MRT: half of the task is won; from turn 1 on a quarter wins, from turn 2 on three quarters, and it won."""
    scores = [
        ("a", -1, 1.0),
        ("b", -1, 0.0),
        *[("a", 1, score) for score in (1.0, 0.0, 0.0, 0.0)],
        *[("a", 2, score) for score in (1.0, 1.0, 0.0, 1.0)],
    ]
    advantages = continuations(ways_on(scores), worth="own", bonus=0.2, scale="none")
    assert of_roots(advantages, "step") == [[-0.25, 0.5, 0.25], [-0.5, -0.5, -0.5]]
    assert of_roots(advantages) == [pytest.approx([0.45, 0.6, 0.55]), pytest.approx([-0.6] * 3)]
    sums = advantages.parts["step"][:3].sum()
    assert sums == pytest.approx(1.0 - 0.5)  # all progress leads from the task's mean to the outcome


def test_continuations_need_their_columns():
    with pytest.raises(MissingColumn, match="'tree'"):
        continuations(Steps.from_columns(task=["q"], trajectory=["a"], turn=[0], reward=[1.0]))
    with pytest.raises(MissingColumn, match="'fork_turn'"):
        continuations(
            Steps.from_columns(task=["q"], trajectory=["a"], turn=[0], reward=[1.0], tree=["a"], forked=[0]), bonus=0.1
        )
    with pytest.raises(BadOption, match="worth"):
        continuations(ways_on([("a", -1, 1.0)]), worth="others")
