"""GRPO: hand-computed groups, the published figures, and what every option changes."""

import json
from pathlib import Path

import numpy as np
import pytest
from toys.tables import episode

from turncredit.credit import BadOption, Steps, grpo

CASES = json.loads((Path(__file__).parent / "outcome_cases.json").read_text())


def outcomes(rewards, tasks):
    return Steps.from_columns(task=tasks, trajectory=range(len(rewards)), turn=[0] * len(rewards), reward=rewards)


@pytest.mark.parametrize("case", CASES["grpo"], ids=lambda case: case["name"])
def test_published_figures(case):
    result = grpo(outcomes(case["reward"], case["task"]), **case["options"])
    assert result.values == pytest.approx(case["advantage"], rel=1e-6, abs=1e-7)


def test_every_turn_of_an_episode_gets_the_episodes_standing():
    steps = Steps.from_rows(episode("t", "a", [0.0, 0.0, 1.0]) + episode("t", "b", [0.0]))
    assert grpo(steps, scale="none").values.tolist() == [0.5, 0.5, 0.5, -0.5]
    assert grpo(steps).values == pytest.approx(np.array([0.5, 0.5, 0.5, -0.5]) / (np.sqrt(0.5) + 1e-6), rel=1e-12)
    assert grpo(steps).values.tolist() == grpo(steps).parts["episode"].tolist()


def test_one_turn_each_the_unit_makes_no_difference():
    steps = outcomes([1.0, 0.0, 0.0, 0.5], ["t"] * 4)
    assert grpo(steps, unit="turn").values.tolist() == grpo(steps).values.tolist()


def test_rows_that_are_trajectories_keep_their_own_value_in_any_order():
    """As many trajectories as rows, whose numbers are not the row numbers: values must not be mixed up."""
    steps = Steps.from_rows(episode("u", "x", [3.0]) + episode("t", "y", [1.0]) + episode("u", "z", [5.0])
                            + episode("t", "w", [7.0]))  # fmt: skip
    assert grpo(steps, scale="none").values.tolist() == [-1.0, -3.0, 1.0, 3.0]


def test_a_long_loss_weighs_more_only_when_turns_are_counted():
    steps = Steps.from_rows(episode("t", "win", [10.0]) + episode("t", "loss", [0.0] * 9))
    assert grpo(steps, scale="none").values.tolist() == [5.0] + [-5.0] * 9
    assert grpo(steps, scale="none", unit="turn").values == pytest.approx([9.0] + [-1.0] * 9, rel=1e-12)


def test_a_group_of_one_gives_nothing_unless_asked():
    steps = Steps.from_rows(episode("t", "alone", [0.0, 4.0]))
    assert grpo(steps).values.tolist() == [0.0, 0.0]
    assert grpo(steps, singleton="raw", scale="none").values.tolist() == [4.0, 4.0]


def test_where_the_penalty_enters():
    rows = episode("t", "a", [0.0, 10.0]) + episode("t", "b", [0.0, 10.0])
    for row in rows:
        row["valid"] = not (row["trajectory"] == "a" and row["turn"] == 0)
    steps = Steps.from_rows(rows)
    none = {"scale": "none", "invalid_penalty": 0.1}
    assert grpo(steps, **none).values == pytest.approx([-0.05, -0.05, 0.05, 0.05], abs=1e-12)
    in_return = grpo(steps, penalty_in="return", unit="turn", **none).values
    assert in_return == pytest.approx([-0.075, 0.025, 0.025, 0.025], abs=1e-12)
    late = grpo(steps, penalty_in="advantage", invalid_penalty=0.1)
    assert late.values == pytest.approx([-0.1, 0.0, 0.0, 0.0], abs=1e-12)  # no spread rescales it
    assert late.parts["penalty"].tolist() == [-0.1, 0.0, 0.0, 0.0]
    assert not grpo(steps, invalid_penalty=0.0).values.any()
    assert grpo(steps).report["penalty"] == pytest.approx(0.1)
    assert grpo(steps).report["invalid_turns"] == 1.0


def test_scores_by_length():
    steps = Steps.from_rows(episode("t", "a", [0.0, 0.0, 6.0]) + episode("t", "b", [4.0]))
    assert grpo(steps, scale="none", normalize_by_length=True).values.tolist() == [-1.0, -1.0, -1.0, 1.0]


def test_the_report_counts_groups():
    steps = Steps.from_rows(
        episode("t", 0, [1.0]) + episode("t", 1, [1.0]) + episode("u", 0, [1.0]) + episode("v", 0, [0.0])
        + episode("v", 1, [1.0])
    )  # fmt: skip
    report = grpo(steps).report
    assert (report["groups"], report["groups_of_one"], report["groups_without_spread"]) == (3.0, 1.0, 1.0)


def test_every_row_is_kept_at_weight_one():
    result = grpo(outcomes([1.0, 0.0], ["t", "t"]))
    assert result.keep.tolist() == [True, True]
    assert result.weight.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scale": "sdt"}, r"scale must be one of 'std', 'none', 'mad', got 'sdt'"),
        ({"unit": "trajectories"}, "unit must be one of 'trajectory', 'turn'"),
        ({"singleton": 0}, "singleton must be one of .*got 0"),
        ({"ddof": 2}, "ddof must be an integer in .0, 1., got 2"),
        ({"ddof": 1.0}, "an integer"),
        ({"eps": -1e-6}, "eps must be a number >= 0"),
        ({"invalid_penalty": float("nan")}, "invalid_penalty"),
        ({"compat": "verl_agent"}, "compat must be 'verl-agent'"),
        ({"penalty_in": "rewards"}, "penalty_in must be one of 'reward'"),
        ({"normalize_by_length": 1}, "True or False"),
    ],
)
def test_options_are_checked_before_the_table(options, words):
    with pytest.raises(BadOption, match=words):
        grpo(Steps.empty(), **options)
