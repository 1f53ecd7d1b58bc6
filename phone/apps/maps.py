"""Maps: the town with its places, a search, saved places, reviews, and directions on foot or by car."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Final

from turncredit.phone.apps.maps_directions import choose_place, direct, directions
from turncredit.phone.apps.maps_drawing import SCALES, MapView, Mark, drawn, here, marks, pin, spots_of
from turncredit.phone.apps.maps_places import GROUPS, hours_on, me, places, reviews_of
from turncredit.phone.apps.maps_routes import far
from turncredit.phone.apps.maps_search import (
    away,
    find_places,
    font_scale,
    group_of,
    icon_of,
    name_of,
    short_address,
)
from turncredit.phone.apps.maps_town import HEIGHT, NAME, WIDTH, Point
from turncredit.phone.toolkit.app import App, Context
from turncredit.phone.toolkit.handlers import do, keeps, opens
from turncredit.phone.toolkit.tables import Columns, Table
from turncredit.phone.toolkit.tables import Row as Record
from turncredit.phone.toolkit.widgets import (
    Button,
    Card,
    Chip,
    Choice,
    Dialog,
    Empty,
    Fab,
    IconButton,
    Item,
    List,
    Menu,
    Picture,
    Row,
    Screen,
    Section,
    Shape,
    Sheet,
    Spacer,
    Spot,
    Tab,
    Text,
    TextField,
    Widget,
    cancel_or,
)

LISTS: Final = ("Favourites", "Want to go", "Family")
ME: Final = "You"
_PHONE, _MESSAGES = "org.turncredit.dialer", "org.turncredit.messages"
_DP: Final = 2.625
_ZOOM: Final = 1
_AROUND: Final = 275  # dp of a screen that the map does not have: bars, search, chips
_LOCATION: Final = "android.permission.ACCESS_FINE_LOCATION"
_BUTTON: Final = 44.0  # size of the buttons on the map, in dp
_DAYS: Final = (("weekdays", "Monday to Friday"), ("saturday", "Saturday"), ("sunday", "Sunday"))


def fill(ctx: Context) -> None:
    """Write the places of the town, what visitors say about them, and a few saved ones."""
    seed = ctx.phone.seed
    rows = places(seed)
    ctx.db.fill("places", rows)
    ctx.db.fill("reviews", lambda: reviews_of(seed, rows))
    random = ctx.random
    for key in random.shuffled(range(1, len(rows) + 1))[: random.between(3, 6)]:
        ctx.db.insert("saved", place=key, list=random.pick(LISTS))


# The map


def maps(ctx: Context) -> Screen:
    """The map, what a search finds, or the saved places."""
    query, tab = str(ctx.get("query", "")).strip(), str(ctx.get("tab", "Explore"))
    bar = [Tab(name, keeps("tab", name), name == tab, icon) for name, icon in (("Explore", "map"), ("Saved", "heart"))]
    if tab == "Saved":
        return Screen("Saved", _saved(ctx), bar=bar)
    top: list[Widget] = [TextField("query", "Search here", icon="search", select_all=True)]
    if query:
        return Screen("", _results(ctx, query), up=False, top=[*top, Spacer(4)], bar=bar, on_back=do(clear))
    group = str(ctx.get("group", ""))
    chips = [Chip(name, do(show_group, group=name), name == group) for name in list(GROUPS)[:4]]
    top += [Row(chips, padding=12), Spacer(6)]
    go = Fab("directions", "Directions", opens(directions))
    return Screen("", [_map(ctx, group)], up=False, top=top, bar=bar, fab=go)


def show_group(ctx: Context, group: str) -> None:
    """Show only the places of a group, or all again."""
    ctx.set("group", "" if ctx.get("group", "") == group else group)


def _centre(ctx: Context) -> Point:
    x, y = me(ctx.phone.seed)
    return ctx.get("x", x), ctx.get("y", y)


def _view(ctx: Context) -> MapView:
    """Return what is seen of the town: its middle is at the centre when nothing covers the map."""
    zoom, (x, y) = int(ctx.get("zoom", _ZOOM)), _centre(ctx)
    wide, high = (side / _DP for side in ctx.phone.size)
    seen = max(120.0, high - _AROUND)
    left, top = x * SCALES[zoom] - wide / 2, y * SCALES[zoom] - seen / 2
    return MapView(zoom, left, top, wide, high, font_scale(ctx))


def _map(ctx: Context, group: str) -> Picture:
    view = _view(ctx)
    chosen = ctx.db.get("places", int(ctx.get("place", 0)))
    buttons, tools = _tools(view)
    shown = _marks(ctx.db.tables["places"], view, group, chosen["_id"] if chosen else 0)
    located = ctx.setting("location_mode", "secure") != "0"
    below = here(me(ctx.phone.seed), view.scale) if located else []
    above = pin((chosen["x"], chosen["y"]), view.scale) if chosen else []
    return Picture(
        drawn(ctx.phone.seed, view, below, shown, [*above, *tools]),
        view.width,
        view.height,
        f"Map of {NAME}",
        (*spots_of(shown, show), *buttons),
        on_drag=do(drag),
        origin=(view.left, view.top),
        cut=True,
        fill=True,
    )


@lru_cache(maxsize=64)
def _marks(places: Table, view: MapView, group: str, chosen: int) -> tuple[Mark, ...]:
    rows = [row for row in places.rows.values() if not group or group_of(row) == group]
    return marks(view, sorted(rows, key=lambda row: row["_id"] != chosen), _tools(view)[0])


@lru_cache(maxsize=16)
def _tools(view: MapView) -> tuple[tuple[Spot, ...], tuple[Shape, ...]]:
    """Return the buttons on the map: below each other in the upper right corner, or side by side on a low screen."""
    spots: list[Spot] = []
    shapes: list[Shape] = []
    low = view.width > view.height
    left, top = view.left + view.width - _BUTTON - (92 if low else 10), view.top + 10
    for icon, about, on_tap in _TOOLS:
        right, bottom = left + _BUTTON, top + _BUTTON
        shapes.append(Shape("box", ((left, top + 1), (right, bottom + 1)), "map_edge", radius=12))
        shapes.append(Shape("box", ((left, top), (right, bottom)), "panel", radius=12))
        shapes.append(Shape("icon", ((left + 11, top + 11), (right - 11, bottom - 11)), "text", text=icon))
        spots.append(Spot(left, top, right, bottom, about, on_tap))
        left, top = (left - _BUTTON - 8, top) if low else (left, top + _BUTTON + 8)
    return tuple(spots), tuple(shapes)


def drag(ctx: Context, right: float, down: float) -> None:
    """Move the map with the finger, as far as the town goes."""
    (x, y), scale = _centre(ctx), SCALES[int(ctx.get("zoom", _ZOOM))]
    _move(ctx, x - right / scale, y - down / scale)


def _move(ctx: Context, x: float, y: float) -> None:
    ctx.set("x", round(min(WIDTH, max(0, x))))
    ctx.set("y", round(min(HEIGHT, max(0, y))))


def zoom(ctx: Context, by: int) -> None:
    """Show more of the town, or less of it and larger."""
    ctx.set("zoom", min(len(SCALES) - 1, max(0, int(ctx.get("zoom", _ZOOM)) + by)))


def locate(ctx: Context) -> None:
    """Move the map to where the phone is, if the user lets Maps know it."""
    if ctx.setting("location_mode", "secure") == "0":
        ctx.snackbar("Location is off")
    else:
        ctx.ask(_LOCATION, do(move_here))


def move_here(ctx: Context) -> None:
    """Move the map to where the phone is."""
    _move(ctx, *me(ctx.phone.seed))


_TOOLS: Final = (
    ("add", "Zoom in", do(zoom, by=1)),
    ("minus", "Zoom out", do(zoom, by=-1)),
    ("locate", "My location", do(locate)),
)


# Search


def _results(ctx: Context, query: str) -> list[Widget]:
    rows = find_places(ctx, query)
    if not rows:
        return [Empty("map", "No places found")]
    return [List(rows, lambda row: _result(ctx, row))]


def _result(ctx: Context, row: Record) -> Item:
    about = f"{row['kind']} · {row['rating']:.1f} · {short_address(row)}"
    return Item(row["name"], about, icon_of(row), trailing=far(away(ctx, row)), on_tap=do(show, id=row["_id"]))


def clear(ctx: Context) -> None:
    """Show the map again instead of the results."""
    page = ctx.phone.page
    values = {key: value for key, value in page.values.items() if key != "query"}
    ctx.phone.change_page(replace(page, values=values, focus="", selection=(0, 0), keyboard=False, scroll=None))


def view(ctx: Context, q: str = "") -> None:
    """Search for what another app names; the coordinates of the world are not those of the town."""
    ctx.open_once(maps)
    if q.strip():
        ctx.set("tab", "Explore")
        ctx.set("query", q.strip())


# A place


def show(ctx: Context, id: int) -> None:
    """Open the sheet of a place, with the map at it."""
    clear(ctx)
    row = ctx.db.get("places", id)
    if row:
        ctx.set("tab", "Explore")
        ctx.set("place", id)
        _move(ctx, row["x"], row["y"])
    ctx.open(place, id=id)


def place(ctx: Context, id: int) -> Sheet:
    """A place: what it is, when it is open, and what can be done with it."""
    row = ctx.db.get("places", id)
    if row is None:
        return Sheet("", [Empty("map", "This place is gone")])
    saved = ctx.db.rows("saved", place=id)
    call = Button("Call", do(call_place, id=id), "tonal", "phone", enabled=bool(row["phone"]), wide=True)
    body: list[Widget] = [
        Text(f"{row['kind']} · {_today(ctx, row)}", style="caption"),
        Spacer(12),
        Row([Button("Directions", do(direct, id=id), icon="directions", wide=True), call]),
        Spacer(6),
        Row(
            [
                Button(
                    "Saved" if saved else "Save",
                    opens(lists, id=id),
                    "tonal",
                    "heart_full" if saved else "heart",
                    wide=True,
                ),
                Button("Share", opens(ways_to_share, id=id), "tonal", "share", wide=True),
            ]
        ),
        Spacer(8),
        Item(row["address"], "Address", "pin", on_long_press=do(copy, text=row["address"])),
    ]
    if row["phone"]:
        body.append(Item(row["phone"], "Phone", "phone", on_long_press=do(copy, text=row["phone"])))
    body += [Item(f"{row['rating']:.1f} of 5", "Rating", "star"), Section("Opening hours")]
    body += [Item(day, trailing=_hours(str(row[key])), icon="clock") for key, day in _DAYS]
    return Sheet(row["name"], [*body, *_reviews(ctx, id), Spacer(16)])


def _today(ctx: Context, row: Record) -> str:
    hours = hours_on(row, ctx.today)
    if not hours:
        return "closed today"
    opens, closes = hours.split("-")
    moment = f"{ctx.now:%H:%M}"
    if hours == "00:00-24:00":
        return "always open"
    return (
        f"open until {closes}" if opens <= moment < closes else f"opens at {opens}" if moment < opens else "closed now"
    )


def _hours(hours: str) -> str:
    return "Closed" if not hours else "Always" if hours == "00:00-24:00" else hours.replace("-", " to ")


def _reviews(ctx: Context, id: int) -> list[Widget]:
    body: list[Widget] = [Section("Reviews")]
    for row in ctx.db.rows("reviews", place=id):
        stars = f"{row['stars']} of 5"
        lines = [
            Text(f"{row['author']} · {stars}", style="label"),
            *([Text(row["text"], selectable=True)] if row["text"] else []),
        ]
        gone = [
            Row([Spacer(), Button("Delete", do(drop_review, id=row["_id"]), "text", description="Delete my review")])
        ]
        body.append(Card([*lines, *(gone if row["author"] == ME else [])]))
    return [*body, Button("Write a review", opens(review, id=id), "outlined", "edit", wide=True)]


def copy(ctx: Context, text: str) -> None:
    """Put a text on the clipboard."""
    ctx.copy(text)
    ctx.snackbar("Copied")


def call_place(ctx: Context, id: int) -> None:
    """Open the keypad with the number of a place."""
    row = ctx.db.get("places", id)
    if row and _PHONE in ctx.phone.apps:
        ctx.start(_PHONE, "keypad", number=row["phone"])


def ways_to_share(ctx: Context, id: int) -> Menu:
    """Send the address, or copy it."""
    row = ctx.db.get("places", id)
    text = str(row["address"]) if row else ""
    send = [("Send address as message", do(send_address, text=text))] if _MESSAGES in ctx.phone.apps else []
    return Menu([*send, ("Copy address", do(copy, text=text))])


def send_address(ctx: Context, text: str) -> None:
    """Choose who gets the address in Messages."""
    ctx.start(_MESSAGES, "recipient", forwarded=text)


# Saved places


def lists(ctx: Context, id: int) -> Menu:
    """The lists, and removal for a place that is in one."""
    saved = ctx.db.rows("saved", place=id)
    entries = [(name, do(save, id=id, list=name)) for name in LISTS]
    entries += [("Remove from saved", do(remove, id=id))] if saved else []
    return Menu(entries, selected=str(saved[0]["list"]) if saved else "None")


def save(ctx: Context, id: int, list: str) -> None:
    """Put a place into a list; it is in one only."""
    saved = ctx.db.rows("saved", place=id)
    if saved:
        ctx.db.update("saved", saved[0]["_id"], list=list)
    else:
        ctx.db.insert("saved", place=id, list=list)
    ctx.snackbar(f"Saved to {list}")


def remove(ctx: Context, id: int) -> None:
    """Take a place out of its list."""
    for row in ctx.db.rows("saved", place=id):
        ctx.db.delete("saved", row["_id"])
    ctx.snackbar("Removed from saved places")


def _saved(ctx: Context) -> list[Widget]:
    body: list[Widget] = []
    for name in LISTS:
        rows = [ctx.db.get("places", row["place"]) for row in ctx.db.rows("saved", list=name)]
        if rows:
            body.append(Section(name))
        for row in rows:
            if row:
                gone = IconButton("close", f"Remove {row['name']}", do(remove, id=row["_id"]))
                about = f"{row['kind']} · {short_address(row)}"
                body.append(Item(row["name"], about, icon_of(row), end=gone, on_tap=do(show, id=row["_id"])))
    return body or [Empty("heart", "No saved places")]


# Reviews


def review(ctx: Context, id: int) -> Dialog:
    """Stars and words about a place."""
    buttons = cancel_or("Post", do(post_review, id=id))
    fields = [Choice("stars", "Stars", ("1", "2", "3", "4", "5"), "5"), TextField("text", "Your review")]
    return Dialog(f"Review of {name_of(ctx, id)}", fields, buttons)


def post_review(ctx: Context, id: int) -> None:
    """Store a review."""
    text, stars = str(ctx.form["text"]).strip(), int(ctx.form["stars"])
    ctx.db.insert("reviews", place=id, author=ME, stars=stars, text=text)
    ctx.snackbar("Your review is posted")


def drop_review(ctx: Context, id: int) -> None:
    """Delete a review of one's own."""
    ctx.db.delete("reviews", id)
    ctx.snackbar("Review deleted")


_PLACE: Final[Columns] = {
    **dict.fromkeys(("name", "kind", "address", "phone", "weekdays", "saturday", "sunday"), str),
    "rating": float,
    "x": int,
    "y": int,
}

APP = App(
    package="org.turncredit.maps",
    name="Maps",
    icon="map",
    colour="#2e8b57",
    schema={
        "places": _PLACE,
        "saved": {"place": int, "list": str},
        "reviews": {"place": int, "author": str, "stars": int, "text": str},
    },
    fill=fill,
    screens=(maps, place, ways_to_share, lists, review, directions, choose_place),
    intents={"android.intent.action.VIEW geo": view},
    permissions=(_LOCATION,),
)
