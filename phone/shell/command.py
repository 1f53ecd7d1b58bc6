"""The call of a command of the shell: what it gets, and how it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from turncredit.phone.phone import Phone
from turncredit.phone.storage import Storage, StorageError, normal_path

__all__ = ["CommandCall", "CommandError", "CommandFunction", "InputNeeded", "number", "take_options"]

_MOST_OUTPUT: Final = 128 << 20


class CommandError(Exception):
    """A command fails: its message goes to standard error, and its code is the exit code."""

    def __init__(self, message: str, code: int = 1) -> None:
        """Fail with a message and an exit code."""
        super().__init__(message)
        self.code = code


class InputNeeded(Exception):
    """A command reads standard input, which the caller did not have: it runs again when all of it is there."""


@dataclass(slots=True)
class CommandCall:
    """One run of a command: its arguments (without its name), what it may read, and what it has printed."""

    phone: Phone
    name: str
    args: list[str]
    input: bytes | None = b""  # standard input; None: not known yet
    directory: str = "/"
    run: Callable[[list[str], bytes | None], Any] | None = None  # runs another command: words, standard input -> Result
    out: bytearray = field(default_factory=bytearray)
    err: bytearray = field(default_factory=bytearray)

    @property
    def stdin(self) -> bytes:
        """Standard input.

        Raises:
            InputNeeded: it is not known yet.
        """
        if self.input is None:
            raise InputNeeded
        return self.input

    @property
    def storage(self) -> Storage:
        """The file system."""
        return Storage(self.phone)

    def print(self, text: str) -> None:
        """Write a line to standard output."""
        self.write((text + "\n").encode("utf-8", "surrogateescape"))

    def write(self, data: bytes) -> None:
        """Write bytes to standard output."""
        if len(self.out) + len(data) > _MOST_OUTPUT:
            raise CommandError(f"{self.name}: output too long")
        self.out += data

    def warn(self, text: str) -> None:
        """Write a line to standard error."""
        self.err += (text + "\n").encode("utf-8", "surrogateescape")

    def path(self, name: str) -> str:
        """Return an absolute path."""
        return normal_path(name, self.directory)

    def read(self, name: str) -> bytes:
        """Return a file, or standard input for '-'; fail as the command would."""
        if name == "-":
            return self.stdin
        try:
            return self.storage.read(self.path(name))
        except StorageError as error:
            raise CommandError(f"{self.name}: {name}: {error}") from None

    def inputs(self, names: list[str]) -> list[tuple[str, bytes]]:
        """Return names and contents of files, or standard input if none is named; those missing are warned of."""
        contents = []
        for name in names or ["-"]:
            try:
                contents.append((name, self.read(name)))
            except CommandError as error:
                self.warn(str(error))
        return contents

    def rest(self) -> str:
        """Return all arguments as one text."""
        return " ".join(self.args)


CommandFunction = Callable[[CommandCall], int | None]
"""Runs a command; None is exit code 0."""


def take_options(call: CommandCall, flags: str = "", values: str = "") -> tuple[dict[str, str], list[str]]:
    """Return the short options of a call and its other arguments.

    Args:
        call: the call.
        flags: letters of options without a value.
        values: letters of options with one.

    Raises:
        CommandError: an option is unknown or has no value.
    """
    options: dict[str, str] = {}
    args = list(call.args)
    others: list[str] = []
    while args:
        word = args.pop(0)
        if word == "--":
            return options, others + args
        if len(word) < 2 or word[0] != "-":
            others.append(word)
            continue
        for at, letter in enumerate(word[1:], start=1):
            if letter in flags:
                options[letter] = ""
            elif letter in values:
                options[letter] = word[at + 1 :] or (args.pop(0) if args else "")
                if not options[letter]:
                    raise CommandError(f"{call.name}: option -{letter} needs a value")
                break
            else:
                raise CommandError(f"{call.name}: Unknown option '{word[1:]}' (see \"{call.name} --help\")")
    return options, others


def number(call: CommandCall, text: str) -> int:
    """Return a whole number; digits after a point are cut off, as `input` does."""
    try:
        value = int(float(text))
    except (ValueError, OverflowError):
        raise CommandError(f'Error: Invalid arguments for command: {call.name}\nnot a number: "{text}"', 255) from None
    if abs(value) > 1_000_000_000_000:
        raise CommandError(f"{call.name}: {text} is out of range", 255)
    return value
