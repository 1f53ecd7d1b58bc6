"""The page of a report as one HTML file, with everything that it needs inside.

Texts of a run are hostile: they are stored as JSON whose "<" is escaped, or as compressed base64, and the page's
scripts show them only as text. The page's policy allows no scripts but its own, and no network but a live server's.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

from turncredit.report.errors import ReportError
from turncredit.report.run_report import iterations
from turncredit.report.run_report.report_data import ReportData, open_report
from turncredit.report.run_report.screens import Screens
from turncredit.report.table_columns import page_columns

SCRIPTS = (
    "elements.js",
    "numbers.js",
    "store.js",
    "plots.js",
    "intervals.js",
    "overview.js",
    "groups.js",
    "truth.js",
    "drawn.js",
    "trajectory.js",
    "graph.js",
    "failures.js",
    "compare.js",
    "benchmark.js",
    "ablation.js",
    "search.js",
    "main.js",
)
"""The page's scripts in the order in which they run."""
Item = TypeVar("Item")
LIMIT = 19_000_000
"""Bytes of a file; outcomes are kept even if they alone take more."""


def page(data: Mapping[str, object], chunks: dict[str, bytes], *, live: bool = False) -> str:
    """Return the HTML of a report.

    Args:
        data: as from `ReportData.since`, with further keys that the page shows.
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
        "DATA": escaped({**data, "live": live, "columns": page_columns()}),
        "CHUNKS": stored,
        "SCRIPT": script,
    }
    parts = _read("page.html").split("%%")  # names and the text between them alternate
    return "".join(values[part] if number % 2 else part for number, part in enumerate(parts))


def escaped(content: object) -> str:
    """Return JSON that cannot end or change the script element in which it stands; it is pure ASCII."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def complete_page(data: ReportData, limit: int = LIMIT, screens: int = 0) -> str:
    """Return the report as it is now.

    Screens that are asked for come first, then turns until the limit is reached, then the images that were stored with
    their episodes, then tokens: of the last and the first iteration, then of the one in the middle, and so on by
    halves; of several runs in turn. The page says what is left out.

    Args:
        data: what is reported.
        limit: bytes of the page.
        screens: number of episodes to replay, for their screens or, where those are stored, for their touches.

    Raises:
        ReportError: there are no screens to draw.
    """
    data.refresh()
    places = list(in_turn([[(prefix, n) for n in by_halves(numbers)] for prefix, numbers in data.names().items()]))
    whole = data.since(0)
    chunks: dict[str, bytes] = {}
    left = limit - len(page({**whole, "kept": None}, {}))
    replayed = _replayed(data, places, screens, left) if screens else {}
    drawn = {f"{prefix}screens/{n}": iterations.packed(some.content()) for (prefix, n), some in replayed.items()}
    left -= sum(map(_stored, drawn.values()))
    later: dict[str, bytes] = {}
    for prefix, number in places:
        iteration, source = data.read(number, prefix), data.sources()[prefix]
        content = iterations.packed(iterations.turns(iteration, source.settings))
        if _stored(content) > left:
            break
        left -= _stored(content)
        chunks[f"{prefix}turns/{number}"] = content
        more = iterations.packed(iterations.tokens(iteration, data.pieces(prefix)))
        if _stored(more) <= left:
            later[f"{prefix}tokens/{number}"] = more
    for prefix, number in places:
        name, some = f"{prefix}screens/{number}", replayed.get((prefix, number), Screens())
        if f"{prefix}turns/{number}" in chunks:
            before = drawn.get(name)
            left += _stored(before) if before else 0
            some.add_stored(data.read(number, prefix), room=some.size + 0.9 * left)
            packed = iterations.packed(some.content()) if some.groups else None
            if packed and _stored(packed) <= left:
                drawn[name] = packed
            left -= _stored(drawn[name]) if name in drawn else 0
    for name, content in later.items():
        if _stored(content) <= left:
            left -= _stored(content)
            chunks[name] = content
    counts = {kind: sum(f"{kind}/" in name for name in chunks) for kind in ("turns", "tokens")}
    counted = {**counts, "iterations": len(places), "limit": limit}
    return page({**whole, "kept": counted}, {**drawn, **chunks})


def report_page(
    path: str | os.PathLike[str],
    *,
    credit: str | Sequence[str] | None = None,
    against: Iterable[str | os.PathLike[str]] = (),
    limit: int = LIMIT,
    screens: int = 0,
) -> str:
    """Return the HTML of the report of a folder; a notebook shows it in a frame.

    Args:
        path: the folder of a run, a benchmark or an ablation, or a file of trajectories.
        credit: names of credit rules; None: the run's own, with the usual ones.
        against: for a run, other runs; for a benchmark, other benchmarks or cards.
        limit: maximum number of bytes of the page; turns beyond it are left out.
        screens: number of episodes to replay, for their screens or, where those are stored, for their touches.

    Raises:
        ReportError: there is nothing to report, nothing to compare with, or there are no screens to draw.
        CreditError: a credit rule is unknown.
    """
    return complete_page(open_report(Path(path), credit, tuple(map(Path, against))), limit, screens)


def write_report(
    path: str | os.PathLike[str],
    file: str | os.PathLike[str],
    *,
    credit: str | Sequence[str] | None = None,
    against: Iterable[str | os.PathLike[str]] = (),
    limit: int = LIMIT,
    screens: int = 0,
) -> list[str]:
    """Write the report of a folder as one HTML file, and return notes about what could not be read.

    Args:
        path: the folder of a run, a benchmark or an ablation, or a file of trajectories.
        file: the HTML file.
        credit: names of credit rules; None: the run's own, with the usual ones.
        against: for a run, other runs; for a benchmark, other benchmarks or cards.
        limit: maximum number of bytes of the file; turns beyond it are left out.
        screens: number of episodes to replay, for their screens or, where those are stored, for their touches.

    Raises:
        ReportError: there is nothing to report, nothing to compare with, or there are no screens to draw.
        CreditError: a credit rule is unknown.
        StoreError: the file cannot be written.
    """
    from turncredit.agents.files.json_files import require_writable, write_text
    from turncredit.agents.files.trajectory_files import read_trajectories

    data = open_report(Path(path), credit, tuple(map(Path, against)))
    if Path(path).is_file() and next(read_trajectories(Path(path)), None) is None:
        raise ReportError(f"{path} holds no trajectory")
    require_writable(Path(file))
    write_text(Path(file), complete_page(data, limit, screens))
    return data.notes


def _replayed(data: ReportData, places: list[tuple[str, int]], most: int, left: int) -> dict[tuple[str, int], Screens]:
    """Return the screens of the first episodes of each place until `most` episodes were replayed.

    Raises:
        ReportError: the environment has no screens, or those of one iteration are larger than the file may be.
    """
    replayed: dict[tuple[str, int], Screens] = {}
    for prefix, number in places:
        if most <= 0:
            break
        replayed[prefix, number], done = data.screens(prefix, number, most)
        most -= done
        left -= _stored(iterations.packed(replayed[prefix, number].content()))
        if left < 0:
            raise ReportError("the screens alone take more than --megabytes; ask for fewer with --screens")
    return replayed


def in_turn(lists: list[list[Item]]) -> Iterator[Item]:
    """Yield the first item of each list, then the second of each, and so on.

    >>> list(in_turn([[1, 2, 3], [4], [5, 6]]))
    [1, 4, 5, 2, 6, 3]
    """
    for index in range(max(map(len, lists), default=0)):
        yield from (items[index] for items in lists if index < len(items))


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
    data = text.encode("utf-8", errors="backslashreplace")
    return f"sha256-{base64.b64encode(hashlib.sha256(data).digest()).decode('ascii')}"


@cache
def _read(name: str) -> str:
    return (files("turncredit.report.run_report") / "page" / name).read_text(encoding="utf-8")
