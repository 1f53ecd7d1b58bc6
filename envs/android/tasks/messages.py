"""Tasks of Messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from typing import Final

from turncredit.envs.android.tasks.contacts import PACKAGE as CONTACTS
from turncredit.envs.android.tasks.contacts import name_of, stranger
from turncredit.envs.android.tasks.effects import Answer, DeleteRow, Effect, Infeasible, InsertRow
from turncredit.envs.android.tasks.hand import Hand, Script, is_no_field
from turncredit.envs.android.tasks.steps import call, fill, give_up, hold, leave, start, steps, tap
from turncredit.envs.android.tasks.template import Draw, Params, TaskTemplate
from turncredit.phone.apps.messages import DRAFT, INBOX, QUEUED, SENT
from turncredit.phone.content.people import STREETS, TOWNS, person
from turncredit.phone.content.plans import digits
from turncredit.phone.toolkit.app import to_clock
from turncredit.phone.toolkit.tables import Row

PACKAGE: Final = "org.turncredit.messages"
_APPS: Final = ("Messages",)
TEXTS: Final = (
    "I am running ten minutes late",
    "Could you bring the blue folder",
    "Thank you for dinner",
    "The keys are with the neighbour",
    "Call me when you are free",
    "The meeting starts an hour later",
    "I found your umbrella",
    "Please buy milk and bread",
    "See you at the station",
    "We saved you a seat",
    "The parcel has arrived",
    "Good luck with the exam",
)


def sent(address: str, text: str, kind: int = SENT) -> InsertRow:
    """Return the effect of a message to somebody."""
    return InsertRow(PACKAGE, "sms", {"address": address, "body": text, "type": kind}, free=("date",))


def talks(d: Draw) -> list[tuple[Row, list[Row]]]:
    """Return the contacts with whom there are messages, and these in their order; those of the archive are left out."""
    hidden = {digits(str(row["address"])) for row in d.rows(PACKAGE, "archived")}
    rows = sorted(d.rows(PACKAGE, "sms"), key=lambda row: (row["date"], row["_id"]))
    conversations = []
    for someone in d.rows(CONTACTS, "contacts"):
        number = digits(str(someone["phone"]))
        own = [row for row in rows if digits(str(row["address"])) == number]
        if own and number not in hidden:
            conversations.append((someone, own))
    return conversations


def _reachable(d: Draw) -> list[Row]:
    """Return the contacts whose conversation is not in the archive: a message to those takes it out."""
    hidden = {digits(str(row["address"])) for row in d.rows(PACKAGE, "archived")}
    return [row for row in d.rows(CONTACTS, "contacts") if digits(str(row["phone"])) not in hidden]


def reachable(d: Draw) -> Row:
    """Draw a contact whose conversation is not in the archive."""
    return d.random.pick(_reachable(d))


def write_to(hand: Hand, name: str) -> Script:
    """Open the conversation with a contact or a number, by way of a new message."""
    yield from hand.open("Messages")
    yield from hand.tap("Start chat", scroll=False)
    yield from hand.fill("To", name)
    entry = name if any(letter.isalpha() for letter in name) else f"Send to {name}"
    yield from hand.tap(entry, where=is_no_field)


def send(hand: Hand, text: str) -> Script:
    """Send a text in the conversation that is open."""
    yield from hand.fill("Text message", text)
    yield from hand.tap("Send", scroll=False)


def _hold_conversation(hand: Hand, name: str) -> Script:
    yield from hand.open("Messages")
    yield from hand.long_press(name)


# Sending


def _send_draw(d: Draw) -> Params | None:
    row = reachable(d)
    return {"name": name_of(row), "phone": row["phone"], "text": d.random.pick(TEXTS)}


def _effects(p: Params) -> list[Effect]:
    return [sent(p["phone"], p["text"])]


def _copied(p: Params) -> list[Effect]:
    return [replace(sent(p["phone"], p["text"]), exact=("body",))]


def _reply_draw(d: Draw) -> Params | None:
    someone, _ = d.random.pick(talks(d))
    return {"name": name_of(someone), "phone": someone["phone"], "text": d.random.pick(TEXTS)}


def arrive(d: Draw, address: str, body: str) -> None:
    """Let a message have just arrived."""
    d.insert(PACKAGE, "sms", address=address, body=body, date=(to_clock(d.phone.now) - 60) * 1000, type=INBOX)


def _newest_draw(d: Draw) -> Params | None:
    row = reachable(d)
    arrive(d, str(row["phone"]), d.random.pick(("Where are you?", "Can you talk?", "Did you get my letter?")))
    return {"phone": row["phone"], "text": d.random.pick(TEXTS)}


def _newest_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from hand.open("Messages")
    first = next(element for element in hand.screen if len(element.texts) > 2 and element.node.long_clickable)
    yield from hand.tap_element(first)
    yield from send(hand, p["text"])
    yield from hand.done()


def _resend_draw(d: Draw) -> Params | None:
    last = [(someone, rows[-1]) for someone, rows in talks(d) if rows[-1]["type"] == SENT]
    if not last:
        return None
    someone, row = d.random.pick(last)
    return {"name": name_of(someone), "phone": someone["phone"], "text": row["body"]}


def _resend_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from hand.open("Messages")
    yield from hand.tap(p["name"])
    yield from hand.long_press([e for e in hand.screen if e.node.resource_id.endswith("message_text")][-1].texts[0])
    yield from hand.tap("Resend")
    yield from hand.done()


def _forward_draw(d: Draw) -> Params | None:
    received = [(someone, row) for someone, rows in talks(d) for row in rows[-1:] if row["type"] == INBOX]
    if not received:
        return None
    someone, row = d.random.pick(received)
    other = d.random.pick([contact for contact in _reachable(d) if contact["_id"] != someone["_id"]])
    return {"name": name_of(someone), "other": name_of(other), "phone": other["phone"], "text": row["body"]}


def _forward_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from hand.open("Messages")
    yield from hand.tap(p["name"])
    yield from hand.long_press([e for e in hand.screen if e.node.resource_id.endswith("message_text")][-1].texts[0])
    yield from hand.tap("Forward")
    yield from hand.fill("To", p["other"])
    yield from hand.tap(p["other"], where=is_no_field)
    yield from hand.tap("Send", scroll=False)
    yield from hand.done()


def _address_draw(d: Draw) -> Params | None:
    sender, two = d.some(_reachable(d), 2)
    text = f"{d.random.between(1, 99)} {d.random.pick(STREETS)}, {d.random.pick(TOWNS)}"
    arrive(d, str(sender["phone"]), f"We meet here: {text}")
    return {"name": name_of(sender), "other": name_of(two), "phone": two["phone"], "text": text}


def _address_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from hand.open("Messages")
    yield from hand.tap(p["name"])
    last = [e for e in hand.screen if e.mentions("We meet here: ")][-1]
    text = last.texts[0].partition(": ")[2]
    yield from hand.leave()
    yield from write_to(hand, p["other"])
    yield from send(hand, text)
    yield from hand.done()


def _later_draw(d: Draw) -> Params | None:
    row, ahead = reachable(d), d.random.between(1, 10)
    day = d.phone.now.date() + timedelta(days=ahead)
    time = f"{d.random.between(7, 20):02d}:{d.random.pick(('00', '15', '30'))}"
    p = {"name": name_of(row), "phone": row["phone"], "text": d.random.pick(TEXTS), "day": day.isoformat()}
    moment = to_clock(d.phone.now.replace(hour=int(time[:2]), minute=int(time[3:]), second=0)) + ahead * 86_400
    return {**p, "time": time, "say": f"{day.day} {day:%B}", "date": moment * 1000}


def _later_effects(p: Params) -> list[Effect]:
    values = {"address": p["phone"], "body": p["text"], "type": QUEUED, "date": p["date"]}
    return [InsertRow(PACKAGE, "sms", values)]


def _later_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from write_to(hand, p["name"])
    yield from hand.fill("Text message", p["text"])
    yield from hand.tap("Schedule send", scroll=False)
    yield from hand.pick_date("Date", date.fromisoformat(p["day"]).isoformat())
    yield from hand.pick_time("Time", p["time"])
    yield from hand.tap("Schedule")
    yield from hand.done()


# Conversations


def _talk_draw(d: Draw) -> Params | None:
    someone, rows = d.random.pick(talks(d))
    return {"name": name_of(someone), "phone": someone["phone"], "ids": [row["_id"] for row in rows]}


def _unarchive_draw(d: Draw) -> Params | None:
    for row in d.rows(PACKAGE, "archived"):
        for someone in d.rows(CONTACTS, "contacts"):
            if digits(str(someone["phone"])) == digits(str(row["address"])):
                return {"name": name_of(someone), "id": row["_id"]}
    return None


# Questions


def _last_draw(d: Draw) -> Params | None:
    received = [(someone, row) for someone, rows in talks(d) for row in rows[-1:] if row["type"] == INBOX]
    if not received:
        return None
    someone, row = d.random.pick(received)
    return {"name": name_of(someone), "value": row["body"]}


def _last_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from hand.open("Messages")
    yield from hand.tap(p["name"])
    last = [e for e in hand.screen if e.node.resource_id.endswith("message_text")][-1]
    yield from hand.answer(last.texts[0])


def _code_draw(d: Draw) -> Params | None:
    rows = [row for row in d.rows(PACKAGE, "sms") if "Pick-up code" in row["body"]]
    return {"value": str(rows[-1]["body"]).rpartition("code ")[2].strip(".")} if len(rows) == 1 else None


def _code_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from hand.open("Messages")
    yield from hand.tap("Search", scroll=False)
    yield from hand.fill("Search messages", "Pick-up code")
    messages = [e for e in hand.screen if e.mentions("Pick-up code") and e.kind != "field"]
    yield from hand.tap_element(messages[0])
    text = [e for e in hand.screen if e.mentions("Pick-up code")][-1].texts[0]
    yield from hand.answer(text.rpartition("code ")[2].strip("."))


def _missing_draw(d: Draw) -> Params | None:
    absent = stranger(d)
    return {"name": f"{absent.first} {absent.last}", "text": d.random.pick(TEXTS)}


TEMPLATES: Final = (
    TaskTemplate(
        "MessagesSend",
        ("Text {name}: {text}", "Send {name} a message that says: {text}"),
        _send_draw,
        _effects,
        steps(call(write_to, "{name}"), call(send, "{text}")),
        _APPS,
        complexity=1.6,
    ),
    TaskTemplate(
        "MessagesSendToNumber",
        "Send a text message to {phone}: {text}",
        lambda d: {"phone": person(d.random).phone, "text": d.random.pick(TEXTS)},
        _effects,
        steps(call(write_to, "{phone}"), call(send, "{text}")),
        _APPS,
        complexity=1.6,
    ),
    TaskTemplate(
        "MessagesReply",
        ("Answer {name} in our conversation: {text}", "Reply to {name} with: {text}"),
        _reply_draw,
        _effects,
        steps(start("Messages"), tap("{name}"), call(send, "{text}")),
        _APPS,
        complexity=1.8,
    ),
    TaskTemplate(
        "MessagesReplyNewest",
        "Reply to the newest text message that I got with: {text}",
        _newest_draw,
        _effects,
        _newest_solve,
        _APPS,
        complexity=1.2,
        split="held_out",
    ),
    TaskTemplate(
        "MessagesResend",
        "My last message to {name} did not get there. Send the same text once more.",
        _resend_draw,
        _copied,
        _resend_solve,
        _APPS,
        complexity=1.8,
    ),
    TaskTemplate(
        "MessagesForward",
        "Forward the last message from {name} to {other}, without changing it.",
        _forward_draw,
        _copied,
        _forward_solve,
        _APPS,
        complexity=2.4,
    ),
    TaskTemplate(
        "MessagesSendReceivedAddress",
        "{name} has just texted me where we meet. Text the address, and nothing but the address, to {other}.",
        _address_draw,
        lambda p: [sent(p["phone"], p["text"])],
        _address_solve,
        _APPS,
        complexity=3.0,
    ),
    TaskTemplate(
        "MessagesSchedule",
        "Schedule a text message to {name} for {say} at {time}: {text}",
        _later_draw,
        _later_effects,
        _later_solve,
        _APPS,
        complexity=4.0,
    ),
    TaskTemplate(
        "MessagesDraft",
        "Start a text message to {name} that says: {text} - but do not send it, leave it as a draft.",
        _send_draw,
        lambda p: [sent(p["phone"], p["text"], DRAFT)],
        steps(call(write_to, "{name}"), fill("Text message", "{text}"), leave()),
        _APPS,
        complexity=2.0,
        split="held_out",
    ),
    TaskTemplate(
        "MessagesDeleteConversation",
        ("Delete the whole conversation with {name}.", "Remove all text messages that I exchanged with {name}."),
        _talk_draw,
        lambda p: [DeleteRow(PACKAGE, "sms", key) for key in p["ids"]],
        steps(call(_hold_conversation, "{name}"), tap("Delete conversation"), tap("Delete")),
        _APPS,
        complexity=1.6,
    ),
    TaskTemplate(
        "MessagesArchive",
        "Archive the conversation with {name}.",
        _talk_draw,
        lambda p: [InsertRow(PACKAGE, "archived", {"address": p["phone"]})],
        steps(call(_hold_conversation, "{name}"), tap("Archive")),
        _APPS,
        complexity=1.4,
    ),
    TaskTemplate(
        "MessagesUnarchive",
        "Bring the conversation with {name} back from the archive.",
        _unarchive_draw,
        lambda p: [DeleteRow(PACKAGE, "archived", p["id"])],
        steps(start("Messages"), tap("Archive", scroll=False), hold("{name}"), tap("Unarchive")),
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "MessagesAskLast",
        "What did {name} write in the last text message? Answer with its exact words.",
        _last_draw,
        lambda p: [Answer("text", p["value"])],
        _last_solve,
        _APPS,
        complexity=1.4,
    ),
    TaskTemplate(
        "MessagesAskCode",
        "Which code do I need to pick up my parcel at Parcel Point? Look into my messages.",
        _code_draw,
        lambda p: [Answer("number", p["value"])],
        _code_solve,
        _APPS,
        complexity=1.4,
        split="held_out",
    ),
    TaskTemplate(
        "MessagesSendToMissing",
        "Text {name}, who is among my contacts: {text}",
        _missing_draw,
        lambda p: [Infeasible()],
        steps(start("Messages"), tap("Start chat", scroll=False), fill("To", "{name}"), give_up()),
        _APPS,
        complexity=1.2,
        tags=("infeasible",),
    ),
)
