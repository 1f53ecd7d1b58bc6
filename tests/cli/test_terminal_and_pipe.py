"""Commands in a real terminal and in a real pipe: words stay whole at any width, and a log has whole lines."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

pytestmark = pytest.mark.waits

PROGRAM = [sys.executable, "-m", "turncredit.cli.main"]
MOVES = ":help\ngo to nowhere\n:plan\n:actions\n:history\n:watch\n:quit\n"
COMMANDS = {
    "play": (["play"], MOVES),
    "eval": (["eval", "random", "turncredit/Household-v0", "level=tiny", "--episodes", "2"], ""),
    "check": (["check", "turncredit/Household-v0", "level=tiny", "--light", "--level", "runtime", "--tasks", "1"], ""),
    "formats": (["list", "formats"], ""),
    "verify": (["verify", "--method", "gigpo"], ""),
    "error": (["list", "nothing"], ""),
}


def environment() -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "FORCE_COLOR")}
    return {**kept, "TERM": "dumb", "NO_COLOR": "1"}


def in_terminal(words: list[str], width: int, typed: str, folder: Path) -> str:
    """Return what a command prints on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    with subprocess.Popen(
        [*PROGRAM, *words], stdin=subprocess.PIPE, stdout=theirs, stderr=theirs, env=environment(), cwd=folder
    ) as process:
        os.close(theirs)
        assert process.stdin is not None
        process.stdin.write(typed.encode())
        process.stdin.close()
        chunks = []
        while True:
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not chunk:
                break
            chunks.append(chunk)
    os.close(ours)
    return b"".join(chunks).decode()


def in_pipe(words: list[str], typed: str, folder: Path) -> str:
    done = subprocess.run(
        [*PROGRAM, *words], input=typed, capture_output=True, text=True, env=environment(), cwd=folder, check=False
    )
    return done.stdout + done.stderr


def words_of(text: str) -> set[str]:
    """Return the words of an output without its numbers, which differ from one call to the next."""
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)
    return {re.sub(r"\d+", "0", word) for word in plain.split() if re.search("[a-z]", word)}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_no_word_is_broken_at_any_width(name: str, tmp_path: Path) -> None:
    words, typed = COMMANDS[name]
    whole = words_of(in_pipe(words, typed, tmp_path))
    assert len(whole) > 10
    for width in (60, 80, 120):
        text = in_terminal(words, width, typed, tmp_path)
        missing = whole - words_of(text)
        if name == "eval":
            missing -= {"won,", "won", "episodes,", "left", "loading", "for", "s"}
        assert not missing, (width, missing, text)


def test_a_log_has_every_iteration_as_a_line_that_fits(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    run = tmp_path / "run.toml"
    run.write_text(
        'threads = 1\nenv = {id = "turncredit/Household-v0", kwargs = {level = "tiny"}}\n'
        "agent = {max_turns = 8, max_tokens = 4}\n"
        "policy = {new = {vocab = 300, hidden = 16, layers = 1, heads = 2}, context = 400}\n"
        "imitation = {episodes = 12, epochs = 1}\ntrain = {iterations = 6, groups = 1, group_size = 2}\n"
        "evaluation = {episodes = 2, every = 3}\n"
    )
    text = in_pipe(["train", str(run), "--output", str(tmp_path / "log")], "", tmp_path)
    lines = text.splitlines()
    labels = [match[1] for line in lines if (match := re.match(r" *(iteration|\d/6|eval at \d) ", line))]
    assert labels == ["iteration", "eval at 0", "1/6", "2/6", "3/6", "eval at 3", "4/6", "5/6", "6/6", "eval at 6"], (
        text
    )
    assert not re.search(r"rollout \d+/\d+", text)
    table = [line for line in lines if re.match(r" *(iteration|\d/6|eval at \d) ", line)]
    assert max(map(len, table)) <= 120
    events = [json.loads(line) for line in (tmp_path / "log/metrics.jsonl").read_text().splitlines()]
    trained = [event for event in events if event["phase"] == "train"]
    rows = [line for line in table if re.match(r" *\d/6 ", line)]
    for event, row in zip(trained, rows, strict=True):
        assert row.split()[1:4] == [f"{100 * event['success']:.1f}", "%", f"{event['reward']:.3f}"]
    screen = in_terminal(["train", str(run), "--output", str(tmp_path / "screen")], 80, "", tmp_path)
    assert "success while training" in screen
    assert "iteration success" not in screen
