"""Settings, Contacts and Clock as a person uses them, judged by their databases."""

from __future__ import annotations

import pytest

from turncredit.phone import Phone

CONTACTS, CLOCK = "org.turncredit.contacts", "com.android.deskclock"


def rows(phone: Phone, package: str, table: str) -> list[dict]:
    return [dict(row) for row in phone.tables(package).rows(table)]


def test_a_contact_is_added(phone, user):
    before = rows(phone, CONTACTS, "contacts")
    phone.launch("Contacts")
    user.tap("Create contact")
    user.type("First name", "Grace")
    user.type("Phone", "+1 555 0142")
    phone.back()
    user.tap("Phone label")
    user.tap("Work")
    user.tap("Save")
    new = [row for row in rows(phone, CONTACTS, "contacts") if row not in before]
    assert [(row["first"], row["phone"], row["label"]) for row in new] == [("Grace", "+1 555 0142", "Work")]
    assert user.see("Grace")


def test_a_contact_is_found_edited_and_deleted(phone, user):
    before = rows(phone, CONTACTS, "contacts")
    person = before[7]
    name = f"{person['first']} {person['last']}"
    phone.launch("Contacts")
    user.type("Search contacts", person["phone"])
    user.tap(name)
    user.tap("Edit contact")
    user.type("Company", "New Mill")
    user.tap("Save")
    assert phone.tables(CONTACTS).get("contacts", person["_id"])["company"] == "New Mill"
    phone.launch("Contacts", "contact", id=person["_id"])
    user.tap("More options")
    user.tap("Delete")
    user.tap("Delete")
    assert rows(phone, CONTACTS, "contacts") == [row for row in before if row["_id"] != person["_id"]]


def test_changes_are_not_lost_without_a_question(phone, user):
    before = phone.tables(CONTACTS).tables["contacts"].digest
    phone.launch(CONTACTS, "form", id=1)
    user.type("Last name", "Changed")
    phone.back()
    phone.back()
    user.tap("Keep editing")
    assert user.see("Last name").text == "Changed"
    phone.back()
    user.tap("Discard")
    assert phone.tables(CONTACTS).tables["contacts"].digest == before


@pytest.mark.parametrize(
    ("section", "switch", "namespace", "name", "after"),
    [
        ("Network & internet", "Wi-Fi", "global", "wifi_on", "0"),
        ("Network & internet", "Airplane mode", "global", "airplane_mode_on", "1"),
        ("Connected devices", "Bluetooth", "global", "bluetooth_on", "0"),
        ("Display", "Dark theme", "secure", "ui_night_mode", "2"),
        ("Location", "Use location", "secure", "location_mode", "0"),
        ("Date & time", "Use 24-hour format", "system", "time_12_24", "12"),
    ],
)
def test_a_switch_of_settings(phone, user, section, switch, namespace, name, after):
    phone.launch("Settings")
    user.tap(section)
    user.tap(switch)
    assert phone.setting(name, namespace) == after


@pytest.mark.parametrize(("x", "value"), [(1035, "255"), (140, "0")])
def test_brightness_to_its_ends(phone, user, x, value):
    phone.launch("Settings", "display")
    bar = next(node for node in phone.tree().walk() if node.class_name.endswith("SeekBar"))
    phone.swipe(*bar.center, x, bar.center[1])
    assert phone.setting("screen_brightness") == value


def test_a_font_size_is_chosen(phone, user):
    phone.launch("Settings", "font_size")
    user.tap("Large")
    assert phone.setting("font_scale") == "1.15"


def test_an_alarm_is_added_and_rings_once(phone, user):
    before = rows(phone, CLOCK, "alarms")
    phone.launch("Clock")
    user.tap("Add alarm")
    user.tap("Time")
    user.type("Hour", "18")
    user.type("Minute", "05")
    user.tap("OK")
    user.tap("Mon")
    user.tap("Mon")
    user.tap("Save")
    new = [row for row in rows(phone, CLOCK, "alarms") if row not in before]
    assert [(row["time"], row["days"], row["enabled"]) for row in new] == [("18:05", "", 1)]
    phone.advance(3 * 3600)
    assert any("18:05" in posted.text for posted in phone.state.notifications)
    assert phone.tables(CLOCK).get("alarms", new[0]["_id"])["enabled"] == 0


def test_a_timer_is_set_paused_and_ends(phone, user):
    phone.launch("Clock")
    user.tap("Timer")
    for digit in "130":
        user.tap(digit)
    user.tap("Start")
    phone.advance(30)
    assert user.see("00:01:00")
    user.tap("Pause")
    phone.advance(600)
    user.tap("Start")
    phone.advance(60)
    assert [posted.title for posted in phone.state.notifications] == ["Timer"]


def test_a_stopwatch_runs_with_the_clock(phone, user):
    phone.launch("Clock")
    user.tap("Stopwatch")
    user.tap("Start")
    phone.advance(65)
    user.tap("Lap")
    user.tap("Pause")
    phone.advance(100)
    assert user.see("00:01:05")
    assert rows(phone, CLOCK, "laps") == [{"_id": 1, "at": 65}]


def test_a_date_is_picked(phone):
    from turncredit.phone import App
    from turncredit.phone.toolkit.widgets import DateField, Screen

    def page(ctx):
        return Screen("Page", [DateField("day", "Day", "2023-10-15")])

    phone = Phone(apps=[App("test.day", "Days", "calendar", "#888888", (page,))])
    phone.launch("Days")
    for text in ("Day", "Next month", "17 November 2023", "OK"):
        phone.tap(*phone.tree().find(text).center)
    assert phone.page.values["day"] == "2023-11-17"
    assert phone.tree().find("Fri, 17 Nov 2023")
