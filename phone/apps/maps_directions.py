"""Directions of Maps: where the way starts and ends, on foot or by car, its map and its turns."""

from __future__ import annotations

from typing import Final

from turncredit.phone.apps.maps_drawing import SCALES, MapView, drawn, route_line
from turncredit.phone.apps.maps_routes import MODES, Leg, Route, far, route
from turncredit.phone.apps.maps_search import find_places, font_scale, icon_of, name_of, point_of, short_address
from turncredit.phone.toolkit.app import Context
from turncredit.phone.toolkit.handlers import do, keeps, opens
from turncredit.phone.toolkit.tables import Row as Record
from turncredit.phone.toolkit.widgets import (
    Empty,
    IconButton,
    Item,
    List,
    Picture,
    Screen,
    Spacer,
    Tab,
    Text,
    TextField,
    Widget,
)

__all__ = ["choose_place", "direct", "directions"]

_DP: Final = 2.625


def direct(ctx: Context, id: int) -> None:
    """Open directions from here to a place."""
    ctx.replace(directions)
    ctx.set("end", id)


def directions(ctx: Context) -> Screen:
    """The way from one place to another, as a map and in words."""
    start, end, mode = int(ctx.get("start", 0)), int(ctx.get("end", -1)), str(ctx.get("mode", MODES[0]))
    body: list[Widget] = [
        Item(name_of(ctx, start), "From", "locate", on_tap=opens(choose_place, which="start")),
        Item(name_of(ctx, end) if end >= 0 else "Choose a place", "To", "pin", on_tap=opens(choose_place, which="end")),
        Spacer(8),
    ]
    if end < 0:
        body.append(Empty("directions", "Choose where you want to go"))
    elif start == end:
        body.append(Empty("directions", "You are there already"))
    else:
        way = route(ctx.phone.seed, point_of(ctx, start), point_of(ctx, end), mode)
        body += [*_summary(way, mode), _route_map(ctx, way), Spacer(8), *map(_leg, way.legs)]
        body.append(Item(f"Arrive at {name_of(ctx, end)}", icon="flag"))
    tabs = [Tab(name, keeps("mode", name), name == mode) for name in MODES]
    swap = IconButton("swap", "Swap start and destination", do(swap_ends), enabled=end >= 0)
    return Screen("Directions", body, tabs=tabs, actions=[swap])


def _summary(way: Route, mode: str) -> list[Widget]:
    minutes = "1 minute" if way.minutes == 1 else f"{way.minutes} minutes"
    about = f"{far(way.metres)} {'on foot' if mode == MODES[0] else 'by car'}"
    return [Text(minutes, style="headline", colour="primary"), Text(about, style="caption"), Spacer(12)]


def _route_map(ctx: Context, way: Route) -> Picture:
    """Return the map around a route, as large as it fits."""
    wide, high = ctx.phone.size[0] / _DP - 32, 260.0
    left, right = min(x for x, _ in way.line), max(x for x, _ in way.line)
    top, bottom = min(y for _, y in way.line), max(y for _, y in way.line)
    fits = [n for n, s in enumerate(SCALES) if (right - left) * s < wide - 60 and (bottom - top) * s < high - 90]
    level = max(fits, default=0)
    scale = SCALES[level]
    high = max(high, (bottom - top) * scale + 90)
    x, y = (left + right) / 2 * scale - wide / 2, (top + bottom) / 2 * scale - high / 2 - 12
    shapes = drawn(ctx.phone.seed, MapView(level, x, y, wide, high, font_scale(ctx)), route_line(way.line, scale))
    return Picture(shapes, wide, high, "Map of the route", origin=(x, y), cut=True)


_TURNS: Final = {"start": "up", "straight": "up", "left": "left", "right": "right"}


def _leg(leg: Leg) -> Item:
    words = {
        "start": f"Go {leg.heading} on {leg.street}",
        "straight": f"Continue on {leg.street}",
        "left": f"Turn left into {leg.street}",
        "right": f"Turn right into {leg.street}",
    }
    return Item(words[leg.turn], icon=_TURNS[leg.turn], trailing=far(leg.metres))


def swap_ends(ctx: Context) -> None:
    """Go the other way."""
    start, end = ctx.get("start", 0), ctx.get("end", -1)
    ctx.set("start", end)
    ctx.set("end", start)


def choose_place(ctx: Context, which: str) -> Screen:
    """All places, or those that fit what is typed."""
    query = str(ctx.get("query", "")).strip()
    rows = find_places(ctx, query)

    def item(row: Record) -> Item:
        about = f"{row['kind']} · {short_address(row)}"
        return Item(row["name"], about, icon_of(row), on_tap=do(set_end, which=which, id=row["_id"]))

    own = [] if query else [Item("My location", "Where this phone is", "locate", on_tap=do(set_end, which=which, id=0))]
    results: list[Widget] = [List(rows, item)] if rows else [Empty("map", "No places found")]
    return Screen(
        "Choose start" if which == "start" else "Choose destination",
        [*own, *results],
        top=[TextField("query", "Search places", icon="search"), Spacer(4)],
        up_icon="close",
    )


def set_end(ctx: Context, which: str, id: int) -> None:
    """Take a place as start or destination."""
    ctx.back()
    ctx.set(which, id)
