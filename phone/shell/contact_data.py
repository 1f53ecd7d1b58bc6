"""`content://com.android.contacts/data`: name and number of each contact as rows of their own, as in Android."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from turncredit.phone.shell.command import CommandError
from turncredit.phone.toolkit.tables import Columns

__all__ = ["DATA", "changed_columns", "data_rows"]

DATA: Final = "content://com.android.contacts/data"
_NAME: Final = "vnd.android.cursor.item/name"
_NUMBER: Final = "vnd.android.cursor.item/phone_v2"


def data_rows(contacts: Callable[[], list[Columns]]) -> list[Columns]:
    """Return two rows for each contact, given the contacts with the columns of their provider."""
    rows: list[Columns] = []
    for row in contacts():
        shared = {"raw_contact_id": row["_id"], "contact_id": row["_id"], "display_name": row["display_name"]}
        name = {"data1": row["display_name"], "data2": row["given_name"], "data3": row["family_name"]}
        rows.append({"_id": 2 * row["_id"], **shared, "mimetype": _NAME, **name})
        number = {"data1": row["number"], "data2": row["data2"], "data3": ""}
        rows.append({"_id": 2 * row["_id"] + 1, **shared, "mimetype": _NUMBER, **number})
    return rows


def changed_columns(values: Columns) -> Columns:
    """Return what a new or changed row of the data changes in the row of the contact: only what its columns say.

    Raises:
        CommandError: it is neither a name nor a number.
    """
    kind = values.get("mimetype")
    if kind == _NUMBER:
        return {new: values[old] for old, new in (("data1", "number"), ("data2", "data2")) if old in values}
    if kind == _NAME:
        parts = {new: values[old] for old, new in (("data2", "given_name"), ("data3", "family_name")) if old in values}
        if "data1" not in values:
            return parts
        first, _, last = str(values["data1"] or "").partition(" ")
        return {"given_name": parts.get("given_name") or first, "family_name": parts.get("family_name") or last}
    raise CommandError(f"Error while accessing provider: the mimetype must be {_NAME} or {_NUMBER}, got {kind}")
