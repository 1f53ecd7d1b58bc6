"""Tokenizer like Lucene's StandardTokenizer: word boundaries of UAX #29, with emoji as words.

Starting where the previous token ended, a token is the longest match of one of

    word      letters, digits, Katakana and connectors that UAX #29 does not separate ("i'm", "3.5", "snake_case")
    emoji     a pictograph with its marks, skin tone, joined pictographs or tags; a keycap; a flag ("™", "👩‍🚀", "🇫🇷")
    run       a run of a South East Asian script, which has no spaces
    sign      one Han or Hiragana character

A character that starts none of these is dropped. The patterns match character classes (`character_classes`), one letter
per class, to stay small. Repetitions are bounded, since a token has at most 255 UTF-16 units, so the time is linear in
the length of the text. Token types and positions are not provided.
"""

import re
from collections.abc import Iterator

from turncredit.tools.retrieval.character_classes import character_classes
from turncredit.tools.retrieval.errors import RetrievalError

LONGEST = 255
"""Maximum number of UTF-16 units of a token; a longer word is split."""

_ASCII = re.compile(
    # letters and digits, joined by punctuation between two of the same type, and connected by underscores
    "(?:_{0,254}+(?:[A-Za-z]++(?:[.:'][A-Za-z]++){0,255}+|[0-9]++(?:[.,;'][0-9]++){0,255}+){1,255}+){1,255}+_{0,254}"
)

_X = "[xzvwcgGS]"  # characters that extend the one before
_Y = "[xzcgGS]"  # the same in emoji, where selectors are significant


def _word() -> str:
    """Return the pattern of words, rules WB5 to WB13b."""
    letter = f"(?:[aA][aAxzvwcgGS]*+|h{_X}*+)"
    # A Hebrew letter before a quote starts a new part.
    adjacent = f"(?:[aA][aAxzvwcgGS]*+|h{_X}*+(?!q|d{_X}*+h))"
    letters = f"{letter}(?:{adjacent}|[qpl]{_X}*+{letter}){{0,255}}+"
    digits = f"n[nxzvwcgGS]*+(?:[qpm]{_X}*+n[nxzvwcgGS]*+){{0,255}}+"
    hebrew = f"h{_X}*+d{_X}*+h{_X}*+|h{_X}*+q{_X}*+"
    part = f"(?:k[kxzvwcgGS]*+|(?:{hebrew}|{digits}|{letters}){{1,255}}+)"
    connectors = "(?:e[exzvwcgGS]{0,253}+)"
    return f"{connectors}?+{part}(?:{connectors}{part}){{0,255}}+{connectors}?+"


def _emoji() -> str:
    """Return the pattern of emoji sequences, as in UTS #51, with the zero-width joiner part of the run of marks."""
    toned, plain, tone = f"B{_Y}*+M{_Y}*+", f"[EBA]{_Y}*+v?+", f"M{_Y}*+"
    joined = f"(?<=z)(?:{toned}|{plain}|{tone})|(?<=v)z{{1,254}}+(?:{toned}|{plain})|(?<=v)z{tone}"
    pictograph = f"(?:z{{0,254}}+(?:{toned}|{plain})|{tone})(?:(?<=v)g{{1,254}}+G|(?:{joined}){{0,255}}+)"
    keycap = f"#(?:{_Y}*+vc{_Y}*+|(?=[xzgGS]*+c){_Y}*+)"
    return f"{pictograph}|{keycap}|r{_X}*+r{_X}*+"


_PATTERNS = (_word(), _emoji(), "[sS][sSxzvwcgG]*+", f"[ji]{_X}*+")
_FIRST = re.compile("|".join(f"(?:{pattern})" for pattern in _PATTERNS))
_EACH = tuple(re.compile(pattern) for pattern in _PATTERNS)


def tokenize(text: str) -> list[str]:
    """Return the tokens of a text, in order and unchanged.

    >>> tokenize("I'm 1/4 off: snake_case, 3.5mm™")
    ["I'm", '1', '4', 'off', 'snake_case', '3.5mm', '™']

    Args:
        text: any text.

    Returns:
        Tokens of 1 to 255 UTF-16 units.

    Raises:
        RetrievalError: `text` is not a str.

    Source: Unicode Standard Annex #29, Unicode Technical Standard #51; Apache Lucene 9.5.
    """
    if not isinstance(text, str):
        raise RetrievalError(f"text must be a str, got {type(text).__name__}")
    if text.isascii():
        tokens = _ASCII.findall(text)
        fits = max(map(len, tokens), default=0) <= LONGEST
        return tokens if fits else list(_tokens_one_by_one(text, character_classes(text)))
    classes = character_classes(text)
    if "A" not in classes:
        tokens = [text[match.start() : match.end()] for match in _FIRST.finditer(classes)]
        if 2 * max(map(len, tokens), default=0) <= LONGEST:
            return tokens
    return list(_tokens_one_by_one(text, classes))


def _tokens_one_by_one(text: str, classes: str) -> Iterator[str]:
    """Yield the tokens of a text with long tokens, or with characters that start tokens of two patterns."""
    at = 0
    while at < len(text):
        end = _window(text, at)
        stop = max((match.end() for each in _EACH if (match := each.match(classes, at, end))), default=at)
        if stop > at:
            yield text[at:stop]
        at = max(stop, at + 1)


def _window(text: str, at: int) -> int:
    """Return the end of the longest possible token that starts at `at`."""
    piece = text[at : at + LONGEST]
    if piece.isascii():
        return at + len(piece)
    units = 0
    for number, character in enumerate(piece):
        units += 2 if character > "\uffff" else 1
        if units > LONGEST:
            return at + number
    return at + len(piece)
