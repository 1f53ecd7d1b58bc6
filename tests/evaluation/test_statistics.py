"""Statistics against values by hand, by brute force, and against scipy where it is installed."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turncredit.agents.errors import EvaluationError
from turncredit.evaluation.statistics import EXACT_PAIRS, mcnemar_exact, paired_permutation, wilson


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [
        # solved by hand from (p - q)^2 = z^2 q (1 - q) / n, z = 1.959964
        (0, 10, 0.0, 0.27754),
        (8, 10, 0.49016, 0.94332),
        (10, 10, 0.72246, 1.0),
        (50, 100, 0.40383, 0.59617),
        (0, 0, 0.0, 1.0),
    ],
)
def test_wilson_by_hand(k: int, n: int, low: float, high: float) -> None:
    assert wilson(k, n) == pytest.approx((low, high), abs=1e-5)


@given(st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.01, 0.999))
def test_wilson_ends_solve_its_equation(case: tuple[int, int], confidence: float) -> None:
    k, n = case
    from statistics import NormalDist

    z = NormalDist().inv_cdf((1 + confidence) / 2)
    low, high = wilson(k, n, confidence)
    assert 0 <= low <= k / n <= high <= 1
    for end in (low, high):
        assert (k / n - end) ** 2 == pytest.approx(z * z * end * (1 - end) / n, abs=1e-9)
    assert wilson(n - k, n, confidence) == pytest.approx((1 - high, 1 - low), abs=1e-9)


@pytest.mark.parametrize(("k", "n", "c"), [(-1, 3, 0.9), (4, 3, 0.9), (1, 3, 1.0), (1, 3, 0.0)])
def test_wilson_refuses_what_is_no_rate(k: int, n: int, c: float) -> None:
    with pytest.raises(EvaluationError):
        wilson(k, n, c)


def test_mcnemar_by_hand() -> None:
    assert mcnemar_exact(0, 0) == 1.0
    assert mcnemar_exact(1, 7) == 2 * (1 + 8) / 256
    assert mcnemar_exact(0, 5) == 2 / 32
    assert mcnemar_exact(3, 3) == 1.0


@given(st.integers(0, 8), st.integers(0, 8))
def test_mcnemar_by_brute_force(b: int, c: int) -> None:
    n = b + c
    # every way in which n fair coins fall: as extreme as what was seen, on either side
    extreme = sum(abs(2 * sum(coins) - n) >= abs(b - c) for coins in itertools.product((0, 1), repeat=n))
    assert mcnemar_exact(b, c) == float(Fraction(extreme, 2**n))


def test_mcnemar_of_many_pairs_is_finite_and_symmetric() -> None:
    assert mcnemar_exact(4000, 4200) == mcnemar_exact(4200, 4000)
    assert 0.02 < mcnemar_exact(4000, 4200) < 0.04  # normal approximation: z = 199/sqrt(8200) = 2.198, p = 0.028
    with pytest.raises(EvaluationError):
        mcnemar_exact(-1, 2)


def brute(x: list[float], y: list[float]) -> float:
    d = [Fraction(b) - Fraction(a) for a, b in zip(x, y, strict=True)]
    signs = list(itertools.product((1, -1), repeat=len(d)))
    return sum(abs(sum(s * v for s, v in zip(row, d, strict=True))) >= abs(sum(d)) for row in signs) / len(signs)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=8))
def test_permutation_by_brute_force(pairs: list[tuple[int, int]]) -> None:
    x, y = [a / 8 for a, _ in pairs], [b / 8 for _, b in pairs]
    assert paired_permutation(x, y) == pytest.approx(brute(x, y), abs=1e-12)


def test_permutation_with_scores_that_round() -> None:
    x, y = [0.1, 0.2, 0.3, 0.0], [0.4, 0.3, 0.1, 0.7]
    assert paired_permutation(x, y) == paired_permutation(y, x)
    assert paired_permutation([0.1] * 6, [0.3, 0.2, 0.1, 0.4, 0.7, 0.1]) == 2 / 16


def test_permutation_of_many_pairs_is_near_the_normal_value_and_repeats() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=400)
    y = x + rng.normal(0.1, 1.0, size=400)
    d = y - x
    z = d.sum() / math.sqrt((d * d).sum())
    expected = math.erfc(abs(z) / math.sqrt(2))
    assert paired_permutation(list(x), list(y)) == pytest.approx(expected, abs=0.01)
    assert paired_permutation(list(x), list(y)) == paired_permutation(list(x), list(y))
    assert paired_permutation([0.0] * 200, [1.0] * 200) == pytest.approx(1 / 20_001)


def test_random_signs_agree_with_all_signs_at_the_border() -> None:
    rng = np.random.default_rng(5)
    d = rng.normal(0.2, 1.0, size=EXACT_PAIRS)
    exact = paired_permutation([0.0] * EXACT_PAIRS, list(d))
    padded = [*list(d), 1e-9]
    assert paired_permutation([0.0] * len(padded), padded) == pytest.approx(exact, abs=0.015)


def test_permutation_refuses_what_cannot_be_paired() -> None:
    assert paired_permutation([], []) == 1.0
    with pytest.raises(EvaluationError, match="must have equal length"):
        paired_permutation([1.0], [1.0, 2.0])
    with pytest.raises(EvaluationError, match="must be finite"):
        paired_permutation([1.0], [math.nan])


def test_against_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    assert mcnemar_exact(3, 11) == pytest.approx(stats.binomtest(3, 14).pvalue)
    interval = stats.binomtest(13, 40).proportion_ci(method="wilson")
    assert wilson(13, 40) == pytest.approx((interval.low, interval.high))
