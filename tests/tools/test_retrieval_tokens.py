"""The tokenizer: hand-written tables, and the grammar of UAX #29 by brute force."""

from __future__ import annotations

import re
import time
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turncredit.tools.retrieval import RetrievalError
from turncredit.tools.retrieval.character_classes import character_classes
from turncredit.tools.retrieval.tokens import tokenize

ZWJ, EMOJI, TEXT = "\u200d", "\ufe0f", "\ufe0e"
WOMAN, GIRL, BOY, HAND, DARK, HEART = "\U0001f469", "\U0001f467", "\U0001f466", "\U0001f44b", "\U0001f3ff", "\u2764"
ENGLAND = "\U0001f3f4" + "".join(chr(0xE0000 + ord(letter)) for letter in "gbeng") + "\U000e007f"

TABLE = {
    "": [],
    " \t\n\r\0!?-/\\()[]{}@&": [],
    "1/4": ["1", "4"],
    "i'm": ["i'm"],
    "women\u2019s": ["women\u2019s"],
    "'quoted'": ["quoted"],
    "rock'n'roll": ["rock'n'roll"],
    "a''b": ["a", "b"],
    "3.5mm 1,000.50 10:30 9.a a.9": ["3.5mm", "1,000.50", "10", "30", "9", "a", "a", "9"],
    "description:solid a.b a,b a;b": ["description:solid", "a.b", "a", "b", "a", "b"],
    "end. start": ["end", "start"],
    "_a_ a_b __1__ _ ___": ["_a_", "a_b", "__1__"],
    "a1b2 4x-large wi-fi": ["a1b2", "4x", "large", "wi", "fi"],
    "caf\u00e9 cafe\u0301 \u00fcber\u00adall": ["caf\u00e9", "cafe\u0301", "\u00fcber\u00adall"],
    "a\u200bb": ["a", "b"],
    "Lego\u2122 \u00ae\u00a9": ["Lego", "\u2122", "\u00ae", "\u00a9"],
    "\u2714\ufe0fsoft\u3010x\u3011": ["\u2714\ufe0f", "soft", "x"],
    "\u2764a\u2764": ["\u2764", "a", "\u2764"],
    f"{WOMAN}{ZWJ}{GIRL}{ZWJ}{BOY}{WOMAN}": [f"{WOMAN}{ZWJ}{GIRL}{ZWJ}{BOY}", WOMAN],
    f"{WOMAN}{ZWJ}{HEART}{EMOJI}{ZWJ}{WOMAN}": [f"{WOMAN}{ZWJ}{HEART}{EMOJI}{ZWJ}{WOMAN}"],
    f"{HAND}{DARK}{HAND} {DARK}": [f"{HAND}{DARK}", HAND, DARK],
    f"{HEART}{TEXT}{HEART}{EMOJI}": [HEART, f"{HEART}{EMOJI}"],
    "\U0001f1eb\U0001f1f7\U0001f1e9\U0001f1ea\U0001f1eb": ["\U0001f1eb\U0001f1f7", "\U0001f1e9\U0001f1ea"],
    "1\ufe0f\u20e3 #\ufe0f\u20e3 *\u20e3 # *": ["1\ufe0f\u20e3", "#\ufe0f\u20e3", "*\u20e3"],
    f"{ENGLAND}x": [ENGLAND, "x"],
    "\u2139 \u2139b \u24c2\ufe0f": ["\u2139", "\u2139b", "\u24c2\ufe0f"],
    "\u6771\u4eac \u3072\u3089 \u30ab\u30bf\u30ab\u30ca \ud55c\uad6d\uc5b4": [
        *("\u6771", "\u4eac", "\u3072", "\u3089", "\u30ab\u30bf\u30ab\u30ca", "\ud55c\uad6d\uc5b4")
    ],
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35abc": ["\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "abc"],
    "\u05e6\u05d4\"\u05dc \u05d2'": ['\u05e6\u05d4"\u05dc', "\u05d2'"],
    "\uff11\uff12\uff0c\uff13": ["\uff11\uff12\uff0c\uff13"],
    "\ud800a": ["a"],
}


@pytest.mark.parametrize("text", TABLE)
def test_tokens_by_hand(text: str) -> None:
    assert tokenize(text) == TABLE[text]


def test_words_longer_than_255_units_are_split() -> None:
    assert [len(token) for token in tokenize("a" * 600 + " b")] == [255, 255, 90, 1]
    assert [len(token) for token in tokenize("é" * 600)] == [255, 255, 90]
    assert [len(token) for token in tokenize("\U0001d41a" * 300)] == [127, 127, 46]  # two units each
    assert [len(token) for token in tokenize("a.b" * 100)] == [255, 45]
    assert [len(token) for token in tokenize("_" * 300 + "a")] == [255]
    assert tokenize("a" * 254 + ".b") == ["a" * 254, "b"]
    assert tokenize("a" * 253 + ".b") == ["a" * 253 + ".b"]


GRAMMAR = {
    "X": "[xzvwcgGS]*",
    "Y": "[xzcgGS]*",
    "AH": "(?:[aAh]X)",
    "NUM": "(?:nX)",
    "HEBREW": "(?:hX)",
    "CON": "(?:eX)",
    "KATA": "(?:kX)",
    "GROUP": "(?:KATA(?:CON*KATA)*|(?:HEBREW(?:qX|dXHEBREW)|NUM(?:(?:CON*|[qpm]X)NUM)*|AH(?:(?:CON*|[qpl]X)AH)*)+)",
    "WORD": "(?:CON*GROUP(?:CON+GROUP)*CON*)",
    "PICTURE": "(?:z*[EBA]Yv?|(?:z*BY)?MY)",
    "PICTURES": "(?:PICTURE(?:(?:zPICTURE)*|g+G)|[n#]Yv?cY|rXrX)",
    "ANY": "WORD|PICTURES|(?:[sS]X)+|[ji]X",
}


def plain_pattern() -> re.Pattern[str]:
    text = "ANY"
    while names := [name for name in sorted(GRAMMAR, key=len, reverse=True) if name in text]:
        text = text.replace(names[0], GRAMMAR[names[0]])
    return re.compile(text)


PLAIN = plain_pattern()


@cache
def samples() -> dict[str, str]:
    """A character of every kind; there are 900,000 to look at."""
    return {kind: character for character in map(chr, range(0x20, 0xE0080)) for kind in character_classes(character)}


def texts(kinds: str, most: int) -> st.SearchStrategy[str]:
    """Texts of characters of some kinds, of all kinds where none are named."""
    return st.deferred(lambda: st.text(alphabet=sorted(samples()[kind] for kind in kinds or samples()), max_size=most))


def plainly(text: str) -> list[str]:
    kind, at, found = character_classes(text), 0, []
    while at < len(text):
        ends = (end for end in range(len(text), at, -1) if PLAIN.fullmatch(kind, at, end))
        end = next(ends, at)
        if end > at:
            found.append(text[at:end])
        at = max(end, at + 1)
    return found


def test_the_table_of_characters_has_every_kind() -> None:
    assert "".join(sorted(samples())) == "".join(sorted("ahAnkqdplmexSzvwgGcsjirEBM#."))
    assert character_classes("aZ09_:.;,'\"") == "aannelpmmqd"


@settings(deadline=None, max_examples=300)
@given(texts("", 14))
def test_a_token_is_the_longest_match_of_the_grammar(text: str) -> None:
    assert tokenize(text) == plainly(text)


@settings(deadline=None, max_examples=150)
@given(texts("hqdaepn", 12))
def test_hebrew_quotes_as_in_the_grammar(text: str) -> None:
    assert tokenize(text) == plainly(text)


@settings(deadline=None, max_examples=150)
@given(texts("EBMAzvxgGa", 12))
def test_emoji_sequences_as_in_the_grammar(text: str) -> None:
    assert tokenize(text) == plainly(text)


@settings(deadline=None, max_examples=150)
@given(st.text(alphabet="ab19_.:,;' -#*", max_size=16))
def test_ascii_text_follows_the_same_grammar(text: str) -> None:
    assert tokenize(text) == plainly(text) == [token for token in tokenize(text + " é") if token != "é"]


@given(st.text(max_size=80))
def test_tokens_are_substrings_in_order(text: str) -> None:
    at = 0
    for token in tokenize(text):
        assert token
        at = text.index(token, at) + len(token)


@pytest.mark.parametrize("piece", ["a", "_", "a.", "a_", "\u0301", "\U0001f469\u200d", "\u05d0'", '\u05d0"', "#\u0301"])
def test_time_is_linear_in_the_length(piece: str) -> None:
    start = time.thread_time()  # of this thread alone: the process has others
    tokenize(piece * (200_000 // len(piece)))
    assert time.thread_time() - start < 30.0  # a quadratic one takes minutes


@pytest.mark.parametrize("text", [b"bytes", None, 7, ["a"]])
def test_non_text_is_refused(text: object) -> None:
    with pytest.raises(RetrievalError, match=f"got {type(text).__name__}"):
        tokenize(text)  # type: ignore[arg-type]
