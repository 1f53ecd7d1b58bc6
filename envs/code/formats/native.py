"""The format of turncredit: a statement, files, and tests that are calls, exchanges or scripts.

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
"""

from __future__ import annotations

from typing import Any, Final

from turncredit.envs.code.actions import path_problem
from turncredit.envs.code.pytest_suites import suite
from turncredit.envs.code.task import MAIN, BadTask, CodeTask, CodeTest, ScriptTest, StdioTest, call_of, text_of
from turncredit.registry import suggest
from turncredit.tools.readers import Fields

__all__ = ["read", "recognises"]

_KNOWN: Final = {"id", "statement", "main", "files", "solution", "visible", "hidden", "split", "kind"}


def recognises(fields: Fields) -> bool:
    """Return whether a record has this format: a statement, or most of its keys from here."""
    return "statement" in fields or "hidden" in fields


def read(data: Fields, id: str) -> CodeTask:
    """Return the task in a record.

    Raises:
        BadTask: a key is unknown, or a value is invalid.
    """
    for key in data:
        if key not in _KNOWN:
            raise BadTask(f"unknown key {key!r}{suggest(key, _KNOWN)}")
    main = text_of(data, "main", MAIN)
    id = text_of(data, "id", id)
    answer = data.get("solution", {})
    files = _texts(data, "files", data.get("files", {main: ""}))
    solution = _texts(data, "solution", {main: answer} if isinstance(answer, str) else answer)
    both = {**files, **solution}
    return CodeTask(
        id=id,
        statement=text_of(data, "statement", ""),
        main=main,
        files=files,
        visible=tuple(_test(entry, id, f"visible test {n}", both) for n, entry in enumerate(_list(data, "visible"), 1)),
        hidden=tuple(_test(entry, id, f"hidden test {n}", both) for n, entry in enumerate(_list(data, "hidden"), 1)),
        solution=solution,
        split=text_of(data, "split", ""),
        kind=text_of(data, "kind", ""),
    )


def _list(data: Fields, key: str) -> list[object]:
    value = data.get(key, [])
    if not isinstance(value, list):
        raise BadTask(f"{key!r} must be a list of tests, got {type(value).__name__}")
    return value


def _texts(data: Fields, key: str, value: Any) -> dict[str, str]:
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
