"""Rank correlations by hand, and what the intervals must obey."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turncredit.agents.errors import EvaluationError
from turncredit.evaluation.rank_correlation import RankCorrelation, ranks


def test_equal_values_share_their_ranks():
    assert ranks(np.array([[3.0, 1.0, 3.0, 2.0], [7.0, 7.0, 7.0, 7.0]])).tolist() == [[3.5, 1, 3.5, 2], [2.5] * 4]


def test_by_hand():
    """Ranks 1 2 3 4 5 against 2 1 4 3 5: 1 - 6 * 4 / (5 * 24); with a tie, Pearson's correlation of the ranks."""
    pairs = [(1.0, 20.0), (2.0, 10.0), (3.0, 40.0), (4.0, 30.0), (5.0, 50.0)]
    assert RankCorrelation.of([pairs]).value == pytest.approx(0.8)
    assert RankCorrelation.of([pairs[:2], pairs[2:]]).value == pytest.approx(0.8)  # strata only matter for the interval
    # ranks 1 2 3 4 5 against 1.5 1.5 3 4 5: products of deviations 3 + 1.5 + 0 + 1 + 4, spreads 10 and 9.5
    tied = [(1.0, 0.0), (2.0, 0.0), (3.0, 1.0), (4.0, 2.0), (5.0, 3.0)]
    assert RankCorrelation.of([tied]).value == pytest.approx(9.5 / 95**0.5)


def test_a_perfect_order_is_perfect_in_every_resample_and_so_without_an_interval():
    found = RankCorrelation.of([[(k, 2.0**k) for k in range(8)]])
    assert (found.value, found.low, found.high) == (1.0, None, None)


def test_few_runs_and_equal_values_have_none():
    assert RankCorrelation.of([[(1, 1), (2, 2)], [(3, 3), (4, 4)], []]) == RankCorrelation(None, None, None, 4)
    assert RankCorrelation.of([[(1.0, float(k)) for k in range(6)]]) == RankCorrelation(None, None, None, 6)


def test_a_stratum_keeps_its_number_of_runs():
    """Between the strata the order is perfect, within them there is none, so every resample has this much order."""
    low, high = [(0.0, float(k)) for k in range(5)], [(1.0, 10.0 + k) for k in range(5)]
    found = RankCorrelation.of([low, high])
    assert found.value is not None
    assert found.low is not None
    assert found.low > 0.8
    mixed = RankCorrelation.of([[*low, *high]])
    assert mixed.value == found.value
    assert mixed.low is not None
    assert mixed.low < found.low


def test_what_has_no_rank_is_refused():
    with pytest.raises(EvaluationError, match="finite"):
        RankCorrelation.of([[(1.0, float("nan"))] * 5])


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=5, max_size=12), st.randoms())
def test_order_and_scale_do_not_matter(pairs, random):
    found = RankCorrelation.of([pairs]).value
    shuffled = [(3.0 * x + 1.0, y**3) for x, y in random.sample(pairs, len(pairs))]
    again = RankCorrelation.of([shuffled]).value
    assert (found is None) == (again is None)
    if found is not None:
        assert again == pytest.approx(found)
        assert RankCorrelation.of([[(y, x) for x, y in pairs]]).value == pytest.approx(found)
