"""Wrong outcomes made from the effects of a task: each must fail, as the exact effects must pass.

left out         each effect but one
wrong value      each column of each effect with another value
wrong row        an update or deletion of another row
one too many     the right outcome, and a row, setting or file changed, added or gone
wrong answer     another answer, none, or giving up
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any

from turncredit.envs.android.tasks.effects import (
    Above,
    Answer,
    ColumnValue,
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
from turncredit.phone.toolkit.folders import make_folder
from turncredit.phone.toolkit.state import AppPage
from turncredit.phone.toolkit.tables import Columns, Value

__all__ = ["Outcome", "apply", "near_misses", "right_outcome"]


@dataclass(frozen=True)
class Outcome:
    """How a task may end: what is done to the phone, and what the agent says."""

    name: str
    effects: tuple[Effect, ...]
    answer: str = ""
    gave_up: bool = False
    extra: tuple[Effect, ...] = ()


def right_outcome(effects: Sequence[Effect]) -> Outcome:
    """Return the outcome that wins."""
    answers = [effect for effect in effects if isinstance(effect, Answer)]
    gave_up = any(isinstance(effect, Infeasible) for effect in effects)
    return Outcome("right", tuple(effects), _spoken(answers[0].value) if answers else "", gave_up)


def _spoken(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def apply(phone: Phone, outcome: Outcome) -> None:
    """Do directly to the phone's data what an outcome says."""
    ids: dict[str, int] = {}
    for effect in (*outcome.effects, *outcome.extra):
        _apply(phone, effect, ids)


def _apply(phone: Phone, effect: Effect, ids: dict[str, int]) -> None:
    if isinstance(effect, InsertRow | UpdateRow):
        values = {name: _plain_value(value, ids) for name, value in effect.values.items()}
        if isinstance(effect, UpdateRow):
            phone.tables(effect.package).update(effect.table, effect.key, **values)
        else:
            key = phone.tables(effect.package).insert(effect.table, **values)
            ids.update({effect.name: key} if effect.name else {})
    elif isinstance(effect, DeleteRow):
        phone.tables(effect.package).delete(effect.table, effect.key)
    elif isinstance(effect, Setting):
        phone.set_setting(effect.name, effect.value, effect.namespace)
    elif isinstance(effect, FileIs) and effect.path.endswith("/"):
        make_folder(phone, effect.path.rstrip("/"))
    elif isinstance(effect, FileIs):
        phone.write_file(effect.path, effect.content.encode() if isinstance(effect.content, str) else effect.content)
    elif isinstance(effect, FileGone):
        phone.delete_file(effect.path)
    elif isinstance(effect, Shown):
        _show(phone, effect)


def _plain_value(value: ColumnValue, ids: dict[str, int]) -> Value:
    if isinstance(value, NewId):
        return ids.get(value.name, 0)
    return int(value.least) + 1 if isinstance(value, Above) else value


def _show(phone: Phone, effect: Shown) -> None:
    app = phone.apps[effect.package]
    phone.launch(effect.package)
    screen = effect.screen or app.screens[0].__name__
    if screen != phone.page.screen:
        phone.push(AppPage(effect.package, screen, tuple(effect.params.items())))
    page = phone.page
    phone.change_page(replace(page, values={**page.values, **effect.values}))


def near_misses(phone: Phone, effects: Sequence[Effect]) -> Iterator[Outcome]:
    """Yield outcomes that must not win.

    Args:
        phone: at the start of the task.
        effects: of the task.
    """
    right = right_outcome(effects)
    yield from _left_out(phone, right)
    yield from _wrong_values(phone, right)
    yield from _wrong_rows(phone, right)
    yield from _one_too_many(phone, right)
    yield from _wrong_words(right)


def _left_out(phone: Phone, right: Outcome) -> Iterator[Outcome]:
    for i, effect in enumerate(right.effects):
        others = right.effects[:i] + right.effects[i + 1 :]
        if isinstance(effect, Answer):
            yield replace(right, name="no answer", answer="")
        elif isinstance(effect, Infeasible):
            yield replace(right, name="did not say infeasible", gave_up=False)
        elif isinstance(effect, Setting) and phone.setting(effect.name, effect.namespace) == effect.value:
            continue  # it is so from the start
        elif not (isinstance(effect, InsertRow) and effect.name):
            yield replace(right, name=f"without {effect}", effects=others)


def _wrong_values(phone: Phone, right: Outcome) -> Iterator[Outcome]:
    for i, effect in enumerate(right.effects):
        for name, wrong in _variants(phone, effect):
            changed = (*right.effects[:i], wrong, *right.effects[i + 1 :])
            yield replace(right, name=f"wrong {name} in {effect}", effects=changed)


def _variants(phone: Phone, effect: Effect) -> Iterator[tuple[str, Effect]]:
    if isinstance(effect, InsertRow | UpdateRow | Shown):
        schema = phone.apps[effect.package].schema[effect.table] if not isinstance(effect, Shown) else {}
        for column, value in effect.values.items():
            if not isinstance(value, NewId):
                values: Columns = {**effect.values, column: other_value(value, schema.get(column))}
                yield column, replace(effect, values=values)
        for column in effect.exact if isinstance(effect, InsertRow) else ():
            if (shouted := str(effect.values[column]).upper()) != effect.values[column]:
                values = {**effect.values, column: shouted}
                yield f"case of {column}", replace(effect, values=values)
        if isinstance(effect, Shown):
            for name, value in effect.params.items():
                yield name, replace(effect, params={**effect.params, name: other_value(value)})
    elif isinstance(effect, Setting):
        yield "value", replace(effect, value=other_value(effect.value))
    elif isinstance(effect, FileIs) and effect.path.endswith("/"):
        yield "name", replace(effect, path=f"{effect.path[:-1]} 2/")
    elif isinstance(effect, FileIs):
        more: str | bytes = effect.content + (" x" if isinstance(effect.content, str) else b"x")  # type: ignore[operator]
        yield "content", replace(effect, content=more)
        if effect.original and isinstance(effect.content, str):
            shouted = effect.content.replace(effect.original, effect.original.upper())
            yield "case", replace(effect, content=shouted)


def other_value(value: Any, kind: type | None = None) -> Any:
    """Return another value of the same kind: the next day, another digit, one more, a further word."""
    if isinstance(value, Above):
        return int(value.least)
    if kind is bool or isinstance(value, bool):
        return int(not value)
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value + 1.0
    text = str(value or "")
    try:
        return (date.fromisoformat(text) + timedelta(days=1)).isoformat()
    except ValueError:
        pass
    if text and text[-1].isdigit():
        return text[:-1] + str((int(text[-1]) + 1) % 10)
    return f"{text} other".strip()


def _wrong_rows(phone: Phone, right: Outcome) -> Iterator[Outcome]:
    for i, effect in enumerate(right.effects):
        if isinstance(effect, UpdateRow | DeleteRow):
            used = {e.key for e in right.effects if isinstance(e, UpdateRow | DeleteRow) and e.table == effect.table}
            used |= {key for e in right.effects if isinstance(e, DeleteRow) for key in e.instead}
            rows = phone.tables(effect.package).tables[effect.table].rows
            other = next((key for key in rows if key not in used), None)
            if other is not None:
                wrong = replace(effect, key=other)
                changed = (*right.effects[:i], wrong, *right.effects[i + 1 :])
                yield replace(right, name=f"wrong row in {effect}", effects=changed)


def _one_too_many(phone: Phone, right: Outcome) -> Iterator[Outcome]:
    touched = {
        effect.package for effect in right.effects if isinstance(effect, InsertRow | UpdateRow | DeleteRow | Shown)
    }
    others = [app.package for app in phone.apps.values() if app.package not in touched and app.schema]
    used = {
        (e.package, e.table, key)
        for e in right.effects
        if isinstance(e, UpdateRow | DeleteRow)
        for key in (e.key, *(e.instead if isinstance(e, DeleteRow) else ()))
    }
    for package in (*sorted(touched), *others[:1]):
        for table, columns in phone.apps[package].schema.items():
            if table not in phone.apps[package].volatile:
                for extra in _extras(phone, package, table, columns, used):
                    yield replace(right, name=f"and {extra}", extra=(extra,))
    if not any(isinstance(effect, Setting) and effect.name == "volume_music" for effect in right.effects):
        louder = Setting("volume_music", other_value(phone.setting("volume_music")))
        yield replace(right, name="and the volume", extra=(louder,))
    paths = {effect.path for effect in right.effects if isinstance(effect, FileIs | FileGone)}
    for path in sorted(set(phone.files) - paths)[:1]:
        yield replace(right, name="and a file", extra=(FileGone(path),))


def _extras(
    phone: Phone, package: str, table: str, columns: Mapping[str, type], used: set[tuple[str, str, int]]
) -> Iterator[Effect]:
    """Yield an addition, a change and a deletion that concern no effect."""
    column, kind = next(iter(columns.items()))
    yield InsertRow(package, table, {column: other_value("" if kind is str else 0, kind)})
    rows = phone.tables(package).tables[table].rows
    free = next((key for key in rows if (package, table, key) not in used), None)
    if free is not None:
        yield UpdateRow(package, table, free, {column: other_value(rows[free][column], kind)})
        yield DeleteRow(package, table, free)


def _wrong_words(right: Outcome) -> Iterator[Outcome]:
    answer = next((effect for effect in right.effects if isinstance(effect, Answer)), None)
    if answer is not None:
        for wrong in _other_answers(answer):
            yield replace(right, name=f"answers {wrong}", answer=wrong)
    if not right.gave_up:
        yield replace(right, name="gives up", gave_up=True)


def _other_answers(effect: Answer) -> Iterator[str]:
    value = effect.value
    if effect.kind == "list":
        yield _spoken([*value, "something else"])
        if len(value) > 1:
            yield _spoken(value[1:])
    elif effect.kind == "time":
        hour, minute, *seconds = str(value).split(":")
        yield ":".join([hour, f"{(int(minute) + 1) % 60:02d}", *seconds])
        yield ":".join([f"{(int(hour) + 12) % 24:02d}", minute, *seconds])
    else:
        yield str(other_value(value))
    yield "I do not know"
