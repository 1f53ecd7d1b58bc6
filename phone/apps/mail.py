"""Mail: folders, reading, moving, stars and search."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from turncredit.phone.apps.mail_writing import choose_file, compose, forward, full_name, keep, reply, write
from turncredit.phone.content.letters import COLLEAGUES, COMPANIES
from turncredit.phone.content.people import TOWNS
from turncredit.phone.content.plans import owner, people, plans
from turncredit.phone.screen.parts import format_date
from turncredit.phone.toolkit.app import App, Context, to_clock, to_datetime
from turncredit.phone.toolkit.handlers import do, keeps, opens
from turncredit.phone.toolkit.tables import Columns, Value
from turncredit.phone.toolkit.tables import Row as Record
from turncredit.phone.toolkit.widgets import (
    Avatar,
    Button,
    Column,
    Dialog,
    Divider,
    Empty,
    Fab,
    IconButton,
    Item,
    List,
    Menu,
    Row,
    Screen,
    Sheet,
    Spacer,
    Text,
    TextField,
    Widget,
    cancel_or,
)

FOLDERS: Final = {
    "Inbox": "inbox",
    "Starred": "star",
    "Sent": "send",
    "Drafts": "draft",
    "Archive": "archive",
    "Spam": "warning",
    "Trash": "delete",
}


def fill(ctx: Context) -> None:
    """Write mails of colleagues and companies, and those in which appointments were made."""
    random, me = ctx.random, owner(ctx)
    rows: list[Columns] = []

    def add(when: datetime, folder: str, name: str, address: str, subject: str, body: str, **more: Value) -> None:
        row = {"folder": folder, "name": name, "address": address, "recipient": me.email, "subject": subject}
        rows.append({**row, "body": body, "date": to_clock(when) * 1000, **more})

    agreed = [plan for plan in plans(ctx) if plan.channel == "mail"]
    others = random.shuffled([who for who in people(ctx) if who.email and who not in [plan.who for plan in agreed]])
    for plan in agreed:
        name, when = (
            full_name(plan.who.first, plan.who.last),
            ctx.now - timedelta(days=random.between(2, 6), minutes=40),
        )
        text = f"Hello {me.first},\n\n{plan.ask}\n\nBest regards\n{plan.who.first}"
        add(when, "Inbox", name, plan.who.email, plan.title, text, starred=int(random.chance(0.3)))
        later, text = when + timedelta(minutes=random.between(20, 600)), f"{plan.answer}\n\n{me.first}"
        mine = full_name(me.first, me.last)
        add(later, "Sent", mine, me.email, f"Re: {plan.title}", text, recipient=plan.who.email)
    letters = [(letter.sender, "", letter) for letter in COMPANIES]
    letters += [
        (full_name(who.first, who.last), who.email, letter)
        for who, letter in zip(others, random.shuffled(COLLEAGUES), strict=False)
    ]
    for n, (name, address, letter) in enumerate(random.shuffled(letters)):
        facts = {
            "code": f"{random.between(10000, 99999)}",
            "price": f"{random.between(12, 320)}.{random.between(10, 99)}",
            "time": f"{random.between(7, 19):02d}:{random.pick((0, 15, 30, 45)):02d}",
            "town": random.pick(TOWNS),
            "digit": random.between(2, 9),
            "use": random.between(30, 90),
            "seat": f"{random.between(1, 60)}{random.pick('ABCD')}",
        }
        when = ctx.now - timedelta(days=random.between(0, 20), minutes=random.between(5, 700))
        address = address or f"hello@{name.lower().replace(' ', '')}.example"
        body = f"Hello {me.first},\n\n{letter.body.format(**facts)}\n\nBest regards\n{name}"
        more = {"attachments": letter.attachments.format(**facts)}
        folder = "Archive" if n % 7 == 5 else "Inbox"
        add(when, folder, name, address, letter.subject.format(**facts), body, **more)
    spam = "You have been chosen! Answer within an hour to get a free coffee machine."
    add(ctx.now - timedelta(days=3), "Spam", "Prize Office", "win@prizes.example", "You won!!!", spam)
    draft = {"recipient": random.pick(others).email if others else "", "body": "I wanted to tell you that"}
    add(ctx.now - timedelta(days=1), "Drafts", full_name(me.first, me.last), me.email, "News from us", **draft)
    ctx.db.fill("mails", sorted(rows, key=lambda row: row["date"]))
    inbox = ctx.db.rows("mails", folder="Inbox")
    ctx.db.fill("unread", [{"mail": row["_id"]} for row in inbox[-9:] if random.chance(0.5)])


# Folders


def mail(ctx: Context, folder: str = "Inbox") -> Screen:
    """The mails of a folder, the newest first."""
    return _list(ctx, str(ctx.get("folder", folder)))


def _in(ctx: Context, folder: str) -> list[Record]:
    rows = ctx.db.rows("mails", order=lambda row: (-row["date"], -row["_id"]))
    if folder == "Starred":
        return [row for row in rows if row["starred"] and row["folder"] != "Trash"]
    return [row for row in rows if row["folder"] == folder]


def _list(ctx: Context, folder: str) -> Screen:
    rows = _in(ctx, folder)
    body: Widget = List(rows, lambda row: _entry(ctx, row)) if rows else Empty(FOLDERS[folder], "Nothing in here")
    return Screen(
        folder,
        [body, Spacer(84)],
        actions=[
            IconButton("search", "Search", opens(search)),
            IconButton("folder", "Folders", opens(folders)),
        ],
        fab=Fab("edit", "Compose", opens(compose), "Compose"),
        on_back=keeps("folder", "Inbox") if folder != "Inbox" else None,
    )


def _entry(ctx: Context, row: Record) -> Item:
    out = row["folder"] in ("Sent", "Drafts")
    who = f"To: {row['recipient'] or 'nobody yet'}" if out else str(row["name"])
    icon, label = ("star_full", "Remove star") if row["starred"] else ("star", "Add star")
    star = IconButton(icon, f"{label}: {row['subject']}", do(flip_star, id=row["_id"]))
    about = str(row["subject"]) or "(no subject)"
    tap, hold = do(show, id=row["_id"]), opens(commands, id=row["_id"])
    lead = str(row["recipient"] or "?") if out else str(row["name"])
    return Item(
        who,
        about,
        "",
        lead,
        _when(ctx, row["date"]),
        star,
        tap,
        hold,
        bold=bool(ctx.db.rows("unread", mail=row["_id"])),
    )


def _when(ctx: Context, date: int) -> str:
    moment = to_datetime(date // 1000)
    return f"{moment:%H:%M}" if moment.date() == ctx.today else f"{moment.day} {moment:%b}"


def folders(ctx: Context) -> Sheet:
    """All folders, with the number of mails that are not read."""
    rows: list[Widget] = []
    new = {row["mail"] for row in ctx.db.rows("unread")}
    for name, icon in FOLDERS.items():
        count = sum(row["_id"] in new for row in _in(ctx, name))
        tail = str(count) if count and name != "Starred" else ""
        rows.append(Item(name, "", icon, trailing=tail, on_tap=do(show_folder, folder=name)))
    return Sheet("Folders", rows)


def show_folder(ctx: Context, folder: str) -> None:
    """Show another folder."""
    ctx.back()
    ctx.set("folder", folder)


def search(ctx: Context) -> Screen:
    """Mails of all folders that contain a text."""
    query = str(ctx.get("query", "")).casefold().strip()
    rows = ctx.db.rows("mails", order=lambda row: (-row["date"], -row["_id"]))
    rows = [row for row in rows if query and query in _searched(row) and row["folder"] != "Trash"]
    text = "No mails found" if query else "Search senders, subjects and texts"
    body: Widget = List(rows, lambda row: _entry(ctx, row)) if rows else Empty("search", text)
    return Screen("Search", [body], top=[TextField("query", "Search mails", icon="search"), Spacer(4)])


def _searched(row: Record) -> str:
    return f"{row['name']} {row['address']} {row['recipient']} {row['subject']} {row['body']}".casefold()


def flip_star(ctx: Context, id: int) -> None:
    """Add a star to a mail, or remove it."""
    row = ctx.db.get("mails", id)
    if row:
        ctx.db.update("mails", id, starred=int(not row["starred"]))


# One mail


def show(ctx: Context, id: int) -> None:
    """Open a mail, which is then read; a draft opens for writing."""
    row = ctx.db.get("mails", id)
    if row and row["folder"] == "Drafts":
        ctx.open(compose, draft=id)
    elif row:
        _mark_read(ctx, id)
        ctx.open(message, id=id)


def _mark_read(ctx: Context, id: int) -> bool:
    """Mark a mail as read, and return whether it was not."""
    rows = ctx.db.rows("unread", mail=id)
    for row in rows:
        ctx.db.delete("unread", row["_id"])
    return bool(rows)


def message(ctx: Context, id: int) -> Screen:
    """One mail."""
    row = ctx.db.get("mails", id)
    if row is None:
        return Screen("", [Empty("mail", "This mail was deleted")])
    when = to_datetime(row["date"] // 1000)
    names = [name for name in str(row["attachments"]).split(", ") if name]
    head = Row(
        [
            Avatar(str(row["name"])),
            Column(
                [
                    Text(str(row["name"]), style="subtitle", id="sender"),
                    Text(str(row["address"]), style="caption", selectable=True, id="sender_address"),
                ]
            ),
        ],
        gap=12,
    )
    star = "Remove star" if row["starred"] else "Add star"
    return Screen(
        "",
        [
            Text(str(row["subject"]) or "(no subject)", style="headline", id="subject"),
            Spacer(12),
            head,
            Spacer(8),
            Text(f"To {row['recipient']}", style="caption", id="recipient"),
            Text(f"{format_date(when.date().isoformat())}, {when:%H:%M}", style="caption", id="date"),
            Spacer(8),
            Divider(),
            Spacer(8),
            Text(str(row["body"]), selectable=True, id="body"),
            Spacer(16),
            *[Item(name, "Attachment", "attach", id="attachment") for name in names],
        ],
        actions=[
            IconButton("star_full" if row["starred"] else "star", star, do(flip_star, id=id)),
            IconButton("archive", "Archive", do(move, id=id, folder="Archive")),
            IconButton("delete", "Delete", do(move, id=id, folder="Trash")),
            IconButton("more", "More options", opens(commands, id=id)),
        ],
        bottom=[
            Row(
                [
                    Button("Reply", do(reply, id=id), kind="tonal", icon="reply", wide=True),
                    Button("Forward", do(forward, id=id), kind="tonal", icon="right", wide=True),
                ]
            ),
            Spacer(8),
        ],
    )


def commands(ctx: Context, id: int) -> Menu:
    """Mark, move or delete a mail."""
    row = ctx.db.get("mails", id) or {"folder": ""}
    moves = [
        (f"Move to {name}", do(move, id=id, folder=name))
        for name in ("Inbox", "Archive", "Spam", "Trash")
        if name != row["folder"]
    ]
    mark = "Mark as read" if ctx.db.rows("unread", mail=id) else "Mark as unread"
    gone = [("Delete forever", opens(confirm, id=id))] if row["folder"] in ("Trash", "Drafts") else []
    return Menu([(mark, do(flip_read, id=id)), *moves, *gone])


def flip_read(ctx: Context, id: int) -> None:
    """Mark a mail as read or unread."""
    if not _mark_read(ctx, id):
        ctx.db.insert("unread", mail=id)
    _close(ctx)


def _close(ctx: Context) -> None:
    """Leave the page of a mail, if it is in front."""
    if ctx.phone.page.screen == "message":
        ctx.back()


def move(ctx: Context, id: int, folder: str) -> None:
    """Put a mail into a folder."""
    ctx.db.update("mails", id, folder=folder)
    _close(ctx)
    ctx.snackbar(f"Moved to {folder}")


def confirm(ctx: Context, id: int) -> Dialog:
    """Ask whether a mail is deleted forever."""
    buttons = cancel_or("Delete", do(delete, id=id), kind="danger")
    return Dialog("Delete this mail forever?", buttons=buttons)


def delete(ctx: Context, id: int) -> None:
    """Delete a mail."""
    ctx.db.delete("mails", id)
    _close(ctx)
    ctx.snackbar("Mail deleted")


APP = App(
    package="org.turncredit.mail",
    name="Mail",
    icon="mail",
    colour="#c5221f",
    schema={
        "mails": {
            "folder": str,
            "name": str,
            "address": str,
            "recipient": str,
            "subject": str,
            "body": str,
            "date": int,
            "starred": bool,
            "attachments": str,
        },
        "unread": {"mail": int},
    },
    volatile=("unread",),
    database="/data/data/org.turncredit.mail/databases/EmailProvider.db",
    fill=fill,
    screens=(mail, search, message, compose, folders, commands, choose_file, confirm, keep),
    intents={
        "android.intent.action.SENDTO mailto": write,
        "android.intent.action.VIEW mailto": write,
        "android.intent.action.SEND": write,
        "android.intent.action.SEND message/rfc822": write,
    },
)
