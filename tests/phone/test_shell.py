"""The shell of a phone: syntax, exit codes, and what the commands of automation print and change."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turncredit.phone import Phone
from turncredit.phone.adb.console import run_console_line
from turncredit.phone.shell import InputNeeded, run, run_text
from turncredit.phone.shell.table import command_names
from turncredit.tools.android import parse_xml

AWAKE = "dumpsys power | grep -o Awake"
UI = "com.github.uiautomator/.AdbKeyboard"
IME = "settings get secure default_input_method"
OWN = "com.android.inputmethod/.Keyboard"
CONTACTS_DB = "/data/data/org.turncredit.contacts/databases/contacts.db"


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("echo a; echo b", "a\nb\n"),
        ("true && echo yes || echo no", "yes\n"),
        ("false && echo yes || echo no", "no\n"),
        ("! false && echo ok", "ok\n"),
        ("false; echo $?", "1\n"),
        ("nope 2>/dev/null; echo $?", "127\n"),
        ("X='a b'; echo \"$X\" $X '$X' \\$X", "a b a b $X $X\n"),
        ("echo $(echo one; echo two) `echo three`", "one two three\n"),
        ("echo 'it'\\''s'", "it's\n"),
        ('echo "a  b"   c', "a  b c\n"),
        ("printf 'b\\na\\nb\\n' | sort | uniq -c | head -n 1", "      1 a\n"),
        ("printf '1\\n22\\n' | wc -c", "5\n"),
        ("(cd /sdcard; pwd); pwd", "/sdcard\n/\n"),
        ("(exit 3); echo $?", "3\n"),
        ("{ echo x; echo y; } > /sdcard/f; cat /sdcard/f", "x\ny\n"),
        ("echo a > /sdcard/f; echo b >> /sdcard/f; cat < /sdcard/f", "a\nb\n"),
        ("nope 2>&1 | grep -c found", "1\n"),
        ("cd /sdcard; touch a1 a2; echo a* 'a*'", "a1 a2 a*\n"),
        ("echo hi # not this", "hi\n"),
        ("echo aGk= | base64 -d", "hi"),
        ("echo hello | sed 's/l/L/g' | tr a-z A-Z", "HELLO\n"),
        ("echo a:b:c | cut -d: -f2-", "b:c\n"),
        ("sh -c 'echo $(id)' | grep -o root | head -1", "root\n"),
        ("seq 3 || echo none", "none\n"),
        ("[ -d /sdcard ] && [ 3 -gt 2 ] && echo ok", "ok\n"),
    ],
)
def test_lines_of_sh_print_what_sh_prints(phone, command, printed):
    assert run(phone, command).stdout.decode() == printed


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("nope", 127, "/system/bin/sh: nope: inaccessible or not found\n"),
        ("for i in 1; do echo; done", 1, "'for' is not supported"),
        ("echo 'open", 1, "no closing quote"),
        ("echo a &&", 1, "nothing follows '&&'"),
        ("cat /sdcard/none", 1, "cat: /sdcard/none: No such file or directory"),
        ("echo x > /system/x", 1, "can't create /system/x: Read-only file system"),
        ("input tap one two", 255, "not a number"),
        ("input keyevent KEYCODE_NOPE", 255, "unknown key: KEYCODE_NOPE"),
        ("am start -n no.app/.Main", 1, "Activity class {no.app/.Main} does not exist"),
        ("settings put system font_scale huge", 255, "font_scale takes a number such as 1.0, got 'huge'"),
        ("settings put system font_scale 90", 255, "font_scale is from 0.5 to 2.0, got 90"),
        ("date 99999999", 1, "bad date '99999999'"),
        ("wm size 10x10", 255, "the screen of this phone has one size"),
        ("reboot", 1, "does not reboot"),
        ("input keyevent --long 26", 255, "unknown option: --long"),
        (f"ime set {UI}", 255, f"Unknown input method {UI} cannot be selected for user #0"),
        ("ime enable org.nobody/.Keys", 255, "Unknown input method org.nobody/.Keys cannot be enabled for user #0"),
        ("ime set", 255, "Error: ime list"),
        ("am broadcast -a ADB_INPUT_B64 --es msg 0", 255, "must be UTF-8 in base64"),
        ("content query --uri content://nope", 1, "Could not find provider: content://nope"),
        (f"sqlite3 {CONTACTS_DB} 'SELECT * FROM nope'", 1, "no such table: nope"),
        (f"sqlite3 {CONTACTS_DB} \"ATTACH '/tmp/x' AS y\"", 1, "not authorized"),
        (f"sqlite3 {CONTACTS_DB} \"VACUUM INTO '/tmp/x'\"", 1, "auth"),
        (f"sqlite3 {CONTACTS_DB} 'PRAGMA temp_store_directory'", 1, "not authorized"),
    ],
)
def test_what_goes_wrong_is_said_with_an_exit_code(phone, command, code, message):
    result = run(phone, command)
    assert result.code == code
    assert message in result.stderr.decode()


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        (f"input keyevent --longpress KEYCODE_POWER; {AWAKE}", "Awake\n"),
        (f"input keyevent --duration 900 26; {AWAKE}", "Awake\n"),
        (f"input keyevent --duration 90 26; {AWAKE}", ""),
        (f"input keyevent --longpress 223; {AWAKE}; input keyevent --longpress POWER; {AWAKE}", "Awake\n"),
        (f"ime list -s; ime list -a -s | grep -c {UI}", f"{OWN}\n1\n"),
        (f"ime enable {UI} >/dev/null; ime set {UI}; {IME}", f"Input method {UI} selected for user #0\n{UI}\n"),
        (f"cmd input_method enable {UI}; ime list -s | tail -1", f"Input method {UI}: now enabled for user #0\n{UI}\n"),
        (f"ime enable {UI} >/dev/null; ime set {UI} >/dev/null; ime disable {UI} >/dev/null; {IME}", f"{OWN}\n"),
        (
            f"ime enable {UI} >/dev/null; ime set {UI} >/dev/null; ime reset >/dev/null; {IME}; ime list -s",
            f"{OWN}\n" * 2,
        ),
        ("am broadcast -a ADB_KEYBOARD_HIDE | tail -1", "Broadcast completed: result=0\n"),
        ("cmd package resolve-activity --brief com.android.settings | tail -n 1", "com.android.settings/.Settings\n"),
        ("pm resolve-activity --brief -a android.intent.action.VIEW -d nope:x", "No activity found\n"),
        ("pm query-activities -a android.intent.action.VIEW -d nope:x", "No activities found\n"),
        (
            "cmd package query-activities --components -a android.intent.action.DIAL -d tel:1",
            "org.turncredit.dialer/.Dialer\n",
        ),
        (
            "cmd package query-activities --brief -a android.intent.action.MAIN -c android.intent.category.LAUNCHER"
            " --query-flags 0 org.turncredit.contacts | tail -n 1",
            "    org.turncredit.contacts/.MainActivity\n",
        ),
    ],
)
def test_keys_keyboards_and_activities_over_adb(phone, command, printed):
    result = run(phone, command)
    assert result.stdout.decode() == printed
    assert result.stderr == b""


def test_a_drawer_is_listed_by_the_activities_of_the_launcher(phone):
    listed = run_text(phone, "pm query-activities --components -a android.intent.action.MAIN")[0].splitlines()
    assert sorted(listed) == sorted(app.component for app in phone.apps.values() if not app.hidden)


def test_an_endless_query_ends(phone):
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
    assert run(phone, f"sqlite3 {CONTACTS_DB} '{endless}'").stderr == b"Error: interrupted\n"


def test_sql_changes_the_database_of_the_app(phone, user):
    run(phone, f"sqlite3 {CONTACTS_DB} \"UPDATE contacts SET first = 'Zelda', last = 'Q' WHERE _id = 1\"")
    assert phone.tables("org.turncredit.contacts").get("contacts", 1)["first"] == "Zelda"
    phone.launch("Contacts")
    user.type("Search contacts", "Zelda")
    assert user.see("Zelda Q")


def test_a_copied_database_can_be_changed_and_put_back(phone):
    assert run(phone, f"cp {CONTACTS_DB} /sdcard/c.db").code == 0
    assert run(phone, "sqlite3 /sdcard/c.db 'DELETE FROM contacts WHERE _id > 2'").code == 0
    assert phone.tables("org.turncredit.contacts").count("contacts") == 42
    assert run(phone, f"cp /sdcard/c.db {CONTACTS_DB}").code == 0
    assert phone.tables("org.turncredit.contacts").count("contacts") == 2
    broken = run(phone, f"echo nonsense > /sdcard/c.db; cp /sdcard/c.db {CONTACTS_DB}")
    assert b"not a database" in broken.stderr
    assert phone.tables("org.turncredit.contacts").count("contacts") == 2


def test_content_queries_inserts_updates_and_deletes_contacts(phone):
    uri = "content://com.android.contacts/contacts"
    contacts = phone.tables("org.turncredit.contacts")
    add = "--bind given_name:s:Grace --bind family_name:s:Hop --bind number:s:123"
    assert run(phone, f"content insert --uri {uri} {add}").code == 0
    shown = run_text(phone, f"content query --uri {uri} --projection display_name:number --where \"number='123'\"")
    assert shown == ("Row: 0 display_name=Grace Hop, number=123\n", 0)
    assert run(phone, f"content update --uri {uri}/43 --bind company:s:Mill").code == 0
    assert contacts.get("contacts", 43)["company"] == "Mill"
    assert run(phone, f"content delete --uri {uri} --where \"given_name='Grace'\"").code == 0
    assert contacts.count("contacts") == 42
    assert run_text(phone, f"content query --uri {uri}/43") == ("No result found.\n", 0)
    wrong = run(phone, f"content insert --uri {uri} --bind display_name:s:x")
    assert b"column 'display_name' cannot be set" in wrong.stderr


def test_an_intent_opens_a_form_that_is_filled_in(phone, user):
    run(
        phone,
        "am start -a android.intent.action.INSERT -t vnd.android.cursor.dir/contact -e name 'Ada Byron' -e phone 1",
    )
    assert user.see("First name").text == "Ada"
    user.tap("Save")
    new = phone.tables("org.turncredit.contacts").get("contacts", 43)
    assert (new["first"], new["last"], new["phone"]) == ("Ada", "Byron", "1")


def test_the_clock_is_set_and_what_was_due_happens_once(phone):
    run(phone, "sqlite3 /data/data/com.android.deskclock/databases/deskclock.db 'DELETE FROM alarms'")
    run(phone, "am start -n com.android.deskclock/.DeskClock")
    phone.tap(*phone.tree().find("Add alarm").center)
    phone.tap(*phone.tree().find("Save").center)
    assert run(phone, "date 101608002023.30; date").stdout.decode().splitlines()[-1] == "Mon Oct 16 08:00:30 UTC 2023"
    assert [one.title for one in phone.state.notifications] == ["Alarm"]
    assert run_text(phone, "date -s '2023-10-15 10:00'; date +%H:%M")[0].endswith("10:00\n")


def test_clearing_an_app_empties_it_and_leaves_it_usable(phone, user):
    for app in list(phone.apps.values()):
        if not app.hidden:
            assert run_text(phone, f"pm clear {app.package}") == ("Success\n", 0)
            phone.launch(app.package)
            assert phone.tree()
    assert phone.tables("org.turncredit.contacts").count("contacts") == 0
    phone.launch("Clock")
    user.tap("Timer")
    user.tap("Stopwatch")


def test_the_clipboard_the_log_and_the_recent_apps(phone):
    assert 'data="a b"' in run_text(phone, "am broadcast -a clipper.set -e text 'a b'; am broadcast -a clipper.get")[0]
    phone.launch("Settings")
    phone.launch("Clock")
    listed = run_text(phone, "am stack list | grep com.android.settings")[0]
    task = listed.split("taskId=")[1].split(":")[0]
    run(phone, f"am stack remove {task}")
    assert "com.android.settings" not in run_text(phone, "dumpsys activity recents")[0]
    run(phone, "log -t mine hello; am start -n com.android.settings/.Settings")
    text = run_text(phone, "logcat -d")[0]
    assert "I mine: hello" in text
    assert "Displayed com.android.settings/.Settings" in text


def test_dump_and_screenshot_are_those_of_the_phone(phone):
    pytest.importorskip("PIL")
    assert parse_xml(run(phone, "uiautomator dump /dev/tty").stdout.decode())[1] == 0
    assert run(phone, "uiautomator dump; cat /sdcard/window_dump.xml").stdout.decode().endswith(phone.xml())
    raw = run(phone, "screencap").stdout
    assert len(raw) == 16 + 1080 * 2400 * 4
    assert run(phone, "screencap -p | head -c 4").stdout == b"\x89PNG"


def test_merged_errors_stand_where_they_happened(phone):
    assert run(phone, "nope; echo after", merged=True).stdout.endswith(b"not found\nafter\n")


def test_messages_calls_and_events_are_read_through_their_providers(phone):
    run_console_line(phone, "sms send 5550142 see you at five")
    asked = "content query --uri content://sms/inbox --projection address:body --where"
    assert run_text(phone, f"{asked} \"address='5550142'\"")[0] == "Row: 0 address=5550142, body=see you at five\n"
    run_console_line(phone, "gsm call 5550199")
    assert "mCallState=1\n    mCallIncomingNumber=5550199" in run_text(phone, "dumpsys telephony.registry")[0]
    calls = run_text(phone, "content query --uri content://call_log/calls --projection number --sort _id")[0]
    assert calls.splitlines()[-1].endswith("number=5550199")


EVENTS = "content://com.android.calendar/events"
CALENDAR_DB = "/data/data/org.turncredit.calendar/databases/events.db"


@pytest.mark.parametrize(
    ("values", "stored"),
    [
        (
            "dtstart:l:1697445000000 dtend:l:1697448600000 calendar_id:i:2",
            {"start": "2023-10-16 08:30", "end": "2023-10-16 09:30", "calendar": "Work", "reminder": -1},
        ),
        (
            "dtstart:s:2023-10-20T10:00 dtend:s:2023-10-20T11:00 rrule:s:FREQ=WEEKLY",
            {"start": "2023-10-20 10:00", "end": "2023-10-20 11:00", "calendar": "Personal", "repeat": "every week"},
        ),
        (
            "dtstart:l:1697414400000 dtend:l:1697500800000 allDay:i:1",
            {"start": "2023-10-16 00:00", "end": "2023-10-16 23:59", "all_day": 1},
        ),
        (
            "dtstart:l:1697445000000 dtend:l:1697448600000 calendar_id:i:1 eventTimezone:s:Europe/Berlin",
            {"start": "2023-10-16 08:30", "end": "2023-10-16 09:30", "calendar": "Personal"},
        ),
        (
            "dtstart:l:1697445000000 dtend:n: duration:s:PT1H calendar_id:i:1 eventTimezone:s:UTC rrule:s:FREQ=DAILY",
            {"start": "2023-10-16 08:30", "end": "2023-10-16 09:30", "repeat": "every day"},
        ),
        (
            "dtstart:l:1697414400000 duration:s:P1D allDay:i:1 rrule:s:FREQ=YEARLY",
            {"start": "2023-10-16 00:00", "end": "2023-10-16 23:59", "all_day": 1, "repeat": "every year"},
        ),
    ],
)
def test_events_are_inserted_as_android_writes_them(phone, user, values, stored):
    binds = " ".join(f"--bind {value}" for value in ["title:s:Dentist", *values.split()])
    assert run_text(phone, f"content insert --uri {EVENTS} {binds}") == ("", 0)
    row = phone.tables("org.turncredit.calendar").rows("events")[-1]
    assert {name: row[name] for name in stored} == stored
    phone.launch("Calendar")
    user.see("New event")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("dtstart:s:garbage", "a time is given in milliseconds since 1970, from 1901 to 2099, got 'garbage'"),
        ("dtend:l:99999999999999999", "a time is given in milliseconds since 1970"),
        ("dtend:l:0", "dtend is before dtstart"),
        ("calendar_id:i:9", "calendar_id is one of 1 (Personal), 2 (Work), 3 (Family), got 9"),
        ("rrule:s:FREQ=HOURLY", "rrule is one of FREQ=DAILY"),
        ("allDay:s:perhaps", "invalid literal for int()"),
        ("duration:s:long", "a duration is written like P3600S or PT1H30M, got 'long'"),
        ("duration:s:P99999W", "a time is given in milliseconds since 1970, from 1901 to 2099"),
    ],
)
def test_what_is_no_event_is_refused(phone, change, message):
    before = phone.state_key()
    printed, code = run_text(phone, f"content update --uri {EVENTS}/3 --bind {change}")
    assert (message in printed, code) == (True, 1)
    assert run(phone, f"content insert --uri {EVENTS} --bind title:s:Hi --bind dtstart:l:1697445000000").code == 1
    assert phone.state_key() == before


def test_times_of_events_are_shown_and_compared_in_milliseconds(phone):
    run(phone, f"sqlite3 {CALENDAR_DB} \"INSERT INTO events(title, start) VALUES('Hi', '2023-10-16 08:30')\"")
    asked = f"content query --uri {EVENTS} --projection title:dtstart:dtend --where"
    shown = "Row: 0 title=Hi, dtstart=1697445000000, dtend=NULL\n"
    assert run_text(phone, f"{asked} \"title='Hi' AND dtstart>=1697445000000\"") == (shown, 0)


def shown_event(phone: Phone, columns: str) -> str:
    asked = f"content query --uri {EVENTS} --projection {columns} --where \"title='Fair'\""
    return run_text(phone, asked)[0].removeprefix("Row: 0 ").rstrip("\n")


def test_whole_days_are_shown_as_they_were_written(phone):
    times = "--bind dtstart:l:1697414400000 --bind dtend:l:1697500800000 --bind allDay:i:1"
    run(phone, f"content insert --uri {EVENTS} --bind title:s:Fair {times}")
    assert shown_event(phone, "dtstart:dtend:allDay") == "dtstart=1697414400000, dtend=1697500800000, allDay=1"
    key = phone.tables("org.turncredit.calendar").rows("events")[-1]["_id"]
    run(phone, f"content update --uri {EVENTS}/{key} --bind description:s:Free")
    assert shown_event(phone, "dtend") == "dtend=1697500800000"
    run(phone, f"content update --uri {EVENTS}/{key} --bind allDay:i:0")
    assert shown_event(phone, "dtend:allDay") == "dtend=1697500800000, allDay=0"
    assert phone.tables("org.turncredit.calendar").get("events", key)["end"] == "2023-10-17 00:00"


def test_repeated_events_show_how_long_they_last(phone):
    times = "--bind dtstart:l:1697445000000 --bind duration:s:PT1H --bind rrule:s:FREQ=DAILY"
    run(phone, f"content insert --uri {EVENTS} --bind title:s:Fair {times}")
    assert (
        shown_event(phone, "dtend:duration:eventTimezone") == "dtend=1697448600000, duration=P3600S, eventTimezone=UTC"
    )


def test_bound_nulls_are_empty(phone):
    uri = "content://com.android.contacts/contacts"
    run(phone, f"content insert --uri {uri} --bind given_name:s:Ada --bind company:n: --bind starred:n:")
    row = phone.tables("org.turncredit.contacts").rows("contacts")[-1]
    assert (row["company"], row["starred"]) == ("", 0)


@pytest.mark.parametrize(
    ("bound", "label", "shown"),
    [("", "Mobile", 2), ("1", "Home", 1), ("2", "Mobile", 2), ("3", "Work", 3), ("7", "Other", 7), ("4", "Other", 7)],
)
def test_the_type_of_a_number_is_its_label(phone, bound, label, shown):
    uri = "content://com.android.contacts"
    run(phone, f"content insert --uri {uri}/raw_contacts --bind account_type:n:")
    key = phone.tables("org.turncredit.contacts").rows("contacts")[-1]["_id"]
    number = f"--bind raw_contact_id:i:{key} --bind mimetype:s:vnd.android.cursor.item/phone_v2 --bind data1:s:555"
    data2 = f"--bind data2:i:{bound}" if bound else ""
    assert run_text(phone, f"content insert --uri {uri}/data {number} {data2}") == ("", 0)
    assert phone.tables("org.turncredit.contacts").get("contacts", key)["label"] == label
    asked = f'content query --uri {uri}/data --projection data1:data2 --where "raw_contact_id={key} AND data2={shown}"'
    assert run_text(phone, asked) == (f"Row: 0 data1=555, data2={shown}\n", 0)


@pytest.mark.parametrize(
    ("kind", "bound", "changed"),
    [
        ("phone_v2", "data2:i:3", {"label": "Work"}),
        ("phone_v2", "data1:s:555", {"phone": "555"}),
        ("name", "data2:s:Zoe", {"first": "Zoe"}),
        ("name", "data3:s:Zeller", {"last": "Zeller"}),
        ("name", "'data1:s:Zoe Zeller'", {"first": "Zoe", "last": "Zeller"}),
    ],
)
def test_a_change_of_the_data_of_a_contact_keeps_what_it_does_not_name(phone, kind, bound, changed):
    before = phone.tables("org.turncredit.contacts").get("contacts", 3)
    where = f"raw_contact_id=3 AND mimetype='vnd.android.cursor.item/{kind}'"
    update = f'content update --uri content://com.android.contacts/data --bind {bound} --where "{where}"'
    assert run_text(phone, update) == ("", 0)
    assert phone.tables("org.turncredit.contacts").get("contacts", 3) == {**before, **changed}


def test_a_command_that_reads_waits_for_its_input(phone):
    with pytest.raises(InputNeeded):
        run(phone, "cat > /sdcard/in", None)
    assert run(phone, "echo no input", None).stdout == b"no input\n"
    assert run(phone, "cat; wc -c", b"four").stdout == b"four4\n"


def test_a_pushed_database_file_is_sqlite(phone):
    data = run(phone, f"cat {CONTACTS_DB}").stdout
    connection = sqlite3.connect(":memory:")
    connection.deserialize(data)
    assert connection.execute("SELECT count(*) FROM contacts").fetchone() == (42,)


WORDS = st.one_of(
    st.sampled_from([*command_names(), "content", "query", "--uri", "content://settings/system", "-l", "/sdcard", "*"]),
    st.sampled_from(
        ["|", ";", "&&", "||", ">", "<", ">>", "(", ")", "$(", "`", "'", '"', "$?", "2>&1", "-n", "1", "-e"]
    ),
    st.text(max_size=6),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(WORDS, max_size=7).map(" ".join))
def test_nothing_that_is_typed_raises_and_everything_is_deterministic(command):
    one, two = Phone(1), Phone(1)
    first, second = run(one, command, b"input\n"), run(two, command, b"input\n")
    assert first == second
    assert 0 <= first.code <= 255
    assert one.state_key() == two.state_key()
    assert one.xml()


def test_every_provider_shows_its_rows():
    phone = Phone(3)
    for app in phone.apps.values():
        for uri in app.providers:
            printed, code = run_text(phone, f"content query --uri {uri}")
            assert code == 0
            assert printed.startswith(("Row: 0 ", "No result")), printed


def test_contacts_are_written_as_rows_of_data_as_on_a_device():
    phone, uri = Phone(3), "content://com.android.contacts"
    run_text(phone, f"content insert --uri {uri}/raw_contacts --bind account_type:n: --bind account_name:n:")
    newest = run_text(phone, f"content query --uri {uri}/raw_contacts --projection _id --sort '_id DESC'")[0]
    key = int(newest.split("_id=")[1].split()[0])
    for kind, text in (("name", "Mona Lindt"), ("phone_v2", "5550123")):
        data = f"--bind raw_contact_id:i:{key} --bind mimetype:s:vnd.android.cursor.item/{kind} --bind 'data1:s:{text}'"
        assert run_text(phone, f"content insert --uri {uri}/data {data}") == ("", 0)
    row = phone.tables("org.turncredit.contacts").get("contacts", key)
    assert (row["first"], row["last"], row["phone"]) == ("Mona", "Lindt", "5550123")
    where = f"--where \"raw_contact_id={key} AND mimetype LIKE '%phone_v2'\""
    shown = run_text(phone, f"content query --uri {uri}/data --projection data1 {where}")
    assert shown == ("Row: 0 data1=5550123\n", 0)
    run_text(phone, f"content delete --uri {uri}/data {where}")
    assert phone.tables("org.turncredit.contacts").get("contacts", key)["phone"] == ""
    bad = f"content insert --uri {uri}/data --bind raw_contact_id:i:{key} --bind mimetype:s:photo"
    assert "mimetype must be" in run_text(phone, bad)[0]
    unknown = bad.replace(f":{key}", ":99999").replace(":photo", ":vnd.android.cursor.item/name")
    assert "no raw contact 99999" in run_text(phone, unknown)[0]
