"""A model behind an API that sees the phone: images in its messages, answers in the format of its family."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import Any

import pytest
from toys.openai_client import answer, connect
from toys.openai_server import ToyServer

from turncredit.agents.instructions import agent_for
from turncredit.agents.rollouts.rollout import rollout
from turncredit.envs import make

pytest.importorskip("PIL")
pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("httpx")

ENV = "turncredit/Android-v0"


def call(**arguments: Any) -> dict[str, Any]:
    text = json.dumps({"name": "mobile_use", "arguments": arguments})
    return answer({"content": f"Thinking.\n<tool_call>\n{text}\n</tool_call>"})


def images_of(message: dict[str, Any]) -> int:
    return sum(part["type"] == "image_url" for part in message["content"])


def test_an_episode_on_the_phone_in_the_format_of_qwen(server: ToyServer, opened: ExitStack) -> None:
    kwargs = {
        "observation": "screen",
        "format": "none",
        "actions": "qwen",
        "points": "0..999",
        "size": [54, 120],
        "task_types": ["ClockStartStopwatch"],
    }
    script = [
        call(action="open", text="Clock"),
        answer({"content": "I am not sure."}),
        call(action="click", coordinate=[1250, 906]),
        call(action="click", coordinate=[875, 906]),
        call(action="terminate", status="success"),
    ]
    server.script.extend(script)
    agent = agent_for(ENV, kwargs, max_turns=5)
    env = make(ENV, **kwargs)
    task = env.unwrapped.task_ids()[0]  # type: ignore[attr-defined]
    env.close()
    ((trajectory,),) = (
        group.trajectories
        for group in rollout(agent, connect(server, opened), [task], make=lambda: make(ENV, **kwargs))
    )
    assert trajectory.error is None
    actions = [turn.action for turn in trajectory.turns]
    assert actions == ["open Clock", None, "tap 1250 906", "tap 875 906", "done"]
    assert [turn.valid for turn in trajectory.turns] == [True, False, False, True, True]
    requests = server.sent("/chat/completions")
    assert len(requests) == 5
    for request in requests:
        system, user = request["messages"]
        assert '"mobile_use"' in system["content"]
        assert images_of(user) == 1  # also after an answer that could not be read
    assert "(1250, 906) is not on the screen: x goes from 0 to 999" in str(requests[3]["messages"][1]["content"])
