"""Parsers: forms that are read, forms that are refused with a reason, and any text at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.agents.agent import Agent
from turnwise.agents.errors import AgentError
from turnwise.agents.prompts.parsing import MAX_ACTION_CHARS, MAX_MULTILINE_CHARS, PARSERS

READ = [
    ("bare", "look", "look"),
    ("bare", "  go to shelf 1\n", "go to shelf 1"),
    ("bare", "prends l'épée", "prends l'épée"),
    ("think-action", "<think>a lamp</think><action>use lamp 1</action>", "use lamp 1"),
    ("think-action", "<think>a\nlamp</think>\n\n<action> use lamp 1 </action>\n", "use lamp 1"),
    ("think-action", "a lamp</think><action>use lamp 1</action>", "use lamp 1"),
    ("think-action", "<think><action>no</action></think><action>use lamp 1</action>", "use lamp 1"),
    ("think-action", "<think>one</think><think>two</think><action>use lamp 1</action>", "use lamp 1"),
    ("whole", "<find>Ada</find>", "<find>Ada</find>"),
    ("whole", "<think>who?</think>\n\nrun\n  print(1)\n", "run\n  print(1)"),
    ("whole", "who?</think><find>Ada</find> and <think>", "<find>Ada</find> and <think>"),
    ("with-thoughts", "\n<think>who?</think>\n\n<find>Ada</find>\n", "<think>who?</think>\n\n<find>Ada</find>"),
    ("with-thoughts", "<think>cut off", "<think>cut off"),
    ("with-thoughts", "x" * MAX_MULTILINE_CHARS, "x" * MAX_MULTILINE_CHARS),
]
REFUSED = [
    ("bare", "", "empty"),
    ("bare", " \n\t", "empty"),
    ("bare", "look\nlook", "more than one line"),
    ("bare", "look\x00", "cannot be printed"),
    ("bare", "a" * (MAX_ACTION_CHARS + 1), "longer than"),
    ("bare", "x" * 5_000_000, "longer than"),
    ("think-action", "", "no </think>"),
    ("think-action", "<action>look</action>", "no </think>"),
    ("think-action", "<think>x</think>look", "no <action> followed </think>"),
    ("think-action", "<think>x</think>\n", "nothing followed </think>"),
    ("think-action", "<think>x</think>I <action>look</action>", "text between </think> and <action>"),
    ("think-action", "<think>x</think><action>look", "no </action>"),
    ("think-action", "<think>x</think><action>look</action><action>go</action>", "more than one <action>"),
    ("think-action", "<think>x</think><action>look</action> or <action>go", "more than one <action>"),
    ("think-action", "<think>x</think><action>look</action> done", "text followed </action>"),
    ("think-action", "<think>x</think><action>look</action></action>", "text followed </action>"),
    ("think-action", "<think>x</think><action><action>look</action>", "more than one <action>"),
    ("think-action", "<think>x</think><action></action>", "empty"),
    ("think-action", "<think>x</think><action>a\nb</action>", "more than one line"),
    ("think-action", "<think>" * 100_000, "no </think>"),
    ("think-action", "</think><action>" * 100_000, "no </action>"),
    ("whole", " \n", "empty"),
    ("whole", "<think>x</think>\n", "nothing followed"),
    ("whole", "<think>look", "there was no </think>"),
    ("whole", "<think>x</think><think>look", "no </think> followed the last <think>"),
    ("whole", "look\x00", "cannot be printed"),
    ("whole", "a\n" * MAX_MULTILINE_CHARS, "longer than"),
    ("with-thoughts", " \n", "empty"),
    ("with-thoughts", "<think>\x00</think>", "cannot be printed"),
    ("with-thoughts", "a\n" * MAX_MULTILINE_CHARS, "longer than"),
]
PIECES = st.sampled_from(["<think>", "</think>", "<action>", "</action>", "look", "\n", " ", "\x00", "\udcff", "é"])
by_parser = pytest.mark.parametrize("name", PARSERS.names())


@pytest.mark.parametrize(("name", "text", "action"), READ)
def test_an_answer_in_the_form_of_the_parser_is_read(name: str, text: str, action: str) -> None:
    assert PARSERS.get(name).read(text).action == action


@pytest.mark.parametrize(("name", "text", "why"), REFUSED)
def test_another_answer_is_refused_with_a_reason(name: str, text: str, why: str) -> None:
    parsed = PARSERS.get(name).read(text)
    assert parsed.action is None
    assert why in str(parsed.why)


@by_parser
@given(text=st.one_of(st.text(), st.lists(PIECES).map("".join), st.binary().map(lambda b: b.decode("latin-1"))))
def test_any_text_is_an_action_or_a_reason(name: str, text: str) -> None:
    parsed = PARSERS.get(name).read(text)
    assert (parsed.action is None) != (parsed.why is None)
    if parsed.action is None:
        return
    assert parsed.action == parsed.action.strip()
    assert parsed.action in text
    if name in ("whole", "with-thoughts"):
        assert len(parsed.action.encode().decode()) <= MAX_MULTILINE_CHARS
    else:
        assert parsed.action.isprintable()
        assert 0 < len(parsed.action) <= MAX_ACTION_CHARS


@by_parser
@given(action=st.text(st.characters(categories=("L", "N")), min_size=1, max_size=40))
def test_what_is_written_is_read(name: str, action: str) -> None:
    assert PARSERS.get(name).read(PARSERS.get(name).write(action)).action == action


STOPPED = [
    ("bare", ["<|im_end|>"], "go to fridge 1<|im_end|>", "go to fridge 1"),
    ("bare", [" "], "go right", "go right"),
    ("bare", ["\n"], "look\n\n", "look"),
    ("bare", ["]"], "search[red mug]", "search[red mug]"),
    ("bare", ["]"], "look]", "look"),
    ("whole", ["\nObservation:"], "search: Ada\nObservation:", "search: Ada"),
    ("whole", ["</search>", "</answer>"], "<search>Ada</search>\n", "<search>Ada</search>"),
    ("whole", ["</search>"], "Ada</search>", "Ada"),
    ("whole", ["\n```"], "```sh\nls\n```", "```sh\nls\n```"),
    ("whole", ["```"], "ls\n```", "ls"),
    ("with-thoughts", ["[/CALL]"], "hm [CALL]f()[/CALL].", "hm [CALL]f()[/CALL]"),
    ("think-action", ["</action>"], "<think>x</think><action>look</action>.\n", "look"),
    ("think-action", ["<|end|>"], "<think>x</think><action>look</action><|end|>", "look"),
    ("bare", [""], "look", "look"),
]


@pytest.mark.parametrize(("parser", "stop", "text", "action"), STOPPED)
def test_a_stop_string_that_ends_an_answer_belongs_to_no_action(
    parser: str, stop: list[str], text: str, action: str
) -> None:
    assert Agent.from_options(parser=parser, stop=stop).parse(text).action == action


def test_an_unknown_parser_names_the_near_one() -> None:
    with pytest.raises(AgentError, match="did you mean 'bare'"):
        Agent(parser="baer")
