"""Reads tasks from files: HumanEval and MBPP in their original formats, JSON lines, and folders with pytest files.

Our JSON-lines format, one object per line (also in docs/code.md):

    id          str
    statement   str
    main        str: the file that is called or run; default "solution.py"
    files       path -> contents; default: an empty main file
    solution    path -> contents, or the contents of the main file; optional
    visible     list of tests; optional
    hidden      list of at least one test
    split, kind str; optional

A test is {"call": "f([1, 2])", "returns": "3"}, {"stdin": "...", "stdout": "..."}, {"code": "def test_..."} or
{"check": "def check(candidate): ...", "entry": "f"}.

A folder contains one folder for each task: statement.md, files/ (the files at the start), visible/ and hidden/
(test_*.py and the files that they use), and optionally solution/. The agent can read the visible tests.
"""

from __future__ import annotations

import ast
import doctest
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from turnwise.envs.code.actions import path_problem
from turnwise.envs.code.mbpp import SPLITS, equality, is_mbpp, mbpp
from turnwise.envs.code.pytest_suites import suite, suites
from turnwise.envs.code.task import MAIN, BadTask, CallTest, CodeTask, CodeTest, ScriptTest, StdioTest, call_of
from turnwise.envs.errors import EnvError, GameFileError, NoGames
from turnwise.registry import suggest

__all__ = ["read_tasks"]

_ORIGINAL: Final = {"prompt", "test", "entry_point"}


def read_tasks(path: Path, *, strict: bool = True) -> tuple[list[CodeTask], int]:
    """Return the tasks in a file or folder, and the number of skipped ones.

    Args:
        path: a JSON-lines file, a file with one JSON list, or a folder.
        strict: raise for an invalid task; False skips and counts it.

    Raises:
        NoGames: there are no tasks.
        GameFileError: a task is invalid; names the file, the line and the problem.
    """
    if path.is_dir():
        found: Iterator[tuple[str, int | None, Callable[[], CodeTask]]] = _folders(path)
    elif path.is_file():
        found = _lines(path)
    else:
        raise NoGames(f"no tasks at {path}: no such file or folder")
    tasks: dict[str, CodeTask] = {}
    skipped = 0
    for where, line, make in found:
        try:
            task = make()
            if task.id in tasks:
                raise BadTask(f"duplicate task id {task.id!r}")
            tasks[task.id] = task
        except (EnvError, ValueError, RecursionError) as error:
            if strict:
                raise GameFileError(where, line, str(error)) from None
            skipped += 1
    if not tasks and not skipped:
        raise NoGames(f"no tasks in {path}: it is empty, or contains no folder with a statement.md")
    return list(tasks.values()), skipped


def _lines(path: Path) -> Iterator[tuple[str, int | None, Callable[[], CodeTask]]]:
    if listed := _listed(path):
        for number, data in enumerate(listed, 1):
            yield str(path), None, lambda data=data, number=number: _read_as(data, number)  # type: ignore[misc]
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield str(path), number, lambda line=line, number=number: _task(line, number)  # type: ignore[misc]


def _task(line: bytes, number: int) -> CodeTask:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadTask(f"invalid JSON, expected an object: {error}") from None
    return _read_as(data, number)


def _listed(path: Path) -> list[Any]:
    """Return the items of a file that is one JSON list; [] for any other file."""
    with path.open("rb") as file:
        if not file.read(64).lstrip().startswith(b"["):
            return []
        file.seek(0)
        try:
            data = json.load(file)
        except (ValueError, RecursionError):
            return []  # reading it line by line reports the error
    return data if isinstance(data, list) else []


def _read_as(data: Any, number: int) -> CodeTask:
    if not isinstance(data, dict):
        raise BadTask(f"expected a JSON object, got {type(data).__name__}")
    if data.keys() >= _ORIGINAL:
        return _original(data)
    return mbpp(data, number) if is_mbpp(data) else _own(data, number)


def _original(data: dict[str, Any]) -> CodeTask:
    """Return a task in HumanEval's format: a prompt to complete, check(candidate), and the rest of a solution."""
    prompt, tests, entry = (_text(data, key) for key in ("prompt", "test", "entry_point"))
    id = _text(data, "task_id", f"{entry}")
    answer = data.get("canonical_solution")
    solution = prompt + answer if isinstance(answer, str) else ""
    return CodeTask(
        id=id,
        statement=f"Complete the function {entry} in {MAIN}.",
        files={MAIN: f"{prompt.rstrip()}\n{_indent(prompt)}pass\n"},
        visible=tuple(_examples(prompt, entry)),
        hidden=_checks(tests, entry, solution or prompt),
        solution={MAIN: solution if solution.endswith("\n") else solution + "\n"} if solution else {},
        kind=id.partition("/")[0],
        split=_split(id),
    )


def _indent(prompt: str) -> str:
    last = next((line for line in reversed(prompt.splitlines()) if line.strip()), "")
    return last[: len(last) - len(last.lstrip())] or "    "


def _split(id: str) -> str:
    name, _, number = id.partition("/")
    if name == "MBPP" and number.isdigit():
        return next((split for last, split in SPLITS if int(number) <= last), "train")
    return "test" if name == "HumanEval" else ""


def _examples(prompt: str, entry: str) -> Iterator[CallTest]:
    """Yield the doctest examples of a function that are calls with literals."""
    try:
        tree = ast.parse(f"{prompt.rstrip()}\n{_indent(prompt)}pass\n")
        found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == entry]
        text = (ast.get_docstring(found[-1]) or "") if found else ""
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
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "check":
            calls = [equality(part, "candidate") for part in node.body]
            plain = [CallTest(entry, call.arguments, call.returns, call.keywords) for call in calls if call is not None]
            if len(plain) == len(calls):
                return tuple(plain)
    return (ScriptTest(tests, "check", entry, prelude),)


def _own(data: dict[str, Any], number: int) -> CodeTask:
    known = {"id", "statement", "main", "files", "solution", "visible", "hidden", "split", "kind"}
    for key in data:
        if key not in known:
            raise BadTask(f"unknown key {key!r}{suggest(key, known)}")
    main = _text(data, "main", MAIN)
    id = _text(data, "id", f"{number}")
    given = data.get("solution", {})
    files = _texts(data, "files", data.get("files", {main: ""}))
    solution = _texts(data, "solution", {main: given} if isinstance(given, str) else given)
    both = {**files, **solution}
    return CodeTask(
        id=id,
        statement=_text(data, "statement", ""),
        main=main,
        files=files,
        visible=tuple(_test(one, id, f"visible test {n}", both) for n, one in enumerate(_list(data, "visible"), 1)),
        hidden=tuple(_test(one, id, f"hidden test {n}", both) for n, one in enumerate(_list(data, "hidden"), 1)),
        solution=solution,
        split=_text(data, "split", ""),
        kind=_text(data, "kind", ""),
    )


def _text(data: dict[str, Any], key: str, default: str | None = None) -> str:
    value = data.get(key, default)
    if not isinstance(value, str):
        raise BadTask(f"{key!r} must be a string, got {type(value).__name__}")
    return value


def _list(data: dict[str, Any], key: str) -> list[Any]:
    value = data.get(key, [])
    if not isinstance(value, list):
        raise BadTask(f"{key!r} must be a list of tests, got {type(value).__name__}")
    return value


def _texts(data: dict[str, Any], key: str, value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise BadTask(f"{key!r} must map paths to strings")
    for path, text in value.items():
        if problem := path_problem(key, path):
            raise BadTask(problem)
        try:
            text.encode()
        except UnicodeEncodeError:
            raise BadTask(f"the contents of {path} under {key!r} are not valid Unicode") from None
    return value


def _test(data: Any, id: str, where: str, task: dict[str, str]) -> CodeTest:
    keys = set(data) if isinstance(data, dict) and all(isinstance(text, str) for text in data.values()) else set()
    if keys == {"call", "returns"}:
        return call_of(data["call"], data["returns"], f"task {id!r}")
    if keys == {"stdin", "stdout"}:
        return StdioTest(data["stdin"], data["stdout"])
    if keys == {"code"}:
        return suite(data["code"], where, task)
    if keys in ({"check", "entry"}, {"check", "entry", "prelude"}):
        return ScriptTest(data["check"], "check", data["entry"], data.get("prelude", ""))
    raise BadTask(
        f"a test must have the string keys call and returns, stdin and stdout, code, or check and entry; got "
        f"{str(data)[:80]}"
    )


def _folders(path: Path) -> Iterator[tuple[str, int | None, Callable[[], CodeTask]]]:
    for statement in sorted(path.glob("*/statement.md")):
        yield str(statement.parent), None, lambda folder=statement.parent: _folder(folder)  # type: ignore[misc]


def _folder(folder: Path) -> CodeTask:
    files, solution = _below(folder / "files"), _below(folder / "solution")
    sources = [name for name in sorted({**solution, **files}) if name.endswith(".py")]
    main = MAIN if MAIN in sources or not sources else sources[0]
    visible, hidden = _below(folder / "visible"), _below(folder / "hidden")
    return CodeTask(
        id=folder.name,
        statement=_read(folder / "statement.md"),
        files={**(files or {main: ""}), **visible},
        visible=suites(visible, {**files, **solution}, "visible"),
        hidden=suites(hidden, {**files, **solution}, "hidden"),
        solution=solution,
        main=main,
        kind="folder",
    )


def _below(folder: Path) -> dict[str, str]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix(): _read(path) for path in paths}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BadTask(f"{path.name} is not UTF-8 text: {error.reason}") from None
