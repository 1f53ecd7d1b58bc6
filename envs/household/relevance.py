"""Which facts can ever make a difference: what belongs into the key of a state, and what does not.

A changing fact matters when some condition or some text can read it: a precondition, the goal, the condition of an
effect, or a query of the grammar, with all atoms that never change true for it. Two refinements keep equal situations
equal. A text's later alternatives are never reached where the condition of an earlier one always holds. And a query
that asks for "was made false" together with another fact is never answered where every action that makes the one so
ends the other: an object taken from the only receptacle of a place is not on its floor.

What cannot be shown to be without effect counts as having one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from turnwise.envs.household.grammar import Query
from turnwise.envs.household.pddl import Atom, Formula, Not, Parameters
from turnwise.envs.household.query import Columns, Plan, Planner, Row, View, atoms, disjuncts, variables
from turnwise.envs.household.rules import Reading, Rules

Fact = tuple[str, Row]


@dataclass(frozen=True, slots=True)
class _Occurrence:
    """An atom that some condition reads, and a plan that joins to it what never changes."""

    atom: Atom
    kinds: Mapping[str, tuple[str, ...]]
    columns: Mapping[str, int]  # of constants
    plan: Plan
    others: tuple[Atom, ...]  # the condition's other changing atoms
    guards: tuple[_Occurrence, ...]  # conditions of earlier alternatives, by the same variables
    free: bool  # nothing that never changes restricts it

    def rows(self, view: View, constants: Row, row: Row) -> list[Row]:
        """The ways in which the condition could come true with this fact."""
        values: dict[str, int] = {}
        for term, number in zip(self.atom.terms, row, strict=True):
            known = constants[self.columns[term]] if term in self.columns else values.setdefault(term, number)
            if known != number or (term in self.kinds and number not in view.members(self.kinds[term])):
                return []
        return self.plan.rows(view, constants + tuple(values.values()))

    def ground(self, atom: Atom, row: Row) -> Row | None:
        """The arguments of another atom of the condition in one of the rows; None where they are open."""
        if any(term not in self.plan.columns for term in atom.terms):
            return None
        return tuple(row[self.plan.columns[term]] for term in atom.terms)


class Relevance:
    """Answers for one game whether a changing fact can make a difference.

    Args:
        rules: of the game's domain and grammar.
        view: the facts that never change.
        constants: numbers of the rules' constants.
        goal: the game's goal; its constants are `objects`, numbered in that order.
    """

    def __init__(self, rules: Rules, view: View, constants: Row, goal: Formula, objects: Sequence[str]) -> None:
        self._rules = rules
        self._view = view
        self._constants = constants
        self._goal = goal
        self._objects = objects
        self._goal_readers: dict[str, list[_Occurrence] | None] | None = None
        self._exclusive: dict[tuple[Fact, Fact], bool] = {}

    def matters(self, predicate: str, row: Row) -> bool:
        """Return whether the fact can be read by anything, now or later."""
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
        return not reader.others or any(not self._impossible(reader, row, joined) for joined in rows)

    def _impossible(self, reader: _Occurrence, row: Row, joined: Row) -> bool:
        """Whether two facts of the condition exclude each other in this row."""
        facts: list[Fact] = [(reader.atom.predicate, row)]
        for atom in reader.others:
            other = reader.ground(atom, joined)
            if other is not None:
                facts.append((atom.predicate, other))
        refused = [fact for fact in facts if fact[0].startswith("not_") and fact[0] in self._rules.dynamic]
        return any(self._exclude(no, yes) for no in refused for yes in facts if yes not in refused)

    def _exclude(self, refused: Fact, other: Fact) -> bool:
        """Whether "was made false" of one fact and another fact are never both true; by induction over all actions."""
        found = self._exclusive.get((refused, other))
        if found is None:
            plain = (refused[0].removeprefix("not_"), refused[1])
            found = self._ends(plain, other) and self._restores(other, plain)
            self._exclusive[refused, other] = found
        return found

    def _ends(self, plain: Fact, other: Fact) -> bool:
        """Every action that makes `plain` false makes `other` false."""
        return all(other in removed and other not in added for added, removed in self._actions(plain, positive=False))

    def _restores(self, other: Fact, plain: Fact) -> bool:
        """Every action that makes `other` true makes `plain` true."""
        return all(plain in added for added, _ in self._actions(other, positive=True))

    def _actions(self, fact: Fact, *, positive: bool) -> Iterator[tuple[set[Fact], set[Fact]]]:
        """What the actions that make a fact true (or false) make true and false, as far as that is certain."""
        for effect in _effects(self._rules).get((fact[0], positive), ()):
            if effect is None:
                yield set(), set()
                continue
            occurrence, added, removed = effect
            for row in occurrence.rows(self._view, self._constants, fact[1]):
                yield _ground(occurrence, added, row), _ground(occurrence, removed, row)


def _ground(occurrence: _Occurrence, found: Sequence[Atom], row: Row) -> set[Fact]:
    facts = ((atom.predicate, occurrence.ground(atom, row)) for atom in found)
    return {(predicate, arguments) for predicate, arguments in facts if arguments is not None}


_Readers = dict[str, list[_Occurrence] | None]  # None: any such fact matters
_Effects = dict[tuple[str, bool], list[tuple[_Occurrence, list[Atom], list[Atom]] | None]]


def _readers(rules: Rules) -> _Readers:
    kept: _Readers | None = rules.readers
    if kept is None:
        readers: _Readers = {}
        for schema in rules.domain.schemas.values():
            _read_formula(readers, rules, schema.precondition, schema.parameters, rules.columns)
            for effect in schema.effects:
                for atom in atoms(effect.condition) if effect.condition is not None else []:
                    readers[atom.predicate] = None
        for reading in rules.readings:
            _read_query(readers, rules, reading)
        rules.readers = kept = readers
    return kept


def _read_formula(readers: _Readers, rules: Rules, formula: Formula, parameters: Parameters, columns: Columns) -> None:
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


def _read_query(readers: _Readers, rules: Rules, reading: Reading) -> None:
    parts, parameters = _as_atoms(reading.query)
    fixed = [atom for atom in parts if atom.predicate not in rules.dynamic]
    changing = [atom for atom in parts if atom.predicate in rules.dynamic]
    for atom in changing:
        guards = []
        for query in reading.guards:
            conditions, kinds = _as_atoms(query)
            named = set().union(*(variables(one) for one in conditions))
            always = all(one.predicate not in rules.dynamic for one in conditions)
            if always and named <= variables(atom):
                guards.append(_occurrence(rules.planner, rules.columns, (*parameters, *kinds), atom, conditions))
        others = tuple(other for other in changing if other is not atom)
        found = _occurrence(rules.planner, rules.columns, parameters, atom, fixed, others, tuple(guards))
        _add(readers, rules, atom.predicate, found)


def _as_atoms(query: Query) -> tuple[list[Atom], Parameters]:
    """A query as atoms over variables that are named by placeholder and type."""
    kinds = {f"?{name}:{kind}": (kind,) for atom in query for name, kind in atom.arguments}
    found = [Atom(atom.predicate, tuple(f"?{name}:{kind}" for name, kind in atom.arguments)) for atom in query]
    return found, tuple(kinds.items())


def _add(readers: _Readers, rules: Rules, predicate: str, occurrence: _Occurrence) -> None:
    if predicate not in rules.dynamic:
        return
    if occurrence.free and not occurrence.guards and not occurrence.others:
        readers[predicate] = None
    known = readers.setdefault(predicate, [])
    if known is not None:
        known.append(occurrence)


def _occurrence(
    planner: Planner,
    columns: Columns,
    parameters: Parameters,
    atom: Atom,
    fixed: Sequence[Formula],
    others: tuple[Atom, ...] = (),
    guards: tuple[_Occurrence, ...] = (),
) -> _Occurrence:
    kinds = dict(parameters)
    bound = list(dict.fromkeys(term for term in atom.terms if term not in columns))
    start = {**columns, **{term: len(columns) + position for position, term in enumerate(bound)}}
    named: set[str] = set().union(*(variables(formula) for formula in fixed))
    wanted = tuple((name, kinds[name]) for name in kinds if name in named and name not in bound)
    plan = planner.plan(wanted, list(fixed), start)
    own = {term: kinds[term] for term in bound if term in kinds}
    return _Occurrence(atom, own, columns, plan, others, guards, not fixed)


def _effects(rules: Rules) -> _Effects:
    """For each predicate and direction, the actions that change it so; None for one of which nothing certain is
    known."""
    kept: _Effects | None = rules.effects
    if kept is None:
        table: _Effects = {}
        for schema in rules.domain.schemas.values():
            sure = [effect for effect in schema.effects if effect.condition is None and not effect.parameters]
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
                    found = _occurrence(rules.planner, rules.columns, parameters, effect.atom, fixed)
                    entries.append((found, added, removed))
        rules.effects = kept = table
    return kept
