"""Tests as pytest has them: what of a folder's or a line's tests can be run here, said when they are read.

Known: functions and classes `test...`, unittest's cases with setUp, tearDown, setUpClass and tearDownClass,
`setup_method`, `teardown_method`, `setup_class`, `teardown_class`, `pytest.raises`, `approx`, `fail`, `param`,
`mark.parametrize`, and marks that change nothing. What else of pytest's or unittest's would fail right programs without
a word is refused here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Final

from turnwise.envs.code.task import BadTask, ScriptTest, module_of

__all__ = ["is_test", "suite", "suites"]

_KNOWN: Final = ("raises", "approx", "fail", "param", "mark")
_MARKS: Final = ("skip", "skipif", "xfail", "usefixtures")  # marks that change what a test does
_MODULE: Final = ("setup_module", "teardown_module", "setup_function", "teardown_function")
_MODULE_UNIT: Final = ("setUpModule", "tearDownModule", "load_tests")
_UNIT: Final = ("skip", "skipIf", "skipUnless", "expectedFailure", "SkipTest", "IsolatedAsyncioTestCase")
_WHAT: Final = (
    "of pytest, what is known here is raises, approx, fail, param, mark.parametrize, and marks that change nothing"
)


def suites(tests: Mapping[str, str], task: Mapping[str, str], place: str) -> tuple[ScriptTest, ...]:
    """Return the tests of a folder; what else is there lies beside them, as do the task's files that are no modules.

    Args:
        tests: path -> text of the files of the folder.
        task: the files of the task, at the beginning and in its solution.
        place: name of the folder, for errors.

    Raises:
        BadTask: something in it cannot be run here; the file and the reason.
    """
    own = {module_of(path) for path in task if path.endswith(".py")}
    for path, text in tests.items():
        where, name = f"{place}/{path}", path.rpartition("/")[2]
        if name == "conftest.py":
            raise BadTask(f"{where}: there are no fixtures here, so a conftest.py cannot be used")
        if path.endswith(".py") and not is_test(path):
            if module_of(path) in own:
                raise BadTask(f"{where}: a module beside the tests cannot have the name of a module of the task")
            _refuse(_parsed(text, where), where, own)
    data = {path: text for path, text in task.items() if not path.endswith(".py")}
    beside = {**data, **{path: text for path, text in tests.items() if not is_test(path)}}
    return tuple(suite(text, f"{place}/{path}", task, beside) for path, text in tests.items() if is_test(path))


def suite(code: str, where: str, task: Mapping[str, str], beside: Mapping[str, str] | None = None) -> ScriptTest:
    """Return tests, once it is known that they can be run here.

    Args:
        code: the program.
        where: its file, for errors.
        task: the files of the task, at the beginning and in its solution.
        beside: path -> text of what lies beside them; absent: the files of the task that are no modules.

    Raises:
        BadTask: they cannot; the file and the reason.
    """
    own = tuple(sorted(module_of(path) for path in task if path.endswith(".py")))
    _refuse(_parsed(code, where), where, set(own))
    if beside is None:
        beside = {path: text for path, text in task.items() if not path.endswith(".py")}
    return ScriptTest(code, "functions", beside=tuple(sorted(beside.items())), own=own)


def is_test(path: str) -> bool:
    """Return whether a file holds tests, by its name, as pytest has it."""
    last = path.rpartition("/")[2]
    return last.endswith(".py") and (last.startswith("test_") or last.endswith("_test.py"))


def _parsed(code: str, where: str) -> ast.Module:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadTask(f"{where}: the tests are no Python program: {error}") from None


def _refuse(tree: ast.Module, where: str, own: set[str]) -> None:
    for problem in _problems(tree, own):
        raise BadTask(f"{where}: {problem}")


def _problems(tree: ast.Module, own: set[str]) -> Iterator[str]:
    """Yield why tests cannot be run here."""
    names = _imported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            yield f"it imports {'.' * node.level}{node.module or ''} relatively: what lies beside tests is no package"
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
                yield f"{node.name} is not called here: make what it makes in each test, or in setUpClass"
            yield from _wants(node, names, 0, set())
        elif isinstance(node, ast.ClassDef):
            given = {name for one in node.decorator_list for name in _parameters(one, names)}
            for part in node.body:
                if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield from _wants(part, names, 1, given)


def _imported(tree: ast.Module) -> dict[str, str]:
    """Return what names of a program stand for, as far as it is pytest's or unittest's."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update({one.asname or one.name: one.name for one in node.names if one.name in ("pytest", "unittest")})
        elif isinstance(node, ast.ImportFrom) and node.module in ("pytest", "unittest"):
            found.update({one.asname or one.name: f"{node.module}.{one.name}" for one in node.names})
    return found


def _dotted(node: ast.expr, names: Mapping[str, str]) -> str:
    """Return the full name of something of pytest's or unittest's; "" for anything else."""
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value, names)
        return f"{before}.{node.attr}" if before else ""
    return ""


def _used(name: str) -> Iterator[str]:
    first, *rest = name.split(".")
    if first == "pytest" and rest and rest[0] not in _KNOWN:
        yield f"it uses {name}: {_WHAT}"
    if first == "pytest" and rest[:1] == ["mark"] and rest[1:] and rest[1] in _MARKS:
        yield f"it uses {name}: {_WHAT}"
    if first == "unittest" and rest and rest[0] in _UNIT:
        yield f"it uses {name}, and every test counts here"


def _called(node: ast.Call, own: set[str]) -> Iterator[str]:
    if isinstance(node.func, ast.Attribute) and node.func.attr == "skipTest":
        yield "it uses skipTest, and every test counts here"
    opens = isinstance(node.func, ast.Name) and node.func.id in ("open", "Path")
    opens = opens or (isinstance(node.func, ast.Attribute) and node.func.attr in ("open", "Path"))
    for one in node.args[:1] if opens else ():
        path = one.value if isinstance(one, ast.Constant) and isinstance(one.value, str) else ""
        if path.endswith(".py") and module_of(path) in own:
            yield f"it reads {path}, which lies where the candidate's programs run, and not beside the tests"


def _wants(
    node: ast.FunctionDef | ast.AsyncFunctionDef, names: Mapping[str, str], skip: int, given: set[str]
) -> Iterator[str]:
    """Yield what a test wants that nobody gives it: the loop of async, or fixtures."""
    if not node.name.startswith("test"):
        return
    if isinstance(node, ast.AsyncFunctionDef):
        yield f"{node.name} is async, and there is no loop here that runs it"
    marks = [_dotted(one.func if isinstance(one, ast.Call) else one, names) for one in node.decorator_list]
    if not all(mark.startswith("pytest.mark.") for mark in marks):
        return  # another decorator may give arguments, as mock's do
    arguments = [*node.args.posonlyargs, *node.args.args]
    least = len(arguments) - len(node.args.defaults)
    wanted = [one.arg for one in arguments[skip:least]]
    wanted += [one.arg for one, value in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if value is None]
    found = given | {name for one in node.decorator_list for name in _parameters(one, names)}
    for name in wanted:
        if name not in found and "*" not in found:
            yield f"{node.name} asks for the fixture {name!r}, and there are no fixtures here"


def _parameters(node: ast.expr, names: Mapping[str, str]) -> Iterator[str]:
    """Yield the names that a decorator gives; "*" where they cannot be told."""
    if not isinstance(node, ast.Call) or _dotted(node.func, names) != "pytest.mark.parametrize":
        return
    given = [*node.args, *(word.value for word in node.keywords if word.arg == "argnames")]
    try:
        said = ast.literal_eval(given[0])
    except (ValueError, IndexError, TypeError):
        yield "*"
        return
    yield from (part.strip() for part in (said.split(",") if isinstance(said, str) else said))
