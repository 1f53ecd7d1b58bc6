"""HumanEval's format: a prompt to complete, `check(candidate)`, and the rest of a solution.

HumanEval+, MBPP in the form of mxeval, and HumanEval-X's Python tasks have it as well.
"""

from __future__ import annotations

import ast
import doctest
from collections.abc import Iterator
from typing import Final

from turncredit.envs.code.mbpp import SPLITS, equality
from turncredit.envs.code.task import MAIN, BadTask, CallTest, CodeTask, CodeTest, ScriptTest, call_of, text_of
from turncredit.tools.readers import Fields

__all__ = ["KEYS", "READ", "read", "with_body"]

KEYS: Final = frozenset(("prompt", "test", "entry_point"))
READ: Final = frozenset(("test", "example_test"))  # the example tests are among the tests


def read(fields: Fields, id: str) -> CodeTask:
    """Return the task in a record.

    Raises:
        BadTask: a value has the wrong type, or the tests cannot be judged as a whole.
    """
    prompt, tests, entry = (text_of(fields, key) for key in ("prompt", "test", "entry_point"))
    id = text_of(fields, "task_id", f"{entry}")
    if not text_of(fields, "language", "python").lower().startswith("python"):
        raise BadTask(f"task {id!r} is in {fields['language']}, and turncredit runs Python")
    answer = fields.get("canonical_solution")
    solution = prompt + answer if isinstance(answer, str) else ""
    return CodeTask(
        id=id,
        statement=f"Complete the function {entry} in {MAIN}.",
        files={MAIN: with_body(prompt)},
        visible=tuple(_examples(prompt, entry)),
        hidden=_checks(tests, entry, solution or prompt),
        solution={MAIN: solution if solution.endswith("\n") else solution + "\n"} if solution else {},
        kind=id.partition("/")[0],
        split=_split(id),
    )


def with_body(prompt: str) -> str:
    """Return a prompt that ends within a function, with `pass` as the body."""
    last = next((line for line in reversed(prompt.splitlines()) if line.strip()), "")
    indent = last[: len(last) - len(last.lstrip())] or "    "
    return f"{prompt.rstrip()}\n{indent}pass\n"


def _split(id: str) -> str:
    name, _, number = id.partition("/")
    if name == "MBPP" and number.isdigit():
        return next((split for last, split in SPLITS if int(number) <= last), "train")
    return "test" if name == "HumanEval" else ""


def _examples(prompt: str, entry: str) -> Iterator[CallTest]:
    """Yield the doctest examples of a function that are calls with literals."""
    try:
        tree = ast.parse(with_body(prompt))
        definitions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == entry]
        text = (ast.get_docstring(definitions[-1]) or "") if definitions else ""
        examples = doctest.DocTestParser().get_examples(text)
    except (SyntaxError, ValueError):
        return
    for example in examples:
        try:
            call = call_of(example.source, example.want, "")
        except BadTask:
            continue
        if call.name == entry:
            yield call


def _checks(tests: str, entry: str, prelude: str) -> tuple[CodeTest, ...]:
    """Return the tests in check(candidate): `CallTest`s if all are plain comparisons, else one script."""
    try:
        tree = ast.parse(tests)
    except (SyntaxError, ValueError) as error:
        raise BadTask(f"the tests are not valid Python: {error}") from None
    checks = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "check"]
    _refuse_tests_outside(tree, len(checks))
    calls = [equality(part, "candidate") for node in checks for part in node.body]
    plain = [CallTest(entry, call.arguments, call.returns, call.keywords) for call in calls if call is not None]
    if checks and len(plain) == len(calls):
        return tuple(plain)
    return (ScriptTest(tests, "check", entry, prelude),)


def _refuse_tests_outside(tree: ast.Module, checks: int) -> None:
    """Refuse tests of which only the function `check` would be judged."""
    if checks > 1:
        raise BadTask(f"the tests define check(candidate) {checks} times")
    for node in tree.body:
        outside = not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if outside and any(isinstance(part, ast.Assert) for part in ast.walk(node)):
            raise BadTask(f"the tests have an assert outside of check(candidate), in line {node.lineno}")
