"""Mutations: programs with one line changed, like typical human mistakes.

Changes are made in the source text, at positions from the syntax tree, so all Python versions give the same mutants.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

__all__ = ["KINDS", "Mutant", "mutants"]

_COMPARE: Final[dict[type[ast.cmpop], tuple[str, tuple[str, ...]]]] = {
    ast.Lt: ("<", (">", "<=")),
    ast.LtE: ("<=", ("<", ">=")),
    ast.Gt: (">", ("<", ">=")),
    ast.GtE: (">=", (">", "<=")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: ("not in", ("in",)),
}
_BINARY: Final[dict[type[ast.operator], tuple[str, tuple[str, ...]]]] = {
    ast.Add: ("+", ("-",)),
    ast.Sub: ("-", ("+",)),
    ast.Mult: ("*", ("+",)),
    ast.FloorDiv: ("//", ("%",)),
    ast.Mod: ("%", ("//",)),
}
_NAMES: Final = {
    "max": "min",
    "min": "max",
    "upper": "lower",
    "any": "all",
    "all": "any",
    "items": "keys",
}
KINDS: Final = ("compare", "operator", "constant", "variable", "return", "branch", "call", "range")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A program with one mistake.

    Args:
        text: the source.
        line: number of the changed line, starting at 1.
        kind: kind of mistake, one of `KINDS`.
        was, is_: the old and the new text at the changed position.
    """

    text: str
    line: int
    kind: str
    was: str
    is_: str


def mutants(text: str) -> list[Mutant]:
    """Return all syntactically valid mutants of a program, without duplicates, sorted by line."""
    tree = ast.parse(text)
    lines = text.splitlines(keepends=True)
    mutants_by_text: dict[str, Mutant] = {}
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
        for line, start, end, new, kind in _changes(function, lines):
            old = lines[line - 1]
            changed = "".join([*lines[: line - 1], old[:start] + new + old[end:], *lines[line:]])
            if changed != text and changed not in mutants_by_text and _parses(changed):
                mutants_by_text[changed] = Mutant(changed, line, kind, old[start:end], new)
    return sorted(mutants_by_text.values(), key=lambda mutant: (mutant.line, mutant.kind, mutant.text))


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


Change = tuple[int, int, int, str, str]  # line, start column, end column, new text, kind


def _changes(function: ast.FunctionDef, lines: list[str]) -> Iterator[Change]:
    names = _locals(function)
    for node in ast.walk(function):
        if getattr(node, "lineno", 0) != getattr(node, "end_lineno", -1) and not isinstance(node, ast.If):
            continue
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from _between(node.left, node.comparators[0], _COMPARE.get(type(node.ops[0])), lines, "compare")
        elif isinstance(node, ast.BinOp):
            yield from _between(node.left, node.right, _BINARY.get(type(node.op)), lines, "operator")
        elif isinstance(node, ast.AugAssign):
            yield from _augmented(node, lines)
        elif isinstance(node, ast.Constant):
            yield from _constant(node)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
            for name in names:
                if name != node.id:
                    yield (*_span(node), name, "variable")
        elif isinstance(node, ast.Return) and node.value is not None:
            yield node.lineno, node.col_offset, node.value.col_offset, "", "return"
        elif isinstance(node, ast.If) and node.test.lineno == node.test.end_lineno:
            line, start, end = _span(node.test)
            yield line, start, end, f"not {lines[line - 1][start:end]}", "branch"
        elif isinstance(node, ast.Call):
            yield from _call(node, lines)


def _between(
    left: ast.expr, right: ast.expr, pair: tuple[str, tuple[str, ...]] | None, lines: list[str], kind: str
) -> Iterator[Change]:
    """Yield changes of the operator between two operands."""
    if pair is None or left.end_lineno != right.lineno:
        return
    sign, others = pair
    line, start = right.lineno, left.end_col_offset or 0
    at = lines[line - 1].find(sign, start, right.col_offset)
    for other in others if at >= 0 else ():
        yield line, at, at + len(sign), other, kind


def _augmented(node: ast.AugAssign, lines: list[str]) -> Iterator[Change]:
    sign, others = _BINARY.get(type(node.op), ("", ()))
    at = lines[node.lineno - 1].find(f"{sign}=", node.target.end_col_offset or 0)
    if sign and at >= 0:
        yield node.lineno, at, at + len(sign) + 1, f"{others[0]}=", "operator"
        yield node.lineno, at, at + len(sign) + 1, "=", "operator"


def _constant(node: ast.Constant) -> Iterator[Change]:
    value = node.value
    if isinstance(value, bool):
        yield (*_span(node), str(not value), "constant")
    elif isinstance(value, int):
        for other in (value + 1, value - 1):
            if other >= 0:
                yield (*_span(node), str(other), "constant")
    elif isinstance(value, str) and len(value) == 1 and value.isalpha():
        yield (*_span(node), repr("b" if value == "a" else chr(ord(value) - 1)), "constant")


def _call(node: ast.Call, lines: list[str]) -> Iterator[Change]:
    line = node.lineno
    if isinstance(node.func, ast.Name) and node.func.id in _NAMES:
        yield (*_span(node.func), _NAMES[node.func.id], "call")
    if isinstance(node.func, ast.Attribute) and node.func.attr in _NAMES:
        end = node.func.end_col_offset or 0
        yield line, end - len(node.func.attr), end, _NAMES[node.func.attr], "call"
    if isinstance(node.func, ast.Name) and node.func.id == "range":
        _, start, end = _span(node.args[-1])
        bound = lines[line - 1][start:end]
        yield line, start, end, f"{bound} - 1", "range"
        yield line, start, end, f"{bound} + 1", "range"


def _span(node: ast.expr) -> tuple[int, int, int]:
    return node.lineno, node.col_offset, node.end_col_offset or 0


def _locals(function: ast.FunctionDef) -> list[str]:
    names = [argument.arg for argument in function.args.args]
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id not in names:
            names.append(node.id)
    return names
