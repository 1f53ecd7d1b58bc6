"""Tests that wait have their mark, so that `make test` needs no Docker, browser, Ray or adb."""

import re
from pathlib import Path

from toys.longest_modules import LONGEST

TESTS = Path(__file__).resolve().parent
WAITS = re.compile(r"\b(box_of\(|needed\(|needs_box\b|need_chromium\(|small_cluster\(|adb_server\(|adb_program\()")
"""What modules use of the toys to start boxes, browsers, clusters and servers of adb."""


def test_modules_that_start_what_is_waited_for_have_the_mark() -> None:
    modules = {path.name: path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py")}
    users = {name for name, text in modules.items() if WAITS.search(text) and name != Path(__file__).name}
    assert len(users) > 30
    marks = ("pytest.mark.waits", "pytestmark = pytest.mark.slow")
    assert sorted(name for name in users if not any(mark in modules[name] for mark in marks)) == []


def test_modules_that_begin_first_are_there() -> None:
    assert set(LONGEST) <= {path.stem for path in TESTS.rglob("test_*.py")}
