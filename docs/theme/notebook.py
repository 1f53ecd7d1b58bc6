"""The tutorial as a notebook: `python docs/theme/notebook.py` writes docs/tutorial.ipynb from docs/tutorial.md.

Files become cells that write them and commands become cells of a shell. Printed outputs are left out, since running the
notebook makes them.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent
_FENCED = re.compile(r"^```(\w+)[ \t]*(\S*)\n(.*?)^```$\n?", re.DOTALL | re.MULTILINE)
RUN_FILE = "run.toml"


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the page: text, a file that the reader writes, commands, or what they print."""

    kind: str
    """`text`, `file`, `commands` or `output`."""
    content: str
    name: str = ""
    """Name of the file."""


def read_blocks(page: str) -> list[Block]:
    """Return the parts of a page in their order; Python and TOML are files, shell commands are followed by outputs."""
    blocks, end = [], 0
    for match in _FENCED.finditer(page):
        language, name, content = match.groups()
        if text := page[end : match.start()].strip():
            blocks.append(Block("text", text))
        end = match.end()
        if language in ("python", "toml"):
            blocks.append(Block("file", content, name or RUN_FILE))
        else:
            blocks.append(Block("commands" if language == "sh" else "output", content))
    return [*blocks, Block("text", page[end:].strip())] if page[end:].strip() else blocks


def cells(page: str) -> list[tuple[str, str]]:
    """Return the type and the source of every cell."""
    made = []
    for block in read_blocks(page):
        if block.kind == "text":
            made.append(("markdown", block.content))
        elif block.kind == "file":
            made.append(("code", f"%%writefile {block.name}\n{block.content}"))
        elif block.kind == "commands":
            made.append(("code", f"%%bash\n{block.content}"))
    return made


def notebook(page: str) -> str:
    """Return a notebook of a page, in nbformat 4.5."""
    data = {
        "cells": [
            {
                "cell_type": kind,
                "id": f"cell-{number}",
                "metadata": {},
                "source": source.rstrip("\n").splitlines(keepends=True),
                **({"execution_count": None, "outputs": []} if kind == "code" else {}),
            }
            for number, (kind, source) in enumerate(cells(page))
        ],
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(data, ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(f"expected no arguments, got {sys.argv[1:]}")
    (DOCS / "tutorial.ipynb").write_text(notebook((DOCS / "tutorial.md").read_text("utf-8")), encoding="utf-8")
