"""Laws of text on its way out: nothing that a terminal obeys, everything encodable, no key."""

import base64
import json
import pickle
import unicodedata
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turncredit.tools.visible_text import Secret, encodable, escaped, hide_in, hide_secrets

ANY_TEXT = st.text(st.characters(codec=None, categories=None))
KEYS = st.text(st.characters(codec="ascii", categories=("L", "N", "P", "S")), min_size=6, max_size=40)


@given(ANY_TEXT)
def test_escaped_text_holds_nothing_that_a_terminal_obeys(text: str) -> None:
    shown = escaped(text)
    shown.encode()
    controls = [c for c in shown if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") and c not in "\n\t"]
    assert controls == []
    assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f")
    assert escaped(shown) == shown


@given(st.text(st.characters(min_codepoint=32, exclude_categories=("C", "Zl", "Zp"))))
def test_what_can_be_seen_is_unchanged(text: str) -> None:
    assert escaped(text) == text


def test_escapes_are_those_of_python() -> None:
    assert escaped("\x1b[2J\x9b1m\r\u202e\udc80\n\t") == "\\x1b[2J\\x9b1m\\r\\u202e\\udc80\n\t"
    assert escaped("a\nb", keep="") == "a\\nb"
    assert escaped("\U0001f469\u200d\U0001f680") == "\U0001f469\u200d\U0001f680"


@given(ANY_TEXT)
def test_encodable_changes_half_pairs_alone(text: str) -> None:
    assert encodable(text).encode().decode() == "".join(
        c if not 0xD800 <= ord(c) < 0xE000 else f"\\u{ord(c):04x}" for c in text
    )


@given(KEYS)
def test_a_key_shows_in_no_form(key: str) -> None:
    forms = [key, quote(key, safe=""), json.dumps(key)[1:-1], repr(key)[1:-1], base64.b64encode(key.encode()).decode()]
    shown = hide_secrets(" | ".join(forms), [Secret(key)])
    assert [form for form in forms if form.rstrip("=") in shown] == []


def test_a_key_of_any_characters_shows_in_no_json() -> None:
    assert hide_in({"message": ['key sk-a"b\\é']}, [Secret('sk-a"b\\é')]) == {"message": ["key ***"]}


def test_short_keys_hide_nothing() -> None:
    assert hide_secrets("an example", ["x", "", Secret("a")]) == "an example"


def test_a_secret_does_not_give_itself_away() -> None:
    secret = Secret("sk-very-secret")
    for text in (str(secret), repr(secret), f"{secret}", str([secret]), str({"key": secret})):
        assert "very" not in text
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(secret)
    with pytest.raises(TypeError):
        json.dumps(secret)
    assert secret.reveal() == "sk-very-secret"
    assert secret == Secret("sk-very-secret")
    assert secret != "sk-very-secret"
    assert not Secret("")
