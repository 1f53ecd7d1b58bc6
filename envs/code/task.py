"""What a code task consists of: statement, files, visible and hidden tests, and a solution."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from typing import Final, Literal

from turncredit.envs.errors import EnvError

__all__ = [
    "MAIN",
    "BadTask",
    "CallTest",
    "CodeTask",
    "CodeTest",
    "ScriptTest",
    "StdioTest",
    "call_of",
    "digest",
    "fingerprint",
    "module_of",
    "names_of",
    "source_of",
    "text_of",
]

MAIN: Final = "solution.py"


class BadTask(EnvError):
    """An invalid task: for example no statement, no hidden tests, or tests that are not valid Python."""


@dataclass(frozen=True, slots=True)
class CallTest:
    """Calls a function of the main file; its result is compared outside of the sandbox, as plain data.

    Args:
        name: the function, or a method of a new object: "Solution().add".
        arguments: the positional arguments, as the source of a tuple of literals: "([1, 2], 3)".
        returns: the expected result, as the source of a literal.
        keywords: the keyword arguments, as the source of a dict of literals.
        form: what the expected result is: "python", a literal; "json", in which a tuple is a list; "listed", JSON that
            may stand in a list of its own, as data sets have it that do not say which.
    """

    name: str
    arguments: str
    returns: str
    keywords: str = "{}"
    form: Literal["python", "json", "listed"] = "python"

    @property
    def text(self) -> str:
        """The call as Python source."""
        positional = self.arguments.strip()[1:-1].rstrip().removesuffix(",")
        named = ", ".join(f"{key}={value!r}" for key, value in ast.literal_eval(self.keywords).items())
        return f"{self.name}({', '.join(part for part in (positional, named) if part)})"


@dataclass(frozen=True, slots=True)
class StdioTest:
    """Runs the main file as a program and compares its standard output, line by line.

    White space at the end of a line does not count, nor do empty lines at the beginning and at the end.

    Args:
        stdin: standard input.
        stdout: expected standard output.
    """

    stdin: str
    stdout: str


@dataclass(frozen=True, slots=True)
class ScriptTest:
    """Test code in Python, which runs in a separate sandbox and calls the candidate program from there.

    Args:
        code: the source.
        form: "check" if it defines `check(candidate)`, as HumanEval does; every asserting statement of that function is
            one test. "functions" if it contains pytest functions and unittest test cases.
        entry: for "check": the function to test.
        prelude: for "check": code to run first, such as a reference solution.
        beside: paths and contents of the files next to the tests.
        own: module names of the task. These are always imported from the candidate; all other names first refer to
            Python's modules and to `beside`.
    """

    code: str
    form: Literal["check", "functions"]
    entry: str = ""
    prelude: str = ""
    beside: tuple[tuple[str, str], ...] = ()
    own: tuple[str, ...] = ()


CodeTest = CallTest | StdioTest | ScriptTest


@dataclass(frozen=True, slots=True)
class CodeTask:
    """One task.

    Args:
        id: task id.
        statement: the instruction.
        files: files at the start, by path.
        visible: tests that the agent can run.
        hidden: tests that grade the submission.
        solution: files of a correct solution where they differ from `files`; empty if none is known.
        main: the file that is run and whose functions are called.
        kind: kind of task, for tables of results.
        split: split in the data set; "" if it has none.
    """

    id: str
    statement: str
    files: Mapping[str, str]
    visible: tuple[CodeTest, ...]
    hidden: tuple[CodeTest, ...]
    solution: Mapping[str, str] = field(default_factory=dict)
    main: str = MAIN
    kind: str = ""
    split: str = ""

    def __post_init__(self) -> None:
        """Validate the task."""
        if not self.statement.strip():
            raise BadTask(f"task {self.id!r} has no statement")
        if not sum(len(names_of(test)) for test in self.hidden):
            raise BadTask(f"task {self.id!r} has no hidden tests")
        paths = self.solved
        for path in paths:
            for end, character in enumerate(path):
                if character == "/" and path[:end] in paths:
                    raise BadTask(
                        f"task {self.id!r} has both {path!r} and a file {path[:end]!r}, which would have to be a folder"
                    )

    @property
    def solved(self) -> dict[str, str]:
        """All files of the solution."""
        return {**self.files, **self.solution}


def call_of(text: str, returns: str, where: str) -> CallTest:
    """Return the test of a call given as source: call_of("f([1], k=2)", "3", "task 7").

    Raises:
        BadTask: the text is not a call with literal arguments, or the result is not a literal.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
            raise ValueError("not a call")
        arguments = tuple(ast.literal_eval(node) for node in tree.args)
        keywords = {word.arg: ast.literal_eval(word.value) for word in tree.keywords if word.arg}
        returned = ast.literal_eval(returns.strip())
        return CallTest(tree.func.id, source_of(arguments), source_of(returned), source_of(keywords))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise BadTask(
            f"{where}: a test must be a call with literal arguments and a literal result, such as 'f([1, 2])' and '3', "
            f"got {text[:80]!r} and {returns[:80]!r} ({error})"
        ) from None


def source_of(value: object) -> str:
    """Return the source of a literal. It is `repr`, except that infinite numbers are literals too.

    >>> source_of(([1.5, float("-inf")], "inf"))
    "([1.5, -1e999], 'inf')"

    Raises:
        ValueError: a value is not a number, or has no literal.
    """
    text = repr(value)
    if "inf" not in text and "nan" not in text:
        return text
    if isinstance(value, float):
        if value != value:
            raise ValueError("nan is equal to nothing")
        return text.replace("inf", "1e999")
    if isinstance(value, complex):
        raise ValueError("an infinite complex number has no literal")
    if isinstance(value, dict):
        return "{" + ", ".join(f"{source_of(key)}: {source_of(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | set | tuple) and value:
        inner = ", ".join(map(source_of, value)) + ("," if isinstance(value, tuple) else "")
        return {list: f"[{inner}]", set: f"{{{inner}}}", tuple: f"({inner})"}[type(value)]
    return text


def text_of(fields: Mapping[str, object], key: str, default: str | None = None) -> str:
    """Return a string of a record.

    Raises:
        BadTask: the value is no string, or is absent without a default.
    """
    value = fields.get(key, default)
    if not isinstance(value, str):
        raise BadTask(f"{key!r} must be a string, got {type(value).__name__}")
    return value


def names_of(test: CodeTest) -> list[str]:
    """Return the names of the individual tests in a test.

    Raises:
        BadTask: a script is not valid Python, or does not define what its form requires.
    """
    if isinstance(test, CallTest):
        return [test.text]
    if isinstance(test, StdioTest):
        return [f"input {test.stdin[:40]!r}"]
    try:
        tree = ast.parse(test.code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadTask(f"the tests are not valid Python: {error}") from None
    return _checks(tree) if test.form == "check" else _functions(tree)


def _checks(tree: ast.Module) -> list[str]:
    """Return the statements of check(candidate) that are tests, by number: those that assert, or call what asserts.

    Where none does, every statement that calls the candidate is one. All other statements have to succeed as well.
    """
    check = next((node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "check"), None)
    if check is None or not check.args.args:
        raise BadTask("the tests do not define a function check(candidate)")
    helpers = _asserting(tree)
    statements = [(number, node) for number, node in enumerate(check.body) if not isinstance(node, _DEFINITIONS)]
    tests = [number for number, node in statements if _asserts(node, helpers)]
    if not tests:
        candidate = check.args.args[0].arg
        tests = [number for number, node in statements if candidate in _called(node)]
    return [f"check {number}" for number in tests]


_DEFINITIONS: Final = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _asserting(tree: ast.Module) -> set[str]:
    """Return the names of functions and classes that assert, themselves or by calling another of them."""
    definitions = {node.name: node for node in ast.walk(tree) if isinstance(node, _DEFINITIONS)}
    asserting: set[str] = set()
    while more := {name for name, node in definitions.items() if name not in asserting and _asserts(node, asserting)}:
        asserting |= more
    return asserting


def _asserts(node: ast.AST, helpers: set[str]) -> bool:
    if any(isinstance(part, ast.Assert | ast.Raise) for part in ast.walk(node)):
        return True
    return any(name in helpers or name.lower().startswith("assert") for name in _called(node))


def _called(node: ast.AST) -> set[str]:
    """Return the names of functions and methods that are called in a part of a program."""
    calls = [part.func for part in ast.walk(node) if isinstance(part, ast.Call)]
    names = {func.id for func in calls if isinstance(func, ast.Name)}
    return names | {func.attr for func in calls if isinstance(func, ast.Attribute)}


def _functions(tree: ast.Module) -> list[str]:
    names = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            names.append(node.name)
        if isinstance(node, ast.ClassDef):
            inner = [part.name for part in node.body if isinstance(part, ast.FunctionDef)]
            names += [f"{node.name}.{name}" for name in inner if name.startswith("test")]
    return names


def module_of(path: str) -> str:
    """Return the module name of a file: "a.b" for "a/b.py"."""
    return path.removesuffix(".py").replace("/", ".")


def fingerprint(task: CodeTask) -> str:
    """Return a hash of everything that defines a task. Snapshots store it, so it must never change."""
    return digest(dict(task.files), task.statement, task.main, stored_text(task.visible, task.hidden))


_UNSTORED: Final = ("form", "python")  # of tests that are older than this field
_STORED_NAMES: Final[dict[type, str]] = {CallTest: "Call", StdioTest: "Exchange", ScriptTest: "Script"}


def stored_text(*suites: tuple[CodeTest, ...]) -> str:
    """Return tests as text, with the type names that stored fingerprints contain.

    >>> stored_text((CallTest("f", "(1,)", "2"),))
    "((Call(name='f', arguments='(1,)', returns='2', keywords='{}'),),)"
    """
    return repr(tuple(tuple(_StoredTest(test) for test in suite) for suite in suites))


class _StoredTest:
    """Prints a test under its stored type name."""

    def __init__(self, test: CodeTest) -> None:
        self.test = test

    def __repr__(self) -> str:
        stored = [
            field.name for field in fields(self.test) if (field.name, getattr(self.test, field.name)) != _UNSTORED
        ]
        values = ", ".join(f"{name}={getattr(self.test, name)!r}" for name in stored)
        return f"{_STORED_NAMES[type(self.test)]}({values})"


def digest(files: Mapping[str, str], *more: str) -> str:
    """Return a hash of files and further texts."""
    data = json.dumps([sorted(files.items()), *more]).encode("utf-8", "surrogatepass")
    return blake2b(data, digest_size=10).hexdigest()
