"""What the tests of shell tasks share: whether a sandbox holds here, and small trees."""

from __future__ import annotations

import os

import pytest

from turnwise.envs.bash.filetree import file, with_folders
from turnwise.envs.bash.task import BashTask
from turnwise.tools.sandbox import probe

HELD = any(status.works for status in probe())
boxed = pytest.mark.skipif(
    not HELD and os.environ.get("CI") != "true",
    reason="no sandbox holds on this machine (turnwise doctor says why)",
)


def small_task(**changes: object) -> BashTask:
    """Return a task with two files of which one is to be changed, one is to be made, and an answer."""
    before = with_folders({"d/a.txt": file("one\n"), "d/b.txt": file("two\n")})
    after = with_folders({"d/a.txt": file("ONE\n"), "d/b.txt": file("two\n"), "c.txt": file("new\n")})
    found: dict[str, object] = {
        "id": "x",
        "family": "replace",
        "statement": "Do it.",
        "before": before,
        "after": after,
        "commands": ("echo ONE > d/a.txt", "echo new > c.txt"),
        "answer": "7",
    }
    return BashTask(**{**found, **changes})  # type: ignore[arg-type]
