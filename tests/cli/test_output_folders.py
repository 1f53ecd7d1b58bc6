"""A law of all commands that write a folder: nothing is written through a link that lies in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer

from turncredit.cli.main import app

FOLDERS = ("DIR", "FOLDER", "OUT", "RUN")
"""Names of values of `--output` that are folders."""
WORDS: dict[str, list[str]] = {
    "import": ["{file}", "--from", "sharegpt"],
    "data harbor": ["turncredit/Bash-v0", "--count", "1"],
    "model get": ["smollm2"],
    "package": ["turncredit/Bash-v0"],
}
"""What each of these commands needs beside its folder."""
LOCKED = {"demo", "train", "bench", "ablate"}
"""Commands that lock their folder, which looks through it (`tests/agents/test_folder_lock.py`)."""
NEW = {"export"}
"""Commands that write a new folder only, as `import` does (`tests/agents/test_interchange.py`)."""
OPTIONS = ("--output", "--folder")


def writers() -> dict[str, str]:
    """Return the option that names the folder of each command that writes one."""

    def below(command: Any, name: str) -> dict[str, str]:
        if commands := getattr(command, "commands", None):
            parts = [below(inner, f"{name} {word}".strip()) for word, inner in commands.items()]
            return {key: value for part in parts for key, value in part.items()}
        named = [
            option
            for parameter in command.params
            for option in parameter.opts
            if option in OPTIONS and (option == "--folder" or parameter.metavar in FOLDERS)
        ]
        return {name: named[0]} if named else {}

    return below(typer.main.get_command(app), "")


def test_every_command_that_writes_a_folder_is_tried() -> None:
    assert set(writers()) == set(WORDS) | LOCKED | NEW


@pytest.mark.parametrize("name", WORDS)
def test_nothing_is_written_through_a_link(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    victim, folder, file = (tmp_path / word for word in ("victim", "folder", "file.jsonl"))
    victim.write_text("mine", encoding="utf-8")
    folder.mkdir()
    file.write_text('{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}\n')
    for link in ("config.json", "README.md", "task-0"):
        (folder / link).symlink_to(victim)
    words = [word.format(file=file) for word in WORDS[name]]
    code = typer.main.get_command(app).main(
        [*name.split(), *words, writers()[name], str(folder)], standalone_mode=False
    )
    message = " ".join(capsys.readouterr().err.split())
    assert code == 2, message
    assert "is a link" in message or f"{folder} exists" in message or "not empty" in message, message
    assert victim.read_text(encoding="utf-8") == "mine"
    assert all(path.is_symlink() for path in folder.iterdir() if path.name != ".lock")
