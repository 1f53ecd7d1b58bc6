"""Nothing that the program did not write itself is obeyed by a terminal, whatever command prints it."""

from __future__ import annotations

import io
import json
import logging
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from toys.commands import Call

from turncredit.agents.files.trajectory_files import TrajectoryWriter
from turncredit.agents.trajectory import Trajectory, Turn
from turncredit.cli import console
from turncredit.cli.printing.progress import Progress

HOSTILE = "\x1b]0;pwned\x07\x1b[2J\x9b31m\x1b]52;c;cm0gLXJm\x07 a\u202eb\udc80\x7f"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\ud800-\udfff]")


def shown(text: str, *, styled: bool = False) -> None:
    """Check that a text holds no control character; with styles, none but rich's own colours."""
    plain = re.sub(r"\x1b\[[\d;]*m", "", text) if styled else text
    assert OBEYED.search(plain) is None, OBEYED.search(plain)


@pytest.fixture
def terminal() -> tuple[console.VisibleConsole, io.StringIO]:
    file = io.StringIO()
    return console.VisibleConsole(file=file, force_terminal=True, width=60, markup=False, highlight=False), file


def test_texts_tables_and_panels_are_written_as_escapes(terminal: tuple[Any, io.StringIO]) -> None:
    out, file = terminal
    table = Table(HOSTILE, title=HOSTILE)
    table.add_row(HOSTILE)
    table.add_row(Text(HOSTILE, style="red"))
    for thing in (HOSTILE, Text(HOSTILE, style="bold"), table, Panel(HOSTILE, title=HOSTILE)):
        out.print(thing)
    out.print(HOSTILE, soft_wrap=True, style="red")
    shown(file.getvalue(), styled=True)
    assert file.getvalue().count(r"\x1b]0;pwned") >= 8
    assert "\x1b[31m" in file.getvalue()  # the program's own colours


def test_a_table_with_hostile_cells_keeps_its_columns(terminal: tuple[Any, io.StringIO]) -> None:
    out, file = terminal
    table = Table(box=None)
    table.add_column("name", width=20, no_wrap=True, overflow="crop")
    table.add_column("n", width=3)
    table.add_row(HOSTILE, "12")
    table.add_row("plain", "34")
    out.print(table)
    lines = [
        line for line in re.sub(r"\x1b\[[\d;]*m", "", file.getvalue()).splitlines() if "12" in line or "34" in line
    ]
    assert len({line.index(number) for line, number in zip(lines, ("12", "34"), strict=True)}) == 1


def test_progress_and_live_tables_keep_their_commands_and_escape_texts(terminal: tuple[Any, io.StringIO]) -> None:
    out, file = terminal
    with Progress(HOSTILE, 3, start=HOSTILE, console=out) as progress:
        progress({"phase": "warning", "text": HOSTILE})
    with Live(Text(HOSTILE), console=out):
        pass
    text = file.getvalue()
    shown(re.sub(r"\x1b\[\??[\d;]*[a-zA-Z]|\r", "", text))
    assert "\x1b[?25l" in text  # rich hides the cursor while a live table is drawn


def test_words_of_a_game_are_no_emoji_codes(capsys: pytest.CaptureFixture[str]) -> None:
    console.say("a :key: and [bold]")
    assert capsys.readouterr().out == "a :key: and [bold]\n"


def test_json_stays_json(capsys: pytest.CaptureFixture[str]) -> None:
    console.say_json({"text": HOSTILE, ":key:": "x" * 500})
    said = capsys.readouterr().out
    shown(said)
    assert json.loads(said) == {"text": HOSTILE, ":key:": "x" * 500}


def test_logs_of_any_library(caplog: pytest.LogCaptureFixture) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logger = logging.getLogger("some.library")
    logger.addHandler(handler)
    try:
        with console.visible_logs():
            logger.warning("loaded %s", HOSTILE)
            try:
                raise ValueError(HOSTILE)
            except ValueError:
                logger.exception("failed")
    finally:
        logger.removeHandler(handler)
    shown(stream.getvalue())
    assert stream.getvalue().count("pwned") == 2


def episode() -> Trajectory:
    turns = (Turn((1,), (2,), (-0.5,), 0, HOSTILE, HOSTILE, HOSTILE, "hall", 1.0, True),)
    return Trajectory(
        f"task{HOSTILE[:5]}#0",
        f"task{HOSTILE[:5]}",
        HOSTILE[:5],
        0,
        turns,
        "terminated",
        True,
        1.0,
        HOSTILE,
        "end",
        None,
        0.1,
    )


@pytest.mark.parametrize(
    "words", [["show"], ["credit"], ["credit", "--json"], ["show", "--task", f"none{HOSTILE[:4]}"]]
)
def test_stored_episodes(turncredit: Call, tmp_path: Path, words: list[str]) -> None:
    file = tmp_path / "theirs.jsonl"
    with TrajectoryWriter(file) as writer:
        writer.write(episode())
    said = turncredit(words[0], file, *words[1:])
    shown(said.out)
    shown(said.err)
    assert "pwned" in said.out + said.err or words != ["show"]


def test_errors_and_warnings(turncredit: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = turncredit("eval", f"{HOSTILE[:12]}", "turncredit/Household-v0")
    assert said.code == 2
    shown(said.err)
    file = tmp_path / f"{HOSTILE[:4]}.toml"
    said = turncredit("train", file)
    assert said.code == 2
    shown(said.err)
    from turncredit.cli.listing import list_command

    monkeypatch.setattr(list_command, "_print_rows", lambda rows: warnings.warn(HOSTILE, stacklevel=1))
    said = turncredit("list", "envs")
    shown(said.err)
    assert "warning: " in said.err


CRASH = """
import sys, threading
from turncredit.cli.listing import list_command
from turncredit.cli import main
list_command._print_rows = lambda rows: (_ for _ in ()).throw(ValueError({text!r}))
def fail():
    raise ValueError({text!r})
def crash():
    thread = threading.Thread(target=fail); thread.start(); thread.join()
    return {{}}.items()
list_command._KINDS["prompts"] = ("", crash)
sys.argv[1:] = ["list", "prompts"]
main.main()
"""


def test_tracebacks_of_bugs() -> None:
    text = HOSTILE.replace("\udc80", "")
    said = subprocess.run([sys.executable, "-c", CRASH.format(text=text)], capture_output=True, text=True, timeout=300)
    assert said.returncode == 1
    assert said.stderr.count("ValueError: \\x1b]0;pwned") == 2
    shown(said.stderr)
