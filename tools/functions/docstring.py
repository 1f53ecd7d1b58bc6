"""Parse docstrings in Google style: the description of a function and of its arguments.

reST and numpydoc are not parsed; such a docstring becomes the description as a whole.
"""

from __future__ import annotations

import inspect
import re
from typing import Final

__all__ = ["read_docstring"]

_SECTION: Final = re.compile(r"(Args|Arguments|Parameters|Returns?|Raises|Yields|Examples?|Notes?|Attributes):\s*")
_ENTRY: Final = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")


def read_docstring(doc: str | None) -> tuple[str, dict[str, str]]:
    """Return the description for an agent, and argument name -> description.

    The description is the text outside of sections, and the "Returns" section. Sections about exceptions, examples and
    notes are left out.

    >>> read_docstring("Add numbers.\\n\\nArgs:\\n    a: the first\\n        of two.\\n    b (int): the other.")
    ('Add numbers.', {'a': 'the first of two.', 'b': 'the other.'})
    """
    sections: dict[str, list[str]] = {"": []}
    name = ""
    for line in inspect.cleandoc(doc or "").splitlines():
        head = _SECTION.fullmatch(line)
        if head:
            name = head[1]
            sections.setdefault(name, [])
        elif line.strip() and name and not line[0].isspace():
            name = ""  # an unindented line ends the section
            sections[""].append(line)
        else:
            sections[name].append(line)
    description = "\n".join(sections[""]).strip()
    returns = " ".join(" ".join(sections.get("Returns") or sections.get("Return") or ()).split())
    if returns:
        description = f"{description}\nReturns: {returns}".strip()
    arguments: dict[str, str] = {}
    for title in ("Args", "Arguments", "Parameters"):
        arguments |= _entries(sections.get(title, []))
    return description, arguments


def _entries(lines: list[str]) -> dict[str, str]:
    """Return name -> text; a line indented deeper than the first entry continues the entry above it."""
    entries: dict[str, str] = {}
    margin, last = None, ""
    for line in filter(str.strip, lines):
        depth = len(line) - len(line.lstrip())
        margin = depth if margin is None else margin
        entry = _ENTRY.fullmatch(line.strip())
        if entry and depth <= margin:
            last = entry[1]
            entries[last] = entry[2].strip()
        elif last:
            entries[last] = f"{entries[last]} {line.strip()}".strip()
    return entries
