"""Actions in the browser: parsing, explanations of errors, and arbitrary text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turncredit.tools.browser import ACTION_KINDS, BrowserAction, InvalidAction, parse


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("click[e3]", BrowserAction("click", "e3")),
        ("  CLICK [ E3 ] ", BrowserAction("click", "e3")),
        ("click[[e3]]", BrowserAction("click", "e3")),
        ("type[e5, red shoes]", BrowserAction("type", "e5", "red shoes")),
        ("type[e5,red]", BrowserAction("type", "e5", "red")),
        ("type[e5,  two]", BrowserAction("type", "e5", " two")),
        ("type[e5, a [b], c]", BrowserAction("type", "e5", "a [b], c")),
        ("type[e5, line\nbreak]", BrowserAction("type", "e5", "line\nbreak")),
        ("type[e5, ]", BrowserAction("type", "e5", "")),
        ("select[e7, Peru]", BrowserAction("select", "e7", "Peru")),
        ("press[enter]", BrowserAction("press", "", "Enter")),
        ("press[control+A]", BrowserAction("press", "", "Control+A")),
        ("press[Shift+Tab]", BrowserAction("press", "", "Shift+Tab")),
        ("press[+]", BrowserAction("press", "", "+")),
        ("press[Control++]", BrowserAction("press", "", "Control++")),
        ("press[ ]", BrowserAction("press", "", "Space")),
        ("press[é]", BrowserAction("press", "", "é")),
        ("scroll[down]", BrowserAction("scroll", "", "down")),
        ("scroll[e4, UP]", BrowserAction("scroll", "e4", "up")),
        ("back[]", BrowserAction("back")),
        ("wait[ ]", BrowserAction("wait")),
    ],
)
def test_actions_are_parsed(text: str, action: BrowserAction) -> None:
    assert parse(text) == action
    assert parse(str(action)) == action


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("go left", ["kind[arguments]", "click[ELEMENT]", "move[X, Y]", "wait[]"]),
        ("clik[e3]", ["clik", "did you mean 'click'"]),
        ("fly[e3]", ["fly", "click, type"]),
        ("click[Buy Now]", ["such as e3", "Buy Now"]),
        ("click[]", ["such as e3"]),
        ("type[e5]", ["type[ELEMENT, words]", "comma"]),
        ("select[e5, ]", ["option"]),
        ("press[Entr]", ["Entr", "did you mean 'Enter'"]),
        ("press[Cntrl+a]", ["Cntrl", "did you mean 'Control'"]),
        ("press[]", ["unknown key ''"]),
        ("scroll[sideways]", ["down or up", "sideways"]),
        ("back[2]", ["takes no arguments"]),
        ("type[e1, \ud800]", ["surrogates"]),
        ("type[e1, " + "x" * 20_000 + "]", ["10,000", "20,0"]),
    ],
)
def test_invalid_actions_are_explained(text: str, parts: list[str]) -> None:
    found = parse(text)
    assert isinstance(found, InvalidAction)
    assert [part for part in parts if part not in found.reason] == []
    assert len(found.reason) < 400


_PIECES = st.sampled_from(
    [*ACTION_KINDS, "[", "]", ",", "e1", "e", "+", "Enter", "down", " ", "\n", "\0", "\ud800", "é"]
)


@given(st.one_of(st.text(max_size=40), st.lists(_PIECES, max_size=8).map("".join)))
def test_any_text_is_parsed_or_explained(text: str) -> None:
    found = parse(text)
    if isinstance(found, InvalidAction):
        assert found.reason
    else:
        assert found.kind in ACTION_KINDS
        assert parse(str(found)) == found


@given(st.sampled_from(sorted(ACTION_KINDS)), st.text(max_size=30))
def test_any_arguments_are_parsed_or_explained(kind: str, words: str) -> None:
    assert isinstance(parse(f"{kind}[{words}]"), BrowserAction | InvalidAction)


@given(st.text(st.characters(codec="utf-8"), max_size=60))
def test_typed_words_are_kept_exactly(words: str) -> None:
    assert parse(f"type[e1, {words}]") == BrowserAction("type", "e1", words)
