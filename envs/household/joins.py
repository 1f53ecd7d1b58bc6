"""Conditions compiled to joins: which objects satisfy a formula in the current state.

A plan works on rows (tuples of object numbers, one column per constant and bound variable) and extends or filters them
step by step. Steps are ordered greedily by expected fan-out, so a plan starts with the smallest relations: where the
agent is, what it holds. The order does not change the result. Facts are read only through `FactView.match`, so that an
engine can record which facts a result depends on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Protocol, TypeAlias

from turncredit.envs.household.pddl import And, Atom, Exists, Formula, Not, Or, Parameters

Row: TypeAlias = tuple[int, ...]
Sizes: TypeAlias = Mapping[str, tuple[int, ...]]  # predicate -> (number of facts, distinct first arguments, ...)


class FactView(Protocol):
    """Read access to the facts of a world."""

    def match(self, predicate: str, mask: int, key: Row) -> tuple[Row, ...]:
        """Return the true facts whose arguments at the positions of `mask` (bit i: argument i) equal `key`, sorted."""
        ...

    def members(self, types: tuple[str, ...]) -> frozenset[int]:
        """Return the objects of any of the types or their subtypes."""
        ...


Step: TypeAlias = Callable[[FactView, list[Row]], list[Row]]
Test: TypeAlias = Callable[[FactView, Row], bool]
Columns: TypeAlias = dict[str, int]


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """Steps that extend a row of bound variables to rows of all variables."""

    steps: tuple[Step, ...]
    columns: Mapping[str, int]

    def rows(self, view: FactView, start: Row) -> list[Row]:
        """Return the rows that satisfy the condition, given the row of bound variables."""
        rows = [start]
        for step in self.steps:
            rows = step(view, rows)
            if not rows:
                break
        return rows


def disjuncts(formula: Formula) -> list[tuple[Parameters, list[Formula]]]:
    """Return alternatives (variables, conjuncts) whose disjunction is the formula, with quantifiers lifted.

    An `or` without quantifiers stays one conjunct, since it is only tested.
    """
    if isinstance(formula, Exists):
        renamed, body = _apart(formula)
        return [(renamed + inner, parts) for inner, parts in disjuncts(body)]
    if isinstance(formula, And):
        result: list[tuple[Parameters, list[Formula]]] = [((), [])]
        for part in formula.parts:
            result = [(p1 + p2, c1 + c2) for (p1, c1), (p2, c2) in product(result, disjuncts(part))]
        return result
    if isinstance(formula, Or) and any(_quantified(part) for part in formula.parts):
        return [disjunct for part in formula.parts for disjunct in disjuncts(part)]
    return [((), [formula])]


def _quantified(formula: Formula) -> bool:
    if isinstance(formula, And | Or):
        return any(_quantified(part) for part in formula.parts)
    return isinstance(formula, Exists)


_fresh = 0


def _apart(formula: Exists) -> tuple[Parameters, Formula]:
    """Rename the bound variables to unique names, so that lifting the quantifier captures nothing."""
    global _fresh
    _fresh += 1
    names = {name: f"{name}'{_fresh}" for name, _ in formula.parameters}
    return tuple((names[name], kinds) for name, kinds in formula.parameters), rename(formula.body, names)


def rename(formula: Formula, names: Mapping[str, str]) -> Formula:
    """Return the formula with free variables renamed."""
    if isinstance(formula, Atom):
        return Atom(formula.predicate, tuple(names.get(term, term) for term in formula.terms))
    if isinstance(formula, Not):
        return Not(rename(formula.body, names))
    if isinstance(formula, Exists):
        bound = {name for name, _ in formula.parameters}
        return Exists(formula.parameters, rename(formula.body, {k: v for k, v in names.items() if k not in bound}))
    parts = tuple(rename(part, names) for part in formula.parts)
    return And(parts) if isinstance(formula, And) else Or(parts)


def variables(formula: Formula) -> set[str]:
    """Return the free variables of a formula."""
    if isinstance(formula, Atom):
        return {term for term in formula.terms if term.startswith("?")}
    if isinstance(formula, Not):
        return variables(formula.body)
    if isinstance(formula, Exists):
        return variables(formula.body) - {name for name, _ in formula.parameters}
    return set().union(*(variables(part) for part in formula.parts))


def atoms(formula: Formula) -> list[Atom]:
    """Return all atoms of a formula, equality included."""
    if isinstance(formula, Atom):
        return [formula]
    if isinstance(formula, Not | Exists):
        return atoms(formula.body)
    return [atom for part in formula.parts for atom in atoms(part)]


class JoinPlanner:
    """Makes join plans; `sizes` determines their order, `dynamic` names the predicates that change."""

    def __init__(self, sizes: Sizes, dynamic: frozenset[str]) -> None:
        self.sizes = sizes
        self.dynamic = dynamic

    def plan(self, parameters: Parameters, conjuncts: Sequence[Formula], columns: Columns) -> JoinPlan:
        """Return a plan that binds the parameters so that all conjuncts hold; `columns` are those of the start row."""
        bound = dict(columns)
        waiting = list(conjuncts)
        kinds = dict(parameters)
        steps: list[Step] = []
        while waiting:
            waiting.sort(key=lambda formula: self._cost(formula, bound))
            formula = waiting.pop(0)
            new = [name for name in kinds if name in variables(formula) and name not in bound]
            if isinstance(formula, Atom) and formula.predicate != "=":
                steps.append(self._grow(formula, bound, kinds) if new else _filter(self.test(formula, bound)))
            else:
                steps.extend(_enumerate(kinds[name], bound, name) for name in new)
                steps.append(_filter(self.test(formula, bound)))
        steps.extend(_enumerate(kinds[name], bound, name) for name in kinds if name not in bound)
        return JoinPlan(tuple(steps), bound)

    def _cost(self, formula: Formula, bound: Columns) -> tuple[float, int]:
        """Return the expected number of result rows per row; tests come first."""
        free = [name for name in variables(formula) if name not in bound]
        if not isinstance(formula, Atom) or formula.predicate == "=":
            return (0.5, 1) if not free else (1e9, 0)
        if not free:
            return (0.5, int(formula.predicate in self.dynamic))
        size, *distinct = self.sizes.get(formula.predicate, (0,))
        rows = float(size)
        for position, term in enumerate(formula.terms):
            if (term in bound) and position < len(distinct) and distinct[position]:
                rows /= distinct[position]
        return (max(rows, 0.6), len(free))

    def _grow(self, atom: Atom, bound: Columns, kinds: Mapping[str, tuple[str, ...]]) -> Step:
        """Return the step that joins an atom and binds its unbound variables."""
        joined = [(position, bound[term]) for position, term in enumerate(atom.terms) if term in bound]
        mask = sum(1 << position for position, _ in joined)
        first: dict[str, int] = {}
        repeats: list[tuple[int, int]] = []
        for position, term in enumerate(atom.terms):
            if term in first:
                repeats.append((first[term], position))
            elif term not in bound:
                first[term] = position
        checks = [(position, kinds[name]) for name, position in first.items()]
        for name in first:
            bound[name] = len(bound)
        return _join(atom.predicate, mask, [column for _, column in joined], list(first.values()), repeats, checks)

    def test(self, formula: Formula, columns: Columns) -> Test:
        """Return a test of a formula whose free variables are all bound."""
        if isinstance(formula, Atom):
            return _holds(formula, columns)
        if isinstance(formula, Not):
            inner = self.test(formula.body, columns)
            return lambda view, row: not inner(view, row)
        if isinstance(formula, Exists):
            return self.exists(formula, columns)
        tests = [self.test(part, columns) for part in formula.parts]
        if isinstance(formula, And):
            return lambda view, row: all(test(view, row) for test in tests)
        return lambda view, row: any(test(view, row) for test in tests)

    def exists(self, formula: Formula, columns: Columns) -> Test:
        """Return a test of an existential formula by joins, one plan per alternative."""
        plans = [self.plan(parameters, parts, columns) for parameters, parts in disjuncts(formula)]
        width = len(columns)
        return lambda view, row: any(plan.rows(view, row[:width]) for plan in plans)


def _join(
    predicate: str,
    mask: int,
    joined: list[int],
    fresh: list[int],
    repeats: list[tuple[int, int]],
    checks: list[tuple[int, tuple[str, ...]]],
) -> Step:
    def step(view: FactView, rows: list[Row]) -> list[Row]:
        allowed = [(position, view.members(kinds)) for position, kinds in checks]
        result: list[Row] = []
        for row in rows:
            for fact in view.match(predicate, mask, tuple([row[column] for column in joined])):
                if repeats and any(fact[a] != fact[b] for a, b in repeats):
                    continue
                for position, members in allowed:
                    if fact[position] not in members:
                        break
                else:
                    result.append(row + tuple([fact[position] for position in fresh]))
        return result

    return step


def _filter(test: Test) -> Step:
    return lambda view, rows: [row for row in rows if test(view, row)]


def _enumerate(kinds: tuple[str, ...], bound: Columns, name: str) -> Step:
    bound[name] = len(bound)
    return lambda view, rows: [(*row, member) for row in rows for member in sorted(view.members(kinds))]


def _holds(atom: Atom, columns: Columns) -> Test:
    terms = [columns[term] for term in atom.terms]
    if atom.predicate == "=":
        left, right = terms
        return lambda view, row: row[left] == row[right]
    predicate, mask = atom.predicate, (1 << len(terms)) - 1
    return lambda view, row: bool(view.match(predicate, mask, tuple([row[column] for column in terms])))
