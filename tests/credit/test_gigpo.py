"""GiGPO: hand-computed tables, the plain loops, and what every option changes."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import plain_credit
from toys.tables import episode, rows

from turnwise.credit import BadOption, Steps, gigpo

CASES = json.loads((Path(__file__).parent / "outcome_cases.json").read_text())


@pytest.mark.parametrize("case", CASES["gigpo"], ids=lambda case: case["name"])
def test_published_figures(case):
    columns = {name: case[name] for name in ("task", "trajectory", "turn", "reward", "state")}
    result = gigpo(Steps.from_columns(**columns), **case["options"])
    assert result.values == pytest.approx(case["advantage"], rel=1e-6, abs=1e-7)
    assert result.parts["episode"] == pytest.approx(case["episode"], rel=1e-6, abs=1e-7)
    assert result.parts["step"] == pytest.approx(case["step"], rel=1e-6, abs=1e-7)


def test_by_hand():
    """Two ways from the hall: the win through the door is worth 0.5 there, the wall 0; mean 0.25."""
    steps = Steps.from_rows(episode("t", "a", [0.0, 1.0], ["hall", "door"]) + episode("t", "b", [0.0], ["hall"]))
    result = gigpo(steps, gamma=0.5, scale="none")
    assert result.parts["step"].tolist() == [0.25, 0.0, -0.25]
    assert result.parts["episode"].tolist() == [0.5, 0.5, -0.5]
    assert result.values.tolist() == [0.75, 0.5, -0.75]
    assert gigpo(steps, gamma=0.5, scale="none", w=2.0).values.tolist() == [1.0, 0.5, -1.0]
    scaled = gigpo(steps, gamma=0.5).parts["step"]
    assert scaled == pytest.approx(np.array([0.25, 0.0, -0.25]) / (np.sqrt(0.125) + 1e-6), rel=1e-12)
    assert result.report["step_signal"] == pytest.approx(2 / 3)
    assert (result.report["step_groups"], result.report["step_groups_of_one"]) == (2.0, 1.0)


def test_rewards_that_cancel_leave_no_noise_to_be_scaled_up():
    """0.1 + 0.2 - 0.3 is 5.6e-17 in binary. Beside a return of zero that is no spread, even without eps."""
    assert 0.1 + 0.2 - 0.3 != 0.0
    steps = Steps.from_rows(episode("t", "a", [0.1, 0.2, -0.3], "xyz") + episode("t", "b", [0.0], "x"))
    assert gigpo(steps, gamma=1.0, eps=0.0).values.tolist() == [0.0] * 4
    real = Steps.from_rows(episode("t", "a", [0.1, 0.2, -0.3 + 1e-9], "xyz") + episode("t", "b", [0.0], "x"))
    assert gigpo(real, gamma=1.0, eps=0.0).parts["step"] == pytest.approx([0.5**0.5, 0.0, 0.0, -(0.5**0.5)], rel=1e-6)


def test_a_state_of_another_task_is_another_state():
    steps = Steps.from_rows(episode("t", 0, [1.0], "s") + episode("u", 0, [0.0], "s"))
    assert gigpo(steps, scale="none").values.tolist() == [0.0, 0.0]


def test_visits_of_one_trajectory_share_its_one_vote():
    """In the room: a visits with returns 2 and 4, b with 9. Each counts once: mean (3 + 9) / 2 = 6, not 15 / 3 = 5."""
    table = episode("t", "a", [-2.0, 4.0], ["room", "room"]) + episode("t", "b", [9.0], ["room"])
    steps = Steps.from_rows(table)
    assert gigpo(steps, gamma=1.0, scale="none").parts["step"].tolist() == [-4.0, -2.0, 3.0]
    assert gigpo(steps, gamma=1.0, scale="none", step_unit="turn").parts["step"] == pytest.approx([-3.0, -1.0, 4.0])
    assert gigpo(steps, gamma=1.0, scale="none", step_unit="turn").parts["episode"].tolist() == [-3.5, -3.5, 3.5]


def test_the_penalty_is_paid_where_it_happened_and_felt_before():
    """a's second action was invalid: its return drops by 0.1 there, by 0.05 one turn earlier, and by nothing later."""
    table = [{**row, "valid": True} for row in
             episode("t", "a", [0.0, 0.0, 1.0], "xyz") + episode("t", "b", [0.0, 0.0, 1.0], "xyz")]  # fmt: skip
    table[1]["valid"] = False
    result = gigpo(Steps.from_rows(table), gamma=0.5, scale="none", invalid_penalty=0.1)
    assert result.parts["step"] == pytest.approx([-0.025, -0.05, 0.0, 0.025, 0.05, 0.0], abs=1e-12)
    assert result.parts["episode"] == pytest.approx([-0.05] * 3 + [0.05] * 3, abs=1e-12)
    late = gigpo(Steps.from_rows(table), gamma=0.5, invalid_penalty=0.1, penalty_in="advantage")
    assert late.values == pytest.approx([0.0, -0.1, 0.0, 0.0, 0.0, 0.0], abs=1e-12)
    assert result.report["invalid_turns"] == 1.0
    assert result.report["penalty"] == pytest.approx(0.1)


def test_without_the_column_nothing_is_invalid():
    steps = Steps.from_rows(episode("t", 0, [1.0], "s") + episode("t", 1, [1.0], "s"))
    assert gigpo(steps, invalid_penalty=5.0).values.tolist() == [0.0, 0.0]


@given(
    rows(),
    st.sampled_from([0.0, 0.9, 1.0]),
    st.sampled_from([0.0, 1.0, 0.5]),
    st.sampled_from(["none", "std"]),
    st.sampled_from(["trajectory", "turn"]),
    st.sampled_from([0, 1]),
    st.sampled_from([0.0, 0.1]),
)
@settings(max_examples=150, deadline=None)
def test_the_plain_loops_give_the_same(table, gamma, w, scale, unit, ddof, penalty):
    # A large eps: what is rounding noise to the one is noise of another size to the other, and must not be scaled up.
    options = {"gamma": gamma, "w": w, "scale": scale, "unit": unit, "ddof": ddof, "eps": 1e-3}
    ours = gigpo(Steps.from_rows(table), invalid_penalty=penalty, **options).values
    assert np.allclose(ours, plain_credit.gigpo(table, penalty=penalty, **options), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gamma": 1.5}, "gamma must be a number in .0, 1."),
        ({"w": -1.0}, "w must be a number >= 0"),
        ({"similarity": 1.5}, "similarity must be a number in .0, 1."),
        ({"similarity": 0.0}, "omit it"),
        ({"similarity": True}, "similarity"),
        ({"step_unit": "step"}, "step_unit must be one of .*got 'step'"),
        ({"scale": "mean_std_norm"}, "scale must be"),
    ],
)
def test_options_are_checked_before_the_table(options, words):
    with pytest.raises(BadOption, match=words):
        gigpo(Steps.empty(), **options)
