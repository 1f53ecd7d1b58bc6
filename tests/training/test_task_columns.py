"""Columns of tasks that an iteration writes, and what task rules make of them: tables by hand, and runs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from test_training_loop import lines, make_run
from toys.training_helpers import trajectory, turn

from turncredit.agents.steps import steps_of
from turncredit.agents.trajectory import Group
from turncredit.credit.advantages import Advantages
from turncredit.curriculum import TaskRecords, Visit
from turncredit.curriculum.inner_rule import columns_of
from turncredit.curriculum.similar_tasks import from_similar
from turncredit.curriculum.task_rules.catalogue import get_task_rule
from turncredit.training import train
from turncredit.training.batch.batch import Batch, pack
from turncredit.training.tasks.task_columns import task_columns


def batch_of(*groups: tuple[str, list[tuple[int, float]]]) -> Batch:
    """Groups of episodes of one turn: (task, (tokens, advantage) of each)."""
    made = []
    for task, members in groups:
        turns = [[turn((1,), (2,) * size)] for size, _ in members]
        made.append(
            Group(task, tuple(trajectory(turns[k], name=f"{task}#{k}@0", task=task) for k in range(len(members))))
        )
    values = np.array([advantage for _, members in groups for _, advantage in members])
    return pack(made, Advantages.of(steps_of(made), values))


def test_the_loss_of_a_task_is_the_mean_over_the_tokens_of_its_episodes() -> None:
    """(-2 * 1 + 6 * 1) / 8 = .5; an advantage of 9 counts as 5; the factor of a draw is taken out again."""
    batch = batch_of(("a", [(2, 1.0), (6, -1.0)]), ("b", [(1, 9.0), (1, -1.0)]), ("c", [(2, 3.0), (2, 1.0)]))
    steps = steps_of([Group("x", ())])
    losses = task_columns({"loss"}, steps, batch, ["a", "b", "c"], [1.0, 1.0, 2.0])
    assert losses == {"loss": {"a": 0.5, "b": -2.0, "c": -1.0}}
    assert task_columns({"loss"}, steps, batch, ["a", "b", "c"], [1.0, 0.0, 1.0])["loss"].keys() == {"a", "c"}
    assert task_columns({"value"}, steps, batch, ["a", "b", "c"], [1.0] * 3) == {}


def test_columns_are_those_of_first_turns() -> None:
    """The mean over episodes, and not over turns; words and vectors are no numbers of a task."""
    extras = [
        [{"value": 0.25, "label": "x", "metric": (1.0, 2.0)}, {"value": 9.0, "label": "x", "metric": (1.0, 2.0)}],
        [{"value": 0.75, "label": "y", "metric": (1.0, 2.0)}],
    ]
    members = [
        trajectory([turn((1,), (2,)) for _ in columns], name=f"a#{number}@0", task="a")
        for number, columns in enumerate(extras)
    ]
    for member, columns in zip(members, extras, strict=True):
        for played, values in zip(member.turns, columns, strict=True):
            played.extras.update(values)
    groups = [Group("a", tuple(members)), Group("a", (trajectory([turn((1,), (2,))], name="a#2@0", task="a"),))]
    groups[1].trajectories[0].turns[0].extras.update({"value": 0.125, "label": "z", "metric": (0.0, 0.0)})
    told = task_columns({"value", "label", "metric"}, steps_of(groups[:1]), batch_of(), ["a"], [1.0])
    assert told == {"value": {"a": 0.5}}
    twice = task_columns({"value"}, steps_of(groups), batch_of(), ["a", "a"], [1.0, 1.0])
    assert twice == {"value": {"a": 0.125}}  # of two groups the last one's


def test_which_columns_a_rule_reads() -> None:
    assert columns_of(get_task_rule("uniform")) == set()
    assert columns_of(get_task_rule("gdro_prompt")) == set()
    assert columns_of(get_task_rule("gdro_prompt", column="loss")) == {"loss"}
    assert columns_of(get_task_rule("mix", rule="dots", other={"name": "v0", "column": "p"})) == {"difficulty", "p"}
    assert columns_of(get_task_rule("knapsack", tasks={"name": "mmr1", "metrics": {"bleu": 0.2}})) == {"bleu"}


def played(**success: tuple[int, int]) -> TaskRecords:
    """Records of tasks that were played once: (wins, episodes)."""
    records = TaskRecords.of(sorted(success))
    visits = [
        Visit(task, (1.0,) * wins + (0.0,) * (episodes - wins), wins) for task, (wins, episodes) in success.items()
    ]
    return records.after([visit for visit in visits if visit.rewards], 0)


def test_gdro_weighs_by_the_losses_that_were_written() -> None:
    """Shares .25, .5, .25 of the episodes and mean losses .25, 0, -.25: scores 1, 0, -1, and the weights of the paper.

    Bins by visits with a winner: 0 of 1 is the first, 1 of 1 the last; a window of several visits lies between.
    """
    records = played(a=(0, 4), b=(0, 4), c=(0, 4), d=(1, 4))
    records = records.after([Visit(task, (1.0, 0.0, 0.0, 0.0), 1) for task in "bc"], 1)
    rule = get_task_rule("gdro_prompt", column="loss", margin=0.0, edges=[0.4, 0.9])
    start = {"count": 4, "group": 4, "total": 9, "rng": np.random.default_rng(0)}
    first = rule(records, iteration=2, **start)  # the bins of a, (b, c) and d
    visits = [
        Visit(task, (1.0,) * won + (0.0,) * (4 - won), won) for task, won in zip("abcd", (0, 1, 1, 2), strict=True)
    ]
    later = records.after(visits, 2).noted({"loss": {"a": 0.25, "b": 0.125, "c": -0.125, "d": -0.25}})
    state = {**first.state, "scores": np.full(3, np.nan)}  # type: ignore[dict-item]
    draw = rule(later, iteration=3, state=state, **start)
    assert draw.state["scores"].tolist() == pytest.approx([1.0, 0.0, -1.0])  # type: ignore[index]
    weights = dict(zip(draw.tasks, draw.weight, strict=True))
    expected = {"a": 1.7191, "b": 0.9024, "c": 0.9024, "d": 0.476}
    assert {task: round(weight, 4) for task, weight in weights.items()} == expected


def test_v0_sizes_groups_by_the_values_that_were_written() -> None:
    """p = .25, .5, .75 and 24 episodes: the optimum of the paper's utility is 20, 2, 2."""
    records = TaskRecords.of("abc").noted({"value": {"a": 0.25, "b": 0.5, "c": 0.75}})
    draw = get_task_rule("v0")(records, count=3, group=8, iteration=0, total=9, rng=np.random.default_rng(0))
    assert dict(zip(draw.tasks, draw.episodes, strict=True)) == {"a": 20, "b": 2, "c": 2}


def test_dots_draws_the_tasks_of_the_difficulty_that_was_written() -> None:
    records = TaskRecords.of("abcd").noted({"difficulty": {"a": 0.9, "b": 0.52, "c": 0.1, "d": 0.45}})
    draw = get_task_rule("dots")(records, count=2, group=4, iteration=0, total=9, rng=np.random.default_rng(0))
    assert draw.tasks == ("b", "d")


def test_tasks_that_were_never_played_are_like_others() -> None:
    """By hand: cosines of 1 and 0 at temperature 1 weigh e / (e + 1) and 1 / (e + 1)."""
    records = TaskRecords.of(["aaaa", "aaaaa", "zzzz"])
    filled = from_similar(records, np.array([1.0, np.nan, 0.0]), 1.0)
    assert filled.tolist() == pytest.approx([1.0, np.e / (np.e + 1), 0.0])
    nearest = from_similar(records, np.array([1.0, np.nan, 0.0]), 1e-3)
    assert nearest[1] == pytest.approx(1.0)
    nothing = np.full(3, np.nan)
    assert np.isnan(from_similar(records, nothing, 1.0)).all()


def test_the_references_are_those_that_were_played_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turncredit.curriculum.similar_tasks.REFERENCES", 1)
    records = played(aaa=(0, 2), aab=(2, 2), aac=(0, 0)).after([Visit("aaa", (0.0,), 0)], 5)
    assert from_similar(records, records.success, 1.0)[2] == 0.0


def test_dots_predicts_from_tasks_that_are_alike() -> None:
    """Hard ones are lost, easy ones won half of the time: those like the easy ones come first."""
    records = played(easy1=(2, 4), hard1=(0, 4), easy2=(0, 0), hard2=(0, 0))
    args = {"iteration": 1, "total": 9}
    draw = get_task_rule("dots", similar=0.01)(records, count=2, group=4, rng=np.random.default_rng(0), **args)
    assert set(draw.tasks) == {"easy1", "easy2"}
    blind = get_task_rule("dots")(records, count=3, group=4, rng=np.random.default_rng(0), **args)
    assert set(blind.tasks) == {"easy1", "easy2", "hard2"}


@pytest.mark.parametrize(
    ("words", "column"),
    [
        (('sampling.tasks={name="gdro_prompt", column="loss"}',), "loss"),
        (('sampling.tasks={name="gdro_rollout", column="loss"}',), "loss"),
        (("sampling.tasks=v0", "train.forks.values=1", "credit.method=vine"), "value"),
        (
            (
                'sampling.tasks={name="dots", column="judge"}',
                'sampling.annotators=[{name="judge", column="judge"}]',
                'sampling.judge="toys.judges:make_judge"',
            ),
            "judge",
        ),
    ],
    ids=["prompt", "rollout", "values", "judge"],
)
def test_runs_write_what_their_task_rule_reads(tmp_path: Path, words: tuple[str, ...], column: str) -> None:
    plain = ("evaluation.episodes=0", "train.iterations=4", "env.kwargs={lengths=[3], kinds=['open']}")
    train(make_run(tmp_path / "whole", *plain, *words))
    entries = [json.loads(path.read_text())["groups"] for path in sorted((tmp_path / "whole/sampling").glob("*.json"))]
    seen = set[str]()
    for groups in entries:
        for group in groups:
            assert (column in group["record"]) == (group["task"] in seen)
        seen |= {group["task"] for group in groups}
    assert any(group["record"].get(column) for groups in entries for group in groups)
    assert all(np.isfinite(event["loss"]) for event in lines(tmp_path / "whole") if event["phase"] == "train")
