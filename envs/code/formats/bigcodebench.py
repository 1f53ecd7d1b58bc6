"""BigCodeBench: functions with documentation, and unittest cases that call them.

The tests of about half of its tasks look at files, figures, tables or the program itself, and only work in the process
of the candidate, which could then change them. Such tasks are refused; those remain whose tests compare plain values.
"""

from __future__ import annotations

import ast
from typing import Final

from turncredit.envs.code.formats.humaneval import with_body
from turncredit.envs.code.mbpp import names_from_candidate
from turncredit.envs.code.pytest_suites import suite
from turncredit.envs.code.task import MAIN, BadTask, CodeTask, text_of
from turncredit.tools.readers import Fields

__all__ = ["KEYS", "READ", "read"]

KEYS: Final = frozenset(("complete_prompt", "test", "entry_point"))
READ: Final = frozenset(("test",))

_PLAIN: Final = frozenset(
    ("unittest", "math", "re", "json", "string", "collections", "itertools", "hashlib", "base64", "typing", "textwrap")
)
"""Modules with which a test can look at nothing but values."""


def read(fields: Fields, id: str) -> CodeTask:
    """Return the task in a record.

    Raises:
        BadTask: a value has the wrong type, or the tests need more than values.
    """
    prompt, tests, entry = (text_of(fields, key) for key in ("complete_prompt", "test", "entry_point"))
    id = text_of(fields, "task_id", f"BigCodeBench/{id}")
    answer = text_of(fields, "canonical_solution", "")
    try:
        tree = ast.parse(tests)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadTask(f"the tests are not valid Python: {error}") from None
    _refuse_more_than_values(tree, id)
    own = f"from {MAIN.removesuffix('.py')} import {', '.join(names_from_candidate(tests, '', {entry}) or [entry])}\n"
    solution = {MAIN: f"{prompt}{answer}\n"} if answer else {}
    files = {MAIN: with_body(prompt)}
    return CodeTask(
        id=id,
        statement=f"Complete the function {entry} in {MAIN}.",
        files=files,
        visible=(),
        hidden=(suite(own + tests, "test", {**files, **solution}),),
        solution=solution,
        kind="BigCodeBench",
    )


def _refuse_more_than_values(tree: ast.Module, id: str) -> None:
    for node in ast.walk(tree):
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
            modules = ["open"]
        for name in modules:
            if name.partition(".")[0] not in _PLAIN or name.startswith("unittest.mock"):
                raise BadTask(
                    f"the tests of {id} use {name}, so they look at more than values and would have to run in the "
                    "candidate's process"
                )
