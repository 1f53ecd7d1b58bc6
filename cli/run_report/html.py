"""The page of a report as one HTML file, with everything that it needs inside.

Texts of a run are hostile: they are stored as JSON whose "<" is escaped, or as compressed base64, and the page's
scripts show them only as text. The page's policy allows no scripts but its own, and no network but a live server's.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from turnwise.cli.run_report import iterations

if TYPE_CHECKING:
    from turnwise.cli.run_report.run_data import RunData

SCRIPTS = (
    "elements.js",
    "numbers.js",
    "store.js",
    "plots.js",
    "overview.js",
    "groups.js",
    "trajectory.js",
    "graph.js",
    "failures.js",
    "compare.js",
    "search.js",
    "main.js",
)
"""The page's scripts in the order in which they run."""
LIMIT = 19_000_000
"""Bytes of a file; outcomes are kept even if they alone take more."""


def page(data: dict[str, Any], chunks: dict[str, bytes], *, live: bool = False) -> str:
    """Return the HTML of a report.

    Args:
        data: as from `RunData.since`, with further keys that the page shows.
        chunks: compressed contents by name, such as "turns/3".
        live: whether the page asks its server for what is new, and for its chunks.
    """
    style, script = _read("style.css"), "\n".join(_read(name) for name in SCRIPTS)
    script = f'"use strict";\n(() => {{\n{script}\n}})();\n'
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src data:; "
        f"base-uri 'none'; form-action 'none'; connect-src {chr(39)}{'self' if live else 'none'}{chr(39)}"
    )
    stored = "".join(
        f'<script type="application/gzip" id="{name}">{base64.b64encode(content).decode("ascii")}</script>\n'
        for name, content in chunks.items()
    )
    values = {
        "POLICY": policy,
        "STYLE": style,
        "DATA": escaped({**data, "live": live}),
        "CHUNKS": stored,
        "SCRIPT": script,
    }
    parts = _read("page.html").split("%%")  # names and the text between them alternate
    return "".join(values[part] if place % 2 else part for place, part in enumerate(parts))


def escaped(content: Any) -> str:
    """Return JSON that cannot end or change the script element in which it stands; it is pure ASCII."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def complete_page(data: RunData, limit: int = LIMIT) -> str:
    """Return the report of a run as it is now.

    Turns are stored until the limit is reached, then tokens: of the last and the first iteration, then of the one in
    the middle, and so on by halves. The page says what is left out.

    Args:
        data: the run.
        limit: bytes of the page.
    """
    data.refresh()
    numbers = list(data.files())
    chunks: dict[str, bytes] = {}
    left = limit - len(page({**data.since(0), "kept": None}, {}))
    later: dict[str, bytes] = {}
    for number in by_halves(numbers):
        iteration = data.read(number)
        found = iterations.packed(iterations.turns(iteration, data.settings))
        if _stored(found) > left:
            break
        left -= _stored(found)
        chunks[f"turns/{number}"] = found
        more = iterations.packed(iterations.tokens(iteration))
        if _stored(more) <= left:
            later[f"tokens/{number}"] = more
    for name, found in later.items():
        if _stored(found) <= left:
            left -= _stored(found)
            chunks[name] = found
    counts = {kind: sum(name.startswith(kind) for name in chunks) for kind in ("turns", "tokens")}
    return page({**data.since(0), "kept": {**counts, "iterations": len(numbers), "limit": limit}}, chunks)


def by_halves(numbers: list[int]) -> Iterator[int]:
    """Yield the last number, the first, the one in the middle, then those in the middle of each half, and so on.

    >>> list(by_halves([1, 2, 3, 4, 5]))
    [5, 1, 3, 2, 4]
    """
    if numbers:
        yield numbers[-1]
    if len(numbers) > 1:
        yield numbers[0]
    spans = [(0, len(numbers) - 1)]
    for low, high in spans:  # grows as it is walked
        if high - low > 1:
            middle = (low + high) // 2
            yield numbers[middle]
            spans += [(low, middle), (middle, high)]


def _stored(content: bytes) -> int:
    """Return how many bytes a compressed content takes in the page: base64, and its element."""
    return 4 * ((len(content) + 2) // 3) + 70


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}"


@cache
def _read(name: str) -> str:
    return (files("turnwise.cli.run_report") / "page" / name).read_text(encoding="utf-8")
