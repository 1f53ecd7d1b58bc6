"""Calls of Phone: the call screen, calls that come in, and what answers, ends or declines them.

Nobody answers but this phone's clock: a call that is made is connected after a few seconds of it. `ring(ctx, number)`
is what a call from outside calls.
"""

from __future__ import annotations

from typing import Final

from turncredit.phone.content.plans import CONTACTS, digits, name_of_number
from turncredit.phone.toolkit.app import Context, to_clock
from turncredit.phone.toolkit.handlers import do, keeps, opens
from turncredit.phone.toolkit.tables import Columns
from turncredit.phone.toolkit.tables import Row as Record
from turncredit.phone.toolkit.widgets import (
    Avatar,
    Button,
    Empty,
    Grid,
    Item,
    Row,
    Screen,
    Section,
    Spacer,
    Text,
    Tile,
    Widget,
)

INCOMING, OUTGOING, MISSED, REJECTED = 1, 2, 3, 5
"""Types of calls, as in Android's call log."""

MESSAGES: Final = "org.turncredit.messages"


def who_is(ctx: Context, number: str) -> str:
    """Return the name of the contact with a number, or the number."""
    return name_of_number(ctx, number) or number


def callable_contacts(ctx: Context) -> list[Record]:
    """Return the contacts that have a number, by name."""
    if CONTACTS not in ctx.phone.apps:
        return []
    rows = ctx.of(CONTACTS).rows("contacts", order=lambda row: (row["first"].casefold(), row["last"].casefold()))
    return [row for row in rows if row["phone"]]


def blocks_of(ctx: Context, number: str) -> list[Record]:
    """Return the rows that block a number."""
    return [row for row in ctx.db.rows("blocked") if digits(str(row["number"])) == digits(number)]


def ongoing_call(ctx: Context) -> Record | None:
    """Return the call that goes on, if any."""
    return next(iter(ctx.db.rows("ongoing")), None)


def call_number(ctx: Context, number: str = "") -> None:
    """Call a number; a call at a time. Without a number the keypad asks for it."""
    if not number:
        ctx.open_named("keypad", ())
        return
    if ongoing_call(ctx):
        ctx.snackbar("There is a call already")
        return
    saved = next(
        (str(row["phone"]) for row in callable_contacts(ctx) if digits(str(row["phone"])) == digits(number)), number
    )
    clock = to_clock(ctx.now)
    log = ctx.db.insert("calls", number=saved, date=clock * 1000, duration=0, type=OUTGOING)
    ctx.db.insert("ongoing", number=saved, call=log, started=0)
    ctx.later(4, do(connect, call=log))
    ctx.open(call)


def connect(ctx: Context, call: int) -> None:
    """Let the other side answer."""
    row = ongoing_call(ctx)
    if row and row["call"] == call and not row["started"]:
        ctx.db.update("ongoing", row["_id"], started=to_clock(ctx.now))


def call(ctx: Context) -> Screen:
    """The call that goes on."""
    row = ongoing_call(ctx)
    if row is None:
        return Screen("", [Empty("phone", "The call has ended")])
    name = who_is(ctx, str(row["number"]))
    log = ctx.db.get("calls", row["call"])
    waits = log is not None and log["type"] == MISSED and not row["started"]
    seconds = to_clock(ctx.now) - row["started"]
    state = f"{seconds // 60:02d}:{seconds % 60:02d}" if row["started"] else "Incoming call" if waits else "Calling..."
    tools: list[Widget] = [
        Tile("Mute", do(flip, column="muted"), "mic", kind="toggle", selected=bool(row["muted"])),
        Tile("Speaker", do(flip, column="speaker"), "volume", kind="toggle", selected=bool(row["speaker"])),
        Tile("Hold", do(flip, column="held"), "pause", kind="toggle", selected=bool(row["held"])),
    ]
    end = [Button("End call", do(hang_up), kind="danger", icon="phone", wide=True)]
    answer = [
        Button("Decline", do(decline), kind="danger", wide=True),
        Button("Answer", do(answer_call), icon="phone", wide=True),
    ]
    quick = [Item(str(r["text"]), "", "chat", on_tap=do(respond, id=r["_id"])) for r in ctx.db.rows("responses")]
    return Screen(
        "",
        [
            Spacer(32),
            Row([Spacer(0), Avatar(name, size=112), Spacer(0)]),
            Spacer(24),
            Text(name, style="headline", align="center", id="caller"),
            Text(state, style="caption", align="center", id="call_state"),
            Spacer(32),
            *([Section("Decline with a message"), *quick] if waits else [Grid(tools, columns=2)]),
        ],
        bottom=[Row(answer if waits else end), Spacer(24)],
    )


def flip(ctx: Context, column: str) -> None:
    """Turn mute, speaker or hold on or off."""
    row = ongoing_call(ctx)
    if row:
        ctx.db.update("ongoing", row["_id"], **{column: int(not row[column])})


def hang_up(ctx: Context) -> None:
    """End the call."""
    row = ongoing_call(ctx)
    if row:
        length = to_clock(ctx.now) - row["started"] if row["started"] else 0
        ctx.db.update("calls", row["call"], duration=length)
        ctx.db.delete("ongoing", row["_id"])
    ctx.cancel("call")
    if ctx.phone.page.screen == "call":
        ctx.back()
    ctx.snackbar("Call ended")


def ring(ctx: Context, number: str) -> None:
    """Let a call come in, unless its number is blocked; it counts as missed until it is answered."""
    if blocks_of(ctx, number) or ongoing_call(ctx):
        return
    log = ctx.db.insert("calls", number=number, date=to_clock(ctx.now) * 1000, duration=0, type=MISSED)
    ctx.db.insert("ongoing", number=number, call=log, started=0)
    ctx.notify("Incoming call", who_is(ctx, number), opens(call), tag="call")
    ctx.later(30, do(give_up, call=log))


def give_up(ctx: Context, call: int) -> None:
    """End a call that nobody has answered."""
    row = ongoing_call(ctx)
    if row and row["call"] == call and not row["started"]:
        ctx.db.delete("ongoing", row["_id"])
        ctx.notify("Missed call", who_is(ctx, str(row["number"])), keeps("tab", "Recents"), tag="call")


def answer_call(ctx: Context) -> None:
    """Take the call that comes in."""
    row = ongoing_call(ctx)
    if row:
        ctx.db.update("ongoing", row["_id"], started=to_clock(ctx.now))
        ctx.db.update("calls", row["call"], type=INCOMING)


def decline(ctx: Context) -> None:
    """Refuse the call that comes in."""
    row = ongoing_call(ctx)
    if row:
        ctx.db.update("calls", row["call"], type=REJECTED)
    hang_up(ctx)


def respond(ctx: Context, id: int) -> None:
    """Refuse the call with a message."""
    row, response = ongoing_call(ctx), ctx.db.get("responses", id)
    if row and response and MESSAGES in ctx.phone.apps:
        sent: Columns = {"body": str(response["text"]), "date": to_clock(ctx.now) * 1000, "type": 2}
        ctx.of(MESSAGES).insert("sms", address=str(row["number"]), **sent)
    decline(ctx)


def change_state(ctx: Context, state: str, number: str) -> None:
    """Take a call from outside, or its end."""
    if state == "RINGING":
        ring(ctx, number)
    elif state == "IDLE":
        hang_up(ctx)
