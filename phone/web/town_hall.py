"""The town hall: offices with their hours, and a form that reports what is broken in a street."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from turncredit.phone.toolkit.app import Context
from turncredit.phone.toolkit.handlers import do
from turncredit.phone.toolkit.widgets import (
    Button,
    Card,
    Checkbox,
    Choice,
    Item,
    Radio,
    Row,
    Section,
    Spacer,
    Text,
    TextField,
    Widget,
)
from turncredit.phone.web.navigation import go
from turncredit.phone.web.page import Indexed, Site, WebPage, banner, form_error, refuse
from turncredit.tools.keyed_random import KeyedRandom

__all__ = ["HOST", "KINDS", "SITE", "URGENCIES", "Office", "offices"]

HOST: Final = "townhall.example"
KINDS: Final = ("Broken street light", "Pothole", "Fallen tree", "Full waste bin", "Graffiti", "Something else")
URGENCIES: Final = ("Can wait", "Soon", "Dangerous")
_OFFICES: Final = ("Passports", "Registry", "Parking permits", "Building permits", "Lost property", "Market stalls")


class Office(NamedTuple):
    """A desk of the town hall."""

    name: str
    room: str
    opens: str
    closes: str
    phone: str
    fee: int  # in dollars


@lru_cache(maxsize=64)
def offices(seed: int | str) -> tuple[Office, ...]:
    """Return the offices of a phone with this seed."""
    random = KeyedRandom(f"{seed}/web/town hall")
    return tuple(
        Office(
            name,
            str(random.between(101, 348)),
            f"{random.between(8, 10):02d}:{random.pick(('00', '30'))}",
            f"{random.between(13, 18)}:{random.pick(('00', '30'))}",
            f"+1 555 {random.between(200, 999)} {random.between(0, 9999):04d}",
            random.between(4, 90),
        )
        for name in _OFFICES
    )


def _page(ctx: Context, path: str, query: Mapping[str, str]) -> WebPage | None:
    if path == "":
        return _front(ctx)
    if path == "report":
        return _form(ctx)
    if path == "report/sent":
        return _sent()
    for office in offices(ctx.phone.seed):
        if path == f"office/{_slug(office.name)}":
            return _office(office)
    return None


def _slug(name: str) -> str:
    return name.lower().replace(" ", "-")


def _head() -> Widget:
    return banner("Northfield Town Hall", "Open to everybody", "#2f4f7f", do(go, url=HOST))


def _front(ctx: Context) -> WebPage:
    body: list[Widget] = [
        Spacer(4),
        _head(),
        Spacer(16),
        Card(
            [
                Text("Something broken in your street?", style="subtitle"),
                Spacer(8),
                Row([Button("Report it", do(go, url=f"{HOST}/report"), icon="flag")], padding=0),
            ]
        ),
        Section("Offices"),
    ]
    for office in offices(ctx.phone.seed):
        about = f"Room {office.room} · {office.opens} to {office.closes}"
        body.append(Item(office.name, about, "info", on_tap=do(go, url=f"{HOST}/office/{_slug(office.name)}")))
    return WebPage("Northfield Town Hall", [*body, Spacer(24)])


def _office(office: Office) -> WebPage:
    facts = {
        "Room": office.room,
        "Opens": office.opens,
        "Closes": office.closes,
        "Phone": office.phone,
        "Fee": f"${office.fee}",
    }
    body = [Spacer(4), _head(), Spacer(16), Text(office.name, style="title"), Spacer(12)]
    card = Card([Item(label, trailing=value) for label, value in facts.items()])
    return WebPage(f"{office.name} · Town Hall", [*body, card, Text("Please bring a document with your picture.")])


def _form(ctx: Context) -> WebPage:
    urgency = str(ctx.get("urgency", URGENCIES[0]))
    body: list[Widget] = [
        Spacer(4),
        _head(),
        Spacer(16),
        Text("Report something broken", style="title"),
        Spacer(8),
        Choice("kind", "What is it?", KINDS, KINDS[0]),
        TextField("street", "Street and number", icon="pin"),
        TextField("details", "Details", multiline=True),
        Section("How urgent is it?"),
        *[Radio(name, name == urgency, key="urgency", choice=name) for name in URGENCIES],
        Checkbox("Tell me when it is repaired", False, key="notify"),
        TextField("contact", "Your email or phone"),
        *form_error(ctx),
        Button("Send report", do(send), wide=True),
        Spacer(24),
    ]
    return WebPage("Report · Town Hall", body)


def send(ctx: Context) -> None:
    """Store a report, or say what is missing."""
    form = ctx.form
    street, contact = str(form["street"]).strip(), str(form["contact"]).strip()
    if not street:
        refuse(ctx, "Enter the street")
    elif form["notify"] and not contact:
        refuse(ctx, "Enter an email or a phone number")
    else:
        urgency = str(ctx.get("urgency", URGENCIES[0]))
        values = {"kind": str(form["kind"]), "street": street, "details": str(form["details"]).strip()}
        ctx.db.insert("reports", **values, urgency=urgency, notify=bool(form["notify"]), contact=contact)
        go(ctx, f"{HOST}/report/sent")


def _sent() -> WebPage:
    body = [
        Spacer(4),
        _head(),
        Spacer(24),
        Text("Thank you!", style="title"),
        Text("Your report has reached us. We look at it on the next working day."),
        Spacer(16),
        Button("Back to the town hall", do(go, url=HOST), "tonal"),
    ]
    return WebPage("Thank you · Town Hall", body)


def _index(seed: int | str) -> list[Indexed]:
    pages = [Indexed(f"office/{_slug(o.name)}", o.name, f"{o.name}: office of the town hall.") for o in offices(seed)]
    front = Indexed("", "Northfield Town Hall", "Offices, their hours and fees.")
    return [front, Indexed("report", "Report something broken", "Street lights, potholes, fallen trees."), *pages]


SITE: Final = Site(
    HOST,
    "Northfield Town Hall",
    "Offices and reports",
    "flag",
    "#2f4f7f",
    _page,
    _index,
    {
        "reports": {
            "kind": str,
            "street": str,
            "details": str,
            "urgency": str,
            "notify": bool,
            "contact": str,
        }
    },
)
