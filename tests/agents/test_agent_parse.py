"""Parsers: forms that are read, forms that are refused with a reason, and any text at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.agents.agent import Agent
from turnwise.agents.errors import AgentError
from turnwise.agents.parsing import (
    MAX_ACTION_CHARS,
    MAX_MULTILINE_CHARS,
    PARSERS,
    bare,
    think_action,
    whole,
    with_thoughts,
)


@pytest.mark.parametrize(
    ("text", "action"),
    [("look", "look"), ("  go to shelf 1\n", "go to shelf 1"), ("prends l'épée", "prends l'épée")],
)
def test_bare_text_is_the_action(text: str, action: str) -> None:
    assert bare(text).action == action


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        (" \n\t", "empty"),
        ("look\nlook", "more than one line"),
        ("look\x00", "cannot be printed"),
        ("a" * (MAX_ACTION_CHARS + 1), "longer than"),
        ("x" * 5_000_000, "longer than"),
    ],
)
def test_bare_refuses_with_a_reason(text: str, why: str) -> None:
    parsed = bare(text)
    assert parsed.action is None
    assert why in str(parsed.why)


@pytest.mark.parametrize(
    "text",
    [
        "<think>a lamp</think><action>use lamp 1</action>",
        "<think>a\nlamp</think>\n\n<action> use lamp 1 </action>\n",
        "a lamp</think><action>use lamp 1</action>",
        "<think><action>no</action></think><action>use lamp 1</action>",
        "<think>one</think><think>two</think><action>use lamp 1</action>",
    ],
)
def test_tags_are_read(text: str) -> None:
    assert think_action(text).action == "use lamp 1"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no </think>"),
        ("look", "no </think>"),
        ("<action>look</action>", "no </think>"),
        ("<think>x</think>look", "no <action>"),
        ("<think>x</think><action>look", "no </action>"),
        ("<think>x</think><action>look</action><action>go</action>", "more than one"),
        ("<think>x</think><action>look</action> done", "more than one"),
        ("<think>x</think><action><action>look</action>", "more than one"),
        ("<think>x</think><action></action>", "empty"),
        ("<think>x</think><action>a\nb</action>", "more than one line"),
        ("<think>" * 100_000, "no </think>"),
        ("</think><action>" * 100_000, "no </action>"),
    ],
)
def test_tags_are_refused_with_a_reason(text: str, why: str) -> None:
    parsed = think_action(text)
    assert parsed.action is None
    assert why in str(parsed.why)


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("<find>Ada</find>", "<find>Ada</find>"),
        ("<think>who?</think>\n\nrun\n  print(1)\n", "run\n  print(1)"),
        ("who?</think><find>Ada</find> and <think>", "<find>Ada</find> and <think>"),
    ],
)
def test_the_whole_text_is_the_action_without_its_reasoning(text: str, action: str) -> None:
    assert whole(text).action == action


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (" \n", "empty"),
        ("<think>x</think>\n", "nothing followed"),
        ("<think>look", "no </think>"),
        ("look\x00", "cannot be printed"),
        ("a\n" * MAX_MULTILINE_CHARS, "longer than"),
    ],
)
def test_a_whole_text_is_refused_with_a_reason(text: str, why: str) -> None:
    assert whole(text).action is None
    assert why in str(whole(text).why)


@pytest.mark.parametrize(
    "text",
    [
        "<think>who?</think>\n\n<find>Ada</find>",
        "<think>who?</think><find>Ada</find><think>more</think>\n  <find>Bo</find>",
        "<think>cut off",
        "x" * MAX_MULTILINE_CHARS,
    ],
)
def test_thoughts_are_handed_over_as_they_stand(text: str) -> None:
    assert with_thoughts(f"\n {text}\n").action == text


@pytest.mark.parametrize(
    ("text", "why"),
    [(" \n", "empty"), ("<think>\x00</think>", "cannot be printed"), ("a\n" * MAX_MULTILINE_CHARS, "longer than")],
)
def test_thoughts_are_refused_with_a_reason(text: str, why: str) -> None:
    assert with_thoughts(text).action is None
    assert why in str(with_thoughts(text).why)


PIECES = st.sampled_from(["<think>", "</think>", "<action>", "</action>", "look", "\n", " ", "\x00", "\udcff", "é"])


@pytest.mark.parametrize("name", PARSERS.names())
@given(text=st.one_of(st.text(), st.lists(PIECES).map("".join), st.binary().map(lambda b: b.decode("latin-1"))))
def test_any_text_is_an_action_or_a_reason(name: str, text: str) -> None:
    parsed = PARSERS.get(name).read(text)
    assert (parsed.action is None) != (parsed.why is None)
    if parsed.action is not None:
        assert parsed.action == parsed.action.strip()
        if name in ("whole", "with-thoughts"):
            assert parsed.action.encode()
            assert len(parsed.action) <= MAX_MULTILINE_CHARS
        else:
            assert parsed.action.isprintable()
            assert 0 < len(parsed.action) <= MAX_ACTION_CHARS
        assert parsed.action in text


@pytest.mark.parametrize("name", PARSERS.names())
@given(action=st.text(st.characters(categories=("L", "N")), min_size=1, max_size=40))
def test_what_is_written_is_read(name: str, action: str) -> None:
    assert PARSERS.get(name).read(PARSERS.get(name).write(action)).action == action


def test_an_unknown_parser_names_the_near_one() -> None:
    with pytest.raises(AgentError, match="did you mean 'bare'"):
        Agent(parser="baer")
