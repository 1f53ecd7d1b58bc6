"""Laws that hold for every table, tried on random ones."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys.tables import episode, rows

from turnwise.credit import Steps, discounted_returns, dr_grpo, get, gigpo, grpo

NAMES = ["grpo", "gigpo"]
SCALES = ["none", "std", "mad"]
UNITS = ["trajectory", "turn"]
MANY = settings(max_examples=60, deadline=None)
estimator = st.builds(
    lambda name, scale, unit: get(name, scale=scale, unit=unit),
    st.sampled_from(NAMES), st.sampled_from(SCALES), st.sampled_from(UNITS),
)  # fmt: skip


def values(method: Any, table: list[dict[str, Any]], **options: Any) -> np.ndarray:
    return method(Steps.from_rows(table), **options).values


@given(estimator, rows(), st.randoms(use_true_random=False))
@MANY
def test_the_order_of_rows_means_nothing_to_the_last_bit(method, table, random):
    order = list(range(len(table)))
    random.shuffle(order)
    assert values(method, [table[row] for row in order]).tolist() == values(method, table)[order].tolist()


@given(rows(), st.randoms(use_true_random=False))
@MANY
def test_returns_do_not_depend_on_the_order_either(table, random):
    order = list(range(len(table)))
    random.shuffle(order)
    shuffled = discounted_returns(Steps.from_rows([table[row] for row in order]))
    assert shuffled.tolist() == discounted_returns(Steps.from_rows(table))[order].tolist()


@given(estimator, rows())
@MANY
def test_ids_are_only_names(method, table):
    renamed = [
        {**row, "task": ("new", row["task"]), "trajectory": f"{row['trajectory']}!", "state": {"key": row["state"]}}
        for row in table
    ]
    assert values(method, renamed).tolist() == values(method, table).tolist()


@given(estimator, rows(max_tasks=2), rows(max_tasks=2))
@MANY
def test_a_group_does_not_see_the_others(method, one, two):
    others = [{**row, "task": "other " + row["task"]} for row in two]
    assert values(method, one + others)[: len(one)].tolist() == values(method, one).tolist()


@given(estimator, rows())
@MANY
def test_turn_numbers_only_say_the_order(method, table):
    assert (
        values(method, [{**row, "turn": 3 * row["turn"] - 7} for row in table]).tolist()
        == values(method, table).tolist()
    )


@given(st.sampled_from(SCALES), st.sampled_from(UNITS), rows(), st.sampled_from([1.0, -3.5, 100.0]))
@MANY
def test_a_reward_for_all_at_the_end_changes_no_outcome(scale, unit, table, shift):
    """Every episode of a group gets the same more: none of them did better for it."""
    last = {}
    for row in table:
        key = row["task"], row["trajectory"]
        last[key] = max(last.get(key, 0), row["turn"])
    shifted = [
        {**row, "reward": row["reward"] + shift * (row["turn"] == last[row["task"], row["trajectory"]])}
        for row in table
    ]
    options = {"scale": scale, "unit": unit, "eps": 1e-3}
    assert np.allclose(values(grpo, shifted, **options), values(grpo, table, **options), atol=1e-8)


@given(rows(max_turns=1), st.sampled_from(SCALES), st.sampled_from([1.0, -3.5, 100.0]))
@MANY
def test_a_reward_for_every_turn_changes_nothing_where_all_have_one_turn(table, scale, shift):
    shifted = [{**row, "reward": row["reward"] + shift} for row in table]
    options = {"scale": scale, "eps": 1e-3}
    assert np.allclose(values(gigpo, shifted, **options), values(gigpo, table, **options), atol=1e-8)


@given(estimator, rows(), st.sampled_from([0.01, 3.0, 1e4]))
@MANY
def test_the_unit_of_reward_cancels_or_passes_through(method, table, factor):
    scaled = [{**row, "reward": factor * row["reward"]} for row in table]
    options = {"eps": 0.0, "invalid_penalty": 0.0}
    mean_only = method.options["scale"] == "none"
    expected = values(method, table, **options) * (factor if mean_only else 1.0)
    assert np.allclose(values(method, scaled, **options), expected, rtol=1e-6, atol=1e-9 * factor)


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


@given(rows(max_group=1), st.sampled_from(NAMES), st.sampled_from(SCALES))
@MANY
def test_one_episode_per_task_teaches_nothing(table, name, scale):
    assert not values(get(name, scale=scale), table).any()


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


@given(rows(rewards=st.floats(-1e6, 1e6)), estimator)
@MANY
def test_any_finite_rewards_give_finite_bounded_advantages(table, method):
    result = values(method, table)
    assert np.isfinite(result).all()


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
