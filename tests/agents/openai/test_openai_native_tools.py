"""Native tool calls and images through the openai sampler."""

from __future__ import annotations

import base64
import io
import json
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from toys.openai_client import answer, ask, connect
from toys.openai_server import ToyServer

from turnwise.agents.agent import Agent
from turnwise.agents.errors import SamplerError
from turnwise.agents.rollout import rollout

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("httpx")

from turnwise.agents.samplers.openai.messages import data_url, native_messages, text_with_calls, with_data_urls
from turnwise.tools.functions import call_format

TOOL = {"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}


def called(name: str, arguments: Any) -> dict[str, Any]:
    return {"id": "x1", "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize("form", ["hermes", "openai"])
def test_native_calls_become_the_text_that_the_environment_reads(form: str) -> None:
    text = text_with_calls("Let me look.", [called("find", '{"name": "Ada"}'), called("list", "")], form)
    calls = call_format(form).parse(text, []).calls
    assert [(call.name, dict(call.arguments)) for call in calls] == [("find", {"name": "Ada"}), ("list", {})]
    broken = text_with_calls("", [called("find", '{"name": ')], form)
    assert "not valid JSON" in call_format(form).parse(broken, []).error  # the environment tells the model


@pytest.mark.parametrize("form", ["hermes", "openai"])
def test_calls_and_results_in_text_become_native_messages(form: str) -> None:
    from turnwise.tools.functions import Call, ToolResult

    written = call_format(form).write([Call("find", {"name": "Ada"}), Call("find", {"name": "Bob"})], [])
    results = call_format(form).write_results([ToolResult("find", "555"), ToolResult("find", "no entry")])
    conversation = [
        {"role": "user", "content": "Find them."},
        {"role": "assistant", "content": written},
        {"role": "user", "content": results},
        {"role": "assistant", "content": "what?"},
        {"role": "user", "content": "Nothing was done."},
    ]
    native = native_messages(conversation, form)
    assert native[0] == conversation[0]
    assert [json.loads(one["function"]["arguments"]) for one in native[1]["tool_calls"]] == [
        {"name": "Ada"},
        {"name": "Bob"},
    ]
    assert [one["role"] for one in native[2:4]] == ["tool", "tool"]
    assert [one["content"] for one in native[2:4]] == ["555", "no entry"]
    assert [one["tool_call_id"] for one in native[2:4]] == [one["id"] for one in native[1]["tool_calls"]]
    assert native[4:] == conversation[3:]
    conversation[2]["content"] = "The tools are gone."
    assert [one["content"] for one in native_messages(conversation, form)[2:4]] == ["The tools are gone.", ""]


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("form", ["hermes", "openai"])
def test_an_episode_of_tools_with_native_calls(server: ToyServer, opened: ExitStack, form: str, native: bool) -> None:
    from turnwise.envs.toolenv import ToolEnv

    def find(name: str) -> str:
        """Return a number.

        Args:
            name: whose number
        """
        return {"Ada": "555"}[name]

    def make() -> ToolEnv[Any, Any]:
        return ToolEnv(
            "Ada's number?", lambda task: {}, [find], lambda world, said: said == "555", form=form, native=native
        )

    server.script += [
        answer({"content": None, "tool_calls": [called("find", '{"name": "Ada"}')]}, "tool_calls"),
        answer({"content": "Found.", "tool_calls": [called("answer", '{"text": "555"}')]}, "tool_calls"),
    ]
    sampler = connect(server, opened, tools=True, tool_format=form)
    (group,) = rollout(Agent(parser="whole"), sampler, ["task"], make=make)
    assert group.trajectories[0].won
    first, second = server.sent("/chat/completions")
    assert [one["function"]["name"] for one in first["tools"]] == ["find", "answer"]
    assert first["tools"][0]["function"]["parameters"]["properties"]["name"]["description"] == "whose number"
    assert second["messages"][-2]["tool_calls"][0]["function"] == {"name": "find", "arguments": '{"name": "Ada"}'}
    assert second["messages"][-1]["role"] == "tool"
    assert second["messages"][-1]["content"].removesuffix("\n>") == "555"
    assert ("<tools>" in first["messages"][0]["content"]) != native


def test_tools_that_nobody_describes(server: ToyServer, opened: ExitStack) -> None:
    with pytest.raises(SamplerError, match="native tool calls need an environment with tools"):
        ask(connect(server, opened, tools=True))
    server.script.append(answer({"content": "look"}))
    ask(connect(server, opened, url=connect(server, opened).url, tools=[TOOL]))
    assert server.sent("/chat/completions")[-1]["tools"] == [TOOL]


# images


def test_images_are_sent_as_png_data_urls(server: ToyServer, opened: ExitStack) -> None:
    image = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    url = data_url(image)
    assert url.startswith("data:image/png;base64,")
    pil = pytest.importorskip("PIL.Image")
    with pil.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))) as opened_image:
        assert opened_image.format == "PNG"
        assert (np.asarray(opened_image) == image).all()
    message = {"role": "user", "content": [{"type": "text", "text": "Look."}, {"type": "image", "image": image}]}
    sampler = connect(server, opened, images=True)
    assert sampler.images
    server.script.append(answer({"content": "look"}))
    ask(sampler, messages=(message,))
    (sent,) = server.sent("/chat/completions")
    assert sent["messages"][0]["content"] == [
        {"type": "text", "text": "Look."},
        {"type": "image_url", "image_url": {"url": url}},
    ]
    assert not connect(server, opened).images


def test_a_call_without_text_and_an_image_travel_together() -> None:
    image = {"type": "image", "image": np.zeros((2, 2, 3), np.uint8)}
    calls = {"role": "assistant", "content": None, "tool_calls": [called("find", "{}")]}
    first, second = with_data_urls([calls, {"role": "user", "content": [image]}])
    assert first == calls
    assert second["content"][0]["type"] == "image_url"
