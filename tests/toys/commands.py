"""What the tests of commands share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from typer.testing import CliRunner

ENV = "toys/Corridor-v0"


@dataclass(frozen=True)
class Said:
    """What a command said, and how it ended."""

    code: int
    out: str
    err: str


Call = Callable[..., Said]


def run_command(*words: object, stdin: str = "") -> Said:
    """Run a command in this process: `run_command("list", "envs")`, `stdin=` for what a person would type."""
    from turncredit.cli.main import app

    result = CliRunner().invoke(app, [str(word) for word in words], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Said(result.exit_code, result.stdout, result.stderr)


def one_sentence(said: Said, *parts: str) -> None:
    """The command ended as a mistake of the user does: code 2, one line, with these parts in it."""
    assert said.code == 2, (said.out, said.err)
    assert said.err.startswith("turncredit: ")
    assert said.err.count("\n") == 1, said.err
    assert "Traceback" not in said.err
    for part in parts:
        assert part in said.err
