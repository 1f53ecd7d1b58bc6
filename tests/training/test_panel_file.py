"""The file panel.json of a run: written with the first evaluation, and never replaced without a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from turncredit.evaluation.panels import Panel
from turncredit.training.monitor.evaluation import Evaluations

PANEL = Panel("toys/Corridor-v0", ("open-4-2",), {}, 0)


class Notes:
    """A reporter that keeps its notes."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        self.texts.append(text)


@pytest.mark.parametrize(
    ("content", "note"),
    [
        (None, ""),
        (PANEL, ""),
        (Panel("toys/Corridor-v0", ("open-5-1",), {}, 0), "panel.json held other tasks, and is written again"),
        ("no JSON", "panel.json could not be read ("),
        ("[" * 100_000, "panel.json could not be read ("),
    ],
    ids=["absent", "the same", "other tasks", "no JSON", "too deep"],
)
def test_a_panel_that_is_replaced_is_said(tmp_path: Path, content: Panel | str | None, note: str) -> None:
    file, notes = tmp_path / "panel.json", Notes()
    if isinstance(content, Panel):
        content.save(file)
    elif content is not None:
        file.write_text(content)
    fields: dict[str, Any] = dict.fromkeys(Evaluations.__dataclass_fields__)
    Evaluations(**fields | {"folder": tmp_path, "report": notes})._save_panel(PANEL)
    assert Panel.load(file) == PANEL
    assert [text.startswith(note) for text in notes.texts] == ([True] if note else [])
