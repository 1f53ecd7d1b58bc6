"""Reads MBPP in its authors' two formats: an instruction, a solution, and assert statements.

The original has one object per line, `{task_id, text, code, test_list, test_setup_code, challenge_test_list}`; the
sanitized version is one list of `{task_id, prompt, code, test_list, test_imports}`. MBPP+ has the keys of the latter
and a script, `test`, whose statements at the top level are hidden tests as well.

The first assert is visible, as in the paper's prompts, and all of them are hidden tests. An assert that compares a call
with literals to a literal becomes a `CallTest`. Any other becomes a script, in which names that nothing else defines
are imported from the candidate.

Source: Austin et al. 2021, arXiv:2108.07732.
"""

from __future__ import annotations

import ast
import builtins
from typing import Final

from turncredit.envs.code.task import MAIN, BadTask, CallTest, CodeTask, CodeTest, ScriptTest, call_of, text_of
from turncredit.tools.bounded_input import InputError
from turncredit.tools.readers import Fields, list_in_cell

__all__ = ["READ", "SPLITS", "equality", "is_mbpp", "mbpp", "names_from_candidate"]

SPLITS: Final = ((10, "prompt"), (510, "test"), (600, "validation"), (974, "train"))
"""Highest task number of each split in the paper."""
READ: Final = frozenset(("test_list", "challenge_test_list", "test_setup_code", "test_imports", "test"))
"""Keys of tests, all of which are judged."""
_KEYS: Final = {"code", "test_list"}


def is_mbpp(data: Fields) -> bool:
    """Return whether a JSON object is a task in one of the two formats."""
    return data.keys() >= _KEYS and ("text" in data or "prompt" in data)


def mbpp(data: Fields, number: int) -> CodeTask:
    """Return the task in a JSON object.

    Args:
        data: the object.
        number: its line number, used as its id if it has no task_id.

    Raises:
        BadTask: a value has the wrong type, or there are no valid asserts.
    """
    text, code = (text_of(data, key, "") for key in ("text" if "text" in data else "prompt", "code"))
    asserts = [*_texts(data, "test_list"), *_texts(data, "challenge_test_list")]
    setup = "\n".join([*_texts(data, "test_imports"), text_of(data, "test_setup_code", "")])
    task_id = data.get("task_id", number)
    plain = not setup.strip()
    own = _defined(code)
    tests = [_test(assertion, position, setup, plain, own) for position, assertion in enumerate(asserts, 1)]
    if not tests:
        raise BadTask(f"task {task_id!r} has an empty test_list")
    tests += _script(text_of(data, "test", ""), own)
    entry = _entry(asserts[0], setup, own)
    example = "" if isinstance(tests[0], CallTest) else f"\nIt has to pass this test:\n{asserts[0].strip()}"
    return CodeTask(
        id=f"MBPP/{task_id}",
        statement=f"{text.strip()}\nCall the function {entry}.{example}",
        files={MAIN: ""},
        visible=(tests[0],),
        hidden=tuple(tests),
        solution={MAIN: code.replace("\r\n", "\n").rstrip("\n") + "\n"},
        kind="MBPP",
        split=next((split for last, split in SPLITS if isinstance(task_id, int) and task_id <= last), "train"),
    )


def _texts(data: Fields, key: str) -> list[str]:
    try:
        value = list_in_cell(data.get(key, []))
    except InputError as error:
        raise BadTask(f"{key!r}: {error}") from error
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise BadTask(f"{key!r} must be a list of strings, got {str(value)[:80]}")
    return value


def _parsed(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadTask(f"the test {text[:80]!r} is not valid Python: {error}") from None


def _defined(code: str) -> set[str]:
    """Return the names that a solution defines, which may shadow builtins."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()  # some solutions in the data are not valid Python
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def _test(text: str, number: int, setup: str, plain: bool, own: set[str]) -> CodeTest:
    tree = _parsed(text)
    if not any(isinstance(node, ast.Assert) for node in tree.body):
        raise BadTask(f"a test must be an assert statement, got {text[:80]!r}")
    test = equality(tree.body[0]) if plain and len(tree.body) == 1 else None
    if test is not None and (test.name in own or test.name not in dir(builtins)):
        return test
    names = names_from_candidate(text, setup, own)
    imports = f"from {MAIN.removesuffix('.py')} import {', '.join(names)}\n" if names else ""
    inner = "".join(f"    {line}\n" for line in ast.unparse(tree).split("\n"))
    return ScriptTest(f"{imports}{setup.strip()}\n\n\ndef test_{number}():\n{inner}", "functions")


def _script(text: str, own: set[str]) -> list[CodeTest]:
    """Return the tests in a script that asserts at its top level, as in MBPP+: one for each statement that may fail."""
    if not text.strip():
        return []
    tree = _parsed(text)
    names = names_from_candidate(text, "", own)
    body = [node for node in tree.body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
    tests = [node for node in body if not isinstance(node, _DEFINITIONS)]
    if not tests:
        raise BadTask("the script under 'test' has no statement that tests")
    if names:
        tree.body = [ast.parse(f"from {MAIN.removesuffix('.py')} import {', '.join(names)}").body[0]]
    else:
        tree.body = []
    tree.body += [node for node in body if isinstance(node, _DEFINITIONS)]
    for number, node in enumerate(tests, 1):
        function = ast.parse(f"def test_{number}():\n    pass")
        function.body[0].body = [node]  # type: ignore[attr-defined]
        tree.body += function.body
    return [ScriptTest(ast.unparse(tree) + "\n", "functions")]


_DEFINITIONS: Final = (
    ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign | ast.AugAssign
)


def equality(node: ast.stmt, entry: str = "") -> CallTest | None:
    """Return the call in `assert f(literals) == literal`; None for any other statement or function."""
    if not isinstance(node, ast.Assert) or not isinstance(node.test, ast.Compare) or len(node.test.ops) != 1:
        return None
    left, right = node.test.left, node.test.comparators[0]
    if not isinstance(left, ast.Call) or not isinstance(left.func, ast.Name):
        return None
    if not isinstance(node.test.ops[0], ast.Eq) or (entry and left.func.id != entry):
        return None
    try:
        return call_of(ast.unparse(left), ast.unparse(right), "")
    except BadTask:
        return None


def names_from_candidate(text: str, setup: str, own: set[str]) -> list[str]:
    """Return the names that a test takes from the candidate, in order: those that nothing else defines.

    Args:
        text: source of the test.
        setup: source that runs before it.
        own: names that the solution defines, which may be those of builtins.

    Raises:
        BadTask: the source is not valid Python.
    """
    tree = _parsed(f"{setup}\n{text}")
    bound = set(dir(builtins)) - own
    used = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            used += [node] if isinstance(node.ctx, ast.Load) else []
            bound |= {node.id} if not isinstance(node.ctx, ast.Load) else set()
        elif isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
    used.sort(key=lambda node: (node.lineno, node.col_offset))
    return list(dict.fromkeys(node.id for node in used if node.id not in bound))


def _entry(text: str, setup: str, own: set[str]) -> str:
    """Return the function that a test calls first."""
    names = names_from_candidate(text, setup, own)
    calls = [node.func for node in ast.walk(_parsed(text)) if isinstance(node, ast.Call)]
    called = {func.id for func in calls if isinstance(func, ast.Name)}
    entry = next((name for name in names if name in called), "")
    if not entry:
        raise BadTask(f"the test {text[:80]!r} does not call a function of the solution")
    return entry
