"""Turns compared with the same turns, or with turns from the same state: TRLOO, MT-GRPO, MAPO, Step-GRPO."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys.tables import episode, rows

from turncredit.credit import Steps, gigpo, mapo_dialogue, mt_grpo, rloo, step_grpo, trloo

# Three dialogues of one task with 3, 2 and 2 turns: the reference numbers of trloo and both forms of MAPO are for it.
DIALOGUES = Steps.from_rows(
    episode("q", 0, [0.2, 0.0, 1.0]) + episode("q", 1, [0.5, 0.3]) + episode("q", 2, [0.0, 0.0])
)
MANY = settings(max_examples=50, deadline=None)


def test_trloo_reference_numbers():
    """The first turn by hand: returns 1.2, 0.8, 0; 1.2 less the mean of 0.8 and 0 is 0.8."""
    result = trloo(DIALOGUES, singleton="raw")
    assert result.values == pytest.approx([0.8, 0.85, 1.0, 0.2, -0.2, -1.0, -0.65], abs=1e-9)
    assert result.parts["return"] == pytest.approx([1.2, 1.0, 1.0, 0.8, 0.3, 0.0, 0.0], abs=1e-12)
    assert trloo(DIALOGUES).values[2] == 0.0  # nobody else had a third turn
    assert trloo(DIALOGUES).report == {"groups": 3.0, "groups_of_one": 1.0}


def test_returns_that_cancel_leave_no_noise():
    """0.1 + 0.2 - 0.3 is 5.6e-17 in binary, which beside a return of zero is no difference."""
    assert 0.1 + 0.2 - 0.3 != 0.0
    steps = Steps.from_rows(episode("t", "a", [0.1, 0.2, -0.3]) + episode("t", "b", [0.0]))
    assert trloo(steps).values[[0, 3]].tolist() == [0.0, 0.0]
    assert mapo_dialogue(steps, alpha=1.0, eps=0.0).values[[0, 3]].tolist() == [0.0, 0.0]


def test_erloo_by_hand():
    """Returns a: 3, 2; b: 0; c: 1. Means of the others, by trajectory: a (0 + 1) / 2, b (2.5 + 1) / 2, c 2.5 / 2."""
    steps = Steps.from_rows(episode("t", "a", [1.0, 2.0]) + episode("t", "b", [0.0]) + episode("t", "c", [1.0]))
    assert trloo(steps, peers="task").values == pytest.approx([2.5, 1.5, -1.75, -0.25])
    # By rows, as the published code: the others of the first row are 2, 0 and 1, one of them of its own trajectory.
    assert trloo(steps, peers="task", unit="turn").values == pytest.approx([2.0, 2 / 3, -2.0, -2 / 3])


@given(rows(max_turns=1))
@MANY
def test_trloo_on_one_turn_is_rloo(table):
    table = [{**row, "valid": True} for row in table]
    steps = Steps.from_rows(table)
    scores = {}
    for row in table:
        scores.setdefault(row["task"], []).append(row["reward"])
    groups = [scores[row["task"]] for row in table]
    plain = [
        len(group) / (len(group) - 1) * (row["reward"] - sum(group) / len(group)) if len(group) > 1 else 0.0
        for row, group in zip(table, groups, strict=True)
    ]
    for peers in ("turn", "task"):
        assert trloo(steps, peers=peers).values == pytest.approx(plain, abs=1e-9)
    assert trloo(steps).values == pytest.approx(rloo(steps).values, abs=1e-9)


@given(rows(), st.sampled_from([0.0, 0.9, 1.0]), st.sampled_from(["trajectory", "turn"]))
@MANY
def test_erloo_equals_the_plain_loop(table, gamma, unit):
    steps = Steps.from_rows(table)
    result = trloo(steps, gamma=gamma, peers="task", unit=unit)
    returns = result.parts["return"]
    for at, row in enumerate(table):
        others = {}
        for k, other in enumerate(table):
            same = other["trajectory"] == row["trajectory"]
            if other["task"] == row["task"] and (k != at if unit == "turn" else not same):
                others.setdefault(k if unit == "turn" else other["trajectory"], []).append(returns[k])
        baseline = np.mean([np.mean(found) for found in others.values()]) if others else returns[at]
        assert result.values[at] == pytest.approx(returns[at] - baseline, abs=1e-9)


def test_mt_grpo_reference_numbers():
    """Tool rewards 0.3 0.1 0.5 0.1 and outcomes 1 0 1 0; before the tool result both count, after it the outcome."""
    table = [r for k, pair in enumerate([(0.3, 1), (0.1, 0), (0.5, 1), (0.1, 0)]) for r in episode("q", k, list(pair))]
    result = mt_grpo(Steps.from_rows(table), form="segments", eps=1e-4)
    assert result.values[0::2] == pytest.approx([1.12685562, -1.648816, 2.17077639, -1.648816], abs=1e-8)
    assert result.values[1::2] == pytest.approx([0.86587543, -0.86587543, 0.86587543, -0.86587543], abs=1e-8)


def test_mt_grpo_without_a_tool_result_takes_everything_together():
    """c answers at once with 0.5. Scores 3, 0, 0.5: mean 7/6; outcomes 2, 0, 0.5: mean 5/6; tool rewards 1, 0, 0."""
    table = episode("t", "a", [1.0, 2.0]) + episode("t", "b", [0.0, 0.0]) + episode("t", "c", [0.5])
    result = mt_grpo(Steps.from_rows(table), form="segments", scale="none", coef=2.0)
    assert result.parts["outcome"] == pytest.approx([7 / 6, 7 / 6, -5 / 6, -5 / 6, -2 / 3])
    assert result.parts["turn"] == pytest.approx([2 / 3, 0.0, -1 / 3, 0.0, 0.0])
    assert result.values == pytest.approx([7 / 6 + 4 / 3, 7 / 6, -5 / 6 - 2 / 3, -5 / 6, -2 / 3])


def test_mt_grpo_turn_by_turn():
    """Scores 3, 1, 0.5 (mean 1.5); first turns 1, 0, 0.5 (mean 0.5); second turns 2, 1 (mean 1.5)."""
    table = episode("t", "a", [1.0, 2.0]) + episode("t", "b", [0.0, 1.0]) + episode("t", "c", [0.5])
    result = mt_grpo(Steps.from_rows(table), scale="none")
    assert result.values == pytest.approx([1.5 + 0.5, 1.5 + 0.5, -0.5 - 0.5, -0.5 - 0.5, -1.0 + 0.0])
    assert mt_grpo(Steps.from_rows(table), scale="none", coef=0.0).values == pytest.approx([1.5, 1.5, -0.5, -0.5, -1.0])


def test_mapo_reference_numbers():
    result = mapo_dialogue(DIALOGUES, unit="turn", ddof=0)
    assert result.parts["turn"] == pytest.approx(
        [1.06904282, 1.35244416, 0.0, 0.26726071, -0.31822215, -1.33630353, -1.034222], abs=1e-8
    )
    assert result.parts["batch"] == pytest.approx(
        [1.25340389, 0.82541232, 0.82541232, 0.39742075, -0.67255819, -1.31454554, -1.31454554], abs=1e-8
    )
    assert result.values == pytest.approx(
        [1.16122336, 1.08892824, 0.41270616, 0.33234073, -0.49539017, -1.32542454, -1.17438377], abs=1e-8
    )
    assert mapo_dialogue(DIALOGUES, mode="mica", ddof=0).values == pytest.approx(
        [0.4534111, 0.32267119, 0.0, 0.78251288, 0.5479907, -1.23592398, -0.87066189], abs=1e-8
    )


def test_mapo_counts_each_dialogue_once_in_the_batch_by_default():
    """Returns a: 1, 1, 1, 1; b: 0. By dialogue the mean is 1/2 and the spread (ddof 0) 1/2."""
    steps = Steps.from_rows(episode("t", "a", [0.0, 0.0, 0.0, 1.0]) + episode("t", "b", [0.0]))
    assert mapo_dialogue(steps, alpha=0.0, ddof=0, eps=0.0).values == pytest.approx([1.0] * 4 + [-1.0])
    assert mapo_dialogue(steps, alpha=0.0, ddof=0, eps=0.0, unit="turn").values == pytest.approx([0.5] * 4 + [-2.0])


@given(rows(), st.sampled_from(["none", "std"]), st.sampled_from(["trajectory", "turn"]))
@MANY
def test_step_grpo_is_gigpos_step_term_without_a_future(table, scale, unit):
    steps = Steps.from_rows(table)
    alone = step_grpo(steps, scale=scale, unit=unit, invalid_penalty=0.1)
    term = gigpo(steps, gamma=0.0, scale=scale, unit=unit, invalid_penalty=0.1).parts["step"]
    assert alone.values.tolist() == term.tolist()


def test_the_penalty_enters_the_turns_reward():
    """a's second action costs 0.5; its first turn's return feels that, its rival gains by it."""
    table = [{**row, "valid": True} for row in episode("t", "a", [0.0, 1.0]) + episode("t", "b", [0.0, 1.0])]
    table[1]["valid"] = False
    steps = Steps.from_rows(table)
    assert trloo(steps, invalid_penalty=0.5).values.tolist() == [-0.5, -0.5, 0.5, 0.5]
    assert mt_grpo(steps, scale="none", invalid_penalty=0.5).values.tolist() == [-0.25, -0.5, 0.25, 0.5]
    assert not trloo(steps, invalid_penalty=0.0).values.any()
