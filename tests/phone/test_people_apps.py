"""Phone, Messages, Mail and Calendar as a person uses them, judged by their databases."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turncredit.phone import App, Context, Phone
from turncredit.phone.apps import dialer_calls, messages
from turncredit.phone.content.event_times import by_day, next_occurrence, read_times
from turncredit.phone.content.plans import digits, name_of_number, plans
from turncredit.phone.installed_apps import all_apps
from turncredit.phone.toolkit.handlers import do
from turncredit.phone.toolkit.widgets import Screen, Text

CONTACTS, CALENDAR = "org.turncredit.contacts", "org.turncredit.calendar"
MESSAGES, PHONE, MAIL = "org.turncredit.messages", "org.turncredit.dialer", "org.turncredit.mail"


def rows(phone: Phone, package: str, table: str) -> list[dict]:
    return [dict(row) for row in phone.tables(package).rows(table)]


def added(before: list[dict], after: list[dict]) -> list[dict]:
    return [row for row in after if row not in before]


def someone(phone: Phone, nth: int = 4) -> tuple[str, str]:
    row = rows(phone, CONTACTS, "contacts")[nth]
    return f"{row['first']} {row['last']}", row["phone"]


# What the apps tell must fit together


@pytest.mark.parametrize("seed", range(6))
def test_appointments_stand_in_the_calendar_and_in_what_was_written(seed):
    phone = Phone(seed)
    events = {(row["title"], row["start"], row["location"]) for row in rows(phone, CALENDAR, "events")}
    texts = {(row["address"], row["body"]) for row in rows(phone, MESSAGES, "sms")}
    mails = [(row["address"], row["body"]) for row in rows(phone, MAIL, "mails")]
    agreed = plans(Context(phone, CALENDAR))
    assert {plan.channel for plan in agreed} == {"sms", "mail"}
    for plan in agreed:
        assert (plan.title, f"{plan.start:%Y-%m-%d %H:%M}", plan.location) in events
        if plan.channel == "sms":
            assert (plan.who.phone, plan.ask) in texts
            assert name_of_number(Context(phone, MESSAGES), plan.who.phone).startswith(plan.who.first)
        else:
            assert any(address == plan.who.email and plan.ask in body for address, body in mails)


@pytest.mark.parametrize("seed", range(6))
def test_nothing_was_received_or_called_in_the_future(seed):
    phone = Phone(seed)
    now = phone.state.clock * 1000
    for package, table in ((MESSAGES, "sms"), (PHONE, "calls"), (MAIL, "mails")):
        assert all(row["date"] <= now for row in rows(phone, package, table))


def test_content_is_that_of_the_start_even_if_contacts_have_changed():
    one, two = Phone(8, apps=all_apps()), Phone(8, apps=all_apps())  # such phones share no content
    two.tables(CONTACTS).update("contacts", 1, first="Changed", phone="1")
    for package in (CALENDAR, MESSAGES, PHONE, MAIL):
        for name, table in one.tables(package).tables.items():
            assert table.digest == two.tables(package).tables[name].digest


@pytest.mark.parametrize("name", ["Phone", "Messages", "Mail", "Calendar"])
def test_an_app_stands_alone(name):
    phone = Phone(2, apps=[app for app in all_apps() if app.name == name])
    phone.launch(name)
    assert phone.tree().find(name if name != "Mail" else "Inbox")
    for screen in phone.apps[phone.state.tasks[0].package].screens[:2]:
        phone.launch(name, screen.__name__, **({"number": "1"} if screen.__name__ == "history" else {}))
        assert phone.tree().walk()


# Messages


def test_a_message_is_sent_to_a_contact(phone, user):
    before, (name, number) = rows(phone, MESSAGES, "sms"), someone(phone)
    phone.launch("Messages")
    user.tap("Start chat")
    user.type("To", name)
    user.tap(number + " \u00b7 " + rows(phone, CONTACTS, "contacts")[4]["label"])
    user.type("Text message", "On my way")
    user.tap("Send")
    new = added(before, rows(phone, MESSAGES, "sms"))
    assert [(row["address"], row["body"], row["type"]) for row in new] == [(number, "On my way", messages.SENT)]
    assert user.see("On my way")


def test_what_is_not_sent_is_a_draft_until_it_is_sent(phone, user):
    _, number = someone(phone)
    before = rows(phone, MESSAGES, "sms")
    phone.launch("Messages", "thread", address=number)
    user.type("Text message", "Later")
    phone.back()
    phone.back()
    assert [row["type"] for row in added(before, rows(phone, MESSAGES, "sms"))] == [messages.DRAFT]
    phone.launch("Messages", "thread", address=number)
    user.tap("Send")
    assert [row["type"] for row in added(before, rows(phone, MESSAGES, "sms"))] == [messages.SENT]


def test_a_scheduled_message_is_sent_at_its_time(phone, user):
    _, number = someone(phone)
    before = rows(phone, MESSAGES, "sms")
    phone.launch("Messages", "thread", address=number)
    user.type("Text message", "Good morning")
    phone.back()
    user.tap("Schedule send")
    user.tap("Schedule")
    (new,) = added(before, rows(phone, MESSAGES, "sms"))
    assert (new["type"], new["body"]) == (messages.QUEUED, "Good morning")
    phone.advance(new["date"] // 1000 - phone.state.clock - 1)
    assert phone.tables(MESSAGES).get("sms", new["_id"])["type"] == messages.QUEUED
    phone.advance(1)
    assert phone.tables(MESSAGES).get("sms", new["_id"])["type"] == messages.SENT


def test_a_message_from_outside_is_announced_and_joins_its_conversation(phone, user):
    name, number = someone(phone)
    phone.run(do(messages.receive, address=digits(number), body="Hello there"), MESSAGES)
    assert [(n.title, n.text) for n in phone.state.notifications] == [(name, "Hello there")]
    phone.launch("Messages")
    user.tap("Hello there")
    assert user.see("Hello there")
    assert phone.state.notifications == ()


def test_a_conversation_is_archived_and_deleted(phone, user):
    before = rows(phone, MESSAGES, "sms")
    number = before[-1]["address"]
    name = name_of_number(Context(phone, MESSAGES), number) or number
    phone.launch("Messages")
    user.hold(name)
    user.tap("Archive")
    assert rows(phone, MESSAGES, "archived")[-1]["address"] == number
    user.tap("Archive")
    user.hold(name)
    user.tap("Delete conversation")
    user.tap("Delete")
    assert rows(phone, MESSAGES, "sms") == [row for row in before if row["address"] != number]


# Phone


def test_a_call_is_dialled_lasts_and_is_logged(phone, user):
    before = rows(phone, PHONE, "calls")
    phone.launch("Phone")
    user.tap("Keypad")
    for key in "15550100":
        user.tap(key)
    user.tap("Call")
    phone.advance(64)
    assert user.see("01:00")
    user.tap("End call")
    new = added(before, rows(phone, PHONE, "calls"))
    assert [(row["number"], row["duration"], row["type"]) for row in new] == [("15550100", 60, dialer_calls.OUTGOING)]
    assert rows(phone, PHONE, "ongoing") == []


def test_calls_of_blocked_numbers_do_not_ring(phone, user):
    _, number = someone(phone)
    before = rows(phone, PHONE, "calls")
    phone.launch("Phone", "history", number=number)
    user.tap("Block number")
    phone.run(do(dialer_calls.ring, number=number), PHONE)
    assert rows(phone, PHONE, "calls") == before
    user.tap("Unblock number")
    phone.run(do(dialer_calls.ring, number=number), PHONE)
    phone.advance(31)
    assert [row["type"] for row in added(before, rows(phone, PHONE, "calls"))] == [dialer_calls.MISSED]
    assert phone.state.notifications[0].title == "Missed call"


def test_a_call_is_declined_with_a_message(phone, user):
    _, number = someone(phone)
    before, written = rows(phone, PHONE, "calls"), rows(phone, MESSAGES, "sms")
    phone.run(do(dialer_calls.ring, number=number), PHONE)
    phone.launch("Phone", "call")
    user.tap("I am in a meeting.")
    assert [row["type"] for row in added(before, rows(phone, PHONE, "calls"))] == [dialer_calls.REJECTED]
    new = added(written, rows(phone, MESSAGES, "sms"))
    assert [(row["address"], row["body"]) for row in new] == [(number, "I am in a meeting.")]


# Mail


def test_a_mail_is_answered(phone, user):
    before = rows(phone, MAIL, "mails")
    mail = next(row for row in before if row["folder"] == "Inbox")
    phone.launch("Mail", "message", id=mail["_id"])
    user.tap("Reply")
    user.type("Write your mail", "Fine with me")
    user.tap("Send")
    (new,) = added(before, rows(phone, MAIL, "mails"))
    assert (new["folder"], new["recipient"], new["body"]) == ("Sent", mail["address"], "Fine with me")
    assert new["subject"] == f"Re: {mail['subject']}"


def test_a_mail_is_kept_as_a_draft_with_its_attachment_and_sent(phone, user):
    phone.write_file("/sdcard/Download/plan.txt", b"plan")
    before = rows(phone, MAIL, "mails")
    phone.launch("Mail")
    user.tap("Compose")
    user.type("Subject", "The plan")
    user.tap("Attach file")
    user.tap("plan.txt")
    phone.back()
    user.tap("Save draft")
    (draft,) = added(before, rows(phone, MAIL, "mails"))
    assert (draft["folder"], draft["subject"], draft["attachments"]) == ("Drafts", "The plan", "plan.txt")
    user.tap("Folders")
    user.tap("Drafts")
    user.tap("The plan")
    user.tap("Send")
    assert user.see("Enter a mail address")
    user.type("To", "ana@mailbox.example")
    user.tap("Send")
    (sent,) = added(before, rows(phone, MAIL, "mails"))
    assert (sent["_id"], sent["folder"], sent["recipient"]) == (draft["_id"], "Sent", "ana@mailbox.example")


# Calendar


def test_an_event_is_added_and_reminds(phone, user):
    before = rows(phone, CALENDAR, "events")
    phone.launch("Calendar")
    user.tap("New event")
    user.type("Title", "Choir")
    phone.back()
    user.tap("Start time")
    user.type("Hour", "18")
    user.type("Minute", "30")
    user.tap("OK")
    user.tap("Save")
    (new,) = added(before, rows(phone, CALENDAR, "events"))
    assert (new["start"], new["end"], new["reminder"]) == ("2023-10-15 18:30", "2023-10-15 19:30", 10)
    phone.advance((2 * 60 + 46) * 60)
    assert [posted.title for posted in phone.state.notifications] == ["Choir"]


def test_an_event_cannot_end_before_it_starts(phone, user):
    before = phone.tables(CALENDAR).tables["events"].digest
    phone.launch("Calendar", "form", id=1)
    user.tap("End date")
    user.tap("Previous year")
    user.tap(next(n.description for n in phone.tree().walk() if n.description.startswith("15 ")))
    user.tap("OK")
    user.tap("Save")
    assert user.see("The event ends before it starts")
    assert phone.tables(CALENDAR).tables["events"].digest == before


def test_one_day_of_a_repeated_event_is_deleted(phone, user):
    row = next(row for row in rows(phone, CALENDAR, "events") if row["title"] == "Team meeting")
    phone.launch("Calendar", "event", id=row["_id"], day="2023-10-23")
    user.tap("Delete event")
    user.tap("This day")
    changed = phone.tables(CALENDAR).get("events", row["_id"])
    days = list(by_day([changed], date(2023, 10, 16), date(2023, 10, 30)))
    assert days == [date(2023, 10, 16), date(2023, 10, 30)]


@pytest.mark.parametrize(
    ("repeat", "days"),
    [
        ("", [31]),
        ("every day", [31, 32, 33, 34, 35, 36, 37]),
        ("every weekday", [31, 32, 33, 34, 37]),
        ("every week", [31]),
        ("every month", [31]),
    ],
)
def test_days_of_repeated_events(repeat, days):
    """From Tuesday, 31 January 2023 on: a week has 5 working days, and February has no 31st."""
    row = {"_id": 1, "start": "2023-01-31 10:00", "end": "2023-01-31 11:00", "all_day": 0, "repeat": repeat}
    found = by_day([{**row, "skipped": ""}], date(2023, 1, 31), date(2023, 2, 6))
    assert [(day - date(2023, 1, 1)).days + 1 for day in found] == days
    if repeat == "every month":
        assert next_occurrence({**row, "skipped": ""}, date(2023, 2, 1)).start.date() == date(2023, 3, 31)


@settings(max_examples=60, deadline=None)
@given(
    st.dates(date(2023, 1, 1), date(2024, 12, 31)),
    st.integers(0, 4),
    st.sampled_from(["", "every day", "every weekday", "every week", "every month", "every year"]),
    st.dates(date(2023, 1, 1), date(2024, 12, 31)),
    st.integers(0, 40),
)
def test_days_do_not_depend_on_the_span_that_is_asked_for(first, length, repeat, low, span):
    row = {"_id": 1, "start": f"{first} 10:00", "end": f"{first + timedelta(days=length)} 11:00", "all_day": 0}
    row |= {"repeat": repeat, "skipped": ""}
    found = by_day([row], low, low + timedelta(days=span))
    wide = by_day([row], low - timedelta(days=50), low + timedelta(days=span + 50))
    assert found == {day: there for day, there in wide.items() if low <= day <= low + timedelta(days=span)}
    for day, there in found.items():
        assert all(one.start.date() <= day <= one.end.date() for one in there)
        assert all(one.end - one.start == read_times(row)[1] - read_times(row)[0] for one in there)
    if repeat == "every week":
        starts = {first + timedelta(weeks=week) for week in range(250)}
        days = {low + timedelta(days=n) for n in range(span + 1)}
        assert found.keys() == {day for day in days for n in range(length + 1) if day - timedelta(days=n) in starts}


def test_content_of_one_app_may_read_another():
    """The text of the first contact, read while the phone is at its start."""

    def fill(ctx: Context) -> None:
        ctx.db.insert("names", name=str(ctx.of(CONTACTS).rows("contacts")[0]["first"]))

    def page(ctx: Context) -> Screen:
        return Screen("Page", [Text(str(ctx.db.rows("names")[0]["name"]))])

    app = App("test.names", "Names", "person", "#888888", (page,), {"names": {"name": str}}, fill)
    phone = Phone(4, apps=[*all_apps(), app])
    first = phone.tables(CONTACTS).rows("contacts")[0]["first"]
    phone.tables(CONTACTS).delete("contacts", 1)
    phone.launch("Names")
    assert phone.tree().find(first)
