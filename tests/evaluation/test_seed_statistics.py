"""Statistics over seeds against values by hand, and against scipy where it is installed."""

from __future__ import annotations

import math

import pytest

from turncredit.agents.errors import EvaluationError
from turncredit.credit.errors import BadOption
from turncredit.credit.student_t import student_p, student_quantile
from turncredit.evaluation.panels import Panel
from turncredit.evaluation.results import EpisodeRow, EvaluationResult, Rate
from turncredit.evaluation.seed_statistics import (
    Mean,
    compare_seeds,
    holm,
    paired_t,
    verdict,
)
from turncredit.evaluation.statistics import wilson

TABLE = {1: 12.7062, 2: 4.3027, 3: 3.1824, 4: 2.7764, 9: 2.2622, 30: 2.0423}  # two-sided 5 %, as printed in tables


@pytest.mark.parametrize(("degrees", "t"), TABLE.items())
def test_the_quantiles_of_the_tables(degrees: int, t: float) -> None:
    assert student_quantile(0.95, degrees) == pytest.approx(t, abs=5e-5)
    assert student_p(t, degrees) == pytest.approx(0.05, abs=1e-5)
    assert student_p(-t, degrees) == student_p(t, degrees)


def test_student_agrees_with_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    for degrees in range(1, 20):
        for t in (0.0, 0.3, 1.0, 2.5, 20.0):
            assert student_p(t, degrees) == pytest.approx(2 * stats.t.sf(t, degrees), abs=1e-12)


def test_student_without_a_spread_or_a_confidence_is_refused() -> None:
    with pytest.raises(BadOption, match="at least 1 degree"):
        student_p(1.0, 0)
    with pytest.raises(BadOption, match="must be in"):
        student_quantile(1.0, 3)


def test_a_mean_over_seeds_by_hand() -> None:
    # mean 0.6, squares 0.04 + 0 + 0.04 = 0.08, variance 0.04, error 0.2 / sqrt(3), t(2) = 4.302653
    mean = Mean.of([0.4, 0.6, 0.8])
    half = 4.302653 * 0.2 / math.sqrt(3)
    assert (mean.value, mean.n) == (pytest.approx(0.6), 3)
    assert (mean.low, mean.high) == (pytest.approx(0.6 - half, abs=1e-6), pytest.approx(0.6 + half, abs=1e-6))
    assert Mean.of([0.5]) == Mean(0.5, None, None, None, 1)
    assert Mean.of([]).value is None


def test_equal_rates_over_seeds_have_wilson_s_interval() -> None:
    for k in (0, 20):
        mean = Mean.of_rates([Rate.of(k, 20)] * 3)
        assert (mean.value, mean.low, mean.high, mean.n) == (k / 20, *wilson(3 * k, 60), 3)
    assert Mean.of_rates([Rate.of(0, 20), Rate.of(0, 0)]) == Mean(0.0, None, None, None, 1)  # one seed played
    differ = [Rate.of(k, 20) for k in (8, 12, 16)]
    assert Mean.of_rates(differ) == Mean.of([0.4, 0.6, 0.8])


def test_the_paired_t_by_hand() -> None:
    # differences 0.1, 0.2, 0.3: mean 0.2, error 0.1 / sqrt(3), t = 2 sqrt(3); for two degrees p = 1 - t / sqrt(t^2 + 2)
    t = 2 * math.sqrt(3)
    assert paired_t([0.1, 0.2, 0.3]) == pytest.approx(1 - t / math.sqrt(t * t + 2))
    assert paired_t([0.4]) == 1.0
    assert paired_t([0.0, 0.0]) == 1.0
    assert paired_t([0.1, 0.1, 0.1]) == 0.25  # no spread: two of the eight patterns of signs


def test_holm_by_hand() -> None:
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])  # 3 * 0.01, 2 * 0.03, then at least that
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def result(won: str, tasks: str = "") -> EvaluationResult:
    """A result with one episode a letter: 1 won, 0 lost, x failed."""
    names = tuple(tasks or (f"t{i}" for i in range(len(won))))
    rows = tuple(
        EpisodeRow(task, None, letter == "1", float(letter == "1"), 3, "error" if letter == "x" else "terminated", 0, 0)
        for task, letter in zip(names, won, strict=True)
    )
    return EvaluationResult(Panel("toys/Corridor-v0", names), rows)


def test_arms_are_paired_by_seed_and_by_task() -> None:
    first = {0: result("0000"), 1: result("1000"), 5: result("1111")}
    second = {0: result("1110"), 1: result("1x11"), 7: result("0000")}
    found = compare_seeds(first, second)
    assert [(one.seed, one.only_first, one.only_second, one.pairs) for one in found.seeds] == [
        (0, 0, 3, 4),
        (1, 0, 2, 3),
    ]
    assert [one.p for one in found.seeds] == [0.25, 0.5]  # 2 / 2^3 and 2 / 2^2
    assert found.left_out == 1
    assert found.difference.value == pytest.approx((3 / 4 + 2 / 3) / 2)
    # by task: t0 1 + 0, t1 1 (failed in seed 1), t2 1 + 1, t3 0 + 1: all positive, two of 2^4 patterns
    assert found.p_tasks == 2 / 16
    assert (found.p_flips, found.smallest) == (0.5, 0.5)
    assert found.p_seeds == paired_t([3 / 4, 2 / 3])


def test_tasks_whose_seeds_disagree_cancel() -> None:
    found = compare_seeds({0: result("10"), 1: result("01")}, {0: result("01"), 1: result("10")})
    assert (found.p_tasks, found.difference.value) == (1.0, 0.0)


def test_other_panels_or_no_common_seed_are_refused() -> None:
    with pytest.raises(EvaluationError, match="no finished seed in common"):
        compare_seeds({0: result("1")}, {1: result("1")})
    with pytest.raises(EvaluationError, match="different panels"):
        compare_seeds({0: result("11", "ab")}, {0: result("11", "ac")})


@pytest.mark.parametrize(
    ("p_tasks", "p_seeds", "difference", "seeds", "words"),
    [
        (0.001, 0.01, 0.1, 5, "better, beyond the noise"),
        (0.9, 0.01, -0.1, 5, "worse, beyond the noise"),
        (0.01, 0.2, 0.1, 5, "within the noise of training (5 seeds); these policies differ"),
        (0.01, 1.0, 0.1, 1, "within the noise of training (one seed); these policies differ"),
        (0.05, 0.05, 0.1, 5, "within the noise"),
    ],
)
def test_verdicts(p_tasks: float, p_seeds: float, difference: float, seeds: int, words: str) -> None:
    assert verdict(p_tasks, p_seeds, difference, seeds) == words
