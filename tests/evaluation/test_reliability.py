"""pass^k: hand-computed numbers, laws, and its mean over the tasks of several results."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turncredit.agents.errors import EvaluationError
from turncredit.evaluation.panels import Panel
from turncredit.evaluation.reliability import pass_all, reliability
from turncredit.evaluation.results import EpisodeRow, EvaluationResult


@pytest.mark.parametrize(
    ("successes", "trials", "k", "value"),
    [
        (8, 8, 4, Fraction(1)),
        (4, 8, 1, Fraction(1, 2)),
        (4, 8, 2, Fraction(6, 28)),
        (4, 8, 4, Fraction(1, 70)),
        (3, 4, 2, Fraction(3, 6)),
        (3, 8, 4, Fraction(0)),
        (0, 5, 1, Fraction(0)),
        (5, 8, 3, Fraction(10, 56)),
    ],
)
def test_numbers_computed_by_hand(successes: int, trials: int, k: int, value: Fraction) -> None:
    assert pass_all(successes, trials, k) == pytest.approx(float(value), abs=1e-15)


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.data())
def test_it_is_the_share_of_choices_of_k_trials_that_all_succeed(trials: list[bool], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(trials)))
    choices = [all(chosen) for chosen in combinations(trials, k)]
    assert isclose(pass_all(sum(trials), len(trials), k), sum(choices) / len(choices))


@pytest.mark.parametrize(("successes", "trials", "k"), [(5, 4, 1), (-1, 4, 1), (2, 4, 5), (2, 4, 0), (0, 0, 1)])
def test_numbers_out_of_range_are_refused(successes: int, trials: int, k: int) -> None:
    with pytest.raises(EvaluationError, match="must be from"):
        pass_all(successes, trials, k)


def result(won: str, tasks: str = "abc") -> EvaluationResult:
    """A result of three tasks: 1 won, 0 lost, x ended as an error."""
    rows = tuple(
        EpisodeRow(task, None, mark == "1", float(mark == "1"), 1, "error" if mark == "x" else "terminated", 0, 0)
        for task, mark in zip(tasks, won, strict=True)
    )
    return EvaluationResult(Panel("e", tuple(tasks)), rows)


def test_the_mean_is_over_tasks() -> None:
    one, two, three = reliability([result("110"), result("100"), result("101")])
    assert [rate.k for rate in (one, two, three)] == [1, 2, 3]
    assert one.value == pytest.approx((1 + 1 / 3 + 1 / 3) / 3)
    assert two.value == pytest.approx(1 / 3)
    assert three.value == pytest.approx(1 / 3)
    assert one.tasks == 3
    assert 0 <= one.low < one.value < one.high <= 1
    assert str(three) == "pass^3 33.3 % [6.1, 79.2] (3 tasks)"


def test_an_error_is_no_trial() -> None:
    one, two = reliability([result("1x0"), result("110")])
    assert one.value == pytest.approx(2 / 3)
    assert (two.value, two.tasks) == (0.5, 2)
    assert reliability([result("xxx")]) == []


def test_other_tasks_and_no_results_are_refused() -> None:
    with pytest.raises(EvaluationError, match="the same tasks"):
        reliability([result("111"), result("111", "abd")])
    with pytest.raises(EvaluationError, match="at least one"):
        reliability([])
