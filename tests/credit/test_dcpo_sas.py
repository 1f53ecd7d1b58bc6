"""DCPO's smoothed advantages: by hand, what is remembered, and that nothing else is."""

import math

import numpy as np
import pytest

from turncredit.credit import BadOption, BadTable, Steps, dcpo_sas, get, grpo, rules

SQRT2 = math.sqrt(2.0)


def outcomes(rewards, tasks, **columns):
    count = len(rewards)
    return Steps.from_columns(task=tasks, trajectory=range(count), turn=[0] * count, reward=rewards, **columns)


def test_the_first_visit_is_grpo():
    table = outcomes([1.0, 0.0, 0.0, 2.0, 1.0, 1.0], ["p", "p", "p", "q", "r", "r"])
    result = dcpo_sas(table)
    np.testing.assert_allclose(result.values, grpo(table).values, rtol=1e-12)
    assert result.values[3:].tolist() == [0.0, 0.0, 0.0]  # a group of one, a group without spread
    assert result.state["q"] == (1, 2.0, 0.0)
    assert result.state["r"] == (1, 1.0, 0.0)
    assert result.report == {"tasks": 3.0, "tasks_unseen": 3.0}


def test_the_third_visit_by_hand():
    """Visits of means 0, 1/2 and 1/2, the last of [1, 0]: m = 1/2, s^2 = 1/2.

    Before: two visits, M = 1/4, S^2 = 1/8 (say). After: M = (2/4 + 1/2) / 3 = 1/3 and
    S^2 = (2/8 + 1/2 + 2/3 (1/4)^2) / 3 = (1/4 + 1/2 + 1/24) / 3 = 19/72.
    new = +-(1/2) / sqrt(1/2) = +-1/sqrt 2, total = (1 - 1/3) / S and (0 - 1/3) / S.
    """
    result = dcpo_sas(outcomes([1.0, 0.0], ["t", "t"]), eps=0.0, state={"t": (2, 0.25, math.sqrt(1 / 8))})
    spread = math.sqrt(19 / 72)
    new, total = np.array([1, -1]) / SQRT2, np.array([2, -1]) / 3 / spread
    np.testing.assert_allclose(result.parts["new"], new, rtol=1e-12)
    np.testing.assert_allclose(result.parts["total"], total, rtol=1e-12)
    one, other = (2 * new + total) / 3, (new + 2 * total) / 3
    assert (np.abs(one) < np.abs(other)).tolist() == [True, False]
    np.testing.assert_allclose(result.values, [one[0], other[1]], rtol=1e-12)
    assert result.state["t"] == pytest.approx((3, 1 / 3, spread))


def test_the_running_mean_and_deviation_are_those_of_all_groups():
    """With groups of equal size and ddof 0 the memory is mean and deviation of everything that was seen."""
    rng = np.random.default_rng(0)
    seen, state = [], None
    for _ in range(6):
        rewards = rng.normal(size=4)
        seen.extend(rewards)
        state = dcpo_sas(outcomes(rewards, ["t"] * 4), ddof=0, state=state).state
    assert state["t"] == (6, pytest.approx(np.mean(seen)), pytest.approx(np.std(seen)))


def test_a_group_without_spread_learns_from_earlier_visits_and_a_task_only_from_its_own():
    first = dcpo_sas(outcomes([1.0, 0.0, 0.0, 0.0], ["t", "t", "u", "u"]))
    kept = dict(first.state)
    second = dcpo_sas(outcomes([1.0, 1.0, 1.0, 1.0, 0.0], ["t", "t", "u", "u", "v"]), state=first.state)
    assert (second.values[:4] > 0).all()
    assert second.values[4] == 0.0
    assert second.report["tasks_unseen"] == 1.0
    assert first.state == kept  # what was given is not touched
    alone = dcpo_sas(outcomes([1.0, 1.0], ["t", "t"]), state={"t": kept["t"]})
    assert alone.values.tolist() == second.values[:2].tolist()
    assert dcpo_sas(outcomes([0.0], ["z"]), state=second.state).state.keys() == {"t", "u", "v", "z"}


def test_equal_rewards_at_every_visit_stay_at_zero():
    state = None
    for _ in range(50):
        result = dcpo_sas(outcomes([0.1, 0.1, 0.1], ["t"] * 3), state=state)
        state = result.state
        assert result.values.tolist() == [0.0, 0.0, 0.0]
    assert state["t"][1:] == (pytest.approx(0.1), 0.0)


def test_order_of_rows_and_copies():
    rng = np.random.default_rng(1)
    rewards, tasks = rng.normal(size=12), rng.integers(0, 3, 12)
    state = dcpo_sas(outcomes(rng.normal(size=6), [0, 0, 1, 1, 2, 2])).state
    plain = dcpo_sas(outcomes(rewards, tasks), state=state)
    order = rng.permutation(12)
    turned = dcpo_sas(
        Steps.from_columns(task=tasks[order], trajectory=order, turn=[0] * 12, reward=rewards[order]), state=state
    )
    assert turned.values.tolist() == plain.values[order].tolist()
    assert turned.state == plain.state
    copied = dcpo_sas(
        Steps.from_columns(
            task=[*tasks, tasks[0]],
            trajectory=[*range(12), 0],
            turn=[0] * 13,
            reward=[*rewards, rewards[0]],
            duplicate_of_row=[-1] * 12 + [0],
        ),
        state=state,
    )
    assert copied.values.tolist() == [*plain.values, plain.values[0]]
    assert copied.state == plain.state


def test_large_rewards_stay_finite():
    state = dcpo_sas(outcomes([1e6, -1e6, 0.0], ["t"] * 3)).state
    assert np.isfinite(dcpo_sas(outcomes([1e6, 1e6], ["t"] * 2), state=state).values).all()


def test_an_empty_table_keeps_the_memory():
    result = dcpo_sas(Steps.empty(), state={"t": (1, 0.0, 0.5)})
    assert (len(result), result.state) == (0, {"t": (1, 0.0, 0.5)})
    assert rules()["dcpo_sas"].remembers


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ddof": 2}, "ddof"),
        ({"eps": -1.0}, "eps"),
        ({"state": [1]}, "state must be the dict"),
        ({"state": {"t": (1, 0.0)}}, r"state\['t'\] must be .visits, mean, deviation"),
        ({"state": {"t": (1, float("nan"), 0.0)}}, "visits"),
        ({"state": {"t": (0, 0.0, 0.0)}}, "visits"),
        ({"state": {"t": (1, 0.0, -1.0)}}, "deviation"),
    ],
)
def test_what_cannot_be_is_named(options, message):
    with pytest.raises(BadOption, match=message):
        dcpo_sas(outcomes([1.0], ["t"]), **options)
    with pytest.raises(BadOption, match="no option 'epss'"):
        get("dcpo_sas", epss=1.0)


def test_ids_that_cannot_be_remembered():
    with pytest.raises(BadTable, match="two are equal"):
        dcpo_sas(outcomes([1.0, 0.0], [1, True]))
