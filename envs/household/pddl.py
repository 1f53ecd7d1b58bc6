"""Parser of PDDL domains and problems.

Supported: :strips, :adl (and/or/not/imply/exists/forall, conditional effects), :typing (with `either`), :equality,
constants, and action costs, which are ignored. Everything else, such as numeric preconditions, derived predicates and
durative actions, raises a GameFileError that names file, line and construct.

Two properties of the original's planner are kept, since texts depend on them: all names are lower-case, and an
undeclared type has no objects. The original domain quantifies over "location," (with the comma), so this quantifier is
never satisfied. Any other undeclared type is probably a typo, and causes a warning (`UndeclaredType`).
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from turncredit.envs.errors import UndeclaredType
from turncredit.envs.household.s_expressions import ListExpression, Sexp, Token, fail, read_sexp
from turncredit.registry import suggest

_KEYWORD_REQUIREMENTS = {
    ":strips", ":adl", ":typing", ":action-costs", ":equality", ":negative-preconditions", ":disjunctive-preconditions",
    ":existential-preconditions", ":universal-preconditions", ":quantified-preconditions", ":conditional-effects",
}  # fmt: skip

Parameters: TypeAlias = tuple[
    tuple[str, tuple[str, ...]], ...
]  # (name, types that it may have); variables start with "?"


@dataclass(frozen=True, slots=True)
class Atom:
    """predicate(terms); a term is a variable "?x" or an object; the predicate "=" is equality."""

    predicate: str
    terms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The negation of a formula."""

    body: Formula


@dataclass(frozen=True, slots=True)
class And:
    """A conjunction; the empty one is true."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """A disjunction; the empty one is false."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Exists:
    """An existential quantifier over the parameters."""

    parameters: Parameters
    body: Formula


Formula: TypeAlias = Atom | Not | And | Or | Exists  # forall and imply are rewritten into these


@dataclass(frozen=True, slots=True)
class Effect:
    """The atom becomes true or false, for all values of the parameters that satisfy the condition before the action."""

    parameters: Parameters
    condition: Formula | None  # None: always
    atom: Atom
    positive: bool


@dataclass(frozen=True, slots=True)
class Schema:
    """An action with parameters; costs are ignored."""

    name: str
    parameters: Parameters
    precondition: Formula
    effects: tuple[Effect, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Domain:
    """A planning domain; `types` maps each type to its parent (the root "object" to itself)."""

    path: str
    name: str
    types: Mapping[str, str]
    constants: Mapping[str, str]
    predicates: Mapping[str, int]  # name -> number of arguments
    schemas: Mapping[str, Schema]
    digest: str  # of the text
    _below: dict[str, frozenset[str]] = field(default_factory=dict, compare=False, repr=False)

    def subtypes(self, name: str) -> frozenset[str]:
        """Return the type and all its subtypes; nothing for an undeclared type."""
        subtypes = self._below.get(name)
        if subtypes is None:
            subtypes = frozenset(t for t in self.types if name in _ancestry(t, self.types))
            self._below[name] = subtypes
        return subtypes


@dataclass(frozen=True, slots=True)
class Problem:
    """Objects with their types, initial facts, and the goal."""

    name: str
    domain: str
    objects: Mapping[str, str]
    init: tuple[tuple[str, ...], ...]  # (predicate, *objects)
    goal: Formula


def _ancestry(name: str, types: Mapping[str, str]) -> Iterator[str]:
    seen: set[str] = set()
    while name not in seen:
        yield name
        seen.add(name)
        name = types.get(name, "object")


def read_domain(text: str, path: str = "domain.pddl") -> Domain:
    """Return the domain of a PDDL text.

    Args:
        text: the file's content.
        path: name of the file in error messages.

    Raises:
        GameFileError: the text is not a domain, or uses something unsupported.

    Warns:
        UndeclaredType: an undeclared type is used (see `declared`).
    """
    reader = _PddlParser(path)
    domain = reader.domain(read_sexp(text, path), hashlib.blake2b(text.encode(), digest_size=16).hexdigest())
    for kind, line in reader.kinds.items():
        declared(kind, domain, path, line)
    return domain


def declared(kind: str, domain: Domain, path: str, line: int | None) -> bool:
    """Return whether a domain declares a type, and warn if it does not.

    The original games' "location," (a declared type and a comma) causes no warning.

    Args:
        kind: the type, in lower case.
        domain: the domain.
        path: the file that uses the type.
        line: line number in the file.

    Warns:
        UndeclaredType: with file, line and a suggestion.
    """
    if kind in domain.types:
        return True
    if kind.removesuffix(",") not in domain.types:
        where = path if line is None else f"{path}, line {line}"
        message = f"{where}: type {kind!r} is not declared, so no object has it and no action can use it"
        warnings.warn(UndeclaredType(message + suggest(kind, domain.types)), stacklevel=3)
    return False


def read_problem(text: str, path: str = "problem.pddl") -> Problem:
    """Return the problem of a PDDL text; common layouts are parsed by a faster method with the same result.

    Raises:
        GameFileError: the text is not a problem, or uses something unsupported.
    """
    return _fast_problem(text, path) or _PddlParser(path).problem(read_sexp(text, path))


class _PddlParser:
    """A recursive-descent parser over S-expressions."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.kinds: dict[str, int] = {}  # type -> line of its first use

    def fail(self, at: Sexp, construct: str, message: str) -> None:
        fail(self.path, at.line, construct, message)

    def form(self, item: Sexp, expected: str) -> ListExpression:
        if not isinstance(item, ListExpression):
            fail(self.path, item.line, str(item), f"expected {expected}")
        return item

    def word(self, item: Sexp, expected: str) -> Token:
        if not isinstance(item, Token):
            fail(self.path, item.line, f"({item.head} ...)", f"expected {expected}")
        return item

    def sections(self, top: ListExpression, kind: str) -> Iterator[tuple[Token, ListExpression]]:
        """Yield the (:keyword ...) sections after (define (kind name) ...)."""
        if top.head != "define" or len(top) < 2:
            fail(self.path, top.line, f"({top.head}", "expected (define ...)")
        title = self.form(top[1], f"({kind} NAME)")
        if title.head != kind or len(title) != 2:
            fail(self.path, title.line, f"({title.head}", f"expected ({kind} NAME)")
        for item in top[2:]:
            part = self.form(item, "a section such as (:init ...)")
            if not part:
                fail(self.path, part.line, "()", "expected a section such as (:init ...)")
            yield self.word(part[0], "the section's keyword"), part

    def domain(self, top: ListExpression, digest: str) -> Domain:
        types: dict[str, str] = {"object": "object"}
        constants: dict[str, str] = {}
        predicates: dict[str, int] = {}
        schemas: dict[str, Schema] = {}
        for keyword, part in self.sections(top, "domain"):
            if keyword == ":requirements":
                for item in part[1:]:
                    if str(item) not in _KEYWORD_REQUIREMENTS:
                        self.fail(item, str(item), "unknown requirement")
            elif keyword == ":types":
                for name, parents in self.typed(part[1:]):
                    if name != "object":
                        types[name] = parents[0] if parents[0] != name else "object"
            elif keyword == ":constants":
                constants.update((name, kinds[0]) for name, kinds in self.typed(part[1:]))
            elif keyword == ":predicates":
                for item in part[1:]:
                    entry = self.form(item, "(PREDICATE ?x - TYPE ...)")
                    predicates[self.word(entry[0], "a predicate's name")] = len(self.typed(entry[1:]))
            elif keyword == ":action":
                schema = self.schema(part, predicates)
                if schema.name in schemas:
                    self.fail(part, f"(:action {schema.name}", "this action was defined before")
                schemas[schema.name] = schema
            elif keyword != ":functions":  # costs are ignored
                self.fail(part, f"({keyword}", "unknown section of a domain")
        title = str(self.form(top[1], "(domain NAME)")[1])
        types = {**dict.fromkeys(types.values(), "object"), **types}  # parents need no declaration of their own
        return Domain(self.path, title, types, constants, predicates, schemas, digest)

    def schema(self, part: ListExpression, predicates: Mapping[str, int]) -> Schema:
        if len(part) < 2:
            self.fail(part, "(:action", "expected the action's name")
        name = self.word(part[1], "the action's name")
        parameters: Parameters = ()
        precondition: Formula = And(())
        effects: tuple[Effect, ...] = ()
        fields = part[2:]
        for key, value in zip(fields[::2], fields[1::2], strict=False):
            if key == ":parameters":
                parameters = self.typed(self.form(value, "(?x - TYPE ...)"))
            elif key == ":precondition":
                precondition = self.formula(self.form(value, "a condition"), predicates)
            elif key == ":effect":
                effects = tuple(self.effects(self.form(value, "an effect"), (), None, predicates))
            else:
                self.fail(key, str(key), "unknown part of an action; known are :parameters, :precondition, :effect")
        if len(fields) % 2:
            self.fail(fields[-1], str(fields[-1]), "expected a keyword and its value")
        return Schema(str(name), parameters, precondition, effects, part.line)

    def problem(self, top: ListExpression) -> Problem:
        objects: dict[str, str] = {}
        init: list[tuple[str, ...]] = []
        goal: Formula | None = None
        domain = ""
        for keyword, part in self.sections(top, "problem"):
            if keyword == ":domain":
                domain = str(part[1]) if len(part) > 1 else ""
            elif keyword == ":objects":
                objects.update((name, kinds[0]) for name, kinds in self.typed(part[1:]))
            elif keyword == ":init":
                init.extend(fact for item in part[1:] if (fact := self.fact(item)))
            elif keyword == ":goal":
                if len(part) != 2:
                    self.fail(part, "(:goal", "expected one condition")
                goal = self.formula(self.form(part[1], "a condition"), None)
            elif keyword not in (":metric", ":requirements"):
                self.fail(part, f"({keyword}", "unknown section of a problem")
        if goal is None:
            fail(self.path, top.line, "(define (problem", "expected a (:goal ...)")
        return Problem(str(self.form(top[1], "(problem NAME)")[1]), domain, objects, tuple(init), goal)

    def fact(self, item: Sexp) -> tuple[str, ...] | None:
        form = self.form(item, "a fact")
        if form.head == "=":  # the value of a function, such as a distance
            return None
        words = tuple(str(self.word(word, "an object")) for word in form)
        if not words:
            self.fail(form, "()", "expected a fact")
        return words

    def typed(self, items: list[Sexp]) -> Parameters:
        """`a b - t c` -> (("a", ("t",)), ("b", ("t",)), ("c", ("object",)))."""
        result: list[tuple[str, tuple[str, ...]]] = []
        waiting: list[str] = []
        position = 0
        while position < len(items):
            item = items[position]
            if item == "-":
                if position + 1 == len(items):
                    self.fail(item, "-", "expected a type")
                kind = items[position + 1]
                kinds = (
                    tuple(map(str, kind[1:]))
                    if isinstance(kind, ListExpression) and kind.head == "either"
                    else (str(kind),)
                )
                if isinstance(kind, ListExpression) and kind.head != "either":
                    self.fail(kind, f"({kind.head}", "expected a type or (either ...)")
                for name in kinds:
                    self.kinds.setdefault(name, kind.line)
                result.extend((name, kinds) for name in waiting)
                waiting, position = [], position + 2
            else:
                waiting.append(str(self.word(item, "a name")))
                position += 1
        result.extend((name, ("object",)) for name in waiting)
        return tuple(result)

    def formula(self, form: ListExpression, predicates: Mapping[str, int] | None) -> Formula:
        if not form:
            return And(())
        head = form.head
        below = (
            [self.formula(self.form(item, "a condition"), predicates) for item in form[1:]] if head in _BOOLEAN else []
        )
        if head == "and":
            return And(tuple(below))
        if head == "or":
            return Or(tuple(below))
        if head == "not" and len(below) == 1:
            return Not(below[0])
        if head == "imply" and len(below) == 2:
            return Or((Not(below[0]), below[1]))
        if head in ("exists", "forall") and len(form) == 3:
            parameters = self.typed(self.form(form[1], "(?x - TYPE ...)"))
            body = self.formula(self.form(form[2], "a condition"), predicates)
            return Exists(parameters, body) if head == "exists" else Not(Exists(parameters, Not(body)))
        return self.atom(form, predicates)

    def atom(self, form: ListExpression, predicates: Mapping[str, int] | None) -> Atom:
        head = form.head
        if head in _UNSUPPORTED or (predicates is not None and head != "=" and head not in predicates):
            self.fail(form, f"({head} ...)", "unknown predicate or construct in a condition or effect")
        atom = Atom(head, tuple(str(self.word(item, "a variable or object")) for item in form[1:]))
        arity = 2 if head == "=" else predicates[head] if predicates is not None else len(atom.terms)
        if len(atom.terms) != arity:
            self.fail(form, f"({head} ...)", f"expected {arity} arguments, got {len(atom.terms)}")
        return atom

    def effects(
        self, form: ListExpression, parameters: Parameters, condition: Formula | None, predicates: Mapping[str, int]
    ) -> Iterator[Effect]:
        head = form.head
        if not form or head == "increase":
            return
        if head == "and":
            for item in form[1:]:
                yield from self.effects(self.form(item, "an effect"), parameters, condition, predicates)
        elif head == "forall" and len(form) == 3:
            inner = parameters + self.typed(self.form(form[1], "(?x - TYPE ...)"))
            yield from self.effects(self.form(form[2], "an effect"), inner, condition, predicates)
        elif head == "when" and len(form) == 3:
            when = self.formula(self.form(form[1], "a condition"), predicates)
            both = when if condition is None else And((condition, when))
            yield from self.effects(self.form(form[2], "an effect"), parameters, both, predicates)
        elif head == "not" and len(form) == 2:
            yield Effect(parameters, condition, self.atom(self.form(form[1], "an atom"), predicates), False)
        else:
            yield Effect(parameters, condition, self.atom(form, predicates), True)


_BOOLEAN = {"and", "or", "not", "imply"}
_UNSUPPORTED = {
    "",
    "and",
    "or",
    "not",
    "imply",
    "exists",
    "forall",
    "when",
    "increase",
    "decrease",
    "assign",
    "<",
    ">",
    "<=",
    ">=",
}
_HEADER = re.compile(
    r"\s*\(\s*define\s*\(\s*problem\s+([^\s()]+)\s*\)\s*\(\s*:domain\s+([^\s()]+)\s*\)"
    r"\s*\(\s*:objects\s([^()]*)\)\s*\(\s*:init\s"
)
_FACT = re.compile(r"\(([^()]+)\)")
_GOAL = re.compile(r"\)\s*(\(\s*:goal\s)")


def _fast_problem(text: str, path: str) -> Problem | None:
    """Parse the common layout (problem, domain, objects, init, goal in this order, no comments) by regular expressions.

    Returns:
        The problem, or None for any other layout, which the general parser then handles.
    """
    low = text.lower()
    header = _HEADER.match(low)
    goal = _GOAL.search(low, header.end()) if header else None
    if header is None or goal is None or ";" in low:
        return None
    words = header[3].split()
    body = low[header.end() : goal.start()]
    facts = _FACT.findall(body)
    plain = body.count("(") == body.count(")") == len(facts) and not body[body.rfind(")") + 1 :].strip()
    if (
        words[1::3] != ["-"] * (len(words) // 3)
        or len(words) % 3
        or words.count("-") != len(words) // 3
        or not plain
        or "=" in body
    ):
        return None
    init = [tuple(fact.split()) for fact in facts]
    outside = _FACT.sub("", body)
    if outside.strip() or () in init:
        return None
    lines = low.count("\n", 0, goal.start(1))
    tail = read_sexp("\n" * lines + "(" + low[goal.start(1) :], path)
    if len(tail) != 1 or not isinstance(tail[0], ListExpression) or len(tail[0]) != 2:
        return None
    reader = _PddlParser(path)
    formula = reader.formula(reader.form(tail[0][1], "a condition"), None)
    return Problem(header[1], header[2], dict(zip(words[::3], words[2::3], strict=True)), tuple(init), formula)
