"""The table of docs/android.md that holds our templates against AndroidWorld's tasks."""

from __future__ import annotations

import json
import re
from pathlib import Path

from turncredit.envs.android.tasks.template import all_templates

DOCS = Path(__file__).parents[3] / "docs" / "android.md"


def rows() -> list[tuple[list[str], list[str], str]]:
    """AndroidWorld's tasks, our templates and the whole last cell of each row."""
    section = DOCS.read_text().split("## AndroidWorld's kinds of tasks")[1]
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|")][2:]
    return [(tasks.split(", "), re.findall(r"`(\w+)`", last), last) for _, tasks, last in lines]


def test_the_table_names_templates_that_exist_or_says_why_there_is_none():
    for tasks, ours, last in rows():
        assert ours or last.startswith("none: "), tasks
        assert set(ours) <= set(all_templates()), tasks


def test_the_number_of_covered_tasks_is_that_of_the_table():
    covered = sum(len(tasks) for tasks, ours, _ in rows() if ours)
    assert f"AndroidWorld has 116 templates. {covered} of them" in DOCS.read_text()


def test_the_table_names_every_task_of_androidworld_once(data_dir):
    listed = json.loads((data_dir / "android" / "task_complexity_apps.json").read_text())
    assert sorted(task for tasks, _, _ in rows() for task in tasks) == sorted(one["task"] for one in listed)
