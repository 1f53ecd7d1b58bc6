"""The commands of the shell by name. A new family is one module with `COMMANDS`, and one line here."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final

from turncredit.phone.shell.command import CommandFunction

__all__ = ["FAMILIES", "command_names", "find_command"]

FAMILIES: Final = (
    "activities",
    "content_providers",
    "databases",
    "dumps",
    "files",
    "filters",
    "inputs",
    "keyboards",
    "packages",
    "properties",
    "screen",
    "settings",
    "wrappers",
)
_FOLDERS: Final = ("/system/bin/", "/system/xbin/", "/vendor/bin/", "/bin/", "/usr/bin/")


@cache
def _commands() -> dict[str, CommandFunction]:
    commands: dict[str, CommandFunction] = {}
    for family in FAMILIES:
        for name, function in import_module(f"turncredit.phone.shell.{family}").COMMANDS.items():
            if name in commands:
                raise ValueError(f"two families have a command {name!r}, the second is {family}")
            commands[name] = function
    return commands


def command_names() -> list[str]:
    """Return the names of all commands, in order."""
    return sorted(_commands())


def find_command(name: str) -> CommandFunction | None:
    """Return a command by name or path, or None."""
    for folder in _FOLDERS:
        name = name.removeprefix(folder)
    return _commands().get(name)
