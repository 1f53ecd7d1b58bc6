"""A compiled household game: objects with their names, initial facts, goal and texts. It is immutable."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random

from turncredit.envs.errors import GameFileError
from turncredit.envs.household.grammar import UNKNOWN_GOAL, Grammar, LiteralText, read_grammar
from turncredit.envs.household.joins import atoms, variables
from turncredit.envs.household.pddl import (
    Atom,
    Domain,
    Exists,
    Formula,
    Not,
    Problem,
    declared,
    read_domain,
    read_problem,
)
from turncredit.registry import suggest

_SEPARATOR = "_bar_"  # separates kind and coordinates of an object in the original games' ids
_SIGNS = (("_minus_", "-"), ("_plus_", "+"), ("_dot_", "."), ("_comma_", ","))


@dataclass(frozen=True, slots=True)
class Game:
    """The static part of a game. Objects are numbered 0..n-1 in the order of their (lower-case) ids."""

    id: str  # task id, e.g. "train/.../trial_..."
    task: str | None  # the sentence after "Your task is to: "; None: the grammar's own text
    task_type: str | None
    walkthrough: tuple[str, ...]  # () if unknown
    domain: Domain
    grammar: Grammar
    objects: tuple[str, ...]  # lower-case PDDL ids, sorted
    types: tuple[str, ...]  # declared type of each object
    names: tuple[str, ...]  # what the player sees: "cabinet 3"
    init: Mapping[str, frozenset[tuple[int, ...]]]  # predicate -> argument tuples
    goal: Formula
    digest: str  # of domain, grammar, problem and names

    def shuffled(self, rng: Random) -> Game:
        """Return the game with its objects randomly renumbered (domain randomization)."""
        order = sorted(self._named(), key=lambda number: self.objects[number])
        rng.shuffle(order)
        names = _names(self.objects, order)
        return replace(self, names=names, digest=_digest(self.digest, *names))

    def _named(self) -> set[int]:
        return {number for facts in self.init.values() for fact in facts for number in fact}


def compile_game(
    domain: Domain | str,
    grammar: Grammar | str,
    problem: str,
    *,
    task: str | None = None,
    task_type: str | None = None,
    id: str = "",
    walkthrough: Sequence[str] = (),
    path: str = "problem.pddl",
) -> Game:
    """Return the compiled game of a PDDL problem text.

    Args:
        domain: the domain, parsed or as text.
        grammar: the text grammar, parsed or as text.
        problem: the text of the problem.
        task: replaces "UNKNOWN GOAL." in the grammar's rule "task"; None if the grammar contains the task.
        task_type: one of the six task types, if known.
        id: the task id.
        walkthrough: commands that win, if known.
        path: name of the problem in error messages.

    Raises:
        GameFileError: a text is damaged, or uses something that this engine does not support.

    Warns:
        UndeclaredType: a type is used that the domain does not declare.
    """
    domain = _domain(domain) if isinstance(domain, str) else domain
    grammar = _grammar(grammar) if isinstance(grammar, str) else grammar
    parsed = read_problem(problem, path)
    kinds = {**domain.constants, **parsed.objects}
    objects = tuple(sorted(kinds))
    index = {name: number for number, name in enumerate(objects)}
    init: dict[str, set[tuple[int, ...]]] = {}
    try:
        for predicate, *words in parsed.init:
            init.setdefault(predicate, set()).add(tuple([index[word] for word in words]))
    except KeyError as error:
        raise _undeclared(str(error.args[0]), problem, path, index) from None
    _check(parsed, init, domain, index, problem, path)
    named = sorted({number for facts in init.values() for fact in facts for number in fact})
    return Game(
        id=id,
        task=_task_text(grammar, task),
        task_type=task_type,
        walkthrough=tuple(walkthrough),
        domain=domain,
        grammar=grammar,
        objects=objects,
        types=tuple(kinds[name] for name in objects),
        names=_names(objects, named),
        init={predicate: frozenset(facts) for predicate, facts in init.items()},
        goal=parsed.goal,
        digest=_digest(domain.digest, grammar.digest, problem),
    )


def _digest(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@lru_cache(maxsize=8)
def _domain(text: str) -> Domain:
    return read_domain(text)


@lru_cache(maxsize=8)
def _grammar(text: str) -> Grammar:
    return read_grammar(text)


def _task_text(grammar: Grammar, task: str | None) -> str | None:
    """Return the text of the rule "task", with the sentence in place of the unknown goal."""
    if task is None:
        return None
    own = grammar.rules.get("task")
    symbols = own[0].symbols if own else ()
    template = "".join(symbol.text for symbol in symbols if isinstance(symbol, LiteralText))
    return template.replace(UNKNOWN_GOAL, task)


def _names(objects: Sequence[str], order: Sequence[int]) -> tuple[str, ...]:
    """Return the readable names: kind and number; the numbers of a kind count down along `order`."""
    kinds = {number: _kind(objects[number]) for number in order}
    left = Counter(kind for kind in kinds.values() if kind is not None)
    names = list(objects)
    for number in order:
        kind = kinds[number]
        if kind is None:
            names[number] = _plain(objects[number]) + " "  # the original keeps the space before a missing number
        else:
            names[number] = f"{_plain(kind)} {left[kind]}"
            left[kind] -= 1
    return tuple(names)


def _kind(id: str) -> str | None:
    kind, separator, _ = id.partition(_SEPARATOR)
    if not separator:
        return None
    return kind + "basin" if "basin" in id else kind


def _plain(text: str) -> str:
    for sign, character in _SIGNS:
        text = text.replace(sign, character)
    return text


def _line(text: str, word: str) -> int | None:
    index = text.lower().find(word)
    return text.count("\n", 0, index) + 1 if index >= 0 else None


def _undeclared(name: str, text: str, path: str, declared: Mapping[str, int]) -> GameFileError:
    return GameFileError(path, _line(text, name), name, f"not declared in (:objects ...){suggest(name, declared)}")


def _kinds_of(formula: Formula) -> set[str]:
    """Return the types in the quantifiers of a formula."""
    if isinstance(formula, Atom):
        return set()
    if isinstance(formula, Not):
        return _kinds_of(formula.body)
    if isinstance(formula, Exists):
        return {kind for _, kinds in formula.parameters for kind in kinds} | _kinds_of(formula.body)
    return {kind for part in formula.parts for kind in _kinds_of(part)}


def _check(
    problem: Problem,
    init: Mapping[str, set[tuple[int, ...]]],
    domain: Domain,
    index: Mapping[str, int],
    text: str,
    path: str,
) -> None:
    """Check predicates, numbers of arguments, objects and variables of facts and goal; warn of undeclared types."""
    for kind in sorted({*problem.objects.values(), *_kinds_of(problem.goal)} - domain.types.keys()):
        declared(kind, domain, path, _line(text, f"- {kind}"))
    for predicate, facts in init.items():
        arity = domain.predicates.get(predicate)
        if arity is None:
            hint = f"unknown predicate of the domain{suggest(predicate, domain.predicates)}"
            raise GameFileError(path, _line(text, f"({predicate}"), f"({predicate} ...)", hint)
        if set(map(len, facts)) != {arity}:
            raise GameFileError(path, _line(text, f"({predicate}"), f"({predicate} ...)", f"expected {arity} arguments")
    for atom in atoms(problem.goal):
        if (2 if atom.predicate == "=" else domain.predicates.get(atom.predicate)) != len(atom.terms):
            hint = f"unknown predicate with {len(atom.terms)} arguments{suggest(atom.predicate, domain.predicates)}"
            raise GameFileError(path, _line(text, "(:goal"), f"({atom.predicate} ...)", hint)
        for term in atom.terms:
            if not term.startswith("?") and term not in index:
                raise _undeclared(term, text, path, index)
    for name in sorted(variables(problem.goal)):
        raise GameFileError(path, _line(text, name), name, "no quantifier of the goal has this variable")
