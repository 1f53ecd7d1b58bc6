"""Tasks of Maps: the way from one place to another, and reviews of places."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from turncredit.envs.android.tasks.effects import Answer, DeleteRow, Effect, InsertRow, Shown
from turncredit.envs.android.tasks.hand import Hand, Lost, Script, is_item
from turncredit.envs.android.tasks.maps import PACKAGE, open_place, pick_place
from turncredit.envs.android.tasks.steps import answer, call, steps, tap
from turncredit.envs.android.tasks.template import Draw, Params, TaskTemplate
from turncredit.phone.apps.maps import ME
from turncredit.phone.apps.maps_places import me
from turncredit.phone.apps.maps_routes import route

__all__ = ["TEMPLATES", "minutes_of_way", "show_way"]

_APPS: Final = ("Maps",)
_WORDS: Final = (
    "The best soup in town",
    "Quiet in the morning",
    "They remembered my name",
    "A little hard to find",
    "Bring some time",
)


def show_way(hand: Hand, start: str, end: str, mode: str) -> Script:
    """Show the directions between two places; "" as the start is where the phone is."""
    yield from open_place(hand, end)
    yield from hand.tap("Directions")
    if start:
        yield from hand.tap("From")
        yield from hand.fill("Search places", start)
        yield from hand.tap(start, where=is_item)
    if mode != "Walking":
        yield from hand.tap(mode, scroll=False)


def minutes_of_way(hand: Hand) -> str:
    """Return how many minutes the way takes that is shown.

    Raises:
        Lost: there is none.
    """
    duration = next((text for text in hand.texts() if text.endswith((" minutes", " minute"))), "")
    if not duration:
        raise Lost("the directions do not say how long it takes")
    return duration.split()[0]


# The way


def _way_draw(mode: str, from_here: bool = False) -> Callable[[Draw], Params | None]:
    def draw(d: Draw) -> Params | None:
        start, end = d.some(d.rows(PACKAGE, "places"), 2)
        first = me(d.phone.seed) if from_here else (start["x"], start["y"])
        way = route(d.phone.seed, first, (end["x"], end["y"]), mode)
        if way.metres < 200 or len(way.legs) < 2:
            return None
        ids = {"start": start["_id"], "end": end["_id"]}
        names = {"from": "" if from_here else start["name"], "to": end["name"]}
        return {**ids, **names, "mode": mode, "minutes": way.minutes, "street": way.legs[1].street}

    return draw


_minutes_solve = steps(call(show_way, "{from}", "{to}", "{mode}"), answer(lambda hand, p: minutes_of_way(hand)))


def _street_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from show_way(hand, p["from"], p["to"], p["mode"])

    def second() -> str | None:
        legs = [t for t in hand.texts() if t.startswith(("Turn ", "Continue "))]
        return legs[0] if legs else None

    leg = second() or (yield from hand.scroll_until(second))
    if not leg:
        raise Lost("the directions have one street only")
    yield from hand.answer(leg.partition(" into " if " into " in leg else " on ")[2])


# Reviews


def _review_draw(d: Draw) -> Params | None:
    p = pick_place(d)
    return {**p, "stars": d.random.between(1, 5), "text": d.random.pick(_WORDS)} if p else None


def _review_effects(p: Params) -> list[Effect]:
    values = {"place": p["id"], "author": ME, "stars": p["stars"], "text": p["text"]}
    return [InsertRow(PACKAGE, "reviews", values)]


def _review_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from open_place(hand, p["place"])
    yield from hand.tap("Write a review")
    yield from hand.choose("Stars", str(p["stars"]))
    yield from hand.fill("Your review", p["text"])
    yield from hand.tap("Post")
    yield from hand.done()


def _own_review_draw(d: Draw) -> Params | None:
    p = _review_draw(d)
    if p is None:
        return None
    values = {"place": p["id"], "author": ME, "stars": p["stars"], "text": p["text"]}
    return {**p, "review": d.insert(PACKAGE, "reviews", **values)}


TEMPLATES: Final = (
    TaskTemplate(
        "MapsAskWalk",
        "How many minutes does it take to walk from {from} to {to}? Answer with a number.",
        _way_draw("Walking"),
        lambda p: [Answer("number", p["minutes"])],
        _minutes_solve,
        _APPS,
        complexity=2.0,
    ),
    TaskTemplate(
        "MapsAskDrive",
        "How many minutes does it take to drive from here to {to}? Answer with a number.",
        _way_draw("Driving", from_here=True),
        lambda p: [Answer("number", p["minutes"])],
        _minutes_solve,
        _APPS,
        complexity=1.6,
    ),
    TaskTemplate(
        "MapsAskStreet",
        "I walk from {from} to {to} as Maps tells me. What is the second street on my way called?",
        _way_draw("Walking"),
        lambda p: [Answer("choice", p["street"])],
        _street_solve,
        _APPS,
        complexity=2.0,
    ),
    TaskTemplate(
        "MapsShowDrive",
        (
            "Show in Maps the way from {from} to {to}, driving.",
            "Driving from {from} to {to}: show the way in Maps.",
        ),
        _way_draw("Driving"),
        lambda p: [Shown(PACKAGE, "directions", {"start": p["start"], "end": p["end"], "mode": "Driving"})],
        steps(call(show_way, "{from}", "{to}", "{mode}")),
        _APPS,
        complexity=2.0,
    ),
    TaskTemplate(
        "MapsReview",
        'Write a review of {place} in Maps with {stars} of 5 stars: "{text}".',
        _review_draw,
        _review_effects,
        _review_solve,
        _APPS,
        complexity=2.0,
    ),
    TaskTemplate(
        "MapsDeleteReview",
        "Delete the review of {place} that I wrote.",
        _own_review_draw,
        lambda p: [DeleteRow(PACKAGE, "reviews", p["review"])],
        steps(call(open_place, "{place}"), tap("Delete my review")),
        _APPS,
        complexity=1.4,
    ),
)
