"""Outcome methods with a baseline of their own task: dr_grpo, rloo, remax, opo, ngrpo, mc_grpo."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys.tables import episode, rows

from turncredit.credit import Steps, dr_grpo, grpo, mc_grpo, ngrpo, opo, remax, rloo

NINE = [1, 0, 0, 1, 0.5, 0.2, 0.9, 0.0, 1.0]
TASKS = ["a"] * 4 + ["b"] * 4 + ["c"]
MANY = settings(max_examples=40, deadline=None)


def outcomes(rewards, tasks=None, **columns):
    count = len(rewards)
    tasks = ["t"] * count if tasks is None else tasks
    return Steps.from_columns(task=tasks, trajectory=range(count), turn=[0] * count, reward=rewards, **columns)


def full(table):
    """Rows with the columns that any of these methods asks for; tokens depend on the row alone."""
    return [
        {**row, "tokens": 1 + (3 * row["turn"] + int(row["reward"] * 2) + row["trajectory"]) % 7, "value": 0.25}
        for row in table
    ]


def scores_of(table):
    """Score of each (task, trajectory), by plain addition."""
    found = {}
    for row in table:
        key = row["task"], row["trajectory"]
        found[key] = found.get(key, 0.0) + row["reward"]
    return found


# Published figures: what the authors' or a framework's code gives, or gave when transcribed.


def test_dr_grpo_published():
    expected = [0.5, -0.5, -0.5, 0.5, 0.1, -0.2, 0.5, -0.4, 1.0]
    assert dr_grpo(outcomes(NINE, TASKS), singleton="raw").values == pytest.approx(expected, abs=1e-12)
    assert dr_grpo(outcomes(NINE, TASKS)).values[-1] == 0.0


def test_rloo_published():
    expected = [2 / 3, -2 / 3, -2 / 3, 2 / 3, 0.13333333, -0.26666667, 0.66666667, -0.53333333, 0.0]
    assert rloo(outcomes(NINE, TASKS)).values == pytest.approx(expected, abs=1e-8)
    assert rloo(outcomes(NINE, TASKS), singleton="raw").values[-1] == 1.0


def test_opo_published():
    steps = outcomes([1, 0, 0, 1], tokens=[10, 20, 30, 40])
    assert opo(steps).values == pytest.approx([0.5, -0.5, -0.5, 0.5], abs=1e-12)


def test_remax_published():
    steps = outcomes([1, 0, 0.5], ["a", "b", "c"], value=[0.5, 0.5, 0])
    assert remax(steps).values.tolist() == [0.5, -0.5, 0.5]


def test_ngrpo_published():
    steps = outcomes([0, 0, 0, 0, 1, 0, 1, 1], ["a"] * 4 + ["b"] * 4)
    expected = [-0.4472126] * 4 + [0.4472126, -1.78885038, 0.4472126, 0.4472126]
    assert ngrpo(steps, max_reward=1.0, extra=1, ddof=1, eps=1e-6).values == pytest.approx(expected, abs=1e-7)


def test_mc_grpo_published():
    result = mc_grpo(outcomes([0, 0, 1, 0.2, 1]), eps=1e-3, rescale=True)
    assert result.values == pytest.approx([-1.24378109, -1.24378109, 4.97512438, 0.0, 4.97512438], abs=1e-8)
    assert result.keep.tolist() == [True, True, True, False, True]


def test_mc_grpo_published_without_median_distance():
    steps = outcomes([0, 0, 0, 1, 0])
    loose = mc_grpo(steps, eps=1e-3, clip=float("inf"))
    assert loose.values == pytest.approx([0.0, 0.0, 0.0, 5000.0, 0.0], rel=1e-12)
    assert (~loose.keep).sum() == 1
    assert mc_grpo(steps).values.tolist() == [0.0, 0.0, 0.0, 10.0, 0.0]  # clipped, since nobody wants the 5000


# Hand-computed tables and what options change.


def test_every_turn_of_an_episode_gets_its_outcome_against_the_others():
    steps = Steps.from_rows(episode("t", "a", [1.0, 0.0, 2.0]) + episode("t", "b", [0.0]) + episode("t", "c", [0.0, 0]))
    assert rloo(steps).values.tolist() == [3.0] * 3 + [-1.5] * 3  # 3 - 0; 0 - 3/2
    assert dr_grpo(steps).values.tolist() == [2.0] * 3 + [-1.0] * 3
    assert dr_grpo(steps, unit="turn").values.tolist() == [1.5] * 3 + [-1.5] * 3  # the long winner counts three times
    # Lower median 0, distances 3, 0, 0: their lower median is 0, so the deviation sqrt(9 / 2) does not enter but eps.
    assert mc_grpo(steps, eps=1.0, clip=100.0).values.tolist() == [9.0] * 3 + [0.0] * 3  # 3 / 1 * 3 / 1


def test_the_penalty_is_part_of_the_score():
    table = episode("t", "a", [0.0, 1.0]) + episode("t", "b", [0.0])
    steps = Steps.from_rows([{**row, "valid": row["turn"] == 0, "tokens": 1, "value": 0.0} for row in table])
    assert rloo(steps, invalid_penalty=0.5).values.tolist() == [0.5, 0.5, -0.5]
    assert dr_grpo(steps, invalid_penalty=0.5).values.tolist() == [0.25, 0.25, -0.25]
    assert remax(steps, invalid_penalty=0.5).values.tolist() == [0.5, 0.5, 0.0]
    assert opo(steps, invalid_penalty=0.5).values == pytest.approx([1 / 6, 1 / 6, -1 / 3])  # baseline 2 * 0.5 / 3
    assert rloo(steps, invalid_penalty=0.0).values.tolist() == [1.0, 1.0, -1.0]


def test_remax_reads_the_first_turn_whatever_the_order_of_rows():
    table = [
        {"task": "t", "trajectory": 0, "turn": 5, "reward": 1.0, "value": 9.0},
        {"task": "t", "trajectory": 1, "turn": 0, "reward": 0.0, "value": 0.5},
        {"task": "t", "trajectory": 0, "turn": 2, "reward": 0.0, "value": 0.25},
    ]
    result = remax(Steps.from_rows(table))
    assert result.values.tolist() == [0.75, -0.5, 0.75]
    assert (result.parts["episode"] + result.parts["baseline"]).tolist() == result.values.tolist()


def test_opo_weighs_by_the_tokens_of_all_turns():
    steps = Steps.from_rows(
        [{**row, "tokens": 2} for row in episode("t", "a", [0.0, 0.0, 1.0])]
        + [{**row, "tokens": 2} for row in episode("t", "b", [0.0])]
    )
    assert opo(steps).values.tolist() == [0.25] * 3 + [-0.75]  # baseline 6 * 1 / 8


def test_opo_without_any_token_counts_episodes():
    assert opo(outcomes([1.0, 0.0], tokens=[0, 0])).values.tolist() == [0.5, -0.5]
    assert opo(outcomes([1.0, 0.0], tokens=[0, 3])).values.tolist() == [1.0, 0.0]


def test_opo_alone():
    steps = outcomes([3.0], tokens=[7])
    assert opo(steps).values.tolist() == [0.0]
    assert opo(steps, singleton="raw").values.tolist() == [3.0]


def test_ngrpo_pushes_failures_away_and_leaves_perfection_alone():
    # Three zeros and the imagined one: mean 1/4, variance (3/16 + 9/16) / 3 = 1/4.
    assert ngrpo(outcomes([0.0] * 3), eps=0.0).values.tolist() == [-0.5] * 3
    assert ngrpo(outcomes([1.0] * 3)).values.tolist() == [0.0] * 3
    # Two imagined ones: mean 2/5, variance (3 * 0.16 + 2 * 0.36) / 4 = 0.3.
    assert ngrpo(outcomes([0.0] * 3), extra=2, eps=0.0).values == pytest.approx([-0.4 / np.sqrt(0.3)] * 3)
    assert not grpo(outcomes([0.0] * 3)).values.any()  # where GRPO learns nothing


def test_ngrpo_says_when_scores_exceed_the_best():
    result = ngrpo(outcomes([10.0, 0.0, 0.0]))
    assert result.report["above_max"] == 1.0
    assert result.values == pytest.approx(ngrpo(outcomes([10.0, 0.0, 0.0]), max_reward=10.0).values, rel=1e-12)
    assert ngrpo(outcomes([10.0, 0.0, 0.0]), max_reward=10.0).report["above_max"] == 0.0


def test_mc_grpo_scales_up_only_if_asked():
    # Median 1, distances 1, 0, 2: median distance 1; of three two are not zero.
    steps = outcomes([0.0, 1.0, 3.0])
    assert mc_grpo(steps, eps=0.0, rescale=False).values.tolist() == [-1.0, 0.0, 2.0]
    assert mc_grpo(steps, eps=0.0).values.tolist() == [-1.5, 0.0, 3.0]
    assert mc_grpo(steps, eps=0.0, clip=2.0).values.tolist() == [-1.5, 0.0, 2.0]


def test_mc_grpo_even_groups_take_the_lower_median():
    result = mc_grpo(outcomes([4.0, 1.0, 2.0, 8.0]), eps=0.0, rescale=False)  # median 2, distances 2 1 0 6: lower 1
    assert result.values.tolist() == [2.0, -1.0, 0.0, 6.0]
    assert result.keep.tolist() == [True, True, False, True]


def test_mc_grpo_leaves_out_whole_trajectories_one_a_group():
    steps = Steps.from_rows(
        episode("t", "a", [0.0, 1.0]) + episode("t", "b", [0.0, 0.0, 0.0]) + episode("t", "c", [0.0, -1.0])
        + episode("u", "a", [5.0]) + episode("u", "b", [5.0]) + episode("v", "a", [5.0])
    )  # fmt: skip
    result = mc_grpo(steps)
    assert result.keep.tolist() == [True] * 2 + [False] * 3 + [True] * 2 + [False, True] + [True]
    assert result.report["left_out"] == 2.0  # a group of one is kept, at zero
    assert result.values[-3:].tolist() == [0.0, 0.0, 0.0]


@given(rows(max_group=6, max_turns=2), st.randoms(use_true_random=False))
@MANY
def test_mc_grpo_ties_do_not_depend_on_the_order_of_rows(table, random):
    order = list(range(len(table)))
    random.shuffle(order)
    one, two = mc_grpo(Steps.from_rows(table)), mc_grpo(Steps.from_rows([table[row] for row in order]))
    assert two.keep.tolist() == one.keep[order].tolist()
    left_out = {(row["task"], row["trajectory"]) for row, kept in zip(table, one.keep, strict=True) if not kept}
    groups = {}
    for (task, _), score in scores_of(table).items():
        groups.setdefault(task, []).append(score)
    assert sorted(task for task, _ in left_out) == sorted(task for task, found in groups.items() if len(found) > 1)
    assert not one.values[~one.keep].any()
    for task, trajectory in left_out:
        lower_median = sorted(groups[task])[(len(groups[task]) - 1) // 2]
        assert scores_of(table)[task, trajectory] == pytest.approx(lower_median, abs=1e-9)


# Laws.


@given(rows())
@MANY
def test_dr_grpo_is_grpo_without_scale(table):
    steps = Steps.from_rows(table)
    assert dr_grpo(steps).values.tolist() == grpo(steps, scale="none").values.tolist()


@given(rows(max_group=6))
@MANY
def test_rloo_is_a_multiple_of_dr_grpo_and_leaves_one_out(table):
    table = [{**row, "valid": True} for row in table]
    steps = Steps.from_rows(table)
    scores = scores_of(table)
    for row, ours, centred in zip(table, rloo(steps).values, dr_grpo(steps).values, strict=True):
        others = [
            s for (task, name), s in scores.items() if task == row["task"] and name != row["trajectory"]
        ]  # fmt: skip
        n = len(others) + 1
        assert ours == pytest.approx(centred * n / max(n - 1, 1), abs=1e-9)
        expected = scores[row["task"], row["trajectory"]] - sum(others) / len(others) if others else 0.0
        assert ours == pytest.approx(expected, abs=1e-9)


@given(rows(), st.sampled_from([1, 4]))
@MANY
def test_opo_with_equal_lengths_is_dr_grpo(table, length):
    turns = {}
    for row in table:
        turns.setdefault((row["task"], row["trajectory"]), []).append(row["turn"])
    with_tokens = [{**row, "tokens": length * (row["turn"] == 0)} for row in table]
    assert np.allclose(opo(Steps.from_rows(with_tokens)).values, dr_grpo(Steps.from_rows(table)).values, atol=1e-9)


@given(rows())
@MANY
def test_the_sums_that_vanish(table):
    """rloo and dr_grpo balance over a task's episodes, opo over its tokens; ngrpo stays at or below zero."""
    table = full(table)
    steps = Steps.from_rows(table)
    found = {method: method(steps).values for method in (dr_grpo, rloo, opo, ngrpo)}
    for task in {row["task"] for row in table}:
        mine = [number for number, row in enumerate(table) if row["task"] == task]
        first = [number for number in mine if table[number]["turn"] == 0]
        assert found[dr_grpo][first].sum() == pytest.approx(0.0, abs=1e-9)
        assert found[rloo][first].sum() == pytest.approx(0.0, abs=1e-9)
        assert sum(found[opo][n] * table[n]["tokens"] for n in mine) == pytest.approx(0.0, abs=1e-9)
        assert found[ngrpo][first].sum() <= 1e-9


@pytest.mark.parametrize("method", [dr_grpo, rloo, opo, mc_grpo])
def test_equal_scores_give_exactly_nothing_however_they_add_up(method):
    """0.1 three times and 0.3 once are the same score, though not the same bits."""
    table = episode("t", "a", [0.1, 0.1, 0.1]) + episode("t", "b", [0.3]) + episode("t", "c", [0.0, 0.3])
    assert not method(Steps.from_rows([{**row, "tokens": 1 + row["turn"]} for row in table])).values.any()
