"""Tables of texts that fit a terminal with every word whole.

rich shrinks a table that is too wide by the widest column and cuts the words that no longer fit. Here a column keeps
the width of its longest word. Where all columns do not fit like that, every row becomes a paragraph, with a line for
each cell below the first.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from turncredit.cli.printing.word_wrap import words, wrapped

__all__ = ["fitted"]

_GAP = 2
"""Cells between two columns of a table that had to give way."""
_TALL = 5
"""Number of lines of a cell in a slim column from which on paragraphs are easier to read."""
_SLIM = 24


def fitted(table: Table, width: int) -> RenderableType:
    """Return a table, or what shows its rows in `width` cells.

    A table that fits as it is, and one that holds more than texts or sets widths of its own, is returned as it is.

    Args:
        table: stays as it is.
        width: number of cells of a line.
    """
    texts = _texts(table)
    if texts is None:
        return table
    natural = [max((_widest_line(text) for text in column), default=0) for column in texts]
    edges = 0 if table.box is None else len(texts) + 1
    _, right, _, left = table.padding
    if sum(natural) + (left + right) * len(texts) + edges <= width:
        return table
    smallest = [max((_longest_word(text) for text in column), default=0) for column in texts]
    room = width - _GAP * (len(texts) - 1)
    if sum(smallest) > room:
        return _paragraphs(table, texts)
    widths = _shared(natural, smallest, room)
    if any(width < _SLIM and wide > _TALL * width for wide, width in zip(natural, widths, strict=True)):
        return _paragraphs(table, texts)
    return _narrowed(table, texts, widths)


def _texts(table: Table) -> list[list[Text]] | None:
    """Return the texts of each column, its title first; None if the table is not one of texts alone."""
    columns = []
    for column in table.columns:
        if column.ratio is not None or column.width is not None or column.max_width is not None:
            return None
        cells = [*([column.header] if table.show_header else []), *column.cells]
        renderables = [Text(cell) if isinstance(cell, str) else cell for cell in cells]
        texts = [text for text in renderables if isinstance(text, Text)]
        if len(texts) < len(renderables):
            return None
        columns.append(texts)
    return columns or None


def _widest_line(text: Text) -> int:
    return max((cell_len(line) for line in text.plain.split("\n")), default=0)


def _longest_word(text: Text) -> int:
    lines = text.plain.split("\n")
    return max((cell_len(line[start:end]) for line in lines for start, end in words(line)), default=0)


def _shared(natural: Sequence[int], smallest: Sequence[int], room: int) -> list[int]:
    """Return the width of each column: its natural one, but for the widest, which give way as far as they can."""
    widths = list(natural)
    while sum(widths) > room:
        slack = [width if width > least else 0 for width, least in zip(widths, smallest, strict=True)]
        widths[slack.index(max(slack))] -= 1
    return widths


def _narrowed(table: Table, texts: Sequence[Sequence[Text]], widths: Sequence[int]) -> Table:
    narrow = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, show_header=table.show_header)
    narrow.header_style = table.header_style
    for column, width in zip(table.columns, widths, strict=True):
        narrow.add_column(column.header, justify=column.justify, style=column.style, width=width, no_wrap=True)
    begin = 1 if table.show_header else 0
    if table.show_header:
        for column, cells, width in zip(narrow.columns, texts, widths, strict=True):
            column.header = wrapped(cells[0], width)
    for number, row in enumerate(table.rows, start=begin):
        row_cells = (wrapped(cells[number], width) for cells, width in zip(texts, widths, strict=True))
        narrow.add_row(*row_cells, style=row.style)
    return narrow


def _paragraphs(table: Table, texts: Sequence[Sequence[Text]]) -> Group:
    """Return the rows one below another: the first cell, and each other one after the title of its column."""
    titles = [column[0].plain if table.show_header else "" for column in texts]
    begin = 1 if table.show_header else 0
    label = max((cell_len(title) for title in titles[1:]), default=0)
    lines: list[RenderableType] = []
    for number, row in enumerate(table.rows):
        cells = [column[begin + number] for column in texts]
        lines.append(Text(style=row.style or "").append_text(cells[0]))
        for title, cell in zip(titles[1:], cells[1:], strict=True):
            for line in cell.split("\n") if cell.plain.strip() else ():
                lines.append(Text(f"  {title:<{label}}  " if label else "  ").append_text(line))
                title = ""
    return Group(*lines)
