"""Kinds of entities and the relations between them, with the sentences and questions of `relations.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

__all__ = ["FILLERS", "KINDS", "LATER", "RELATIONS", "SORTS", "VALUES", "Relation", "relations_of"]


@dataclass(frozen=True, slots=True)
class Relation:
    """A fact that each entity of one kind has about exactly one entity or value.

    Attributes:
        name: name of the relation.
        subject: kind of the entity that has the fact.
        object: kind of what the fact leads to, or the name of a list of values, or "year".
        says: sentences; each contains {s} and {o}.
        asks: questions for {o}.
        words: what a searcher adds to the name of {s}.
        phrases: noun phrases that name {o} by {s}; empty if {o} is not an entity.
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


def _tuples(value: object) -> Any:
    """Turn the lists of TOML data into tuples."""
    if isinstance(value, dict):
        return {key: _tuples(inner) for key, inner in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


_DATA: Final = _tuples(tomllib.loads(files(__package__).joinpath("relations.toml").read_text(encoding="utf-8")))
KINDS: Final[tuple[str, ...]] = _DATA["kinds"]
"""Kinds of entities, in the order in which levels add them."""
SORTS: Final[Mapping[str, tuple[tuple[str, str, str], ...]]] = _DATA["sorts"]
"""Noun, verb and role of each sort, for the kinds that have sorts."""
LATER: Final[Mapping[str, tuple[str, ...]]] = _DATA["later"]
"""What an entity is called after the first sentence of its passage, by kind."""
VALUES: Final[Mapping[str, tuple[str, ...]]] = _DATA["values"]
"""Values without a passage, by the name of their list."""
FILLERS: Final[Mapping[str, tuple[str, ...]]] = _DATA["fillers"]
"""Sentences that state no fact, by kind."""
RELATIONS: Final = tuple(Relation(**table) for table in _DATA["relation"])


def relations_of(kinds: int) -> dict[str, tuple[Relation, ...]]:
    """Return the relations between the first `kinds` kinds, by the kind of their subject."""
    subjects = KINDS[:kinds]
    outside = set(KINDS) - set(subjects)
    return {
        kind: tuple(relation for relation in RELATIONS if relation.subject == kind and relation.object not in outside)
        for kind in subjects
    }
