"""SQLite for statements that somebody else wrote: no other files, no endless queries, no huge values."""

from __future__ import annotations

import sqlite3
from typing import Final

__all__ = ["limited"]

_STEPS: Final = 20_000_000  # of SQLite's machine, for all statements of a connection together: some seconds
_EVERY: Final = 100_000
_VALUE: Final = 16 << 20  # bytes of one value
_PRAGMAS: Final = frozenset(
    (
        *("encoding", "foreign_keys", "index_list", "integrity_check", "page_count", "page_size"),
        *("quick_check", "schema_version", "table_info", "table_list", "table_xinfo", "user_version"),
    )
)


def limited(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Return the connection, from now on unable to open other files (ATTACH, VACUUM INTO) or to run without end."""
    rounds = 0

    def count() -> int:
        nonlocal rounds
        rounds += 1
        return int(rounds * _EVERY > _STEPS)

    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _VALUE)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.set_progress_handler(count, _EVERY)
    connection.set_authorizer(_allow)
    return connection


def _allow(action: int, first: str | None, second: str | None, database: str | None, trigger: str | None) -> int:
    if action in (sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH):
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_PRAGMA and (first or "").casefold() not in _PRAGMAS:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK
