"""Openpages: an encyclopedia of things that do not exist, with the facts of each in a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from turncredit.phone.content.people import FIRST_NAMES, LAST_NAMES, TOWNS
from turncredit.phone.toolkit.app import Context
from turncredit.phone.toolkit.handlers import do
from turncredit.phone.toolkit.widgets import (
    Button,
    Card,
    Chip,
    Divider,
    Item,
    Row,
    Section,
    Spacer,
    Text,
    TextField,
    Widget,
)
from turncredit.phone.web.navigation import go
from turncredit.phone.web.page import Indexed, Site, WebPage, banner, paragraphs
from turncredit.tools.keyed_random import KeyedRandom

__all__ = ["HOST", "SITE", "Subject", "subjects"]

HOST: Final = "openpages.example"


class Subject(NamedTuple):
    """The subject of an article. `facts`: label -> value, as the table shows them."""

    kind: str
    name: str
    text: tuple[str, ...]
    facts: Mapping[str, str]

    @property
    def path(self) -> str:
        """Its address on the site."""
        return f"page/{self.name.replace(' ', '_')}"


_NAMES: Final = {
    "River": ("Aldra", "Brenn", "Corve", "Ismere", "Luthen", "Tavra"),
    "Mountain": ("Grey Anvil", "Kestrel Peak", "Mount Orda", "Old Wether", "Sallow Fell", "White Comb"),
    "Bird": ("Ashen pipit", "Bell wren", "Dusk heron", "Marsh lantern", "Reed singer", "Stone tern"),
    "Instrument": ("Cordello", "Hurl harp", "Lumophone", "Tarrel", "Vintole", "Wind lyre"),
    "Bridge": ("Abbot's Bridge", "Chain Bridge", "Lion Bridge", "Needle Bridge", "Salt Bridge", "Seven Arches"),
    "Lighthouse": ("Cape Merrow Light", "Dunmark Light", "Gull Rock Light", "Hollow Point Light", "Spindle Light"),
}
_FOOD: Final = ("beetles", "small fish", "berries", "grass seeds", "snails", "midges")
_WOODS: Final = ("pear wood", "maple", "walnut", "cherry wood", "ash")


def _person(random: KeyedRandom) -> str:
    return f"{random.pick(FIRST_NAMES)} {random.pick(LAST_NAMES)}"


def _river(random: KeyedRandom, name: str) -> tuple[tuple[str, ...], dict[str, str]]:
    length, source, town = random.between(41, 388), random.between(600, 2400), random.pick(TOWNS)
    ferries = random.between(2, 9)
    text = (
        f"The {name} is a river of {length} kilometres. It rises from a spring at a height of {source} metres and "
        f"flows past {town} before it reaches the sea.",
        f"In its lower part {ferries} ferries cross the river. Every spring its meadows are under water, which makes "
        "them a resting place of many birds.",
    )
    facts = {"Length": f"{length} km", "Source": f"{source} m", "Largest town": town, "Ferries": str(ferries)}
    return text, facts


def _mountain(random: KeyedRandom, name: str) -> tuple[tuple[str, ...], dict[str, str]]:
    height, year, by = random.between(1120, 4630), random.between(1786, 1931), _person(random)
    huts = random.between(1, 6)
    text = (
        f"{name} rises to {height} metres. It was first climbed in {year} by {by}, who left a tin box at the top in "
        "which visitors still write their names.",
        f"There are {huts} huts on the way. From the last one the climb takes four hours in good weather.",
    )
    facts = {"Height": f"{height} m", "First climbed": str(year), "First climber": by, "Huts": str(huts)}
    return text, facts


def _bird(random: KeyedRandom, name: str) -> tuple[tuple[str, ...], dict[str, str]]:
    span, eggs, food, weight = random.between(18, 96), random.between(2, 7), random.pick(_FOOD), random.between(14, 900)
    text = (
        f"The {name.lower()} is a bird with a wingspan of {span} centimetres. It lives mostly on {food}.",
        f"It lays {eggs} eggs in a nest of moss and reeds. Both parents sit on them in turn. An adult weighs "
        f"{weight} grams.",
    )
    facts = {"Wingspan": f"{span} cm", "Eggs": str(eggs), "Food": food, "Weight": f"{weight} g"}
    return text, facts


def _instrument(random: KeyedRandom, name: str) -> tuple[tuple[str, ...], dict[str, str]]:
    strings, year, by, wood = random.between(3, 21), random.between(1560, 1890), _person(random), random.pick(_WOODS)
    text = (
        f"The {name.lower()} is a musical instrument with {strings} strings, built of {wood}. {by} made the first one "
        f"in {year}.",
        "Its tone is soft and a little nasal. For a century it was played at weddings; today a few orchestras use it.",
    )
    facts = {"Strings": str(strings), "Invented": str(year), "Inventor": by, "Material": wood}
    return text, facts


def _bridge(random: KeyedRandom, name: str) -> tuple[tuple[str, ...], dict[str, str]]:
    length, year, arches, town = (
        random.between(64, 720),
        random.between(1604, 1968),
        random.between(3, 14),
        random.pick(TOWNS),
    )
    text = (
        f"{name} stands in {town} and is {length} metres long. It was opened in {year} and has {arches} arches.",
        "For many years every cart paid a toll. The small house of the toll keeper is now a café.",
    )
    return text, {"Length": f"{length} m", "Opened": str(year), "Arches": str(arches), "Town": town}


def _lighthouse(random: KeyedRandom, name: str) -> tuple[tuple[str, ...], dict[str, str]]:
    height, year, steps, reach = (
        random.between(14, 58),
        random.between(1788, 1949),
        random.between(62, 240),
        random.between(9, 31),
    )
    text = (
        f"{name} is {height} metres high. It was lit for the first time in {year}, and its light can be seen for "
        f"{reach} kilometres.",
        f"{steps} steps lead to the lamp. The last keeper left long ago; visitors may climb up on Sundays.",
    )
    return text, {"Height": f"{height} m", "First lit": str(year), "Steps": str(steps), "Range": f"{reach} km"}


_WRITERS: Final[dict[str, Callable[[KeyedRandom, str], tuple[tuple[str, ...], dict[str, str]]]]] = {
    "River": _river,
    "Mountain": _mountain,
    "Bird": _bird,
    "Instrument": _instrument,
    "Bridge": _bridge,
    "Lighthouse": _lighthouse,
}


@lru_cache(maxsize=64)
def subjects(seed: int | str) -> tuple[Subject, ...]:
    """Return the articles of a phone with this seed by kind and name."""
    random = KeyedRandom(f"{seed}/web/encyclopedia")
    return tuple(Subject(kind, name, *_WRITERS[kind](random, name)) for kind, names in _NAMES.items() for name in names)


def _page(ctx: Context, path: str, query: Mapping[str, str]) -> WebPage | None:
    articles = subjects(ctx.phone.seed)
    if path == "":
        return _front()
    if path == "search":
        return _results(articles, query.get("q", ""))
    for kind in _NAMES:
        if path == f"kind/{kind}":
            return _list(kind, [subject for subject in articles if subject.kind == kind])
    return next((_article(subject, articles) for subject in articles if subject.path == path), None)


def _head() -> Widget:
    return banner("Openpages", "An encyclopedia that anybody may read", "#31546b", do(go, url=HOST))


def _front() -> WebPage:
    body: list[Widget] = [
        Spacer(4),
        _head(),
        Spacer(12),
        TextField("words", "Search Openpages", icon="search", on_submit=do(search)),
        Row([Spacer(), Button("Search articles", do(search), "tonal", "search")]),
        Section("Browse"),
    ]
    body += [Item(f"{kind}s", icon="folder", on_tap=do(go, url=f"{HOST}/kind/{kind}")) for kind in _NAMES]
    return WebPage("Openpages", body)


def search(ctx: Context) -> None:
    """Search the words of the field."""
    words = str(ctx.form.get("words", "")).strip()
    if words:
        go(ctx, f"{HOST}/search?q={words.replace('&', ' ').replace('#', ' ').replace(' ', '+')}")


def _list(kind: str, members: list[Subject]) -> WebPage:
    body: list[Widget] = [Spacer(4), _head(), Section(f"{kind}s")]
    return WebPage(f"{kind}s · Openpages", [*body, *[_link(subject) for subject in members]])


def _link(subject: Subject) -> Item:
    return Item(subject.name, subject.kind, "file", on_tap=do(go, url=f"{HOST}/{subject.path}"))


def _results(articles: tuple[Subject, ...], words: str) -> WebPage:
    terms = words.casefold().split()
    matches = [
        article
        for article in articles
        if all(word in f"{article.name} {article.kind} {article.text}".casefold() for word in terms)
    ]
    matches.sort(key=lambda article: words.casefold() not in article.name.casefold())
    body: list[Widget] = [Spacer(4), _head(), Section(f"{len(matches)} articles with '{words}'")]
    return WebPage(f"{words} · Openpages", [*body, *[_link(subject) for subject in matches[:20]]])


def _article(subject: Subject, articles: tuple[Subject, ...]) -> WebPage:
    others = [other for other in articles if other.kind == subject.kind and other != subject]
    body: list[Widget] = [
        Spacer(4),
        _head(),
        Spacer(16),
        Text(subject.name, style="title"),
        Row([Chip(subject.kind, do(go, url=f"{HOST}/kind/{subject.kind}"))], padding=16),
        Spacer(8),
        Card([Item(label, trailing=value) for label, value in subject.facts.items()]),
        Spacer(8),
        paragraphs(subject.text),
        Divider(),
        Section("See also"),
    ]
    return WebPage(f"{subject.name} · Openpages", [*body, *[_link(other) for other in others]])


def _index(seed: int | str) -> list[Indexed]:
    front = Indexed("", "Openpages", "Encyclopedia of rivers, mountains, birds, instruments, bridges and lighthouses.")
    return [front, *[Indexed(subject.path, subject.name, " ".join(subject.text)) for subject in subjects(seed)]]


SITE: Final = Site(HOST, "Openpages", "Encyclopedia", "globe", "#31546b", _page, _index, {})
