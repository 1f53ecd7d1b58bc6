"""Validates test files in pytest's style, so that an unsupported feature is reported when a task is read.

Supported: functions and classes `test...`; unittest cases with setUp, tearDown, setUpClass and tearDownClass;
`setup_method`, `teardown_method`, `setup_class`, `teardown_class`; `pytest.raises`, `approx`, `fail`, `param`,
`mark.parametrize`, and marks without an effect. Other features of pytest and unittest, which would make correct
programs fail, are refused.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Final

from turncredit.envs.code.task import BadTask, ScriptTest, module_of

__all__ = ["is_test", "suite", "suites"]

_KNOWN: Final = ("raises", "approx", "fail", "param", "mark")
_MARKS: Final = ("skip", "skipif", "xfail", "usefixtures")  # marks with an effect
_MODULE: Final = ("setup_module", "teardown_module", "setup_function", "teardown_function")
_MODULE_UNIT: Final = ("setUpModule", "tearDownModule", "load_tests")
_UNIT: Final = ("skip", "skipIf", "skipUnless", "expectedFailure", "SkipTest", "IsolatedAsyncioTestCase")
_WHAT: Final = "only pytest.raises, approx, fail, param, mark.parametrize and marks without an effect are supported"


def suites(tests: Mapping[str, str], task: Mapping[str, str], base: str) -> tuple[ScriptTest, ...]:
    """Return the test files in a folder. Its other files, and the task's files that are not modules, are placed beside
    them.

    Args:
        tests: path -> contents of the files in the folder.
        task: the task's files, at the start and in the solution.
        base: name of the folder, for error messages.

    Raises:
        BadTask: a file uses an unsupported feature.
    """
    own = {module_of(path) for path in task if path.endswith(".py")}
    for path, text in tests.items():
        where, name = f"{base}/{path}", path.rpartition("/")[2]
        if name == "conftest.py":
            raise BadTask(f"{where}: conftest.py is not supported, since fixtures are not")
        if path.endswith(".py") and not is_test(path):
            if module_of(path) in own:
                raise BadTask(f"{where}: a helper module must not have the name of a module of the task")
            _refuse(_parsed(text, where), where, own)
    data = {path: text for path, text in task.items() if not path.endswith(".py")}
    beside = {**data, **{path: text for path, text in tests.items() if not is_test(path)}}
    return tuple(suite(text, f"{base}/{path}", task, beside) for path, text in tests.items() if is_test(path))


def suite(code: str, where: str, task: Mapping[str, str], beside: Mapping[str, str] | None = None) -> ScriptTest:
    """Return a test file after validating it.

    Args:
        code: the source.
        where: name of the file, for error messages.
        task: the task's files, at the start and in the solution.
        beside: path -> contents of the files next to it; default: the task's files that are not modules.

    Raises:
        BadTask: it uses an unsupported feature.
    """
    own = tuple(sorted(module_of(path) for path in task if path.endswith(".py")))
    _refuse(_parsed(code, where), where, set(own))
    if beside is None:
        beside = {path: text for path, text in task.items() if not path.endswith(".py")}
    return ScriptTest(code, "functions", beside=tuple(sorted(beside.items())), own=own)


def is_test(path: str) -> bool:
    """Return whether pytest would collect a file of this name."""
    last = path.rpartition("/")[2]
    return last.endswith(".py") and (last.startswith("test_") or last.endswith("_test.py"))


def _parsed(code: str, where: str) -> ast.Module:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadTask(f"{where}: the tests are not valid Python: {error}") from None


def _refuse(tree: ast.Module, where: str, own: set[str]) -> None:
    for problem in _problems(tree, own):
        raise BadTask(f"{where}: {problem}")


def _problems(tree: ast.Module, own: set[str]) -> Iterator[str]:
    """Yield a sentence for each unsupported feature."""
    names = _imported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            module = "." * node.level + (node.module or "")
            yield f"the relative import of {module} is not supported; helper modules are not in a package"
        elif isinstance(node, ast.Attribute | ast.Name):
            yield from _used(_dotted(node, names))
        elif isinstance(node, ast.ImportFrom) and node.module in ("pytest", "unittest"):
            for alias in node.names:
                yield from _used(f"{node.module}.{alias.name}")
        elif isinstance(node, ast.Call):
            yield from _called(node, own)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name in (*_MODULE, *_MODULE_UNIT):
                yield f"{node.name} is not supported; use setUp or setUpClass"
            yield from _wants(node, names, 0, set())
        elif isinstance(node, ast.ClassDef):
            supplied = {name for decorator in node.decorator_list for name in _parameters(decorator, names)}
            for part in node.body:
                if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield from _wants(part, names, 1, supplied)


def _imported(tree: ast.Module) -> dict[str, str]:
    """Return the local names of what a program imports from pytest and unittest."""
    aliases = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            aliases.update(
                {alias.asname or alias.name: alias.name for alias in node.names if alias.name in ("pytest", "unittest")}
            )
        elif isinstance(node, ast.ImportFrom) and node.module in ("pytest", "unittest"):
            aliases.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    return aliases


def _dotted(node: ast.expr, names: Mapping[str, str]) -> str:
    """Return the full name of an object of pytest or unittest; "" for any other expression."""
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value, names)
        return f"{before}.{node.attr}" if before else ""
    return ""


def _used(name: str) -> Iterator[str]:
    first, *attributes = name.split(".")
    if first == "pytest" and attributes and attributes[0] not in _KNOWN:
        yield f"{name} is not supported; {_WHAT}"
    if first == "pytest" and attributes[:1] == ["mark"] and attributes[1:] and attributes[1] in _MARKS:
        yield f"{name} is not supported; {_WHAT}"
    if first == "unittest" and attributes and attributes[0] in _UNIT:
        yield f"{name} is not supported; every test is run and counted"


def _called(node: ast.Call, own: set[str]) -> Iterator[str]:
    if isinstance(node.func, ast.Attribute) and node.func.attr == "skipTest":
        yield "skipTest is not supported; every test is run and counted"
    opens = isinstance(node.func, ast.Name) and node.func.id in ("open", "Path")
    opens = opens or (isinstance(node.func, ast.Attribute) and node.func.attr in ("open", "Path"))
    for argument in node.args[:1] if opens else ():
        path = argument.value if isinstance(argument, ast.Constant) and isinstance(argument.value, str) else ""
        if path.endswith(".py") and module_of(path) in own:
            yield f"it reads {path}, which is in the candidate's sandbox and not next to the tests"


def _wants(
    node: ast.FunctionDef | ast.AsyncFunctionDef, names: Mapping[str, str], skip: int, supplied: set[str]
) -> Iterator[str]:
    """Yield what a test requires and does not get: an event loop, or fixtures."""
    if not node.name.startswith("test"):
        return
    if isinstance(node, ast.AsyncFunctionDef):
        yield f"{node.name} is async, which is not supported"
    marks = [
        _dotted(decorator.func if isinstance(decorator, ast.Call) else decorator, names)
        for decorator in node.decorator_list
    ]
    if not all(mark.startswith("pytest.mark.") for mark in marks):
        return  # other decorators, such as mock.patch, may supply arguments
    arguments = [*node.args.posonlyargs, *node.args.args]
    least = len(arguments) - len(node.args.defaults)
    required = [argument.arg for argument in arguments[skip:least]]
    required += [
        argument.arg
        for argument, value in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        if value is None
    ]
    available = supplied | {name for decorator in node.decorator_list for name in _parameters(decorator, names)}
    for name in required:
        if name not in available and "*" not in available:
            yield f"{node.name} uses the fixture {name!r}; fixtures are not supported"


def _parameters(node: ast.expr, names: Mapping[str, str]) -> Iterator[str]:
    """Yield the argument names that a decorator supplies; "*" if they are not literals."""
    if not isinstance(node, ast.Call) or _dotted(node.func, names) != "pytest.mark.parametrize":
        return
    arguments = [*node.args, *(word.value for word in node.keywords if word.arg == "argnames")]
    try:
        literal = ast.literal_eval(arguments[0])
    except (ValueError, IndexError, TypeError):
        yield "*"
        return
    yield from (part.strip() for part in (literal.split(",") if isinstance(literal, str) else literal))
