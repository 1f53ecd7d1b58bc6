"""Laws of every task template: the expert wins, the exact effects pass, near misses fail, the goal tells enough."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from turncredit.envs.android.tasks.effects import Answer, InsertRow, Shown, UpdateRow
from turncredit.envs.android.tasks.expert import play
from turncredit.envs.android.tasks.judge import Verdict, content, judge
from turncredit.envs.android.tasks.near_misses import Outcome, apply, near_misses, right_outcome
from turncredit.envs.android.tasks.template import HELD_OUT_APPS, PhoneTask, all_templates, make_task
from turncredit.phone import Phone
from turncredit.phone.adb.direct_device import DirectDevice

SEEDS = range(3)
Tasks = dict[tuple[str, int], PhoneTask]
APPS = sorted({template.apps[0] for template in all_templates().values()})


@pytest.fixture(scope="module", params=APPS)
def tasks(request: pytest.FixtureRequest) -> Tasks:
    """The first tasks of the templates that begin in an app; every law leaves their phones as it found them."""
    names = [name for name, template in all_templates().items() if template.apps[0] == request.param]
    return {(name, seed): make_task(name, seed) for name in sorted(names) for seed in SEEDS}


def verdict(task: PhoneTask, first: object, answer: str, gave_up: bool) -> Verdict:
    """Judge the task's phone as it is now."""
    phone: Phone = task.phone
    after = content(phone)
    now = phone.snapshot()
    phone.restore(first)
    before = content(phone, list(after.databases))
    phone.restore(now)
    return judge(before, after, task.effects, answer, gave_up)


def judged(task: PhoneTask, outcome: Outcome) -> Verdict:
    """Apply an outcome to a copy of the task's phone, and judge it."""
    first = task.phone.snapshot()
    apply(task.phone, outcome)
    found = verdict(task, first, outcome.answer, outcome.gave_up)
    task.phone.restore(first)
    return found


def test_the_expert_wins_through_the_screen(tasks: Tasks, subtests: pytest.Subtests) -> None:
    for (name, seed), task in tasks.items():
        with subtests.test(name=name, seed=seed):
            first = task.phone.snapshot()
            apps = {app.name: app.package for app in task.phone.apps.values() if not app.hidden}
            actions = play(task.template, task.params, DirectDevice(task.phone), apps)
            answers = [action.removeprefix("answer ") for action in actions if action.startswith("answer ")]
            found = verdict(task, first, answers[-1] if answers else "", actions[-1] == "infeasible")
            task.phone.restore(first)
            assert found.won, (task.goal, actions, found.reasons)
            assert len(actions) <= task.template.step_limit, (task.goal, actions)


def test_exact_effects_pass_and_near_misses_fail(tasks: Tasks, subtests: pytest.Subtests) -> None:
    for (name, seed), task in tasks.items():
        if seed not in SEEDS[:2]:
            continue
        with subtests.test(name=name, seed=seed):
            right = judged(task, right_outcome(task.effects))
            assert right.won, (task.goal, right.reasons)
            assert right.score == 1.0
            for outcome in near_misses(task.phone, task.effects):
                assert not judged(task, outcome).won, (task.goal, outcome.name)


def test_a_task_is_the_same_each_time_and_its_goal_differs_between_seeds(
    tasks: Tasks, subtests: pytest.Subtests
) -> None:
    for name in sorted({name for name, _ in tasks}):
        with subtests.test(name=name):
            one, two = tasks[name, 1], make_task(name, 1)
            assert (one.goal, one.params, one.phone.state_key()) == (two.goal, two.params, two.phone.state_key())
            assert "{" not in one.goal
            if "{" in one.template.goals[0]:
                others = (tasks[name, seed] if seed in SEEDS else make_task(name, seed) for seed in range(6))
                assert any(other.goal != one.goal for other in others)


def test_the_goal_names_what_the_effects_need(tasks: Tasks, subtests: pytest.Subtests) -> None:
    """Texts that an agent could not know must be in the goal, or on the phone already."""
    for (name, seed), task in tasks.items():
        if seed == 0:
            with subtests.test(name=name):
                names_what_its_effects_need(task)


def names_what_its_effects_need(task: PhoneTask) -> None:
    if any(isinstance(effect, Answer) for effect in task.effects) or len(task.template.apps) > 1:
        return
    goal = " ".join(task.goal.casefold().split())
    for effect in task.effects:
        if isinstance(effect, InsertRow | UpdateRow | Shown):
            for value in effect.values.values():
                if isinstance(value, str) and len(value) > 3 and not value[0].isdigit():
                    words = value.casefold().split()
                    known = all(word in goal for word in words) or _on_the_phone(task.phone, value)
                    assert known, (task.goal, value)


def _on_the_phone(phone: Phone, value: str) -> bool:
    rows = [
        row
        for package in list(phone.state.databases)
        for t in phone.tables(package).tables.values()
        for row in t.rows.values()
    ]
    return any(value in map(str, row.values()) for row in rows)


def test_the_manual_counts_the_templates() -> None:
    text = (Path(__file__).parents[3] / "docs/android.md").read_text(encoding="utf-8")
    templates = all_templates().values()
    uses = Counter(app for template in templates for app in template.apps)
    assert dict(re.findall(r"^\| ([A-Z]\w+) \| .* \| (\d+) \|$", text, re.MULTILINE)) == {
        app: str(count) for app, count in uses.items()
    }
    several = sum(len(template.apps) > 1 for template in templates)
    cannot = sum("infeasible" in template.tags for template in templates)
    assert (
        f"There are {len(templates)} templates; {several} go through several apps, and {cannot} cannot be done" in text
    )
    splits = Counter("apps" if {*t.apps} & {*HELD_OUT_APPS} else t.split for t in templates)
    rows = dict(re.findall(r"^\| `(train|templates|apps)` \| .* \| (\d+) \|$", text, re.MULTILINE))
    assert rows == {"train": str(splits["train"]), "templates": str(splits["held_out"]), "apps": str(splits["apps"])}
