"""Which facts can make a difference, and so belong to the key of a state.

A changing fact matters if a precondition, the goal, the condition of an effect, or a query of the grammar can read it,
given the facts that never change. Refinements keep equivalent states equal:

- A later alternative of a text is unreachable if the condition of an earlier one always holds.
- A query for "was made false" and another fact has no answer if every action that makes the one false also ends the
  other: an object taken from the only receptacle at a location is not on its floor.
- The feedback of an action is irrelevant if the action is never possible (a lamp that cannot be held is never
  examined), and about what the action itself has just set (a lamp that was used is on).

A fact that cannot be shown to be irrelevant counts as relevant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from turncredit.envs.household.game_rules import GameRules, TextQuery
from turncredit.envs.household.grammar import Query
from turncredit.envs.household.joins import Columns, FactView, JoinPlan, JoinPlanner, Row, atoms, disjuncts, variables
from turncredit.envs.household.pddl import Atom, Effect, Formula, Not, Parameters, Schema

Fact = tuple[str, Row]
_TRIED = 10_000  # maximum number of facts to try for an atom with open variables; beyond, it counts as possible


@dataclass(frozen=True, slots=True)
class _Occurrence:
    """An atom that a condition reads, and a plan that joins the facts that never change."""

    atom: Atom
    kinds: Mapping[str, tuple[str, ...]]
    columns: Mapping[str, int]  # of constants
    plan: JoinPlan
    others: tuple[Atom, ...]  # the condition's other changing atoms
    guards: tuple[_Occurrence, ...]  # conditions of earlier alternatives
    free: bool  # not restricted by facts that never change
    after: frozenset[str] | None = None  # actions whose feedback reads it; None: others do, too

    def rows(self, view: FactView, constants: Row, row: Row) -> list[Row]:
        """Return the rows in which the condition could become true with this fact."""
        values: dict[str, int] = {}
        for term, number in zip(self.atom.terms, row, strict=True):
            bound = constants[self.columns[term]] if term in self.columns else values.setdefault(term, number)
            if bound != number or (term in self.kinds and number not in view.members(self.kinds[term])):
                return []
        return self.plan.rows(view, constants + tuple(values.values()))

    def ground(self, atom: Atom, row: Row) -> Row | None:
        """Return the arguments of another atom of the condition in a row; None if they are open."""
        if any(term not in self.plan.columns for term in atom.terms):
            return None
        return tuple(row[self.plan.columns[term]] for term in atom.terms)


class Relevance:
    """Decides which changing facts of a game can make a difference.

    Args:
        rules: rules of the game's domain and grammar.
        view: the facts that never change.
        constants: numbers of the rules' constants.
        goal: the game's goal; its constants are `objects`, numbered in this order.
        start: the initial facts.
    """

    def __init__(
        self,
        rules: GameRules,
        view: FactView,
        constants: Row,
        goal: Formula,
        objects: Sequence[str],
        start: Mapping[str, frozenset[Row]],
    ) -> None:
        self._rules = rules
        self._start = start
        self._view = view
        self._constants = constants
        self._goal = goal
        self._objects = objects
        self._goal_readers: dict[str, list[_Occurrence] | None] | None = None
        self._exclusive: dict[tuple[Fact, Fact], bool] = {}
        self._reachable: dict[Fact, bool] = {}

    def matters(self, predicate: str, row: Row) -> bool:
        """Return whether anything can read the fact, now or later."""
        readers = _readers(self._rules).get(predicate, [])
        if readers is None or any(self._reads(reader, self._constants, row) for reader in readers):
            return True
        return self._matters_to_goal(predicate, row)

    def _matters_to_goal(self, predicate: str, row: Row) -> bool:
        if not any(atom.predicate == predicate for atom in atoms(self._goal)):
            return False
        if self._goal_readers is None:
            self._goal_readers = {}
            columns = {name: number for number, name in enumerate(self._objects)}
            _read_formula(self._goal_readers, self._rules, self._goal, (), columns)
        readers = self._goal_readers.get(predicate, [])
        everything = tuple(range(len(self._objects)))
        return readers is None or any(self._reads(reader, everything, row) for reader in readers)

    def _reads(self, reader: _Occurrence, constants: Row, row: Row) -> bool:
        rows = reader.rows(self._view, constants, row)
        if not rows or any(guard.rows(self._view, constants, row) for guard in reader.guards):
            return False
        if reader.after is not None and not any(self._asks(name, reader.atom, row) for name in sorted(reader.after)):
            return False
        return not reader.others or any(not self._impossible(reader, row, joined) for joined in rows)

    def _asks(self, name: str, atom: Atom, row: Row) -> bool:
        """Return whether the feedback of an action can read the fact: the action is possible and does not set it."""
        schema = self._rules.domain.schemas[name]
        named = {_placeholder(parameter, kinds): parameter for parameter, kinds in schema.parameters}
        terms = tuple(named.get(term, "") for term in atom.terms)
        plain = Atom(atom.predicate.removeprefix("not_"), terms)
        if any(effect.positive and effect.atom == plain for effect in _sure(schema)):
            return False
        bound = {term: number for term, number in zip(terms, row, strict=True) if term}
        return any(self._possible(way, bound) for way in _ways(self._rules, schema, tuple(bound)))

    def _possible(self, way: _Precondition, bound: Mapping[str, int]) -> bool:
        """Return whether a case of a precondition can ever hold with these arguments, looking back one action."""
        start, changing, kinds = way
        for joined in start.rows(self._view, self._constants, tuple(bound.values())):
            choices = [
                [(joined[start.plan.columns[term]],) if term in start.plan.columns else self._members(kinds, term)
                 for term in atom.terms]
                for atom in changing
            ]  # fmt: skip
            if all(
                prod(map(len, terms)) > _TRIED or any(self._true_once(atom.predicate, row) for row in product(*terms))
                for atom, terms in zip(changing, choices, strict=True)
            ):
                return True
        return False

    def _members(self, kinds: Mapping[str, tuple[str, ...]], term: str) -> tuple[int, ...]:
        return tuple(self._view.members(kinds[term]))

    def _true_once(self, predicate: str, row: Row) -> bool:
        """Return whether a fact is initially true, or some action may make it true."""
        reachable = self._reachable.get((predicate, row))
        if reachable is None:
            reachable = row in self._start.get(predicate, ()) or any(
                effect is None or bool(effect[0].rows(self._view, self._constants, row))
                for effect in _effects(self._rules).get((predicate, True), ())
            )
            self._reachable[predicate, row] = reachable
        return reachable

    def _impossible(self, reader: _Occurrence, row: Row, joined: Row) -> bool:
        """Return whether two facts of the condition exclude each other in this row."""
        facts: list[Fact] = [(reader.atom.predicate, row)]
        for atom in reader.others:
            other = reader.ground(atom, joined)
            if other is not None:
                facts.append((atom.predicate, other))
        refused = [fact for fact in facts if fact[0].startswith("not_") and fact[0] in self._rules.dynamic]
        return any(self._exclude(no, yes) for no in refused for yes in facts if yes not in refused)

    def _exclude(self, refused: Fact, other: Fact) -> bool:
        """Return whether "was made false" of a fact and another fact are never both true, by induction over actions."""
        exclusive = self._exclusive.get((refused, other))
        if exclusive is None:
            plain = (refused[0].removeprefix("not_"), refused[1])
            exclusive = self._ends(plain, other) and self._restores(other, plain)
            self._exclusive[refused, other] = exclusive
        return exclusive

    def _ends(self, plain: Fact, other: Fact) -> bool:
        """Return whether every action that makes `plain` false makes `other` false."""
        return all(other in removed and other not in added for added, removed in self._actions(plain, positive=False))

    def _restores(self, other: Fact, plain: Fact) -> bool:
        """Return whether every action that makes `other` true makes `plain` true."""
        return all(plain in added for added, _ in self._actions(other, positive=True))

    def _actions(self, fact: Fact, *, positive: bool) -> Iterator[tuple[set[Fact], set[Fact]]]:
        """Yield what the actions that make a fact true (or false) certainly make true and false."""
        for effect in _effects(self._rules).get((fact[0], positive), ()):
            if effect is None:
                yield set(), set()
                continue
            occurrence, added, removed = effect
            for row in occurrence.rows(self._view, self._constants, fact[1]):
                yield _ground(occurrence, added, row), _ground(occurrence, removed, row)


def _ground(occurrence: _Occurrence, patterns: Sequence[Atom], row: Row) -> set[Fact]:
    facts = ((atom.predicate, occurrence.ground(atom, row)) for atom in patterns)
    return {(predicate, arguments) for predicate, arguments in facts if arguments is not None}


_Precondition = tuple[_Occurrence, list[Atom], Mapping[str, tuple[str, ...]]]
"""A case of a precondition: its static part by bound arguments, its changing atoms, the variables' types."""


def _ways(rules: GameRules, schema: Schema, bound: tuple[str, ...]) -> list[_Precondition]:
    preconditions: list[_Precondition] | None = rules.ways.get((schema.name, bound))
    if preconditions is None:
        preconditions = []
        for lifted, parts in disjuncts(schema.precondition):
            parameters = (*schema.parameters, *lifted)
            plain = [part for part in parts if isinstance(part, Atom)]
            fixed = [part for part in plain if part.predicate not in rules.dynamic]
            changing = [part for part in plain if part.predicate in rules.dynamic]
            start = _occurrence(rules.planner, rules.columns, parameters, Atom("", bound), fixed)
            preconditions.append((start, changing, dict(parameters)))
        rules.ways[schema.name, bound] = preconditions
    return preconditions


def _sure(schema: Schema) -> list[Effect]:
    """Return the unconditional effects."""
    return [effect for effect in schema.effects if effect.condition is None and not effect.parameters]


_Readers = dict[str, list[_Occurrence] | None]  # None: any such fact matters
_Effects = dict[tuple[str, bool], list[tuple[_Occurrence, list[Atom], list[Atom]] | None]]


def _readers(rules: GameRules) -> _Readers:
    cached: _Readers | None = rules.readers
    if cached is None:
        readers: _Readers = {}
        for schema in rules.domain.schemas.values():
            _read_formula(readers, rules, schema.precondition, schema.parameters, rules.columns)
            for effect in schema.effects:
                for atom in atoms(effect.condition) if effect.condition is not None else []:
                    readers[atom.predicate] = None
        for reading in rules.readings:
            _read_query(readers, rules, reading)
        rules.readers = cached = readers
    return cached


def _read_formula(
    readers: _Readers, rules: GameRules, formula: Formula, parameters: Parameters, columns: Columns
) -> None:
    for lifted, parts in disjuncts(formula):
        plain = [part.body if isinstance(part, Not) else part for part in parts]
        fixed = [part for part in parts if isinstance(part, Atom) and part.predicate not in rules.dynamic]
        for part in plain:
            if isinstance(part, Atom):
                occurrence = _occurrence(rules.planner, columns, (*parameters, *lifted), part, fixed)
                _add(readers, rules, part.predicate, occurrence)
            else:
                for atom in atoms(part):
                    readers[atom.predicate] = None


def _read_query(readers: _Readers, rules: GameRules, reading: TextQuery) -> None:
    parts, parameters = _as_atoms(reading.query)
    fixed = [atom for atom in parts if atom.predicate not in rules.dynamic]
    changing = [atom for atom in parts if atom.predicate in rules.dynamic]
    for atom in changing:
        guards = []
        for query in reading.guards:
            conditions, kinds = _as_atoms(query)
            named = set().union(*(variables(condition) for condition in conditions))
            always = all(condition.predicate not in rules.dynamic for condition in conditions)
            if always and named <= variables(atom):
                guards.append(_occurrence(rules.planner, rules.columns, (*parameters, *kinds), atom, conditions))
        others = tuple(other for other in changing if other is not atom)
        occurrence = _occurrence(
            rules.planner, rules.columns, parameters, atom, fixed, others, tuple(guards), reading.after
        )
        _add(readers, rules, atom.predicate, occurrence)


def _as_atoms(query: Query) -> tuple[list[Atom], Parameters]:
    """Return a query as atoms over variables named by placeholder and type."""
    kinds = {_placeholder(name, (kind,)): (kind,) for atom in query for name, kind in atom.arguments}
    converted = [
        Atom(query_part.predicate, tuple(_placeholder(name, (kind,)) for name, kind in query_part.arguments))
        for query_part in query
    ]
    return converted, tuple(kinds.items())


def _placeholder(name: str, kinds: tuple[str, ...]) -> str:
    """Return the variable of a placeholder such as {o:object}, and of the parameter that fills it."""
    return f"?{name.removeprefix('?')}:{kinds[0]}"


def _add(readers: _Readers, rules: GameRules, predicate: str, occurrence: _Occurrence) -> None:
    if predicate not in rules.dynamic:
        return
    if occurrence.free and not occurrence.guards and not occurrence.others and occurrence.after is None:
        readers[predicate] = None
    occurrences = readers.setdefault(predicate, [])
    if occurrences is not None:
        occurrences.append(occurrence)


def _occurrence(
    planner: JoinPlanner,
    columns: Columns,
    parameters: Parameters,
    atom: Atom,
    fixed: Sequence[Formula],
    others: tuple[Atom, ...] = (),
    guards: tuple[_Occurrence, ...] = (),
    after: frozenset[str] | None = None,
) -> _Occurrence:
    kinds = dict(parameters)
    bound = list(dict.fromkeys(term for term in atom.terms if term not in columns))
    start = {**columns, **{term: len(columns) + position for position, term in enumerate(bound)}}
    named: set[str] = set().union(*(variables(formula) for formula in fixed))
    open_terms = tuple((name, kinds[name]) for name in kinds if name in named and name not in bound)
    plan = planner.plan(open_terms, list(fixed), start)
    own = {term: kinds[term] for term in bound if term in kinds}
    return _Occurrence(atom, own, columns, plan, others, guards, not fixed, after)


def _effects(rules: GameRules) -> _Effects:
    """Return, for each predicate and direction, the actions that change it; None for a conditional effect."""
    cached: _Effects | None = rules.effects
    if cached is None:
        table: _Effects = {}
        for schema in rules.domain.schemas.values():
            sure = _sure(schema)
            added = [effect.atom for effect in sure if effect.positive]
            removed = [effect.atom for effect in sure if not effect.positive]
            for effect in schema.effects:
                entries = table.setdefault((effect.atom.predicate, effect.positive), [])
                if effect not in sure:
                    entries.append(None)
                    continue
                for lifted, parts in disjuncts(schema.precondition):
                    fixed = [part for part in parts if isinstance(part, Atom) and part.predicate not in rules.dynamic]
                    parameters = (*schema.parameters, *lifted)
                    occurrence = _occurrence(rules.planner, rules.columns, parameters, effect.atom, fixed)
                    entries.append((occurrence, added, removed))
        rules.effects = cached = table
    return cached
