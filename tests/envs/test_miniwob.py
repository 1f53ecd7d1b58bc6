"""MiniWoB++ in a real Chromium: scripted players, the contract, and crashes."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from miniwob_players import PLAYERS, Player
from toys.chromium import need_chromium

from turncredit.envs import EnvironmentDied, UnknownOption, UnknownTask, check_env, env_ids, make
from turncredit.envs.check import Effort
from turncredit.envs.miniwob.catalogue import task_names

pytestmark = pytest.mark.waits


@pytest.fixture(scope="module", autouse=True)
def _chromium() -> None:
    need_chromium(miniwob=True)


@pytest.fixture(scope="module")
def env() -> Iterator[gymnasium.Env[Any, str]]:
    env = make("turncredit/MiniWoB-v0", max_episode_steps=-1)
    yield env
    env.close()


def play(env: gymnasium.Env[Any, str], task: str, player: Player) -> tuple[Any, ...]:
    """Play an episode to its end; return the last answer."""
    seen, _ = env.reset(seed=0, options={"task": task})
    actions = player(seen)
    action = next(actions)
    while True:
        answer = env.step(action)
        if answer[2]:
            return answer
        action = actions.send(answer[0])  # type: ignore[attr-defined]


SPLITS = [(name, "train") for name in sorted(PLAYERS)] + [(name, "held_out") for name in ("click-link", "enter-text")]


def test_the_reward_of_a_wrong_click_may_be_zero() -> None:
    rewards = {}
    for reward in ("page", "score"):
        env = make("turncredit/MiniWoB-click-test-2-v0", reward=reward)
        try:
            seen, _ = env.reset(seed=0)
            wrong = next(line.split("]")[0].strip(" [") for line in seen.splitlines() if '"TWO"' in line)
            _, rewards[reward], terminated, _, info = env.step(f"click[{wrong}]")
        finally:
            env.close()
        assert (terminated, info["won"], info["score"]) == (True, False, 0.0)
    assert rewards == {"page": -1.0, "score": 0.0}


@pytest.mark.parametrize(("name", "split"), SPLITS)
def test_players_that_read_the_page_win(name: str, split: str) -> None:
    env = make(f"turncredit/MiniWoB-{name}-v0", split=split)
    try:
        task = env.get_wrapper_attr("task_ids")(5)[4]
        _, reward, terminated, _, info = play(env, task, PLAYERS[name])
    finally:
        env.close()
    assert (reward, terminated, info["won"], info["score"], info["valid"]) == (1.0, True, True, 1.0, True)
    assert (info["task"], info["task_type"]) == (task, name)


def test_a_wrong_click_ends_with_the_page_s_own_reward(env: gymnasium.Env[Any, str]) -> None:
    env.reset(options={"task": "train/choose-list/000001"})
    _, reward, terminated, _, info = env.step("click[e2]")
    assert (reward, terminated, info["won"], info["score"]) == (-1.0, True, False, 0.0)


def test_every_task_has_an_id(env: gymnasium.Env[Any, str]) -> None:
    ids = env_ids()
    assert len(task_names()) >= 128
    assert [name for name in task_names() if f"turncredit/MiniWoB-{name}-v0" not in ids] == []
    found = env.get_wrapper_attr("task_ids")()
    assert (len(found), len(set(found))) == (1000, 1000)
    assert {task.split("/")[1] for task in found} == set(task_names())


def test_instances_follow_from_their_number(env: gymnasium.Env[Any, str]) -> None:
    ids = [f"train/enter-text/{number:06d}" for number in (0, 1, 0)]
    first, second, again = (env.reset(seed=seed, options={"task": task}) for seed, task in enumerate(ids))
    assert first == again
    assert first[0] != second[0]


def test_the_state_is_what_is_shown(env: gymnasium.Env[Any, str]) -> None:
    _, start = env.reset(options={"task": "train/click-checkboxes/000000"})
    box = next(action for action in start["admissible_actions"] if action.startswith("click"))
    seen = [env.step(action)[4]["state"] for action in ("nonsense", box, box)]
    assert seen[0] == start["state"]
    assert seen[1] != start["state"]


def test_screenshots_are_observed_where_that_is_asked_for() -> None:
    env = make("turncredit/MiniWoB-click-button-v0", screenshot=True, render_mode="rgb_array")
    observation, _ = env.reset(seed=0)
    assert observation in env.observation_space
    assert (observation["image"].shape, observation["image"].dtype) == ((210, 160, 3), np.uint8)
    assert len(np.unique(observation["image"][:50].reshape(-1, 3), axis=0)) > 2  # the sentence is in the image
    assert np.array_equal(env.render(), observation["image"])  # type: ignore[arg-type]
    env.close()


def test_an_episode_goes_on_after_pickling() -> None:
    env = make("turncredit/MiniWoB-enter-text-v0")
    seen, _ = env.reset(seed=3)
    actions = list(PLAYERS["enter-text"](seen))
    env.step(actions[0])
    again = pickle.loads(pickle.dumps(env))
    env.close()
    assert again.step(actions[1])[1] == 1.0
    again.close()


def test_a_dead_browser_ends_the_episode_and_not_the_environment() -> None:
    from turncredit.tools.browser import shared_browser

    env, other = make("turncredit/MiniWoB-click-button-v0"), make("turncredit/MiniWoB-click-link-v0")
    env.reset(seed=0)
    other.reset(seed=0)
    pid = shared_browser().pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    for lost in (env, other):
        for _ in range(2):
            with pytest.raises(EnvironmentDied, match="this episode is lost"):
                lost.step("wait[]")
    assert env.reset(seed=0)[1]["task"]
    assert env.step("wait[]")[4]["valid"]
    env.close()
    other.close()
    assert shared_browser().open_contexts == 0


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"task": "click-buton"}, "did you mean 'click-button'"),
        ({"task": 7}, "unknown MiniWoB\\+\\+ task 7|must be the name of a task"),
        ({"task": []}, "non-empty list"),
        ({"deadline": "x"}, "number of seconds"),
        ({"deadline": 0}, "> 0"),
        ({"split": "test"}, "unknown split 'test'"),
        ({"budget": 5}, "budget must be an integer >= 100"),
        ({"screenshot": "yes"}, "True or False"),
        ({"render_mode": "text"}, "render_mode"),
    ],
)
def test_values_that_cannot_be_used_are_named(kwargs: dict[str, Any], words: str) -> None:
    with pytest.raises(UnknownOption, match=words):
        make("turncredit/MiniWoB-v0", **kwargs)


@pytest.mark.parametrize("task", ["", "train/click-button/1", "held_out/click-button/000001", "train/none/000001", 3])
def test_unknown_instances_are_refused(task: Any) -> None:
    env = make("turncredit/MiniWoB-click-button-v0")
    with pytest.raises(UnknownTask, match=r"unknown task|must be an id"):
        env.reset(options={"task": task})


def test_the_contract_is_kept() -> None:
    effort = Effort(
        walks=1, turns=3, pairs=1, states=1, depth=1, continuations=1, search=4, long=0, plans=1, contents=2
    )
    report = check_env(
        "turncredit/MiniWoB-click-tab-2-v0", kwargs={"max_episode_steps": 3}, tasks=1, effort=effort, level="runtime"
    )
    assert report.ok, report
