"""What the openai sampler sends, and how it tells answers apart: refused, empty, truncated; tokens, prices, options."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from toys.corridor import Corridor
from toys.openai_client import TASK, answer, ask, connect, request, told
from toys.openai_server import NAME, Fault, ToyServer, error

from turncredit.agents.agent import Agent
from turncredit.agents.errors import SamplerError
from turncredit.agents.rollouts.rollout import rollout
from turncredit.cli.evaluate import usage
from turncredit.engines.base import SamplerSettings
from turncredit.engines.openai import make_openai
from turncredit.evaluation.evaluation import evaluate
from turncredit.evaluation.panels import Panel

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
        (answer({"content": "<a>look"}, matched_stop="</a>"), "<a>look</a>", "stop"),
        (answer({"content": "look"}, matched_stop=151645), "look", "stop"),
        (answer({"content": [{"type": "text", "text": "lo"}, {"type": "text", "text": "ok"}]}), "look", "stop"),
        (answer({"content": [{"type": "refusal", "refusal": "No."}]}), "No.", "refusal"),
        (answer({"content": [{"type": "reasoning", "text": "Hm."}]}), "", "empty"),
        (answer({"content": ["lo", "ok"]}), "look", "stop"),
        (answer({"content": "look ar"}, "max_tokens"), "look ar", "length"),
        (answer({"content": "look ar"}, "MAX_TOKENS"), "look ar", "length"),
        (answer({"content": "look ar"}, "model_length"), "look ar", "length"),
        (answer({"content": "I"}, "SAFETY"), "I", "refusal"),
        (answer({"content": "I"}, "sensitive"), "I", "refusal"),
        (answer({"content": "I"}, "content_filter: SAFETY"), "I", "refusal"),
        ({"index": 0, "finish_reason": "content_filter: PROHIBITED_CONTENT"}, "", "refusal"),
        ({"index": 0, "finish_reason": "function_call_filter: MALFORMED_FUNCTION_CALL"}, "", "empty"),
        (answer({"content": "look"}, "function_call_filter: MALFORMED_FUNCTION_CALL"), "look", "stop"),
        (answer({"content": "look"}, "null"), "look", "stop"),
        (answer({"content": "look ar"}, "ERROR_LIMIT"), "look ar", "length"),
        (answer({"content": "look"}, "end_turn"), "look", "stop"),
        (answer({"content": "look"}, None), "look", "stop"),
    ],
)
def test_answers_are_told_apart(server: ToyServer, opened: ExitStack, scripted: Any, text: str, finish: str) -> None:
    server.script.append(scripted)
    found = ask(connect(server, opened))
    assert (found.text, found.finish, found.tokens, found.logprobs) == (text, finish, (), ())


def test_an_unknown_word_for_the_end_is_reported(server: ToyServer, opened: ExitStack) -> None:
    server.script.append(answer({"content": "look"}, "moonrise"))
    with pytest.warns(RuntimeWarning, match="the unknown finish_reason 'moonrise'; it counts as complete"):
        assert ask(connect(server, opened)).finish == "stop"


def test_an_older_function_call_is_a_call(server: ToyServer, opened: ExitStack) -> None:
    server.script.append(
        answer({"content": None, "function_call": {"name": "find", "arguments": "{}"}}, "function_call")
    )
    found = ask(connect(server, opened))
    assert found.text == '<tool_call>\n{"name": "find", "arguments": {}}\n</tool_call>'
    assert found.finish == "stop"


APART = {
    "reasoning_content": {"reasoning_content": "I look.", "content": "<action>look</action>"},
    "reasoning": {"reasoning": "I look.", "content": "<action>look</action>"},
    "details": {
        "reasoning_details": [{"type": "reasoning.text", "text": "I look."}],
        "content": "<action>look</action>",
    },
    "blocks": {
        "thinking_blocks": [{"type": "thinking", "thinking": "I look.", "signature": "x"}],
        "content": "<action>look</action>",
    },
    "empty": {"reasoning": "I look.", "content": "<action>look</action>", "tool_calls": [], "refusal": None},
    "parts": {
        "content": [
            {"type": "thinking", "thinking": [{"type": "text", "text": "I look."}]},
            {"type": "text", "text": "<action>look</action>"},
        ]
    },
    "both": {
        "reasoning": None,
        "reasoning_content": "I look.",
        "content": [{"type": "text", "text": "<action>look</action>"}],
    },
    "inline": {"reasoning_content": "I look.", "content": "<think>I look.</think><action>look</action>"},
}


@pytest.mark.parametrize("kind", APART)
def test_reasoning_apart_is_read_as_if_it_stood_in_the_text(server: ToyServer, opened: ExitStack, kind: str) -> None:
    server.script += [answer(APART[kind])] * 2
    (group,) = rollout(Agent(parser="think-action", max_turns=2), connect(server, opened), [TASK], make=Corridor)
    assert [(turn.action, turn.text) for turn in group.trajectories[0].turns] == [
        ("look", "<think>I look.</think><action>look</action>")
    ] * 2
    earlier = server.sent("/chat/completions")[-1]["messages"][1]
    assert earlier["content"] == APART[kind]["content"]
    assert set(earlier) == {"role", "content"}


@pytest.mark.parametrize(
    ("parser", "action", "text"),
    [
        ("bare", "look", "look"),
        ("whole", "look", "<think>I look.\nThen I go.</think>look"),
        ("with-thoughts", "<think>I look.\nThen I go.</think>look", "<think>I look.\nThen I go.</think>look"),
        ("toys.outside_parts:PARSER", "look", "look"),
    ],
)
def test_reasoning_apart_is_for_the_parsers_that_read_it(parser: str, action: str, text: str) -> None:
    agent = Agent(parser=parser)
    found = agent.answer_text("look", "I look.\nThen I go.")
    assert (found, agent.parse(found).action) == (text, action)
    assert agent.answer_text("", "I look.") == (
        "" if parser not in ("whole", "with-thoughts") else "<think>I look.</think>"
    )


def test_long_reasoning_does_not_push_the_action_out() -> None:
    agent = Agent(parser="think-action")
    text = agent.answer_text("<action>look</action>", "x" * 50_000, 20_000)
    assert len(text) == 20_000
    assert agent.parse(text).action == "look"


def test_totals_say_for_how_many_answers_they_are_known(server: ToyServer, opened: ExitStack) -> None:
    sampler = connect(server, opened, input_price=1.0)
    server.faults += [Fault(body=json.dumps({"choices": [answer({"content": "look"})]}))] * 2
    panel = Panel("toy", (TASK,), {}, 0)
    result = evaluate(Agent(max_turns=3), sampler, panel, Corridor)
    (row,) = result.rows
    assert (row.turns, row.counted, row.priced) == (3, 1, 1)
    assert (result.summary().counted, result.summary().priced) == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    (line,) = [line for line in usage(result) if line.startswith("tokens")]
    assert line.count("known for 1 of 3 answers") == 2
    whole = evaluate(Agent(max_turns=3), connect(server, opened, input_price=1.0), panel, Corridor)
    assert not any("known for" in line for line in usage(whole))


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
    for counts in ({"prompt_tokens": 7.0, "completion_tokens": 5.0}, {"input_tokens": 7, "output_tokens": 5}):
        server.always = Fault(body=json.dumps({"choices": [answer({"content": "look"})], "usage": counts}))
        assert ask(connect(server, opened)).extras == {"prompt_tokens": 7, "response_tokens": 5}
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
