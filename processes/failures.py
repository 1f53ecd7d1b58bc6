"""Exceptions of foreign code: their message, and a form in which they reach the caller.

Code of an environment may raise anything. `asyncio` refuses `StopIteration`, takes a `CancelledError` of a library for
the end of the task that waits, and `except Exception` lets others pass; an exception's own `__str__` may raise. Each
would leave somebody waiting, or end a program over one episode.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

__all__ = ["complete", "deliverable", "message_of"]

T = TypeVar("T")

LONGEST = 10_000
"""Characters of a message; the rest is cut off."""

_REFUSED = (StopIteration, StopAsyncIteration, concurrent.futures.CancelledError)


def message_of(error: BaseException) -> str:
    """Return what an exception says, also where its own `__str__` raises.

    >>> message_of(KeyError("sofa"))
    "'sofa'"
    """
    try:
        text = str(error)
    except Exception as problem:
        return f"(its message cannot be read: {type(problem).__name__})"
    return text if len(text) <= LONGEST else text[:LONGEST] + "..."


def deliverable(error: BaseException) -> Exception:
    """Return the exception itself, or a RuntimeError that names it, if a future or an event loop would refuse it.

    >>> deliverable(StopIteration(3))
    RuntimeError('StopIteration: 3')
    """
    if isinstance(error, Exception) and not isinstance(error, _REFUSED):
        return error
    kind = type(error).__name__
    return RuntimeError(f"{kind}: {message}" if (message := message_of(error)) else kind)


def complete(future: concurrent.futures.Future[T], work: Callable[[], T]) -> None:
    """End a future, in every case, with what a function returns or raises; one that has ended is left as it is."""
    with suppress(concurrent.futures.InvalidStateError):
        try:
            result = work()
        except BaseException as error:
            future.set_exception(deliverable(error))
        else:
            future.set_result(result)
