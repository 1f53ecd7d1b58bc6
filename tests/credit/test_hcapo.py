"""The rule hcapo: hand-computed tables, its limits, and what it has in common with grpo."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from toys.full_tables import random_rows, seeds

from turncredit.credit import BadOption, MissingColumn, Steps, grpo, hcapo
from turncredit.credit.numerics import discounted_returns

MANY = settings(max_examples=60, deadline=None)
HALF = -math.log(2.0)


def episode(name: str, rewards: list[float], hindsight: list[float], **columns: Any) -> list[dict[str, Any]]:
    return [
        {"task": "t", "trajectory": name, "turn": turn, "reward": reward, "hindsight": likely, **columns}
        for turn, (reward, likely) in enumerate(zip(rewards, hindsight, strict=True))
    ]


def table() -> Steps:
    """A won episode with P = 1, 1/2, 1 at temperature 1, whose mean is 5/6, and a lost one with P = 1, 1/4."""
    won = episode("won", [0.0, 0.0, 1.0], [0.0, HALF, 0.0])
    return Steps.from_rows([*won, *episode("lost", [0.0, 0.0], [0.0, 2.0 * HALF])])


def test_hcapo_by_hand():
    """rho = 6/5, 3/5, 6/5 of the won episode. With gamma 1/2 its returns are 1/4, 1/2, 1, so Q = 3/10, 3/10, 6/5, whose
    mean is 3/5; Q of the lost one is 0. Each is one vote, so the mean of the task is 3/10. Grpo adds 1/2 and -1/2."""
    advantages = hcapo(table(), gamma=0.5, temperature=1.0, clip=1.0, scale="none")
    assert advantages.parts["episode"].tolist() == [0.5, 0.5, 0.5, -0.5, -0.5]
    assert advantages.parts["step"] == pytest.approx([0.0, 0.0, 0.9, -0.3, -0.3], abs=1e-12)
    assert advantages.values == pytest.approx([0.5, 0.5, 1.4, -0.8, -0.8])
    by_turn = hcapo(table(), gamma=0.5, temperature=1.0, clip=1.0, scale="none", unit="turn", protect=False)
    mean = (0.3 + 0.3 + 1.2) / 5
    assert by_turn.parts["step"] == pytest.approx([0.3 - mean, 0.3 - mean, 1.2 - mean, -mean, -mean])


def test_hcapo_divides_by_the_deviation_of_all_turns_of_the_task():
    """Q = 3/10, 3/10, 6/5 (a third of a vote each) and 0, 0 (a half each) around 3/10; two votes less one."""
    spread = math.sqrt((0.9**2 / 3 + 0.3**2) / (2 - 1))
    step = hcapo(table(), gamma=0.5, temperature=1.0, clip=1.0, eps=0.0).parts["step"]
    assert step == pytest.approx([0.0, 0.0, 0.9 / spread, -0.3 / spread, -0.3 / spread], abs=1e-12)


def test_hcapo_clips_the_ratio():
    """6/5, 3/5, 6/5 and 8/5, 2/5 become 1.1, 0.9, 1.1 and 1.1, 0.9; the sum of the first three is no 3 any more."""
    advantages = hcapo(table(), gamma=1.0, temperature=1.0, clip=0.1, scale="none", protect=False)
    mean = (1.1 + 0.9 + 1.1) / 3 / 2
    assert advantages.parts["step"] == pytest.approx([1.1 - mean, 0.9 - mean, 1.1 - mean, -mean, -mean])
    assert advantages.report["hindsight_clipped"] == 1.0
    assert advantages.report["hindsight"] == pytest.approx(0.1)


def test_hcapo_mixes_a_turn_with_the_next_one():
    """Q = 3/10, 3/10, 6/5 becomes 3/10, 3/4, 6/5 with half of the next turn's."""
    advantages = hcapo(table(), gamma=0.5, temperature=1.0, clip=1.0, scale="none", smoothing=0.5, protect=False)
    mean = (0.3 + 0.75 + 1.2) / 3 / 2
    assert advantages.parts["step"] == pytest.approx([0.3 - mean, 0.75 - mean, 1.2 - mean, -mean, -mean])


def test_hcapo_protects_the_turns_of_successful_episodes_alone():
    """Discounting makes the first turn of the longer one worth less than the mean of the task."""
    rows = [*episode("long", [0.0] * 4 + [1.0], [0.0] * 5), *episode("short", [1.0], [0.0])]
    rows += episode("lost", [0.0], [0.0])
    bare = hcapo(Steps.from_rows(rows), gamma=0.5, scale="none", protect=False).parts["step"]
    assert bare[0] < 0.0
    assert bare[-1] < 0.0
    advantages = hcapo(Steps.from_rows(rows), gamma=0.5, scale="none")
    assert advantages.parts["step"].tolist() == [*np.maximum(bare[:-1], 0.0), bare[-1]]
    assert advantages.report["hindsight_protected"] == pytest.approx(float((bare[:-1] < 0.0).sum()) / 7)
    everything = hcapo(Steps.from_rows(rows), gamma=0.5, scale="none", threshold=1.0)
    assert everything.parts["step"].tolist() == bare.tolist()  # no score is higher than 1


def test_the_penalty_of_an_invalid_action_lowers_outcome_and_returns():
    rows = [*episode("a", [0.0, 1.0], [0.0, 0.0], valid=False), *episode("b", [0.0], [0.0], valid=True)]
    step = hcapo(Steps.from_rows(rows), gamma=1.0, scale="none", invalid_penalty=0.25, protect=False).parts["step"]
    assert step == pytest.approx([0.5 - 0.3125, 0.75 - 0.3125, -0.3125])


@given(seed=seeds)
@MANY
def test_a_policy_that_hindsight_does_not_move_gives_grpo_and_discounted_returns(seed):
    """With one probability everywhere, or a temperature that levels them, rho is 1."""
    rows = random_rows(seed)
    rows += [{**rows[0], "task": task, "trajectory": 9} for task in dict.fromkeys(row["task"] for row in rows)]
    level = Steps.from_rows([{**row, "hindsight": -0.75} for row in rows])
    advantages = hcapo(level, scale="none", protect=False, invalid_penalty=0.0)
    assert advantages.report["hindsight"] == 0.0
    assert advantages.parts["episode"].tolist() == grpo(level, scale="none", invalid_penalty=0.0).values.tolist()
    returns = discounted_returns(level, 0.95)
    for row, other in zip(range(len(level)), range(1, len(level)), strict=False):
        if level.task[row] == level.task[other]:
            difference = advantages.parts["step"][row] - advantages.parts["step"][other]
            assert difference == pytest.approx(returns[row] - returns[other], abs=1e-9)
    hot = hcapo(Steps.from_rows(rows), scale="none", temperature=1e12, protect=False, invalid_penalty=0.0)
    assert hot.values == pytest.approx(advantages.values, abs=1e-8)


@given(seed=seeds)
@MANY
def test_without_its_second_term_hcapo_is_grpo(seed):
    steps = Steps.from_rows(random_rows(seed))
    assert hcapo(steps, w=0.0).values.tolist() == grpo(steps).values.tolist()


@given(seed=seeds)
@MANY
def test_only_differences_of_log_probabilities_within_an_episode_matter(seed):
    """What makes all answers of an episode less likely, such as a prompt of another form, cancels."""
    rows = random_rows(seed)
    moved = [{**row, "hindsight": row["hindsight"] - 8.0 * (1 + row["trajectory"])} for row in rows]
    plain, shifted = (hcapo(Steps.from_rows(part)) for part in (rows, moved))
    assert shifted.values == pytest.approx(plain.values, abs=1e-9)


def test_log_probabilities_far_below_zero_are_finite():
    advantages = hcapo(Steps.from_rows(episode("a", [0.0, 1.0], [-1e6, -2e6]) + episode("b", [0.0], [-1e9])))
    assert np.isfinite(advantages.values).all()


def test_a_ratio_is_one_on_average_before_it_is_clipped():
    rows = [*episode("a", [0.0, 0.0, 1.0], [-1.0, -0.25, -4.0]), *episode("b", [0.0], [-1.0])]
    step = hcapo(Steps.from_rows(rows), gamma=1.0, temperature=2.0, clip=1.0, scale="none", protect=False).parts["step"]
    assert step[:3].mean() == pytest.approx(1.0 - 0.5)


@pytest.mark.parametrize(
    "options", [{"temperature": 0.0}, {"clip": 1.5}, {"smoothing": -0.5}, {"w": -1.0}, {"threshold": float("nan")}]
)
def test_options_that_make_no_sense(options: dict[str, Any]):
    with pytest.raises(BadOption, match=next(iter(options))):
        hcapo(table(), **options)


def test_hcapo_needs_hindsight():
    with pytest.raises(MissingColumn, match=r"^hcapo needs the column 'hindsight' \(`logprob` under a prompt"):
        hcapo(Steps.from_rows([{"task": "t", "trajectory": "a", "turn": 0, "reward": 1.0}]))
