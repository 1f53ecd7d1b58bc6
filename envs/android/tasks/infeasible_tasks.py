"""Tasks that cannot be done, in apps and between them: what they name is not on the phone. Also opening an app."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from turncredit.envs.android.tasks.app_routes import CALENDAR, CONTACTS, contact_detail, reachable
from turncredit.envs.android.tasks.contacts import name_of, stranger
from turncredit.envs.android.tasks.effects import Effect, Infeasible, Shown
from turncredit.envs.android.tasks.hand import Hand, Script, is_item
from turncredit.envs.android.tasks.steps import Step, call, give_up, start, steps, tap
from turncredit.envs.android.tasks.template import Draw, Params, TaskTemplate
from turncredit.phone.apps.clock import CITIES

_ABSENT_APPS: Final = ("Weather", "Translator", "Compass", "Fitness", "Chess", "Banking", "Radio", "Scanner")
_EVENTS: Final = ("Balloon ride", "Harp recital", "Beekeeping course", "Regatta", "Mushroom walk")
_NOTES: Final = ("Lighthouse keys", "Opera seats", "Kite pattern", "Sauna rules")


def _nothing(p: Params) -> list[Effect]:
    return [Infeasible()]


def _absent(package: str, table: str, column: str, names: tuple[str, ...], key: str) -> Callable[[Draw], Params | None]:
    """Return a draw of a name that no row has."""

    def draw(d: Draw) -> Params | None:
        values = {str(row[column]).casefold() for row in d.rows(package, table)}
        to = reachable(d, 1)
        left = [name for name in names if name.casefold() not in values]
        return {key: d.random.pick(left), "to": name_of(to[0])} if left and to else None

    return draw


def _searched(app: str, field: str, key: str, before: Callable[[Hand], Script] | None = None) -> Step:
    """Return a script that looks for something with the search of an app, and gives up."""

    def solve(hand: Hand, p: Params) -> Iterator[str]:
        yield from hand.open(app)
        if before:
            yield from before(hand)
        yield from hand.fill(field, p[key])
        yield from hand.infeasible()

    return solve


def _open_search(hand: Hand) -> Script:
    yield from hand.tap("Search", scroll=False)


def _start_chat(hand: Hand) -> Script:
    yield from hand.tap("Start chat", scroll=False)


def _stranger_draw(d: Draw) -> Params | None:
    new = stranger(d)
    return {"name": f"{new.first} {new.last}", "phone": new.phone}


def _homeless_draw(d: Draw) -> Params | None:
    row = d.pick([row for row in d.rows(CONTACTS, "contacts") if not row["address"]])
    to = [other for other in reachable(d, 2) if other is not row]
    return {"who": name_of(row), "to": name_of(to[0])} if row and to else None


def _city_draw(d: Draw) -> Params | None:
    shown = {row["name"] for row in d.rows("com.android.deskclock", "cities")}
    return {"city": d.random.pick([city for city in CITIES if city not in shown])}


def _note_draw(d: Draw) -> Params | None:
    to = reachable(d, 1)
    return {"title": d.random.pick(_NOTES), "to": name_of(to[0])} if to else None


def _drawer_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield "home"
    yield from hand.tap("All apps", scroll=False)
    yield from hand.fill("Search apps", p["app"])
    yield from hand.infeasible()


def _app_draw(d: Draw) -> Params | None:
    app = d.random.pick([app for app in d.phone.apps.values() if app.name in ("Clock", "Contacts", "Settings")])
    return {"app": app.name, "package": app.package}


def _app_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield f"open {p['app']}"
    yield from hand.done()


TEMPLATES: Final = (
    TaskTemplate(
        "OpenApp",
        ("Open the app {app}.", "Show me {app}."),
        _app_draw,
        lambda p: [Shown(p["package"])],
        _app_solve,
        ("Clock", "Contacts", "Settings"),
    ),
    TaskTemplate(
        "OpenMissingApp",
        "Open the app {app}.",
        lambda d: {"app": d.random.pick([name for name in _ABSENT_APPS if not d.has_app(name)])},
        _nothing,
        _drawer_solve,
        ("Settings",),
        tags=("infeasible",),
    ),
    TaskTemplate(
        "ContactsEditMissing",
        "{name} has a new number: {phone}. Change it in Contacts.",
        _stranger_draw,
        _nothing,
        _searched("Contacts", "Search contacts", "name"),
        ("Contacts",),
        tags=("infeasible",),
    ),
    TaskTemplate(
        "CrossTellMissingAddress",
        "Text {to} the address of {who}.",
        _homeless_draw,
        _nothing,
        steps(call(contact_detail, "{who}", "Address"), give_up()),
        ("Contacts", "Messages"),
        tags=("infeasible",),
    ),
    TaskTemplate(
        "MessagesToMissing",
        'Send {name}, who is in my contacts, the message "I am on my way".',
        _stranger_draw,
        _nothing,
        _searched("Messages", "To", "name", _start_chat),
        ("Messages",),
        tags=("infeasible",),
    ),
    TaskTemplate(
        "CalendarDeleteMissing",
        'Delete the event "{event}" from my calendar.',
        _absent(CALENDAR, "events", "title", _EVENTS, "event"),
        _nothing,
        _searched("Calendar", "Search events", "event", _open_search),
        ("Calendar",),
        tags=("infeasible",),
    ),
    TaskTemplate(
        "CrossAlarmForMissingEvent",
        'Set an alarm for the start of my event "{event}".',
        _absent(CALENDAR, "events", "title", _EVENTS, "event"),
        _nothing,
        _searched("Calendar", "Search events", "event", _open_search),
        ("Calendar", "Clock"),
        split="held_out",
        tags=("infeasible",),
    ),
    TaskTemplate(
        "NotesDeleteMissing",
        'Delete my note "{title}".',
        _note_draw,
        _nothing,
        _searched("Notes", "Search notes", "title"),
        ("Notes",),
        split="held_out",
        tags=("infeasible",),
    ),
    TaskTemplate(
        "CrossTellMissingNote",
        'Send {to} the text of my note "{title}".',
        _note_draw,
        _nothing,
        _searched("Notes", "Search notes", "title"),
        ("Notes", "Messages"),
        tags=("infeasible",),
    ),
    TaskTemplate(
        "ClockRemoveMissingCity",
        "Remove {city} from the cities in Clock.",
        _city_draw,
        _nothing,
        steps(start("Clock"), tap("Clock", scroll=False, where=is_item), give_up()),
        ("Clock",),
        tags=("infeasible",),
    ),
)
