"""Tasks of Phone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from turncredit.envs.android.elements import ScreenElement
from turncredit.envs.android.tasks.contacts import PACKAGE as CONTACTS
from turncredit.envs.android.tasks.contacts import known, name_of, stranger
from turncredit.envs.android.tasks.effects import Answer, DeleteRow, Effect, Infeasible, InsertRow, UpdateRow
from turncredit.envs.android.tasks.hand import Hand, Script, is_no_field
from turncredit.envs.android.tasks.steps import answer, call, fill, give_up, start, steps, tap
from turncredit.envs.android.tasks.template import Draw, Params, TaskTemplate
from turncredit.phone.apps.dialer_calls import MISSED, OUTGOING
from turncredit.phone.content.people import person
from turncredit.phone.content.plans import digits
from turncredit.phone.toolkit.tables import Row

PACKAGE: Final = "org.turncredit.dialer"
_APPS: Final = ("Phone",)
_FREE: Final = ("date", "duration")
_ANSWERS: Final = ("I am driving.", "Write me, please.", "I am asleep.", "Try again tomorrow.", "I am on the train.")


def called(number: str) -> InsertRow:
    """Return the effect of a call to a number."""
    return InsertRow(PACKAGE, "calls", {"number": number, "type": OUTGOING}, free=_FREE)


def log(d: Draw) -> list[tuple[Row, Row]]:
    """Return the calls with contacts, the newest first: the contact and the call."""
    people = {digits(str(row["phone"])): row for row in d.rows(CONTACTS, "contacts")}
    rows = sorted(d.rows(PACKAGE, "calls"), key=lambda row: -row["date"])
    return [(people[number], row) for row in rows if (number := digits(str(row["number"]))) in people]


def find_contact(hand: Hand, name: str) -> Script:
    """Open the page of a contact's number."""
    yield from hand.open("Phone")
    yield from hand.tap("Contacts", scroll=False)
    yield from hand.fill("Search contacts", name)
    yield from hand.tap(name, where=is_no_field)


def open_more(hand: Hand, entry: str) -> Script:
    """Open a page of the menu."""
    yield from hand.open("Phone")
    yield from hand.tap("More options", scroll=False)
    yield from hand.tap(entry)


def _call_draw(d: Draw) -> Params | None:
    row = known(d)
    return {"name": name_of(row), "number": row["phone"]}


def _call_effects(p: Params) -> list[Effect]:
    return [called(p["number"])]


def _dial_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from hand.open("Phone")
    yield from hand.tap("Keypad", scroll=False)
    for key in p["number"]:
        yield from hand.tap(key, scroll=False)
    yield from hand.tap("Call", scroll=False)
    yield from hand.tap("End call", scroll=False)
    yield from hand.done()


def _missed_draw(d: Draw) -> Params | None:
    missed = [row for row in sorted(d.rows(PACKAGE, "calls"), key=lambda row: -row["date"]) if row["type"] == MISSED]
    if not missed or not (names := [entry for entry in log(d) if entry[1]["_id"] == missed[0]["_id"]]):
        return None
    return {"name": name_of(names[0][0]), "number": names[0][0]["phone"], "count": len(missed)}


def _missed_calls(hand: Hand) -> list[ScreenElement]:
    return [e for e in hand.screen if any(text.startswith("Missed \u00b7") for text in e.texts)]


def _show_missed(hand: Hand) -> Script:
    yield from hand.open("Phone")
    yield from hand.tap("Missed", scroll=False)


def _back_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _show_missed(hand)
    yield from hand.tap_element(_missed_calls(hand)[0])
    yield from hand.tap("Call", scroll=False)
    yield from hand.tap("End call", scroll=False)
    yield from hand.done()


# Blocking


def _block_effects(p: Params) -> list[Effect]:
    return [InsertRow(PACKAGE, "blocked", {"number": p["number"]})]


def _unblock_draw(d: Draw) -> Params | None:
    row = d.random.pick(d.rows(PACKAGE, "blocked"))
    return {"number": row["number"], "id": row["_id"]}


# The list of calls


def _history_draw(d: Draw) -> Params | None:
    someone, _ = d.random.pick(log(d))
    ids = [row["_id"] for other, row in log(d) if other["_id"] == someone["_id"]]
    return {"name": name_of(someone), "ids": ids, "count": len(ids)}


def _response_draw(d: Draw) -> Params | None:
    row = d.random.pick(d.rows(PACKAGE, "responses"))
    return {"id": row["_id"], "old": row["text"], "text": d.random.pick(_ANSWERS)}


# Questions


def _ask(kind: str, key: str) -> Callable[[Params], list[Effect]]:
    return lambda p: [Answer(kind, p[key])]


def _missed_count_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _show_missed(hand)
    calls = yield from hand.read_all(lambda e: e.texts if e in _missed_calls(hand) else None)
    yield from hand.answer(len(calls))


def _count_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from find_contact(hand, p["name"])
    calls = yield from hand.read_all(lambda e: e.texts if re.search(r", \d\d:\d\d$", " ".join(e.texts[1:2])) else None)
    yield from hand.answer(len(calls))


def _long_draw(d: Draw) -> Params | None:
    calls = [(someone, row) for someone, row in log(d) if row["duration"] >= 60]
    if not calls:
        return None
    someone, row = calls[0]
    latest = next(call for other, call in log(d) if other["_id"] == someone["_id"])
    if latest["_id"] != row["_id"]:
        return None
    return {"name": name_of(someone), "minutes": row["duration"] // 60}


def _long_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from find_contact(hand, p["name"])
    length = next(text for e in hand.screen for text in e.texts if re.fullmatch(r"\d+ min \d+ s", text))
    yield from hand.answer(length.split()[0])


def _missing_draw(d: Draw) -> Params | None:
    absent = stranger(d)
    return {"name": f"{absent.first} {absent.last}"}


TEMPLATES: Final = (
    TaskTemplate(
        "PhoneCall",
        ("Call {name}, let it ring, and hang up.", "Phone {name} and end the call right away."),
        _call_draw,
        _call_effects,
        steps(call(find_contact, "{name}"), tap("Call", scroll=False), tap("End call", scroll=False)),
        _APPS,
        complexity=1.6,
    ),
    TaskTemplate(
        "PhoneDial",
        "Dial {number} with the keypad of Phone, call it and hang up.",
        lambda d: {"number": digits(person(d.random).phone)},
        _call_effects,
        _dial_solve,
        _APPS,
        complexity=3.6,
    ),
    TaskTemplate(
        "PhoneReturnMissed",
        "Call back whoever has called me last without reaching me, and hang up again.",
        _missed_draw,
        _call_effects,
        _back_solve,
        _APPS,
        complexity=1.6,
        split="held_out",
    ),
    TaskTemplate(
        "PhoneBlockNumber",
        ("Block calls from {number}.", "The number {number} must not be able to call me any more. Block it."),
        lambda d: {"number": person(d.random).phone},
        _block_effects,
        steps(
            call(open_more, "Blocked numbers"),
            tap("Block a number", scroll=False),
            fill("Phone number", "{number}"),
            tap("Block"),
        ),
        _APPS,
        complexity=1.6,
    ),
    TaskTemplate(
        "PhoneBlockContact",
        "Block the number of {name} in Phone.",
        _call_draw,
        _block_effects,
        steps(call(find_contact, "{name}"), tap("Block number")),
        _APPS,
        complexity=1.4,
    ),
    TaskTemplate(
        "PhoneUnblock",
        "Take the number {number} off the blocked numbers.",
        _unblock_draw,
        lambda p: [DeleteRow(PACKAGE, "blocked", p["id"])],
        steps(call(open_more, "Blocked numbers"), tap("Unblock {number}")),
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "PhoneDeleteHistory",
        "Delete all calls with {name} from the call history, and no others.",
        _history_draw,
        lambda p: [DeleteRow(PACKAGE, "calls", key) for key in p["ids"]],
        steps(call(find_contact, "{name}"), tap("Delete history", scroll=False), tap("Delete")),
        _APPS,
        complexity=1.6,
    ),
    TaskTemplate(
        "PhoneSetResponse",
        'Replace the quick response "{old}" of Phone with: {text}',
        _response_draw,
        lambda p: [UpdateRow(PACKAGE, "responses", p["id"], {"text": p["text"]})],
        steps(call(open_more, "Quick responses"), tap("{old}"), fill("Response", "{text}"), tap("OK")),
        _APPS,
        complexity=1.6,
        split="held_out",
    ),
    TaskTemplate(
        "PhoneAskMissed",
        "Whose call did I miss last? Answer with the full name.",
        _missed_draw,
        _ask("text", "name"),
        steps(call(_show_missed), answer(lambda hand, p: _missed_calls(hand)[0].texts[0])),
        _APPS,
    ),
    TaskTemplate(
        "PhoneCountMissed",
        "How many missed calls are in the call history of Phone?",
        _missed_draw,
        _ask("number", "count"),
        _missed_count_solve,
        _APPS,
        complexity=1.4,
    ),
    TaskTemplate(
        "PhoneCountCalls",
        "How many calls with {name} does the call history have, of whatever kind?",
        _history_draw,
        _ask("number", "count"),
        _count_solve,
        _APPS,
        complexity=1.6,
    ),
    TaskTemplate(
        "PhoneAskDuration",
        "How many minutes did my last call with {name} take? Leave the seconds out.",
        _long_draw,
        _ask("number", "minutes"),
        _long_solve,
        _APPS,
        complexity=1.4,
        split="held_out",
    ),
    TaskTemplate(
        "PhoneCallMissing",
        "Call {name}, whose number is in my contacts.",
        _missing_draw,
        lambda p: [Infeasible()],
        steps(start("Phone"), tap("Contacts", scroll=False), fill("Search contacts", "{name}"), give_up()),
        _APPS,
        complexity=1.2,
        tags=("infeasible",),
    ),
)
