"""The rule that all tests of a record are judged, or none."""

from __future__ import annotations

import re
from collections.abc import Callable, Set
from typing import Final

from turncredit.envs.code.task import BadTask, CodeTask
from turncredit.tools.readers import Fields

__all__ = ["judging"]

_TESTS: Final = re.compile(r"(^|_)(tests?|asserts?|asserted|checks?|plus_input|base_input|input_output)($|_)")


def judging(read: Set[str], reader: Callable[[Fields, str], CodeTask]) -> Callable[[Fields, str], CodeTask]:
    """Return a reader that refuses records with tests which it would not judge.

    Args:
        read: keys that the reader reads, or that hold no tests of their own.
        reader: returns the task of a record; raises BadTask.
    """

    def checked(fields: Fields, id: str) -> CodeTask:
        unread = [name for name in fields if _TESTS.search(name) and name not in read and _holds_tests(fields[name])]
        if unread:
            raise BadTask(
                f"it has tests under {unread[0]!r} that are not known in this format, so it cannot be judged by all"
            )
        return reader(fields, id)

    return checked


def _holds_tests(value: object) -> bool:
    return bool(value) and isinstance(value, str | list | dict)
