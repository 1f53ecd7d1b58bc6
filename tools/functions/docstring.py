"""What a docstring says to an agent: the description, and a line on each argument (Google's style, or none).

Left out on purpose: reST and numpydoc. Their texts are read whole, as a description.
"""

from __future__ import annotations

import inspect
import re
from typing import Final

__all__ = ["read_docstring"]

_SECTION: Final = re.compile(r"(Args|Arguments|Parameters|Returns?|Raises|Yields|Examples?|Notes?|Attributes):\s*")
_ENTRY: Final = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_OF_ARGUMENTS: Final = ("Args", "Arguments", "Parameters")


def read_docstring(doc: str | None) -> tuple[str, dict[str, str]]:
    """Return the description and name -> description of the arguments that it speaks of.

    The description is what stands before the first section, and what is returned. Sections about exceptions, examples
    and notes are for the reader of the code.

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
            name = ""  # back at the margin: the section is over
            sections[""].append(line)
        else:
            sections[name].append(line)
    description = "\n".join(sections[""]).strip()
    gives = " ".join(" ".join(sections.get("Returns") or sections.get("Return") or ()).split())
    if gives:
        description = f"{description}\nReturns: {gives}".strip()
    arguments: dict[str, str] = {}
    for title in _OF_ARGUMENTS:
        arguments |= _entries(sections.get(title, []))
    return description, arguments


def _entries(lines: list[str]) -> dict[str, str]:
    """Return name -> text; a line that is deeper than the first entry goes on with the one above it."""
    found: dict[str, str] = {}
    margin, last = None, ""
    for line in filter(str.strip, lines):
        depth = len(line) - len(line.lstrip())
        margin = depth if margin is None else margin
        entry = _ENTRY.fullmatch(line.strip())
        if entry and depth <= margin:
            last = entry[1]
            found[last] = entry[2].strip()
        elif last:
            found[last] = f"{found[last]} {line.strip()}".strip()
    return found
