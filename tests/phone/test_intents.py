"""What other programs ask of apps with `am start`: which app answers, and what it makes of data and extras."""

from __future__ import annotations

import pytest

from turncredit.phone import Phone
from turncredit.phone.adb.direct_device import DirectDevice
from turncredit.phone.installed_apps import all_apps
from turncredit.phone.shell import run_text
from turncredit.tools.android.device import DeviceError

ALARM = "android.intent.extra.alarm"
EVENT = "-a android.intent.action.INSERT -d content://com.android.calendar/events"


def start(phone: Phone, arguments: str) -> None:
    printed, code = run_text(phone, f"am start {arguments}")
    assert code == 0, printed


@pytest.mark.parametrize(
    ("arguments", "screen", "shown"),
    [
        ("-a android.intent.action.SENDTO -d sms:5552505891 --es sms_body hi", "thread", ["hi"]),
        ("-a android.intent.action.SENDTO -d smsto:5552505891?body=see%20you", "thread", ["see you"]),
        ("-a android.intent.action.SEND -t text/plain --es android.intent.extra.TEXT hi", "recipient", ["Forward to"]),
        (
            "-a android.intent.action.SENDTO -d 'mailto:ada@x.example?subject=Hi&body=Come'",
            "compose",
            ["ada@x.example", "Hi", "Come"],
        ),
        (
            "-a android.intent.action.SEND -t message/rfc822 --esa android.intent.extra.EMAIL ada@x.example "
            "--es android.intent.extra.SUBJECT Hi --es android.intent.extra.TEXT Come",
            "compose",
            ["ada@x.example", "Hi", "Come"],
        ),
        (
            "-a android.intent.action.SENDTO -d 'mailto:ada@x.example?subject=1+1'",
            "compose",
            ["ada@x.example", "1+1"],
        ),
        ("-a android.intent.action.VIEW -d http://bistro-alma.example", "browser", ["bistro-alma.example"]),
        (
            "-a android.intent.action.WEB_SEARCH --es query 'green tea'",
            "browser",
            ["findit.example/search?q=green%20tea"],
        ),
        ("-a android.intent.action.VIEW -d tel:555", "keypad", ["555"]),
        ("-a android.intent.action.DIAL -d tel:555%2012", "keypad", ["555 12"]),
        ("-a android.intent.action.CALL -d tel:5550142", "call", ["5550142"]),
        ("-a android.intent.action.CALL -d tel:", "keypad", ["Keypad"]),
        ("-a android.intent.action.VIEW -d 'geo:0,0?q=Museum'", "maps", ["Museum"]),
        ("-a android.intent.action.VIEW -d 'geo:0,0?q=Town+Hall'", "maps", ["Town Hall"]),
        (f"-a android.intent.action.SET_ALARM --ei {ALARM}.HOUR 23 --ei {ALARM}.MINUTES 5", "alarm", ["23:05"]),
        (f"-a android.intent.action.SET_ALARM --es {ALARM}.MESSAGE Tea", "alarm", ["07:00", "Tea"]),
        (f"-a android.intent.action.SET_ALARM --ef {ALARM}.HOUR 7.5", "alarm", ["07:00"]),
        (f"-a android.intent.action.SET_TIMER --ei {ALARM}.LENGTH 90", "clock", ["00:01:30", "Start"]),
        (f"-a android.intent.action.SET_TIMER --ei {ALARM}.LENGTH 90 --ez {ALARM}.SKIP_UI true", "clock", ["Pause"]),
        (
            f"{EVENT} --es title Dentist --el beginTime 1697445000000 --es eventLocation 'Mill Lane'",
            "form",
            ["Dentist", "Mon, 16 Oct 2023", "08:30", "09:30", "Mill Lane"],
        ),
        (
            "-a android.intent.action.VIEW -d content://com.android.calendar/time/1700000000000",
            "calendar",
            ["November 2023"],
        ),
        ("-a android.intent.action.EDIT -d content://com.android.calendar/events/3", "form", ["Edit event"]),
        ("-a android.intent.action.EDIT -d content://com.android.contacts/contacts/3", "form", ["Edit contact"]),
        ("-a android.intent.action.VIEW -d content://com.android.contacts/contacts/3", "contact", ["Edit contact"]),
        ("-a android.intent.action.VIEW -d content://com.android.contacts/contacts", "contacts", ["Create contact"]),
        (
            "-a android.intent.action.INSERT -d content://com.android.contacts -e name Ada -e company Mill",
            "form",
            ["Create contact", "Ada", "Mill"],
        ),
    ],
)
def test_an_intent_opens_its_app_with_what_it_carries(phone, user, arguments, screen, shown):
    start(phone, arguments)
    assert phone.page.screen == screen
    for text in shown:
        user.see(text)


@pytest.mark.parametrize(
    "arguments",
    [
        "-a android.intent.action.SENDTO",
        "-a android.intent.action.VIEW",
        "-a android.intent.action.VIEW -d market://details?id=x",
        "-a android.intent.action.VIEW -d 'http//['",
        "-a android.intent.action.INSERT",
        "-a android.intent.action.EDIT -d content://com.example/1",
        "-a android.intent.action.CALL",
        "-a android.intent.action.DIAL -d tel:5 -p org.turncredit.notes",
    ],
)
def test_an_intent_that_nothing_matches_fails_as_on_a_device(phone, arguments):
    before = phone.state_key()
    printed, code = run_text(phone, f"am start {arguments}")
    assert code == 1
    assert "Error: Activity not started, unable to resolve Intent {" in printed
    assert phone.state_key() == before


def test_an_alarm_is_set_without_a_question(phone):
    extras = f"--ei {ALARM}.HOUR 23 --ei {ALARM}.MINUTES 5 --eial {ALARM}.DAYS 2,1 --ez {ALARM}.SKIP_UI true"
    start(phone, f"-a android.intent.action.SET_ALARM {extras}")
    row = phone.tables("com.android.deskclock").rows("alarms")[-1]
    assert (row["time"], row["days"], row["enabled"]) == ("23:05", "Mon Sun", 1)
    assert any(event.action.function.__name__ == "ring" for event in phone.state.events)


def test_a_form_that_an_intent_filled_in_is_saved(phone, user):
    start(
        phone,
        f"{EVENT} --es title Dentist --el beginTime 1697445000000 --el endTime 1697446800000 --es rrule FREQ=DAILY",
    )
    user.tap("Save")
    row = phone.tables("org.turncredit.calendar").rows("events")[-1]
    columns = ("title", "start", "end", "repeat", "calendar")
    assert [row[name] for name in columns] == [
        "Dentist",
        "2023-10-16 08:30",
        "2023-10-16 09:00",
        "every day",
        "Personal",
    ]


def test_an_intent_does_not_pile_up_pages(phone):
    for _ in range(3):
        start(phone, "-a android.intent.action.VIEW -d 'geo:0,0?q=Museum'")
    assert [page.screen for page in phone.state.tasks[0].pages] == ["maps"]


@pytest.mark.parametrize("package", ["android", "com.android.systemui", "org.example.nope", "Clock"])
def test_monkey_starts_no_part_of_the_system(phone, package):
    before = phone.state_key()
    printed = run_text(phone, f"monkey -p {package} -c android.intent.category.LAUNCHER 1")
    assert printed == ("** No activities found to run, monkey aborted.\n", 252)
    assert phone.state_key() == before


@pytest.mark.parametrize(
    "component", ["com.android.settings/.Nope", "android/.Resolver", "com.android.systemui/.Shade"]
)
def test_a_component_that_does_not_exist_is_refused_over_adb_and_directly(phone, component):
    printed, code = run_text(phone, f"am start -n {component}")
    assert (code, f"Activity class {{{component}}} does not exist" in printed) == (1, True)
    with pytest.raises(DeviceError):
        DirectDevice(phone).launch(component)
    assert phone.activity == "com.android.launcher3/.Launcher"


@pytest.mark.parametrize(
    "component", ["com.android.settings/.Settings", "com.android.settings/com.android.settings.Settings"]
)
def test_a_component_that_exists_is_started_over_adb_and_directly(phone, component):
    start(phone, f"-n {component}")
    assert phone.activity == "com.android.settings/.Settings"
    phone.home()
    DirectDevice(phone).launch(component)
    assert phone.activity == "com.android.settings/.Settings"


@pytest.mark.parametrize(
    "arguments",
    [
        "-d 'http://bistro-alma.example/?url=news.example'",
        "-d http://bistro-alma.example --es url news.example",
        "-d http://bistro-alma.example --es data news.example",
    ],
)
def test_the_address_of_an_intent_is_its_data(phone, arguments):
    start(phone, f"-a android.intent.action.VIEW {arguments}")
    assert phone.tables("org.turncredit.browser").rows("tabs")[-1]["url"].startswith("bistro-alma.example")


def test_whom_an_intent_calls_is_in_its_data(phone):
    start(phone, "-a android.intent.action.CALL -d 'tel:5550142?number=5550143' --es number 5550144")
    assert phone.tables("org.turncredit.dialer").rows("calls")[-1]["number"] == "5550142"


@pytest.mark.parametrize(("action", "screen"), [("VIEW", "contact"), ("EDIT", "form")])
def test_a_row_of_the_data_of_contacts_leads_to_its_contact(phone, action, screen):
    start(phone, f"-a android.intent.action.{action} -d content://com.android.contacts/data/7")
    assert (phone.page.screen, dict(phone.page.params)["id"]) == (screen, 3)


def test_show_alarms_shows_the_alarms(phone, user):
    start(phone, "-a android.intent.action.SHOW_TIMERS")
    user.see("Set timer")
    start(phone, "-a android.intent.action.SHOW_ALARMS")
    user.see("Add alarm")


ENDS = {
    "content://com.android.calendar": ("", "/events", "/events/999", "/time/0", "/time/999999999999999"),
    "content://com.android.contacts": ("", "/contacts", "/contacts/999", "/data/999"),
}


@pytest.mark.parametrize("intent", sorted({intent for app in all_apps() for intent in app.intents}))
def test_no_app_stops_on_an_intent_that_carries_little(phone, intent):
    action, _, kind = intent.partition(" ")
    option = "-d" if ":" in kind or "/" not in kind else "-t"
    for end in ENDS.get(kind, (":",) if option == "-d" else ("",)):
        start(phone, f"-a {action} {f'{option} {kind}{end}' if kind else ''}")
        assert phone.frame.page.screen != "stopped", end
