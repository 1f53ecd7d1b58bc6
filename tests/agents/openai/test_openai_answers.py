"""What the openai sampler sends, and how it tells answers apart: refused, empty, truncated; tokens, prices, options."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from toys.openai_client import answer, ask, connect, request, told
from toys.openai_server import NAME, Fault, ToyServer, error

from turnwise.agents.errors import SamplerError
from turnwise.agents.samplers.base import SamplerSettings
from turnwise.agents.samplers.openai import make_openai

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("httpx")


@pytest.mark.parametrize(
    ("scripted", "text", "finish"),
    [
        (answer({"content": "look"}), "look", "stop"),
        (answer({"content": "look ar"}, "length"), "look ar", "length"),
        (answer({"content": ""}, "length"), "", "length"),
        (answer({"content": None}), "", "empty"),
        (answer({"content": " \n"}), " \n", "empty"),
        (answer({"content": None, "refusal": "I cannot help."}), "I cannot help.", "refusal"),
        (answer({"content": "I"}, "content_filter"), "I", "refusal"),
        (answer({"content": "<a>look"}, stop_reason="</a>"), "<a>look</a>", "stop"),
        (answer({"content": "look"}, stop_reason=7), "look", "stop"),
    ],
)
def test_answers_are_told_apart(server: ToyServer, opened: ExitStack, scripted: Any, text: str, finish: str) -> None:
    server.script.append(scripted)
    found = ask(connect(server, opened))
    assert (found.text, found.finish, found.tokens, found.logprobs) == (text, finish, (), ())


def test_a_prompt_that_a_content_filter_refuses_is_a_refusal(server: ToyServer, opened: ExitStack) -> None:
    server.faults.append(error(400, "The response was filtered", "content_filter"))
    found = ask(connect(server, opened))
    assert (found.text, found.finish) == ("", "refusal")


def test_tokens_are_counted_and_priced(server: ToyServer, opened: ExitStack) -> None:
    server.script.append(answer({"content": "look"}))
    found = ask(connect(server, opened, input_price=2.0, output_price=10))
    given = len(server.codec.encode("user: You see a door.\n"))
    assert found.extras == {
        "prompt_tokens": given,
        "response_tokens": 5,
        "request_cost": pytest.approx((2 * given + 10 * 5) / 1e6),
    }
    server.always = Fault(body=json.dumps({"choices": [answer({"content": "look"})]}))
    assert ask(connect(server, opened)).extras == {}  # a server that counts nothing


def test_what_is_sent(server: ToyServer, opened: ExitStack) -> None:
    sampler = connect(server, opened, omit=["top_p"], body={"reasoning_effort": "low"})
    seed = 2**63 - 1
    ask(sampler, seed=seed, stop=("\n",), temperature=0.5)
    ask(sampler, seed=seed, turn=1)
    first, second = server.sent("/chat/completions")
    assert first == {
        "model": NAME,
        "messages": [{"role": "user", "content": "You see a door."}],
        "temperature": 0.5,
        "seed": first["seed"],
        "max_tokens": 4,
        "stop": ["\n"],
        "reasoning_effort": "low",
    }
    ask(sampler, seed=seed, top_k=20, min_p=0.1)
    assert {"top_k": 20, "min_p": 0.1}.items() <= server.sent("/chat/completions")[-1].items()
    assert 0 <= first["seed"] < 2**31
    assert first["seed"] != second["seed"]
    official = make_openai(SamplerSettings(model="x"))
    assert official.url == "https://api.openai.com/v1"
    assert official._body(request())["max_completion_tokens"] == 4
    official.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retrys": 3}, "has no option 'retrys'; did you mean 'retries'?"),
        ({"retries": -1}, "the option 'retries' of the openai sampler: input should be greater than or equal to 0"),
        ({"timeout": "long"}, "the option 'timeout' of the openai sampler"),
        ({"tool_format": "xml"}, "got 'xml'"),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SamplerError) as caught:
        make_openai(SamplerSettings(model="x", options=options))
    assert message in told(caught)


def test_a_black_box_takes_no_weights(server: ToyServer, opened: ExitStack) -> None:
    with pytest.raises(SamplerError, match="cannot be loaded into a black box"):
        asyncio.run(connect(server, opened).load(Path("weights"), 1))
