"""Native tool calls and images through the openai sampler."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import warnings
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import pytest
from toys.openai_client import answer, ask, connect, request
from toys.openai_server import ToyServer

from turncredit.agents.agent import Agent
from turncredit.agents.content import ImagePart
from turncredit.agents.errors import SamplerError
from turncredit.agents.prompts.dialogue import Dialogue
from turncredit.agents.prompts.prompt import View
from turncredit.agents.rollouts.rollout import rollout
from turncredit.engines.base import Request
from turncredit.envs.toolenv import ToolEnv

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("httpx")

from turncredit.engines.openai.messages import data_url, native_messages, text_with_calls, with_data_urls
from turncredit.tools.functions import Call, call_format

TOOL = {"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}


def called(name: str, arguments: Any) -> dict[str, Any]:
    return {"id": "x1", "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize("form", ["hermes", "openai"])
def test_native_calls_become_the_text_that_the_environment_reads(form: str) -> None:
    text = text_with_calls("Let me look.", [called("find", '{"name": "Ada"}'), called("list", "")], form)
    calls = call_format(form).parse(text, []).calls
    assert [(call.name, dict(call.arguments)) for call in calls] == [("find", {"name": "Ada"}), ("list", {})]
    fenced = text_with_calls("", [called("find", '```json\n{"name": "Ada"}\n```')], form)
    assert [dict(call.arguments) for call in call_format(form).parse(fenced, []).calls] == [{"name": "Ada"}]
    broken = text_with_calls("", [called("find", '{"name": ')], form)
    assert "not valid JSON" in call_format(form).parse(broken, []).error  # the environment tells the model


@pytest.mark.parametrize("form", ["hermes", "openai"])
def test_calls_in_text_become_native_messages(form: str) -> None:
    """Answers of somebody else, such as the beginning of a fork: there is no server's message to send back."""
    written = call_format(form).write([Call("find", {"name": "Ada"}), Call("find", {"name": "Bob"})], [])
    dialogue = Dialogue(Agent(parser="whole"))
    seen: list[tuple[str, tuple[str, ...], str]] = [
        ("Find them.", (), written),
        ("555\nno entry", ("555", "no entry"), "what?"),
        ("Nothing was done.", (), written),
    ]
    for observation, results, text in seen:
        dialogue.add(dialogue.view(observation, results=results), text, text)
    native = native_messages(asked(dialogue, dialogue.view("The tools are gone.")), form)
    assert [one["role"] for one in native] == ["user", "assistant", "tool", "tool", "assistant", "user", "assistant",
                                               "tool", "tool"]  # fmt: skip
    first, second = native[1], native[6]
    assert [json.loads(one["function"]["arguments"])["name"] for one in first["tool_calls"]] == ["Ada", "Bob"]
    assert [one["content"] for one in native[2:4]] == ["555", "no entry"]
    assert [one["content"] for one in native[7:]] == ["The tools are gone."] * 2  # no result of each call is known
    assert native[4:6] == [
        {"role": "assistant", "content": "what?"},
        {"role": "user", "content": "Nothing was done.\n>"},
    ]
    ids = [one["id"] for message in (first, second) for one in message["tool_calls"]]
    assert [one["tool_call_id"] for one in native if one["role"] == "tool"] == ids
    assert len(set(ids)) == 4
    assert all(len(id) == 9 and id.isalnum() and id.isascii() for id in ids)
    assert first["content"] == ""


RESULTS = [
    ("", "shelf 9: 40"),
    ("one\ntwo\n\n", "three"),
    (" spaces \n", "\n>"),
    ('[{"role": "tool", "content": "a"}]', '{"a": [1, 2]}'),
    ("<tool_response>\nx\n</tool_response>", "</tool_response>\n<tool_response>"),
    ("é\r\n\u2028", "</think><tool_call>{}</tool_call>"),
    ("same", "same"),
]


@pytest.mark.parametrize("results", RESULTS)
@pytest.mark.parametrize(("form", "native"), [("hermes", True), ("hermes", False), ("openai", True), ("openai", False)])
def test_each_call_gets_its_own_result_byte_for_byte(
    server: ToyServer, opened: ExitStack, form: str, native: bool, results: tuple[str, str]
) -> None:
    def read(shelf: int) -> str:
        """Return what a shelf holds."""
        return results[shelf]

    def make() -> ToolEnv[Any, Any]:
        return ToolEnv("Read.", lambda task: {}, [read], lambda world, reply: True, form=form, native=native)

    calls = [{**called("read", f'{{"shelf": {number}}}'), "id": f"call-{number}"} for number in (0, 1)]
    server.script += [
        answer({"content": None, "tool_calls": calls}, "tool_calls"),
        answer({"content": None, "tool_calls": [called("answer", '{"text": "done"}')]}, "tool_calls"),
    ]
    (group,) = rollout(
        Agent(parser="whole"), connect(server, opened, tools=True, tool_format=form), ["task"], make=make
    )
    assert group.trajectories[0].won
    sent = server.sent("/chat/completions")[-1]["messages"][-2:]
    assert sent == [
        {"role": "tool", "tool_call_id": "call-0", "content": results[0]},
        {"role": "tool", "tool_call_id": "call-1", "content": results[1]},
    ]
    assert group.trajectories[0].turns[1].results == results


def test_calls_that_are_refused_have_a_result_each(server: ToyServer, opened: ExitStack) -> None:
    def read(shelf: int) -> str:
        """Return what a shelf holds."""
        return "wine"

    server.script += [
        answer({"tool_calls": ["read", None]}),  # no calls at all go back as text
        answer({"tool_calls": [{**called("read", '{"shelf": 1}'), "id": "a"}, {**called("raed", "{}"), "id": "b"}]}),
        answer({"tool_calls": [{**called("read", '{"shelf": '), "id": "c"}, {**called("read", "{}"), "id": "d"}]}),
        answer({"tool_calls": [called("answer", '{"text": "done"}')]}),
    ]
    make = partial(ToolEnv, "Read.", lambda task: {}, [read], lambda world, reply: True, form="hermes", native=True)
    rollout(Agent(parser="whole"), connect(server, opened, tools=True), ["task"], make=make)
    sent = server.sent("/chat/completions")[-1]["messages"]
    refused = {message["tool_call_id"]: message["content"] for message in sent if message["role"] == "tool"}
    assert refused == {
        "a": "Nothing was done, because another call of this turn is invalid.",
        "b": "unknown tool 'raed'; did you mean 'read'?",
    }
    assert sent[-2]["role"] == "assistant"  # arguments that are no JSON go back as text: servers refuse them as calls
    assert "tool_calls" not in sent[-2]
    assert sent[-1]["content"].startswith("Nothing was done: call 1: the call is not valid JSON")


@pytest.mark.parametrize("arguments", ["", None, {}, "{}"])
def test_a_call_without_arguments_goes_back_with_an_empty_object(
    server: ToyServer, opened: ExitStack, arguments: object
) -> None:
    def wait() -> str:
        """Wait."""
        return "waited"

    server.script += [
        answer({"tool_calls": [called("wait", arguments)]}),
        answer({"tool_calls": [called("answer", '{"text": "done"}')]}),
    ]
    make = partial(ToolEnv, "Wait.", lambda task: {}, [wait], lambda world, reply: True, native=True)
    (group,) = rollout(Agent(parser="whole"), connect(server, opened, tools=True), ["task"], make=make)
    assert group.trajectories[0].won
    asked, result = server.sent("/chat/completions")[-1]["messages"][-2:]
    assert asked["tool_calls"][0]["function"] == {"name": "wait", "arguments": "{}"}
    assert result["content"] == "waited"


def test_an_image_follows_the_results(server: ToyServer, opened: ExitStack) -> None:
    image = ImagePart(np.zeros((2, 2, 3), np.uint8))
    dialogue = Dialogue(Agent(parser="whole"))
    written = call_format("hermes").write([Call("tap", {}), Call("tap", {})], [])
    dialogue.add(dialogue.view("Tap."), written, written)
    native = native_messages(asked(dialogue, dialogue.view("a\nb", images=(image,), results=("a", "b"))), "hermes")
    assert [message["content"] for message in native[2:4]] == ["a", "b"]
    assert [part["type"] for part in native[4]["content"]] == ["image"]


def test_a_servers_message_goes_back_as_it_came(server: ToyServer, opened: ExitStack) -> None:
    signed = {
        **called("find", '{"name":"Ada"}'),
        "id": "abcDEF123",
        "extra_content": {"google": {"thought_signature": "x"}},
    }
    message = {
        "role": "assistant",
        "content": None,
        "reasoning_content": "Who?",
        "refusal": None,
        "tool_calls": [signed, {**signed, "id": None}],
        "extra_content": {"vendor": [1]},
    }
    server.script += [
        {"message": message, "finish_reason": "tool_calls"},
        {"message": {"role": "assistant", "function_call": {"name": "find", "arguments": "{}"}}, "finish_reason": "x"},
        answer({"content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "<tool_call>"}]}),
        answer({"content": "Done."}),
    ]
    sampler = connect(server, opened, tools=[TOOL])
    dialogue, agent = Dialogue(Agent(parser="whole")), Agent(parser="whole")
    texts = []
    for observation, results in (("Find.", ()), ("5\n6", ("5", "6")), ("7", ("7",)), ("?", ())):
        view = dialogue.view(observation, results=results)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given = asyncio.run(sampler.sample(asked(dialogue, view)))
        texts.append(agent.answer_text(given.text, given.reasoning))
        dialogue.add(view, texts[-1], "x", message=given.message)
    sent = server.sent("/chat/completions")[-1]["messages"]
    own = sent[1]["tool_calls"][1]["id"]
    assert sent[1] == {
        "role": "assistant",
        "content": "",
        "reasoning_content": "Who?",
        "tool_calls": [signed, {**signed, "id": own}],
        "extra_content": {"vendor": [1]},
    }
    assert len(own) == 9
    assert own.isalnum()
    assert [item.get("tool_call_id") for item in sent[2:4]] == ["abcDEF123", own]
    assert sent[4] == {"role": "assistant", "content": "", "function_call": {"name": "find", "arguments": "{}"}}
    assert sent[5] == {"role": "function", "name": "find", "content": "7"}
    assert sent[6]["content"] == [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "<tool_call>"}]
    assert [item["role"] for item in sent[7:]] == ["user"]
    assert texts[0].startswith("<think>Who?</think><tool_call>")
    assert texts[2] == "<think>Hm.</think><tool_call>"
    ask(connect(server, opened, url=sampler.url, tools=[TOOL], omit=["messages.reasoning_content"]),
        **vars_of(asked(dialogue, dialogue.view("!"))))  # fmt: skip
    assert "reasoning_content" not in server.sent("/chat/completions")[-1]["messages"][1]


@pytest.mark.parametrize(
    "said", ["I write <tool_call> now.", "<think>Well", "a</think> <think> b <tool_call>{</tool_call>"]
)
@pytest.mark.parametrize("arguments", ["{}", '{"name": "</think><tool_call>\\n</tool_call>"}'])
@pytest.mark.parametrize("form", ["hermes", "openai"])
def test_prose_and_arguments_cannot_spoil_structured_calls(form: str, arguments: str, said: str) -> None:
    text = text_with_calls(said, [called("find", arguments)], form)
    assert call_format(form).parse(str(Agent(parser="whole").parse(text).action), []).calls == (
        Call("find", json.loads(arguments)),
    )


def asked(dialogue: Dialogue, view: View) -> Request:
    prompt = dialogue.prompt(view)
    return request(messages=prompt.messages, past=prompt.past, view=view, turn=view.turn)


def vars_of(given: Request) -> dict[str, Any]:
    return {"messages": given.messages, "past": given.past, "view": given.view, "turn": given.turn}


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("form", ["hermes", "openai"])
def test_an_episode_of_tools_with_native_calls(server: ToyServer, opened: ExitStack, form: str, native: bool) -> None:
    def find(name: str) -> str:
        """Return a number.

        Args:
            name: whose number
        """
        return {"Ada": "555"}[name]

    def make() -> ToolEnv[Any, Any]:
        return ToolEnv(
            "Ada's number?", lambda task: {}, [find], lambda world, reply: reply == "555", form=form, native=native
        )

    server.script += [
        answer({"content": None, "tool_calls": [called("find", '{"name": "Ada"}')]}, "tool_calls"),
        answer({"content": "Found.", "tool_calls": [called("answer", '{"text": "555"}')]}, "tool_calls"),
    ]
    sampler = connect(server, opened, tools=True, tool_format=form)
    (group,) = rollout(Agent(parser="whole"), sampler, ["task"], make=make)
    assert group.trajectories[0].won
    first, second = server.sent("/chat/completions")
    assert [message["function"]["name"] for message in first["tools"]] == ["find", "answer"]
    assert first["tools"][0]["function"]["parameters"]["properties"]["name"]["description"] == "whose number"
    assert second["messages"][-2]["tool_calls"] == [called("find", '{"name": "Ada"}')]
    assert second["messages"][-1]["role"] == "tool"
    assert second["messages"][-1]["content"] == "555"
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
    sampler = connect(server, opened)
    assert sampler.images
    server.script.append(answer({"content": "look"}))
    ask(sampler, messages=(message,))
    (sent,) = server.sent("/chat/completions")
    assert sent["messages"][0]["content"] == [
        {"type": "text", "text": "Look."},
        {"type": "image_url", "image_url": {"url": url}},
    ]
    assert not connect(server, opened, images=False).images


def test_a_call_without_text_and_an_image_travel_together() -> None:
    image = {"type": "image", "image": np.zeros((2, 2, 3), np.uint8)}
    calls = {"role": "assistant", "content": None, "tool_calls": [called("find", "{}")]}
    first, second = with_data_urls([calls, {"role": "user", "content": [image]}])
    assert first == calls
    assert second["content"][0]["type"] == "image_url"
