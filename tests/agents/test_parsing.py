"""Parsers: forms that are read, forms that are refused with a reason, and any text at all."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turncredit.agents.agent import Agent
from turncredit.agents.errors import AgentError
from turncredit.agents.prompts.parsing import MAX_ACTION_CHARS, MAX_MULTILINE_CHARS, PARSERS

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
    ("think-action", "<think>x</think><action>look</action>\n<action>go", "more than one <action>"),
    ("think-action", "<think>x</think><action>look</action> or <action>go", "text followed </action>"),
    ("think-action", "</think><action>look</action>Put it between <action> and </action>", "text followed </action>"),
    ("think-action", "<think>x</think><action>look</action></think>", "nothing followed the last </think>"),
    ("think-action", "</think><action>a</action></think>b", "no <action> followed the last </think>"),
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
TAILS = ["look", "a\tb", "\xa0", "x" * 200, "<search>"]
_tail = lambda text: text.rpartition("</think>")[2].strip()  # noqa: E731
_inside = lambda text: _tail(text).partition("<action>")[2].partition("</action>")[0].strip()  # noqa: E731
TRUE_IF: dict[str, Callable[[str], bool]] = {
    "there was no </think>": lambda text: "</think>" not in text,
    "no </think> followed the last <think>": lambda text: "</think>" not in text[text.rindex("<think>") :],
    "nothing followed </think>": lambda text: text.count("</think>") == 1 and not _tail(text),
    "nothing followed the last </think>": lambda text: text.count("</think>") > 1 and not _tail(text),
    "no <action> followed </think>": lambda text: text.count("</think>") == 1 and "<action>" not in _tail(text),
    "no <action> followed the last </think>": lambda text: text.count("</think>") > 1 and "<action>" not in _tail(text),
    "there was text between </think> and <action>": lambda text: bool(re.match(r"(?s).+<action>", _tail(text))),
    "there was text between the last </think> and <action>": lambda text: "<action>" in _tail(text)[1:],
    "there was more than one <action>": lambda text: bool(re.match(r"(?s)<action>.*<action>", _tail(text))),
    "there was no </action>": lambda text: "</action>" not in _tail(text),
    "text followed </action>": lambda text: bool(re.search(r"</action>\s*\S", _tail(text))),
    "the answer was empty": lambda text: not text.strip(),
    "the action was empty": lambda text: not _inside(text),
    "the answer was longer than 400 characters": lambda text: len(text) > 400,
    "the action was longer than 400 characters": lambda text: len(_inside(text)) > 400,
    "the answer had more than one line": lambda text: len(text.strip().splitlines()) > 1,
    "the action had more than one line": lambda text: len(_inside(text).splitlines()) > 1,
    "the answer had characters that cannot be printed": lambda text: not text.strip().isprintable(),
    "the action had characters that cannot be printed": lambda text: not _inside(text).isprintable(),
}
"""Every reason of every parser for texts up to 20,000 characters, and when it is true."""


NAMES = ["bare", "think-action", "whole", "with-thoughts"]
"""The parsers whose actions are a part of the text; `test_screen_formats` has the others."""
by_parser = pytest.mark.parametrize("name", NAMES)


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
@given(text=st.lists(PIECES | st.sampled_from(TAILS)).map("".join))
def test_a_reason_is_true(name: str, text: str) -> None:
    why = PARSERS.get(name).read(text).why
    assert why is None or TRUE_IF[why](text), why


def test_every_reason_has_a_text() -> None:
    """The table above has no reason that no parser gives."""
    texts = [text for _, text, _ in REFUSED] + ["</think><action>\x00</action>", "</think></think>x<action>a</action>"]
    texts += [
        "a\tb",
        "</think>" * 2,
        "</think>" + "<action>" + "x" * 401 + "</action>",
        "</think><action>a\nb</action>",
    ]
    reasons = {PARSERS.get(name).read(text).why for name in NAMES for text in texts}
    assert TRUE_IF.keys() <= reasons


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
