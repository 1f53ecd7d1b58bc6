"""Tables of an app: immutable values that share their rows, and the SQLite database that they stand for.

A write makes a new table, so that a snapshot is a copy of a few references, and the digest of a table is computed once.
SQLite itself is used where bytes or SQL are wanted (`to_sqlite`, `from_sqlite`): a step then costs microseconds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from hashlib import blake2b
from typing import Any, Final

__all__ = [
    "KINDS",
    "Columns",
    "Database",
    "Row",
    "Schema",
    "Table",
    "Value",
    "empty_tables",
    "from_sqlite",
    "to_sqlite",
]

Value = str | int | float | None
Row = Mapping[str, Any]
"""One row: its columns by name, with `_id`. Read only."""
Columns = dict[str, Any]
"""Values of columns by name, for a row that is being made."""

Schema = Mapping[str, Mapping[str, type]]
"""Tables of a database: column -> str, int, float or bool, by table. Each table also has an integer `_id`."""

_SQL: Final = {str: "TEXT", int: "INTEGER", float: "REAL", bool: "INTEGER"}
KINDS: Final = tuple(_SQL)
"""The types that a column may have."""
_STORED: Final = {str: "TEXT", int: "INT", float: "REAL", bytes: "BLOB"}
_DEFAULTS: Final[dict[type, Value]] = {str: "", int: 0, float: 0.0, bool: 0}


class Table:
    """Rows by id. Never changed once made."""

    __slots__ = ("_digest", "_make", "next_id", "rows")

    rows: dict[int, Row]
    next_id: int

    def __init__(self, rows: dict[int, Row], next_id: int) -> None:
        """Take the rows, and the id that the next one gets."""
        self.rows = rows
        self.next_id = next_id
        self._digest: bytes | None = None
        self._make: Callable[[], Table] | None = None

    @classmethod
    def later(cls, make: Callable[[], Table]) -> Table:
        """Return a table that takes its rows from `make()` when they are first asked for."""
        table = cls.__new__(cls)
        table._digest, table._make = None, make
        return table

    def __getattr__(self, name: str) -> Any:
        """Make the rows: they are asked for, and not there."""
        if name not in ("rows", "next_id"):
            raise AttributeError(name)
        make = self._make
        if make is not None:  # else another thread was faster
            made = make()
            self.next_id, self.rows = made.next_id, made.rows
            self._make = None
        return getattr(self, name)

    @property
    def digest(self) -> bytes:
        """16 bytes that are equal exactly when the rows are."""
        if self._digest is None:
            content = repr(sorted((key, sorted(row.items())) for key, row in self.rows.items()))
            self._digest = blake2b(content.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        return self._digest


class Database:
    """The tables of one app, as actions and screens use them."""

    __slots__ = ("_changed", "_name", "_schema", "tables")

    def __init__(
        self, name: str, schema: Schema, tables: dict[str, Table], changed: Callable[[], None] = lambda: None
    ) -> None:
        """Work on `tables`, whose values are replaced by writes, each followed by `changed()`; `name` is for errors."""
        self._changed = changed
        self._name = name
        self._schema = schema
        self.tables = tables

    def rows(self, table: str, order: str | Callable[[Row], Any] = "", **equal: Value) -> list[Row]:
        """Return the rows whose columns equal the given values.

        Args:
            table: its name.
            order: a column or a function of a row to sort by; "-column" sorts downwards. Default: by id.
            equal: column=value.
        """
        rows = list(self._table(table).rows.values())
        for column, value in equal.items():
            rows = [row for row in rows if row[column] == value]
        if callable(order):
            return sorted(rows, key=order)
        if order:
            return sorted(rows, key=lambda row: row[order.lstrip("-")], reverse=order.startswith("-"))
        return rows

    def get(self, table: str, key: int) -> Row | None:
        """Return the row with this id, or None."""
        return self._table(table).rows.get(key)

    def count(self, table: str) -> int:
        """Return the number of rows."""
        return len(self._table(table).rows)

    def insert(self, table: str, **values: Value) -> int:
        """Add a row and return its id; columns that are not given are empty or 0."""
        old = self._table(table)
        _check(self._name, table, self._schema[table], values)
        row: Columns = {"_id": old.next_id}
        for column, kind in self._schema[table].items():
            value = values.get(column, _DEFAULTS[kind])
            row[column] = int(value) if kind is bool and value is not None else value
        self._store(table, Table({**old.rows, old.next_id: row}, old.next_id + 1))
        return old.next_id

    def fill(self, table: str, rows: Iterable[Row] | Callable[[], Iterable[Row]]) -> None:
        """Add many rows at once; a function is called when they are first needed, and must not depend on the time."""
        filled = partial(_filled, self._name, table, self._schema[table], self._table(table), rows)
        self._store(table, Table.later(filled) if callable(rows) else filled())

    def update(self, table: str, key: int, **values: Value) -> None:
        """Change columns of a row; nothing happens if there is no such row."""
        old = self._table(table)
        _check(self._name, table, self._schema[table], values)
        if key in old.rows:
            kinds = self._schema[table]
            clean = {name: int(value) if kinds[name] is bool and value else value for name, value in values.items()}
            self._store(table, Table({**old.rows, key: {**old.rows[key], **clean}}, old.next_id))

    def delete(self, table: str, key: int) -> None:
        """Remove a row; nothing happens if there is no such row."""
        old = self._table(table)
        if key in old.rows:
            self._store(table, Table({k: row for k, row in old.rows.items() if k != key}, old.next_id))

    def _store(self, table: str, new: Table) -> None:
        self.tables[table] = new
        self._changed()

    def _table(self, table: str) -> Table:
        try:
            return self.tables[table]
        except KeyError:
            raise KeyError(f"{self._name} has no table {table!r}; its tables: {', '.join(self._schema)}") from None


def _filled(
    app: str, table: str, schema: Mapping[str, type], old: Table, rows: Iterable[Row] | Callable[[], Iterable[Row]]
) -> Table:
    """Return a table with more rows. It is no method: a table that waits for its rows must not keep a phone."""
    empty = {column: _DEFAULTS[kind] for column, kind in schema.items()}
    columns, result, key = schema.keys(), dict(old.rows), old.next_id
    for row in rows() if callable(rows) else rows:
        if not row.keys() <= columns:
            _check(app, table, schema, row)
        result[key] = {"_id": key, **empty, **row}
        key += 1
    return Table(result, key)


def _check(app: str, table: str, schema: Mapping[str, type], values: Row) -> None:
    if not values.keys() <= schema.keys():
        unknown = next(name for name in values if name not in schema)
        raise KeyError(f"{app}.{table} has no column {unknown!r}; its columns: {', '.join(schema)}")


def empty_tables(schema: Schema) -> dict[str, Table]:
    """Return the tables of a schema without rows."""
    return {name: Table({}, 1) for name in schema}


def to_sqlite(schema: Schema, tables: Mapping[str, Table]) -> sqlite3.Connection:
    """Return an SQLite database in memory with these tables."""
    connection = sqlite3.connect(":memory:")
    for name, columns in schema.items():
        fields = ", ".join(f'"{column}" {_SQL[kind]}' for column, kind in columns.items())
        connection.execute(f'CREATE TABLE "{name}" (_id INTEGER PRIMARY KEY AUTOINCREMENT, {fields})')
        names = ["_id", *columns]
        marks = ", ".join("?" * len(names))
        rows = [tuple(row[column] for column in names) for row in tables[name].rows.values()]
        connection.executemany(f'INSERT INTO "{name}" VALUES ({marks})', rows)
        connection.execute("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
        connection.execute("INSERT INTO sqlite_sequence VALUES (?, ?)", (name, tables[name].next_id - 1))
    connection.commit()
    return connection


def from_sqlite(schema: Schema, connection: sqlite3.Connection) -> dict[str, Table]:
    """Return the tables of a database that `to_sqlite` made, after changes by SQL. NULL becomes empty or 0.

    Raises:
        sqlite3.Error: a table or column of the schema is gone, or a value does not fit its column.
    """
    tables = {}
    for name, columns in schema.items():
        names = ["_id", *columns]
        chosen = ", ".join(f'"{column}"' for column in names)
        rows = connection.execute(f'SELECT {chosen} FROM "{name}" ORDER BY _id').fetchall()
        sequence = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (name,)).fetchone()
        last = max(sequence[0] if sequence else 0, rows[-1][0] if rows else 0)
        kept_rows: dict[int, Row] = {row[0]: {"_id": row[0], **_fitting(name, columns, row[1:])} for row in rows}
        tables[name] = Table(kept_rows, last + 1)
    return tables


def _fitting(table: str, columns: Mapping[str, type], values: Iterable[object]) -> Columns:
    """Return the columns of a row with values of their types."""
    row = {}
    for (column, kind), value in zip(columns.items(), values, strict=True):
        if value is None:
            value = _DEFAULTS[kind]
        elif kind is str and isinstance(value, int | float):
            value = str(value)
        elif kind is float and isinstance(value, int):
            value = float(value)
        if not isinstance(value, int if kind is bool else kind):
            message = f"cannot store {_STORED[type(value)]} value in {_SQL[kind]} column {table}.{column}"
            raise sqlite3.IntegrityError(message)
        row[column] = value
    return row
