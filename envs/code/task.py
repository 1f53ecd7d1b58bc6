"""What a code task is: a statement, files, tests that are seen and tests that decide, and a solution."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from typing import Final, Literal

from turnwise.envs.errors import EnvError

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
]

MAIN: Final = "solution.py"


class BadTask(EnvError):
    """A task that cannot be played: no statement, no tests, tests that are none, a solution that fails."""


@dataclass(frozen=True, slots=True)
class CallTest:
    """A function of the main file is called, and what it returns is compared outside, as plain data.

    Args:
        name: the function.
        arguments: text of a Python literal, a tuple of the positional arguments: "([1, 2], 3)".
        keywords: text of a Python literal, a dict.
        returns: text of a Python literal.
    """

    name: str
    arguments: str
    returns: str
    keywords: str = "{}"

    @property
    def text(self) -> str:
        """The call as it is written in a program."""
        given = self.arguments.strip()[1:-1].rstrip().removesuffix(",")
        named = ", ".join(f"{key}={value!r}" for key, value in ast.literal_eval(self.keywords).items())
        return f"{self.name}({', '.join(part for part in (given, named) if part)})"


@dataclass(frozen=True, slots=True)
class StdioTest:
    """The main file is run as a program; what it writes is compared without trailing white space.

    Args:
        stdin: what it reads.
        stdout: what it is to write.
    """

    stdin: str
    stdout: str


@dataclass(frozen=True, slots=True)
class ScriptTest:
    """Tests as a program, which runs apart from the candidate and calls it from there.

    Args:
        code: the program.
        form: "check": it defines `check(candidate)`, as HumanEval's tests do, and every statement of that function that
            asserts is one test. "functions": functions `test_...` (and unittest's test cases), as pytest collects them.
        entry: for "check": the name of the function to be checked.
        prelude: for "check": what the program takes for granted, a right solution say; runs before it.
        beside: what lies in the folder of the tests when they run: path and text of modules and data of theirs.
        own: names of the task's modules. They stand for the candidate's, whatever modules the tests' Python has; of
            other names those of Python and of `beside` come first.
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
        id: its name.
        statement: what is to be done.
        files: what lies there at the beginning, by path.
        main: the file that is run and whose functions are called.
        visible: tests that the agent can run.
        hidden: tests that decide.
        solution: files that pass, by path, where they differ from the beginning; {}: none is known.
        kind: name of the kind of task, for tables.
        split: name of the part of the source that it belongs to; "" where there are none.
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
        """Refuse what cannot be played."""
        if not self.statement.strip():
            raise BadTask(f"the task {self.id!r} has no statement")
        if not sum(len(names_of(test)) for test in self.hidden):
            raise BadTask(f"the task {self.id!r} has a statement and no hidden tests, so nothing could decide it")
        paths = self.solved
        for path in paths:
            for end, character in enumerate(path):
                if character == "/" and path[:end] in paths:
                    raise BadTask(
                        f"{path!r} cannot be a file of the task {self.id!r}: {path[:end]!r} is one, no folder"
                    )

    @property
    def solved(self) -> dict[str, str]:
        """All files as the solution leaves them."""
        return {**self.files, **self.solution}


def call_of(text: str, returns: str, where: str) -> CallTest:
    """Return the test of a call written as a program would: call_of("f([1], k=2)", "3", "task 7").

    Raises:
        BadTask: it is no call of a function with literals, or what it returns is no literal.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
            raise ValueError("not a call")
        arguments = tuple(ast.literal_eval(node) for node in tree.args)
        keywords = {word.arg: ast.literal_eval(word.value) for word in tree.keywords if word.arg}
        return CallTest(tree.func.id, repr(arguments), repr(ast.literal_eval(returns.strip())), repr(keywords))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise BadTask(
            f"{where}: a test calls a function with literals and names what it returns, such as "
            f"'f([1, 2])' and '3', not {text[:80]!r} and {returns[:80]!r} ({error})"
        ) from None


def names_of(test: CodeTest) -> list[str]:
    """Return the names of the tests that a test consists of: one, or those of a script.

    Raises:
        BadTask: a script that is no program, or does not define what its form wants.
    """
    if isinstance(test, CallTest):
        return [test.text]
    if isinstance(test, StdioTest):
        return [f"input {test.stdin[:40]!r}"]
    try:
        tree = ast.parse(test.code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadTask(f"the tests are no Python program: {error}") from None
    return _checks(tree) if test.form == "check" else _functions(tree)


def _checks(tree: ast.Module) -> list[str]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "check":
            return [
                f"check {number}"
                for number, inner in enumerate(node.body)
                if any(isinstance(part, ast.Assert | ast.Raise) for part in ast.walk(inner))
            ]
    raise BadTask("the tests define no function check(candidate)")


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
    """Return the name by which a file is imported: module_of("a/b.py") is "a.b"."""
    return path.removesuffix(".py").replace("/", ".")


def fingerprint(task: CodeTask) -> str:
    """Return a key of everything that a task consists of; snapshots store it, so it must not change."""
    return digest(dict(task.files), task.statement, task.main, stored_text(task.visible, task.hidden))


_STORED_NAMES: Final[dict[type, str]] = {CallTest: "Call", StdioTest: "Exchange", ScriptTest: "Script"}


def stored_text(*suites: tuple[CodeTest, ...]) -> str:
    """Return tests as text, with the type names that stored fingerprints contain.

    >>> stored_text((CallTest("f", "(1,)", "2"),))
    "((Call(name='f', arguments='(1,)', returns='2', keywords='{}'),),)"
    """
    return repr(tuple(tuple(_StoredTest(test) for test in suite) for suite in suites))


class _StoredTest:
    """Prints a test under its stored name."""

    def __init__(self, test: CodeTest) -> None:
        self.test = test

    def __repr__(self) -> str:
        values = ", ".join(f"{field.name}={getattr(self.test, field.name)!r}" for field in fields(self.test))
        return f"{_STORED_NAMES[type(self.test)]}({values})"


def digest(files: Mapping[str, str], *more: str) -> str:
    """Return a key of files' paths and contents."""
    data = json.dumps([sorted(files.items()), *more]).encode("utf-8", "surrogatepass")
    return blake2b(data, digest_size=10).hexdigest()
