"""Places of Maps as its screens ask for them: names, points, distances, and a search. A place without a row is here."""

from __future__ import annotations

import math

from turncredit.phone.apps.maps_places import KINDS, me
from turncredit.phone.apps.maps_town import NAME, Point
from turncredit.phone.toolkit.app import Context
from turncredit.phone.toolkit.tables import Row as Record

__all__ = ["away", "find_places", "font_scale", "group_of", "icon_of", "name_of", "point_of", "short_address"]


def name_of(ctx: Context, id: int) -> str:
    """Return the name of a place."""
    row = ctx.db.get("places", id)
    return str(row["name"]) if row else "My location"


def point_of(ctx: Context, id: int) -> Point:
    """Return where a place is."""
    row = ctx.db.get("places", id)
    return (row["x"], row["y"]) if row else me(ctx.phone.seed)


def icon_of(row: Record) -> str:
    """Return the icon of a place."""
    return KINDS[row["kind"]].icon if row["kind"] in KINDS else "pin"


def group_of(row: Record) -> str:
    """Return the group of a place, such as 'Food'."""
    return KINDS[row["kind"]].group if row["kind"] in KINDS else ""


def short_address(row: Record) -> str:
    """Return street and number of a place."""
    return str(row["address"]).removesuffix(f", {NAME}")


def away(ctx: Context, row: Record) -> float:
    """Return how many metres a place is away, as the crow flies."""
    return math.dist((row["x"], row["y"]), me(ctx.phone.seed))


def find_places(ctx: Context, query: str) -> list[Record]:
    """Return the places in whose name, kind, group or address all words occur, the nearest first."""
    words = query.casefold().split()

    def fits(row: Record) -> bool:
        text = f"{row['name']} {row['kind']} {group_of(row)} {row['address']}".casefold()
        return all(word in text or (word.endswith("s") and word[:-1] in text) for word in words)

    return sorted(filter(fits, ctx.db.rows("places")), key=lambda row: (away(ctx, row), row["_id"]))


def font_scale(ctx: Context) -> float:
    """Return the font size of the phone, 1.0 for the normal one."""
    return float(ctx.setting("font_scale") or "1")
