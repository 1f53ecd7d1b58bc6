"""A domain and a grammar compiled together: what all games of a kind share.

Contains the join plans of preconditions, the effects of actions, the commands, and which facts can be read. The facts
of a game are in `Game`, its state is in `World`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from turncredit.envs.errors import GameFileError
from turncredit.envs.household.grammar import Alternative, CommandTexts, Grammar, Insert, Listing, Query, Symbol
from turncredit.envs.household.joins import JoinPlan, JoinPlanner, Row, Sizes, Test, atoms, disjuncts, variables
from turncredit.envs.household.pddl import And, Atom, Domain, Effect, Formula, Not, Parameters, Schema
from turncredit.registry import suggest


@dataclass(frozen=True, slots=True)
class TextQuery:
    """A query of a text, evaluated only if the guards (conditions of earlier alternatives) do not hold.

    after: names of the actions whose feedback contains it; None: other texts contain it as well.
    """

    query: Query
    guards: tuple[Query, ...]
    after: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """An unconditional effect: predicate, columns of its arguments, and whether it becomes true."""

    predicate: str
    columns: tuple[int, ...]
    positive: bool


@dataclass(frozen=True, slots=True)
class Conditional:
    """An effect with a condition or own variables: `plan` gives the rows for which it happens."""

    plan: JoinPlan
    change: Change
    always: bool  # for all its rows, without a condition


_StatedFact: TypeAlias = tuple[str, tuple[int, ...]]  # a fact that a precondition states: predicate and columns
Pairs: TypeAlias = tuple[tuple[int, int], ...]  # columns that have to be equal


@dataclass(frozen=True, slots=True)
class PreconditionCase:
    """One alternative of a precondition.

    plan: finds the rows that satisfy it. arguments: columns of the action's parameters. unique: no two rows have the
    same arguments. idle: None if the action always changes something; else, for each of its changes, the alternatives
    under which it changes nothing, as pairs of equal columns (columns as in ActionRule).
    """

    plan: JoinPlan
    arguments: tuple[int, ...]
    unique: bool
    idle: tuple[tuple[Pairs, ...], ...] | None


@dataclass(frozen=True, slots=True)
class ActionRule:
    """A compiled action; the columns of its changes are those of (constants..., parameters...)."""

    index: int
    name: str
    parameters: tuple[tuple[str, str], ...]  # (name without "?", type): the placeholders that texts see
    ways: tuple[PreconditionCase, ...]
    changes: tuple[Change, ...]  # deletions first, so that an addition of the same fact wins
    conditionals: tuple[Conditional, ...]
    command: CommandTexts
    named_by: tuple[int, ...] | None  # parameters that determine the command; None: it depends on changing facts


class GameRules:
    """What all games of a domain and grammar share.

    Args:
        domain: the planning domain.
        grammar: the text grammar.
        sizes: number of facts of each predicate in a typical game; affects only the order of joins.

    Raises:
        GameFileError: an action has no command, or a text uses an unknown rule, type or predicate.
    """

    def __init__(self, domain: Domain, grammar: Grammar, sizes: Sizes) -> None:
        self.domain = domain
        self.grammar = grammar
        self.readings = tuple(_reachable(domain, grammar))
        self.queries = tuple(reading.query for reading in self.readings)
        self.readers: Any = None  # set by relevance.py
        self.effects: Any = None
        self.ways: Any = {}
        self._check()
        changed = {effect.atom.predicate for schema in domain.schemas.values() for effect in schema.effects}
        refused = {"not_" + name for name in changed}
        asked = {atom.predicate for query in self.queries for atom in query}
        self.dynamic = frozenset(changed | (refused & asked))
        self.asked = frozenset(asked)
        self.constants = tuple(sorted(_constants(domain)))
        self.columns = {name: column for column, name in enumerate(self.constants)}
        self.planner = JoinPlanner(sizes, self.dynamic)
        self.read = self._read_by_actions() | asked  # each game adds the predicates of its goal
        self.rules = tuple(self._rule(index, schema) for index, schema in enumerate(domain.schemas.values()))
        self.masks: dict[str, tuple[int, ...]] = {}  # lookups of changing facts so far
        self.version = 0

    def watch(self, predicate: str, mask: int) -> None:
        """Add a kind of lookup of a changing predicate; worlds compare `version`."""
        self.masks[predicate] = (*self.masks.get(predicate, ()), mask)
        self.version += 1

    def _read_by_actions(self) -> set[str]:
        """Return the predicates that preconditions read, directly or through conditions of effects."""
        schemas = self.domain.schemas.values()
        read = {atom.predicate for schema in schemas for atom in atoms(schema.precondition)}
        read |= {atom.predicate for query in self.queries for atom in query}
        read |= {name.removeprefix("not_") for name in read & self.dynamic}
        while True:
            more = {
                atom.predicate
                for schema in schemas
                for effect in schema.effects
                if effect.condition is not None and effect.atom.predicate in read
                for atom in atoms(effect.condition)
            }
            if more <= read:
                return read
            read |= more

    def closure(self, goal: Formula) -> frozenset[str]:
        """Return the changing predicates that can make a difference in a game with this goal."""
        read = self.read | {atom.predicate for atom in atoms(goal)}
        size = -1
        while size != len(read):
            size = len(read)
            for schema in self.domain.schemas.values():
                for effect in schema.effects:
                    if effect.condition is not None and effect.atom.predicate in read:
                        read |= {atom.predicate for atom in atoms(effect.condition)}
        return frozenset(read & self.dynamic)

    def goal_test(self, goal: Formula, constants: Iterable[str]) -> Test:
        """Return a test of the goal over the row of the given constants."""
        columns = {name: column for column, name in enumerate(constants)}
        return self.planner.test(goal, columns)

    def _check(self) -> None:
        grammar, domain = self.grammar, self.domain
        for schema in domain.schemas.values():
            if schema.name not in grammar.commands:
                hint = f"unknown action in the grammar {grammar.path}{suggest(schema.name, grammar.commands)}"
                raise GameFileError(domain.path, schema.line, f"(:action {schema.name}", hint)
            for name in sorted(_unbound(schema)):
                raise GameFileError(domain.path, schema.line, name, "no parameter or quantifier has this variable")
        declared = set(domain.predicates) | {"not_" + name for name in domain.predicates}
        for query in self.queries:
            for atom in query:
                if atom.predicate not in declared:
                    hint = f"unknown predicate of the domain{suggest(atom.predicate, domain.predicates)}"
                    raise GameFileError(grammar.path, None, f"{atom.predicate}(...)", hint)
                for name, kind in atom.arguments:
                    if kind not in domain.types:
                        hint = f"unknown type of the domain{suggest(kind, domain.types)}"
                        raise GameFileError(grammar.path, None, f"{name}:{kind}", hint)

    def _rule(self, index: int, schema: Schema) -> ActionRule:
        names = [name for name, _ in schema.parameters]
        columns = {**self.columns, **{name: len(self.columns) + i for i, name in enumerate(names)}}
        changes = [
            Change(effect.atom.predicate, tuple(columns[term] for term in effect.atom.terms), effect.positive)
            for effect in schema.effects
            if effect.condition is None and not effect.parameters
        ]
        conditionals = tuple(
            self._conditional(effect, columns)
            for effect in schema.effects
            if effect.condition is not None or effect.parameters
        )
        ways = tuple(
            self._way(schema, lifted, parts, changes, bool(conditionals))
            for lifted, parts in disjuncts(schema.precondition)
        )
        command = self.grammar.commands[schema.name]
        placeholders = tuple((name.removeprefix("?"), kinds[0]) for name, kinds in schema.parameters)
        order = tuple(sorted(changes, key=lambda change: change.positive))
        named_by = _named_by(command, placeholders, self.dynamic, self.grammar)
        return ActionRule(index, schema.name, placeholders, ways, order, conditionals, command, named_by)

    def _way(
        self, schema: Schema, lifted: Parameters, parts: list[Formula], changes: list[Change], conditional: bool
    ) -> PreconditionCase:
        plan = self.planner.plan((*schema.parameters, *lifted), parts, self.columns)
        names = [name for name, _ in schema.parameters]
        columns = {**self.columns, **{name: len(self.columns) + position for position, name in enumerate(names)}}

        def held(formulas: Iterable[Formula]) -> list[_StatedFact]:
            facts = [
                atom for atom in formulas if isinstance(atom, Atom) and all(term in columns for term in atom.terms)
            ]
            return [(atom.predicate, tuple(columns[term] for term in atom.terms)) for atom in facts]

        positive, negative = held(parts), held(part.body for part in parts if isinstance(part, Not))
        idle = None if conditional else _idle(changes, positive, negative)
        return PreconditionCase(plan, tuple(plan.columns[name] for name in names), not lifted, idle)

    def _conditional(self, effect: Effect, columns: dict[str, int]) -> Conditional:
        condition = effect.condition if effect.condition is not None else And(())
        options = disjuncts(condition)
        if len(options) == 1:
            parameters, parts = options[0]
            plan = self.planner.plan((*effect.parameters, *parameters), parts, columns)
        else:
            plan = self.planner.plan(effect.parameters, [condition], columns)
        change = Change(effect.atom.predicate, tuple(plan.columns[term] for term in effect.atom.terms), effect.positive)
        return Conditional(plan, change, effect.condition is None)


def _unbound(schema: Schema) -> set[str]:
    """Return the variables of an action that are neither among its parameters nor in a quantifier."""
    free = variables(schema.precondition)
    for effect in schema.effects:
        inside = variables(effect.atom) | (variables(effect.condition) if effect.condition is not None else set())
        free |= inside - {name for name, _ in effect.parameters}
    return free - {name for name, _ in schema.parameters}


def _idle(
    changes: list[Change], positive: list[_StatedFact], negative: list[_StatedFact]
) -> tuple[tuple[Pairs, ...], ...] | None:
    """See PreconditionCase.idle. A deletion that an addition of the same fact overrides is no change."""
    added = [(change.predicate, change.columns) for change in changes if change.positive]
    result = []
    for change in changes:
        matches = positive if change.positive else [*negative, *added]
        pairs = [
            zip(change.columns, columns, strict=True) for predicate, columns in matches if predicate == change.predicate
        ]
        if not pairs:
            return None
        result.append(tuple(tuple((a, b) for a, b in equal if a != b) for equal in pairs))
    return tuple(result)


def changes_nothing(idle: Iterable[Iterable[Pairs]], row: Row) -> bool:
    """Return whether an action would change nothing, given its precondition; the original never offers such actions."""
    for alternatives in idle:
        for pairs in alternatives:
            for a, b in pairs:
                if row[a] != row[b]:
                    break
            else:
                break
        else:
            return False
    return True


def _constants(domain: Domain) -> set[str]:
    """Return the names of objects that occur in actions."""
    names: set[str] = set()
    for schema in domain.schemas.values():
        formulas: list[Formula] = [schema.precondition]
        for effect in schema.effects:
            formulas.append(effect.atom)
            if effect.condition is not None:
                formulas.append(effect.condition)
        names |= {
            term for formula in formulas for atom in atoms(formula) for term in atom.terms if not term.startswith("?")
        }
    return names


def _inserts(symbols: Iterable[Symbol]) -> Iterable[Insert]:
    for symbol in symbols:
        if isinstance(symbol, Insert):
            yield symbol
        elif isinstance(symbol, Listing):
            yield symbol.item


def _reachable(domain: Domain, grammar: Grammar) -> list[TextQuery]:
    """Return all queries of texts that a player can see."""
    occurrences: dict[tuple[Query, tuple[Query, ...]], set[str | None]] = {}
    for query, guards in _asked_by(grammar, (), ["intro"]):
        occurrences.setdefault((query, guards), set()).add(None)
    for name in domain.schemas:
        command = grammar.commands.get(name)
        if command is not None:
            for who, symbols in ((None, command.template), (name, command.feedback)):
                for query, guards in _asked_by(grammar, symbols, []):
                    occurrences.setdefault((query, guards), set()).add(who)
    return [
        TextQuery(query, guards, None if None in names else frozenset(name for name in names if name is not None))
        for (query, guards), names in occurrences.items()
    ]


def _asked_by(
    grammar: Grammar, symbols: Iterable[Symbol], waiting: list[str]
) -> Iterable[tuple[Query, tuple[Query, ...]]]:
    """Yield the queries of a text and of all rules that it refers to, each with its guards."""
    seen: set[str] = set()

    def visit(symbols: Iterable[Symbol], guards: tuple[Query, ...]) -> Iterable[tuple[Query, tuple[Query, ...]]]:
        for symbol in symbols:
            if isinstance(symbol, Listing):
                waiting.extend(("list_empty", "list_separator", "list_last_separator"))
        for insert in _inserts(symbols):
            if insert.condition is not None:
                yield insert.condition, guards
            if insert.rule is not None:
                waiting.append(insert.rule)

    yield from visit(symbols, ())
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        guards: tuple[Query, ...] = ()
        for alternative in _alternatives(grammar, name):
            yield from visit(alternative.symbols, guards)
            if alternative.condition is not None:
                yield alternative.condition, guards
                guards = (*guards, alternative.condition)


def _alternatives(grammar: Grammar, name: str) -> tuple[Alternative, ...]:
    alternatives = grammar.rules.get(name)
    if alternatives is None:
        raise GameFileError(grammar.path, None, f"#{name}#", f"unknown rule{suggest(name, grammar.rules)}")
    return alternatives


def _named_by(
    command: CommandTexts, placeholders: tuple[tuple[str, str], ...], dynamic: frozenset[str], grammar: Grammar
) -> tuple[int, ...] | None:
    """Return the parameters that determine a command, if the template alone tells."""
    used: set[int] = set()
    everything = tuple(range(len(placeholders)))
    for insert in _inserts(command.template):
        if insert.rule is not None or (
            insert.condition and any(atom.predicate in dynamic for atom in insert.condition)
        ):
            return None
        for atom in insert.condition or ():
            for placeholder in atom.arguments:
                if placeholder not in placeholders:
                    return everything
                used.add(placeholders.index(placeholder))
        for index, (name, _) in enumerate(placeholders):
            if insert.value is not None and name in insert.value:
                used.add(index)
    return tuple(sorted(used))


class _TextPair:
    """A domain and a grammar, compared by their texts."""

    def __init__(self, domain: Domain, grammar: Grammar, sizes: Sizes) -> None:
        self.parts = (domain, grammar, sizes)
        self.key = (domain.digest, grammar.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _TextPair) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


@lru_cache(maxsize=32)
def _rules(pair: _TextPair) -> GameRules:
    return GameRules(*pair.parts)


def rules_for(domain: Domain, grammar: Grammar, sizes: Sizes) -> GameRules:
    """Return the rules shared by all games of this domain and grammar; the `sizes` of the first game are used."""
    return _rules(_TextPair(domain, grammar, sizes))
