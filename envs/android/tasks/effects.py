"""Effects: what success changes, as data; the complete difference between the phone before and after a task.

    InsertRow(CONTACTS, "contacts", {"first": "Ana", "phone": "+1 555 0100", "label": "Mobile"}, free=("starred",))
    UpdateRow(CONTACTS, "contacts", 7, {"phone": "+1 555 0100"})
    DeleteRow(CONTACTS, "contacts", 7)
    Setting("wifi_on", "0", "global")
    FileIs("/sdcard/Notes/a.txt", "one line")       FileGone("/sdcard/Notes/a.txt")
    Shown(CONTACTS, "form", {"first": "Ana"})       the page in front at the end
    Answer("number", 3)                             Infeasible()

Everything else must stay as it was, but for the tables that an app declares as `volatile`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from turncredit.phone.toolkit.tables import Value

__all__ = [
    "Above",
    "Answer",
    "ColumnValue",
    "DeleteRow",
    "Effect",
    "FileGone",
    "FileIs",
    "Infeasible",
    "InsertRow",
    "NewId",
    "Setting",
    "Shown",
    "UpdateRow",
]


@dataclass(frozen=True, slots=True)
class NewId:
    """The `_id` that the row of an `InsertRow` with this name gets: for rows that belong to a new row."""

    name: str


@dataclass(frozen=True, slots=True)
class Above:
    """Any number above this one, as the value of a column: for times that depend on when the agent acts."""

    least: float


ColumnValue = Value | NewId | Above
"""What an effect says of a column."""


@dataclass(frozen=True, slots=True)
class InsertRow:
    """One new row. Columns that are neither given nor free must be empty (0 for numbers)."""

    package: str
    table: str
    values: Mapping[str, ColumnValue]
    free: tuple[str, ...] = ()  # columns that the goal does not tell: any value will do
    name: str = ""  # for `NewId` in effects that follow
    exact: tuple[str, ...] = ()  # columns whose text is a copy: case and white space count


@dataclass(frozen=True, slots=True)
class UpdateRow:
    """A row whose given columns change to these values; free ones may change, the others may not."""

    package: str
    table: str
    key: int
    values: Mapping[str, ColumnValue]
    free: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteRow:
    """A row that is gone. `instead`: rows of the same content, of which any may go in its place."""

    package: str
    table: str
    key: int
    instead: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting with this value."""

    name: str
    value: str
    namespace: str = "system"


@dataclass(frozen=True, slots=True)
class FileIs:
    """A new or changed file with this content. A path that ends with / is a new folder without files.

    `original`: the text of a file that moves, is copied or goes on; its lines must be the same to the letter.
    """

    path: str
    content: str | bytes
    original: str = ""


@dataclass(frozen=True, slots=True)
class FileGone:
    """A file that is no longer there."""

    path: str


@dataclass(frozen=True, slots=True)
class Shown:
    """The screen in front at the end, and the values of fields on it; "" for the screen: any of the app.

    `params`: parameters of the screen; one that its page lacks counts as 0.
    """

    package: str
    screen: str = ""
    values: Mapping[str, Value] = field(default_factory=dict)
    params: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the agent answers. Kinds: text, number, date (YYYY-MM-DD), time (HH:MM), choice, list (in any order).

    `accept`: further answers that are right. `goes_on`: the time of day that a clock shows, at the start of the task or
    since then.
    """

    kind: str
    value: Any
    accept: tuple[Any, ...] = ()
    goes_on: bool = False


@dataclass(frozen=True, slots=True)
class Infeasible:
    """The task cannot be done, and the agent has to say so."""


Effect = InsertRow | UpdateRow | DeleteRow | Setting | FileIs | FileGone | Shown | Answer | Infeasible
