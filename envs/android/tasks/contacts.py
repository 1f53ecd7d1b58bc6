"""Tasks of Contacts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from turncredit.envs.android.tasks.effects import Answer, DeleteRow, Effect, Infeasible, InsertRow, Shown, UpdateRow
from turncredit.envs.android.tasks.hand import Hand, Script, is_button, is_no_field
from turncredit.envs.android.tasks.steps import Step, call, choose, fill, give_up, start, steps, tap
from turncredit.envs.android.tasks.template import Draw, DrawFunction, EffectsFunction, Params, TaskTemplate
from turncredit.phone.apps.contacts import LABELS
from turncredit.phone.content.people import COMPANIES, STREETS, TOWNS, Person, person
from turncredit.phone.toolkit.tables import Row

PACKAGE: Final = "org.turncredit.contacts"
_APPS: Final = ("Contacts",)
_DEFAULT_LABEL: Final = LABELS[0]


def name_of(row: Row) -> str:
    """Return first and last name."""
    return f"{row['first']} {row['last']}".strip()


def known(d: Draw) -> Row:
    """Draw a contact."""
    return d.random.pick(d.rows(PACKAGE, "contacts"))


def stranger(d: Draw) -> Person:
    """Draw a person whose name no contact has."""
    names = {name_of(row) for row in d.rows(PACKAGE, "contacts")}
    return next(
        someone for someone in iter(lambda: person(d.random), None) if f"{someone.first} {someone.last}" not in names
    )


def open_contact(hand: Hand, name: str) -> Script:
    """Show the page of a contact, by way of the search."""
    yield from hand.open("Contacts")
    yield from hand.fill("Search contacts", name)
    yield from hand.tap(name, where=is_no_field)


def _edit(hand: Hand, name: str, label: str, value: str) -> Script:
    yield from open_contact(hand, name)
    yield from hand.tap("Edit contact")
    yield from hand.fill(label, value)
    yield from hand.tap("Save")
    yield from hand.done()


# New contacts


def _add_draw(d: Draw) -> Params | None:
    new = stranger(d)
    return {"first": new.first, "last": new.last, "phone": new.phone, "email": new.email}


def _new(p: Params, *columns: str, label: str = _DEFAULT_LABEL) -> list[Effect]:
    values = {name: p[name] for name in ("first", "last", *columns)}
    return [InsertRow(PACKAGE, "contacts", {**values, "label": label})]


def _fill_form(hand: Hand, p: Params) -> Script:
    yield from hand.open("Contacts")
    yield from hand.tap("Create contact", scroll=False)
    yield from hand.fill("First name", p["first"])
    yield from hand.fill("Last name", p["last"])
    yield from hand.fill("Phone", p["phone"])
    if "label" in p:
        yield from hand.choose("Phone label", p["label"])


_add_solve = steps(_fill_form, tap("Save"))


def _draft_draw(d: Draw) -> Params | None:
    return {**(_add_draw(d) or {}), "label": d.random.pick(LABELS[1:])}


def _draft_effects(p: Params) -> list[Effect]:
    empty = dict.fromkeys(("email", "company", "address", "notes"), "")
    values = {**empty, **{name: p[name] for name in ("first", "last", "phone", "label")}}
    return [Shown(PACKAGE, "form", values, {"id": 0})]  # 0: of a new contact


# Changes


def _phone_draw(d: Draw) -> Params | None:
    row = known(d)
    return {"id": row["_id"], "name": name_of(row), "phone": person(d.random).phone}


def _company_draw(d: Draw) -> Params | None:
    row = known(d)
    company = d.random.pick([name for name in COMPANIES if name != row["company"]])
    return {"id": row["_id"], "name": name_of(row), "company": company}


def _address_draw(d: Draw) -> Params | None:
    row = known(d)
    address = f"{d.random.between(1, 99)} {d.random.pick(STREETS)}, {d.random.pick(TOWNS)}"
    return {"id": row["_id"], "name": name_of(row), "address": address}


def _set(column: str) -> EffectsFunction:
    return lambda p: [UpdateRow(PACKAGE, "contacts", p["id"], {column: p[column]})]


def _star_draw(starred: int) -> DrawFunction:
    def draw(d: Draw) -> Params | None:
        row = d.pick(d.rows(PACKAGE, "contacts", starred=starred))
        return {"id": row["_id"], "name": name_of(row)} if row else None

    return draw


def _star_solve(label: str) -> Step:
    return steps(call(open_contact, "{name}"), tap(label, scroll=False))


def _delete_draw(d: Draw) -> Params | None:
    row = known(d)
    return {"id": row["_id"], "name": name_of(row)}


def _label_draw(d: Draw) -> Params | None:
    row = known(d)
    label = d.random.pick([label for label in LABELS if label != row["label"]])
    return {"id": row["_id"], "name": name_of(row), "label": label}


# Questions


def _ask_draw(column: str) -> DrawFunction:
    def draw(d: Draw) -> Params | None:
        row = d.pick([row for row in d.rows(PACKAGE, "contacts") if row[column]])
        return {"name": name_of(row), "value": row[column]} if row else None

    return draw


def _ask_effects(p: Params) -> list[Effect]:
    return [Answer("text", p["value"])]


def _ask_solve(detail: str) -> Step:
    def solve(hand: Hand, p: Params) -> Iterator[str]:
        yield from open_contact(hand, p["name"])
        row = yield from hand.look_for(detail)
        yield from hand.answer(row.texts[0])

    return solve


def _count_draw(d: Draw) -> Params | None:
    company = d.random.pick(COMPANIES)
    count = len(d.rows(PACKAGE, "contacts", company=company))
    return {"company": company, "count": count} if count else None


def _count_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from hand.open("Contacts")
    yield from hand.fill("Search contacts", p["company"])
    names = yield from hand.read_all(lambda e: e.texts if e.kind == "item" and e.node.long_clickable else None)
    yield from hand.answer(len(names))


def _missing_draw(d: Draw) -> Params | None:
    absent = stranger(d)
    return {"name": f"{absent.first} {absent.last}"}


TEMPLATES: Final = (
    TaskTemplate(
        "ContactsAdd",
        (
            "Add {first} {last} with the number {phone} to my contacts.",
            "Create a new contact for {first} {last}. The phone number is {phone}.",
        ),
        _add_draw,
        lambda p: _new(p, "phone"),
        _add_solve,
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "ContactsAddWithEmail",
        "Save a new contact: {first} {last}, phone {phone}, email {email}.",
        _add_draw,
        lambda p: _new(p, "phone", "email"),
        steps(_fill_form, fill("Email", "{email}"), tap("Save")),
        _APPS,
        complexity=1.6,
    ),
    TaskTemplate(
        "ContactsAddLabelled",
        "Create a contact for {first} {last} with the number {phone}, labelled {label}.",
        _draft_draw,
        lambda p: _new(p, "phone", label=p["label"]),
        _add_solve,
        _APPS,
        complexity=1.8,
        split="held_out",
    ),
    TaskTemplate(
        "ContactsDraft",
        "Open the form for a new contact in Contacts and enter first name {first}, last name {last}, phone {phone} and "
        "phone label {label}. Do not save it.",
        _draft_draw,
        _draft_effects,
        steps(_fill_form),
        _APPS,
        complexity=1.6,
    ),
    TaskTemplate(
        "ContactsSetPhone",
        ("{name} has a new number: {phone}. Update the contact.", "Change the phone number of {name} to {phone}."),
        _phone_draw,
        _set("phone"),
        lambda hand, p: _edit(hand, p["name"], "Phone", p["phone"]),
        _APPS,
        complexity=1.4,
    ),
    TaskTemplate(
        "ContactsSetCompany",
        ("{name} now works for {company}. Note that in Contacts.", "Set the company of {name} to {company}."),
        _company_draw,
        _set("company"),
        lambda hand, p: _edit(hand, p["name"], "Company", p["company"]),
        _APPS,
        complexity=1.4,
    ),
    TaskTemplate(
        "ContactsSetAddress",
        "{name} has moved to {address}. Change the address in Contacts.",
        _address_draw,
        _set("address"),
        lambda hand, p: _edit(hand, p["name"], "Address", p["address"]),
        _APPS,
        complexity=1.4,
        split="held_out",
    ),
    TaskTemplate(
        "ContactsSetLabel",
        "The number of {name} is labelled wrongly: make it {label}.",
        _label_draw,
        _set("label"),
        steps(call(open_contact, "{name}"), tap("Edit contact"), choose("Phone label", "{label}"), tap("Save")),
        _APPS,
        complexity=1.6,
    ),
    TaskTemplate(
        "ContactsAddFavourite",
        ("Add {name} to my favourite contacts.", "Make {name} a favourite in Contacts."),
        _star_draw(0),
        lambda p: [UpdateRow(PACKAGE, "contacts", p["id"], {"starred": 1})],
        _star_solve("Add to favourites"),
        _APPS,
    ),
    TaskTemplate(
        "ContactsRemoveFavourite",
        "Take {name} out of my favourite contacts, but keep the contact.",
        _star_draw(1),
        lambda p: [UpdateRow(PACKAGE, "contacts", p["id"], {"starred": 0})],
        _star_solve("Remove from favourites"),
        _APPS,
    ),
    TaskTemplate(
        "ContactsDelete",
        ("Delete {name} from my contacts.", "Remove the contact {name}."),
        _delete_draw,
        lambda p: [DeleteRow(PACKAGE, "contacts", p["id"])],
        steps(call(open_contact, "{name}"), tap("More options"), tap("Delete"), tap("Delete", where=is_button)),
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "ContactsAskPhone",
        ("What is the phone number of {name}?", "Look up the number of {name} in Contacts and tell me."),
        _ask_draw("phone"),
        _ask_effects,
        lambda hand, p: _ask_phone(hand, p),
        _APPS,
    ),
    TaskTemplate(
        "ContactsAskEmail",
        "What is the email address of {name}?",
        _ask_draw("email"),
        _ask_effects,
        _ask_solve("Email"),
        _APPS,
    ),
    TaskTemplate(
        "ContactsAskAddress",
        "Where does {name} live? Answer with the address as it stands in Contacts.",
        _ask_draw("address"),
        _ask_effects,
        _ask_solve("Address"),
        _APPS,
        split="held_out",
    ),
    TaskTemplate(
        "ContactsCountCompany",
        "How many of my contacts work for {company}? Answer with a number.",
        _count_draw,
        lambda p: [Answer("number", p["count"])],
        _count_solve,
        _APPS,
    ),
    TaskTemplate(
        "ContactsDeleteMissing",
        "Delete {name} from my contacts.",
        _missing_draw,
        lambda p: [Infeasible()],
        steps(start("Contacts"), fill("Search contacts", "{name}"), give_up()),
        _APPS,
        tags=("infeasible",),
    ),
)


def _ask_phone(hand: Hand, p: Params) -> Iterator[str]:
    yield from open_contact(hand, p["name"])
    row = next(element for element in hand.screen if element.texts[1:2] and element.texts[1] in LABELS)
    yield from hand.answer(row.texts[0])
