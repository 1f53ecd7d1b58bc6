"""The vocabulary of generated households: kinds of rooms, receptacles and objects, and where objects are usually kept.

The homes of an object kind are weights over kinds of receptacles, from which the generator draws its location: a prior
that agents can learn. A receptacle takes the kinds that have a home in it, and those of the categories that it takes.

Names are short lower-case words, which small policies learn quickly. `level` is the smallest vocabulary that contains a
kind: 0 tiny, 1 small, 2 full.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

__all__ = [
    "OBJECTS",
    "RECEPTACLES",
    "ROOMS",
    "ObjectKind",
    "ReceptacleKind",
    "RoomKind",
    "accepts",
    "homes",
    "type_name",
]


@dataclass(frozen=True, slots=True)
class ReceptacleKind:
    """A kind of receptacle.

    name: one word. level: smallest vocabulary with it. openable: has a door, lid or drawer front. takes: categories of
    objects that fit. tool: what can be done there: "clean", "heat", "cool" or "".
    """

    name: str
    level: int
    openable: bool
    takes: frozenset[str]
    tool: str = ""


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """A kind of object.

    category: decides which receptacles take it. can: subset of {"clean", "heat", "cool", "light"}. homes: (kind of
    receptacle, weight) where it is usually found.
    """

    name: str
    level: int
    category: str
    can: frozenset[str]
    homes: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class RoomKind:
    """A kind of room. receptacles: (kind, minimum, maximum, weight of a further one)."""

    name: str
    receptacles: tuple[tuple[str, int, int, float], ...]


def _receptacle(name: str, level: int, takes: str, *, openable: bool = False, tool: str = "") -> ReceptacleKind:
    return ReceptacleKind(name, level, openable, frozenset(takes.split()), tool)


def _object(name: str, level: int, category: str, can: str, homes: str) -> ObjectKind:
    pairs = (home.split(":") for home in homes.split())
    return ObjectKind(name, level, category, frozenset(can.split()), tuple((kind, float(w)) for kind, w in pairs))


_ALL = "food dish tool paper gadget textile care toy lamp"

RECEPTACLES: dict[str, ReceptacleKind] = {
    kind.name: kind
    for kind in (
        _receptacle("counter", 0, _ALL),
        _receptacle("cabinet", 0, "dish tool care toy textile", openable=True),
        _receptacle("fridge", 0, "food dish", openable=True, tool="cool"),
        _receptacle("microwave", 0, "food dish", openable=True, tool="heat"),
        _receptacle("sink", 0, "food dish care textile", tool="clean"),
        _receptacle("table", 1, _ALL),
        _receptacle("shelf", 1, "dish paper gadget toy care tool lamp"),
        _receptacle("drawer", 1, "dish tool paper gadget textile care", openable=True),
        _receptacle("desk", 1, "paper gadget dish toy lamp tool"),
        _receptacle("bed", 1, "textile paper gadget toy"),
        _receptacle("sofa", 1, "textile paper gadget toy"),
        _receptacle("bin", 1, "food paper care toy"),
        _receptacle("stove", 2, "dish food"),
        _receptacle("pantry", 2, "food dish", openable=True),
        _receptacle("toaster", 2, ""),
        _receptacle("armchair", 2, "textile paper gadget toy"),
        _receptacle("dresser", 2, "textile paper gadget toy care", openable=True),
        _receptacle("nightstand", 2, "paper gadget lamp care dish"),
        _receptacle("wardrobe", 2, "textile toy", openable=True),
        _receptacle("safe", 2, "gadget paper jewel", openable=True),
        _receptacle("bath", 2, "care textile toy"),
        _receptacle("toilet", 2, "care paper textile"),
        _receptacle("hamper", 2, "textile", openable=True),
        _receptacle("rack", 2, "textile tool toy"),
        _receptacle("workbench", 2, "tool gadget lamp paper"),
        _receptacle("toolbox", 2, "tool", openable=True),
        _receptacle("chest", 2, "textile toy tool", openable=True),
        _receptacle("cart", 2, "dish food tool care paper"),
    )
}

OBJECTS: dict[str, ObjectKind] = {
    kind.name: kind
    for kind in (
        _object("mug", 0, "dish", "clean heat cool", "counter:3 cabinet:4 sink:2 desk:2 table:3 shelf:1 microwave:1"),
        _object("apple", 0, "food", "clean heat cool", "fridge:5 counter:3 table:3 bin:1 sink:1 pantry:2"),
        _object("plate", 0, "dish", "clean heat cool", "cabinet:5 counter:2 sink:2 table:3 shelf:1 drawer:1"),
        _object("lamp", 0, "lamp", "light", "desk:5 nightstand:5 table:3 counter:2 shelf:2 workbench:3"),
        _object("potato", 0, "food", "clean heat cool", "fridge:3 counter:3 sink:2 pantry:4 microwave:1 table:1"),
        _object("cup", 1, "dish", "clean heat cool", "cabinet:4 counter:3 table:2 shelf:2 fridge:1 sink:1"),
        _object("egg", 1, "food", "clean heat cool", "fridge:6 counter:1 microwave:1 sink:1 pantry:1"),
        _object("knife", 1, "tool", "clean", "drawer:5 counter:3 table:1 cabinet:1 workbench:2"),
        _object("book", 1, "paper", "", "shelf:4 desk:3 bed:2 sofa:2 table:2 drawer:1 nightstand:3"),
        _object("pen", 1, "paper", "", "desk:4 drawer:4 table:1 shelf:1 nightstand:1"),
        _object("phone", 1, "gadget", "", "desk:3 bed:2 sofa:2 table:2 drawer:1 nightstand:3 dresser:1"),
        _object("pillow", 1, "textile", "", "bed:5 sofa:4 armchair:3 wardrobe:1 chest:1"),
        _object("cloth", 1, "textile", "clean", "cabinet:3 sink:2 drawer:2 counter:2 bath:2 rack:2 hamper:2"),
        _object("soap", 1, "care", "clean", "sink:4 cabinet:3 counter:2 bath:3 toilet:1 cart:1 bin:1"),
        _object("bread", 2, "food", "heat cool", "counter:4 fridge:2 pantry:4 table:2 toaster:1"),
        _object("tomato", 2, "food", "clean heat cool", "fridge:5 counter:3 table:1 sink:1"),
        _object("lettuce", 2, "food", "clean cool", "fridge:6 counter:2 sink:1 table:1"),
        _object("carrot", 2, "food", "clean heat cool", "fridge:4 pantry:3 counter:2 sink:1"),
        _object("pot", 2, "dish", "clean cool", "stove:5 cabinet:3 counter:1 sink:1 shelf:1"),
        _object("pan", 2, "dish", "clean cool", "stove:5 cabinet:3 counter:2 sink:1 fridge:1"),
        _object("bowl", 2, "dish", "clean heat cool", "cabinet:4 shelf:2 counter:2 table:2 fridge:1"),
        _object("kettle", 2, "dish", "clean", "stove:4 counter:3 cabinet:1 table:1"),
        _object("bottle", 2, "dish", "clean cool", "fridge:4 counter:2 pantry:2 table:1 cart:1"),
        _object("fork", 2, "tool", "clean", "drawer:5 counter:2 table:2 sink:1"),
        _object("spoon", 2, "tool", "clean", "drawer:5 counter:2 table:1 sink:1"),
        _object("ladle", 2, "tool", "clean", "drawer:3 counter:3 rack:1 sink:1"),
        _object("sponge", 2, "care", "clean", "sink:4 counter:2 cabinet:2 cart:1"),
        _object("towel", 2, "textile", "clean", "rack:5 bath:2 hamper:2 cabinet:1 sink:1"),
        _object("brush", 2, "care", "clean", "sink:2 bath:2 cabinet:2 shelf:1 toilet:1"),
        _object("candle", 2, "care", "", "bath:3 shelf:2 table:2 toilet:1 dresser:2 cabinet:1"),
        _object("tissue", 2, "care", "", "toilet:3 nightstand:2 cabinet:2 table:1 dresser:1 bin:1"),
        _object("newspaper", 2, "paper", "", "sofa:4 table:3 armchair:2 bin:2 desk:1 toilet:1"),
        _object("letter", 2, "paper", "", "desk:4 drawer:3 table:2 safe:1 bin:1"),
        _object("pencil", 2, "paper", "", "desk:4 drawer:3 shelf:1 workbench:2"),
        _object("laptop", 2, "gadget", "", "desk:5 bed:2 sofa:2 table:2"),
        _object("remote", 2, "gadget", "", "sofa:4 armchair:3 table:3 drawer:1"),
        _object("tablet", 2, "gadget", "", "sofa:2 bed:2 desk:3 nightstand:2 armchair:1"),
        _object("watch", 2, "gadget", "", "nightstand:3 dresser:3 safe:3 desk:1 drawer:1"),
        _object("clock", 2, "gadget", "", "nightstand:4 shelf:3 desk:2 dresser:1 table:1"),
        _object("keys", 2, "gadget", "", "safe:3 table:2 drawer:3 desk:1 dresser:2 sofa:1"),
        _object("blanket", 2, "textile", "clean", "bed:4 sofa:2 chest:3 wardrobe:3 armchair:1 hamper:1"),
        _object("shirt", 2, "textile", "clean", "wardrobe:5 dresser:3 hamper:3 bed:1"),
        _object("hat", 2, "textile", "", "rack:4 wardrobe:3 dresser:1 chest:1"),
        _object("ball", 2, "toy", "", "chest:3 bed:1 shelf:1 bath:1 rack:1 sofa:1"),
        _object("teddy", 2, "toy", "", "bed:4 chest:2 sofa:1 shelf:1 armchair:1"),
        _object("puzzle", 2, "toy", "", "shelf:4 table:2 chest:2 dresser:1"),
        _object("hammer", 2, "tool", "", "toolbox:4 workbench:3 rack:2 drawer:1"),
        _object("wrench", 2, "tool", "clean", "toolbox:4 workbench:2 rack:2 drawer:1"),
        _object("saw", 2, "tool", "", "rack:4 workbench:3 chest:1"),
        _object("tape", 2, "tool", "", "drawer:3 toolbox:2 desk:2 workbench:2"),
        _object("screwdriver", 2, "tool", "clean", "toolbox:4 drawer:2 workbench:3 cart:1"),
        _object("radio", 2, "gadget", "", "workbench:3 shelf:3 dresser:1 desk:1"),
        _object("lantern", 2, "lamp", "light", "workbench:4 shelf:3 table:2 nightstand:1 desk:1"),
    )
}

ROOMS: dict[str, RoomKind] = {
    room.name: room
    for room in (
        RoomKind(
            "kitchen",
            (
                ("counter", 1, 3, 2.0),
                ("cabinet", 1, 12, 4.0),
                ("drawer", 0, 8, 3.0),
                ("fridge", 1, 1, 0.0),
                ("microwave", 1, 1, 0.0),
                ("sink", 1, 1, 0.0),
                ("table", 0, 2, 1.0),
                ("shelf", 0, 3, 1.0),
                ("bin", 0, 1, 0.7),
                ("stove", 0, 4, 1.5),
                ("pantry", 0, 1, 0.7),
                ("toaster", 0, 1, 0.7),
                ("cart", 0, 1, 0.3),
            ),
        ),
        RoomKind(
            "living",
            (
                ("sofa", 1, 2, 1.0),
                ("table", 1, 4, 1.5),
                ("shelf", 1, 8, 2.0),
                ("drawer", 0, 8, 2.0),
                ("cabinet", 0, 4, 1.0),
                ("armchair", 0, 3, 1.0),
                ("dresser", 0, 1, 0.5),
                ("safe", 0, 1, 0.3),
                ("bin", 0, 1, 0.5),
                ("desk", 0, 1, 0.5),
            ),
        ),
        RoomKind(
            "bedroom",
            (
                ("bed", 1, 2, 1.0),
                ("desk", 1, 1, 0.0),
                ("drawer", 1, 10, 3.0),
                ("shelf", 0, 6, 2.0),
                ("nightstand", 0, 2, 1.0),
                ("wardrobe", 0, 1, 0.7),
                ("dresser", 0, 1, 0.7),
                ("safe", 0, 1, 0.3),
                ("hamper", 0, 1, 0.5),
                ("chest", 0, 1, 0.4),
                ("armchair", 0, 1, 0.4),
                ("bin", 0, 1, 0.5),
            ),
        ),
        RoomKind(
            "bathroom",
            (
                ("sink", 1, 2, 0.3),
                ("counter", 1, 2, 0.5),
                ("cabinet", 1, 6, 2.0),
                ("bath", 0, 1, 1.0),
                ("toilet", 0, 1, 1.0),
                ("rack", 0, 4, 1.0),
                ("hamper", 0, 1, 0.5),
                ("shelf", 0, 3, 0.7),
                ("drawer", 0, 6, 1.0),
                ("bin", 0, 1, 0.7),
                ("cart", 0, 1, 0.3),
            ),
        ),
        RoomKind(
            "office",
            (
                ("desk", 1, 3, 1.0),
                ("shelf", 1, 8, 2.0),
                ("drawer", 1, 10, 3.0),
                ("cabinet", 0, 4, 1.0),
                ("table", 0, 2, 0.7),
                ("safe", 0, 1, 0.5),
                ("sofa", 0, 1, 0.4),
                ("armchair", 0, 2, 0.7),
                ("bin", 0, 2, 0.7),
            ),
        ),
        RoomKind(
            "workshop",
            (
                ("workbench", 1, 3, 1.0),
                ("rack", 1, 4, 1.5),
                ("toolbox", 1, 3, 1.0),
                ("drawer", 0, 8, 2.0),
                ("shelf", 0, 6, 1.5),
                ("sink", 1, 1, 0.0),
                ("chest", 0, 2, 0.5),
                ("cabinet", 0, 4, 1.0),
                ("bin", 0, 1, 0.5),
            ),
        ),
    )
}


def type_name(kind: str) -> str:
    """Return the PDDL constant of a kind, such as MugType; a sink is SinkBasinType."""
    return "SinkBasinType" if kind == "sink" else f"{kind.capitalize()}Type"


@cache
def accepts(receptacle: str) -> frozenset[str]:
    """Return the kinds of objects that fit on or into a kind of receptacle."""
    kind = RECEPTACLES[receptacle]
    return frozenset(
        thing.name
        for thing in OBJECTS.values()
        if thing.category in kind.takes or any(home == receptacle for home, _ in thing.homes)
    )


@cache
def homes(thing: str) -> dict[str, float]:
    """Return the kinds of receptacles where a kind of object is usually found, with their weights."""
    return dict(OBJECTS[thing].homes)
