"""Goal formulas as data for the planner, which then needs no knowledge of task types.

A goal becomes alternatives (its disjunctive normal form), each a list of literals over typed existential variables.
Universal quantifiers and negated facts, which no household game has, are not supported: `read_goal` returns None, and
the planner falls back to blind search.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from turncredit.envs.household.engine import World
from turncredit.envs.household.pddl import And, Atom, Exists, Formula, Not, Or

__all__ = ["GoalBinding", "GoalCase", "goal_bindings", "read_goal"]

DYNAMIC = frozenset({"inreceptacle", "isclean", "ishot", "iscool", "istoggled", "holds", "atlocation"})
WORKS = ("isclean", "ishot", "iscool")


@dataclass(frozen=True, slots=True)
class GoalCase:
    """One alternative of a goal: variables with their types, atoms, and pairs of variables that must differ."""

    types: dict[str, tuple[str, ...]]
    atoms: tuple[Atom, ...]
    different: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class GoalBinding:
    """An assignment of objects to the variables of a goal.

    rests: (object, receptacle) where it must lie. works: (object, predicate) that must be true. lit: lamps that must be
    on and near the agent. held: objects that the agent must hold.
    """

    rests: tuple[tuple[int, int], ...]
    works: tuple[tuple[int, str], ...]
    lit: tuple[int, ...]
    held: tuple[int, ...]


def read_goal(goal: Formula) -> list[GoalCase] | None:
    """Return the alternatives of a goal, or None if it has an unsupported construct."""
    counter = [0]

    def walk(formula: Formula, names: dict[str, str]) -> Iterator[GoalCase] | None:
        if isinstance(formula, Atom):
            terms = tuple(names.get(term, term) for term in formula.terms)
            return None if formula.predicate == "=" else iter([GoalCase({}, (Atom(formula.predicate, terms),), ())])
        if isinstance(formula, Not):
            body = formula.body
            if not (isinstance(body, Atom) and body.predicate == "="):
                return None
            left, right = (names.get(term, term) for term in body.terms)
            return iter([GoalCase({}, (), ((left, right),))])
        if isinstance(formula, Exists):
            fresh = dict(names)
            types = {}
            for name, kinds in formula.parameters:
                counter[0] += 1
                fresh[name] = f"{name}.{counter[0]}"
                types[fresh[name]] = kinds
            inner = walk(formula.body, fresh)
            return None if inner is None else (GoalCase({**types, **x.types}, x.atoms, x.different) for x in inner)
        parts = [walk(part, names) for part in formula.parts]
        if any(part is None for part in parts):
            return None
        lists = [list(part) for part in parts if part is not None]
        if isinstance(formula, Or):
            return (part_links for part in lists for part_links in part)
        assert isinstance(formula, And)
        return (_joined(combination) for combination in product(*lists))

    bindings = walk(goal, {})
    return None if bindings is None else list(bindings)


def _joined(parts: tuple[GoalCase, ...]) -> GoalCase:
    types: dict[str, tuple[str, ...]] = {}
    for part in parts:
        types.update(part.types)
    return GoalCase(types, tuple(a for p in parts for a in p.atoms), tuple(d for p in parts for d in p.different))


def goal_bindings(world: World, goal: GoalCase) -> Iterator[GoalBinding]:
    """Yield all assignments of objects that fit the static facts of an alternative of the goal.

    Static atoms (types, abilities of objects) restrict the variables; atoms that the agent can change become the
    binding. Locations and the agent stay free, since being at a lamp follows from the lamp.
    """
    game = world.game
    number = {name: index for index, name in enumerate(game.objects)}
    domains: dict[str, set[int]] = {}
    for name, kinds in goal.types.items():
        allowed = frozenset().union(*(game.domain.subtypes(kind) for kind in kinds))
        domains[name] = {index for index, kind in enumerate(game.types) if kind in allowed}
    links: list[tuple[str, tuple[str, ...]]] = []
    for atom in goal.atoms:
        if atom.predicate in DYNAMIC:
            links.append((atom.predicate, atom.terms))
            continue
        free = [i for i, term in enumerate(atom.terms) if term in domains]
        if len(free) != 1:
            continue  # receptacleAtLocation(?r, ?l) with both free: follows from going there
        fixed = {i: number[term] for i, term in enumerate(atom.terms) if i not in free and term in number}
        rows = world.facts(atom.predicate)
        fit = {row[free[0]] for row in rows if all(row[i] == value for i, value in fixed.items())}
        domains[atom.terms[free[0]]] &= fit
    yield from _bind(goal, domains, links)


def _bind(
    goal: GoalCase, domains: dict[str, set[int]], links: list[tuple[str, tuple[str, ...]]]
) -> Iterator[GoalBinding]:
    lamps = {terms[0] for predicate, terms in links if predicate == "istoggled"}
    placements = [terms for predicate, terms in links if predicate == "inreceptacle" and terms[0] not in lamps]
    names = sorted({name for pair in placements for name in pair} | lamps | {
        terms[-1] for predicate, terms in links if predicate == "holds"
    } | {terms[0] for predicate, terms in links if predicate in WORKS})  # fmt: skip
    for values in product(*(sorted(domains[name]) for name in names)):
        bound = dict(zip(names, values, strict=True))
        if any(bound.get(a, a) == bound.get(b, b) for a, b in goal.different):
            continue
        yield GoalBinding(
            rests=tuple(sorted({(bound[o], bound[r]) for o, r in placements})),
            works=tuple(dict.fromkeys((bound[terms[0]], p) for p, terms in links if p in WORKS)),
            lit=tuple(bound[name] for name in sorted(lamps)),
            held=tuple(bound[terms[-1]] for p, terms in links if p == "holds"),
        )
