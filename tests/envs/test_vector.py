"""Vector environments of Gymnasium: texts in shared memory, one task per environment, wrappers that flatten."""

from __future__ import annotations

import multiprocessing
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict
from gymnasium.vector import AsyncVectorEnv
from gymnasium.vector.utils import create_shared_memory, read_from_shared_memory, write_to_shared_memory
from gymnasium.wrappers import FlattenObservation, TimeAwareObservation
from hypothesis import given
from hypothesis import strategies as st

from turncredit.envs import Text, UnknownOption, UnknownTask, make, make_vec

HOUSEHOLD: dict[str, Any] = {"id": "turncredit/Household-v0", "level": "tiny"}
ENVIRONMENTS: list[dict[str, Any]] = [
    HOUSEHOLD,
    {"id": "turncredit/WebShop-v0", "level": "tiny"},
    {"id": "turncredit/Search-v0"},
    {"id": "turncredit/Code-v0"},
]


class Screen(gymnasium.Env[dict[str, Any], str]):
    """An environment with a text and an image, as browsers have."""

    observation_space = Dict({"text": Text(100), "image": Box(0, 255, (4, 3, 3), np.uint8)})
    action_space = Text()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        return {"text": f"page {seed}", "image": np.full((4, 3, 3), seed or 0, np.uint8)}, {}

    def step(self, action: str) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        return {"text": action, "image": np.zeros((4, 3, 3), np.uint8)}, 0.0, False, False, {}


@pytest.mark.parametrize("options", ENVIRONMENTS, ids=lambda options: options["id"])
def test_async_mode_with_shared_memory_gives_what_single_environments_give(options: dict[str, Any]):
    envs = gymnasium.make_vec(num_envs=2, vectorization_mode="async", **options)
    alone = [make(**options) for _ in range(2)]
    try:
        seen, infos = envs.reset(seed=5)
        expected = [env.reset(seed=5 + number) for number, env in enumerate(alone)]
        assert seen == tuple(observation for observation, _ in expected)
        assert seen in envs.observation_space
        assert list(infos["state"]) == [info["state"] for _, info in expected]
        for action in ("look", "no such action"):
            after, rewards, *_ = envs.step((action, action))
            single = [env.step(action) for env in alone]
            assert after == tuple(step[0] for step in single)
            assert rewards.tolist() == [step[1] for step in single]
        assert seen == tuple(observation for observation, _ in expected)  # earlier observations do not change
    finally:
        envs.close()


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_texts_and_images_go_through_shared_memory_together(context: str):
    envs = AsyncVectorEnv([Screen, Screen], context=context)
    try:
        seen, _ = envs.reset(seed=7)
        assert seen["text"] == ("page 7", "page 8")
        assert seen["image"][:, 0, 0, 0].tolist() == [7, 8]
        assert envs.step(("語🙂", ""))[0]["text"] == ("語🙂", "")
    finally:
        envs.close()


def test_without_copies_the_observations_are_those_of_the_last_step():
    envs = AsyncVectorEnv([Screen, Screen], copy=False)
    try:
        seen = envs.reset(seed=1)[0]["text"]
        assert (seen[0], seen[-1], seen[:1], len(seen)) == ("page 1", "page 2", ("page 1",), 2)
        envs.step(("a", "b"))
        assert list(seen) == ["a", "b"]
    finally:
        envs.close()


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), min_size=1, max_size=4))
def test_texts_come_back_as_they_were_written(texts: list[str]):
    space = Text(20)
    memory = create_shared_memory(space, n=len(texts), ctx=multiprocessing)
    live = read_from_shared_memory(space, memory, n=len(texts))
    for filler in ("x" * 20, None):  # over longer ones
        for number, text in enumerate(texts):
            write_to_shared_memory(space, number, text if filler is None else filler, memory)
    assert tuple(live) == tuple(texts)


def test_a_text_that_is_too_long_for_its_space_is_refused():
    memory = create_shared_memory(Text(2), n=1, ctx=multiprocessing)
    with pytest.raises(UnknownOption, match="at most 2 characters, got 9"):
        write_to_shared_memory(Text(2), 0, "x" * 9, memory)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_vector_reset_takes_a_task_for_each_environment(mode: str):
    tasks = make(**HOUSEHOLD).unwrapped.task_ids(3)[1:]
    envs = make_vec(**HOUSEHOLD, num_envs=2, vectorization_mode=mode)
    try:
        assert envs.reset(seed=0, options={"task": tasks})[1]["task"].tolist() == tasks
        assert envs.reset(seed=0, options={"task": tasks[0]})[1]["task"].tolist() == [tasks[0]] * 2
        first, second = envs.reset(seed=0, options={"task": tasks[::-1]})[0]
        env = make(**HOUSEHOLD)
        assert [first, second] == [env.reset(seed=0, options={"task": task})[0] for task in tasks[::-1]]
    finally:
        envs.close()


def test_wrong_lists_and_modes_are_named():
    envs = make_vec(**HOUSEHOLD, num_envs=2)
    with pytest.raises(UnknownOption, match="one task per environment, 2, got 1"):
        envs.reset(options={"task": ["train/tiny/000000"]})
    with pytest.raises(UnknownTask, match="make_vec takes a list"):
        make(**HOUSEHOLD).reset(options={"task": ["train/tiny/000000"]})
    with pytest.raises(UnknownOption, match="unknown vectorization_mode 'asynch'; did you mean 'async'"):
        make_vec(**HOUSEHOLD, vectorization_mode="asynch")
    with pytest.raises(UnknownOption, match="num_envs must be an integer >= 1"):
        make_vec(**HOUSEHOLD, num_envs=0)


def test_wrappers_that_flatten_say_why_they_cannot():
    for wrapper in (FlattenObservation, TimeAwareObservation):
        with pytest.raises(ValueError, match=r"texts have no array of fixed shape.*flatten=False"):
            wrapper(make(**HOUSEHOLD))
    with pytest.raises(ValueError, match="texts have no array"):
        FlattenObservation(Screen())


def test_time_can_be_added_without_flattening():
    env = TimeAwareObservation(make(**HOUSEHOLD), flatten=False)
    assert env.reset(seed=0)[0]["time"].tolist() == [0]
    seen = env.step("look")[0]
    assert seen["time"].tolist() == [1]
    assert seen in env.observation_space
