"""Rendering of grammar rules as text, over the facts of a world.

Texts refer to objects by name and type: the arguments of the action, and what queries bind. Different placeholders
never refer to the same object. Answers of a query are in the order of the facts, which is that of the objects' ids.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Protocol, TypeAlias

from turncredit.envs.errors import GameFileError
from turncredit.envs.household.game_rules import GameRules
from turncredit.envs.household.grammar import Insert, Listing, LiteralText, Placeholder, Query, QueryAtom, Symbol
from turncredit.envs.household.joins import FactView
from turncredit.envs.household.pddl import Domain

Mapped: TypeAlias = dict[Placeholder, int]
Scope: TypeAlias = Mapping[str, int]  # variable -> object
_DEPTH = 200


class ObjectTexts(Protocol):
    """The objects as shown in texts."""

    @property
    def objects(self) -> Sequence[str]:
        """The id of each object."""
        ...

    @property
    def types(self) -> Sequence[str]:
        """The declared type of each object."""
        ...

    @property
    def names(self) -> Sequence[str]:
        """The name of each object that the player sees."""
        ...

    @property
    def task(self) -> str | None:
        """The text of the rule "task"; None: the grammar's."""
        ...


class Renderer:
    """Renders symbols of a grammar in a world.

    Args:
        rules: domain and grammar.
        cast: the game's objects, and the text of its rule "task".
    """

    def __init__(self, rules: GameRules, cast: ObjectTexts) -> None:
        self.rules = rules
        self.cast = cast

    def text(self, view: FactView, symbols: Sequence[Symbol], mapping: Mapping[Placeholder, int]) -> str:
        """Return the text of symbols; `mapping` gives the objects of the action's placeholders.

        Raises:
            GameFileError: no alternative of a rule applies, rules refer to each other endlessly, or a variable is
                unknown.
        """
        scope = {name: number for (name, _), number in mapping.items()}
        pieces: list[str] = []
        self._symbols(view, symbols, dict(mapping), scope, pieces, 0)
        return "".join(pieces)

    def _symbols(
        self, view: FactView, symbols: Sequence[Symbol], mapping: Mapped, scope: Scope, pieces: list[str], depth: int
    ) -> None:
        for symbol in symbols:
            if isinstance(symbol, LiteralText):
                pieces.append(symbol.text)
            elif isinstance(symbol, Listing):
                self._listing(view, symbol, mapping, scope, pieces, depth)
            else:
                pieces.extend(self._insert(view, symbol, mapping, scope, depth))

    def _insert(self, view: FactView, insert: Insert, mapping: Mapped, scope: Scope, depth: int) -> list[str]:
        """Return one piece of text, or one per answer of the query."""
        if insert.condition is None:
            return [self._one(view, insert, mapping, scope, depth)]
        pieces: list[str] = []
        for answer in self._answers(view, insert.condition, mapping):
            inner = {**scope, **{name: number for (name, _), number in answer.items()}}
            pieces.append(self._one(view, insert, answer, inner, depth))
        return pieces

    def _one(self, view: FactView, insert: Insert, mapping: Mapped, scope: Scope, depth: int) -> str:
        if insert.value is not None:
            try:
                return str(_value(insert.value)(self.cast, scope))
            except (KeyError, TypeError):
                raise GameFileError(
                    self.rules.grammar.path, None, "{" + insert.value + "}", f"known here are {sorted(scope)}"
                ) from None
        pieces: list[str] = []
        self._rule(view, insert.rule or "", mapping, scope, pieces, depth + 1)
        return "".join(pieces)

    def _rule(self, view: FactView, name: str, mapping: Mapped, scope: Scope, pieces: list[str], depth: int) -> None:
        if name == "task" and self.cast.task is not None:
            pieces.append(self.cast.task)
            return
        if depth > _DEPTH:
            raise GameFileError(self.rules.grammar.path, None, f"#{name}#", "rules refer to each other endlessly")
        for alternative in self.rules.grammar.rules[name]:
            if alternative.condition is None or any(True for _ in self._answers(view, alternative.condition, mapping)):
                self._symbols(view, alternative.symbols, mapping, scope, pieces, depth)
                return
        raise GameFileError(self.rules.grammar.path, None, f"#{name}#", "no alternative of this rule applies")

    def _listing(
        self, view: FactView, listing: Listing, mapping: Mapped, scope: Scope, pieces: list[str], depth: int
    ) -> None:
        items = self._insert(view, listing.item, mapping, scope, depth)
        if not items:
            self._rule(view, "list_empty", mapping, scope, pieces, depth)
            return
        for index, item in enumerate(items):
            if index:
                separator = "list_last_separator" if index == len(items) - 1 else "list_separator"
                self._rule(view, separator, mapping, scope, pieces, depth)
            pieces.append(item)

    def _answers(self, view: FactView, query: Query, mapping: Mapped) -> Iterator[Mapped]:
        return self._match(view, query, 0, dict(mapping))

    def _match(self, view: FactView, query: Query, depth: int, mapping: Mapped) -> Iterator[Mapped]:
        if depth == len(query):
            yield mapping
            return
        atom = query[depth]
        mask, key, free = 0, [], []
        for position, placeholder in enumerate(atom.arguments):
            number = mapping.get(placeholder)
            if number is None:
                free.append((position, placeholder))
            else:
                mask |= 1 << position
                key.append(number)
        facts = view.match(atom.predicate, mask, tuple(key))
        if facts:
            facts = self._typed(atom, facts)
        if not free:
            if facts:
                yield from self._match(view, query, depth + 1, mapping)
            return
        used = set(mapping.values())
        for fact in facts:
            fresh: Mapped = {}
            for position, placeholder in free:
                number = fact[position]
                bound = fresh.get(placeholder)
                if bound != number and (bound is not None or number in used or number in fresh.values()):
                    break
                fresh[placeholder] = number
            else:
                yield from self._match(view, query, depth + 1, {**mapping, **fresh})

    def _typed(self, atom: QueryAtom, facts: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
        """Return the facts whose arguments have the requested types: first exactly these types, then subtypes."""
        ranks = type_ranks(self.rules.domain, tuple(kind for _, kind in atom.arguments))
        types = self.cast.types
        ranked = [
            (rank, fact) for fact in facts if (rank := ranks.get(tuple([types[number] for number in fact]))) is not None
        ]
        if len(ranked) == len(facts) and not any(rank for rank, _ in ranked):
            return facts
        return tuple(fact for _, fact in sorted(ranked))


_ranks: dict[tuple[str, tuple[str, ...]], dict[tuple[str, ...], int]] = {}


def type_ranks(domain: Domain, kinds: tuple[str, ...]) -> dict[tuple[str, ...], int]:
    """Return the combinations of types that a signature covers, with their breadth-first rank."""
    ranks = _ranks.get((domain.digest, kinds))
    if ranks is None:
        if len(_ranks) > 4096:
            _ranks.clear()
        children = {
            kind: [name for name, parent in domain.types.items() if parent == kind and name != kind]
            for kind in domain.types
        }
        ranks = {kinds: 0}
        queue = [kinds]
        for combination in queue:
            for position, kind in enumerate(combination):
                for child in children.get(kind, ()):
                    lower = (*combination[:position], child, *combination[position + 1 :])
                    if lower not in ranks:
                        ranks[lower] = len(ranks)
                        queue.append(lower)
        _ranks[domain.digest, kinds] = ranks
    return ranks


Value: TypeAlias = Callable[[ObjectTexts, Scope], object]


@lru_cache(maxsize=4096)
def _value(source: str) -> Value:
    """Return the expression as a function; the parser of the grammar allows only these node types."""
    return _compile(ast.parse(source, mode="eval").body)


def _compile(node: ast.expr) -> Value:
    if isinstance(node, ast.Constant):
        constant = node.value
        return lambda cast, scope: constant
    if isinstance(node, ast.Name):
        name = node.id
        return lambda cast, scope: cast.names[scope[name]]
    if isinstance(node, ast.Attribute):
        return _attribute(node)
    if isinstance(node, ast.BinOp):
        left, right = _compile(node.left), _compile(node.right)
        return lambda cast, scope: str(left(cast, scope)) + str(right(cast, scope))
    if isinstance(node, ast.IfExp):
        test, then, other = _compile(node.test), _compile(node.body), _compile(node.orelse)
        return lambda cast, scope: then(cast, scope) if test(cast, scope) else other(cast, scope)
    if isinstance(node, ast.BoolOp):
        return _boolean([_compile(part) for part in node.values], isinstance(node.op, ast.Or))
    if isinstance(node, ast.UnaryOp):
        inner = _compile(node.operand)
        return lambda cast, scope: not inner(cast, scope)
    assert isinstance(node, ast.Compare)
    equal = isinstance(node.ops[0], ast.Eq)
    first, second = _compile(node.left), _compile(node.comparators[0])
    return lambda cast, scope: (first(cast, scope) == second(cast, scope)) == equal


def _attribute(node: ast.Attribute) -> Value:
    assert isinstance(node.value, ast.Name)
    name = node.value.id
    fixed: Mapping[str, object] = {"definite": "the", "indefinite": "a"}
    if node.attr == "name":
        return lambda cast, scope: cast.names[scope[name]]
    if node.attr == "id":
        return lambda cast, scope: cast.objects[scope[name]]
    if node.attr == "type":
        return lambda cast, scope: cast.types[scope[name]]
    value = fixed.get(node.attr)  # the other attributes are never set
    return lambda cast, scope: value if scope[name] >= 0 else None


def _boolean(parts: Sequence[Value], either: bool) -> Value:
    def value(cast: ObjectTexts, scope: Scope) -> object:
        result: object = None
        for part in parts:
            result = part(cast, scope)
            if bool(result) == either:
                break
        return result

    return value
