"""The openai sampler as a token engine: what it asks for at the end of an answer, and answers that are refused."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from typing import Any

import pytest
from toys.openai_client import ask, connect, request, told
from toys.openai_server import Fault, ToyServer

from turncredit.agents.errors import RequestFailed
from turncredit.agents.models.tokenization import AnswerEnd
from turncredit.engines.base import SamplerSettings
from turncredit.engines.openai import make_openai

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("httpx")


def answered(tokens: Any, logprobs: Any, **more: Any) -> Fault:
    """An answer of a server, as JSON, in which NaN and Infinity may stand."""
    choice = {"text": "", "finish_reason": "stop", "token_ids": tokens, "logprobs": {"token_logprobs": logprobs}}
    return Fault(body=json.dumps({"choices": [{**choice, **more}]}))


@pytest.mark.parametrize(
    ("tokens", "logprobs", "why"),
    [
        ([5, 6], [-0.1, float("nan")], "log-probability nan"),
        ([5, 6], [-0.1, float("-inf")], "log-probability -inf"),
        ([5, 6], [-0.1, 0.2], "log-probability 0.2"),
        ([5, 6], [-0.1, "x"], "log-probability 'x'"),
        ([5, 10**6], [-0.1, -0.1], "token id 1000000"),
        ([5, 2.5], [-0.1, -0.1], "token id 2.5"),
        ([5, {"id": 6}], [-0.1, -0.1], "token id of type dict"),
        ([5] * 9, [-0.1] * 9, "9 token ids, and at most 4"),
    ],
)
def test_samples_that_cannot_be_trained_on_fail_one_request(
    server: ToyServer, opened: ExitStack, tokens: Any, logprobs: Any, why: str
) -> None:
    sampler = connect(server, opened, tokens=True, tokenizer=server.tokenizer)
    server.always = answered(tokens, logprobs)
    with pytest.raises(RequestFailed) as caught:
        ask(sampler, prompt=(5, 6))
    assert why in told(caught)
    server.always = None
    assert ask(sampler, prompt=(5, 6)).tokens, "the engine goes on"


def test_the_vocabulary_is_that_of_the_model(server: ToyServer, opened: ExitStack) -> None:
    """Models have more rows than their tokenizers have entries, and may sample them."""
    size = len(server.tokenizer)
    url = opened.enter_context(server.serve())
    for rows, accepted in ((size + 8, True), (None, False)):
        settings = SamplerSettings(url=url, tokenizer=server.tokenizer, vocabulary=rows, options={"tokens": True})
        sampler = make_openai(settings)
        opened.callback(sampler.close)
        server.always = answered([size + 7], [-0.1])
        try:
            assert ask(sampler, prompt=(5, 6)).tokens == (size + 7,)
        except RequestFailed:
            assert not accepted
        else:
            assert accepted
        server.always = None


def test_a_server_is_told_how_the_chat_template_ends_answers(server: ToyServer, opened: ExitStack) -> None:
    sampler = connect(server, opened, tokens=True, tokenizer=server.tokenizer)
    spelled = server.tokenizer.encode("door<|im_end|>", add_special_tokens=False)
    server.always = answered(spelled, [-0.1] * len(spelled), stop_reason="<|im_end|>")
    said = ask(sampler, prompt=(5, 6), max_tokens=50, end=AnswerEnd("<|im_end|>"), stop=("\n",))
    assert (said.text, said.tokens) == ("door", tuple(spelled))
    server.always = answered([*spelled[:1], 9], [-0.1, -0.1], stop_reason=9)
    text = server.tokenizer.decode(spelled[:1])
    assert ask(sampler, prompt=(5, 6), end=AnswerEnd("<|end|>", 9)).text == text
    first, second = server.sent("/completions")
    assert (first["stop"], first["stop_token_ids"]) == (["\n", "<|im_end|>"], [])
    assert (second["stop"], second["stop_token_ids"]) == ([], [9])


def test_strange_tops_are_no_crash(server: ToyServer, opened: ExitStack) -> None:
    sampler = connect(server, opened, tokens=True, tokenizer=server.tokenizer)
    for tops in (None, [], ["x"], [{"a": "b"}], {"a": 1}):
        fault = answered([5], [-0.1])
        table = json.loads(fault.body)
        table["choices"][0]["logprobs"]["top_logprobs"] = tops
        server.always = Fault(body=json.dumps(table))
        assert asyncio.run(_highest(sampler)) == 0.0


async def _highest(sampler: Any) -> float:
    return float(await sampler._background.run(sampler._highest((5, 6), 1.0)))


def test_a_request_without_a_template_names_no_end(server: ToyServer, opened: ExitStack) -> None:
    sampler = connect(server, opened, tokens=True, tokenizer=server.tokenizer)
    assert request().end is None
    ask(sampler, prompt=(5, 6))
    (sent,) = server.sent("/completions")
    assert (sent["stop"], sent["stop_token_ids"]) == ([], [])
