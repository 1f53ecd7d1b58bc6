"""Docstrings as Markdown: doctests become blocks of code, and an index such as [B][L] is no link."""

from __future__ import annotations

import re
from typing import Any

import griffe

DOCTEST = re.compile(r"^( *)>>> .*(?:\n(?!\s*$|\1>>> ).*|\n\1>>> .*)*", re.MULTILINE)
INDEX = re.compile(r"\]\[(?=[^`]*(?:`[^`]*`[^`]*)*$)", re.MULTILINE)


class MarkdownDocstrings(griffe.Extension):
    """Rewrite every docstring before it is parsed."""

    def on_instance(self, *, obj: griffe.Object | griffe.Alias, **arguments: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    """Return a docstring with its doctests at the left margin fenced and its indices escaped."""
    parts: list[str] = []
    end = 0
    for match in DOCTEST.finditer(text):
        if not match[1]:  # an indented one is a block of code as it is
            parts += [INDEX.sub(r"]\[", text[end : match.start()]), f"```pycon\n{match[0]}\n```"]
            end = match.end()
    return "".join([*parts, INDEX.sub(r"]\[", text[end:])])
