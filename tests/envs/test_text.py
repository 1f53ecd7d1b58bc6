"""What all text environments do alike: tried on a small one of the test's own, and on ours."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turncredit.envs import (
    BadSnapshot,
    HasSnapshot,
    NotReset,
    SavableEnv,
    StepAfterEnd,
    TextEnv,
    UnknownOption,
    UnknownTask,
    check_env,
)
from turncredit.envs.bash import BashEnv
from turncredit.envs.code import CodeEnv
from turncredit.envs.household import HouseholdEnv
from turncredit.envs.search import SearchEnv
from turncredit.envs.search.sources import GeneratedQuestions
from turncredit.envs.shop.env import WebShopEnv
from turncredit.envs.shop.sources import GeneratedProducts
from turncredit.envs.snapshot import Fields, pack
from turncredit.envs.toolenv import ToolEnv


class Stairs(SavableEnv):
    """Climb so many stairs; task "3" has three of them. With the option "from", some are climbed already."""

    SNAPSHOT_FORMAT = ("Stairs", 1)
    RESET_OPTIONS = ("task", "from")
    EXAMPLE_ACTION = "up"

    def __init__(self, tallest: int = 5, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.tallest = tallest
        self.at = 0

    def list_tasks(self, count: int | None) -> list[str]:
        return [str(number) for number in range(1, self.tallest + 1)][:count]

    def start_task(self, task: str, options: Mapping[str, Any]) -> str:
        self.top = self._top(task)
        self.at = options.get("from", 0)
        return f"There are {self.top} stairs."

    def _top(self, task: str) -> int:
        if task not in self.list_tasks(None):
            raise UnknownTask.of(task, self.list_tasks(None), "these stairs")
        return int(task)

    def take_action(self, action: str) -> tuple[str, float, bool]:
        step = {"up": 1, "down": -1}.get(action, 0)
        if not step or self.at + step < 0:
            return "Nothing happens.", 0.0, False
        self.at += step
        return f"You are on stair {self.at}.", float(self.at == self.top), True

    def is_over(self) -> bool:
        return self.at == self.top

    def get_info(self, valid: bool) -> dict[str, Any]:
        won = self.is_over()
        actions = [] if won else ["up", *(["down"] if self.at else [])]
        known = {"task": self.task_id, "state": f"at={self.at}", "admissible_actions": actions}
        return known | {"valid": valid, "score": float(won), "won": won}

    def snapshot_arguments(self) -> dict[str, Any]:
        return {"tallest": self.tallest}

    def save_episode(self) -> dict[str, Any]:
        return {"at": self.at}

    def load_episode(self, task: str, saved: Fields) -> None:
        top, at = self._top(task), saved.get("at", int)
        if not 0 <= at <= top:
            raise saved.wrong("at", f"a stair from 0 to {top}")
        self.top, self.at = top, at


def tools() -> ToolEnv[str, None]:
    return ToolEnv("Say yes.", start=lambda task: None, tools=[], check=lambda world, answer: answer == "yes")


OURS: dict[str, Callable[[], TextEnv]] = {
    "stairs": Stairs,
    "household": lambda: HouseholdEnv(level="tiny"),
    "shop": lambda: WebShopEnv(GeneratedProducts(level="tiny")),
    "search": lambda: SearchEnv(GeneratedQuestions(level="tiny")),
    "code": lambda: CodeEnv(level="tiny"),
    "bash": lambda: BashEnv(level="tiny"),
    "tools": tools,
}


def test_a_small_environment_keeps_the_contract():
    assert check_env(Stairs).ok


@pytest.mark.parametrize("kind", OURS)
def test_what_makes_no_sense_is_refused_in_every_environment(kind: str):
    env = OURS[kind]()
    assert isinstance(env, gymnasium.Env)
    with pytest.raises(NotReset):
        env.step("look")
    with pytest.raises(UnknownTask, match=r"task must be an id \(str\), got 5"):
        env.reset(options={"task": 5})
    with pytest.raises(UnknownOption, match="unknown reset option 'tsk'"):
        env.reset(options={"tsk": "x"})
    with pytest.raises(UnknownOption, match=r"reset options must be a mapping"):
        env.reset(options=["task"])  # type: ignore[arg-type]
    for count in (-1, 1.0, True):
        with pytest.raises(UnknownOption, match="count must be an integer >= 0, got "):
            env.task_ids(count)  # type: ignore[arg-type]
    assert env.task_ids(0) == []
    with pytest.raises(NotReset):  # none of that has begun an episode
        env.step("look")
    _, info = env.reset(seed=0)
    with pytest.raises(UnknownOption, match=r"action must be a str such as .*, got int"):
        env.step(3)  # type: ignore[arg-type]
    assert env.reset(options={"task": info["task"]})[1] == info
    with pytest.raises(UnknownOption, match="unknown render_mode 'human'"):
        type(env).__init__(env, *([{}, None, None, None] if kind == "tools" else []), render_mode="human")
    env.close()


def test_an_episode_from_its_start_to_its_end():
    env = Stairs(render_mode="ansi")
    observation, info = env.reset(options={"task": "2", "from": 1})
    assert (observation, info["state"], info["valid"]) == ("There are 2 stairs.", "at=1", True)
    assert env.render() == "There are 2 stairs.\n"
    assert env.step("jump")[0:4] == ("Nothing happens.", 0.0, False, False)
    assert env.step("up")[0:4] == ("You are on stair 2.", 1.0, True, False)
    assert env.render() == "> up\nYou are on stair 2.\n"
    assert Stairs().render() is None
    with pytest.raises(StepAfterEnd):
        env.step("down")


def test_a_task_that_is_not_there_leaves_the_episode():
    env = Stairs()
    env.reset(options={"task": "3"})
    env.step("up")
    with pytest.raises(UnknownTask, match="unknown task '9'"):
        env.reset(options={"task": "9"})
    assert env.step("up")[4]["task"] == "3"


def test_all_tasks_are_equally_likely_where_a_class_says_nothing():
    env = Stairs()
    env.reset(seed=0)
    drawn = [env.reset()[1]["task"] for _ in range(400)]
    assert all(50 < drawn.count(id) < 110 for id in env.task_ids())


def test_who_offers_snapshots():
    assert isinstance(Stairs(), HasSnapshot)
    assert not isinstance(tools(), HasSnapshot)
    with pytest.raises(NotReset):
        Stairs().snapshot()


@given(
    task=st.one_of(st.sampled_from(["1", "3", "9", ""]), st.integers(), st.none()),
    at=st.one_of(st.integers(-2, 6), st.text(max_size=2), st.booleans()),
    shown=st.one_of(st.lists(st.text(max_size=3), max_size=3), st.none()),
    random=st.one_of(st.none(), st.just({}), st.integers()),
)
def test_a_snapshot_that_is_refused_leaves_the_episode(task: Any, at: Any, shown: Any, random: Any):
    env = Stairs()
    env.reset(seed=1, options={"task": "4"})
    env.step("up")
    before = env.snapshot()
    forged = pack("Stairs", 1, {"tallest": 5}, {"task": task, "at": at, "shown": shown, "random": random})
    try:
        observation, info = env.restore(forged)
    except BadSnapshot:
        assert env.snapshot() == before
    else:
        assert (observation, info["task"]) == (shown[1], task)
        assert env.snapshot() == forged


def test_a_snapshot_brings_what_was_shown_and_what_will_be_drawn():
    env, other = Stairs(render_mode="ansi"), Stairs(render_mode="ansi")
    env.reset(seed=7)
    _, *_, info = env.step("jump")
    data = env.snapshot()
    assert list(json.loads(data)["episode"]) == ["task", "at", "shown", "random"]
    assert other.restore(data) == ("Nothing happens.", info | {"valid": True})
    assert other.render() == env.render()
    assert [env.reset() for _ in range(9)] == [other.reset() for _ in range(9)]
    with pytest.raises(BadSnapshot, match="tallest=5, but this one has tallest=6"):
        Stairs(6).restore(data)


def test_an_episode_that_is_over_when_it_begins_says_so():
    env = Stairs()
    env.reset(options={"task": "1"})
    env.step("up")
    with pytest.raises(StepAfterEnd, match="the episode has ended; call reset"):
        env.step("up")
    env.restore(env.snapshot())
    with pytest.raises(StepAfterEnd, match="the episode has ended; call reset"):
        env.step("up")

    class Flat(Stairs):
        def is_over(self) -> bool:
            return True

    flat = Flat()
    flat.reset(options={"task": "1"})
    with pytest.raises(StepAfterEnd, match=r"over when it began: is_over\(\) returned True after start_task\(\)"):
        flat.step("up")
