"""Messages: conversations with contacts and strangers, drafts, scheduled messages, an archive, and search.

`receive(ctx, address, body)` is what a message from outside calls.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from turncredit.phone.content.chats import SERVICES, TALKS
from turncredit.phone.content.people import STREETS
from turncredit.phone.content.plans import CONTACTS, digits, name_of_number, people, plans
from turncredit.phone.screen.parts import format_date
from turncredit.phone.toolkit.app import App, Context, Provider, to_clock, to_datetime
from turncredit.phone.toolkit.handlers import do, keeps, opens
from turncredit.phone.toolkit.tables import Columns
from turncredit.phone.toolkit.tables import Row as Record
from turncredit.phone.toolkit.widgets import (
    Bubble,
    DateField,
    Dialog,
    Empty,
    Fab,
    IconButton,
    Item,
    List,
    Menu,
    Row,
    Screen,
    Spacer,
    Tab,
    Text,
    TextField,
    TimeField,
    Widget,
    cancel_or,
)

INBOX, SENT, DRAFT, QUEUED = 1, 2, 3, 6
"""Types of messages, as in Android's table of them."""

_PHONE: Final = "org.turncredit.dialer"


def fill(ctx: Context) -> None:
    """Write what was agreed on with contacts, small talk, and messages of services, over the last two weeks."""
    random = ctx.random
    messages: list[Columns] = []
    new: list[tuple[int, str]] = []

    def say(when: datetime, address: str, body: str, kind: int, read: bool = True) -> None:
        date = to_clock(when) * 1000
        messages.append({"address": address, "body": body, "date": date, "type": kind})
        if not read:
            new.append((date, body))

    agreed = [plan for plan in plans(ctx) if plan.channel == "sms"]
    others = random.shuffled([who for who in people(ctx) if who not in [plan.who for plan in agreed]])
    for plan in agreed:
        when = ctx.now - timedelta(days=random.between(1, 6), minutes=random.between(0, 600))
        say(when, plan.who.phone, plan.ask, INBOX)
        say(when + timedelta(minutes=random.between(2, 90)), plan.who.phone, plan.answer, SENT)
    for who, talk in zip(others, random.shuffled(TALKS)[:8], strict=False):
        when = ctx.now - timedelta(days=random.between(0, 12), minutes=random.between(120, 700))
        facts = {
            "street": f"{random.between(2, 90)} {random.pick(STREETS)}",
            "code": f"{random.between(1000, 9999)}",
            "price": f"{random.between(8, 60)}",
            "time": f"{random.between(7, 19):02d}:{random.pick((0, 15, 30, 45)):02d}",
        }
        for n, line in enumerate(talk):
            mine = line.startswith("> ")
            last = n == len(talk) - 1
            say(when, who.phone, line.removeprefix("> ").format(**facts), SENT if mine else INBOX, not last or mine)
            when += timedelta(minutes=random.between(1, 25))
    for number, body in SERVICES:
        when = ctx.now - timedelta(days=random.between(0, 9), minutes=random.between(30, 900))
        facts = {"code": f"{random.between(100000, 999999)}", "price": f"{random.between(12, 240)}.90"}
        say(when, number, body.format(**facts), INBOX, random.chance(0.6))
    ctx.db.fill("sms", sorted(messages, key=lambda row: row["date"]))
    ctx.db.fill("unread", [{"sms": row["_id"]} for row in ctx.db.rows("sms") if (row["date"], row["body"]) in new])
    if len(others) > 8:
        ctx.db.insert("archived", address=others[0].phone)


# Conversations


def _last(ctx: Context) -> list[Record]:
    """Return the latest message of each conversation, the newest first."""
    latest: dict[str, Record] = {}
    for row in ctx.db.rows("sms", order=_order):
        latest[digits(str(row["address"])) or str(row["address"])] = row
    return sorted(latest.values(), key=_order, reverse=True)


def _order(row: Record) -> tuple[int, int]:
    return int(row["date"]), int(row["_id"])


def _same(number: str, other: str) -> bool:
    return (digits(number) or number) == (digits(other) or other)


def _thread(ctx: Context, address: str) -> list[Record]:
    return [row for row in ctx.db.rows("sms", order=_order) if _same(str(row["address"]), address)]


def _archived(ctx: Context, address: str) -> list[Record]:
    return [row for row in ctx.db.rows("archived") if _same(str(row["address"]), address)]


def who_is(ctx: Context, address: str) -> str:
    """Return the name of the contact with a number, or the number."""
    return name_of_number(ctx, address) or address


def messages(ctx: Context) -> Screen:
    """All conversations by their latest message, or those of the archive."""
    tab = str(ctx.get("tab", "all"))
    hidden = {digits(str(row["address"])) or str(row["address"]) for row in ctx.db.rows("archived")}
    rows = [row for row in _last(ctx) if ((digits(str(row["address"])) or row["address"]) in hidden) == (tab != "all")]
    ids = {row["sms"] for row in ctx.db.rows("unread")}
    unread = {digits(str(row["address"])) or row["address"] for row in ctx.db.rows("sms") if row["_id"] in ids}
    empty = Empty("chat", "No conversations") if tab == "all" else Empty("archive", "Nothing is archived")
    body = List(rows, lambda row: _conversation(ctx, row, (digits(str(row["address"])) or row["address"]) in unread))
    return Screen(
        "Messages",
        [body if rows else empty, Spacer(80)],
        actions=[IconButton("search", "Search", opens(search))],
        bar=[
            Tab("Conversations", keeps("tab", "all"), tab == "all", "chat"),
            Tab("Archive", keeps("tab", "archive"), tab == "archive", "archive"),
        ],
        fab=Fab("edit", "Start chat", opens(recipient), "Start chat"),
    )


def _conversation(ctx: Context, row: Record, new: bool) -> Item:
    address = str(row["address"])
    name = who_is(ctx, address)
    lead = {SENT: "You: ", DRAFT: "Draft: ", QUEUED: "Scheduled: "}.get(row["type"], "")
    tap, hold = do(show_thread, address=address), opens(commands, address=address)
    when = "" if row["type"] == DRAFT else _when(ctx, row["date"])
    return Item(name, f"{lead}{row['body']}", "", name, when, on_tap=tap, on_long_press=hold, bold=new)


def _when(ctx: Context, date: int) -> str:
    moment = to_datetime(date // 1000)
    if moment.date() == ctx.today:
        return f"{moment:%H:%M}"
    return f"{moment:%a}" if 0 < (ctx.today - moment.date()).days < 7 else f"{moment.day} {moment:%b}"


def commands(ctx: Context, address: str) -> Menu:
    """Archive, mark and delete a conversation."""
    unread = _unread(ctx, address)
    away = _archived(ctx, address)
    return Menu(
        [
            ("Unarchive" if away else "Archive", do(flip_archived, address=address)),
            ("Mark as read" if unread else "Mark as unread", do(flip_read, address=address)),
            ("Delete conversation", opens(confirm, address=address)),
        ]
    )


def flip_archived(ctx: Context, address: str) -> None:
    """Put a conversation into the archive, or take it out."""
    away = _archived(ctx, address)
    for row in away:
        ctx.db.delete("archived", row["_id"])
    if not away:
        ctx.db.insert("archived", address=address)
    if ctx.phone.page.screen == "thread":
        ctx.back()
    ctx.snackbar("Conversation unarchived" if away else "Conversation archived")


def flip_read(ctx: Context, address: str) -> None:
    """Mark a conversation as read, or its last message as unread."""
    received = [row for row in _thread(ctx, address) if row["type"] == INBOX]
    if _unread(ctx, address):
        _mark_read(ctx, address)
    elif received:
        ctx.db.insert("unread", sms=received[-1]["_id"])


def _unread(ctx: Context, address: str) -> list[Record]:
    ids = {row["_id"] for row in _thread(ctx, address)}
    return [row for row in ctx.db.rows("unread") if row["sms"] in ids]


def _mark_read(ctx: Context, address: str) -> None:
    for row in _unread(ctx, address):
        ctx.db.delete("unread", row["_id"])


def confirm(ctx: Context, address: str) -> Dialog:
    """Ask whether a conversation is deleted."""
    buttons = cancel_or("Delete", do(delete, address=address), kind="danger")
    text = f"All messages with {who_is(ctx, address)} will be deleted from this phone."
    return Dialog("Delete this conversation?", [Text(text)], buttons)


def delete(ctx: Context, address: str) -> None:
    """Delete all messages of a conversation."""
    _mark_read(ctx, address)
    for row in _thread(ctx, address):
        ctx.db.delete("sms", row["_id"])
    for row in _archived(ctx, address):
        ctx.db.delete("archived", row["_id"])
    if ctx.phone.page.screen == "thread":
        ctx.back()
    ctx.snackbar("Conversation deleted")


# Search


def search(ctx: Context) -> Screen:
    """Messages that contain a text, the newest first."""
    query = str(ctx.get("query", "")).casefold().strip()
    rows = [row for row in ctx.db.rows("sms", order=_order) if query and query in _searched(ctx, row)][::-1]
    text = "No messages found" if query else "Search names and messages"
    body: Widget = List(rows, lambda row: _conversation(ctx, row, False)) if rows else Empty("search", text)
    return Screen("Search", [body], top=[TextField("query", "Search messages", icon="search"), Spacer(4)])


def _searched(ctx: Context, row: Record) -> str:
    return f"{row['body']} {who_is(ctx, str(row['address']))} {row['address']}".casefold()


# A new conversation


def recipient(ctx: Context, forwarded: str = "") -> Screen:
    """Contacts that match what is typed, and the number itself."""
    query = str(ctx.get("to", "")).strip()
    rows: list[Record] = []
    if CONTACTS in ctx.phone.apps:
        rows = ctx.of(CONTACTS).rows("contacts", order=lambda row: (row["first"].casefold(), row["last"].casefold()))
        rows = [row for row in rows if row["phone"] and _matches(row, query)]

    def item(row: Record) -> Item:
        name = f"{row['first']} {row['last']}".strip() or str(row["phone"])
        tap = do(choose, address=str(row["phone"]), forwarded=forwarded)
        return Item(name, f"{row['phone']} \u00b7 {row['label']}", "", name, on_tap=tap)

    number = sum(character.isdigit() for character in query) >= 3 and not any(c.isalpha() for c in query)
    tap = do(choose, address=query, forwarded=forwarded)
    typed = [Item(f"Send to {query}", "", "phone", on_tap=tap)] if number else []
    body: list[Widget] = [*typed, List(rows, item)] if rows else list(typed)
    return Screen(
        "Forward to" if forwarded else "New conversation",
        body or [Empty("person", "No contacts found. Type a phone number.")],
        top=[TextField("to", "To", hint="Name or phone number", icon="person"), Spacer(4)],
    )


def _matches(row: Record, query: str) -> bool:
    number = digits(query)
    name = f"{row['first']} {row['last']}".casefold()
    return query.casefold() in name or bool(number and number in digits(str(row["phone"])))


def choose(ctx: Context, address: str, forwarded: str) -> None:
    """Open the conversation with somebody."""
    same = [row for row in _thread(ctx, address) if row["address"]]
    number = next((row["phone"] for row in _contacts(ctx) if _same(str(row["phone"]), address)), address)
    ctx.replace(thread, address=str(same[0]["address"]) if same else str(number), text=forwarded)


def write(ctx: Context, address: str = "", sms_body: str = "", body: str = "") -> None:
    """Open the conversation with somebody whom another app names, with the text typed."""
    ctx.open(recipient, forwarded=sms_body or body)
    if address:
        choose(ctx, address, sms_body or body)


def share(ctx: Context, text: str = "") -> None:
    """Choose who gets a text of another app."""
    ctx.open(recipient, forwarded=text)


def _contacts(ctx: Context) -> list[Record]:
    return ctx.of(CONTACTS).rows("contacts") if CONTACTS in ctx.phone.apps else []


# One conversation


def show_thread(ctx: Context, address: str) -> None:
    """Open a conversation, whose messages are then read."""
    _mark_read(ctx, address)
    ctx.cancel(f"sms {digits(address)}")
    ctx.open(thread, address=address)


def thread(ctx: Context, address: str, text: str = "") -> Screen:
    """The messages of one conversation, and the field for a new one."""
    rows = _thread(ctx, address)
    draft = next((str(row["body"]) for row in reversed(rows) if row["type"] == DRAFT), text)
    body: list[Widget] = []
    day = None
    for row in rows:
        if row["type"] == DRAFT:
            continue
        moment = to_datetime(row["date"] // 1000)
        if moment.date() != day:
            day = moment.date()
            heading = "Today" if day == ctx.today else format_date(day.isoformat())
            body += [Spacer(8), Text(heading, style="caption", align="center"), Spacer(4)]
        detail = f"Scheduled for {moment:%H:%M}" if row["type"] == QUEUED else f"{moment:%H:%M}"
        body.append(Bubble(str(row["body"]), row["type"] != INBOX, detail, opens(message, id=row["_id"])))
    send_button = IconButton("send", "Send", do(send, address=address), colour="primary")
    clock = IconButton("clock", "Schedule send", do(ask_time, address=address))
    call = [IconButton("phone", "Call", do(call_number, address=address))] if _PHONE in ctx.phone.apps else []
    return Screen(
        who_is(ctx, address),
        body or [Empty("chat", f"Write the first message to {who_is(ctx, address)}")],
        actions=[*call, IconButton("more", "More options", opens(commands, address=address))],
        bottom=[Row([TextField("message", "Text message", draft), clock, send_button], gap=0, padding=0)],
        from_end=bool(body),
        on_back=do(leave, address=address),
    )


def call_number(ctx: Context, address: str) -> None:
    """Open the Phone app with the number typed."""
    ctx.start(_PHONE, "keypad", number=address)


def _drop_draft(ctx: Context, address: str) -> None:
    for row in _thread(ctx, address):
        if row["type"] == DRAFT:
            ctx.db.delete("sms", row["_id"])


def leave(ctx: Context, address: str) -> None:
    """Close the conversation; what was typed and not sent is kept as its draft."""
    text = str(ctx.form["message"]).strip()
    drafts = [row for row in _thread(ctx, address) if row["type"] == DRAFT]
    if [row["body"] for row in drafts] != ([text] if text else []):
        _drop_draft(ctx, address)
        if text:
            _write(ctx, address, text, DRAFT, to_clock(ctx.now))
    ctx.back()


def _write(ctx: Context, address: str, text: str, kind: int, when: int) -> int:
    return ctx.db.insert("sms", address=address, body=text, date=when * 1000, type=kind)


def send(ctx: Context, address: str) -> None:
    """Send what was typed, if there is anything."""
    text = str(ctx.form["message"]).strip()
    if not text:
        return
    _drop_draft(ctx, address)
    _write(ctx, address, text, SENT, to_clock(ctx.now))
    for row in _archived(ctx, address):
        ctx.db.delete("archived", row["_id"])
    ctx.replace(thread, address=address)


def ask_time(ctx: Context, address: str) -> None:
    """Ask when the message is to be sent."""
    text = str(ctx.form["message"]).strip()
    if text:
        ctx.open(schedule, address=address, text=text)
    else:
        ctx.snackbar("Write the message first")


def schedule(ctx: Context, address: str, text: str) -> Dialog:
    """Date and time of a message that is sent later."""
    tomorrow = (ctx.today + timedelta(days=1)).isoformat()
    return Dialog(
        "Schedule message",
        [Text(text, style="caption", lines=3), DateField("day", "Date", tomorrow), TimeField("time", "Time", "08:00")],
        cancel_or("Schedule", do(put_off, address=address, text=text), kind="text"),
    )


def put_off(ctx: Context, address: str, text: str) -> None:
    """Let a message be sent at a later time."""
    when = to_clock(datetime.fromisoformat(f"{ctx.form['day']} {ctx.form['time']}"))
    if when <= to_clock(ctx.now):
        ctx.snackbar("This time is over")
        return
    _drop_draft(ctx, address)
    key = _write(ctx, address, text, QUEUED, when)
    ctx.later(when - to_clock(ctx.now), do(send_queued, id=key))
    ctx.replace(thread, address=address)


def send_queued(ctx: Context, id: int) -> None:
    """Send a message whose time has come."""
    row = ctx.db.get("sms", id)
    if row and row["type"] == QUEUED:
        ctx.db.update("sms", id, type=SENT)


# One message


def message(ctx: Context, id: int) -> Menu:
    """Copy, forward, resend or delete a message."""
    row = ctx.db.get("sms", id)
    again = [("Resend", do(resend, id=id))] if row and row["type"] == SENT else []
    first = [("Send now", do(send_now, id=id))] if row and row["type"] == QUEUED else []
    shared = [("Copy text", do(copy, id=id)), ("Forward", do(forward, id=id))]
    return Menu([*first, *shared, *again, ("Delete message", do(delete_message, id=id))])


def copy(ctx: Context, id: int) -> None:
    """Put a message on the clipboard."""
    row = ctx.db.get("sms", id)
    if row:
        ctx.copy(str(row["body"]))
        ctx.snackbar("Copied")


def forward(ctx: Context, id: int) -> None:
    """Choose to whom a message is forwarded."""
    row = ctx.db.get("sms", id)
    if row:
        ctx.open(recipient, forwarded=str(row["body"]))


def resend(ctx: Context, id: int) -> None:
    """Send a message once more."""
    row = ctx.db.get("sms", id)
    if row:
        _write(ctx, str(row["address"]), str(row["body"]), SENT, to_clock(ctx.now))


def send_now(ctx: Context, id: int) -> None:
    """Send a scheduled message at once."""
    row = ctx.db.get("sms", id)
    if row:
        ctx.db.update("sms", id, type=SENT, date=to_clock(ctx.now) * 1000)


def delete_message(ctx: Context, id: int) -> None:
    """Delete one message."""
    ctx.db.delete("sms", id)
    ctx.snackbar("Message deleted")


def receive(ctx: Context, address: str, body: str) -> None:
    """Take a message from outside: it stands in its conversation, and is announced."""
    same = _thread(ctx, address)
    sender = str(same[0]["address"]) if same else address
    key = ctx.db.insert("sms", address=sender, body=body, date=to_clock(ctx.now) * 1000, type=INBOX)
    ctx.db.insert("unread", sms=key)
    ctx.notify(who_is(ctx, sender), body, do(show_thread, address=sender), tag=f"sms {digits(sender)}")


_COLUMNS = {name: name for name in ("address", "body", "date", "type")}
_BOXES: dict[str, dict[str, int]] = {"": {}, "/inbox": {"type": INBOX}, "/sent": {"type": SENT}}
_PROVIDERS = {f"content://sms{box}": Provider("sms", _COLUMNS, where) for box, where in _BOXES.items()}

APP = App(
    package="org.turncredit.messages",
    name="Messages",
    icon="chat",
    colour="#0b57d0",
    schema={
        "sms": {"address": str, "body": str, "date": int, "type": int},
        "archived": {"address": str},
        "unread": {"sms": int},
    },
    volatile=("unread",),
    database="/data/data/com.android.providers.telephony/databases/mmssms.db",
    fill=fill,
    screens=(messages, search, recipient, thread, commands, message, schedule, confirm),
    intents={
        **{
            f"android.intent.action.{verb} {scheme}": write
            for verb in ("SENDTO", "VIEW")
            for scheme in ("sms", "smsto")
        },
        "android.intent.action.SEND text/plain": share,
    },
    receivers={"android.provider.Telephony.SMS_RECEIVED": receive},
    providers=_PROVIDERS,
)
