"""Rules of the house for files, held by parsing the sources: what reads them has limits, what writes texts cannot fail.

Files of users and of runs may come from strangers, so they are read by `turncredit.tools.bounded_input`. In the folders
that deal with runs, no other module reads or parses a file; elsewhere, no other module opens files and also parses
JSON, CSV, pickles or compressed data. A text may hold half a surrogate pair, which UTF-8 cannot encode, so whoever
encodes one says what becomes of it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
RUN_FOLDERS = ("ablation", "agents", "cli", "curriculum", "engines", "evaluation", "report", "training")
FOLDERS = (*RUN_FOLDERS, "credit", "envs", "phone", "processes", "tools")

READ_ELSEWHERE = {
    "agents/png.py": "unpacks as many bytes as the image has, which are limited",
    "ablation/process_pool.py": "lines of a child of its own",
    "ablation/process_worker.py": "a line of its parent",
    "agents/frameworks/own_wheel.py": "files of the package itself",
    "agents/models/tokenization.py": "the state of a tokenizer in memory",
    "engines/openai": "answers of servers",
    "engines/transformers/decoder_choice.py": "limits of the system",
    "engines/vllm/engine.py": "its own log",
    "cli/listing/examples.py": "files of the package itself",
    "cli/listing/objective_list.py": "files of the package itself",
    "cli/machine.py": "facts of the system",
    "envs/android/site/app.py": "requests to the phone's page",
    "envs/bash/grading.py": "archives out of a box, under the limits of the box",
    "envs/bash/harbor/file_judge.py": "files of the package, inside of a container",
    "envs/code/candidate_runner.py": "requests inside of a box",
    "envs/code/harbor_judge.py": "files of the package, inside of a container",
    "envs/household/library.py": "the cache of turncredit; it writes packed games",
    "envs/household/record_file.py": "the cache of turncredit",
    "envs/shop/catalogue_cache.py": "the cache of turncredit",
    "processes/bounded_fork.py": "answers of a copy of this process",
    "processes/child_process.py": "answers of a child process",
    "processes/concurrent_process.py": "answers of a child process",
    "report/graphs/html.py": "files of the package",
    "report/run_report/html.py": "files of the package",
    "tools/android/androidworld_client.py": "answers of a server",
    "tools/bounded_input.py": "the reader with the limits",
    "tools/retrieval/encoder.py": "model folders",
    "tools/retrieval/index_files.py": "indexes of turncredit",
    "tools/retrieval/library.py": "indexes of turncredit",
    "tools/sandbox/fork_server.py": "requests of its parent",
    "tools/sandbox/hidden.py": "metadata of installed packages",
    "tools/sandbox/session_driver.py": "requests inside of a box",
    "training/learner/memory.py": "facts of the system",
    "training/learner/policy.py": "the state of a tokenizer in memory",
}
"""Modules and folders that read without `bounded_input`, and what."""
OPENED_ELSEWHERE = {
    **READ_ELSEWHERE,
    "cli/console.py": "the null device",
    "training/run_folder/checkpoint.py": "folders that it has written itself, to flush them",
    "agents/files/folder_lock.py": "the lock, without waiting",
}
"""Modules that open files for reading without `bounded_input.open_file`, and what."""
WRITERS = {"agents/files/json_files.py": "writes every text of `write_text`, after `encodable`"}

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
RARE_PARSERS = ("csv.", "pickle.load", "pickle.loads", "lzma.", "bz2.", "polars.")
PARSERS = ("json.load", "json.loads", "gzip.", *RARE_PARSERS)
OPENERS = (".open", ".read_text", ".read_bytes")


def within(name: str, places: dict[str, str]) -> bool:
    return any(name == place or name.startswith(f"{place}/") for place in places)


@cache
def sources() -> dict[str, ast.Module]:
    """Every module of ours by its name."""
    return {
        path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
    }


def of_runs() -> Iterator[tuple[str, ast.Module]]:
    """The modules that read and write files of runs."""
    return ((name, tree) for name, tree in sources().items() if name.startswith(RUN_FOLDERS))


def opens_and_parses(tree: ast.Module, parsers: tuple[str, ...] = PARSERS) -> bool:
    """Return whether a module opens files and parses data as well, whatever it does in between."""
    calls = [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return any(call.startswith(parsers) for call in calls) and any(
        call == "open" or call.endswith(OPENERS) for call in calls
    )


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


def reads(name: str, tree: ast.Module) -> list[str]:
    """Return what a module does against the rule of its folder."""
    if not name.startswith(RUN_FOLDERS):
        return ["opens and parses files"] if opens_and_parses(tree) else []
    return [*unbounded_reads(tree), *(["opens and parses files"] if opens_and_parses(tree, RARE_PARSERS) else [])]


def careless_writes(tree: ast.Module) -> Iterator[str]:
    """Yield calls that encode a text and do not say what becomes of half a surrogate pair."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or any(keyword.arg == "errors" for keyword in node.keywords):
            continue
        attribute = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        words = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
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


def test_files_are_read_under_limits() -> None:
    wrong = {
        name: found
        for name, tree in sources().items()
        if not within(name, READ_ELSEWHERE) and (found := reads(name, tree))
    }
    assert wrong == {}, "read files of users and of runs with tools/readers or tools/bounded_input.py"


def own_opens(tree: ast.Module) -> Iterator[str]:
    """Yield calls that open a file of a path for reading: a pipe would hold them for ever."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        modes = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        modes += [
            keyword.value.value
            for keyword in node.keywords
            if keyword.arg == "mode" and isinstance(keyword.value, ast.Constant)
        ]
        reading = [mode for mode in modes if "r" in mode and set(mode) <= set("rbt")]
        opens = (name == "open" and (reading or len(node.args) == 1)) or (name.endswith(".open") and reading)
        if opens or (name in ("os.open", "torch.load") and isinstance(node.args[0], ast.BinOp)):
            yield f"line {node.lineno}: {ast.unparse(node)}"


def test_files_of_runs_are_opened_by_one_door() -> None:
    wrong = {name: list(own_opens(tree)) for name, tree in of_runs() if not within(name, OPENED_ELSEWHERE)}
    assert {name: calls for name, calls in wrong.items() if calls} == {}, "open them with bounded_input.open_file"


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("path.open('rb'); open(path); open(path, 'r'); path.open(mode='r')", 4),
        ("open_file(path); path.open('wb'); path.open('ab', buffering=0); open(path, 'w'); console.open()", 0),
        ("torch.load(folder / 'x'); os.open(folder / 'y', flags); torch.load(file)", 2),
    ],
)
def test_what_the_rule_of_the_door_sees(code: str, count: int) -> None:
    assert len(list(own_opens(ast.parse(code)))) == count


def test_texts_are_written_whatever_they_hold() -> None:
    wrong = {name: list(careless_writes(tree)) for name, tree in of_runs() if not within(name, WRITERS)}
    assert {name: calls for name, calls in wrong.items() if calls} == {}


def test_the_exceptions_are_needed() -> None:
    for place in READ_ELSEWHERE:
        assert any(reads(name, tree) for name, tree in sources().items() if within(name, {place: ""})), place
    for place in WRITERS:
        assert any(list(careless_writes(tree)) for name, tree in of_runs() if within(name, {place: ""})), place


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("for line in path.open('rb'):\n    json.loads(line)", True),
        ("data = json.loads(path.read_text())", True),
        ("rows = csv.reader(open('x'))", True),
        ("data = read_json(path)", False),
        ("json.loads(answer)", False),
        ("path.read_text()", False),
    ],
)
def test_what_opens_and_parses(code: str, expected: bool) -> None:
    assert opens_and_parses(ast.parse(code)) == expected
    assert bool(reads("tools/any.py", ast.parse(code))) == expected


@pytest.mark.parametrize(
    ("code", "read", "written"),
    [
        ("json.loads(path.read_text())", 2, 0),
        ("tomllib.load(file)", 1, 0),
        ("pickle.load(path.open('rb'))", 1, 0),
        ("read_json(path); bounded_input.read_bytes(path)", 0, 0),
        ("path.write_text(text, encoding='utf-8')", 0, 1),
        ("path.write_text(text, errors='backslashreplace'); write_text(path, text)", 0, 0),
        ("open(path, 'w'); path.open('a'); path.open(mode='x')", 0, 3),
        ("open(path, 'wb'); path.open('rb'); path.open('w', errors='replace')", 0, 0),
        ("text.encode()", 0, 1),
        ("text.encode(errors='replace'); tokenizer.encode(text); text.encode('ascii')", 0, 0),
    ],
)
def test_what_the_rules_of_runs_see(code: str, read: int, written: int) -> None:
    tree = ast.parse(code)
    assert (len(reads("training/any.py", tree)), len(list(careless_writes(tree)))) == (read, written)
