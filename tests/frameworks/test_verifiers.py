"""The taskset `openenv` of verifiers plays an episode on `turncredit serve env`, from the configuration in the docs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
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
from turncredit.processes.serving import serve_in_thread

HOUSEHOLD = partial(turncredit.envs.make, "turncredit/Household-v0", level="tiny")


def scripted_model(plans: dict[str, list[str]]) -> FastAPI:
    """A chat server that plays the expert's plan of the episode that the first message shows."""
    app = FastAPI()

    @app.post("/v1/chat/completions")
    async def answer(body: dict[str, Any]) -> dict[str, Any]:
        said = body["messages"]
        start = json.loads(said[0]["content"])["observation"]["text"]
        action = plans[start][sum(message["role"] == "assistant" for message in said)]
        message = {"role": "assistant", "content": action}
        return {
            "id": "1", "object": "chat.completion", "created": 0, "model": body["model"],
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }  # fmt: skip

    return app


def test_the_taskset_plays_two_episodes_to_success(tmp_path: Path):
    plans = {}
    for task in ("train/tiny/000001", "train/tiny/000002"):
        env = HOUSEHOLD()
        start, _ = env.reset(seed=0, options={"task": task})
        plans[start] = env.unwrapped.plan()
    (config,) = [text for text in documented.examples("toml") if "resets" in text]
    with (
        serve_in_thread(create_app(HOUSEHOLD, sessions=4), websockets=True) as url,
        serve_in_thread(scripted_model(plans)) as model,
    ):
        for old, new in (("http://127.0.0.1:8000", url), ("http://127.0.0.1:8001", model)):
            assert old in config
            config = config.replace(old, new)
        config = f'push = false\noutput_dir = "{tmp_path}"\n{config}'
        config = config.replace("[client]", '[run]\ndir = "run"\n\n[client]\napi_key_var = "NO_KEY"')
        config += '\n[env.player.harness]\nid = "chat_harness"\n'  # those of verifiers download a program
        (tmp_path / "household.toml").write_text(config)
        command = [str(Path(sys.executable).with_name("vf-eval")), "@", "household.toml", "--no-rich"]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "NO_KEY": "none"}
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
    lines = (tmp_path / "run/traces.jsonl").read_text().splitlines()
    episodes = [json.loads(line) for line in lines]
    assert [episode["errors"] for episode in episodes] == [[], []]
    (traces,) = zip(*(episode["traces"] for episode in episodes), strict=True)
    assert [trace["rewards"]["openenv_reward"]["score"] for trace in traces] == [1.0, 1.0]
    assert sorted(len(trace["calls"]) for trace in traces) == sorted(map(len, plans.values()))
