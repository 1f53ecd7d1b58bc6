"""`content`: rows of apps under their content uris, as the app's declaration shows them; settings and media too."""

from __future__ import annotations

import mimetypes
import posixpath
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from turncredit.phone.phone import Phone
from turncredit.phone.shell.command import CommandCall, CommandError, CommandFunction
from turncredit.phone.shell.contact_data import DATA, changed_columns, data_rows
from turncredit.phone.shell.settings import put
from turncredit.phone.sqlite_limits import limited
from turncredit.phone.storage import Storage
from turncredit.phone.toolkit.app import App, Converted, Provider
from turncredit.phone.toolkit.tables import Columns, Row, Value

Rows = list[Columns]
_OPTIONS: Final = ("--uri", "--projection", "--where", "--sort", "--user", "--bind", "--extra")
_CONTACTS: Final = "content://com.android.contacts/contacts"
_ACCOUNT: Final = ("account_type", "account_name")  # the phone has no accounts
_MEDIA: Final = {
    "content://media/external/images/media": "image/",
    "content://media/external/video/media": "video/",
    "content://media/external/audio/media": "audio/",
    "content://media/external/file": "",
    "content://media/external/downloads": "",
}


@dataclass(slots=True)
class _Request:
    uri: str = ""
    projection: list[str] = field(default_factory=list)
    where: str = ""
    sort: str = ""
    values: Columns = field(default_factory=dict)


def content(call: CommandCall) -> None:
    """Query, insert, update, delete, read."""
    action = call.args[0] if call.args else ""
    if action not in _ACTIONS:
        raise CommandError(f"[ERROR] Unsupported operation: {action}; this phone has {', '.join(_ACTIONS)}", 255)
    request = _parse(call.args[1:])
    if not request.uri:
        raise CommandError("[ERROR] Content provider URI not specified. Did you specify --uri argument?", 255)
    try:
        _ACTIONS[action](call, request)
    except sqlite3.Error as error:
        raise CommandError(f"Error while accessing provider: {error}") from None
    except (KeyError, ValueError, OverflowError) as error:
        raise CommandError(f"Error while accessing provider: {error.args[0] if error.args else error}") from None


def _parse(args: list[str]) -> _Request:
    request, args = _Request(), list(args)
    while args:
        option = args.pop(0)
        if option not in _OPTIONS or not args:
            raise CommandError(f"[ERROR] Unsupported argument: {option}", 255)
        value = args.pop(0)
        if option == "--uri":
            request.uri = value.rstrip("/").partition("?")[0]
        elif option == "--projection":
            request.projection = value.split(":")
        elif option == "--where":
            request.where = value
        elif option == "--sort":
            request.sort = value
        elif option == "--bind":
            name, kind, text = [*value.split(":", 2), "", ""][:3]
            request.values[name] = _bound(name, kind, text)
    return request


def _bound(name: str, kind: str, text: str) -> Value:
    if kind in ("i", "l"):
        return int(text)
    if kind in ("f", "d"):
        return float(text)
    if kind == "b":
        return int(text == "true")
    if kind == "s":
        return text
    if kind == "n":
        return None
    raise CommandError(f"[ERROR] Bind not well formed: {name}:{kind}:{text}; write NAME:s|i|l|f|d|b|n:VALUE", 255)


# Rows


@dataclass(frozen=True)
class _Source:
    """Rows under a uri, and how they are changed."""

    rows: Callable[[], Rows]
    insert: Callable[[Columns], None]
    update: Callable[[Columns, Columns], None]  # a row, new values
    delete: Callable[[Columns], None]


def _source(phone: Phone, uri: str) -> tuple[_Source, str]:
    """Return the rows of a uri, and the condition that its end sets.

    Raises:
        CommandError: no app provides it.
    """
    base, last = posixpath.split(uri)
    sources: dict[str, Callable[[], _Source]] = {
        **{f"content://settings/{space}": _of_settings(phone, space) for space in ("system", "secure", "global")},
        **{media: _of_media(phone, media) for media in _MEDIA},
    }
    for app in phone.apps.values():
        for name, provider in app.providers.items():
            sources[name.rstrip("/")] = _of_app(phone, app, provider)
    if _CONTACTS in sources:
        sources[DATA] = _of_contact_data(sources[_CONTACTS])
    if uri in sources:
        return sources[uri](), ""
    if base in sources:
        if last.isdecimal():
            return sources[base](), f"_id = {int(last)}"
        if base.startswith("content://settings/"):
            return sources[base](), f"name = '{last.replace(chr(39), chr(39) * 2)}'"
    listed = ", ".join(sorted(sources))
    raise CommandError(f"[ERROR] Could not find provider: {uri}; this phone has {listed}")


def _of_app(phone: Phone, app: App, provider: Provider) -> Callable[[], _Source]:
    columns = {"_id": "_id", **provider.columns}
    where: Columns = dict(provider.where)

    def clean(row: Columns, before: Row) -> Columns:
        return provider.clean(row, before) if provider.clean else row

    def rows() -> Rows:
        stored = phone.tables(app.package).rows(provider.table, **where)
        return [{name: _shown(row, way) for name, way in columns.items()} for row in stored]

    def to_table(values: Row) -> Columns:
        result = {}
        for name, value in values.items():
            if name in (*_ACCOUNT, *provider.ignored):
                continue
            way = columns.get(name)
            if not isinstance(way, str | Converted) or name == "_id":
                able = (key for key, way in columns.items() if isinstance(way, str | Converted) and key != "_id")
                writable = ", ".join(able)
                raise CommandError(
                    f"Error while accessing provider: column {name!r} cannot be set; those are {writable}"
                )
            if isinstance(way, Converted):
                result[way.column] = way.store(value)
            else:
                result[way] = _stored(app.schema[provider.table][way], value)
        return result

    def insert(values: Columns) -> None:
        phone.tables(app.package).insert(provider.table, **clean({**to_table(values), **where}, {}))

    def update(row: Columns, values: Columns) -> None:
        tables = phone.tables(app.package)
        before = tables.get(provider.table, row["_id"]) or {}
        new = clean({**before, **to_table(values)}, before)
        tables.update(provider.table, row["_id"], **{name: value for name, value in new.items() if name != "_id"})

    def delete(row: Columns) -> None:
        phone.tables(app.package).delete(provider.table, row["_id"])

    return lambda: _Source(rows, insert, update, delete)


def _shown(row: Row, way: str | Converted | Callable[[Row], Value]) -> Value:
    if isinstance(way, Converted):
        return way.show(row)
    return row[way] if isinstance(way, str) else way(row)


def _stored(kind: type, value: Value) -> Value:
    result: Value = kind()
    if value is None:
        return result
    return int(value or 0) if kind is bool else kind(value or 0) if kind is not str else str(value)


def _of_contact_data(find: Callable[[], _Source]) -> Callable[[], _Source]:
    """Return the names and numbers of contacts as rows of their own."""

    def source() -> _Source:
        contacts = find()

        def change(key: Value, values: Row) -> None:
            row = next((row for row in contacts.rows() if row["_id"] == key), None)
            if row is None:
                raise CommandError(f"Error while accessing provider: there is no raw contact {key}")
            contacts.update(row, changed_columns(dict(values)))

        return _Source(
            rows=lambda: data_rows(contacts.rows),
            insert=lambda values: change(values.get("raw_contact_id"), values),
            update=lambda row, values: change(row["raw_contact_id"], {"mimetype": row["mimetype"], **values}),
            delete=lambda row: change(row["raw_contact_id"], {"mimetype": row["mimetype"], "data1": ""}),
        )

    return source


def _of_settings(phone: Phone, space: str) -> Callable[[], _Source]:
    def rows() -> Rows:
        values = sorted(phone.state.settings[space].items())
        return [{"_id": at, "name": name, "value": value} for at, (name, value) in enumerate(values, start=1)]

    def insert(values: Columns) -> None:
        put(CommandCall(phone, "content", []), space, str(values["name"]), str(values["value"]))

    def update(row: Columns, values: Columns) -> None:
        put(CommandCall(phone, "content", []), space, row["name"], str(values["value"]))

    def delete(row: Columns) -> None:
        phone.set_setting(row["name"], None, space)

    return lambda: _Source(rows, insert, update, delete)


def _of_media(phone: Phone, uri: str) -> Callable[[], _Source]:
    def rows() -> Rows:
        media_rows: Rows = []
        for at, (path, file) in enumerate(sorted(phone.files.items()), start=1):
            kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
            if path.startswith("/sdcard/") and kind.startswith(_MEDIA[uri]):
                name = posixpath.basename(path)
                row: Columns = {"_id": at, "_data": "/storage/emulated/0" + path.removeprefix("/sdcard")}
                row |= {"_display_name": name, "title": name.rsplit(".", 1)[0], "_size": len(file.data)}
                media_rows.append(
                    {**row, "mime_type": kind, "date_modified": file.modified, "date_added": file.modified}
                )
        return media_rows

    def refuse(*_: object) -> None:
        raise CommandError("Error while accessing provider: media rows follow the files: push, move or remove those")

    def delete(row: Columns) -> None:
        Storage(phone).remove(row["_data"])

    return lambda: _Source(rows, refuse, refuse, delete)


def _select(source: _Source, request: _Request, condition: str) -> tuple[list[str], Rows]:
    """Return the columns and rows that a request asks for, each row with all its columns."""
    rows = source.rows()
    columns = list(rows[0]) if rows else []
    projection = request.projection or columns
    if not rows:
        return projection, []
    connection = sqlite3.connect(":memory:")
    try:
        kinds = {column: "TEXT" if isinstance(value, str) else "NUMERIC" for column, value in rows[0].items()}
        quoted = ", ".join(f'"{column}" {kind}' for column, kind in kinds.items())
        connection.execute(f"CREATE TABLE rows ({quoted})")
        marks = ", ".join("?" * len(columns))
        connection.executemany(f"INSERT INTO rows VALUES ({marks})", [tuple(row.values()) for row in rows])
        limited(connection)
        conditions = [f"({text})" for text in (condition, request.where) if text]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        order = f" ORDER BY {request.sort}" if request.sort else ""
        for column in projection:
            if column not in columns and "(" not in column and " " not in column:
                raise CommandError(f"Error while accessing provider: no such column: {column}; {', '.join(columns)}")
        shown = ", ".join(f'"{column}"' if column in columns else column for column in projection)
        cursor = connection.execute(f"SELECT rowid, {shown} FROM rows{where}{order}")
        return projection, [
            {**rows[key - 1], "": dict(zip(projection, values, strict=True))} for key, *values in cursor.fetchall()
        ]
    finally:
        connection.close()


def _query(call: CommandCall, request: _Request) -> None:
    source, condition = _source(call.phone, request.uri)
    _, rows = _select(source, request, condition)
    for at, row in enumerate(rows):
        values = ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in row[""].items())
        call.print(f"Row: {at} {values}")
    if not rows:
        call.print("No result found.")


def _insert(call: CommandCall, request: _Request) -> None:
    _source(call.phone, request.uri)[0].insert(request.values)


def _update(call: CommandCall, request: _Request) -> None:
    source, condition = _source(call.phone, request.uri)
    for row in _select(source, _Request(where=request.where), condition)[1]:
        source.update(row, request.values)


def _delete(call: CommandCall, request: _Request) -> None:
    source, condition = _source(call.phone, request.uri)
    for row in _select(source, _Request(where=request.where), condition)[1]:
        source.delete(row)


def _read(call: CommandCall, request: _Request) -> None:
    """Print the file behind a row of the media."""
    source, condition = _source(call.phone, request.uri)
    rows = _select(source, _Request(), condition)[1]
    if len(rows) != 1 or "_data" not in rows[0]:
        raise CommandError(f"Error while accessing provider: {request.uri} is not one file")
    call.write(call.storage.read(rows[0]["_data"]))


_ACTIONS: Final[dict[str, Callable[[CommandCall, _Request], None]]] = {
    "query": _query,
    "insert": _insert,
    "update": _update,
    "delete": _delete,
    "read": _read,
}

COMMANDS: Final[dict[str, CommandFunction]] = {"content": content}
