"""Files that users bring are read under limits: only the bounded reader opens and parses them.

Sources are parsed, not imported. A module that opens files and also parses JSON, CSV, pickles or compressed data is
either the bounded reader, or in the list below, which says what it reads.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (
    "ablation",
    "agents",
    "cli",
    "credit",
    "envs",
    "evaluation",
    "phone",
    "processes",
    "report",
    "tools",
    "training",
)
READERS = {"tools/bounded_input.py"}

# Modules that read what turnwise wrote, what a model's publisher wrote, or a stream that is no file.
OTHERS = {
    "agents/files/trajectory_files.py": "trajectories of turnwise",
    "envs/android/site/app.py": "requests to the phone's page",
    "envs/bash/grading.py": "archives out of a box, under the limits of the box",
    "envs/code/candidate_runner.py": "requests inside of a box",
    "envs/household/library.py": "the cache of turnwise; it writes packed games",
    "envs/household/record_file.py": "the cache of turnwise",
    "envs/shop/catalogue_cache.py": "the cache of turnwise",
    "tools/android/androidworld_client.py": "answers of a server",
    "processes/bounded_fork.py": "answers of a copy of this process",
    "processes/child_process.py": "answers of a child process",
    "processes/concurrent_process.py": "answers of a child process",
    "tools/retrieval/encoder.py": "model folders",
    "tools/retrieval/index_files.py": "indexes of turnwise",
    "tools/retrieval/library.py": "indexes of turnwise",
    "tools/sandbox/fork_server.py": "requests of its parent",
    "tools/sandbox/hidden.py": "metadata of installed packages",
    "tools/sandbox/session_driver.py": "requests inside of a box",
    "ablation/process_pool.py": "events of its workers",
}
PARSERS = ("json.load", "json.loads", "csv.", "pickle.load", "pickle.loads", "gzip.", "lzma.", "bz2.", "polars.")
OPENERS = (".open", ".read_text", ".read_bytes")


def opens_and_parses(source: str) -> bool:
    calls = [ast.unparse(node.func) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    parses = any(call.startswith(PARSERS) for call in calls)
    return parses and any(call == "open" or call.endswith(OPENERS) for call in calls)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("for line in path.open('rb'):\n    json.loads(line)", True),
        ("data = json.loads(path.read_text())", True),
        ("rows = csv.reader(open('x'))", True),
        ("data = read_json(path)", False),
        ("json.loads(answer)", False),
        ("path.read_text()", False),
    ],
)
def test_the_rule_finds_what_it_is_for(source: str, found: bool) -> None:
    assert opens_and_parses(source) == found


def test_only_the_bounded_reader_opens_and_parses_files_of_users() -> None:
    sources = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    named = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in sources}
    found = {name for name, source in named.items() if opens_and_parses(source)} - READERS
    assert found - OTHERS.keys() == set(), "read files of users with tools/readers or tools/bounded_input.py"
    assert OTHERS.keys() - found == set(), "these need no exception any more"
