"""Data that comes from outside: what a database takes, and what an app does that fails on it."""

from __future__ import annotations

import pytest

from turncredit.phone import App, BrokenApp, Context, Phone
from turncredit.phone.shell import run, run_text
from turncredit.phone.storage import Storage
from turncredit.phone.toolkit.handlers import do
from turncredit.phone.toolkit.widgets import Button, Screen, Text

TASKS = "/data/data/org.turncredit.tasks/databases/tasks.db"
EVENTS = "/data/data/org.turncredit.calendar/databases/events.db"


def sql(phone: Phone, path: str, statement: str) -> tuple[str, int]:
    return run_text(phone, f'sqlite3 {path} "{statement}"')


@pytest.mark.parametrize("extra", ["", ", note, done, due"])
def test_columns_that_sql_leaves_out_or_sets_to_null_are_empty(phone, user, extra):
    nulls = ", NULL" * extra.count(",")
    assert sql(phone, TASKS, f"INSERT INTO tasks(title, list{extra}) VALUES('x', 1{nulls})") == ("", 0)
    row = phone.tables("org.turncredit.tasks").rows("tasks")[-1]
    assert [row[name] for name in ("title", "list", "note", "done", "due", "priority")] == ["x", 1, "", 0, "", ""]
    phone.launch("Tasks")
    phone.swipe(500, 2000, 500, 200)
    assert phone.tree().find("Tasks")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("'soon'", "cannot store TEXT value in INTEGER column tasks.list"),
        ("1.5", "cannot store REAL value in INTEGER column tasks.list"),
        ("x'00'", "cannot store BLOB value in INTEGER column tasks.list"),
    ],
)
def test_a_value_that_does_not_fit_its_column_is_refused(phone, value, message):
    before = phone.state_key()
    assert sql(phone, TASKS, f"INSERT INTO tasks(title, list) VALUES('x', {value})") == (f"Error: {message}\n", 1)
    assert phone.state_key() == before


def test_numbers_take_the_type_of_their_column(phone):
    sql(phone, TASKS, "INSERT INTO tasks(title, list) VALUES(5, '2')")
    row = phone.tables("org.turncredit.tasks").rows("tasks")[-1]
    assert (row["title"], row["list"]) == ("5", 2)


def test_every_app_opens_with_an_empty_row_in_any_table(phone):
    start = phone.snapshot()
    for app in phone.apps.values():
        for table in app.schema:
            phone.restore(start)
            sql(phone, app.database_path, f"INSERT INTO {table}(_id) VALUES(900)")
            phone.launch(app.package)
            assert phone.frame.page.screen == app.screens[0].__name__, f"{app.name} stops on an empty row in {table}"
            assert phone.screenshot((108, 240))
            phone.home()
            assert phone.tree().find("Calendar")


def break_calendar(phone: Phone) -> None:
    sql(phone, EVENTS, "INSERT INTO events(title, start, end) VALUES('x', 'soon', 'later')")
    phone.launch("Calendar")


@pytest.mark.parametrize("leave", ["Close app", "back", "home"])
def test_an_app_that_fails_on_data_from_outside_stops_and_can_be_left(phone, user, leave):
    break_calendar(phone)
    user.see("Calendar keeps stopping")
    phone.screenshot((108, 240))
    assert (
        "FATAL EXCEPTION: org.turncredit.calendar: calendar() failed with ValueError" in run_text(phone, "logcat -d")[0]
    )
    user.tap(leave) if leave == "Close app" else getattr(phone, leave)()
    assert phone.page.screen == "home"
    sql(phone, EVENTS, "DELETE FROM events WHERE title = 'x'")
    phone.launch("Calendar")
    user.see("New event")


def test_back_leaves_a_page_that_fails_while_its_keyboard_is_open(phone, user):
    phone.launch("Calendar")
    run_text(phone, "am start -a android.intent.action.EDIT -d content://com.android.calendar/events/3")
    user.tap("Title")
    assert phone.page.keyboard
    sql(phone, EVENTS, "UPDATE events SET start = '' WHERE _id = 3")
    user.see("Calendar keeps stopping")
    phone.back()
    user.see("New event")


def test_events_without_times_are_neither_found_nor_announced(phone, user):
    sql(phone, EVENTS, "INSERT INTO events(title, reminder) VALUES('Someday', 10)")
    phone.launch("Calendar", "search")
    user.type("Search events", "Someday")
    user.see("No events found")
    phone.advance(2 * 86_400)
    assert not any("FATAL" in line.text for line in phone.state.log)


def test_an_app_that_has_failed_is_logged_once(phone):
    break_calendar(phone)
    for _ in range(3):
        phone.tap(5, 1200)
        phone.xml()
    assert sum("FATAL" in line.text for line in phone.state.log) == 1


def fails(ctx: Context) -> None:
    raise ValueError("no such thing")


def page(ctx: Context) -> Screen:
    return Screen("Page", [Button("Try", do(fails)), Text("Fine")])


def test_an_action_that_fails_stops_the_app_only_when_adb_works_on_the_phone(user, phone):
    user.phone = phone = Phone(apps=[App("test.bad", "Bad", "info", "#888888", (page,))])
    phone.launch("Bad")
    with pytest.raises(BrokenApp, match=r"fails\(\) failed with ValueError: no such thing"):
        user.tap("Try")
    run(phone, "true")
    user.tap("Try")
    user.tap("Close app")
    assert phone.page.screen == "home"


def test_a_database_that_is_pushed_stops_an_app_too(phone, user):
    connection = phone.database("org.turncredit.calendar")
    connection.execute("INSERT INTO events(title, start, end) VALUES('x', 'soon', 'later')")
    Storage(phone).write(EVENTS, connection.serialize())
    phone.launch("Calendar")
    user.see("Calendar keeps stopping")
