"""Domain and grammar compiled together: what every game of one kind shares.

Made once for each pair of texts. Holds a plan for each way an action can be possible, what actions change, which facts anything can ever
read, and how actions are called. Facts of one game are in `Game`, the moving part is in `World`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from turnwise.envs.errors import GameFileError, choices
from turnwise.envs.household.grammar import Alternative, Command, Grammar, Insert, Listing, Query, Symbol
from turnwise.envs.household.pddl import And, Atom, Domain, Effect, Formula, Not, Schema
from turnwise.envs.household.query import Plan, Planner, Sizes, Test, atoms, disjuncts


@dataclass(frozen=True, slots=True)
class Change:
    """An unconditional effect: the predicate, the columns of its arguments, and whether it becomes true."""

    predicate: str
    columns: tuple[int, ...]
    positive: bool


@dataclass(frozen=True, slots=True)
class Conditional:
    """An effect with a condition or with variables of its own: `plan` gives the rows for which it happens."""

    plan: Plan
    change: Change


@dataclass(frozen=True, slots=True)
class Way:
    """One alternative of a precondition. `holds`: the ground atoms that it implies, to tell actions without any effect."""

    plan: Plan
    arguments: tuple[int, ...]  # columns of the schema's parameters
    positive: tuple[Change, ...]
    negative: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """A schema ready to play; columns of its changes are those of (constants..., parameters...)."""

    index: int
    name: str
    parameters: tuple[tuple[str, str], ...]  # (name without "?", type): the placeholders that texts see
    ways: tuple[Way, ...]
    changes: tuple[Change, ...]  # deletions first, so that an addition of the same fact wins
    conditionals: tuple[Conditional, ...]
    idle: bool  # may have no effect for some arguments
    command: Command
    named_by: tuple[int, ...] | None  # parameters that determine the command's text; None: it depends on facts that change


class Rules:
    """Everything that the games of one domain and grammar share.

    Args:
        domain: the planning domain.
        grammar: the text grammar.
        sizes: how many facts of each predicate a typical game has (only the order of joins depends on it).

    Raises:
        GameFileError: an action has no command, or a text uses a rule, type or predicate that does not exist.
    """

    def __init__(self, domain: Domain, grammar: Grammar, sizes: Sizes) -> None:
        self.domain = domain
        self.grammar = grammar
        self.queries = tuple(_reachable(domain, grammar))
        self._check()
        changed = {effect.atom.predicate for schema in domain.schemas.values() for effect in schema.effects}
        refused = {"not_" + name for name in changed}
        asked = {atom.predicate for query in self.queries for atom in query}
        self.dynamic = frozenset(changed | (refused & asked))
        self.asked = frozenset(asked)
        self.constants = tuple(sorted(_constants(domain)))
        self.columns = {name: column for column, name in enumerate(self.constants)}
        self.planner = Planner(sizes, self.dynamic)
        self.read = self._read_by_actions() | asked  # the goal's predicates come with each game
        self.rules = tuple(self._rule(index, schema) for index, schema in enumerate(domain.schemas.values()))
        self.masks: dict[str, tuple[int, ...]] = {}  # ways in which changing facts have been looked up so far
        self.version = 0

    def watch(self, predicate: str, mask: int) -> None:
        """Add a way to look up a changing predicate; worlds notice by `version`."""
        self.masks[predicate] = (*self.masks.get(predicate, ()), mask)
        self.version += 1

    def _read_by_actions(self) -> set[str]:
        """Predicates that preconditions read, and those that conditions of effects on such predicates read."""
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
        """Return the goal as a function of a view and the row of the given constants."""
        columns = {name: column for column, name in enumerate(constants)}
        return self.planner.test(goal, columns)

    def _check(self) -> None:
        grammar, domain = self.grammar, self.domain
        for schema in domain.schemas.values():
            if schema.name not in grammar.commands:
                hint = f"the grammar {grammar.path} has no such action: {choices(schema.name, grammar.commands)}"
                raise GameFileError(domain.path, schema.line, f"(:action {schema.name}", hint)
        known = set(domain.predicates) | {"not_" + name for name in domain.predicates}
        for query in self.queries:
            for atom in query:
                if atom.predicate not in known:
                    hint = f"no such predicate in the domain: {choices(atom.predicate, domain.predicates)}"
                    raise GameFileError(grammar.path, None, f"{atom.predicate}(...)", hint)
                for name, kind in atom.arguments:
                    if kind not in domain.types:
                        hint = f"no such type in the domain: {choices(kind, domain.types)}"
                        raise GameFileError(grammar.path, None, f"{name}:{kind}", hint)

    def _rule(self, index: int, schema: Schema) -> Rule:
        names = [name for name, _ in schema.parameters]
        columns = {**self.columns, **{name: len(self.columns) + i for i, name in enumerate(names)}}
        changes = [
            Change(effect.atom.predicate, tuple(columns[term] for term in effect.atom.terms), effect.positive)
            for effect in schema.effects
            if effect.condition is None and not effect.parameters
        ]
        conditionals = tuple(
            self._conditional(effect, columns) for effect in schema.effects if effect.condition is not None or effect.parameters
        )
        ways = tuple(self._way(schema, parameters, parts, names) for parameters, parts in disjuncts(schema.precondition))
        idle = not conditionals and any(_may_be_idle(way, changes) for way in ways)
        command = self.grammar.commands[schema.name]
        placeholders = tuple((name.removeprefix("?"), kinds[0]) for name, kinds in schema.parameters)
        order = tuple(sorted(changes, key=lambda change: change.positive))
        named_by = _named_by(command, placeholders, self.dynamic, self.grammar)
        return Rule(index, schema.name, placeholders, ways, order, conditionals, idle, command, named_by)

    def _way(self, schema: Schema, lifted: tuple[tuple[str, tuple[str, ...]], ...], parts: list[Formula], names: list[str]) -> Way:
        plan = self.planner.plan((*schema.parameters, *lifted), parts, self.columns)
        columns = {name: column for name, column in plan.columns.items() if name in names or name in self.columns}

        def held(formulas: Iterable[Formula], positive: bool) -> tuple[Change, ...]:
            found = [formula for formula in formulas if isinstance(formula, Atom) and all(term in columns for term in formula.terms)]
            return tuple(Change(atom.predicate, tuple(plan.columns[term] for term in atom.terms), positive) for atom in found)

        negative = [part.body for part in parts if isinstance(part, Not)]
        return Way(plan, tuple(plan.columns[name] for name in names), held(parts, True), held(negative, False))

    def _conditional(self, effect: Effect, columns: dict[str, int]) -> Conditional:
        condition = effect.condition if effect.condition is not None else And(())
        options = disjuncts(condition)
        if len(options) == 1:
            parameters, parts = options[0]
            plan = self.planner.plan((*effect.parameters, *parameters), parts, columns)
        else:
            plan = self.planner.plan(effect.parameters, [condition], columns)
        change = Change(effect.atom.predicate, tuple(plan.columns[term] for term in effect.atom.terms), effect.positive)
        return Conditional(plan, change)


def _may_be_idle(way: Way, changes: Iterable[Change]) -> bool:
    """Whether all changes could, for some arguments, be what the precondition already says."""
    added = {change.predicate for change in changes if change.positive}
    removed = {change.predicate for change in changes if not change.positive}
    return added <= {held.predicate for held in way.positive} and removed <= added | {held.predicate for held in way.negative}


def _constants(domain: Domain) -> set[str]:
    """Names of objects that occur in actions."""
    found: set[str] = set()
    for schema in domain.schemas.values():
        formulas: list[Formula] = [schema.precondition]
        for effect in schema.effects:
            formulas.append(effect.atom)
            if effect.condition is not None:
                formulas.append(effect.condition)
        found |= {term for formula in formulas for atom in atoms(formula) for term in atom.terms if not term.startswith("?")}
    return found


def _inserts(symbols: Iterable[Symbol]) -> Iterable[Insert]:
    for symbol in symbols:
        if isinstance(symbol, Insert):
            yield symbol
        elif isinstance(symbol, Listing):
            yield symbol.item


def _reachable(domain: Domain, grammar: Grammar) -> Iterable[Query]:
    """All queries of texts that a player can ever see; a rule that is missing there is an error."""
    waiting: list[str] = ["intro"]
    seen: set[str] = set()
    queries: list[Query] = []

    def visit(symbols: Iterable[Symbol]) -> None:
        for symbol in symbols:
            if isinstance(symbol, Listing):
                waiting.extend(("list_empty", "list_separator", "list_last_separator"))
        for insert in _inserts(symbols):
            if insert.given is not None:
                queries.append(insert.given)
            if insert.rule is not None:
                waiting.append(insert.rule)

    for name in domain.schemas:
        command = grammar.commands.get(name)
        if command is not None:
            visit(command.template)
            visit(command.feedback)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for alternative in _alternatives(grammar, name):
            if alternative.condition is not None:
                queries.append(alternative.condition)
            visit(alternative.symbols)
    return queries


def _alternatives(grammar: Grammar, name: str) -> tuple[Alternative, ...]:
    found = grammar.rules.get(name)
    if found is None:
        raise GameFileError(grammar.path, None, f"#{name}#", f"no such rule: {choices(name, grammar.rules)}")
    return found


def _named_by(
    command: Command, placeholders: tuple[tuple[str, str], ...], dynamic: frozenset[str], grammar: Grammar
) -> tuple[int, ...] | None:
    """Which parameters determine the text of a command, where that can be told from the template alone."""
    used: set[int] = set()
    everything = tuple(range(len(placeholders)))
    for insert in _inserts(command.template):
        if insert.rule is not None or (insert.given and any(atom.predicate in dynamic for atom in insert.given)):
            return None
        for atom in insert.given or ():
            for placeholder in atom.arguments:
                if placeholder not in placeholders:
                    return everything
                used.add(placeholders.index(placeholder))
        for index, (name, _) in enumerate(placeholders):
            if insert.value is not None and name in insert.value:
                used.add(index)
    return tuple(sorted(used))


class _Pair:
    """A domain and a grammar, equal to another pair when their texts are."""

    def __init__(self, domain: Domain, grammar: Grammar, sizes: Sizes) -> None:
        self.parts = (domain, grammar, sizes)
        self.key = (domain.digest, grammar.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Pair) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


@lru_cache(maxsize=32)
def _rules(pair: _Pair) -> Rules:
    return Rules(*pair.parts)


def rules_for(domain: Domain, grammar: Grammar, sizes: Sizes) -> Rules:
    """Return the rules shared by all games of this domain and grammar (by their texts); `sizes` counts for the first game only."""
    return _rules(_Pair(domain, grammar, sizes))
