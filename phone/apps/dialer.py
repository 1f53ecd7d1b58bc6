"""Phone: keypad, recent calls, favourites, the page of a number, blocked numbers and quick responses."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from turncredit.phone.apps.dialer_calls import (
    INCOMING,
    MESSAGES,
    MISSED,
    OUTGOING,
    REJECTED,
    blocks_of,
    call,
    call_number,
    callable_contacts,
    change_state,
    ongoing_call,
    who_is,
)
from turncredit.phone.content.plans import CONTACTS, digits, name_of_number, people
from turncredit.phone.screen.parts import format_date
from turncredit.phone.toolkit.app import App, Context, Provider, to_clock, to_datetime
from turncredit.phone.toolkit.handlers import do, keeps, opens
from turncredit.phone.toolkit.tables import Columns
from turncredit.phone.toolkit.tables import Row as Record
from turncredit.phone.toolkit.widgets import (
    Avatar,
    Button,
    Card,
    Chip,
    Dialog,
    Empty,
    Fab,
    Grid,
    IconButton,
    Item,
    List,
    Menu,
    Row,
    Screen,
    Section,
    Spacer,
    Tab,
    Text,
    TextField,
    Tile,
    Widget,
    cancel_or,
)

_TYPES: Final = {INCOMING: "Incoming", OUTGOING: "Outgoing", MISSED: "Missed", REJECTED: "Declined"}
_STRANGERS: Final = ("+1 555 770 1188", "+1 555 770 2940", "+1 555 770 3615", "+1 555 770 4452")
_RESPONSES: Final = (
    "I will call you back.",
    "I am in a meeting.",
    "On my way!",
    "Please write me a message.",
)


def fill(ctx: Context) -> None:
    """Write the calls of the last two weeks, a few blocked numbers, and the quick responses."""
    random = ctx.random
    numbers = [who.phone for who in random.shuffled(people(ctx))[:9]]
    rows: list[Columns] = []
    when = ctx.now
    for _ in range(24):
        when -= timedelta(minutes=random.between(15, 1200))
        when -= timedelta(hours=9 if when.hour < 8 else 0)  # nobody calls at night
        number = random.pick(_STRANGERS[2:]) if random.chance(0.15) else random.pick(numbers)
        kind = random.weighted({INCOMING: 4, OUTGOING: 5, MISSED: 3, REJECTED: 1})
        seconds = random.between(20, 1500) if kind in (INCOMING, OUTGOING) else 0
        rows.append({"number": number, "date": to_clock(when) * 1000, "duration": seconds, "type": kind})
    ctx.db.fill("calls", rows[::-1])
    ctx.db.fill("blocked", [{"number": number} for number in _STRANGERS[:2]])
    ctx.db.fill("responses", [{"text": text} for text in _RESPONSES])


def phone(ctx: Context) -> Screen:
    """Favourites, recent calls or all contacts."""
    tab = str(ctx.get("tab", "Recents"))
    parts = {"Favourites": _favourites, "Recents": _recents, "Contacts": _contacts}
    ongoing = ongoing_call(ctx)
    back = [Item("Return to call", who_is(ctx, ongoing["number"]), "phone", on_tap=opens(call))] if ongoing else []
    search = [TextField("query", "Search contacts", icon="search"), Spacer(4)] if tab == "Contacts" else []
    icons = (("Favourites", "star"), ("Recents", "clock"), ("Contacts", "person"))
    return Screen(
        "Phone",
        [*parts[tab](ctx), Spacer(80)],
        actions=[IconButton("more", "More options", opens(more))],
        top=[*back, *search],
        bar=[Tab(name, keeps("tab", name), name == tab, icon) for name, icon in icons],
        fab=Fab("grid", "Keypad", opens(keypad)),
    )


def _person(row: Record) -> Item:
    name = f"{row['first']} {row['last']}".strip() or str(row["phone"])
    call = IconButton("phone", f"Call {name}", do(call_number, number=str(row["phone"])))
    tap = opens(history, number=str(row["phone"]))
    return Item(name, f"{row['label']} \u00b7 {row['phone']}", "", name, end=call, on_tap=tap)


def _favourites(ctx: Context) -> list[Widget]:
    rows = [row for row in callable_contacts(ctx) if row["starred"]]
    return [List(rows, _person)] if rows else [Empty("star", "No favourite contacts")]


def _contacts(ctx: Context) -> list[Widget]:
    query = str(ctx.get("query", "")).casefold().strip()
    rows = [row for row in callable_contacts(ctx) if query in f"{row['first']} {row['last']} {row['phone']}".casefold()]
    return [List(rows, _person)] if rows else [Empty("person", "No contacts")]


def _log(ctx: Context) -> list[Record]:
    return ctx.db.rows("calls", order=lambda row: (-row["date"], -row["_id"]))


def _recents(ctx: Context) -> list[Widget]:
    only = str(ctx.get("filter", "All"))
    chips: list[Widget] = [Chip(name, keeps("filter", name), name == only) for name in ("All", "Missed")]
    rows = [row for row in _log(ctx) if only == "All" or row["type"] == MISSED]
    body: Widget = List(rows, lambda row: _entry(ctx, row)) if rows else Empty("phone", "No calls")
    return [Row(chips), body]


def _entry(ctx: Context, row: Record) -> Item:
    number, name = str(row["number"]), who_is(ctx, str(row["number"]))
    moment = to_datetime(row["date"] // 1000)
    days = (ctx.today - moment.date()).days
    near = {0: "today", 1: "yesterday"}.get(days, f"{moment:%a}, {moment.day} {moment:%b}")
    about = f"{_TYPES[row['type']]} \u00b7 {near}, {moment:%H:%M}"
    call = IconButton("phone", f"Call {name}", do(call_number, number=number))
    missed = row["type"] == MISSED
    hold = opens(entry, id=row["_id"])
    return Item(name, about, "", name, "", call, opens(history, number=number), hold, bold=missed)


def entry(ctx: Context, id: int) -> Menu:
    """Delete a call, or copy its number."""
    return Menu([("Delete call", do(delete_call, id=id)), ("Copy number", do(copy_number, id=id))])


def delete_call(ctx: Context, id: int) -> None:
    """Take a call out of the list."""
    ctx.db.delete("calls", id)
    ctx.snackbar("Call deleted")


def copy_number(ctx: Context, id: int) -> None:
    """Put the number of a call on the clipboard."""
    row = ctx.db.get("calls", id)
    if row:
        ctx.copy(str(row["number"]))
        ctx.snackbar("Copied")


# One number


def history(ctx: Context, number: str) -> Screen:
    """All calls with one number, and what can be done with it."""
    name = who_is(ctx, number)
    rows = [row for row in _log(ctx) if digits(str(row["number"])) == digits(number)]
    seen = [
        Item(
            _TYPES[row["type"]],
            f"{format_date(to_datetime(row['date'] // 1000).date().isoformat())}, "
            f"{to_datetime(row['date'] // 1000):%H:%M}",
            "phone",
            trailing=_length(row["duration"]) if row["duration"] else "",
            on_long_press=opens(entry, id=row["_id"]),
        )
        for row in rows
    ]
    saved = name != number
    buttons: list[Widget] = [Button("Call", do(call_number, number=number), icon="phone", wide=True)]
    if MESSAGES in ctx.phone.apps:
        buttons.append(Button("Message", do(write_to, number=number), kind="tonal", icon="chat", wide=True))
    block = "Unblock number" if blocks_of(ctx, number) else "Block number"
    more = [Item("Add to contacts", "", "add", on_tap=do(add_contact, number=number))] if not saved else []
    return Screen(
        "",
        [
            Row([Avatar(name, size=64), Text(name, style="headline", lines=1, id="name")]),
            Spacer(4),
            Text(number, style="caption", selectable=True, id="number") if saved else Spacer(0),
            Spacer(16),
            Row(buttons),
            Spacer(8),
            *more,
            Item(block, "", "lock", on_tap=do(flip_blocked, number=number)),
            Section("Calls"),
            *(seen or [Item("No calls yet", icon="phone")]),
        ],
        actions=[IconButton("delete", "Delete history", opens(confirm, number=number), enabled=bool(rows))],
    )


def _length(seconds: int) -> str:
    minutes, remaining = divmod(seconds, 60)
    return f"{minutes} min {remaining} s" if minutes else f"{remaining} s"


def write_to(ctx: Context, number: str) -> None:
    """Open the conversation with a number in Messages."""
    ctx.start(MESSAGES, "thread", address=number)


def add_contact(ctx: Context, number: str) -> None:
    """Open the form of a new contact with this number."""
    if CONTACTS in ctx.phone.apps:
        ctx.start(CONTACTS, "form", phone=number)


def flip_blocked(ctx: Context, number: str) -> None:
    """Block a number, or unblock it."""
    rows = blocks_of(ctx, number)
    for row in rows:
        ctx.db.delete("blocked", row["_id"])
    if not rows:
        ctx.db.insert("blocked", number=number)
    ctx.snackbar("Number unblocked" if rows else "Number blocked")


def confirm(ctx: Context, number: str) -> Dialog:
    """Ask whether the calls with a number, or all calls for "", are deleted."""
    subject = f"All calls with {who_is(ctx, number)}" if number else "All calls"
    buttons = cancel_or("Delete", do(delete_calls, number=number), kind="danger")
    return Dialog("Delete call history?", [Text(f"{subject} will be deleted from this phone.")], buttons)


def delete_calls(ctx: Context, number: str) -> None:
    """Delete the calls with a number, or all calls for ""."""
    for row in ctx.db.rows("calls"):
        if not number or digits(str(row["number"])) == digits(number):
            ctx.db.delete("calls", row["_id"])
    ctx.snackbar("Call history deleted")


# Keypad


def keypad(ctx: Context, number: str = "") -> Screen:
    """Keys to dial, and contacts whose number or name fits."""
    typed = str(ctx.get("number", number))
    fit = [
        row for row in callable_contacts(ctx) if len(digits(typed)) > 2 and digits(typed) in digits(str(row["phone"]))
    ]
    keys: list[Widget] = [Tile(key, do(dial, key=key, first=number), kind="key") for key in "123456789*0#"]
    erase = IconButton("backspace", "Delete digit", do(erase_digit, first=number), enabled=bool(typed))
    go = Button("Call", do(call_number, number=typed), icon="phone", wide=True, enabled=bool(typed))
    plus = IconButton("add", "Plus sign", do(dial, key="+", first=number))
    return Screen(
        "Keypad",
        [_person(row) for row in fit[:3]],
        bottom=[
            Spacer(8),
            Text(typed or " ", style="headline", align="center", lines=1, id="digits"),
            Spacer(12),
            Grid(keys, columns=3, padding=28),
            Spacer(12),
            Row([plus, go, erase], padding=28),
            Spacer(12),
        ],
    )


def dial(ctx: Context, key: str, first: str) -> None:
    """Put a digit behind the others."""
    ctx.set("number", (str(ctx.get("number", first)) + key)[:24])


def erase_digit(ctx: Context, first: str) -> None:
    """Take the last digit away."""
    ctx.set("number", str(ctx.get("number", first))[:-1])


# What is rarely needed


def more(ctx: Context) -> Menu:
    """Pages that are rarely needed."""
    return Menu(
        [
            ("Blocked numbers", opens(blocked)),
            ("Quick responses", opens(responses)),
            ("Clear call history", opens(confirm, number="")),
        ]
    )


def blocked(ctx: Context) -> Screen:
    """Numbers whose calls do not ring."""
    rows: list[Widget] = [
        Item(
            who_is(ctx, str(row["number"])),
            str(row["number"]) if name_of_number(ctx, str(row["number"])) else "",
            "lock",
            end=IconButton("close", f"Unblock {row['number']}", do(flip_blocked, number=str(row["number"]))),
        )
        for row in ctx.db.rows("blocked")
    ]
    return Screen(
        "Blocked numbers",
        [
            Card([Text("Calls from these numbers do not ring.", style="caption")]),
            *(rows or [Empty("lock", "No number is blocked")]),
        ],
        fab=Fab("add", "Block a number", opens(block), "Block a number"),
    )


def block(ctx: Context) -> Dialog:
    """A field for a number."""
    buttons = cancel_or("Block", do(add_block), kind="text")
    return Dialog("Block a number", [TextField("number", "Phone number", keyboard="phone")], buttons)


def add_block(ctx: Context) -> None:
    """Block the number that was typed."""
    number = str(ctx.form["number"]).strip()
    if not digits(number):
        ctx.snackbar("Enter a phone number")
    elif not blocks_of(ctx, number):
        flip_blocked(ctx, number)


def responses(ctx: Context) -> Screen:
    """Texts with which a call can be declined."""
    rows = [
        Item(str(row["text"]), "", "chat", on_tap=opens(response, id=row["_id"])) for row in ctx.db.rows("responses")
    ]
    return Screen("Quick responses", rows)


def response(ctx: Context, id: int) -> Dialog:
    """A field for a quick response."""
    row = ctx.db.get("responses", id) or {"text": ""}
    buttons = cancel_or("OK", do(save_response, id=id), kind="text")
    return Dialog("Edit response", [TextField("text", "Response", str(row["text"]))], buttons)


def save_response(ctx: Context, id: int) -> None:
    """Write a quick response, unless it is empty."""
    text = str(ctx.form["text"]).strip()
    if text:
        ctx.db.update("responses", id, text=text)


_COLUMNS = {name: name for name in ("number", "date", "duration", "type")}

APP = App(
    package="org.turncredit.dialer",
    name="Phone",
    icon="phone",
    colour="#1e8e3e",
    activity=".Dialer",
    schema={
        "calls": {"number": str, "date": int, "duration": int, "type": int},
        "blocked": {"number": str},
        "responses": {"text": str},
        "ongoing": {"number": str, "call": int, "started": int, "muted": bool, "speaker": bool, "held": bool},
    },
    volatile=("ongoing",),
    database="/data/data/com.android.providers.contacts/databases/calllog.db",
    fill=fill,
    screens=(phone, history, keypad, call, blocked, responses, entry, more, confirm, block, response),
    intents={
        "android.intent.action.DIAL": "keypad",
        "android.intent.action.DIAL tel": "keypad",
        "android.intent.action.VIEW tel": "keypad",
        "android.intent.action.CALL tel": call_number,
    },
    receivers={"android.intent.action.PHONE_STATE": change_state},
    providers={"content://call_log/calls": Provider("calls", _COLUMNS)},
)
