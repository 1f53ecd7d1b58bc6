"""Tasks of Mail."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from turncredit.envs.android.elements import ScreenElement
from turncredit.envs.android.tasks.contacts import PACKAGE as CONTACTS
from turncredit.envs.android.tasks.contacts import name_of, stranger
from turncredit.envs.android.tasks.effects import Answer, Effect, Infeasible, InsertRow, UpdateRow
from turncredit.envs.android.tasks.hand import Hand, Script, is_no_field
from turncredit.envs.android.tasks.messages import TEXTS
from turncredit.envs.android.tasks.steps import call, fill, give_up, start, steps, tap
from turncredit.envs.android.tasks.template import Draw, Params, TaskTemplate
from turncredit.phone.toolkit.tables import Row, Value

PACKAGE: Final = "org.turncredit.mail"
_APPS: Final = ("Mail",)
_SUBJECTS: Final = ("Saturday", "Your question", "Short notice", "Plans for the summer", "The keys", "One more thing")
_NOBODY: Final = ("date", "name", "address")


def only(d: Draw, folder: str = "Inbox") -> list[Row]:
    """Return the mails of a folder whose subject and sender no other mail has."""
    rows = d.rows(PACKAGE, "mails")
    subjects = [str(row["subject"]) for row in rows]
    own = [row for row in rows if row["folder"] == folder and not str(row["subject"]).startswith("Re: ")]
    return [row for row in own if sum(str(row["subject"]) in subject for subject in subjects) <= _replies(rows, row)]


def _replies(rows: list[Row], row: Row) -> int:
    return 1 + len([other for other in rows if other["subject"] == f"Re: {row['subject']}"])


def pick(d: Draw, fits: Callable[[Row], bool] = lambda row: True, folder: str = "Inbox") -> Params | None:
    """Draw a mail, or None if there is none like that."""
    row = d.pick([row for row in only(d, folder) if fits(row)])
    if row is None:
        return None
    p = {"id": row["_id"], "sender": row["name"], "subject": row["subject"], "address": row["address"]}
    return {**p, "body": row["body"], "attachments": row["attachments"]}


def open_mail(hand: Hand, subject: str, folder: str = "Inbox") -> Script:
    """Open a mail of a folder."""
    yield from hand.open("Mail")
    if folder != "Inbox":
        yield from hand.tap("Folders", scroll=False)
        yield from hand.tap(folder)
    yield from hand.tap(subject)


def written(folder: str, **values: Value) -> InsertRow:
    """Return the effect of a new mail in Sent or Drafts."""
    return InsertRow(PACKAGE, "mails", {"folder": folder, **values}, free=_NOBODY)


def _fill(hand: Hand, p: Params) -> Script:
    yield from hand.open("Mail")
    yield from hand.tap("Compose", scroll=False)
    yield from hand.fill("To", p["recipient"])
    yield from hand.fill("Subject", p["subject"])
    yield from hand.fill("Write your mail", p["text"])


# Writing


def _send_draw(d: Draw) -> Params | None:
    row = d.pick([row for row in d.rows(CONTACTS, "contacts") if row["email"]])
    if row is None or not d.rows(PACKAGE, "mails"):
        return None
    p = {"name": name_of(row), "recipient": row["email"], "subject": d.random.pick(_SUBJECTS)}
    return {**p, "text": d.random.pick(TEXTS)}


def _send_effects(p: Params) -> list[Effect]:
    return [written("Sent", recipient=p["recipient"], subject=p["subject"], body=p["text"])]


def _reply_draw(d: Draw) -> Params | None:
    p = pick(d)
    return {**p, "text": d.random.pick(TEXTS)} if p else None


def _forward_draw(d: Draw) -> Params | None:
    p = pick(d)
    row = d.pick([row for row in d.rows(CONTACTS, "contacts") if row["email"]])
    return {**p, "name": name_of(row), "recipient": row["email"]} if p and row else None


def _forward_effects(p: Params) -> list[Effect]:
    values = {"recipient": p["recipient"], "subject": f"Fwd: {p['subject']}", "body": p["body"]}
    return [replace(written("Sent", **values, attachments=p["attachments"]), exact=("subject", "body", "attachments"))]


# Order


def _move_effects(folder: str) -> Callable[[Params], list[Effect]]:
    return lambda p: [UpdateRow(PACKAGE, "mails", p["id"], {"folder": folder})]


def _tap_solve(button: str, folder: str = "Inbox") -> Callable[[Hand, Params], Iterator[str]]:
    return steps(call(open_mail, "{subject}", folder), tap(button, scroll=False))


def _star_draw(d: Draw) -> Params | None:
    starred = {row["_id"] for row in d.rows(PACKAGE, "mails", starred=1)}
    return pick(d, lambda row: row["_id"] not in starred)


def _unstar_draw(d: Draw) -> Params | None:
    p = pick(d)
    if p:
        d.update(PACKAGE, "mails", p["id"], starred=1)
    return p


def _star_effects(starred: int) -> Callable[[Params], list[Effect]]:
    return lambda p: [UpdateRow(PACKAGE, "mails", p["id"], {"starred": starred})]


# Questions


def _order_draw(d: Draw) -> Params | None:
    p = pick(d, lambda row: "Order number" in str(row["body"]))
    match = p and re.search(r"Total: ([\d.]+)", p["body"])
    return {**p, "value": match[1]} if p and match else None


def _order_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from hand.open("Mail")
    yield from hand.tap("Kestrel Bikes")
    text = " ".join(hand.texts())
    match = re.search(r"Total: ([\d.]+)", text)
    yield from hand.answer(match[1] if match else "")


def _seat_draw(d: Draw) -> Params | None:
    p = pick(d, lambda row: "Seat:" in str(row["body"]))
    match = p and re.search(r"Seat: (\w+)", p["body"])
    return {**p, "value": match[1]} if p and match else None


def _seat_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from hand.open("Mail")
    yield from hand.tap("Bluebird Travel")
    match = re.search(r"Seat: (\w+)", " ".join(hand.texts()))
    yield from hand.answer(match[1] if match else "")


def _files_draw(d: Draw) -> Params | None:
    p = pick(d, lambda row: bool(row["attachments"]))
    return {**p, "value": str(p["attachments"]).split(", ")} if p else None


def _files_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from open_mail(hand, p["subject"])
    names: list[str] = yield from hand.read_all(_attachment)
    yield from hand.answer(", ".join(names))


def _attachment(element: ScreenElement) -> str | None:
    return next((text for text in element.texts if re.fullmatch(r"\w+\.\w{3,4}", text)), None)


def _missing_draw(d: Draw) -> Params | None:
    absent = stranger(d)
    return {"name": f"{absent.first} {absent.last}", "text": d.random.pick(TEXTS)}


def _ask(kind: str) -> Callable[[Params], list[Effect]]:
    return lambda p: [Answer(kind, p["value"])]


TEMPLATES: Final = (
    TaskTemplate(
        "MailSend",
        (
            'Write a mail to {recipient} with the subject "{subject}" and the text: {text}',
            'Mail {recipient}. Subject: "{subject}". Text: {text}',
        ),
        _send_draw,
        _send_effects,
        steps(_fill, tap("Send", scroll=False)),
        _APPS,
        complexity=1.8,
    ),
    TaskTemplate(
        "MailSendToContact",
        'Send {name} a mail with the subject "{subject}" and the text: {text}',
        _send_draw,
        _send_effects,
        lambda hand, p: _by_name(hand, p),
        _APPS,
        complexity=2.0,
    ),
    TaskTemplate(
        "MailDraft",
        'Write a mail to {recipient} with the subject "{subject}" and the text: {text} - keep it as a draft, unsent.',
        _send_draw,
        lambda p: [written("Drafts", recipient=p["recipient"], subject=p["subject"], body=p["text"])],
        steps(_fill, tap("Close", scroll=False), tap("Save draft")),
        _APPS,
        complexity=2.0,
        split="held_out",
    ),
    TaskTemplate(
        "MailReply",
        (
            'Answer the mail "{subject}" from {sender}: {text}',
            'Reply to the mail of {sender} about "{subject}": {text}',
        ),
        _reply_draw,
        lambda p: [written("Sent", recipient=p["address"], subject=f"Re: {p['subject']}", body=p["text"])],
        steps(
            call(open_mail, "{subject}"),
            tap("Reply", scroll=False),
            fill("Write your mail", "{text}"),
            tap("Send", scroll=False),
        ),
        _APPS,
        complexity=1.8,
    ),
    TaskTemplate(
        "MailForward",
        'Forward the mail "{subject}" from {sender} to {recipient}. Change neither the text nor the attachments, nor '
        'the "Fwd:" before the subject.',
        _forward_draw,
        _forward_effects,
        steps(
            call(open_mail, "{subject}"),
            tap("Forward", scroll=False),
            fill("To", "{recipient}"),
            tap("Send", scroll=False),
        ),
        _APPS,
        complexity=1.8,
    ),
    TaskTemplate(
        "MailArchive",
        'Archive the mail "{subject}" from {sender}.',
        pick,
        _move_effects("Archive"),
        _tap_solve("Archive"),
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "MailDelete",
        ('Put the mail "{subject}" from {sender} into the trash.', 'Delete the mail "{subject}" from {sender}.'),
        pick,
        _move_effects("Trash"),
        _tap_solve("Delete"),
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "MailMoveToSpam",
        'The mail "{subject}" from {sender} is spam: move it there.',
        pick,
        _move_effects("Spam"),
        steps(call(open_mail, "{subject}"), tap("More options", scroll=False), tap("Move to Spam")),
        _APPS,
        complexity=1.4,
        split="held_out",
    ),
    TaskTemplate(
        "MailMoveToInbox",
        'Move the mail "{subject}" from the archive back to the inbox.',
        lambda d: pick(d, folder="Archive"),
        _move_effects("Inbox"),
        steps(call(open_mail, "{subject}", "Archive"), tap("More options", scroll=False), tap("Move to Inbox")),
        _APPS,
        complexity=1.6,
    ),
    TaskTemplate(
        "MailStar",
        'Mark the mail "{subject}" from {sender} with a star.',
        _star_draw,
        _star_effects(1),
        _tap_solve("Add star"),
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "MailUnstar",
        'Remove the star from the mail "{subject}" from {sender}.',
        _unstar_draw,
        _star_effects(0),
        _tap_solve("Remove star"),
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "MailAskTotal",
        "How much did my order at Kestrel Bikes cost? Answer with the amount.",
        _order_draw,
        _ask("number"),
        _order_solve,
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "MailAskSeat",
        "Which seat do I have on the train that I booked at Bluebird Travel?",
        _seat_draw,
        _ask("text"),
        _seat_solve,
        _APPS,
        complexity=1.2,
        split="held_out",
    ),
    TaskTemplate(
        "MailAskAttachments",
        'Which files are attached to the mail "{subject}" from {sender}? Answer with their names.',
        _files_draw,
        _ask("list"),
        _files_solve,
        _APPS,
        complexity=1.4,
    ),
    TaskTemplate(
        "MailReplyMissing",
        "Answer the mail that {name} sent me: {text}",
        _missing_draw,
        lambda p: [Infeasible()],
        steps(start("Mail"), tap("Search", scroll=False), fill("Search mails", "{name}"), give_up()),
        _APPS,
        complexity=1.2,
        tags=("infeasible",),
    ),
)


def _by_name(hand: Hand, p: Params) -> Iterator[str]:
    yield from hand.open("Mail")
    yield from hand.tap("Compose", scroll=False)
    if hand.field("To").value != p["recipient"]:
        yield from hand.fill("To", p["name"])
        yield from hand.tap(p["name"], where=is_no_field)
    yield from hand.fill("Subject", p["subject"])
    yield from hand.fill("Write your mail", p["text"])
    yield from hand.tap("Send", scroll=False)
    yield from hand.done()
