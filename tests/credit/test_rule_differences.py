"""Rules beside each other: which say the same, and paired differences with intervals that hold for all at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from turncredit.credit.truth import TrueCredit, paired_differences, same_rules
from turncredit.credit.truth.metrics import Draws, draws_of, identification_draws

numbers = st.lists(st.integers(-50, 50).map(lambda value: value / 10), min_size=2, max_size=12)


@settings(max_examples=60, deadline=None)
@given(numbers, st.floats(1e-3, 1e3))
def test_a_positive_multiple_says_the_same_and_a_negative_one_does_not(values: list[float], factor: float) -> None:
    column = np.asarray(values)
    same = same_rules({"a": [column], "b": [factor * column], "c": [-factor * column]})
    assert same["b"] == "a"
    assert same["c"] == ("c" if column.any() else "a")  # zero everywhere is its own negative


@settings(max_examples=60, deadline=None)
@given(numbers, st.floats(1e-3, 1e3), st.integers(0, 11))
def test_one_turn_that_differs_makes_another_rule(values: list[float], factor: float, place: int) -> None:
    column = np.asarray(values)
    place %= len(column)
    assume(np.delete(column, place).any())
    other = factor * column
    other[place] += factor * max(1.0, np.abs(column).max())
    assert same_rules({"a": [column], "b": [other]})["b"] == "b"


def test_the_first_of_equal_rules_stands_for_them_in_every_column() -> None:
    values, weights = np.array([1.0, -2.0]), np.array([1.0, 0.5])
    rules = {"a": [values, values], "b": [3 * values, 3 * values], "c": [values, weights * values]}
    assert same_rules(rules) == {"a": "a", "b": "a", "c": "c"}
    assert same_rules({"b": rules["b"], "a": rules["a"]}) == {"b": "b", "a": "b"}
    assert same_rules({"zero": [np.zeros(2)], "rounding": [np.full(2, 1e-17)]})["rounding"] == "zero"
    assert same_rules({}) == {}


def spearman(x: np.ndarray, y: np.ndarray) -> float:
    """From pairs, with loops."""

    def ranks(values: np.ndarray) -> list[float]:
        return [sum(w < v for w in values) + (sum(w == v for w in values) + 1) / 2 for v in values]

    return float(np.corrcoef(ranks(x), ranks(y))[0, 1])


def test_differences_are_those_of_tables_in_which_tasks_are_really_repeated() -> None:
    rng = np.random.default_rng(5)
    task = np.repeat(np.arange(4), 6)
    advantage = rng.normal(size=24).round(2)
    truth = TrueCredit(advantage, advantage, np.full(24, 0.1), np.stack([advantage] * 2), np.full(24, 4), 1.0)
    says = {
        name: (weight * advantage + rng.normal(size=24)).round(2) for name, weight in {"r": 0, "a": 1, "b": 3}.items()
    }
    measured = {
        name: identification_draws(values, truth, task, task, resamples=40, seed=3)["rank"]
        for name, values in says.items()
    }
    found = paired_differences(measured, "r")
    assert set(found) == {"a", "b"}
    by_draw: dict[str, list[float]] = {"a": [], "b": []}
    for counts in draws_of(4, 40, seed=3).astype(int):
        rows = np.concatenate([np.flatnonzero(task == unit) for unit in range(4) for _ in range(counts[unit])])
        base = spearman(says["r"][rows], advantage[rows])
        for name, values in by_draw.items():
            values.append(spearman(says[name][rows], advantage[rows]) - base)
    errors = {name: np.std(values[1:], ddof=1) for name, values in by_draw.items()}
    largest = [
        max(abs(by_draw[name][draw] - by_draw[name][0]) / errors[name] for name in by_draw) for draw in range(1, 41)
    ]
    factor = np.quantile(largest, 0.95)
    for name, values in by_draw.items():
        assert found[name].value == pytest.approx(values[0], abs=1e-9)
        assert found[name].low == pytest.approx(values[0] - factor * errors[name], abs=1e-9)
        assert found[name].high == pytest.approx(values[0] + factor * errors[name], abs=1e-9)


def test_more_rules_make_the_intervals_wider_and_never_narrower() -> None:
    rng = np.random.default_rng(0)
    draws = {name: Draws(rng.normal(size=501), 10) for name in "rabcdef"}
    alone = paired_differences({name: draws[name] for name in "ra"}, "r")["a"]
    among = paired_differences(draws, "r")["a"]
    assert among.value == alone.value
    assert among.high - among.low > alone.high - alone.low  # type: ignore[operator]


def test_intervals_hold_for_all_rules_at_once() -> None:
    """Ten rules that do not differ: in about one experiment of twenty, and not in one of two, any interval misses 0."""
    rng = np.random.default_rng(1)
    missed = 0
    for _ in range(200):
        sample = rng.normal(size=(11, 60))
        weights = draws_of(60, 200, seed=int(rng.integers(10**6)))
        measured = {str(rule): Draws((weights @ sample[rule]) / 60, 60) for rule in range(11)}
        differences = paired_differences(measured, "0").values()
        missed += any(one.low > 0 or one.high < 0 for one in differences)  # type: ignore[operator]
    assert 2 <= missed <= 30


def test_edges() -> None:
    one = Draws(np.array([0.5]), 7)
    assert paired_differences({"r": one}, "r") == {}
    alone = paired_differences({"r": one, "a": Draws(np.array([0.75]), 5)}, "r")["a"]
    assert (alone.value, alone.low, alone.high, alone.n) == (0.25, None, None, 5)
    nothing = Draws(np.array([np.nan, np.nan, 0.1]), 3)
    assert paired_differences({"r": nothing, "a": nothing}, "r")["a"].value is None
    equal = Draws(np.array([0.5, 0.2, 0.9]), 3)
    exact = paired_differences({"r": equal, "a": equal}, "r")["a"]
    assert (exact.value, exact.low, exact.high) == (0.0, None, None)  # no draw says how far off that may be
    holes = Draws(np.array([0.5, np.nan, 0.6, 0.4]), 3)
    known = paired_differences({"r": Draws(np.zeros(4), 3), "a": holes}, "r")["a"]
    assert known.low is not None
    assert known.low < 0.5 < known.high  # type: ignore[operator]
