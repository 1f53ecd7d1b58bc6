"""A server without a parser of reasoning whose prompts end with <think>: thoughts are told from answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from toys.corridor import Corridor
from toys.openai_client import TASK, answer, ask, connect
from toys.openai_server import ToyServer

from turncredit.agents.agent import Agent
from turncredit.agents.rollouts.rollout import rollout

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("httpx")
pytestmark = pytest.mark.waits

OPENS = (
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: <think>{{ '</think>' if enable_thinking is false }}{% endif %}"
)
CUT = answer({"content": "I could go\neast, but"}, "length")
CLOSED = answer({"content": "A key.\n</think>\n\ntake key"})
PLAIN = answer({"content": "take key"})
AS_ACTION, NO_ACTION = "I could go\neast, but", "<think>I could go\neast, but"


@pytest.fixture
def opening(server: ToyServer) -> Iterator[ToyServer]:
    before = server.tokenizer.chat_template
    server.tokenizer.chat_template = OPENS
    yield server
    server.tokenizer.chat_template = before


def read(
    server: ToyServer, opened: ExitStack, *answers: dict[str, Any], stop: tuple[str, ...] = (), **options: Any
) -> list[str]:
    """The texts of answers that one sampler reads one after the other."""
    sampler = connect(server, opened, **options)
    server.script.extend(answers)
    return [ask(sampler, stop=stop).text for _ in answers]


@pytest.mark.parametrize("tells", ["tokens", "prompt"])
def test_the_server_is_asked_once_when_an_answer_was_cut(opening: ToyServer, opened: ExitStack, tells: str) -> None:
    opening.tells = tells
    assert read(opening, opened, PLAIN, CUT, CUT, CLOSED, PLAIN) == [
        "take key", NO_ACTION, NO_ACTION, "\n\ntake key", "<think>take key",
    ]  # fmt: skip
    assert len(opening.sent("/tokenize")) == (tells == "tokens")
    assert len(opening.sent("/apply-template")) == 1


@pytest.mark.parametrize("tells", ["tokens", "prompt"])
def test_arguments_of_the_template_count(opening: ToyServer, opened: ExitStack, tells: str) -> None:
    opening.tells = tells
    body = {"chat_template_kwargs": {"enable_thinking": False}}
    assert read(opening, opened, CUT, PLAIN, CUT, body=body) == [AS_ACTION, "take key", AS_ACTION]


def test_a_server_that_tells_nothing_shows_it_by_its_answers(opening: ToyServer, opened: ExitStack) -> None:
    assert read(opening, opened, CLOSED, CUT, CUT) == ["\n\ntake key", NO_ACTION, NO_ACTION]
    assert len(opening.sent("/apply-template")) == len(opening.sent("/tokenize")) == 1


def test_a_tag_in_an_answer_makes_no_thought_of_others(opening: ToyServer, opened: ExitStack) -> None:
    """A model that does not think may write the tag: its complete answers without it count for more."""
    assert read(opening, opened, PLAIN, CLOSED, CUT, PLAIN) == ["take key", "\n\ntake key", AS_ACTION, "take key"]
    tagged = answer({"content": "<think>A key.</think>take key"}), answer({"content": "<think>I could"}, "length")
    assert read(opening, opened, *tagged, CUT) == ["<think>A key.</think>take key", "<think>I could", AS_ACTION]


def test_a_stop_string_cuts_a_thought_as_well(opening: ToyServer, opened: ExitStack) -> None:
    line = answer({"content": "I could go"})
    assert read(opening, opened, CLOSED, line, stop=("\n",)) == ["\n\ntake key", "<think>I could go"]


def test_answers_that_were_read_too_early_are_reported(opening: ToyServer, opened: ExitStack) -> None:
    with pytest.warns(RuntimeWarning, match=r"2 answers that were cut .* set sampler\.options\.opens_"):
        assert read(opening, opened, CUT, CUT, CLOSED, CUT) == [AS_ACTION, AS_ACTION, "\n\ntake key", NO_ACTION]


def test_an_option_says_it(opening: ToyServer, opened: ExitStack) -> None:
    opening.tells = "tokens"
    texts = read(opening, opened, CUT, PLAIN, CLOSED, opens_thought=True)
    assert texts == [NO_ACTION, "<think>take key", "\n\ntake key"]
    whole = "A key.\n</think>\n\ntake key"
    assert read(opening, opened, CUT, PLAIN, CLOSED, opens_thought=False) == [AS_ACTION, "take key", whole]
    assert opening.sent("/tokenize") == opening.sent("/apply-template") == []


def test_what_a_server_sets_apart_is_left_alone(opening: ToyServer, opened: ExitStack) -> None:
    opening.tells = "tokens"
    apart = answer({"content": "I could go", "reasoning_content": "A key."}, "length")
    sampler = connect(opening, opened)
    opening.script.append(apart)
    reply = ask(sampler)
    assert (reply.text, reply.reasoning, reply.finish) == ("I could go", "A key.", "length")
    opening.script.append(answer({"content": "A key.\n</think>\n\n"}))
    reply = ask(sampler)
    assert (reply.text.strip(), reply.reasoning.strip(), reply.finish) == ("", "A key.", "empty")
    assert opening.sent("/tokenize") == []


@pytest.mark.parametrize("parser", ["bare", "whole", "with-thoughts"])
def test_a_thought_that_was_cut_is_not_played(opening: ToyServer, opened: ExitStack, parser: str) -> None:
    opening.tells = "tokens"
    opening.script.extend([answer({"content": "take key"}, "length"), CLOSED])
    sampler = connect(opening, opened)
    agent = Agent.from_options(parser=parser, max_turns=2)
    (group,) = rollout(agent, sampler, [TASK], make=Corridor)
    first, second = group.trajectories[0].turns
    assert (first.action, first.valid) == (None, False)
    thought = "<think>A key.\n</think>\n\n"
    assert second.action == ("take key" if parser != "with-thoughts" else f"{thought}take key")
    assert second.text == ("\n\ntake key" if parser == "bare" else f"{thought}take key")
