"""Returns, keys, weights, centring and scaling against hand-computed tables and plain loops."""

import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import plain_credit
from toys.tables import episode, rows

from turncredit.credit import BadOption, Steps, discounted_returns
from turncredit.credit.numerics import Groups, compact, standardise, trajectory_scores, unit_weights


def groups(values, key, weight=None):
    return Groups(np.asarray(values, dtype=np.float64), compact(np.asarray(key)), weight)


def test_returns_by_hand():
    steps = Steps.from_rows(episode("t", 0, [1.0, 0.0, 2.0, 4.0]) + episode("t", 1, [0.0, 3.0]))
    assert discounted_returns(steps, 0.5).tolist() == [2.0, 2.0, 4.0, 4.0, 1.5, 3.0]
    assert discounted_returns(steps, 0.0).tolist() == steps.reward.tolist()
    assert discounted_returns(steps, 1.0).tolist() == [7.0, 6.0, 6.0, 4.0, 3.0, 3.0]


@given(rows(max_turns=9), st.sampled_from([0.0, 0.5, 0.95, 1.0]))
@settings(max_examples=60, deadline=None)
def test_returns_equal_the_plain_loop(table, gamma):
    assert np.allclose(
        discounted_returns(Steps.from_rows(table), gamma), plain_credit.returns(table, gamma), rtol=1e-12
    )


def test_a_gap_in_the_turns_is_no_extra_discount():
    steps = Steps.from_columns(task=[0, 0], trajectory=[0, 0], turn=[0, 7], reward=[0.0, 1.0])
    assert discounted_returns(steps, 0.5).tolist() == [0.5, 1.0]


def test_a_very_long_episode_is_summed_without_recursion():
    count = 100_000
    steps = Steps.from_columns(task=[0] * count, trajectory=[0] * count, turn=np.arange(count), reward=np.ones(count))
    assert discounted_returns(steps, 1.0)[0] == count
    assert discounted_returns(steps, 0.9)[0] == pytest.approx(10.0, rel=1e-12)


@pytest.mark.parametrize("gamma", [-0.1, 1.1, float("nan"), "0.9", True, None])
def test_an_impossible_discount_is_refused(gamma):
    with pytest.raises(BadOption, match=r"gamma must be a number in \[0, 1\], got"):
        discounted_returns(Steps.empty(), gamma)


def test_scores_belong_to_trajectories_whatever_the_order():
    steps = Steps.from_rows((episode("u", "x", [1.0, 2.0]) + episode("t", "y", [5.0]))[::-1])
    scores, tasks, member = trajectory_scores(steps)
    assert scores[member].tolist() == [5.0, 3.0, 3.0]
    assert [steps.names["task"][code] for code in tasks[member]] == ["t", "u", "u"]


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0, 1, 10**15])), min_size=1, max_size=30))
@settings(max_examples=60, deadline=None)
def test_compact_is_equal_exactly_where_the_columns_are(pairs):
    key = compact(*(np.asarray(column, dtype=np.int64) for column in zip(*pairs, strict=True)))
    assert sorted(set(key.tolist())) == list(range(len(set(pairs))))
    assert len(set(zip(key.tolist(), pairs, strict=True))) == len(set(pairs))


def test_a_trajectory_counts_once_in_each_group():
    key, trajectory = np.array([0, 0, 0, 1, 1]), np.array([0, 0, 1, 0, 0])
    assert unit_weights(key, trajectory, "trajectory").tolist() == [0.5, 0.5, 1.0, 0.5, 0.5]
    assert unit_weights(key, trajectory, "turn") is None
    assert unit_weights(key, np.arange(5), "trajectory") is None  # nothing to split


def test_scales_by_hand():
    one = groups([0.0, 2.0, 4.0, 10.0], [0, 0, 0, 0])
    assert standardise(one, scale="none").tolist() == [-4.0, -2.0, 0.0, 6.0]
    spread = statistics.stdev([0.0, 2.0, 4.0, 10.0])
    assert standardise(one, eps=0.0) == pytest.approx(np.array([-4.0, -2.0, 0.0, 6.0]) / spread, rel=1e-12)
    spread = statistics.pstdev([0.0, 2.0, 4.0, 10.0])
    assert standardise(one, eps=0.0, ddof=0) == pytest.approx(np.array([-4.0, -2.0, 0.0, 6.0]) / spread, rel=1e-12)
    # lower median 2, distances 2, 0, 2, 8: lower median of these 2
    assert standardise(one, scale="mad", eps=0.0).tolist() == [-1.0, 0.0, 1.0, 4.0]


def test_weights_by_hand():
    """A trajectory with returns 0 and 4 beside one with 8: mean (2 + 8) / 2 = 5, squares (25/2 + 1/2 + 9) / (2 - 1)."""
    pair = groups([0.0, 4.0, 8.0], [0, 0, 0], np.array([0.5, 0.5, 1.0]))
    assert pair.size.tolist() == [2.0]
    assert standardise(pair, scale="none").tolist() == [-5.0, -1.0, 3.0]
    assert standardise(pair, eps=0.0) == pytest.approx(np.array([-5.0, -1.0, 3.0]) / np.sqrt(22.0), rel=1e-12)


def test_a_lone_winner_is_not_blown_up_by_a_zero_mad():
    lone = standardise(groups([0.0, 0.0, 0.0, 1.0], [0] * 4), scale="mad", eps=0.0)
    assert lone.tolist() == pytest.approx([0.0, 0.0, 0.0, np.sqrt(3.0)], rel=1e-12)  # sqrt(1 / 3) around the median


@pytest.mark.parametrize("scale", ["none", "std", "mad"])
def test_a_spread_below_rounding_is_no_spread(scale):
    """0.1 + 0.2 is not 0.3 in binary; its standard deviation must not be scaled up to a full-sized advantage."""
    noisy = [0.1 + 0.2, 0.3, 0.3, 0.3]
    assert len(set(noisy)) == 2
    assert standardise(groups(noisy, [0] * 4), scale=scale, eps=0.0).tolist() == [0.0] * 4
    real = standardise(groups([0.3 + 1e-9, 0.3, 0.3, 0.3], [0] * 4), scale=scale, eps=0.0)
    assert real[0] > 0.0


@pytest.mark.parametrize("scale", ["none", "std", "mad"])
def test_groups_of_one(scale):
    one = groups([7.0, 1.0, 2.0], [0, 1, 1])
    assert standardise(one, scale=scale)[0] == 0.0
    raw = standardise(one, scale=scale, singleton="raw")
    assert raw[0] == (7.0 if scale == "none" else 7.0 / (1.0 + 1e-6))
    assert raw[1] < 0.0 < raw[2] or scale == "mad"


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from([0.0, 1.0, 0.3, -2.5, 1e6]), st.sampled_from([1.0, 0.5, 0.25])),
        min_size=1,
        max_size=40,
    )
)
@settings(max_examples=80, deadline=None)
def test_the_weighted_median_is_the_smallest_value_that_holds_half(found):
    key, values, weights = (np.asarray(column) for column in zip(*found, strict=True))
    key = compact(key)
    grouped = Groups(values, key, weights)
    centred = grouped.centred("median")
    for group in range(key.max() + 1):
        inside = key == group
        order = np.argsort(values[inside])
        sorted_values, cumulative = values[inside][order], np.cumsum(weights[inside][order])
        median = sorted_values[cumulative >= 0.5 * cumulative[-1] - 1e-9][0]
        assert np.allclose(centred[inside], values[inside] - median, rtol=1e-12, atol=1e-9)


def test_what_is_at_the_centre_but_for_rounding_is_there():
    """0.6 less the mean of 1.1, 0.1 and 0.6 is 1e-16 in floating point, and nothing in truth; 1e-9 is something."""
    groups = Groups(np.array([1.1, 0.1, 0.6000000000000001, 5.0, 1.0, 3.0 + 3e-9]), np.array([0, 0, 0, 1, 1, 1]))
    assert groups.centred()[2] == 0.0
    assert groups.centred()[5] == pytest.approx(2e-9)
    assert standardise(groups)[2] == 0.0


def test_huge_and_tiny_values_do_not_overflow():
    values = np.array([1e100, -1e100, 0.0])
    assert np.isfinite(standardise(groups(values, [0, 0, 0]), eps=0.0)).all()
    assert standardise(groups([5e-324, 0.0], [0, 0]), eps=0.0) == pytest.approx([0.0, 0.0], abs=1.5)
