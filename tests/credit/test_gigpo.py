"""GiGPO: hand-computed tables, the plain loops, and what every option changes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import plain_credit
from toys.tables import episode, rows

from turncredit.credit import Steps, discounted_returns, dr_grpo, gigpo, grpo

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
    assert result.report["step_groups_without_spread"] == 0.0  # a group of one is not counted as one without spread
    equal = Steps.from_rows(episode("t", "a", [0.0], ["hall"]) + episode("t", "b", [0.0], ["hall"]))
    assert gigpo(equal).report["step_groups_without_spread"] == 1.0


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


SCALES = ["none", "std", "mad"]
UNITS = ["trajectory", "turn"]
MANY = settings(max_examples=60, deadline=None)


def values(method, table, **options):
    return method(Steps.from_rows(table), **options).values


@given(rows(), st.randoms(use_true_random=False))
@MANY
def test_returns_do_not_depend_on_the_order_either(table, random):
    order = list(range(len(table)))
    random.shuffle(order)
    shuffled = discounted_returns(Steps.from_rows([table[row] for row in order]))
    assert shuffled.tolist() == discounted_returns(Steps.from_rows(table))[order].tolist()


@given(rows(max_turns=1), st.sampled_from(SCALES), st.sampled_from([1.0, -3.5, 100.0]))
@MANY
def test_a_reward_for_every_turn_changes_nothing_where_all_have_one_turn(table, scale, shift):
    shifted = [{**row, "reward": row["reward"] + shift} for row in table]
    options = {"scale": scale, "eps": 1e-3}
    assert np.allclose(values(gigpo, shifted, **options), values(gigpo, table, **options), atol=1e-8)


@given(st.sampled_from(["none", "std"]), rows(), st.sampled_from([0.0, 0.1]))
@MANY
def test_the_episodes_of_a_task_balance(scale, table, penalty):
    """Each trajectory once, the episode terms of a task sum to zero; and so do, visit by visit, those of a state."""
    result = gigpo(Steps.from_rows(table), scale=scale, invalid_penalty=penalty)
    once: dict[Any, dict[Any, float]] = {}
    at_state: dict[Any, dict[Any, list[float]]] = {}
    for row, episode_value, step_value in zip(table, result.parts["episode"], result.parts["step"], strict=True):
        once.setdefault(row["task"], {})[row["trajectory"]] = episode_value
        visits = at_state.setdefault((row["task"], row["state"]), {})
        visits.setdefault(row["trajectory"], []).append(step_value)
    for members in once.values():
        assert sum(members.values()) == pytest.approx(0.0, abs=1e-9)
    for visitors in at_state.values():
        assert sum(float(np.mean(found)) for found in visitors.values()) == pytest.approx(0.0, abs=1e-9)


@given(rows(), st.sampled_from(["none", "std"]))
@MANY
def test_counting_turns_the_rows_balance(table, scale):
    result = gigpo(Steps.from_rows(table), scale=scale, unit="turn", invalid_penalty=0.1)
    for group in ("task", "state"):
        sums: dict[Any, float] = {}
        for row, value in zip(table, result.parts["episode" if group == "task" else "step"], strict=True):
            sums[row["task"], row[group]] = sums.get((row["task"], row[group]), 0.0) + value
        assert np.allclose(list(sums.values()), 0.0, atol=1e-9)


@given(rows(), st.sampled_from(SCALES), st.sampled_from(UNITS), st.sampled_from([0.0, 0.1]))
@MANY
def test_gigpo_without_its_step_term_is_grpo(table, scale, unit, penalty):
    options = {"scale": scale, "unit": unit, "invalid_penalty": penalty}
    assert values(gigpo, table, w=0.0, **options).tolist() == values(grpo, table, **options).tolist()


@given(rows(), st.sampled_from(SCALES), st.sampled_from([0.5, 2.0]))
@MANY
def test_the_parts_add_up(table, scale, w):
    result = gigpo(Steps.from_rows(table), scale=scale, w=w)
    assert result.values.tolist() == (result.parts["episode"] + w * result.parts["step"]).tolist()


@given(rows(), st.sampled_from(SCALES))
@MANY
def test_states_that_never_recur_give_no_step_term(table, scale):
    unique = [{**row, "state": number} for number, row in enumerate(table)]
    assert not gigpo(Steps.from_rows(unique), scale=scale).parts["step"].any()


@given(rows(), st.sampled_from(["none", "std"]))
@MANY
def test_with_gamma_zero_only_the_turns_own_reward_counts(table, scale):
    """A turn's step term then does not change when all the other turns of its own trajectory get other rewards."""
    first = [{**row, "reward": row["reward"] if row["turn"] == 0 else 0.5, "state": (row["turn"], row["state"])}
             for row in table]  # fmt: skip
    other = [{**row, "reward": row["reward"] if row["turn"] == 0 else -7.0} for row in first]
    start = np.array([row["turn"] == 0 for row in table])
    options = {"scale": scale, "gamma": 0.0}
    one, two = (gigpo(Steps.from_rows(t), **options).parts["step"][start] for t in (first, other))
    assert one.tolist() == two.tolist()


@given(st.integers(2, 9), st.integers(0, 49), st.sampled_from([10.0, 1.0, 0.3]), st.sampled_from(["none", "std"]))
@settings(max_examples=100, deadline=None)
def test_equal_winners_get_exactly_nothing(winners, delay, reward, scale):
    """However many, however late the reward: equal returns have no spread, not one of rounding size."""
    table = [row for k in range(winners) for row in episode("t", k, [0.0] * delay + [reward], list(range(delay + 1)))]
    assert not values(gigpo, table, scale=scale).any()


@given(rows(rewards=st.floats(-1e6, 1e6)), st.sampled_from(UNITS))
@MANY
def test_scaled_terms_are_bounded_by_the_number_of_rows(table, unit):
    """|z| <= sqrt(rows * members): no group, however odd, can blow a turn up."""
    result = gigpo(Steps.from_rows(table), unit=unit)
    for term in result.parts.values():
        assert np.abs(term).max() <= len(table) + 1e-6


@given(rows())
@settings(max_examples=60, deadline=None)
def test_rules_charge_an_invalid_action_alike_unasked(table):
    steps = Steps.from_rows(table)
    assert gigpo(steps, w=0.0).values.tolist() == grpo(steps).values.tolist()
    assert grpo(steps, scale="none").values.tolist() == dr_grpo(steps).values.tolist()
