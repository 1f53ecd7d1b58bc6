"""`sqlite3`: SQL on the database of an app, which takes over what was changed, or on a database in a file."""

from __future__ import annotations

import sqlite3
from typing import Final, NamedTuple

from turncredit.phone.shell.command import CommandCall, CommandError, CommandFunction
from turncredit.phone.sqlite_limits import limited
from turncredit.phone.storage import StorageError

_SWITCHES: Final = frozenset(("-header", "-noheader", "-list", "-batch", "-readonly", "-bail", "-line", "-csv"))
_MOST_PIECES: Final = 2000


def sqlite3_(call: CommandCall) -> int:
    """Run statements and print their rows as sqlite3 does in list mode."""
    args, separator, header, line = list(call.args), "|", False, False
    while args and args[0].startswith("-"):
        option = "-" + args.pop(0).lstrip("-")
        if option == "-separator" and args:
            separator = args.pop(0)
        elif option in _SWITCHES:
            header = header or option == "-header"
            line = line or option == "-line"
            separator = "," if option == "-csv" else separator
        else:
            raise CommandError(f"sqlite3: Error: unknown option: {option}")
    if not args:
        raise CommandError("Usage: sqlite3 [OPTIONS] FILENAME [SQL]")
    path = call.path(args[0])
    statements = args[1:] or [call.stdin.decode("utf-8", "replace")]
    connection = _open(call, path, args[0])
    try:
        before = connection.total_changes
        for statement in statements:
            _run(call, connection, statement, _Rows(separator, header, line))
        connection.commit()
        if connection.total_changes != before or any("create" in text.casefold() for text in statements):
            _store(call, path, connection)
    except sqlite3.Error as error:
        raise CommandError(f"Error: {error}") from None
    finally:
        connection.close()
    return 0


def _open(call: CommandCall, path: str, name: str) -> sqlite3.Connection:
    package = call.storage.package_of(path)
    if package is not None:
        return limited(call.phone.database(package))
    connection = sqlite3.connect(":memory:")
    try:
        if call.storage.find(path):
            connection.deserialize(call.storage.read(path))
        return limited(connection)
    except (sqlite3.Error, StorageError) as error:
        raise CommandError(f'Error: unable to open database "{name}": {error}') from None


def _store(call: CommandCall, path: str, connection: sqlite3.Connection) -> None:
    package = call.storage.package_of(path)
    if package is not None:
        call.phone.store_database(package, connection)
    else:
        call.storage.write(path, connection.serialize())


class _Rows(NamedTuple):
    """How rows are printed: with a separator, names above them, or a line for each value."""

    separator: str
    header: bool
    line: bool


def _run(call: CommandCall, connection: sqlite3.Connection, text: str, style: _Rows) -> None:
    for statement in _statements(_translated(text)):
        cursor = connection.execute(statement)
        names = [column[0] for column in cursor.description or ()]
        if style.header and names and not style.line:
            call.print(style.separator.join(names))
        for row in cursor:
            if style.line:
                for name, value in zip(names, row, strict=True):
                    call.print(f"{name} = {_shown(value)}")
            else:
                call.print(style.separator.join(_shown(value) for value in row))


def _translated(text: str) -> str:
    """Return SQL for the commands with a dot."""
    command = text.strip().split()
    if command[:1] == [".tables"]:
        return "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
    if command[:1] == [".schema"]:
        chosen = f" AND name = '{command[1]}'" if len(command) > 1 and command[1].isidentifier() else ""
        return f"SELECT sql || ';' FROM sqlite_master WHERE sql NOT NULL AND name NOT LIKE 'sqlite_%'{chosen}"
    if text.strip().startswith("."):
        raise CommandError(f"Error: unknown command {command[0]}: this phone has .tables and .schema")
    return text


def _statements(text: str) -> list[str]:
    """Return the statements of a text, each ending at the semicolon that completes it."""
    statements, current = [], ""
    pieces = text.split(";")
    if len(pieces) > _MOST_PIECES:  # each is looked at again and again while a quote is open
        raise CommandError(f"Error: at most {_MOST_PIECES} statements at a time")
    for piece in pieces:
        current += piece + ";"
        if sqlite3.complete_statement(current):
            statements.append(current)
            current = ""
    remainder = current.removesuffix(";").strip()
    return [statement for statement in [*statements, remainder] if statement.strip(" ;\n\t\r")]


def _shown(value: object) -> str:
    if value is None:
        return ""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


COMMANDS: Final[dict[str, CommandFunction]] = {"sqlite3": sqlite3_}
