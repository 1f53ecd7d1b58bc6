"""The page about the phone: its examples run and print what it says, and the folders that it names exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from turncredit import phone

FOLDER = Path(phone.__file__).parent
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def test_the_examples_print_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    play, app = blocks("python")
    exec(compile(play, "README.md, example 1", "exec"), {})
    assert capsys.readouterr().out == blocks("text")[0]
    assert (tmp_path / "contact.png").is_file()
    exec(compile(app, "README.md, example 2", "exec"), {})


def test_the_page_names_every_folder_and_only_modules_that_exist() -> None:
    rows = re.findall(r"^\| (`.*?`) \| (.*) \|$", PAGE, re.MULTILINE)
    folders = {name.rstrip("/") for cell, _ in rows for name in re.findall(r"`(\w+/)`", cell)}
    assert folders == {path.parent.name for path in FOLDER.glob("*/__init__.py")}
    for cell, text in rows:
        folder = FOLDER / cell.strip("`") if cell.endswith("/`") else FOLDER
        names = re.findall(r"`(\w+\.py)`", text if cell.endswith("/`") else cell)
        assert [name for name in names if not (folder / name).is_file()] == []
