"""Text cut into words as Lucene's StandardTokenizer cuts it: word boundaries of UAX #29, with emoji as words.

A token is the longest piece of text, from where the last one ended, that reads as one of

    word      letters, digits, Katakana and connectors that UAX #29 does not separate ("i'm", "3.5", "snake_case")
    emoji     a pictograph with its marks, skin tone, joined pictographs or tags; a keycap; a flag ("™", "👩‍🚀", "🇫🇷")
    run       a run of a South East Asian script, which has no spaces
    sign      one Han or Hiragana character

and a character that begins none of these is dropped. Patterns are written over the kinds of characters
(`characters.kinds`), one letter each, so that they stay small. Repetitions are bounded, since no token may be longer
than 255 UTF-16 units: a megabyte of anything takes time proportional to its length.

Left out on purpose: types of tokens, and their places in the text.
"""

import re
from collections.abc import Iterator

from turnwise.tools.retrieval.characters import kinds
from turnwise.tools.retrieval.errors import RetrievalError

LONGEST = 255
"""A token ends after so many UTF-16 units, and what is left of the word begins the next token."""

_ASCII = re.compile(
    # letters and digits, joined by what stands between two of their kind, and connected by underscores
    "(?:_{0,254}+(?:[A-Za-z]++(?:[.:'][A-Za-z]++){0,255}+|[0-9]++(?:[.,;'][0-9]++){0,255}+){1,255}+){1,255}+_{0,254}"
)

_X = "[xzvwcgGS]"  # what belongs to the character before it
_Y = "[xzcgGS]"  # the same in emoji, where the selectors have a meaning


def _word() -> str:
    """Return the pattern of words, rules WB5 to WB13b."""
    letter = f"(?:[aA][aAxzvwcgGS]*+|h{_X}*+)"
    # Behind a Hebrew letter a quote may stand; such a letter begins a piece of its own.
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


_KINDS_OF_TOKENS = (_word(), _emoji(), "[sS][sSxzvwcgG]*+", f"[ji]{_X}*+")
_FIRST = re.compile("|".join(f"(?:{pattern})" for pattern in _KINDS_OF_TOKENS))
_EACH = tuple(re.compile(pattern) for pattern in _KINDS_OF_TOKENS)


def tokenize(text: str) -> list[str]:
    """Return the tokens of a text in their order, as they stand in it.

    >>> tokenize("I'm 1/4 off: snake_case, 3.5mm™")
    ["I'm", '1', '4', 'off', 'snake_case', '3.5mm', '™']

    Args:
        text: any text.

    Returns:
        Tokens of 1 to 255 UTF-16 units.

    Raises:
        RetrievalError: the text is no str; bytes have no characters until somebody says in which encoding.

    Source: Unicode Standard Annex #29, Unicode Technical Standard #51; Apache Lucene 9.5.
    """
    if not isinstance(text, str):
        raise RetrievalError(f"a text must be a str; came {type(text).__name__}")
    if text.isascii():
        found = _ASCII.findall(text)
        whole = max(map(len, found), default=0) <= LONGEST
        return found if whole else list(_slowly(text, kinds(text)))
    kind = kinds(text)
    if "A" not in kind:
        found = [text[match.start() : match.end()] for match in _FIRST.finditer(kind)]
        if 2 * max(map(len, found), default=0) <= LONGEST:
            return found
    return list(_slowly(text, kind))


def _slowly(text: str, kind: str) -> Iterator[str]:
    """Yield the tokens of a text in which one is too long, or where two patterns begin with one character."""
    at = 0
    while at < len(text):
        end = _window(text, at)
        stop = max((match.end() for each in _EACH if (match := each.match(kind, at, end))), default=at)
        if stop > at:
            yield text[at:stop]
        at = max(stop, at + 1)


def _window(text: str, at: int) -> int:
    """Return where the longest possible token that begins at `at` ends."""
    piece = text[at : at + LONGEST]
    if piece.isascii():
        return at + len(piece)
    units = 0
    for number, character in enumerate(piece):
        units += 2 if character > "\uffff" else 1
        if units > LONGEST:
            return at + number
    return at + len(piece)
