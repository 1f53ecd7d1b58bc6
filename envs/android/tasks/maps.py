"""Tasks of Maps: look up places, save and review them, find the way."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Final

from turncredit.envs.android.elements import ScreenElement
from turncredit.envs.android.tasks.effects import Answer, DeleteRow, Effect, Infeasible, InsertRow, UpdateRow
from turncredit.envs.android.tasks.hand import Finding, Hand, Lost, Script, is_item
from turncredit.envs.android.tasks.steps import call, give_up, start, steps, tap
from turncredit.envs.android.tasks.template import Draw, Params, TaskTemplate
from turncredit.phone.apps.maps import LISTS
from turncredit.phone.apps.maps_places import KINDS, me
from turncredit.phone.apps.maps_town import NAME
from turncredit.phone.toolkit.tables import Row

__all__ = ["PACKAGE", "TEMPLATES", "open_place", "pick_place", "place_detail"]

PACKAGE: Final = "org.turncredit.maps"
_APPS: Final = ("Maps",)
_DAYS: Final = {"weekdays": "Monday to Friday", "saturday": "Saturday", "sunday": "Sunday"}
_SAID_DAYS: Final = {"weekdays": "on weekdays", "saturday": "on Saturdays", "sunday": "on Sundays"}
_ABSENT: Final = ("Crooked Mill", "Silver Anchor", "Poppy House", "Northern Star", "Tin Whistle")


# Drawing


def pick_place(d: Draw, fits: Callable[[Row], object] = lambda row: True) -> Params | None:
    """Draw a place, or None if there is none like that."""
    row = d.pick([row for row in d.rows(PACKAGE, "places") if fits(row)])
    return _params(row) if row else None


def _params(row: Row) -> Params:
    return {
        "id": row["_id"],
        "place": row["name"],
        "kind": row["kind"],
        "address": row["address"],
        "phone": row["phone"],
    }


def _short(address: str) -> str:
    return address.removesuffix(f", {NAME}")


def _unsaved(d: Draw) -> Callable[[Row], bool]:
    taken = {row["place"] for row in d.rows(PACKAGE, "saved")}
    return lambda row: row["_id"] not in taken


def _several(d: Draw) -> tuple[str, list[Row]] | None:
    """Draw a kind of which there are several places, and those."""
    rows = d.rows(PACKAGE, "places")
    kinds = [kind for kind in KINDS if sum(row["kind"] == kind for row in rows) > 2]
    kind = d.pick(kinds)
    return (kind, [row for row in rows if row["kind"] == kind]) if kind else None


def _plural(kind: str) -> str:
    low = kind.lower()
    return f"{low[:-1]}ies" if low.endswith("y") else f"{low}s"


# Ways


def search(hand: Hand, words: str) -> Script:
    """Show what a search finds."""
    yield from hand.open("Maps")
    if not hand.see("Search here"):
        yield from hand.tap("Explore", scroll=False)
    yield from hand.fill("Search here", words)


def open_place(hand: Hand, name: str) -> Script:
    """Open the sheet of a place."""
    yield from search(hand, name)
    yield from hand.tap(name, where=is_item)


def place_detail(hand: Hand, name: str, label: str) -> Finding:
    """Return 'Address', 'Phone' or 'Rating' of a place."""
    yield from open_place(hand, name)
    yield from hand.look_for(label)
    return hand.before(label)


def save_place(hand: Hand, name: str, list_name: str) -> Script:
    """Put a place into a list."""
    yield from open_place(hand, name)
    yield from hand.tap("Saved" if hand.see("Saved") else "Save")
    yield from hand.tap(list_name, scroll=False)


def results(hand: Hand, words: str) -> Finding:
    """Return (name, kind, rating) of all places that a search finds, from the nearest on."""
    yield from search(hand, words)
    places = yield from hand.read_all(_result)
    return places


def _result(element: ScreenElement) -> tuple[str, str, float] | None:
    parts = element.texts[1].split(" · ") if len(element.texts) > 2 else []
    return (element.texts[0], parts[0], float(parts[1])) if len(parts) == 3 else None


# Saved places


def _save_draw(d: Draw) -> Params | None:
    p = pick_place(d, _unsaved(d))
    return {**p, "list": d.random.pick(LISTS)} if p else None


def _saved(p: Params) -> list[Effect]:
    return [InsertRow(PACKAGE, "saved", {"place": p["id"], "list": p["list"]})]


def _own_draw(d: Draw) -> Params | None:
    row = d.pick(d.rows(PACKAGE, "saved"))
    if row is None:
        return None
    venue = d.rows(PACKAGE, "places", _id=row["place"])[0]
    other = d.random.pick([name for name in LISTS if name != row["list"]])
    return {**_params(venue), "saved": row["_id"], "list": row["list"], "other": other}


def _away(d: Draw, row: Row) -> float:
    x, y = me(d.phone.seed)
    return math.dist((row["x"], row["y"]), (x, y))


def _nearest_draw(d: Draw) -> Params | None:
    group = _several(d)
    if group is None:
        return None
    first, second = sorted(group[1], key=lambda row: _away(d, row))[:2]
    if _away(d, second) - _away(d, first) < 25 or not _unsaved(d)(first):
        return None
    return {**_params(first), "kind": group[0].lower(), "list": d.random.pick(LISTS)}


def _nearest_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from search(hand, p["kind"])
    row = next((r for r in map(_result, hand.screen) if r and r[1].casefold() == p["kind"]), None)
    if row is None:
        raise Lost(f"no {p['kind']} is found")
    yield from save_place(hand, row[0], p["list"])
    yield from hand.done()


# Questions


def _address_solve(hand: Hand, p: Params) -> Iterator[str]:
    address = yield from place_detail(hand, p["place"], "Address")
    yield from hand.answer(address)


def _closing_draw(d: Draw) -> Params | None:
    day = d.random.pick(tuple(_DAYS))
    row = d.pick([r for r in d.rows(PACKAGE, "places") if r[day] and not r[day].endswith("24:00")])
    return {**_params(row), "day": day, "said": _SAID_DAYS[day], "time": row[day].split("-")[1]} if row else None


def _closing_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from open_place(hand, p["place"])
    row = yield from hand.look_for(_DAYS[p["day"]])
    hours = hand.after(_DAYS[p["day"]]) if len(row.texts) < 2 else row.texts[1]
    yield from hand.answer(hours.split(" to ")[1])


def _best_draw(d: Draw) -> Params | None:
    group = _several(d)
    if group is None:
        return None
    best, second = sorted(group[1], key=lambda row: -row["rating"])[:2]
    if best["rating"] == second["rating"]:
        return None
    return {"kind": group[0].lower(), "plural": _plural(group[0]), "best": best["name"], **_free(d, best)}


def _free(d: Draw, row: Row) -> Params:
    return {"id": row["_id"], "list": d.random.pick(LISTS), "unsaved": _unsaved(d)(row)}


def _best(hand: Hand, kind: str) -> Finding:
    rows = yield from results(hand, kind)
    fitting = [row for row in rows if row[1].casefold() == kind]
    if not fitting:
        raise Lost(f"no {kind} is found")
    return max(fitting, key=lambda row: row[2])[0]


def _best_solve(hand: Hand, p: Params) -> Iterator[str]:
    best = yield from _best(hand, p["kind"])
    yield from hand.answer(best)


def _save_best_draw(d: Draw) -> Params | None:
    p = _best_draw(d)
    return p if p and p["unsaved"] else None


def _save_best_solve(hand: Hand, p: Params) -> Iterator[str]:
    best = yield from _best(hand, p["kind"])
    yield from save_place(hand, best, p["list"])
    yield from hand.done()


def _count_draw(d: Draw) -> Params | None:
    group = _several(d)
    return {"kind": group[0].lower(), "plural": _plural(group[0]), "count": len(group[1])} if group else None


def _count_solve(hand: Hand, p: Params) -> Iterator[str]:
    rows = yield from results(hand, p["kind"])
    yield from hand.answer(sum(row[1].casefold() == p["kind"] for row in rows))


# What cannot be done


TEMPLATES: Final = (
    TaskTemplate(
        "MapsSave",
        ("Save {place} to my list {list} in Maps.", "Put {place} into the list {list} of my saved places."),
        _save_draw,
        _saved,
        steps(call(save_place, "{place}", "{list}")),
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "MapsUnsave",
        ("Remove {place} from my saved places in Maps.", "I do not need {place} among my saved places any more."),
        _own_draw,
        lambda p: [DeleteRow(PACKAGE, "saved", p["saved"])],
        steps(start("Maps"), tap("Saved", scroll=False), tap("Remove {place}")),
        _APPS,
    ),
    TaskTemplate(
        "MapsMoveToList",
        "{place} is among my saved places in Maps. Move it to the list {other}.",
        _own_draw,
        lambda p: [UpdateRow(PACKAGE, "saved", p["saved"], {"list": p["other"]})],
        steps(call(save_place, "{place}", "{other}")),
        _APPS,
        complexity=1.4,
        split="held_out",
    ),
    TaskTemplate(
        "MapsSaveNearest",
        "Save the {kind} that is nearest to me to my list {list} in Maps, as the crow flies.",
        _nearest_draw,
        _saved,
        _nearest_solve,
        _APPS,
        complexity=1.8,
    ),
    TaskTemplate(
        "MapsSaveBest",
        "Save the {kind} with the best rating to my list {list} in Maps.",
        _save_best_draw,
        _saved,
        _save_best_solve,
        _APPS,
        complexity=2.0,
        split="held_out",
    ),
    TaskTemplate(
        "MapsAskAddress",
        ("What is the address of {place}?", "In which street and at which number is {place}? See Maps."),
        lambda d: pick_place(d),
        lambda p: [Answer("text", p["address"], (_short(p["address"]),))],
        _address_solve,
        _APPS,
    ),
    TaskTemplate(
        "MapsAskClosing",
        "When does {place} close {said}? Answer with a time.",
        _closing_draw,
        lambda p: [Answer("time", p["time"])],
        _closing_solve,
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "MapsAskBest",
        "Which of the {plural} in Maps has the best rating?",
        _best_draw,
        lambda p: [Answer("choice", p["best"])],
        _best_solve,
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "MapsCount",
        "How many {plural} does Maps find in the town? Answer with a number.",
        _count_draw,
        lambda p: [Answer("number", p["count"])],
        _count_solve,
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "MapsSaveMissing",
        "Save {place} to my list {list} in Maps. If Maps does not know it, say so.",
        lambda d: {"place": d.random.pick(_ABSENT), "list": d.random.pick(LISTS)},
        lambda p: [Infeasible()],
        steps(call(search, "{place}"), give_up()),
        _APPS,
        tags=("infeasible",),
    ),
    TaskTemplate(
        "MapsCallMissing",
        "Call {place}, with the number that Maps has for it.",
        lambda d: pick_place(d, lambda row: not row["phone"]),
        lambda p: [Infeasible()],
        steps(call(open_place, "{place}"), give_up()),
        _APPS,
        tags=("infeasible",),
    ),
)
