"""The expert of MiniWoB++ in a real Chromium: it wins by names and by points, from the middle too, or says why not."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from toys.chromium import need_chromium

from turncredit.envs import EnvError, NoExpert, NotReset, UnknownOption, make
from turncredit.envs.miniwob.catalogue import task_names
from turncredit.envs.miniwob.experts import EXPERTS
from turncredit.envs.miniwob.parts import Unsolvable

pytestmark = pytest.mark.waits

Pages = gymnasium.Env[Any, str]

POINTS = {"screenshot": "only", "points": [100, 100]}
EXAMPLE = tomllib.loads((Path(__file__).parents[2] / "examples/miniwob.toml").read_text("utf-8"))["env"]["kwargs"][
    "task"
]


@pytest.fixture(scope="module", autouse=True)
def _chromium() -> None:
    need_chromium(miniwob=True)


@pytest.fixture(scope="module")
def env() -> Iterator[Pages]:
    env = make("turncredit/MiniWoB-v0", task=list(EXPERTS), reload=False, max_episode_steps=-1)
    yield env
    env.close()


@pytest.fixture(scope="module")
def pointing() -> Iterator[Pages]:
    env = make("turncredit/MiniWoB-v0", task=list(EXPERTS), reload=False, max_episode_steps=-1, **POINTS)
    yield env
    env.close()


def plan(env: Pages) -> list[str]:
    result: list[str] = env.get_wrapper_attr("plan")()
    return result


def wins(env: Pages, task: str, *before: str) -> list[str]:
    """Check that the plan wins after some actions; return the plan."""
    env.reset(seed=0, options={"task": task})
    for action in before:
        assert not env.step(action)[2]
    actions = plan(env)
    answers = [env.step(action) for action in actions]
    assert all(info["valid"] for *_, info in answers)
    assert answers[-1][1] == 1.0, (task, actions)
    assert answers[-1][4]["won"]
    assert plan(env) == []
    return actions


@pytest.mark.parametrize("name", EXPERTS)
def test_the_expert_wins_by_names_and_by_points(name: str, env: Pages, pointing: Pages) -> None:
    for number in range(4):
        task = f"train/{name}/{number:06d}"
        wins(env, task)
        if number < 2:  # pictures take longest
            assert not any(re.match(r"(click|type)\[e\d", action) for action in wins(pointing, task))


def test_the_expert_wins_where_pages_have_separate_data() -> None:
    env = make("turncredit/MiniWoB-v0", task=["click-test-transfer", "click-checkboxes-transfer"], split="held_out")
    for task in env.get_wrapper_attr("task_ids")(4):
        wins(env, task)
    env.close()


def first(env: Pages, name: str, accept: Callable[[str], bool]) -> str:
    """Return the first instance of a task whose observation is accepted."""
    tasks = (f"train/{name}/{number:06d}" for number in range(50))
    return next(task for task in tasks if accept(env.reset(options={"task": task})[0]))


def test_the_expert_goes_on_from_the_middle(env: Pages) -> None:
    entered = wins(env, "train/enter-text/000000")
    assert [action.split("[")[0] for action in entered] == ["type", "click"]
    assert wins(env, "train/enter-text/000000", entered[0]) == entered[1:]
    wrong = entered[0].replace(", ", ", not ")
    assert wins(env, "train/enter-text/000000", wrong) == entered

    some = first(env, "click-checkboxes", lambda seen: "Select nothing" not in seen)
    ticked = wins(env, some)
    assert wins(env, some, ticked[0]) == ticked[1:]
    assert wins(env, some, ticked[0], ticked[0]) == ticked

    opened = wins(env, "train/click-collapsible/000001")
    assert wins(env, "train/click-collapsible/000001", opened[0])[-1] == opened[-1]


def test_by_points_a_field_with_text_is_selected_before_it_is_typed_into(pointing: Pages) -> None:
    empty = wins(pointing, "train/enter-text/000003")
    assert [action.split("[")[0] for action in empty] == ["click", "write", "click"]
    filled = wins(pointing, "train/enter-text/000003", empty[0], "write[no]")
    assert filled == [empty[0], "press[Control+a]", *empty[1:]]


def test_a_click_on_a_covered_button_is_one_beside_the_cover(env: Pages) -> None:
    covered = first(env, "click-test-2", lambda seen: '"ONE" (covered)' in seen)
    (action,) = wins(env, covered)
    assert "," in action  # a point, since its name is refused


def test_it_is_said_where_there_is_no_way(env: Pages) -> None:
    task = "train/click-button-sequence/000000"
    sequence = wins(env, task)
    env.reset(options={"task": task})
    env.step(sequence[1])
    with pytest.raises(Unsolvable, match="wrong button was clicked first"):
        plan(env)
    env.step(sequence[1])
    with pytest.raises(Unsolvable, match="has ended with the reward -1"):
        plan(env)


def test_tasks_without_an_expert_say_so() -> None:
    env = make("turncredit/MiniWoB-count-sides-v0")
    with pytest.raises(NotReset):
        plan(env)
    env.reset(seed=0)
    with pytest.raises(NoExpert, match="'count-sides' has no expert; these have: click-test, "):
        plan(env)
    env.close()
    assert set(EXPERTS) < set(task_names())


def test_planning_changes_nothing(env: Pages) -> None:
    for name in ("click-collapsible", "click-tab-2", "enter-text"):
        task = f"train/{name}/000002"
        _, before = env.reset(options={"task": task})
        plan(env)
        assert env.step("wait[]")[4]["state"] == before["state"]


def test_a_page_that_is_started_again_is_the_page_that_is_loaded_anew() -> None:
    """Up to the smoothing of rounded corners, which also differs between two pages that are loaded anew."""
    tasks = [f"train/{name}/{number:06d}" for number in range(3) for name in EXAMPLE]
    env, again = (
        make("turncredit/MiniWoB-v0", task=EXAMPLE, screenshot=True, reload=reload) for reload in (True, False)
    )
    for task in tasks:
        seen, info = env.reset(options={"task": task})
        seen_again, info_again = again.reset(options={"task": task})
        assert seen["text"] == seen_again["text"]
        assert info["state"] == info_again["state"]
        differences = np.abs(seen["image"].astype(int) - seen_again["image"]).max(axis=-1)
        assert differences.max() <= 1, task
        assert np.count_nonzero(differences) <= 4, task
        for action in plan(again)[: 1 + int(task[-1])]:
            again.step(action)
    env.close()
    again.close()


def test_an_episode_goes_on_where_a_kept_page_died() -> None:
    from turncredit.tools.browser import shared_browser

    env = make("turncredit/MiniWoB-focus-text-v0", reload=False)
    wins(env, "train/focus-text/000000")
    env.close()  # keeps the page
    shared_browser().close()
    wins(env, "train/focus-text/000000")
    env.close()
    with pytest.raises(UnknownOption, match="reload must be True or False"):
        make("turncredit/MiniWoB-v0", reload=1)


def test_an_error_of_planning_is_one_of_environments() -> None:
    assert issubclass(Unsolvable, EnvError)
