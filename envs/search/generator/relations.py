"""What can be said and asked about the things of a world: kinds, relations, and our own sentences for them.

In a sentence {s} is what the passage is about, {o} what the fact leads to; in a phrase or a question {s} is whatever is
asked about. {kind}, {verb} and {role} are words of the thing: a film has a director, who directed it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["FILLERS", "KINDS", "LATER", "RELATIONS", "SORTS", "VALUES", "Relation", "relations_of"]

KINDS: Final = ("work", "person", "place", "region", "event", "company", "school")
"""Kinds of things, in the order in which levels add them."""

SORTS: Final[Mapping[str, tuple[tuple[str, str, str], ...]]] = {
    "work": (
        ("novel", "wrote", "author"),
        ("film", "directed", "director"),
        ("song", "composed", "composer"),
        ("painting", "painted", "painter"),
        ("play", "wrote", "author"),
    ),
    "event": (("fair", "started", "founder"), ("race", "started", "founder"), ("feast", "started", "founder")),
}
"""Of some kinds: noun, verb and role of each sort."""

LATER: Final[Mapping[str, tuple[str, ...]]] = {
    "work": ("it", "the {kind}"),
    "person": ("{last}",),
    "place": ("it", "the town"),
    "region": ("it", "the region"),
    "event": ("it", "the {kind}"),
    "company": ("it", "the company"),
    "school": ("it", "the school"),
}
"""How a thing is called after the first sentence of its passage."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A fact that a thing of one kind has about exactly one other.

    Attributes:
        name: of the relation.
        subject: kind of the thing.
        object: kind of what it leads to, or the name of a list of values, or "year".
        says: sentences; each holds {s} and {o}.
        asks: questions for {o}.
        phrases: noun phrases that name {o} by {s}; none where it leads to no thing.
        words: what a searcher adds to the name.
        mentions: sentences for the passage of {o}.
    """

    name: str
    subject: str
    object: str
    says: tuple[str, ...]
    asks: tuple[str, ...]
    words: str
    phrases: tuple[str, ...] = ()
    mentions: tuple[str, ...] = ()


RELATIONS: Final[tuple[Relation, ...]] = (
    Relation(
        "author",
        "work",
        "person",
        ("{s} is a {kind} by {o}", "{o} {verb} {s}", "the {role} of {s} is {o}"),
        ("Who {verb} {s}?", "Who is the {role} of {s}?", "By whom is the {kind} {s}?"),
        "{role}",
        ("the {role} of {s}", "the person who {verb} {s}"),
        ("{s} is remembered for {o}", "among the works of {s} is {o}"),
    ),
    Relation(
        "released",
        "work",
        "year",
        ("{s} came out in {o}", "{s} first met its public in {o}", "the year {o} brought {s} to light"),
        ("In which year did {s} come out?", "When did {s} come out?"),
        "came out year",
    ),
    Relation(
        "scene",
        "work",
        "place",
        (
            "{s} is about life in {o}",
            "{s} leads us to the streets of {o}",
            "the town of {o} stands at the heart of {s}",
        ),
        ("Which town is {s} about?", "Life in which town does {s} tell of?"),
        "town",
        ("the setting of {s}", "the town that {s} is about"),
        ("{o} is about life here",),
    ),
    Relation(
        "born",
        "person",
        "place",
        ("{s} was born in {o}", "{s} is a child of {o}", "{o} is the birthplace of {s}"),
        ("Where was {s} born?", "In which town was {s} born?", "What is the birthplace of {s}?"),
        "born",
        ("the birthplace of {s}", "the town where {s} was born"),
        ("{o} was born here", "among those born here is {o}"),
    ),
    Relation(
        "birth",
        "person",
        "year",
        ("{s} came into the world in {o}", "the year {o} saw the birth of {s}"),
        ("In which year was {s} born?", "When was {s} born?"),
        "year birth",
    ),
    Relation(
        "job",
        "person",
        "job",
        ("{s} worked as a {o}", "{s} earned a living as a {o}", "by trade {s} was a {o}"),
        ("What did {s} work as?", "What was the trade of {s}?"),
        "worked as",
    ),
    Relation(
        "teacher",
        "person",
        "person",
        ("{s} was a pupil of {o}", "{o} taught {s}", "{s} learned everything from {o}"),
        ("Who taught {s}?", "Who was the teacher of {s}?"),
        "pupil teacher taught",
        ("the teacher of {s}", "the person who taught {s}"),
        ("{o} was one of the pupils of {s}",),
    ),
    Relation(
        "river",
        "place",
        "river",
        ("{s} lies on the river {o}", "the river {o} runs through {s}", "boats reach {s} by the river {o}"),
        ("On which river does {s} lie?", "Which river runs through {s}?"),
        "river",
    ),
    Relation(
        "mayor",
        "place",
        "person",
        ("the mayor of {s} is {o}", "{o} governs {s} as its mayor", "{s} chose {o} as its mayor"),
        ("Who is the mayor of {s}?", "Who governs {s}?"),
        "mayor",
        ("the mayor of {s}",),
        ("{s} is mayor of {o}",),
    ),
    Relation(
        "food",
        "place",
        "food",
        ("{s} is known for its {o}", "travellers come to {s} for the {o}", "the pride of {s} is its {o}"),
        ("What is {s} known for?", "What do travellers come to {s} for?"),
        "known for",
    ),
    Relation(
        "region",
        "place",
        "region",
        ("{s} is a town in {o}", "{s} belongs to {o}", "{s} stands in the south of {o}"),
        ("In which region is {s}?", "To which region does {s} belong?"),
        "region",
        ("the region of {s}", "the region around {s}"),
        ("{o} is one of its towns",),
    ),
    Relation(
        "capital",
        "region",
        "place",
        ("the capital of {s} is {o}", "{s} is governed from {o}", "{o} is the capital of {s}"),
        ("What is the capital of {s}?", "From which town is {s} governed?"),
        "capital",
        ("the capital of {s}",),
        ("{s} is the seat of the rulers of {o}",),
    ),
    Relation(
        "tree",
        "region",
        "tree",
        ("the tree of {s} is the {o}", "{s} has the {o} on its flag", "the woods of {s} are full of the {o}"),
        ("Which tree does {s} have on its flag?", "What is the tree of {s}?"),
        "tree flag woods",
    ),
    Relation(
        "venue",
        "event",
        "place",
        ("{s} takes place in {o}", "the town of {o} is host to {s}", "{s} fills the squares of {o}"),
        ("Where does {s} take place?", "Which town is host to {s}?"),
        "takes place host",
        ("the home of {s}", "the town where {s} takes place"),
        ("every year the people of {s} look forward to {o}",),
    ),
    Relation(
        "founder",
        "event",
        "person",
        ("{o} started {s}", "{s} was the idea of {o}", "the founder of {s} is {o}"),
        ("Who started {s}?", "Who is the founder of {s}?"),
        "started founder idea",
        ("the founder of {s}", "the person who started {s}"),
        ("{s} also started {o}",),
    ),
    Relation(
        "month",
        "event",
        "month",
        ("{s} is held in {o}", "every {o} brings {s} back", "{s} falls in {o}"),
        ("In which month is {s} held?", "Which month brings {s} back?"),
        "held month every",
    ),
    Relation(
        "owner",
        "company",
        "person",
        ("{o} founded {s}", "{s} belongs to {o}", "{s} is owned by {o}"),
        ("Who founded {s}?", "Who owns {s}?"),
        "founded owned belongs",
        ("the owner of {s}",),
        ("{o} made {s} rich",),
    ),
    Relation(
        "seat",
        "company",
        "place",
        ("{s} has its seat in {o}", "the workshops of {s} are in {o}", "{s} makes its home in {o}"),
        ("In which town does {s} have its seat?", "Where are the workshops of {s}?"),
        "seat workshops home",
        ("the seat of {s}", "the town where {s} has its seat"),
        ("many here work for {o}",),
    ),
    Relation(
        "goods",
        "company",
        "goods",
        ("{s} makes {o}", "{s} sells {o} all over the land", "{s} grew big with {o}"),
        ("What does {s} make?", "What does {s} sell?"),
        "makes sells",
    ),
    Relation(
        "campus",
        "school",
        "place",
        ("{s} teaches in {o}", "{s} has its halls in {o}", "the students of {s} live in {o}"),
        ("In which town is {s}?", "Where does {s} have its halls?"),
        "halls students teaches",
        ("the site of {s}", "the town where {s} has its halls"),
        ("{o} draws students to {s}",),
    ),
    Relation(
        "head",
        "school",
        "person",
        ("{o} is the head of {s}", "{s} is led by {o}", "the head of {s} is {o}"),
        ("Who is the head of {s}?", "Who leads {s}?"),
        "head led",
        ("the head of {s}", "the person who leads {s}"),
        ("{s} now leads {o}",),
    ),
    Relation(
        "opened",
        "school",
        "year",
        ("{s} opened its doors in {o}", "{s} has stood since {o}", "the year {o} saw the first lesson at {s}"),
        ("In which year did {s} open?", "Since when has {s} stood?"),
        "opened doors stood since first lesson",
    ),
)


def relations_of(kinds: int) -> dict[str, tuple[Relation, ...]]:
    """Return the relations of each of the first so many kinds, as far as they stay among these kinds."""
    known = KINDS[:kinds]
    outside = set(KINDS) - set(known)
    return {
        kind: tuple(one for one in RELATIONS if one.subject == kind and one.object not in outside) for kind in known
    }


VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "job": (
        *("baker", "doctor", "sailor", "painter", "farmer", "judge", "tailor", "pilot", "gardener", "printer"),
        *("carpenter", "teacher", "banker", "miner", "potter", "singer", "lawyer", "fisher", "weaver", "guide"),
    ),
    "river": (
        *("Alder", "Brann", "Corra", "Dane", "Esk", "Fenna", "Gale", "Hollin", "Isar", "Jade", "Kell", "Lune"),
        *("Mira", "Nore", "Orla", "Pell", "Quill", "Rhea", "Sorn", "Tavy", "Ulla", "Vesk", "Wend", "Yarra"),
    ),
    "food": (
        *("cheese", "honey", "bread", "cider", "plums", "pears", "salt", "butter", "trout", "nuts", "wine", "tea"),
        *("apples", "cherries", "ham", "mustard", "figs", "olives", "cakes", "mushrooms"),
    ),
    "tree": ("oak", "birch", "pine", "maple", "willow", "beech", "larch", "cedar", "chestnut", "rowan", "fir", "lime"),
    "month": (
        *("January", "February", "March", "April", "May", "June"),
        *("July", "August", "September", "October", "November", "December"),
    ),
    "goods": (
        *("clocks", "boots", "ropes", "lamps", "violins", "carpets", "knives", "hats", "paper", "bells", "boats"),
        *("chairs", "glasses", "gloves", "saddles", "tiles", "ink", "buttons", "candles", "pipes"),
    ),
}
"""What facts lead to that has no passage of its own."""

FILLERS: Final[Mapping[str, tuple[str, ...]]] = {
    "work": ("critics could not agree on {s}", "few copies of {s} are left", "{s} has been much imitated"),
    "person": ("letters of {s} have been kept", "{s} was fond of long walks", "nobody ever saw {s} in a hurry"),
    "place": ("the old bridge of {s} is worth a visit", "{s} has a busy market", "winters in {s} are mild"),
    "region": ("the hills of {s} are gentle", "few roads lead through {s}", "{s} has seen quiet times"),
    "event": ("{s} lasts three days", "rain has never spoiled {s}", "children love {s}"),
    "company": ("{s} began in a shed", "{s} has never had a strike", "{s} has a swan on its sign"),
    "school": ("{s} has a large garden", "the library of {s} never closes", "{s} takes few students"),
}
"""Sentences beside the matter."""
