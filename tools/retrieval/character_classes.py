"""Character classes of the tokenizer, one letter each, from Unicode's word breaks, scripts and emoji.

Like Lucene 9, the table uses word breaks, line breaks and scripts of Unicode 9 and emoji of Unicode 14, so that tokens
do not depend on the interpreter's version of Unicode. Characters that are not in the table start no token.
"""

import re
from bisect import bisect_right
from importlib.resources import files

OTHER = "."
"""Class of all characters that are not in the table."""

TABLE = files("turncredit.tools.retrieval").joinpath("character_classes.txt").read_text(encoding="ascii")
"""Each class, followed by its characters as hexadecimal ranges.

a letters; h Hebrew letters; A letters that are also emoji; n digits; k Katakana; e connectors such as the underscore;
q single quote; d double quote; p joins letters and digits; l joins letters; m joins digits; x marks and formats;
s South East Asian; S South East Asian marks; z zero-width joiner; v, w selectors of emoji and text presentation;
g tags, G the last tag; c keycap; # other bases of keycaps; j Han; i Hiragana; r regional indicators; E emoji;
B emoji that accept a skin tone; M skin tones.
"""


def _ranges() -> list[tuple[int, int, str]]:
    """Return the table as sorted (first, last, class)."""
    ranges, name = [], OTHER
    for word in TABLE.split():
        if match := re.fullmatch("([0-9a-f]{2,6})(?:-([0-9a-f]{2,6}))?", word):
            ranges.append((int(match[1], 16), int(match[2] or match[1], 16), name))
        else:
            name = word
    return sorted(ranges)


class _ClassTable(dict[int, str]):
    """Class of each code point, filled from the table on demand; usable with `str.translate`."""

    def __init__(self) -> None:
        super().__init__()
        self._ranges = _ranges()
        self._starts = [first for first, _, _ in self._ranges]

    def __missing__(self, code: int) -> str:
        first, last, name = self._ranges[max(bisect_right(self._starts, code) - 1, 0)]
        self[code] = name if first <= code <= last else OTHER
        return self[code]


_TABLE = _ClassTable()


def character_classes(text: str) -> str:
    """Return the class of each character, as a string of the same length.

    >>> character_classes("I'm 41mm™")
    'aqa.nnaaE'
    """
    return text.translate(_TABLE)
