"""Bistro Alma: a restaurant with a menu, opening hours, and tables to book and to cancel."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Final, NamedTuple

from turncredit.phone.screen.parts import format_date
from turncredit.phone.toolkit.app import Context
from turncredit.phone.toolkit.handlers import do
from turncredit.phone.toolkit.tables import Columns
from turncredit.phone.toolkit.widgets import (
    Button,
    Card,
    Checkbox,
    Choice,
    DateField,
    Divider,
    Empty,
    Item,
    Radio,
    Row,
    Section,
    Spacer,
    Text,
    TextField,
    TimeField,
    Widget,
)
from turncredit.phone.web.navigation import go
from turncredit.phone.web.page import Indexed, Site, WebPage, banner, form_error, refuse
from turncredit.tools.keyed_random import KeyedRandom

__all__ = ["GUESTS", "HOST", "SEATS", "SITE", "Dish", "menu"]

HOST: Final = "bistro-alma.example"
SEATS: Final = ("Inside", "Terrace", "Bar")
GUESTS: Final = ("1", "2", "3", "4", "5", "6", "8", "10")
_DISHES: Final = {
    "Starters": (
        "Leek soup with croutons",
        "Beetroot and goat's cheese",
        "Warm bread with herb butter",
        "Pickled pears",
    ),
    "Main courses": (
        "Barley with mushrooms",
        "Baked trout with fennel",
        "Potato dumplings in brown butter",
        "Lentils with roasted squash",
        "Chicken with lemon and olives",
    ),
    "Desserts": ("Plum cake", "Buttermilk ice with honey", "Chestnut cream"),
}


class Dish(NamedTuple):
    """An entry of the menu; `price` in dollars."""

    course: str
    name: str
    price: str


@lru_cache(maxsize=64)
def menu(seed: int | str) -> tuple[Dish, ...]:
    """Return the menu of a phone with this seed."""
    random = KeyedRandom(f"{seed}/web/bistro")
    base = {"Starters": 5, "Main courses": 13, "Desserts": 4}
    return tuple(
        Dish(course, name, f"{base[course] + random.between(0, 6)}.{random.pick(('00', '40', '50', '80'))}")
        for course, names in _DISHES.items()
        for name in names
    )


def _page(ctx: Context, path: str, query: Mapping[str, str]) -> WebPage | None:
    if path == "":
        return _front(ctx)
    if path == "book":
        return _form(ctx)
    if path == "bookings":
        return _bookings(ctx)
    return None


def _head() -> Widget:
    return banner("Bistro Alma", "Kitchen of the season", "#5a3d6b", do(go, url=HOST))


def _front(ctx: Context) -> WebPage:
    body: list[Widget] = [
        Spacer(4),
        _head(),
        Spacer(12),
        Row(
            [
                Button("Book a table", do(go, url=f"{HOST}/book"), icon="calendar"),
                Button("My bookings", do(go, url=f"{HOST}/bookings"), "tonal"),
            ]
        ),
        Section("Opening hours"),
        Item("Tuesday to Friday", trailing="17:30 to 23:00"),
        Item("Saturday and Sunday", trailing="12:00 to 23:30"),
        Item("Monday", trailing="Closed"),
    ]
    for course in _DISHES:
        body.append(Section(course))
        body += [Item(d.name, trailing=f"${d.price}") for d in menu(ctx.phone.seed) if d.course == course]
    return WebPage("Bistro Alma", [*body, Spacer(24)])


def _form(ctx: Context) -> WebPage:
    seat = str(ctx.get("seat", SEATS[0]))
    body: list[Widget] = [
        Spacer(4),
        _head(),
        Spacer(16),
        Text("Book a table", style="title"),
        Spacer(8),
        TextField("name", "Name", icon="person"),
        DateField("date", "Date"),
        TimeField("time", "Time", "19:00"),
        Choice("guests", "Guests", GUESTS, "2"),
        Section("Where would you like to sit?"),
        *[Radio(name, name == seat, key="seat", choice=name) for name in SEATS],
        Divider(),
        TextField("wishes", "Wishes, such as allergies"),
        Checkbox("High chair for a child", False, key="high_chair"),
        *form_error(ctx),
        Button("Send booking", do(book), wide=True),
        Spacer(24),
    ]
    return WebPage("Book a table · Bistro Alma", body)


def book(ctx: Context) -> None:
    """Store a booking, or say what is missing."""
    form = ctx.form
    name, date, time = (str(form[key] or "").strip() for key in ("name", "date", "time"))
    if not name:
        refuse(ctx, "Enter your name")
    elif not date:
        refuse(ctx, "Choose a date")
    elif date < ctx.today.isoformat():
        refuse(ctx, "This day is over")
    else:
        seat = str(ctx.get("seat", SEATS[0]))
        chair, wishes = bool(form["high_chair"]), str(form["wishes"]).strip()
        guests = int(form["guests"])
        more: Columns = {"seat": seat, "wishes": wishes, "high_chair": chair}
        ctx.db.insert("bookings", name=name, date=date, time=time, guests=guests, **more)
        go(ctx, f"{HOST}/bookings")
        ctx.snackbar("Your table is booked")


def _bookings(ctx: Context) -> WebPage:
    body: list[Widget] = [Spacer(4), _head(), Spacer(16), Text("My bookings", style="title"), Spacer(12)]
    rows = ctx.db.rows("bookings", order=lambda row: (row["date"], row["time"]))
    for row in rows:
        when = f"{format_date(row['date'])}, {row['time']}"
        about = f"{row['name']} · {row['guests']} {'guest' if row['guests'] == 1 else 'guests'} · {row['seat']}"
        extra = ", ".join(part for part in (row["wishes"], "high chair" if row["high_chair"] else "") if part)
        cancel = Button("Cancel", do(cancel_booking, id=row["_id"]), "text", description=f"Cancel {when}")
        lines: list[Widget] = [Text(when, style="subtitle"), Text(about, style="caption")]
        lines += [Text(extra, style="caption")] if extra else []
        body.append(Card([*lines, Row([Spacer(), cancel], padding=8)]))
    if not rows:
        body.append(Empty("calendar", "No bookings"))
    return WebPage("My bookings · Bistro Alma", [*body, Spacer(24)])


def cancel_booking(ctx: Context, id: int) -> None:
    """Cancel a booking."""
    ctx.db.delete("bookings", id)
    ctx.snackbar("Booking cancelled")


def fill(ctx: Context) -> None:
    """Write a few bookings of the next weeks."""
    random = KeyedRandom(f"{ctx.phone.seed}/web/bistro/bookings")
    days = sorted({random.between(2, 9), random.between(10, 16), random.between(17, 27)})
    for ahead in days:
        day = ctx.today + timedelta(days=ahead)
        day += timedelta(days=int(day.weekday() == 0))
        values = {"date": day.isoformat(), "time": f"{random.between(18, 21)}:{random.pick(('00', '30'))}"}
        ctx.db.insert(
            "bookings", **values, name="Robin", guests=random.pick((2, 3, 4, 6)), seat=random.pick(SEATS), wishes=""
        )


def _index(seed: int | str) -> list[Indexed]:
    dishes = ", ".join(dish.name for dish in menu(seed))
    return [
        Indexed("", "Bistro Alma", f"Restaurant with a kitchen of the season: {dishes}."),
        Indexed("book", "Book a table at Bistro Alma", "Choose a date, a time and a seat."),
    ]


SITE: Final = Site(
    HOST,
    "Bistro Alma",
    "Restaurant",
    "utensils",
    "#5a3d6b",
    _page,
    _index,
    {
        "bookings": {
            "name": str,
            "date": str,
            "time": str,
            "guests": int,
            "seat": str,
            "wishes": str,
            "high_chair": bool,
        }
    },
    fill,
)
