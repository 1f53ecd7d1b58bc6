"""Laws of all task rules, with their defaults, with every choice of every option, and with some others."""

from __future__ import annotations

import dataclasses
import json
import random
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys.task_pools import POOL, always, chance, run, stored, visits_of

from turncredit.curriculum import TaskDraw, TaskRecords
from turncredit.curriculum.draws import TaskRule
from turncredit.curriculum.task_rules.catalogue import CATALOGUE, get_task_rule
from turncredit.training.run_folder.state_json import to_json

LEVELS = {"order": ["tiny", "small"]}
MORE: list[tuple[str, dict[str, Any]]] = [
    ("craft_gui", {"bounds": [2, 5, 9], "threshold": 0.3}),
    ("cures", {"tau": 0.01, "least": 1, "most": 5}),
    ("dots", {"temperature": 1.0, "target": 0.2}),
    ("gdro_prompt", {"column": "loss", "edges": [0.5], "margin": 0.0}),
    ("gdro_rollout", {"column": "loss", "edges": [0.5]}),
    ("hardest", {"shares": [0.5, 0.1], "lengths": [1, 3]}),
    ("knapsack", {"most": 5, "tasks": {"name": "spo", "floor": 0.2}}),
    ("levels", {"order": ["small", "tiny"], "threshold": 0.3, "visits": 3, "mix": 0.5}),
    ("levels", {"order": ["tiny", "small"], "start": "small"}),
    ("mix", {"rule": "cures", "other": {"name": "pcurl", "stage": "hard"}, "share": 0.3}),
    ("mix", {"rule": {"name": "mix", "rule": "knapsack", "other": "self_reflection"}, "share": 1.0}),
    ("mmr1", {"metrics": {"novelty": -0.5}, "mu": 0.5, "share": 0.8}),
    ("mmr1", {"probe": 2}),
    ("observe_r1", {"tasks": {"name": "gdro_prompt"}}),
    ("pcurl", {"tasks": "knapsack"}),
    ("self_reflection", {"tasks": "vspo", "threshold": 0.9}),
    ("spo", {"rho": 0.0}),
    ("uniform", {"seed": 5}),
    ("v0", {"most": 5, "least": 3}),
    ("vade", {"local_decay": 0.0, "global_decay": 1.0}),
    ("vspo", {"best": 2.0, "tasks": "dots"}),
    ("we_math", {"win": 1.0}),
]


def cases() -> list[tuple[str, dict[str, Any]]]:
    """The defaults of each rule, and each other value of an option with choices."""
    listed: list[tuple[str, dict[str, Any]]] = []
    for rule in CATALOGUE:
        fixed = LEVELS if rule.name == "levels" else {}  # else its levels are in the order of the pool
        listed.append((rule.name, fixed))
        hints = get_type_hints(rule.function)
        for option, default in rule.options.items():
            values = get_args(hints[option]) if get_origin(hints[option]) is Literal else ()
            values = (True, False) if hints[option] is bool else values
            listed += [(rule.name, {option: value, **fixed}) for value in values if value != default]
    return listed + MORE


CASES = cases()
every_case = pytest.mark.parametrize(("name", "options"), CASES, ids=[f"{n}-{json.dumps(o)}" for n, o in CASES])
seeds = st.integers(0, 10_000)
SOME = settings(max_examples=3, deadline=None)


def facts(draw: TaskDraw) -> dict[str, Any]:
    return dataclasses.asdict(draw) | {"state": to_json(draw.state)}


def facts_of(draws: list[TaskDraw]) -> list[dict[str, Any]]:
    return [facts(draw) for draw in draws]


def check(rule: TaskRule, draws: list[TaskDraw], pool: tuple[str, ...], count: int, group: int) -> None:
    for draw in draws:
        assert len(draw.tasks) == count
        assert sum(draw.episodes) == count * group, (rule.name, draw.episodes)
        assert set(draw.tasks) <= set(pool)
        assert np.isfinite(draw.weight).all()
        assert all(type(size) is int for size in draw.episodes)
        assert all(type(weight) is float for weight in draw.weight)


def test_there_are_cases_of_every_rule():
    assert {name for name, _ in CASES} == {rule.name for rule in CATALOGUE}
    assert len(CATALOGUE) == 19
    assert {name for name, _ in MORE} == {rule.name for rule in CATALOGUE}


@every_case
@given(seed=seeds, count=st.integers(1, 30), group=st.integers(1, 9), late=st.integers(0, 3))
@SOME
def test_the_budget_is_kept_and_every_task_is_in_the_pool(name, options, seed, count, group, late):
    rule = get_task_rule(name, **options)
    draws = run(rule, outcome=chance(seed), count=count, group=group, iterations=6, seed=seed, late=late)
    check(rule, draws, POOL, count, group)


@every_case
def test_edges(name, options):
    """Pools of one, two and few tasks, groups of one, one group; all won, all lost, never played."""
    rule = get_task_rule(name, **options)
    for pool in (("tiny/a", "small/b"), ("small/b", "tiny/a", "tiny/a+s"), POOL):
        for count, group in ((1, 1), (1, 8), (7, 1), (40, 3)):
            for outcome in (always(1.0), always(-0.3), chance(1)):
                check(
                    rule, run(rule, pool, outcome=outcome, count=count, group=group, iterations=3), pool, count, group
                )
    single = get_task_rule(name, **{key: value for key, value in options.items() if key != "order"})
    check(single, run(single, ("a",), outcome=chance(2), count=3, group=4), ("a",), 3, 4)


@pytest.mark.parametrize(("name", "options"), [case for case in CASES if case[0] != "uniform"])
@given(seed=seeds)
@SOME
def test_the_order_of_the_pool_decides_nothing(name, options, seed):
    """But for `uniform`, a stream over the pool in its order, as in runs before there were rules."""
    rule = get_task_rule(name, **options)
    turned = random.Random(seed).sample(POOL, len(POOL))
    plain = run(rule, outcome=chance(seed), seed=seed)
    assert facts_of(run(rule, turned, outcome=chance(seed), seed=seed)) == facts_of(plain)


@every_case
@given(seed=seeds)
@SOME
def test_the_same_call_draws_the_same_and_changes_nothing(name, options, seed):
    rule = get_task_rule(name, **options)
    records, state = TaskRecords.of(POOL), None
    outcome = chance(seed)
    for iteration in range(5):
        before = json.dumps([to_json(records.state()), to_json(state)])
        first, second = (
            rule(
                records,
                count=5,
                group=4,
                iteration=iteration,
                total=5,
                rng=np.random.default_rng([seed, iteration]),
                state=state,
            )
            for _ in range(2)
        )
        assert facts(first) == facts(second)
        assert json.dumps([to_json(records.state()), to_json(state)]) == before
        records, state = records.after(visits_of(first, outcome, seed), iteration), first.state


@every_case
@given(seed=seeds)
@SOME
def test_a_run_that_is_resumed_goes_on_as_it_would_have(name, options, seed):
    rule = get_task_rule(name, **options)
    plain = run(rule, outcome=chance(seed), seed=seed)
    resumed = run(rule, outcome=chance(seed), seed=seed, interrupted=True)
    assert facts_of(resumed) == facts_of(plain)
    assert to_json(stored(plain[-1].state)) == to_json(plain[-1].state)


@every_case
def test_another_random_number_draws_something_else_or_the_rule_draws_none(name, options):
    rule = get_task_rule(name, **options)
    draws = {tuple(d.tasks for d in run(rule, outcome=chance(1), seed=seed)) for seed in range(4)}
    assert len(draws) == (1 if name == "uniform" else 4)
