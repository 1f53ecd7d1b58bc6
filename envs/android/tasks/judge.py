"""The verdict on a task: the difference between the phone before and after, held against the effects.

A task is won when every effect is there and nothing else has changed. Values compare as people would: text without
case and surplus white space, phone numbers by their digits, texts of several lines line by line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from turncredit.envs.android.tasks.answers import is_right
from turncredit.envs.android.tasks.effects import (
    Above,
    Answer,
    DeleteRow,
    Effect,
    FileGone,
    FileIs,
    Infeasible,
    InsertRow,
    NewId,
    Setting,
    Shown,
    UpdateRow,
)
from turncredit.phone.phone import Phone
from turncredit.phone.toolkit.forms import form_values
from turncredit.phone.toolkit.state import CURRENT_KEYBOARD, ENABLED_KEYBOARDS
from turncredit.phone.toolkit.tables import Row

_KEYBOARDS: Final = (CURRENT_KEYBOARD, ENABLED_KEYBOARDS)  # with which clients type, and no app shows them

__all__ = ["Content", "Difference", "Verdict", "content", "judge", "same_value"]

Tables = Mapping[str, Mapping[int, Row]]


@dataclass(frozen=True, slots=True)
class Content:
    """What a phone holds. Parts that two contents share are the same objects, which makes comparing them fast."""

    databases: Mapping[str, Tables]  # package -> table -> id -> row
    settings: Mapping[str, Mapping[str, str]]
    files: Mapping[str, bytes]
    front: tuple[str, str, Row] = ("", "", {})  # package, screen, values of its fields
    params: Row = field(default_factory=dict)  # of the screen in front
    empty: Mapping[str, Mapping[str, Row]] = field(default_factory=dict)  # package -> table -> new row
    clock: float = 0.0  # seconds


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the task is won, the share of the effects that are there, and what is wrong, one sentence each."""

    won: bool
    score: float
    reasons: tuple[str, ...] = ()
    met: tuple[bool, ...] = ()  # by effect


def content(phone: Phone, packages: Sequence[str] | None = None) -> Content:
    """Return what a phone holds.

    Args:
        phone: the phone.
        packages: whose databases; default: all that have been used. An app whose database nobody has used yet has its
            first rows, so a comparison needs the packages that the later phone has used.
    """
    databases, empty = {}, {}
    for package in phone.state.databases if packages is None else packages:
        app, tables = phone.apps[package], phone.tables(package).tables
        databases[package] = {name: table.rows for name, table in tables.items() if name not in app.volatile}
        empty[package] = {
            name: {column: "" if kind is str else 0 for column, kind in columns.items()}
            for name, columns in app.schema.items()
        }
    page = phone.page
    values = {**form_values(phone.frame.window, page.values), **page.values}
    files = {path: file.data for path, file in phone.files.items()}
    files |= dict.fromkeys((f"{path}/" for path in phone.state.directories), b"")
    front = (page.package, page.screen, values)
    return Content(databases, phone.state.settings, files, front, dict(page.params), empty, phone.state.clock)


def judge(
    before: Content, after: Content, effects: Sequence[Effect], answer: str = "", gave_up: bool = False
) -> Verdict:
    """Return the verdict on a phone.

    Args:
        before: the phone at the start of the task.
        after: the phone now.
        effects: what success changes.
        answer: the last answer of the agent, "" for none.
        gave_up: the agent says that the task is infeasible.
    """
    difference = Difference(before, after)
    met, reasons = [], []
    for effect in effects:
        reason = _missing(effect, difference, answer, gave_up)
        met.append(not reason)
        reasons += [reason] if reason else []
    if gave_up and not any(isinstance(effect, Infeasible) for effect in effects):
        reasons.append("the agent gave up on a task that can be done")
    reasons += difference.left_over()
    score = sum(met) / len(met) if met else 1.0
    return Verdict(not reasons, score, tuple(reasons), tuple(met))


Where = tuple[str, str, int]  # package, table, id


class Difference:
    """What has changed; every effect that is found takes its part out.

    A row that went and came again is the same row, whatever its id; so are those that name it by its id, in a column
    that is called as its table: `entries.playlist` holds ids of `playlists`.
    """

    def __init__(self, before: Content, after: Content) -> None:
        """Compare two contents."""
        self.before, self.after = before, after
        self.new: dict[Where, Row] = {}
        self.gone: dict[Where, Row] = {}
        self.changed: dict[Where, tuple[Row, Row]] = {}
        self._same_as: dict[tuple[str, str], dict[int, int]] = {}  # of a row that came again: new id -> old id
        for package, tables in after.databases.items():
            old_tables = before.databases.get(package, {})
            for name, rows in tables.items():
                if (old := old_tables.get(name, {})) is not rows:
                    self._compare((package, name), old, rows)
        self.settings = dict(_changed_settings(before.settings, after.settings))
        self.files = dict(_changed_files(before.files, after.files))
        self.ids: dict[str, int] = {}
        self.take_equal()

    def take_equal(self) -> None:
        """Take out the rows that came again as they were, until no more are found."""
        while self._take_equal():
            pass

    def _take_equal(self) -> bool:
        """Take out rows that came again, each with the first new one that is equal; return whether there were any."""
        there: dict[object, list[Where]] = {}
        for where, row in self.new.items():
            there.setdefault((where[:2], _content(self.by_old_ids(where[0], row))), []).append(where)
        named = self._named()
        taken = [
            (old, same.pop(0))
            for old, row in self.gone.items()
            if old not in named and (same := there.get((old[:2], _content(row))))
        ]
        for old, new in taken:
            self._take(old, new)
        for package in {old[0] for old, _ in taken}:
            self._forget_new_ids(package)
        return bool(taken)

    def take_again(self, where: Where, fits: Callable[[Row], bool]) -> bool:
        """Take out a row that is gone, and the first new one that fits in its place; return whether there is one."""
        if where in self._named():
            return False
        for other, row in self.new.items():
            if other[:2] == where[:2] and fits(self.by_old_ids(where[0], row)):
                self._take(where, other)
                self._forget_new_ids(where[0])
                self.take_equal()  # rows that name it
                return True
        return False

    def _take(self, old: Where, new: Where) -> None:
        del self.gone[old], self.new[new]
        self._same_as.setdefault(old[:2], {})[new[2]] = old[2]

    def by_old_ids(self, package: str, row: Row) -> Row:
        """Return a row with the old ids of the rows that came again in the columns that name them."""

        def old(column: str, value: object) -> object:
            tables = (self._same_as.get((package, table), {}) for table in _named_tables(column))
            return next((ids[value] for ids in tables if value in ids), value)

        return {column: value if column == "_id" else old(column, value) for column, value in row.items()}

    def _forget_new_ids(self, package: str) -> None:
        """Take out the rows of which only the id that they name has changed."""
        for where, (old, new) in list(self.changed.items()):
            if where[0] == package and self.by_old_ids(package, new) == old:
                del self.changed[where]

    def _named(self) -> set[Where]:
        """Return the rows that are gone and still named by their ids: then no other can take their place."""
        named: set[Where] = set()
        for package in {where[0] for where in self.gone}:
            gone = {where[1:] for where in self.gone if where[0] == package}
            rows = [row for rows in self.after.databases[package].values() for row in rows.values()]
            pairs = ((table, row[c]) for row in rows for c in row if c != "_id" for table in _named_tables(c))
            named |= {(package, *pair) for pair in pairs if pair in gone}
        return named

    def _compare(self, where: tuple[str, str], old: Mapping[int, Row], new: Mapping[int, Row]) -> None:
        for key, row in new.items():
            if key not in old:
                self.new[(*where, key)] = row
            elif row is not old[key] and row != old[key]:
                self.changed[(*where, key)] = (old[key], row)
        self.gone.update({(*where, key): row for key, row in old.items() if key not in new})

    def left_over(self) -> list[str]:
        """Return a sentence for every change that no effect explains."""
        rows = [f"{package}.{table} has a new row {dict(row)}" for (package, table, _), row in self.new.items()]
        rows += [f"{package}.{table} has lost the row {dict(row)}" for (package, table, _), row in self.gone.items()]
        for (package, table, key), (old, new) in self.changed.items():
            columns = {name: (old.get(name), value) for name, value in new.items() if old.get(name) != value}
            rows.append(f"{package}.{table}: row {key} has changed: {columns}")
        rows += [f"the setting {name} is now {value!r}" for (_, name), value in self.settings.items()]
        rows += [f"the file {path} {'is gone' if data is None else 'has changed'}" for path, data in self.files.items()]
        return rows


def _content(row: Row) -> frozenset[tuple[str, object]]:
    return frozenset((column, value) for column, value in row.items() if column != "_id")


def _named_tables(column: str) -> tuple[str, str]:
    """Return the names that the table may have whose ids a column holds."""
    return (column, f"{column}s")


def _changed_settings(
    before: Mapping[str, Mapping[str, str]], after: Mapping[str, Mapping[str, str]]
) -> Iterator[tuple[tuple[str, str], str | None]]:
    for space in {**before, **after}:
        old, new = before.get(space, {}), after.get(space, {})
        if old is not new:
            for name in {**old, **new}:
                if old.get(name) != new.get(name) and name not in _KEYBOARDS:
                    yield (space, name), new.get(name)


def _changed_files(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Iterator[tuple[str, bytes | None]]:
    for path in {**before, **after}:
        if before.get(path) != after.get(path) and not (path.endswith("/") and _holds(before, after, path)):
            yield path, after.get(path)


def _holds(before: Mapping[str, bytes], after: Mapping[str, bytes], folder: str) -> bool:
    """Return whether a folder was and is there: with files in it, it is not listed by itself."""
    return all(any(path.startswith(folder) for path in files) for files in (before, after))


# Effects


def _missing(effect: Effect, difference: Difference, answer: str, gave_up: bool) -> str:
    """Return "" if an effect is there, after taking it out of the difference; else a sentence."""
    if isinstance(effect, Answer):
        passed = int(difference.after.clock - difference.before.clock) // 60
        return "" if is_right(effect, answer, passed) else f"the answer {answer[:80]!r} is not {effect.value!r}"
    if isinstance(effect, Infeasible):
        return "" if gave_up else "the agent did not say that the task is infeasible"
    return _FIND[type(effect)](effect, difference)


def _insert(effect: InsertRow, difference: Difference) -> str:
    empty = difference.after.empty.get(effect.package, {}).get(effect.table, {})
    values = {**empty, **{name: _resolve(value, difference) for name, value in effect.values.items()}}
    for where, new in difference.new.items():
        row = difference.by_old_ids(effect.package, new)
        same = where[:2] == (effect.package, effect.table) and _fits(row, values, effect.free)
        if same and all(_is_copy(row[name], values[name]) for name in effect.exact):
            del difference.new[where]
            if effect.name:
                difference.ids[effect.name] = where[2]
            return ""
    return f"{effect.package}.{effect.table} has no new row with {dict(effect.values)}"


def _resolve(value: object, difference: Difference) -> object:
    return difference.ids.get(value.name, -1) if isinstance(value, NewId) else value


def _fits(row: Row, values: Row, free: tuple[str, ...]) -> bool:
    return all(same_value(row.get(name), value) for name, value in values.items() if name not in free)


def _update(effect: UpdateRow, difference: Difference) -> str:
    where = (effect.package, effect.table, effect.key)
    values = {name: _resolve(value, difference) for name, value in effect.values.items()}
    gone = difference.gone.get(where)
    others = set(gone or ()) - {"_id", *values, *effect.free}
    if gone is not None and difference.take_again(
        where, lambda new: _fits(new, values, effect.free) and all(new[name] == gone[name] for name in others)
    ):
        return ""
    change = difference.changed.get(where)
    if change is None:
        current = difference.after.databases.get(effect.package, {}).get(effect.table, {}).get(effect.key)
        there = current is not None and _fits(current, values, effect.free)
        return "" if there else f"{effect.package}.{effect.table}: row {effect.key} has not become {values}"
    old, new = change[0], difference.by_old_ids(effect.package, change[1])
    if not _fits(new, values, effect.free):
        return f"{effect.package}.{effect.table}: row {effect.key} has not become {values}"
    if all(old[name] == new[name] for name in new if name not in values and name not in effect.free):
        del difference.changed[where]
    return ""


def _delete(effect: DeleteRow, difference: Difference) -> str:
    for key in (effect.key, *effect.instead):
        if difference.gone.pop((effect.package, effect.table, key), None) is not None:
            return ""
    return f"{effect.package}.{effect.table}: row {effect.key} is still there"


def _setting(effect: Setting, difference: Difference) -> str:
    current = difference.after.settings.get(effect.namespace, {}).get(effect.name, "")
    if current != effect.value:
        return f"the setting {effect.name} is {current!r}, not {effect.value!r}"
    difference.settings.pop((effect.namespace, effect.name), None)
    return ""


def _file_is(effect: FileIs, difference: Difference) -> str:
    data = difference.after.files.get(effect.path)
    if data is None:
        return f"there is no file {effect.path}"
    if isinstance(effect.content, bytes):
        same = data == effect.content
    else:
        same = _keeps_lines(data.decode("utf-8", "replace"), effect.content, effect.original)
    if not same:
        return f"the file {effect.path} has another content"
    difference.files.pop(effect.path, None)
    return ""


def _file_gone(effect: FileGone, difference: Difference) -> str:
    if effect.path in difference.after.files:
        return f"the file {effect.path} is still there"
    difference.files.pop(effect.path, None)
    return ""


def _shown(effect: Shown, difference: Difference) -> str:
    package, screen, values = difference.after.front
    if package != effect.package or (effect.screen and screen != effect.screen):
        return f"the screen {effect.package} {effect.screen} is not in front"
    params = difference.after.params
    if any(params.get(name, 0) != value for name, value in effect.params.items()):
        return f"the screen {screen} has the parameters {dict(params)}, not {dict(effect.params)}"
    wrong = [name for name, value in effect.values.items() if not same_value(values.get(name), value)]
    return f"{wrong[0]!r} on the screen is {values.get(wrong[0])!r}, not {effect.values[wrong[0]]!r}" if wrong else ""


_FIND: Final[Mapping[type, Callable[[Any, Difference], str]]] = {
    InsertRow: _insert,
    UpdateRow: _update,
    DeleteRow: _delete,
    Setting: _setting,
    FileIs: _file_is,
    FileGone: _file_gone,
    Shown: _shown,
}

_PHONE: Final = re.compile(r"\+?(?:[\s()-]*\d){7,}")


def same_value(value: object, other: object) -> bool:
    """Return whether a value of a column is the wanted one to a person.

    >>> same_value("+1 555 0100", "+1-555-0100"), same_value("Ana  berg", "Ana Berg"), same_value(1, 2)
    (True, True, False)
    """
    if isinstance(other, Above):
        return isinstance(value, int | float) and value > other.least
    if isinstance(value, str) and isinstance(other, str):
        if value == other:
            return True
        if _PHONE.fullmatch(value) and _PHONE.fullmatch(other):
            return re.sub(r"\D", "", value) == re.sub(r"\D", "", other)
        return _lines(value) == _lines(other)
    if isinstance(value, float) or isinstance(other, float):
        if not (isinstance(value, int | float) and isinstance(other, int | float)):
            return False
        return abs(value - other) <= 1e-6 * max(1.0, abs(value), abs(other))
    return bool(value == other)


def _is_copy(text: str, expected: str) -> bool:
    """Return whether a text is the wanted one to the letter; only a line break at the end does not count."""
    return text.rstrip("\r\n") == expected.rstrip("\r\n")


def _keeps_lines(text: str, expected: str, original: str) -> bool:
    """Return whether a text is the wanted one to a person, and to the letter in the lines that were kept."""
    if not original:
        return _lines(text) == _lines(expected)
    copied, pairs = set(original.splitlines()), (text.rstrip("\r\n").split("\n"), expected.rstrip("\r\n").split("\n"))
    if len(pairs[0]) != len(pairs[1]):
        return False
    return all(a == b or (b not in copied and _lines(a) == _lines(b)) for a, b in zip(*pairs, strict=True))


def _lines(text: str) -> list[str]:
    lines = [" ".join(line.split()) for line in text.casefold().splitlines()]
    return "\n".join(lines).strip("\n").split("\n")
