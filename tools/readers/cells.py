"""Cells of tables that hold a list of texts as text: in JSON, as Python writes it, or as numpy prints an array."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from typing import Final

from turncredit.tools.bounded_input import InputError, parse_json

__all__ = ["list_in_cell"]

_LONGEST_LIST: Final = 100_000  # characters of a list that is written as Python
_ARRAY: Final = re.compile(r"(?:np\.|numpy\.)?array\((\[.*\])(?:, *dtype=[\w.'\"<>|=]+)?\)", re.DOTALL)
_TUPLE: Final = re.compile(r"\(\s*[uU]?['\"].*['\"]\s*,?\s*\)", re.DOTALL)
_LISTED: Final = re.compile(r"\[\s*(?:['\"]|(?:nan|None|null|NaN)\b)")
_BLANK: Final = {tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER, tokenize.INDENT, tokenize.DEDENT}


def list_in_cell(value: object, *, single: bool = False) -> object:
    """Return the list of texts in a string that holds one; any other value unchanged.

    Read are JSON, a list or a tuple as Python writes it, and an array as numpy prints it, which has blanks instead of
    commas; Python itself would join its texts into one.

    >>> list_in_cell("['Ada' 'Bea']"), list_in_cell("array(['Ada', 'Bea'], dtype=object)"), list_in_cell("Ada")
    (['Ada', 'Bea'], ['Ada', 'Bea'], 'Ada')

    Args:
        value: cell of a table, or value of a record.
        single: whether the column usually holds one text. Then one in brackets without quotes is left alone: "[sic]".

    Raises:
        InputError: the text is in brackets, but no list of texts.
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    array = _ARRAY.fullmatch(text)
    text = array[1] if array else text
    if not (array or (text.startswith("[") and text.endswith("]")) or ("," in text and _TUPLE.fullmatch(text))):
        return value
    texts = _json(text)
    if texts is None:
        texts = _literals(text)
    if texts is not None:
        return texts
    if text.startswith("(") or (single and not array and not _LISTED.match(text)):
        return value
    raise InputError(f"expected a list of texts, such as ['a', 'b'] or [\"a\", \"b\"], got {value[:60]!r}")


def _json(text: str) -> list[str] | None:
    try:
        items = parse_json(text, "it")
    except InputError:
        return None
    return items if isinstance(items, list) and all(isinstance(item, str) for item in items) else None


def _literals(text: str) -> list[str] | None:
    """Return the texts between two brackets, all separated by commas or none; None if there is anything else."""
    if len(text) > _LONGEST_LIST:
        return None
    try:
        tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in _BLANK]
        inner = tokens[1:-1]
        commas = inner[1::2]
        if commas and all(token.string == "," for token in commas):
            inner = inner[::2]
        texts = [ast.literal_eval(token.string) if token.type == tokenize.STRING else None for token in inner]
    except (ValueError, SyntaxError, tokenize.TokenError, IndentationError):
        return None
    strings = [item for item in texts if isinstance(item, str)]
    return strings if len(strings) == len(texts) else None
