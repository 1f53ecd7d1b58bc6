"""Texts broken at spaces to fit a terminal.

A word is never broken: a path, a URL or a key with its value stays whole, even where it is wider than the terminal. So
does text in backticks, and a command that a line proposes, which a person copies. Further lines of a paragraph are
indented as its first, and those of a row of columns up to the column that was too long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len
from rich.text import Text

__all__ = ["line_breaks", "words", "wrapped"]

_UNBROKEN = re.compile(
    r"`[^`\n]*`"
    r"|(?:(?<=: )|(?<=  )|^)(?:[A-Z][A-Z0-9_]*=\S+ )*(?:turncredit [a-z-]+|(?:uv )?pip install|apt install)(?: .*?)?"
    r"(?=  |[;,]?$|[;,] | \()"
)
"""Text in backticks; or, at the beginning of a line, after a colon or in a column, a command up to the end of it."""
_GAP = re.compile(r"(?<=\S) {2,}(?=\S)")


def wrapped(text: Text, width: int) -> Text:
    """Return a text with line breaks at spaces, so that its lines have at most `width` cells.

    Only a line without a place to break it is longer.

    Args:
        text: text with or without line breaks of its own, and with styles, which stay.
        width: number of cells of a line.
    """
    lines = []
    for line in text.split("\n", allow_blank=True):
        if "\t" in line.plain:
            line.expand_tabs(8)
        breaks = line_breaks(line.plain, width)
        indent = " " * _hanging_indent(line.plain, width)
        start = 0
        for end, following in breaks:
            lines.append(Text(indent if start else "").append_text(line[start:end]))
            start = following
        lines.append(Text(indent).append_text(line[start:]) if start else line)
    result = Text("\n", justify=text.justify, end=text.end).join(lines)
    result.style = text.style
    return result


def line_breaks(line: str, width: int) -> list[tuple[int, int]]:
    """Return where a line is broken: the end of each part but the last, and the beginning of the next one.

    Args:
        line: without line breaks.
        width: number of cells of a part; parts after the first are indented.

    >>> line_breaks("a path such as /tmp/a is kept", 12)
    [(6, 7), (14, 15), (21, 22)]
    """
    if cell_len(line) <= width:
        return []
    indent = _hanging_indent(line, width)
    breaks, start, end, room = [], 0, 0, width
    for word_start, word_end in words(line):
        if end and cell_len(line[start:word_end]) > room and line[start:end].strip():
            breaks.append((end, word_start))
            start, room = word_start, width - indent
        end = word_end
    return breaks


def words(line: str) -> Iterator[tuple[int, int]]:
    """Yield the begin and end of each word of a line, where what must not be broken counts as one word."""
    unbroken = [match.span() for match in _UNBROKEN.finditer(line)]
    start: int | None = None
    for match in re.finditer(r"\S+", line):
        if start is None:
            start = match.start()
        if not any(begin <= match.end() < end for begin, end in unbroken):
            yield start, match.end()
            start = None
    if start is not None:
        yield start, len(line.rstrip())


def _hanging_indent(line: str, width: int) -> int:
    """Return the indentation of what follows the first part: of the last column that begins in the left half."""
    columns = [match.end() for match in _GAP.finditer(line)]
    fitting = [column for column in columns if cell_len(line[:column]) <= width // 2]
    return cell_len(line[: fitting[-1]]) if fitting else min(len(line) - len(line.lstrip(" ")), width // 2)
