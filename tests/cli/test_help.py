"""The help of every command: an example that the command understands, and summaries that are whole sentences."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import cast

import pytest
import typer.main
from toys.commands import Call
from typer.core import TyperCommand, TyperGroup

from turncredit.cli.help_examples import EXAMPLES
from turncredit.cli.main import app

Command = TyperCommand | TyperGroup
PROGRAM = cast("TyperGroup", typer.main.get_command(app))


def tree(command: Command, path: str = "") -> Iterator[tuple[str, Command]]:
    """Yield every command and group below a command, with the words that name it."""
    yield path, command
    for name, child in subcommands_of(command).items():
        yield from tree(child, f"{path} {name}".strip())


def subcommands_of(command: Command) -> dict[str, Command]:
    return cast("dict[str, Command]", command.commands) if isinstance(command, TyperGroup) else {}


COMMANDS = dict(tree(PROGRAM))


def parsed(words: list[str]) -> str:
    """Return the words of the command that parsed a command line, options and arguments included."""
    command: Command = PROGRAM
    context, path = PROGRAM.make_context("turncredit", list(words)), ""
    while subcommands := subcommands_of(command):
        name, *rest = [*context._protected_args, *context.args]
        command, path = subcommands[name], f"{path} {name}".strip()
        context = command.make_context(name, rest, parent=context)
    return path


def test_every_command_has_examples_and_every_example_a_command() -> None:
    assert set(EXAMPLES) == set(COMMANDS)
    assert len(COMMANDS) > 30
    assert all(EXAMPLES.values())


@pytest.mark.parametrize("path", sorted(COMMANDS))
def test_the_help_of_a_command_ends_with_examples_that_it_understands(turncredit: Call, path: str) -> None:
    said = turncredit(*path.split(), "--help")
    assert said.code == 0
    _, _, end = said.out.rpartition("Example")
    shown = [line.strip() for line in end.splitlines()[1:] if line.strip()]
    assert shown == list(EXAMPLES[path])
    for line in shown:
        program, *words = shlex.split(line)
        assert program == "turncredit"
        assert path == "" or words[: len(path.split())] == path.split() or path in ("data", "model", "serve")
        assert parsed(words).startswith(path)


def test_a_wrong_example_would_be_noticed() -> None:
    with pytest.raises(Exception, match="No such option: --epizodes"):
        parsed(["eval", "--epizodes", "5", "expert"])
    with pytest.raises(Exception, match="Missing parameter"):
        parsed(["compare", "a.json"])


def test_summaries_are_whole_sentences_on_one_line(turncredit: Call) -> None:
    for path, command in COMMANDS.items():
        subcommands = subcommands_of(command)
        if subcommands:
            lines = turncredit(*path.split(), "--help").out.partition("Commands:")[2].splitlines()
            for name, child in subcommands.items():
                (line,) = [line.split(maxsplit=1)[1] for line in lines if line.startswith(f"  {name} ")]
                assert line == child.short_help
                assert line.endswith(".")
                assert not line.endswith("..")
                assert line[0].isupper()
