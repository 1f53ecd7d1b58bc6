"""Several trials of each task: the interval, its coverage, results, pairs, and what one trial leaves as it was."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toys.corridor import Corridor

from turncredit.agents import Agent, grouped, read_trajectories
from turncredit.agents.errors import EvaluationError
from turncredit.agents.files.trajectory_files import TrajectoryWriter
from turncredit.credit.student_t import student_quantile
from turncredit.engines import Random
from turncredit.evaluation import EvaluationResult, Panel, compare, evaluate, mcnemar_exact
from turncredit.evaluation.reliability import best_of, pass_all, pass_any, reliability
from turncredit.evaluation.results import EpisodeRow
from turncredit.evaluation.statistics import wilson, wilson_of_tasks

TASKS = st.lists(st.integers(1, 6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), min_size=1, max_size=12)


def result(outcomes: str, *further: str) -> EvaluationResult:
    """A result with a row for each letter, trial after trial: 1 won, 0 lost, x ended as an error."""
    rows = tuple(
        EpisodeRow(
            task, None, mark == "1", float(mark == "1"), 1, "error" if mark == "x" else "terminated", 0, 0, trial=trial
        )
        for trial, marks in enumerate((outcomes, *further))
        for task, mark in zip("abcdefghij", marks, strict=False)
    )
    return EvaluationResult(Panel("e", tuple("abcdefghij"[: len(outcomes)])), rows)


def test_an_interval_by_hand() -> None:
    """Two tasks always won, two never: v = 4/3 x 4 x 4 / 256 = 1/12 and p (1 - p) / v = 3, below the 4 tasks."""
    assert wilson_of_tasks([(4, 4), (4, 4), (0, 4), (0, 4)]) == wilson(2, 4)
    # 40 tasks, half of them with 3 of 4, the others with 1: v = 40/39 x 40 / 160^2, p (1 - p) / v = 156 of 160
    effective = 156 * (1.959964 / student_quantile(0.95, 39)) ** 2
    assert wilson_of_tasks([(3, 4), (1, 4)] * 20) == pytest.approx(wilson(effective / 2, effective), abs=1e-6)


@given(st.lists(st.booleans(), min_size=1, max_size=50))
def test_with_one_trial_of_each_task_it_is_wilsons(won: list[bool]) -> None:
    assert wilson_of_tasks([(int(one), 1) for one in won]) == wilson(sum(won), len(won))


@given(TASKS, st.randoms(use_true_random=False))
def test_order_means_nothing_and_failures_mirror_successes(counts: list[tuple[int, int]], order: random.Random) -> None:
    low, high = wilson_of_tasks(counts)
    shuffled = order.sample(counts, len(counts))
    assert wilson_of_tasks([*shuffled, (0, 0)]) == pytest.approx((low, high), abs=1e-9)
    assert wilson_of_tasks([(n - k, n) for k, n in counts]) == pytest.approx((1 - high, 1 - low), abs=1e-9)


@given(TASKS)
def test_it_is_never_narrower_than_that_of_independent_trials_nor_wider_than_that_of_tasks(
    counts: list[tuple[int, int]],
) -> None:
    k, n = map(sum, zip(*counts, strict=True))
    least = n * n / sum(size * size for _, size in counts)
    low, high = wilson_of_tasks(counts)
    (low_of_all, high_of_all), (low_of_tasks, high_of_tasks) = wilson(k, n), wilson(k / n * least, least)
    assert low_of_tasks - 1e-9 <= low <= low_of_all + 1e-9
    assert high_of_all - 1e-9 <= high <= high_of_tasks + 1e-9
    assert high - low > 0.05  # also where all trials agree


@pytest.mark.parametrize("counts", [[(2, 1)], [(-1, 3), (1, 1)]])
def test_what_is_no_count_is_refused(counts: list[tuple[int, int]]) -> None:
    with pytest.raises(EvaluationError, match="successes must be"):
        wilson_of_tasks(counts)


@pytest.mark.parametrize("correlation", [0.0, 0.1, 0.3, 0.6, 0.95])
@pytest.mark.parametrize(("tasks", "trials"), [(10, 4), (30, 8), (100, 4)])
def test_it_contains_the_true_rate_as_often_as_it_says(tasks: int, trials: int, correlation: float) -> None:
    """1,500 samples each, whose tasks have rates from a beta distribution with this correlation within tasks."""
    rng, p = np.random.default_rng(7), 0.3
    spread = (1 - correlation) / correlation if correlation else 0.0
    rates = rng.beta(p * spread, (1 - p) * spread, (1500, tasks)) if correlation else np.full((1500, tasks), p)
    won = rng.binomial(trials, rates)
    intervals = np.array([wilson_of_tasks([(int(k), trials) for k in sample]) for sample in won])
    naive = np.array([wilson(int(sample.sum()), tasks * trials) for sample in won])
    assert np.mean((intervals[:, 0] <= p) & (p <= intervals[:, 1])) > 0.93
    if correlation >= 0.6:  # what the interval of independent trials would be worth
        assert np.mean((naive[:, 0] <= p) & (p <= naive[:, 1])) < 0.85


def test_pass_at_k_by_hand_and_as_the_mirror_of_pass_all() -> None:
    assert [pass_any(2, 4, k) for k in (1, 2, 3, 4)] == pytest.approx([0.5, 5 / 6, 1.0, 1.0])
    for c in range(6):
        for k in range(1, 6):
            assert pass_any(c, 5, k) == pytest.approx(1 - pass_all(5 - c, 5, k))


def test_trials_of_one_result_count_as_results_of_one_trial_do() -> None:
    together, apart = [result("110", "1x0", "100")], [result("110"), result("1x0"), result("100")]
    assert reliability(together) == reliability(apart)
    assert best_of(together) == best_of(apart)
    assert [rate.value for rate in best_of(together)] == pytest.approx([0.5, 2 / 3, 0.5])  # b has two trials
    assert str(best_of(together)[1]).startswith("pass@2 66.7 %")


def test_a_result_is_summed_up_over_all_trials() -> None:
    summary = result("1100", "1x00", "1100").summary()
    assert (summary.success.k, summary.success.n, summary.errors) == (5, 11, 1)
    assert (summary.success.low, summary.success.high) == wilson_of_tasks([(3, 3), (2, 2), (0, 3), (0, 3)])


def test_without_further_trials_compare_says_what_it_always_said() -> None:
    comparison = compare(result("1100110011"), result("1111110101"))
    assert comparison.p_success == mcnemar_exact(comparison.only_first, comparison.only_second)
    assert "on 10 tasks" in comparison.verdict
    assert "exact McNemar" in comparison.verdict


def test_trials_of_a_task_are_no_independent_pairs() -> None:
    """The second wins both trials of all four tasks: of 2^4 signs of the tasks, two are as extreme."""
    comparison = compare(result("0000", "0000"), result("1111", "1111"))
    assert (comparison.pairs, comparison.tasks, comparison.only_second) == (8, 4, 8)
    assert comparison.p_success == comparison.p_score == 2 / 16
    assert mcnemar_exact(0, 8) < 0.01
    assert "on 8 episodes of 4 tasks" in comparison.verdict


def test_the_order_of_trials_in_both_results_means_nothing() -> None:
    first, second = ("110010", "100011", "010010"), ("111011", "100111", "110011")
    order = [2, 0, 1]
    plain = compare(result(*first), result(*second))
    mixed = compare(result(*(first[at] for at in order)), result(*(second[at] for at in order)))
    assert plain == mixed


def test_pairs_with_an_error_and_trials_without_a_partner_are_left_out() -> None:
    comparison = compare(result("10", "1x", "11"), result("11", "01"))
    assert (comparison.pairs, comparison.left_out, comparison.unpaired) == (3, 1, 1)
    assert "1 episodes left out because of errors; 1 trial of each task left out" in comparison.verdict


AGENT, PANEL = Agent(max_turns=8), Panel("toys/Corridor-v0", ("any",), {"lengths": [3]}, seed=5)


def corridor() -> Corridor:
    return Corridor(lengths=[3])


def test_trial_t_is_an_evaluation_with_the_panels_seed_plus_t(tmp_path: Path) -> None:
    panel = replace(PANEL, tasks=tuple(corridor().task_ids()))
    with TrajectoryWriter(tmp_path / "t.jsonl") as writer:
        together = evaluate(AGENT, Random(), panel, corridor, trials=3, on_finish=writer.write)
    assert together.trials == 3
    for trial in range(3):
        alone = evaluate(AGENT, Random(), replace(panel, seed=panel.seed + trial), corridor)
        assert [replace(row, trial=0) for row in together.rows if row.trial == trial] == list(alone.rows)
    groups = grouped(read_trajectories(tmp_path / "t.jsonl"))
    assert {group.task for group in groups} == set(panel.tasks)
    assert len(groups) == len(panel.tasks)
    for group in groups:
        assert [(member.trial, member.seed) for member in group.trajectories] == [(0, 5), (1, 6), (2, 7)]


def test_an_evaluation_has_a_trial() -> None:
    with pytest.raises(EvaluationError, match="trials must be >= 1, got 0"):
        evaluate(AGENT, Random(), PANEL, corridor, trials=0)


def test_files_of_one_trial_are_as_they_were_and_those_of_several_are_read_back(tmp_path: Path) -> None:
    panel = replace(PANEL, tasks=tuple(corridor().task_ids()))
    for trials in (1, 2):
        file = tmp_path / f"{trials}.json"
        played = evaluate(AGENT, Random(), panel, corridor, trials=trials)
        played.save(file)
        content = json.loads(file.read_text())
        assert all(("trial" in row) == (trials > 1) for row in content["rows"])
        assert EvaluationResult.load(file) == played
        assert set(content["summary"]["success"]) == {"value", "low", "high", "k", "n"}
