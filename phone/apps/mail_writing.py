"""Writing in Mail: new mails, replies and forwarding, attachments by their names, and drafts."""

from __future__ import annotations

from turncredit.phone.content.plans import CONTACTS, owner
from turncredit.phone.toolkit.app import Context, to_clock
from turncredit.phone.toolkit.handlers import do, keeps, opens
from turncredit.phone.toolkit.tables import Columns
from turncredit.phone.toolkit.widgets import Button, Dialog, IconButton, Item, Screen, Sheet, TextField, Widget


def full_name(first: str, last: str) -> str:
    """Return a first and a last name as one, either of which may be missing."""
    return f"{first} {last}".strip()


def reply(ctx: Context, id: int) -> None:
    """Write to the sender of a mail."""
    row = ctx.db.get("mails", id)
    if row:
        subject = str(row["subject"])
        sent = row["folder"] == "Sent"
        to = str(row["recipient"] if sent else row["address"])
        ctx.open(compose, recipient=to, subject=subject if subject.startswith("Re: ") else f"Re: {subject}")


def forward(ctx: Context, id: int) -> None:
    """Send a mail on to somebody, with its attachments."""
    row = ctx.db.get("mails", id)
    if row:
        content = {"body": str(row["body"]), "attachments": str(row["attachments"])}
        ctx.open(compose, subject=f"Fwd: {row['subject']}", **content)


def write(ctx: Context, to: str = "", email: str = "", subject: str = "", body: str = "", text: str = "") -> None:
    """Open the form of a new mail with what another app gives."""
    ctx.open(compose, recipient=to or email, subject=subject, body=body or text)


def compose(
    ctx: Context, draft: int = 0, recipient: str = "", subject: str = "", body: str = "", attachments: str = ""
) -> Screen:
    """The form of a mail that is being written."""
    blank = {"recipient": recipient, "subject": subject, "body": body, "attachments": attachments}
    row = ctx.db.get("mails", draft) or blank
    files = str(ctx.get("attachments", row["attachments"]))
    to = str(ctx.get("recipient", row["recipient"]))
    names = [name for name in files.split(", ") if name]
    return Screen(
        "Compose",
        [
            TextField("recipient", "To", to, keyboard="email", icon="person"),
            *_suggestions(ctx, to),
            TextField("subject", "Subject", str(row["subject"])),
            TextField("body", "Write your mail", str(row["body"]), multiline=True),
            *[
                Item(
                    name,
                    "Attachment",
                    "attach",
                    end=IconButton("close", f"Remove {name}", do(detach, name=name, attached=files)),
                )
                for name in names
            ],
        ],
        up_icon="close",
        actions=[
            IconButton("attach", "Attach file", opens(choose_file, attached=files)),
            IconButton("send", "Send", do(send, draft=draft, attached=files), colour="primary"),
        ],
        on_back=do(leave, draft=draft, attached=files),
    )


def _suggestions(ctx: Context, typed: str) -> list[Widget]:
    query = typed.strip().casefold()
    if len(query) < 2 or CONTACTS not in ctx.phone.apps:
        return []
    rows = ctx.of(CONTACTS).rows("contacts", order=lambda row: (row["first"].casefold(), row["last"].casefold()))
    suggestions: list[Widget] = []
    for row in rows:
        name = full_name(str(row["first"]), str(row["last"]))
        if row["email"] and query in f"{name} {row['email']}".casefold() and query != str(row["email"]).casefold():
            suggestions.append(Item(name, str(row["email"]), "", name, on_tap=keeps("recipient", str(row["email"]))))
    return suggestions[:3]


def choose_file(ctx: Context, attached: str) -> Sheet:
    """The files of the storage, newest first."""
    names = [path for path in ctx.files("/sdcard") if path.rsplit("/", 1)[-1] not in attached.split(", ")]
    names.sort(key=lambda path: -ctx.phone.files[path].modified)
    rows: list[Widget] = [
        Item(path.rsplit("/", 1)[-1], path.rsplit("/", 1)[0], "file", on_tap=do(attach, path=path, attached=attached))
        for path in names
    ]
    return Sheet("Attach a file", rows or [Item("There are no files", icon="file")])


def attach(ctx: Context, path: str, attached: str) -> None:
    """Attach a file by its name."""
    ctx.back()
    ctx.set("attachments", ", ".join([*[name for name in attached.split(", ") if name], path.rsplit("/", 1)[-1]]))


def detach(ctx: Context, name: str, attached: str) -> None:
    """Take an attachment away."""
    ctx.set("attachments", ", ".join(other for other in attached.split(", ") if other not in ("", name)))


def _written(ctx: Context, attached: str) -> dict[str, str]:
    values = {name: str(ctx.form[name]).strip() for name in ("recipient", "subject", "body")}
    return {**values, "attachments": attached}


def _store(ctx: Context, draft: int, folder: str, values: dict[str, str]) -> None:
    me = owner(ctx)
    row: Columns = {**values, "folder": folder, "name": full_name(me.first, me.last), "address": me.email}
    row |= {"date": to_clock(ctx.now) * 1000}
    if draft:
        ctx.db.update("mails", draft, **row)
    else:
        ctx.db.insert("mails", **row)


def send(ctx: Context, draft: int, attached: str) -> None:
    """Send the mail, if somebody is named who can get it."""
    values = _written(ctx, attached)
    if "@" not in values["recipient"]:
        ctx.snackbar("Enter a mail address")
        return
    _store(ctx, draft, "Sent", values)
    ctx.back()
    ctx.snackbar("Sent")


def leave(ctx: Context, draft: int, attached: str) -> None:
    """Close the form; what was written is asked about."""
    values = _written(ctx, attached)
    row = ctx.db.get("mails", draft) or dict(ctx.phone.page.params)
    if all(values[name] == str(row.get(name, "")).strip() for name in values):
        ctx.back()
    else:
        ctx.open(keep, draft=draft, attached=attached)


def keep(ctx: Context, draft: int, attached: str) -> Dialog:
    """Ask whether a mail is kept as a draft."""
    stored = do(save_draft, draft=draft, attached=attached)
    buttons = [
        Button("Keep editing", None, kind="text"),
        Button("Discard", do(drop), kind="text"),
        Button("Save draft", stored, kind="text"),
    ]
    return Dialog("Save this mail as a draft?", buttons=buttons)


def save_draft(ctx: Context, draft: int, attached: str) -> None:
    """Keep the mail among the drafts."""
    from turncredit.phone.toolkit.forms import form_values

    shown = form_values(ctx.phone.frame.window, ctx.phone.page.values)
    values = {name: str(shown[name]).strip() for name in ("recipient", "subject", "body")}
    _store(ctx, draft, "Drafts", {**values, "attachments": attached})
    ctx.back()
    ctx.snackbar("Draft saved")


def drop(ctx: Context) -> None:
    """Close the form."""
    ctx.back()
