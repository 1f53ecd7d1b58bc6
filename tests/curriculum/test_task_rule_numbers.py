"""Task rules against numbers that were computed by hand or follow from their equations."""

from __future__ import annotations

import doctest
import importlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from toys.task_pools import always, run

from turncredit.credit import BadOption
from turncredit.curriculum import TaskDraw, TaskRecords, Visit
from turncredit.curriculum.difficulty_bins import bins_of
from turncredit.curriculum.errors import BadSetting, CurriculumError
from turncredit.curriculum.group_sizes import best_sizes, evenly, proportional
from turncredit.curriculum.picking import heaviest, logs, waiting, weighted
from turncredit.curriculum.rows import by_id, counts_of, played_since
from turncredit.curriculum.similar_tasks import from_similar
from turncredit.curriculum.task_rules.catalogue import get_task_rule
from turncredit.curriculum.task_rules.gdro_prompt import bin_scores, bin_weights
from turncredit.curriculum.task_rules.gdro_rollout import arm_sizes
from turncredit.curriculum.task_rules.knapsack import knapsack_sizes
from turncredit.curriculum.task_rules.pcurl import pcurl_weights
from turncredit.curriculum.task_rules.v0 import LIKENESS, v0_sizes


def visit(task: str, wins: int, episodes: int, **remember: float) -> Visit:
    return Visit(task, (1.0,) * wins + (0.0,) * (episodes - wins), wins, remember)


def records_of(played: Mapping[str, tuple[int, int]], *others: str) -> TaskRecords:
    """Records after one visit of some tasks, given as (wins, episodes)."""
    return TaskRecords.of([*played, *others]).after([visit(task, *result) for task, result in played.items()], 0)


def draw(
    name: str,
    records: TaskRecords,
    count: int,
    group: int = 8,
    *,
    iteration: int = 1,
    total: int = 12,
    seed: int = 0,
    state: object = None,
    **options: Any,
) -> TaskDraw:
    rng = np.random.default_rng(seed)
    rule = get_task_rule(name, **options)
    return rule(records, count=count, group=group, iteration=iteration, total=total, rng=rng, state=state)


def sizes_of(drawn: TaskDraw) -> dict[str, int]:
    return dict(zip(drawn.tasks, drawn.episodes, strict=True))


def weights_of(drawn: TaskDraw) -> dict[str, float]:
    return dict(zip(drawn.tasks, np.round(drawn.weight, 4).tolist(), strict=True))


@pytest.mark.parametrize(
    "name",
    ["difficulty_bins", "group_sizes", "picking", "rows"]
    + [f"task_rules.{name}" for name in ("gdro_prompt", "gdro_rollout", "knapsack", "levels", "pcurl", "v0")],
)
def test_doctests(name):
    result = doctest.testmod(importlib.import_module(f"turncredit.curriculum.{name}"))
    assert result.attempted > 0
    assert result.failed == 0


# -- building blocks


def test_rows_are_in_the_order_of_ids_with_all_that_belongs_to_them():
    records = TaskRecords.of("bca").after([visit("b", 1, 2, hint=0.5), visit("a", 3, 3)], 4)
    ordered = by_id(records)
    assert ordered.tasks == ("a", "b", "c")
    for task in "abc":
        assert ordered.of_task(task) == records.of_task(task)


def test_what_was_played_since_is_the_difference():
    before = records_of({"a": (1, 2)}, "b")
    after = before.after([visit("a", 0, 3), visit("b", 2, 2), visit("a", 1, 1)], 1)
    played = played_since(after, counts_of(before))
    assert played.visits.tolist() == [2, 1]
    assert played.episodes.tolist() == [4, 2]
    assert played.success.tolist() == [0.25, 1.0]
    assert played.reward2.tolist() == [1.0, 2.0]
    assert np.isnan(played_since(before, counts_of(before)).success).all()
    with pytest.raises(CurriculumError, match="remembers 1 tasks, but the pool has 2"):
        played_since(before, counts_of(TaskRecords.of("a")))


def test_weighted_draws_are_those_without_replacement():
    """Probabilities 1/2, 1/4, 1/4 of the first; of the second, given the first, in proportion to the others."""
    rng = np.random.default_rng(0)
    pairs = Counter(tuple(weighted(rng, np.log([2.0, 1.0, 1.0]) + 700, 2).tolist()) for _ in range(6000))
    expected = {(0, 1): 1 / 4, (0, 2): 1 / 4, (1, 0): 1 / 6, (1, 2): 1 / 12, (2, 0): 1 / 6, (2, 1): 1 / 12}
    assert pairs.keys() == expected.keys()
    for pair, share in expected.items():
        assert abs(pairs[pair] / 6000 - share) < 4 * (share * (1 - share) / 6000) ** 0.5


def test_rows_without_weight_come_last_and_all_come_before_any_comes_again():
    for seed in range(20):
        rows = weighted(np.random.default_rng(seed), logs(np.array([0.0, 1.0, 0.0, 3.0])), 10).tolist()
        assert sorted(rows[:2]) == [1, 3]
        assert sorted(rows[2:4]) == [0, 2]
        assert sorted(rows[4:8]) == [0, 1, 2, 3]
    orders = {tuple(weighted(np.random.default_rng(s), logs(np.zeros(3)), 3).tolist()) for s in range(40)}
    assert len(orders) == 6
    assert heaviest(np.array([1.0, 3.0, 3.0, 0.0]), 6).tolist() == [1, 2, 0, 3, 1, 2]


def test_those_that_waited_longest_come_first():
    drawn = np.array([4, 0, 2, 0, 1])
    for seed in range(10):
        rows = waiting(np.random.default_rng(seed), drawn, np.array([0, 1, 2, 3]), 5).tolist()
        assert sorted(rows[:2]) == [1, 3]
        assert rows[2:4] == [2, 0]
        assert rows[4] == rows[0]


def test_the_best_sizes_are_those_that_trying_all_finds():
    rng = np.random.default_rng(1)
    for _ in range(30):
        values, cost = rng.normal(size=(3, 5)), rng.integers(1, 3, 3)
        values[rng.random((3, 5)) < 0.2] = -np.inf
        sums = {tuple(k): values[range(3), k].sum() for k in np.ndindex(5, 5, 5) if (np.array(k) * cost).sum() == 8}
        best = max(sums.values())
        if best == -np.inf:
            with pytest.raises(CurriculumError, match="no sizes of 3 groups add up to 8"):
                best_sizes(values, 8, cost)
        else:
            sizes = best_sizes(values, 8, cost)
            assert (sizes * cost).sum() == 8
            assert values[range(3), sizes].sum() == pytest.approx(best)


def test_of_equal_sums_the_last_rows_take_the_least():
    assert best_sizes(np.zeros((3, 3)), 4).tolist() == [2, 2, 0]


def test_proportional_sizes_keep_bounds_and_sum():
    rng = np.random.default_rng(2)
    for _ in range(200):
        n, total = int(rng.integers(1, 9)), int(rng.integers(9, 80))
        least, most = int(rng.integers(0, 5)), int(rng.integers(5, 30))
        weights = rng.random(n) * (rng.random(n) < 0.7)
        sizes = proportional(total, weights, least=least, most=most)
        assert sizes.sum() == total
        assert sizes.min() >= min(least, total // n)
        assert sizes.max() <= max(most, -(-total // n))
        assert (np.diff(sizes[np.argsort(weights, kind="stable")]) >= -1).all()  # a heavier one has no smaller share
    assert proportional(10, np.zeros(3), least=1, most=9).tolist() == [4, 3, 3]
    assert proportional(20, np.array([1.0, 0.0, 0.0]), least=1, most=8).tolist() == [8, 6, 6]
    assert evenly(0, 3).tolist() == [0, 0, 0]


# -- which tasks


def test_vade_forgets_as_its_equations_say():
    records = records_of({"a": (2, 8)}, "b")
    first = draw("vade", records, 2, global_decay=1.0)
    assert (first.state["a"].tolist(), first.state["b"].tolist()) == ([3.0, 1.0], [7.0, 1.0])
    again = records.after([visit("a", 4, 8)], 1)
    second = draw("vade", again, 2, global_decay=1.0, iteration=2, state=first.state)
    assert (second.state["a"][0], second.state["b"][0]) == (6.0, 8.0)
    assert second.state["a"][0] / 14 == pytest.approx(0.4286, abs=1e-4)
    idle = draw("vade", again, 2, global_decay=0.5, iteration=4, state=second.state)
    assert (idle.state["a"][0], idle.state["b"][0]) == (1 + 5 / 4, 1 + 7 / 4)  # two iterations


@pytest.mark.parametrize(("gain", "favourite"), [("hard", "third"), ("even", "half")])
def test_vade_prefers_the_largest_gain(gain, favourite):
    played = {"half": (5000, 10000), "third": (3333, 10000), "lost": (0, 10000), "won": (10000, 10000)}
    first = Counter(draw("vade", records_of(played), 1, gain=gain, seed=seed).tasks[0] for seed in range(20))
    assert first == {favourite: 20}


def test_spo_draws_by_the_root_of_the_variance():
    records = records_of({"a": (1, 1), "b": (0, 1)}, "c")
    state = draw("spo", records, 3).state
    assert (state["a"].tolist(), state["b"].tolist()) == ([1.4375, 0.4375, 0.5], [0.4375, 1.4375, 0.5])
    often = records_of({"a": (10, 10), "b": (0, 1)}, "c")
    firsts = Counter(draw("spo", often, 1, seed=seed).tasks[0] for seed in range(2000))
    p = np.array([10.4375 / 10.875, 0.4375 / 1.875, 0.5])
    weights = np.sqrt(p * (1 - p)) + 0.05
    assert [firsts[task] / 2000 for task in "abc"] == pytest.approx((weights / weights.sum()).tolist(), abs=0.04)


def test_cures():
    records = records_of({"a": (0, 8), "c": (8, 8)}, "b")  # p = 1/10, 9/10 and 1/2
    drawn = draw("cures", records, 3)
    assert sizes_of(drawn)["b"] == 11
    assert [size for task, size in sizes_of(drawn).items() if task != "b"] == [7, 6]  # the first takes the remainder
    firsts = Counter(draw("cures", records, 1, seed=seed).tasks[0] for seed in range(3000))
    assert [firsts[task] / 3000 for task in "abc"] == pytest.approx([0.2864, 0.4272, 0.2864], abs=0.035)


def test_dots_takes_the_nearest():
    visits = [visit("a", 1, 8), visit("b", 4, 8), visit("c", 4, 8, difficulty=0.9), visit("d", 6, 8)]
    records = TaskRecords.of("abcde").after(visits, 0)
    assert set(draw("dots", records, 2).tasks) == {"b", "e"}  # "e" was never played; "c" is predicted to be hard
    assert draw("dots", records, 5).tasks[2:] == ("d", "a", "c")  # 0.25, 0.375 and 0.4 away
    assert draw("dots", records, 2, target=0.9).tasks in (("e", "c"), ("c", "e"))
    assert draw("dots", records, 1, column="none", target=1.0).tasks == ("e",)


def test_mmr1_draws_by_the_scores():
    records = records_of({"a": (2, 8), "b": (4, 8), "c": (8, 8)})
    assert draw("mmr1", records, 4).state["scores"].tolist() == [0.75, 1.0, 0.0]
    chosen = Counter(draw("mmr1", records, 400, share=1.0).tasks)
    assert chosen.keys() == {"a", "b"}
    assert chosen["a"] / 400 == pytest.approx(3 / 7, abs=0.1)
    half = draw("mmr1", records, 7, share=0.5)
    assert set(half.tasks[:3]) <= {"a", "b"}
    assert sorted(half.tasks[3:6]) == ["a", "b", "c"]  # a stream over all
    later = draw("mmr1", records_of({"a": (8, 8), "b": (4, 8), "c": (8, 8)}), 1, mu=0.25, state=half.state)
    assert later.state["scores"].tolist() == [0.1875, 1.0, 0.0]
    with_metric = TaskRecords.of("ab").after([visit("a", 1, 2, novelty=-1.0), visit("b", 0, 2)], 0)
    assert draw("mmr1", with_metric, 1, metrics={"novelty": -1.0}).state["scores"].tolist() == [1.0, 0.0]


def test_mmr1_sweeps_the_pool_before_it_draws():
    """Three groups of an iteration are dropped and replaced one by one, until all five tasks were played."""
    records = records_of({"a": (2, 8), "b": (4, 8), "c": (8, 8), "d": (8, 8), "e": (8, 8)})
    first = draw("mmr1", records, 3, probe=2, share=1.0, iteration=4)
    played, drawn = list(first.tasks), [*first.options]
    state = first.state
    for _ in range(5):
        single = draw("mmr1", records, 1, probe=2, share=1.0, iteration=4, state=state)
        played, drawn, state = [*played, *single.tasks], [*drawn, *(single.options or ({},))], single.state
    assert played[:5] == list("abcde")
    assert drawn == [{"probe": True}] * 5 + [{}] * 3
    assert set(played[5:]) <= {"a", "b"}  # the others have no spread
    assert not draw("mmr1", records, 3, probe=2, iteration=5, state=state).options
    assert draw("mmr1", records, 3, probe=2, iteration=6, state=state).tasks == ("a", "b", "c")
    wide = draw("mmr1", records, 7, probe=1, iteration=1)
    assert wide.tasks[:5] == tuple("abcde")
    assert [bool(option) for option in wide.options] == [True] * 5 + [False] * 2


def test_a_single_group_of_mmr1_is_drawn_by_score_as_often_as_the_share_says():
    records = records_of({"a": (4, 8), "b": (8, 8)})
    tasks = Counter(draw("mmr1", records, 1, share=0.6, seed=seed).tasks[0] for seed in range(300))
    assert tasks["a"] / 300 == pytest.approx(0.6 + 0.4 / 2, abs=0.08)


def test_vspo_values_and_replacement():
    records = records_of({"a": (1, 5), "b": (3, 5), "c": (4, 5), "d": (0, 5), "e": (5, 5)}, "f")
    drawn = draw("vspo", records, 6, 5)
    assert drawn.state["values"].round(3).tolist()[:5] == [0.32, 0.196, 0.08, 0.0, 0.0]
    assert np.isnan(drawn.state["values"][5])
    assert {"a", "b", "c", "f"} <= set(drawn.tasks)
    assert not {"d", "e"} & set(drawn.tasks)
    times = Counter(drawn.tasks)
    assert drawn.weight == tuple(1 / times[task] for task in drawn.tasks)
    assert max(times.values()) > 1
    assert draw("vspo", records, 6, 5, smooth=False).weight == ()
    first = Counter(task for seed in range(400) for task in draw("vspo", records, 6, 5, seed=seed).tasks)
    extra = {task: first[task] - 400 for task in "abc"}
    assert extra["a"] / sum(extra.values()) == pytest.approx(0.32 / 0.596, abs=0.07)
    hopeless = draw("vspo", records_of({"d": (0, 5), "e": (5, 5)}), 2, 5)
    assert sorted(hopeless.tasks) == ["d", "e"]


def test_vspo_takes_the_last_visit_alone():
    records = records_of({"a": (0, 5)}, "b")
    state = draw("vspo", records, 1, 5).state
    again = draw("vspo", records.after([visit("a", 1, 5)], 1), 1, 5, state=state)
    assert again.state["values"][0] == pytest.approx(0.32)
    idle = draw("vspo", records.after([visit("b", 0, 5)], 2), 1, 5, state=again.state | {"counts": counts_of(records)})
    assert idle.state["values"].tolist() == [pytest.approx(0.32), 0.0]


# -- how many episodes


@pytest.mark.parametrize("released", [False, True])
def test_knapsack_sizes(released):
    everything = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
    assert knapsack_sizes(everything, 8, most=16, released=released).tolist() == [13, 11, 7, 7, 2]
    expected = [14, 7, 3] if released else [15, 7, 2]
    assert knapsack_sizes(np.array([0.125, 0.5, 0.875]), 8, most=20, released=released).tolist() == expected
    assert knapsack_sizes(np.array([0.0, 1.0, 0.0]), 8, released=released).tolist() == [11, 2, 11]
    assert knapsack_sizes(np.array([1.0, 1.0]), 8, released=released).tolist() == [8, 8]
    assert knapsack_sizes(np.array([1.0, 0.5, 1.0]), 8, most=5, released=released).tolist() == [10, 5, 9]
    assert knapsack_sizes(np.array([0.5, 0.5]), 8, most=5, released=released).tolist() == [8, 8]


def test_v0_knows_of_a_task_that_was_never_played_what_tasks_like_it_say():
    """cos("xxx", "xxxx") = 1 and cos("xxx", "yyyy") = 0.

    At temperature 1 the weights are e / (e + 1) = .7311 and .2689: p = .7311 x .25 + .2689 x .75 = .3845. At .1, as in
    v0, the second is 1 / (e^10 + 1) = .000045, and p = .25002. With p = 1/2 the sizes would be others.
    """
    records = records_of({"xxxx": (2, 8), "yyyy": (6, 8)}, "xxx")
    assert from_similar(records, records.success, 1.0).tolist() == pytest.approx([0.25, 0.75, 0.3845], abs=1e-4)
    assert from_similar(records, records.success, LIKENESS)[2] == pytest.approx(0.250023, abs=1e-6)
    like, half = (v0_sizes(np.array([p, 0.25, 0.75]), 24, solver="greedy").tolist() for p in (0.250023, 0.5))
    assert (like, half) == ([20, 2, 2], [4, 18, 2])
    drawn = sizes_of(draw("v0", records, 3, solver="greedy"))
    assert drawn == dict(zip(("xxx", "xxxx", "yyyy"), like, strict=True))


def test_v0_takes_one_half_before_any_task_was_played():
    assert set(sizes_of(draw("v0", records_of({}, "a", "b"), 2)).values()) == {8}


def test_knapsack_finds_the_largest_gain():
    p, group = np.array([0.1, 0.3, 0.8]), 5
    sizes = knapsack_sizes(p, group, most=11)

    def gain(n: Sequence[int]) -> float:
        count = np.array(n)
        return float(((1 - p**count - (1 - p) ** count) * p * (1 - p) ** 2).sum())

    tries = [n for n in np.ndindex(12, 12, 12) if min(n) >= 2 and sum(n) == 15]
    assert gain(sizes.tolist()) == pytest.approx(max(map(gain, tries)), abs=1e-12)


def test_knapsack_leaves_unknown_tasks_their_group():
    records = records_of({"a": (0, 8), "b": (2, 8), "c": (4, 8), "d": (6, 8), "e": (8, 8)}, "f")
    sizes = sizes_of(draw("knapsack", records, 6, most=16))
    assert (sizes["f"], sizes["a"], sizes["e"]) == (8, 13, 2)
    assert (sizes["b"], sizes["c"], sizes["d"]) == (11, 7, 7)


def test_v0_sizes():
    p = np.array([0.25, 0.5, 0.75])
    assert v0_sizes(p, 24, solver="greedy").tolist() == [18, 4, 2]
    assert v0_sizes(p, 24).tolist() == [20, 2, 2]
    assert v0_sizes(np.array([0.0, 0.5, 1.0]), 24).tolist() == [2, 20, 2]
    assert v0_sizes(np.array([0.0, 0.5, 1.0]), 24, most=10).tolist() == [7, 10, 7]
    assert v0_sizes(np.array([0.0, 1.0]), 9).tolist() == [5, 4]
    records = TaskRecords.of("abc").after([visit("a", 8, 8, value=0.25), visit("b", 4, 8), visit("c", 6, 8)], 0)
    assert sizes_of(draw("v0", records, 3)) == {"a": 20, "b": 2, "c": 2}


def test_gdro_sizes():
    scores = np.zeros((2, 9))
    scores[0, 6] = 1.0
    assert arm_sizes(scores, np.array([0, 1, 0, 1]), 4).tolist() == [6, 2, 6, 2]
    assert arm_sizes(np.zeros((2, 9)), np.array([0, 1, 1]), 4).tolist() == [4, 4, 4]
    drawn = {tuple(arm_sizes(scores, np.array([0, 1]), 4, np.random.default_rng(seed)).tolist()) for seed in range(60)}
    assert drawn == {(n, 8 - n) for n in range(2, 7)}
    records = records_of({"a": (1, 10), "b": (5, 10)}, "c").after([visit("c", 10, 10)], 1)
    closed = draw("gdro_rollout", records, 3, 4, closed_form=True)  # all in one bin: a visit with a winner each
    assert closed.episodes == (4, 4, 4)


def test_gdro_sizes_by_the_spread_of_bins():
    """Bins 0 (no visit with a winner, p 0) and 2 (p 1/2): what p = 0 cannot use beyond 2 goes to the other."""
    records = records_of({"a": (0, 8), "b": (4, 8)})
    assert sizes_of(draw("gdro_rollout", records, 2, 4, closed_form=True, edges=[0.3, 0.6])) == {"a": 2, "b": 6}


def test_gdro_sizes_survive_large_groups_and_another_size():
    lost = {f"t{number}": (0, 8) for number in range(6)}
    records = records_of(lost | {"u": (4, 8)})
    options = {"edges": [0.5]}
    first = draw("gdro_rollout", records, 7, 4, closed_form=True, **options)
    assert sizes_of(first) == dict.fromkeys(lost, 2) | {"u": 16}
    records = records.after([visit("u", 8, 16), visit("t0", 1, 2)], 1)
    scores = draw("gdro_rollout", records, 7, 4, state=first.state, **options).state["scores"]
    assert scores[0, 2] == 0.5
    assert scores.sum() == 0.5  # 16 is no size that is chosen from
    for group in (2, 7):
        other = draw("gdro_rollout", records, 7, group, state=first.state, **options)
        assert sum(other.episodes) == 7 * group
        assert other.state["scores"].shape == (2, 2 * group + 1)


def test_gdro_rollout_scores_what_was_played():
    records, state = TaskRecords.of("ab"), None
    first = draw("gdro_rollout", records, 2, 4, explore=False, edges=[0.5], state=state)
    assert first.episodes == (4, 4)
    records = records.after([visit("a", 1, 4), visit("b", 0, 4), visit("b", 0, 8)], 0)
    second = draw("gdro_rollout", records, 2, 4, explore=False, edges=[0.5], state=first.state)
    assert second.state["scores"][0, 4] == pytest.approx(15 / 16)
    assert second.state["scores"].sum() == pytest.approx(15 / 16)
    assert second.state["bins"].tolist() == [1, 0]


# -- which weight


def test_gdro_weights():
    assert bin_weights(np.array([1.0, 0.0, -1.0]), np.array([0, 1, 1, 2]), 0.65).round(4).tolist() == [
        1.7191, 0.9024, 0.9024, 0.476,
    ]  # fmt: skip
    many = bin_weights(np.array([9.0, -9.0]), np.array([0] + [1] * 99), 0.65)
    assert many.max() == 15.0
    assert bin_weights(np.zeros(3), np.array([0, 2, 2]), 0.65).tolist() == [1.0, 1.0, 1.0]


def test_gdro_scores_are_smoothed_and_divided_by_the_share():
    bins, losses, episodes = np.array([0, 0, 1, 2]), np.array([1.0, 0.0, 0.5, np.nan]), np.array([4, 4, 8, 0])
    first = bin_scores(np.full(3, np.nan), bins, losses, episodes)
    assert first[:2].tolist() == [0.5 / 0.5, 0.5 / 0.5]
    assert np.isnan(first[2])
    second = bin_scores(first, bins, np.array([np.nan, np.nan, 1.0, 0.25]), np.array([0, 0, 4, 12]))
    assert second.tolist() == pytest.approx([1.0, 0.88 + 0.12 / 0.25, 0.25 / 0.75])


def test_gdro_prompt_weighs_the_bins_with_the_largest_loss():
    records, state = TaskRecords.of("ab"), None
    for iteration in range(6):
        drawn = draw("gdro_prompt", records, 2, 4, edges=[0.5], state=state, iteration=iteration)
        records = records.after([visit("a", 0, 4), visit("b", 3, 4)], iteration)
        state = drawn.state
    assert state["bins"].tolist() == [0, 1]
    assert weights_of(drawn)["a"] > 1 > weights_of(drawn)["b"]
    assert sum(drawn.weight) == pytest.approx(2.0)
    lower = TaskRecords.of("ab").after([visit("a", 0, 4, loss=-2.0), visit("b", 3, 4, loss=2.0)], 0)
    first = draw("gdro_prompt", TaskRecords.of("ab"), 2, 4, column="loss", edges=[0.5])
    second = draw("gdro_prompt", lower, 2, 4, column="loss", edges=[0.5], state=first.state)
    assert second.state["scores"][0] == 0.0  # both were in the first bin when they were drawn: the mean of -2 and 2


def test_a_task_leaves_its_bin_only_when_it_is_well_past_the_edge():
    records = TaskRecords.of("a")
    for iteration, wins in enumerate((1, 0, 1, 0)):
        records = records.after([visit("a", wins, 2)], iteration)
    half = np.array([0])
    assert bins_of(records, [0.5], 0.03, None).tolist() == [1]
    assert bins_of(records, [0.5], 0.03, half).tolist() == [0]
    assert bins_of(records, [0.45], 0.03, half).tolist() == [1]
    assert bins_of(records, [0.52], 0.03, np.array([1])).tolist() == [1]
    assert bins_of(records, [0.54], 0.03, np.array([1])).tolist() == [0]


def test_pcurl_weights():
    p = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
    half = np.sqrt(0.5)
    assert pcurl_weights(p, "easy").tolist() == pytest.approx([0, half, 1, 1, 1])
    assert pcurl_weights(p, "medium").tolist() == pytest.approx([0, half, 1, half, 0])
    assert pcurl_weights(p, "hard").tolist() == pytest.approx([0.25, 1, 1, half, 0])
    records = records_of({"a": (0, 4), "b": (1, 4), "c": (3, 4)}, "d")
    by_time = [weights_of(draw("pcurl", records, 4, iteration=i)) for i in (0, 3, 4, 7, 8, 11)]
    easy = {"a": 0.0, "b": 0.7071, "c": 1.0, "d": 1.0}
    medium, hard = easy | {"c": 0.7071}, {"a": 0.25, "b": 1.0, "c": 0.7071, "d": 1.0}
    assert by_time == [easy, easy, medium, medium, hard, hard]
    doubled = draw("pcurl", records_of({"a": (1, 4)}), 2, stage="medium", tasks="observe_r1")
    assert doubled.weight == pytest.approx((0.75 * half,) * 2)


def test_observe_r1_weights():
    records = records_of({"a": (0, 8), "b": (2, 8), "c": (4, 8)}, "d")
    assert weights_of(draw("observe_r1", records, 4)) == {"a": 0.1, "b": 0.75, "c": 1.0, "d": 1.0}


# -- curricula


def test_self_reflection_marks_what_is_mostly_lost():
    records = records_of({"a": (1, 8), "b": (4, 8)}, "c")
    drawn = draw("self_reflection", records, 3)
    assert dict(zip(drawn.tasks, drawn.options, strict=True)) == {"a": {"reflect": True}, "b": {}, "c": {}}
    assert draw("self_reflection", records, 3, threshold=0.0).options == ()
    assert draw("self_reflection", records_of({"b": (4, 8)}), 1, threshold=0.6).options == ({"reflect": True},)


def test_hardest_narrows_the_pool():
    pool = [f"t{number}" for number in range(10)]
    records, state, drawn = TaskRecords.of(pool), None, []
    for iteration in range(10):
        step = draw("hardest", records, 10, 2, iteration=iteration, total=10, state=state, seed=iteration)
        state = step.state
        drawn.append(step.tasks)
        wins = {task: min(int(task[1:]), 4) for task in pool}  # t0 is never won, t4 to t9 always
        records = records.after([visit(task, wins[task], 4) for task in step.tasks], iteration)
    assert [set(tasks) for tasks in drawn[:2]] == [set(pool)] * 2
    assert [set(tasks) for tasks in drawn[2:6]] == [{"t0", "t1", "t2", "t3"}] * 4
    assert [set(tasks) for tasks in drawn[6:8]] == [{"t0", "t1", "t2"}] * 2
    assert [set(tasks) for tasks in drawn[8:]] == [{"t0", "t1"}] * 2


def test_hardest_goes_by_the_phase_before():
    records = records_of({"a": (0, 8), "b": (8, 8)})
    options = {"shares": [1.0, 0.5], "lengths": [1, 1]}
    first = draw("hardest", records, 2, total=4, iteration=1, **options)
    turned = records.after([visit("a", 8, 8), visit("b", 0, 8)], 1)
    assert draw("hardest", turned, 2, total=4, iteration=2, state=first.state, **options).tasks == ("b", "b")
    assert draw("hardest", turned, 2, total=4, iteration=2, **options).tasks == ("a", "a")  # by all: equal, so by id


@pytest.mark.parametrize(("name", "options"), [("hardest", {}), ("craft_gui", {"column": "none"}), ("levels", {})])
def test_within_a_stage_every_task_comes_before_any_comes_again(name, options):
    pool = [f"t{number}" for number in range(6)]
    steps = run(get_task_rule(name, **options), pool, outcome=always(0.0), count=2, group=2, iterations=60)[:9]
    tasks = [task for step in steps for task in step.tasks]
    assert [sorted(tasks[start : start + 6]) for start in (0, 6, 12)] == [pool] * 3


def test_hardest_takes_what_is_left_of_the_phase_before():
    options = {"shares": [1.0, 0.5, 0.25], "lengths": [1, 1, 1]}
    records = records_of({"a": (0, 8), "b": (1, 8), "c": (4, 8), "d": (8, 8)})
    state = draw("hardest", records, 2, total=3, iteration=0, **options).state
    records = records.after([visit("c", 4, 8), visit("d", 8, 8)], 1)
    second = draw("hardest", records, 2, total=3, iteration=1, state=state, **options)
    assert set(second.tasks) == {"a", "b"}
    records = records.after([visit("a", 8, 8), visit("b", 7, 8)], 2)  # better than "c" by now, which has left
    assert draw("hardest", records, 2, total=3, iteration=2, state=second.state, **options).tasks == ("b", "b")


def test_craft_gui_goes_from_short_to_long():
    lengths = {"a": 2.0, "b": 3.0, "c": 5.0, "d": 12.0}
    records = TaskRecords.of([*lengths, "e"]).after(
        [visit(task, 0, 1, expert_turns=n) for task, n in lengths.items()], 0
    )
    state, stages = None, []
    for iteration in range(8):
        drawn = draw("craft_gui", records, 6, 2, iteration=iteration, total=1000, state=state)
        state = drawn.state
        stages.append(set(drawn.tasks))
        records = records.after([visit(task, 2 if iteration > 1 else 1, 2) for task in drawn.tasks], iteration)
    # success 1/2 does not end a stage; at 0.9^k 0.5 + ... of successes above 0.6 it ends
    assert stages[:3] == [{"a", "b", "e"}] * 3
    assert stages[3] == {"a", "b", "e"}  # 0.55 after the first success of 1
    assert stages[4] == {"a", "b", "e"}  # 0.595
    assert stages[5] == {"c", "e"}  # 0.6355
    assert stages[6] == {"d", "e"}
    assert stages[7] == {"a", "b", "c", "d", "e"}


def test_craft_gui_ends_a_stage_with_its_part_of_the_run_and_passes_over_empty_ones():
    records = TaskRecords.of("ab").after([visit("a", 0, 4, expert_turns=1), visit("b", 0, 4, expert_turns=20)], 0)
    first = draw("craft_gui", records, 2, iteration=0, total=8)
    assert set(first.tasks) == {"a"}
    second = draw("craft_gui", records, 2, iteration=2, total=8, state=first.state)
    assert (set(second.tasks), second.state["stage"]) == ({"b"}, 2)
    assert draw("craft_gui", records, 2, iteration=6, total=8, state=second.state).state["stage"] == 3


def test_levels_move_up_when_the_last_visits_went_well():
    pool = ["tiny/a", "tiny/b", "small/a", "small/b", "large/a"]
    options = {"threshold": 0.75, "visits": 2, "mix": 0.5}
    records = TaskRecords.of(pool)
    first = draw("levels", records, 4, **options)
    assert set(first.tasks) == {"tiny/a", "tiny/b"}
    records = records.after([visit("tiny/a", 8, 8), visit("tiny/b", 3, 8)], 0)
    second = draw("levels", records, 4, state=first.state, **options)
    assert (second.state["level"], second.state["recent"]) == (0, [1.0, 0.375])
    records = records.after([visit("tiny/b", 8, 8)], 1)  # the last two: 3/8 and 1, mean 0.6875
    third = draw("levels", records, 4, state=second.state, **options)
    assert third.state["level"] == 0
    records = records.after([visit("tiny/a", 4, 8)], 2)  # 1 and 1/2: 0.75
    fourth = draw("levels", records, 4, state=third.state, **options)
    assert (fourth.state["level"], fourth.state["recent"]) == (1, [])
    assert {task.partition("/")[0] for task in fourth.tasks[:2]} == {"small"}
    assert {task.partition("/")[0] for task in fourth.tasks[2:]} == {"tiny"}
    lost = records.after([visit("tiny/a", 0, 8), visit("small/a", 0, 8)], 3)
    assert draw("levels", lost, 4, state=fourth.state, **options).state["level"] == 1


def test_levels_stay_on_the_last_and_take_the_order_that_is_asked_for():
    pool = ("hard/a", "easy/a")
    steps = run(get_task_rule("levels", order=["easy", "hard"], visits=1, mix=0.0), pool, outcome=always(1.0), count=2)
    assert [set(step.tasks) for step in steps[:3]] == [{"easy/a"}, {"hard/a"}, {"hard/a"}]
    unordered = run(get_task_rule("levels", visits=1, mix=0.0), pool, outcome=always(1.0), count=2)
    assert [set(step.tasks) for step in unordered[:2]] == [{"hard/a"}, {"easy/a"}]
    for order in (["easy"], ["easy", "hart"], ["easy", "hard", "harder"]):
        with pytest.raises(CurriculumError, match="levels of the pool are 'hard', 'easy'; got the order"):
            draw("levels", TaskRecords.of(pool), 2, order=order)


def test_levels_start_where_they_are_told_to():
    pool = ("easy/a", "fair/a", "hard/a")
    steps = run(get_task_rule("levels", start="fair", visits=1, mix=0.0), pool, outcome=always(1.0), count=2)
    assert [set(step.tasks) for step in steps[:3]] == [{"fair/a"}, {"hard/a"}, {"hard/a"}]
    alone = run(get_task_rule("levels", start="hard", mix=0.0), pool, outcome=always(0.0), count=2)
    assert all(set(step.tasks) == {"hard/a"} for step in alone)
    with pytest.raises(CurriculumError, match="start must be a level of the pool: 'easy', 'fair', 'hard'; got 'heard'"):
        draw("levels", TaskRecords.of(pool), 2, start="heard")


def test_we_math_climbs_and_isolates_what_failed():
    records, state, drawn = TaskRecords.of(["q", "q+image", "q+steps", "q+image+steps"]), None, []
    for wins in (8, 8, 8, 2, 8, 4):
        step = draw("we_math", records, 1, state=state)
        state = step.state
        drawn += step.tasks
        records = records.after([visit(step.tasks[0], wins, 8)], len(drawn))
    # the fourth was lost: it adds "image" to "q+steps", the variant before it
    assert drawn == ["q", "q+image", "q+steps", "q+image+steps", "q+image", "q+image+steps"]
    complete = draw("we_math", records, 9, state=state)
    assert complete.state["rungs"] == {"q": 4}
    assert set(complete.tasks) == set(records.tasks)


def test_we_math_isolates_with_parts_of_the_lost_variant_only():
    """ "q+b+c" adds "b" to "q+a+c"; "q+a+b" has it, but also "a", which was not lost."""
    records, state = TaskRecords.of(["q", "q+a+b", "q+a+c", "q+b+c"]), None
    for iteration, wins in enumerate((8, 8, 8, 0)):
        step = draw("we_math", records, 1, state=state)
        state = step.state
        records = records.after([visit(step.tasks[0], wins, 8)], iteration)
    assert step.tasks == ("q+b+c",)
    assert draw("we_math", records, 1, state=state).tasks == ("q+b+c",)


def test_we_math_repeats_a_lost_base():
    records = records_of({"q": (0, 8)}, "q+s", "r", "s")
    first = draw("we_math", TaskRecords.of(["q", "q+s", "r", "s"]), 2)
    drawn = draw("we_math", records, 1, state=first.state)
    assert drawn.tasks == ("q",)
    assert drawn.state["queue"] == []


def test_mix_asks_each_rule_for_its_share():
    records = records_of({"a": (4, 8), "b": (0, 8), "c": (8, 8)})
    drawn = draw("mix", records, 7, rule="dots", other={"name": "pcurl", "stage": "medium"}, share=0.5)
    assert drawn.tasks[0] == "a"  # the nearest to one half
    assert Counter(drawn.tasks[:3]) == {"a": 1, "b": 1, "c": 1}
    assert drawn.weight[:3] == (1.0, 1.0, 1.0)
    assert dict(zip(drawn.tasks[3:], drawn.weight[3:], strict=True)) == pytest.approx({"a": 1.0, "b": 0.0, "c": 0.0})
    assert draw("mix", records, 7, rule="dots").weight == ()
    marked = draw("mix", records, 4, rule="self_reflection", other="dots", share=0.75)
    assert {"reflect": True} in marked.options
    assert marked.options[3] == {}


def test_streams_of_runs_differ():
    """A rule that leaves the tasks to `uniform` has another order in a run with another seed, and one for each run."""
    pool = [f"t{number}" for number in range(12)]
    streams = {
        tuple(
            task for step in run(get_task_rule("knapsack"), pool, outcome=always(1.0), seed=seed) for task in step.tasks
        )
        for seed in range(3)
    }
    assert len(streams) == 3
    for stream in streams:
        assert [set(stream[start : start + 12]) for start in (0, 12, 24)] == [set(pool)] * 3
    fixed = {"name": "uniform", "seed": 4}
    orders = {run(get_task_rule("v0", tasks=fixed), pool, outcome=always(1.0), seed=seed)[0].tasks for seed in range(3)}
    assert len(orders) == 1


# -- options


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("craft_gui", {"bounds": [8, 3]}, "bounds must be numbers of turns that grow"),
        ("craft_gui", {"bounds": [0.5]}, "bounds must be an integer >= 1, got 0.5"),
        ("craft_gui", {"threshold": 2}, r"threshold must be a number in \[0, 1\], got 2"),
        ("cures", {"tau": 0}, "tau must be a number > 0, got 0"),
        ("cures", {"least": 5, "most": 4}, "most must be an integer >= 5, got 4"),
        ("dots", {"target": -0.1}, "target must be a number in"),
        ("gdro_prompt", {"edges": [0.5, 0.5]}, "edges must be numbers that grow"),
        ("gdro_prompt", {"edges": 0.5}, "edges must be numbers that grow"),
        ("gdro_prompt", {"eta": -1}, "eta must be a number >= 0"),
        ("gdro_rollout", {"closed_form": 1}, "closed_form must be True or False, got 1"),
        ("hardest", {"shares": [0.5]}, "one number for each phase"),
        ("hardest", {"shares": [0.2, 0.5], "lengths": [1, 1]}, "shares must not grow"),
        ("hardest", {"shares": [0.0], "lengths": [1]}, "shares must be a number in"),
        ("knapsack", {"alpha": 1.0}, "alpha must be a number in"),
        ("knapsack", {"tasks": "knapsac"}, "knapsack"),
        ("levels", {"order": "tiny"}, "order must be a list of levels"),
        ("levels", {"order": ["a", "a"]}, "order must be a list of levels"),
        ("levels", {"mix": 1.0}, "mix must be a number in"),
        ("levels", {"visits": 0}, "visits must be an integer >= 1"),
        ("mix", {"rule": {"share": 0.5}}, "a name or a table with a name"),
        ("mix", {"rule": "vadee"}, "vade"),
        ("mix", {"other": {"name": "vade", "gain": "most"}}, "gain must be one of 'hard', 'even', got 'most'"),
        ("mix", {"rule": {"name": "vade", "decay": 1}}, "vade has no option 'decay'"),
        ("mmr1", {"metrics": {"novelty": "much"}}, "novelty"),
        ("observe_r1", {"floor": None}, "floor must be a number in"),
        ("pcurl", {"stage": "late"}, "stage must be one of 'easy', 'medium', 'hard', 'in turn', got 'late'"),
        ("self_reflection", {"threshold": -1}, "threshold must be a number in"),
        ("spo", {"floor": 0.0}, "floor must be a number > 0"),
        ("spo", {"rho": 1.0}, "rho must be a number in"),
        ("uniform", {"sed": 1}, "seed"),
        ("v0", {"solver": "dp"}, "solver must be one of 'optimum', 'greedy', got 'dp'"),
        ("vade", {"gain": "most"}, "gain must be one of 'hard', 'even', got 'most'"),
        ("vspo", {"smooth": "yes"}, "smooth must be True or False"),
        ("we_math", {"mark": ""}, "mark must be a text that is not empty"),
        ("we_math", {"win": 0}, "win must be a number in"),
    ],
)
def test_impossible_options_are_refused_before_the_first_draw(name, options, message):
    with pytest.raises((BadOption, BadSetting), match=message):
        get_task_rule(name, **options)


def test_each_environment_of_a_mixture_goes_through_its_own_levels():
    """Household has two levels and weight 1 + 1, search one part and weight 2: half of the groups each."""
    pool = [f"house/{level}/train/{level}/{k}" for level in ("tiny", "small") for k in "ab"]
    pool += [f"search/train/{k}" for k in "abc"]
    weights = {"house/tiny": 1.0, "house/small": 1.0, "search": 2.0}
    options = {"threshold": 0.75, "visits": 2, "mix": 0.5, "weights": weights}

    def parts(step):
        return sorted({task.rpartition("/train/")[0] for task in step.tasks})

    records = TaskRecords.of(pool)
    first = draw("levels", records, 4, **options)
    assert parts(first) == ["house/tiny", "search"]
    assert sum(task.startswith("search/") for task in first.tasks) == 2
    won = [visit(task, 8, 8) for task in pool if task.startswith("search/")]
    second = draw("levels", records.after(won, 0), 4, state=first.state, **options)
    assert parts(second) == ["house/tiny", "search"]  # what was won elsewhere ends no level here
    won += [visit(task, 8, 8) for task in pool[:2]]
    third = draw("levels", records.after(won, 1), 4, state=second.state, **options)
    assert parts(third) == ["house/small", "house/tiny", "search"]  # one of its two groups is of the level below
    assert third.state["ladders"]["house"]["level"] == 1
    assert third.state["groups"] == {"house": 6, "search": 6}


def test_levels_of_the_only_environment_of_a_mixture_are_told_apart():
    pool = ["house/tiny/train/tiny/a", "house/small/train/small/a"]
    weights = {"house/tiny": 1.0, "house/small": 1.0}
    rule = get_task_rule("levels", visits=1, mix=0.0, weights=weights)
    steps = run(rule, pool, outcome=always(1.0), count=1)
    assert [step.tasks for step in steps[:2]] == [(pool[0],), (pool[1],)]
    with pytest.raises(CurriculumError, match="'house/tiny', 'house/small'; got the order"):
        draw("levels", TaskRecords.of(pool), 1, weights=weights, order=["tiny", "small"])


def test_marks_in_the_name_of_a_level_make_no_ladder():
    pool = [f"house/small+objects=4/train/{k}" for k in "ab"] + ["house/small+objects=4/train/a+steps"]
    step = draw("we_math", TaskRecords.of(pool), 2)
    assert set(step.tasks) == {pool[0], pool[1]}  # two ladders begin, and the variant waits
    assert set(step.state["rungs"]) == {pool[0], pool[1]}


def test_tasks_of_another_part_say_nothing():
    records = TaskRecords.of(["a/x1", "a/x2", "b/x1", "b/x3"])
    filled = from_similar(records, np.array([1.0, np.nan, np.nan, np.nan]), 1.0, {"a": 1.0, "b": 1.0})
    assert filled[:2].tolist() == [1.0, 1.0]
    assert np.isnan(filled[2:]).all()
