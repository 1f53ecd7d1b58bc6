"""The Responses API: the same samples, tools and failures as /chat/completions, in other words."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from toys.openai_client import ask, connect, told
from toys.openai_server import ToyServer

from turncredit.agents.agent import Agent
from turncredit.agents.errors import RequestFailed, SamplerError
from turncredit.agents.rollouts.rollout import rollout
from turncredit.envs.toolenv import ToolEnv

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("httpx")

from turncredit.engines.openai.responses import chat_answer, cut_at_stop, responses_request


def text(content: str) -> dict[str, Any]:
    """An item with an answer."""
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": content}]}


def called(name: str, arguments: str, id: str) -> dict[str, Any]:
    return {"type": "function_call", "name": name, "arguments": arguments, "call_id": id}


@pytest.mark.parametrize("seed", [1, 2])
def test_the_samples_are_those_of_chat_completions(server: ToyServer, opened: ExitStack, seed: int) -> None:
    chat, responses = connect(server, opened), connect(server, opened, api="responses")
    mine, theirs = ask(responses, seed=seed, max_tokens=8), ask(chat, seed=seed, max_tokens=8)
    assert mine.text == theirs.text
    assert mine.finish == theirs.finish
    assert mine.extras == theirs.extras
    assert mine.extras["response_tokens"] > 0
    (body,) = server.sent("/responses")
    assert body["input"] == [{"type": "message", "role": "user", "content": "You see a door."}]
    assert (body["max_output_tokens"], body["store"]) == (8, False)
    assert not {"messages", "max_tokens"} & body.keys()


def test_each_call_gets_its_result(server: ToyServer, opened: ExitStack) -> None:
    def read(shelf: int) -> str:
        """Return what a shelf holds.

        Args:
            shelf: its number.
        """
        return f"shelf {shelf}"

    thought = {"type": "reasoning", "id": "rs1", "summary": [], "encrypted_content": "xyz"}
    shown = {"type": "reasoning", "id": "rs2", "summary": [{"type": "summary_text", "text": "I look."}]}
    server.script += [
        [thought, shown, text("Let me see."), called("read", '{"shelf": 0}', "a"), called("read", '{"shelf": 1}', "b")],
        [called("answer", '{"text": "done"}', "c")],
    ]
    make = partial(ToolEnv, "Read.", lambda task: {}, [read], lambda world, said: True, form="hermes", native=True)
    sampler = connect(server, opened, tools=True, api="responses")
    (group,) = rollout(Agent(parser="whole"), sampler, ["task"], make=make)
    (episode,) = group.trajectories
    assert episode.won
    assert episode.turns[1].results == ("shelf 0", "shelf 1")
    assert (episode.prompt_tokens > 0, episode.response_tokens) == (True, 10)
    first, second = server.sent("/responses")
    assert {tool["name"] for tool in first["tools"]} == {"read", "answer"}
    assert all(tool["type"] == "function" and tool["strict"] is False for tool in first["tools"])
    assert second["input"][1:] == [
        thought,
        {"type": "message", "role": "assistant", "content": "Let me see."},
        called("read", '{"shelf": 0}', "a"),
        called("read", '{"shelf": 1}', "b"),
        {"type": "function_call_output", "call_id": "a", "output": "shelf 0"},
        {"type": "function_call_output", "call_id": "b", "output": "shelf 1"},
    ]


@pytest.mark.parametrize(
    ("answer", "finish", "said"),
    [
        ({"output": [text("go")]}, "stop", "go"),
        ({"output": [text("a"), text("b")]}, "stop", "ab"),
        ({"output": []}, "empty", ""),
        ({"output": [text("go")], "status": "incomplete", "incomplete_details": None}, "length", "go"),
        (
            {"output": [], "status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
            "refusal",
            "",
        ),
        (
            {"output": [{"type": "message", "content": [{"type": "refusal", "refusal": "I will not."}]}]},
            "refusal",
            "I will not.",
        ),
        ({"output": [{"type": "web_search_call", "id": "w"}, "odd", text("go")]}, "stop", "go"),
    ],
)
def test_how_an_answer_ended(
    server: ToyServer, opened: ExitStack, answer: dict[str, Any], finish: str, said: str
) -> None:
    server.script.append(answer)
    completion = ask(connect(server, opened, api="responses"))
    assert (completion.finish, completion.text) == (finish, said)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"status": "failed", "output": [], "error": {"code": "server_error", "message": "It broke."}}, "It broke"),
        ({"status": "cancelled", "output": []}, "the generation ended as 'cancelled'"),
        ({"output": None}, "the answer has no output"),
    ],
)
def test_failures_are_retried_and_told(server: ToyServer, opened: ExitStack, answer: dict[str, Any], why: str) -> None:
    sampler = connect(server, opened, api="responses", retries=1)
    server.script += [answer, [text("go")]]
    assert ask(sampler).text == "go"
    server.script += [answer, answer]
    with pytest.raises(RequestFailed, match=why) as caught:
        ask(sampler)
    told(caught)


def test_reasoning_is_read_apart(server: ToyServer, opened: ExitStack) -> None:
    full = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "I look."}], "summary": []}
    server.script.append([full, text("go")])
    completion = ask(connect(server, opened, api="responses"))
    assert (completion.text, completion.reasoning) == ("go", "I look.")


def test_the_official_server_is_not_sent_what_it_refuses() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "look"}, image]}]
    body = {"model": "m", "messages": messages, "seed": 1, "stop": ["x"], "max_completion_tokens": 9, "top_p": 0.5}
    request = responses_request(body, official=True)
    assert request == {
        "model": "m",
        "input": [
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "look"},
                    {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "auto"},
                ],
            }
        ],
        "top_p": 0.5,
        "max_output_tokens": 9,
        "store": False,
    }
    assert responses_request(body, official=False).items() >= {"seed": 1, "stop": ["x"]}.items()


def test_stop_strings_that_a_server_ignored_end_the_answer(server: ToyServer, opened: ExitStack) -> None:
    server.script.append([text("<go>east</go> and west</go>")])
    assert ask(connect(server, opened, api="responses"), stop=("</go>", "nothing")).text == "<go>east</go>"
    assert cut_at_stop("go", ()) == "go"


def test_a_token_engine_has_no_responses() -> None:
    from turncredit.engines.base import SamplerSettings
    from turncredit.engines.openai import make_openai

    settings = SamplerSettings(model="m", url="http://127.0.0.1:1", options={"api": "responses", "tokens": True})
    with pytest.raises(SamplerError, match='leave out api = "responses"'):
        make_openai(settings)


def test_usage_that_a_server_leaves_out_is_unknown() -> None:
    assert chat_answer({"output": [text("go")]})["usage"] == {"prompt_tokens": None, "completion_tokens": None}
