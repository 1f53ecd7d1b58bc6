"""Contacts: a list with search and favourites, a page for each person, a form, and deletion with a question."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from turncredit.phone.content.people import person
from turncredit.phone.toolkit.app import App, Context, Converted, Provider
from turncredit.phone.toolkit.handlers import do, keeps, opens
from turncredit.phone.toolkit.tables import Columns, Value
from turncredit.phone.toolkit.tables import Row as Record
from turncredit.phone.toolkit.widgets import (
    Avatar,
    Button,
    Choice,
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
    Spacer,
    Tab,
    Text,
    TextField,
    Widget,
    cancel_or,
)

LABELS = ("Mobile", "Home", "Work", "Other")


def fill(ctx: Context) -> None:
    """Draw some forty people, a few of whom are favourites."""
    random = ctx.random
    people: dict[str, Record] = {}
    while len(people) < 42:
        drawn = person(random)
        row: Columns = {"first": drawn.first, "last": drawn.last, "phone": drawn.phone, "email": drawn.email}
        row |= {"label": random.pick(LABELS[:3]), "company": drawn.company if random.chance(0.4) else ""}
        row |= {"address": drawn.address if random.chance(0.6) else "", "starred": int(random.chance(0.12))}
        people.setdefault(f"{drawn.first} {drawn.last}", row)
    ctx.db.fill("contacts", people.values())


def contacts(ctx: Context) -> Screen:
    """Everybody by name, or the favourites."""
    tab, query = str(ctx.get("tab", "all")), str(ctx.get("query", "")).casefold()
    rows = ctx.db.rows("contacts", order=lambda row: (str(row["first"]).casefold(), str(row["last"]).casefold()))
    if tab == "starred":
        rows = [row for row in rows if row["starred"]]
    if query:
        rows = [row for row in rows if query in f"{name_of(row)} {row['phone']} {row['company']}".casefold()]
    body: Widget = List(rows, _person) if rows else Empty("person", "No contacts")
    return Screen(
        "Contacts",
        [body],
        top=[TextField("query", "Search contacts", icon="search"), Spacer(4)],
        bar=[
            Tab("Contacts", keeps("tab", "all"), tab == "all", "person"),
            Tab("Favourites", keeps("tab", "starred"), tab == "starred", "star"),
        ],
        fab=Fab("add", "Create contact", opens(form, id=0)),
    )


def _person(row: Record) -> Item:
    name = name_of(row)
    return Item(name, avatar=name, on_tap=opens(contact, id=row["_id"]), on_long_press=opens(commands, id=row["_id"]))


def name_of(row: Record) -> str:
    """Return first and last name of a row, or its number if it has neither."""
    return f"{row['first']} {row['last']}".strip() or str(row["phone"])


def commands(ctx: Context, id: int) -> Menu:
    """Edit, share as text, delete."""
    return Menu(
        [("Edit", opens(form, id=id)), ("Copy number", do(copy_number, id=id)), ("Delete", opens(confirm, id=id))]
    )


def contact(ctx: Context, id: int) -> Screen:
    """One person."""
    row = ctx.db.get("contacts", id)
    if row is None:
        return Screen("", [Empty("person", "This contact was deleted")])
    star = "Remove from favourites" if row["starred"] else "Add to favourites"
    name = name_of(row)
    head = Row(
        [
            Avatar(name, size=72),
            Column(
                [
                    Text(name, style="headline", selectable=True, id="name"),
                    Text(row["company"], style="caption", id="company"),
                ]
            ),
        ]
    )
    shown = ((row["phone"], row["label"], "phone"), (row["email"], "Email", "mail"), (row["address"], "Address", "pin"))
    details = [Item(value, label, icon, on_long_press=do(copy, text=value)) for value, label, icon in shown if value]
    notes = [Divider(), Text(row["notes"], selectable=True, id="notes")] if row["notes"] else []
    return Screen(
        "",
        [Spacer(8), head, Spacer(16), *details, *notes],
        actions=[
            IconButton("star_full" if row["starred"] else "star", star, do(flip_star, id=id)),
            IconButton("edit", "Edit contact", opens(form, id=id)),
            IconButton("more", "More options", opens(commands, id=id)),
        ],
    )


def view(ctx: Context, data: str = "", id: int = 0) -> None:
    """Show the contact that another app names, or all of them."""
    if id:
        ctx.open(contact, id=_contact_of(data, id))
    else:
        ctx.open_once(contacts)


def edit(ctx: Context, data: str = "", id: int = 0) -> None:
    """Open the form of the contact that another app names."""
    ctx.open(form, id=_contact_of(data, id))


def _contact_of(data: str, id: int) -> int:
    """Return the contact that a row of the provider belongs to: its data are two rows each, a name and a number."""
    return id // 2 if data.endswith(f"/data/{id}") else id


def flip_star(ctx: Context, id: int) -> None:
    """Add the contact to the favourites, or remove it."""
    row = ctx.db.get("contacts", id)
    if row:
        ctx.db.update("contacts", id, starred=int(not row["starred"]))


def copy_number(ctx: Context, id: int) -> None:
    """Put the number on the clipboard."""
    row = ctx.db.get("contacts", id)
    copy(ctx, str(row["phone"]) if row else "")


def copy(ctx: Context, text: str) -> None:
    """Put a text on the clipboard."""
    ctx.copy(text)
    ctx.snackbar("Copied")


_FIELDS = ("first", "last", "phone", "label", "email", "company", "address", "notes")


def form(
    ctx: Context, id: int = 0, name: str = "", phone: str = "", email: str = "", company: str = "", notes: str = ""
) -> Screen:
    """The form of a contact; `id` 0 is a new one, with what another app knows."""
    first, _, last = name.partition(" ")
    new = {**dict.fromkeys(_FIELDS, ""), "label": LABELS[0], "first": first, "last": last, "phone": phone}
    row = ctx.db.get("contacts", id) or {**new, "email": email, "company": company, "notes": notes}
    return Screen(
        "Edit contact" if id else "Create contact",
        [
            TextField("first", "First name", row["first"], icon="person"),
            TextField("last", "Last name", row["last"]),
            TextField("phone", "Phone", row["phone"], keyboard="phone", icon="phone"),
            Choice("label", "Phone label", LABELS, ctx.get("label", row["label"])),
            TextField("email", "Email", row["email"], keyboard="email", icon="mail"),
            TextField("company", "Company", row["company"]),
            TextField("address", "Address", row["address"], icon="pin"),
            TextField("notes", "Notes", row["notes"], multiline=True),
        ],
        up_icon="close",
        actions=[IconButton("check", "Save", do(save, id=id), colour="primary")],
        on_back=do(leave, id=id),
    )


def save(ctx: Context, id: int) -> None:
    """Write the form into the database, unless it has neither name nor number."""
    values = {name: str(ctx.form[name]).strip() for name in _FIELDS}
    if not (values["first"] or values["last"] or values["phone"]):
        ctx.snackbar("Enter a name or a number")
    elif id:
        ctx.db.update("contacts", id, **values)
        ctx.back()
    else:
        ctx.replace(contact, id=ctx.db.insert("contacts", **values))


def leave(ctx: Context, id: int) -> None:
    """Close the form; if it was changed, ask first."""
    row = ctx.db.get("contacts", id) or {**dict.fromkeys(_FIELDS, ""), "label": LABELS[0]}
    if any(ctx.form[name] != row[name] for name in _FIELDS):
        ctx.open(discard)
    else:
        ctx.back()


def discard(ctx: Context) -> Dialog:
    """Ask whether the changes of the form are lost."""
    buttons = [Button("Keep editing", None, kind="text"), Button("Discard", do(drop_form), kind="text")]
    return Dialog("Discard your changes?", buttons=buttons)


def drop_form(ctx: Context) -> None:
    """Close the form."""
    ctx.back()


def confirm(ctx: Context, id: int) -> Dialog:
    """Ask whether a contact is deleted."""
    row = ctx.db.get("contacts", id)
    name = name_of(row) if row else "The contact"
    buttons = cancel_or("Delete", do(delete, id=id), kind="danger")
    return Dialog("Delete this contact?", [Text(f"{name} will be deleted from this phone.")], buttons)


def delete(ctx: Context, id: int) -> None:
    """Delete a contact and leave its page."""
    ctx.db.delete("contacts", id)
    if ctx.phone.page.screen == "contact":
        ctx.back()
    ctx.snackbar("Contact deleted")


_TYPES: Final = {"Home": 1, "Mobile": 2, "Work": 3, "Other": 7}
"""Labels as ContactsContract.CommonDataKinds.Phone numbers them; those that are not here are other ones."""


def _type_number(row: Record) -> int:
    return _TYPES.get(str(row["label"]), _TYPES["Other"])


def _label(number: Value) -> str:
    if number is None or number == "":
        return LABELS[0]
    return next((label for label, code in _TYPES.items() if code == int(number)), "Other")


def _clean(row: Columns, before: Record) -> Columns:
    """Give a contact without a label the one that the form starts with."""
    return {**row, "label": row.get("label") or LABELS[0]}


_COLUMNS: dict[str, str | Converted | Callable[[Record], str]] = {
    "display_name": name_of,
    "number": "phone",
    "data1": "phone",
    "data2": Converted("label", _type_number, _label),
    "given_name": "first",
    "family_name": "last",
    "email": "email",
    "company": "company",
    "address": "address",
    "notes": "notes",
    "starred": "starred",
}
_PROVIDER = Provider("contacts", _COLUMNS, clean=_clean)

APP = App(
    package="org.turncredit.contacts",
    name="Contacts",
    icon="person",
    colour="#1a73e8",
    schema={
        "contacts": {
            "first": str,
            "last": str,
            "phone": str,
            "label": str,
            "email": str,
            "company": str,
            "address": str,
            "notes": str,
            "starred": bool,
        }
    },
    fill=fill,
    screens=(contacts, contact, commands, form, discard, confirm),
    intents={
        "android.intent.action.INSERT content://com.android.contacts": "form",
        "android.intent.action.INSERT vnd.android.cursor.dir/contact": "form",
        "android.intent.action.INSERT vnd.android.cursor.dir/raw_contact": "form",
        "android.intent.action.INSERT_OR_EDIT vnd.android.cursor.item/contact": "form",
        "android.intent.action.EDIT content://com.android.contacts": edit,
        "android.intent.action.VIEW content://com.android.contacts": view,
    },
    providers={
        "content://contacts/phones": _PROVIDER,
        "content://com.android.contacts/contacts": _PROVIDER,
        "content://com.android.contacts/data/phones": _PROVIDER,
        "content://com.android.contacts/raw_contacts": _PROVIDER,
    },
)
