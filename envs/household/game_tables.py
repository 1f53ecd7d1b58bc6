"""What all worlds of a game share: indexes of the facts that never change, and cached results.

The tables of the most recent games are kept, so that the episodes of a group share them. They do not depend on the
state of any world.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from turncredit.envs.household.dependency_cache import DependencyCache, Slot
from turncredit.envs.household.game import Game
from turncredit.envs.household.game_rules import rules_for
from turncredit.envs.household.joins import Row, Sizes
from turncredit.envs.household.relevance import Relevance
from turncredit.envs.household.render import Renderer

KEPT_ANSWERS = 20_000  # per game; then its cache is emptied
_KEPT_TABLES = 64  # games


class GroundAction(NamedTuple):
    """A ground action: schema name (lower case), arguments in the order of the parameters, command, rule number."""

    schema: str
    arguments: tuple[int, ...]
    command: str
    rule: int


Offer: TypeAlias = dict[str, GroundAction]  # possible actions of one case of a precondition, by command


class AdmissibleActions(NamedTuple):
    """The admissible commands, sorted, and their actions."""

    commands: tuple[str, ...]
    actions: Mapping[str, GroundAction]


class GameTables:
    """What all worlds of a game share: indexes of the facts that never change, and cached results."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.rules = rules_for(game.domain, game.grammar, _sizes(game))
        self.dynamic = self.rules.dynamic
        self.live = self.rules.closure(game.goal)
        self.renderer = Renderer(self.rules, game)
        numbers = {name: number for number, name in enumerate(game.objects)}
        self.constants: Row = tuple(numbers.get(name, -1) for name in self.rules.constants)
        self.relevance = Relevance(self.rules, self, self.constants, game.goal, game.objects, game.init)
        self.everything: Row = tuple(range(len(game.objects)))
        self.goal = self.rules.goal_test(game.goal, game.objects)
        self._indexes: dict[tuple[str, int], dict[Row, tuple[Row, ...]]] = {}
        self._members: dict[tuple[str, ...], frozenset[int]] = {}
        self._hashes: dict[tuple[str, Row], int] = {}
        self._started = -1
        self._start: dict[Slot, tuple[Row, ...]] = {}
        self.ways = [(rule, way) for rule in self.rules.rules for way in rule.ways]
        self.commands: dict[tuple[int, Row], str] = {}
        self.ground: dict[tuple[int, Row], GroundAction | None] = {}
        self.forget()

    def forget(self) -> None:
        """Empty the cache."""
        self.cached_answers = 0
        self.offers: list[DependencyCache[Offer]] = [DependencyCache() for _ in self.ways]
        self.same: dict[tuple[int, tuple[Row, ...]], Offer] = {}
        self.menus: dict[tuple[int, ...], AdmissibleActions] = {}
        self.texts: dict[tuple[int, Row], DependencyCache[str]] = {}
        self.intro: DependencyCache[str] = DependencyCache()
        self.wins: DependencyCache[bool] = DependencyCache()

    def members(self, types: tuple[str, ...]) -> frozenset[int]:
        """Return the objects of any of the types."""
        members = self._members.get(types)
        if members is None:
            below = frozenset().union(*(self.game.domain.subtypes(name) for name in types))
            members = frozenset(number for number, kind in enumerate(self.game.types) if kind in below)
            self._members[types] = members
        return members

    def match(self, predicate: str, mask: int, key: Row) -> tuple[Row, ...]:
        """Return facts that never change, by some of their arguments."""
        index = self._indexes.get((predicate, mask))
        if index is None:
            index = _grouped(self.game.init.get(predicate, ()), mask)
            self._indexes[predicate, mask] = index
        return index.get(key, ())

    def start(self) -> dict[Slot, tuple[Row, ...]]:
        """Return the initial groups of changing facts, for all kinds of lookups so far."""
        if self._started != self.rules.version:
            self._start = self.grouped({name: self.game.init.get(name, frozenset()) for name in self.live})
            self._started = self.rules.version
        return self._start

    def grouped(self, facts: Mapping[str, Iterable[Row]]) -> dict[Slot, tuple[Row, ...]]:
        """Return changing facts in groups, for all kinds of lookups so far."""
        groups: dict[Slot, tuple[Row, ...]] = {}
        for name, rows in facts.items():
            for mask in self.rules.masks.get(name, ()):
                groups.update(((name, mask, key), matching) for key, matching in _grouped(rows, mask).items())
        return groups

    def hash(self, predicate: str, row: Row) -> int:
        """Return the 128-bit hash of a fact for state keys, the same in every process; 0 for an irrelevant fact."""
        digest = self._hashes.get((predicate, row))
        if digest is None and not self.relevance.matters(predicate, row):
            digest = self._hashes[predicate, row] = 0
        if digest is None:
            text = " ".join((predicate, *(self.game.objects[number] for number in row)))
            digest = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "big")
            self._hashes[predicate, row] = digest
        return digest


def _grouped(rows: Iterable[Row], mask: int) -> dict[Row, tuple[Row, ...]]:
    groups: dict[Row, list[Row]] = {}
    key = keys_of(mask)
    for row in sorted(rows):
        groups.setdefault(key(row), []).append(row)
    return {key: tuple(matching) for key, matching in groups.items()}


@cache
def keys_of(mask: int) -> Callable[[Row], Row]:
    """Return a function from a fact to its arguments at the positions of a mask."""
    positions = [position for position in range(mask.bit_length()) if mask >> position & 1]
    if not positions:
        return lambda row: ()
    if len(positions) == 1:
        (only,) = positions
        return lambda row: (row[only],)
    return itemgetter(*positions)


def _sizes(game: Game) -> Sizes:
    sizes: dict[str, tuple[int, ...]] = {}
    for name, facts in game.init.items():
        width = game.domain.predicates[name]
        sizes[name] = (len(facts), *(len({fact[position] for fact in facts}) for position in range(width)))
    return sizes


_tables: OrderedDict[str, GameTables] = OrderedDict()


def game_tables(game: Game) -> GameTables:
    """Return the tables of a game; those of the most recent games are kept."""
    key = f"{game.digest} {game.task}"
    tables = _tables.pop(key, None) or GameTables(game)
    _tables[key] = tables
    if len(_tables) > _KEPT_TABLES:
        _tables.popitem(last=False)
    return tables
