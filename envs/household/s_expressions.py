"""S-expressions with line numbers, the syntax of PDDL.

Text is lower-cased, as in the original's planner; comments run from ";" to the end of the line.
"""

from __future__ import annotations

import re
from typing import NoReturn, TypeAlias

from turncredit.envs.errors import GameFileError

_TOKEN = re.compile(r"[()]|[^\s()]+")


class Token(str):
    """A word with its line number (1-based)."""

    __slots__ = ("line",)
    line: int

    def __new__(cls, text: str, line: int) -> Token:
        """Create the word."""
        token = super().__new__(cls, text)
        token.line = line
        return token

    def __getnewargs__(self) -> tuple[str, int]:  # type: ignore[override]
        return (str(self), self.line)


class ListExpression(list["Sexp"]):
    """A parenthesised list, with the line number of its opening parenthesis."""

    __slots__ = ("line",)
    line: int

    @property
    def head(self) -> str:
        """The first word, or "" if the list is empty or starts with a list."""
        return str(self[0]) if self and isinstance(self[0], str) else ""


Sexp: TypeAlias = Token | ListExpression


def fail(path: str, line: int, construct: str, message: str) -> NoReturn:
    """Raise a GameFileError with file, line, construct and what was expected."""
    raise GameFileError(path, line, construct, message)


def read_sexp(text: str, path: str) -> ListExpression:
    """Return the top-level list of a PDDL text.

    Raises:
        GameFileError: there is no list, an unbalanced parenthesis, or text after the end.
    """
    stack: list[ListExpression] = []
    done: ListExpression | None = None
    number = 0
    for number, raw in enumerate(text.lower().split("\n"), 1):
        for word in _TOKEN.findall(raw.split(";", 1)[0]):
            if done is not None:
                fail(path, number, word, "expected the end of the file after the closing parenthesis")
            if word == "(":
                form = ListExpression()
                form.line = number
                stack.append(form)
            elif word == ")":
                if not stack:
                    fail(path, number, ")", "expected a list to close")
                form = stack.pop()
                if stack:
                    stack[-1].append(form)
                else:
                    done = form
            elif stack:
                stack[-1].append(Token(word, number))
            else:
                fail(path, number, word, 'expected "("')
    if done is None:
        line = stack[-1].line if stack else number
        fail(path, line, f"({stack[-1].head}" if stack else "end of file", "the list that starts here is never closed")
    return done
