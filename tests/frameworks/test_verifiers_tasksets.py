"""Environments as tasksets of verifiers, and environments of verifiers as Gymnasium environments."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import documented
import pytest

pytestmark = pytest.mark.frameworks
documented.need("verifiers", "openenv", "fastapi")

from fastapi import FastAPI

import turncredit.envs
from turncredit.agents.frameworks.openenv import create_app
from turncredit.envs import EnvError, UnknownOption, UnknownTask
from turncredit.processes.serving import serve_in_thread

HOUSEHOLD = partial(turncredit.envs.make, "turncredit/Household-v0", level="tiny")
PLAYED = partial(turncredit.envs.make, "turncredit/Verifiers-v0")

REVERSE = """
import verifiers.v1 as vf


class ReverseData(vf.TaskData):
    answer: str


class ReverseTask(vf.Task[ReverseData, vf.State, vf.TaskConfig]):
    @vf.reward
    async def exact(self, task, trace):
        return float((trace.last_reply or "").strip() == task.answer)


class ReverseConfig(vf.TasksetConfig):
    words: list[str] = ["stone", "river"]


class ReverseTaskset(vf.Taskset[ReverseTask, ReverseConfig]):
    def load(self):
        for word in self.config.words:
            data = ReverseData(prompt=f"Reverse {word}.", system_prompt="Answer with one word.", answer=word[::-1])
            yield ReverseTask(data, self.config.task)


__all__ = ["ReverseTaskset"]
"""


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of tasksets, from which verifiers can import."""
    folder = tmp_path_factory.mktemp("tasksets")
    (folder / "reverse_words.py").write_text(REVERSE)
    (folder / "household_tasks.py").write_text(documented.example("verifiers"))
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture
def closed() -> Iterator[Callable[[Any], Any]]:
    """Closes environments at the end."""
    opened: list[Any] = []
    yield lambda env: opened.append(env) or env
    for env in opened:
        env.close()


def test_a_single_turn_taskset_is_played(modules: Path, closed: Callable[[Any], Any]):
    env = closed(PLAYED(taskset="reverse_words", config={"taskset": {"words": ["stone", "river", "abba"]}}))
    assert env.unwrapped.task_ids() == ["000000", "000001", "000002"]
    for task, answer, reward in (("000000", "enots", 1.0), ("000000", "stone", 0.0), ("000002", "abba", 1.0)):
        start, info = env.reset(seed=0, options={"task": task})
        assert start.startswith("Answer with one word.\n\nReverse ")
        assert (info["task"], info["score"]) == (task, 0.0)
        text, paid, over, truncated, info = env.step(answer)
        assert (paid, over, truncated, info["won"], info["score"]) == (reward, True, False, reward == 1.0, reward)
        assert f"reward of {reward:g}" in text
    with pytest.raises(UnknownTask, match="no such task"):
        env.reset(options={"task": "000003"})


def test_an_environment_that_verifiers_wrote_is_played_turn_by_turn(closed: Callable[[Any], Any]):
    """The engine of its taskset `openenv` plays the user; behind it is a served Household."""
    near = HOUSEHOLD()
    task = near.unwrapped.task_ids(1)[0]
    first, _ = near.reset(seed=0, options={"task": task})
    with serve_in_thread(create_app(HOUSEHOLD, sessions=4), websockets=True) as url:
        config = {"taskset": {"base_url": url, "resets": [{"task": task, "seed": 0}]}}
        env = closed(PLAYED(taskset="openenv", config=config))
        text, _ = env.reset(seed=0, options={"task": "000000"})
        assert json.loads(text)["observation"]["text"] == first
        plan = near.unwrapped.plan()
        for number, action in enumerate(plan):
            answer = near.step(action)
            text, reward, over, _, info = env.step(action)
            assert over is answer[2]
            if not over:
                assert json.loads(text)["observation"]["text"] == answer[0], number
        assert (reward, info["won"]) == (1.0, True)
        env.reset(seed=0, options={"task": "000000"})  # and an episode that is left in its middle
        env.step(plan[0])
        again, _ = env.reset(seed=0, options={"task": "000000"})
        assert json.loads(again)["observation"]["text"] == first


def test_our_taskset_in_verifiers_is_the_environment(modules: Path, closed: Callable[[Any], Any]):
    near = HOUSEHOLD()
    task = near.unwrapped.task_ids(2)[1]
    near.reset(seed=0, options={"task": task})
    env = closed(PLAYED(taskset="household_tasks", config={"taskset": {"tasks": [task]}}))
    text, _ = env.reset(seed=0, options={"task": "000000"})
    assert near.unwrapped.last_exchange[1] in text
    for action in near.unwrapped.plan():
        answer = near.step(action)
        _, reward, over, _, info = env.step(f"<think>next</think><action>{action}</action>")
        assert over is answer[2]
    assert (reward, info["won"]) == (1.0, True)
    assert info["reward_parts"]["won"] == 1.0
    assert info["reward_parts"]["invalid"] == 0.0


def test_vf_eval_plays_our_taskset(modules: Path, tmp_path: Path):
    """With a model that always answers the same, and so fails: two episodes of three turns."""
    model = FastAPI()

    @model.post("/v1/chat/completions")
    async def answer(body: dict[str, Any]) -> dict[str, Any]:
        message = {"role": "assistant", "content": "<think>?</think><action>look</action>"}
        return {
            "id": "1", "object": "chat.completion", "created": 0, "model": body["model"],
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }  # fmt: skip

    (config,) = [text for text in documented.examples("toml") if "household_tasks" in text]
    with serve_in_thread(model) as url:
        assert "http://127.0.0.1:8001" in config
        config = config.replace("http://127.0.0.1:8001", url)
        config = f'push = false\noutput_dir = "{tmp_path}"\n{config}'
        config = config.replace("[client]", '[run]\ndir = "run"\n\n[client]\napi_key_var = "NO_KEY"')
        config += '\n[env.player.harness]\nid = "chat_harness"\n'
        (tmp_path / "household.toml").write_text(config)
        command = [str(Path(sys.executable).with_name("vf-eval")), "@", "household.toml", "--no-rich"]
        paths = os.pathsep.join([str(modules), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": paths, "NO_KEY": "none"}
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=400,
            stdin=subprocess.DEVNULL,
        )
    assert done.returncode == 0, done.stderr
    episodes = [json.loads(line) for line in (tmp_path / "run/traces.jsonl").read_text().splitlines()]
    assert [episode["errors"] for episode in episodes] == [[], []]
    for (trace,) in (episode["traces"] for episode in episodes):
        assert trace["rewards"]["reward"]["score"] == 0.0
        assert (trace["metrics"]["turns"], trace["metrics"]["won"]) == (3.0, 0.0)


@pytest.mark.parametrize(
    ("arguments", "error", "reason"),
    [
        ({}, UnknownOption, "needs the id of a taskset"),
        ({"taskset": "no_such_taskset"}, EnvError, "the taskset 'no_such_taskset' cannot be loaded"),
        ({"taskset": "openenv"}, UnknownOption, "verifiers refuses the configuration of 'openenv'.*base_url"),
    ],
)
def test_wrong_arguments_say_what_is_wanted(arguments: dict[str, Any], error: type[Exception], reason: str):
    with pytest.raises(error, match="(?s)" + reason):
        PLAYED(**arguments)
