"""Databases as SQLite, files, settings; the direct device; the dump."""

from __future__ import annotations

import sqlite3

import pytest

from turncredit.phone import Phone
from turncredit.phone.adb.direct_device import DirectDevice
from turncredit.tools.android import BadDump, Device, DeviceError, Node, parse_xml, write_xml

CONTACTS = "org.turncredit.contacts"


def test_a_database_is_a_real_sqlite_file(phone, tmp_path):
    path = tmp_path / "contacts.db"
    path.write_bytes(phone.database(CONTACTS).serialize())
    with sqlite3.connect(path) as connection:
        found = connection.execute("SELECT first, last FROM contacts ORDER BY _id").fetchall()
    assert found == [(row["first"], row["last"]) for row in phone.tables(CONTACTS).rows("contacts")]


def test_what_sql_changes_is_in_the_app(phone, user):
    connection = phone.database(CONTACTS)
    connection.execute("DELETE FROM contacts WHERE _id > 1")
    connection.execute("UPDATE contacts SET first = 'Aaron', last = 'Aalto'")
    phone.store_database(CONTACTS, connection)
    phone.launch("Contacts")
    assert user.see("Aaron Aalto")
    assert phone.tables(CONTACTS).insert("contacts", first="Next") == 43, "ids are not used twice"


def test_a_database_that_is_stored_unchanged_changes_nothing(phone):
    key = phone.state_key()
    phone.store_database(CONTACTS, phone.database(CONTACTS))
    assert phone.state_key() == key


def test_a_change_from_outside_is_seen_at_once(phone, user):
    phone.launch("Contacts")
    assert phone.tree().find("Aaa Zzz") is None
    phone.tables(CONTACTS).insert("contacts", first="Aaa", last="Zzz")
    assert user.see("Aaa Zzz")


def test_errors_of_tables_name_the_choices(phone):
    contacts = phone.tables(CONTACTS)
    with pytest.raises(KeyError, match=r"no table 'people'; its tables: contacts"):
        contacts.rows("people")
    with pytest.raises(KeyError, match=r"no column 'fist'; its columns: first, last"):
        contacts.insert("contacts", fist="x")


def test_files_are_part_of_the_state(phone):
    key = phone.state_key()
    phone.write_file("/sdcard/a.txt", b"a")
    assert phone.state_key() != key
    phone.delete_file("/sdcard/a.txt")
    assert phone.state_key() == key


def test_a_direct_device_does_what_the_phone_does(phone):
    device: Device = DirectDevice(phone)
    device.launch("com.android.settings/.Settings")
    found = device.dump().find("Display")
    assert found is not None
    device.tap(*found.center)
    assert device.activity() == "com.android.settings/.Settings"
    device.push(b"\x00\xff", "/sdcard/x.bin")
    assert device.pull("/sdcard/x.bin") == b"\x00\xff"
    with pytest.raises(DeviceError, match="No such file"):
        device.pull("/sdcard/none")
    with pytest.raises(DeviceError, match="no app is called"):
        device.launch("com.none")


def test_screenshots_have_the_size_that_is_asked_for(phone):
    pytest.importorskip("PIL")
    device = DirectDevice(phone)
    assert device.screenshot((540, 1200)).shape == (1200, 540, 3)
    assert device.screenshot((100, 100)).shape == (100, 100, 3)
    light = device.screenshot((90, 200)).mean()
    phone.launch("Contacts")
    bright = device.screenshot((90, 200)).mean()
    phone.set_setting("ui_night_mode", "2", "secure")
    assert device.screenshot((90, 200)).mean() < 80 < light < bright


def test_xml_escapes_and_reads_back():
    text = "\"quotes\" & <tags>\nnew line \U0001f600 'single' \x07"
    root = Node("android.widget.TextView", 1, 2, 3, 4, text, 'say "it\'s"', package="p", checked=True)
    read, rotation = parse_xml(write_xml(root, 1) + "\nUI hierchary dumped to: /dev/tty\n")
    assert read.text == text.replace("\x07", ".")
    assert (read.description, read.bounds, read.checked, rotation) == ('say "it\'s"', (1, 2, 3, 4), True, 1)


@pytest.mark.parametrize("text", ["", "ERROR: null root node", "<hierarchy rotation='0'><node></hierarchy>"])
def test_a_dump_that_is_none_is_refused(text):
    with pytest.raises(BadDump, match="uiautomator"):
        parse_xml(text)


def test_a_phone_without_apps_has_its_system():
    phone = Phone(apps=[])
    assert phone.activity == "com.android.launcher3/.Launcher"
    phone.recents()
    assert phone.tree().find("No recent apps")
