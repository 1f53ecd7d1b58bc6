"""Rules of the house for files, held by parsing the sources: what reads them has limits, what writes texts cannot fail.

A file of a run may come from a stranger, so it is read by `turnwise.tools.bounded_input`. A text may hold half a
surrogate pair, which UTF-8 cannot encode, so whoever encodes one says what becomes of it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("ablation", "agents", "cli", "evaluation", "report", "training")

READERS = {
    "json.load",
    "json.loads",
    "tomllib.load",
    "tomllib.loads",
    "gzip.open",
    "gzip.decompress",
    "zlib.decompress",
    "zlib.decompressobj",
}
READ_ELSEWHERE = {
    "agents/samplers/openai": "answers of servers",
    "agents/models/tokenization.py": "the state of a tokenizer in memory",
    "agents/samplers/transformers/decoder_choice.py": "limits of the system",
    "agents/samplers/vllm/engine.py": "its own log",
    "cli/machine.py": "facts of the system",
    "report/run_report/html.py": "files of the package",
    "training/config/run.py": "a word of the command line",
    "training/learner/memory.py": "facts of the system",
    "training/learner/policy.py": "the state of a tokenizer in memory",
    "ablation/process_pool.py": "lines of a child of its own",
    "ablation/process_worker.py": "a line of its parent",
}
"""Modules and folders that read without `bounded_input`, and what."""

WRITERS = {"agents/files/json_files.py": "writes every text of `write_text`, after `encodable`"}


def sources() -> list[tuple[str, ast.Module]]:
    found = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            found.append((path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))))
    return found


SOURCES = sources()


def within(name: str, places: dict[str, str]) -> bool:
    return any(name == place or name.startswith(f"{place}/") for place in places)


def unbounded_reads(tree: ast.Module) -> Iterator[str]:
    """Yield calls that read a file or parse its text without limits."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        owner = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
        if f"{owner}.{node.func.attr}" in READERS or (
            node.func.attr in ("read_text", "read_bytes") and owner != "bounded_input"
        ):
            yield f"line {node.lineno}: {ast.unparse(node.func)}"


def careless_writes(tree: ast.Module) -> Iterator[str]:
    """Yield calls that encode a text and do not say what becomes of half a surrogate pair."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or any(keyword.arg == "errors" for keyword in node.keywords):
            continue
        attribute = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        words = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        words += [
            keyword.value.value
            for keyword in node.keywords
            if keyword.arg == "mode" and isinstance(keyword.value, ast.Constant)
        ]
        opens = attribute == "open" or (isinstance(node.func, ast.Name) and node.func.id == "open")
        if (
            attribute == "write_text"
            or (opens and any(set(word) <= set("wax+t") and set(word) & set("wax") for word in words))
            or (attribute == "encode" and not node.args and not node.keywords)
        ):
            yield f"line {node.lineno}: {ast.unparse(node.func)}"


@pytest.mark.parametrize(("name", "tree"), SOURCES, ids=[name for name, _ in SOURCES])
def test_files_are_read_under_limits_and_texts_are_written_whatever_they_hold(name: str, tree: ast.Module) -> None:
    if not within(name, READ_ELSEWHERE):
        assert list(unbounded_reads(tree)) == []
    if not within(name, WRITERS):
        assert list(careless_writes(tree)) == []


@pytest.mark.parametrize("place", [*READ_ELSEWHERE, *WRITERS])
def test_the_exceptions_are_needed(place: str) -> None:
    trees = [tree for name, tree in SOURCES if within(name, {place: ""})]
    check = unbounded_reads if place in READ_ELSEWHERE else careless_writes
    assert any(list(check(tree)) for tree in trees)


@pytest.mark.parametrize(
    ("code", "reads", "writes"),
    [
        ("json.loads(path.read_text())", 2, 0),
        ("tomllib.load(file)", 1, 0),
        ("read_json(path); bounded_input.read_bytes(path)", 0, 0),
        ("path.write_text(text, encoding='utf-8')", 0, 1),
        ("path.write_text(text, errors='backslashreplace'); write_text(path, text)", 0, 0),
        ("open(path, 'w'); path.open('a'); path.open(mode='x')", 0, 3),
        ("open(path, 'wb'); path.open('rb'); path.open('w', errors='replace')", 0, 0),
        ("text.encode()", 0, 1),
        ("text.encode(errors='replace'); tokenizer.encode(text); text.encode('ascii')", 0, 0),
    ],
)
def test_what_the_rules_see(code: str, reads: int, writes: int) -> None:
    tree = ast.parse(code)
    assert (len(list(unbounded_reads(tree))), len(list(careless_writes(tree)))) == (reads, writes)
