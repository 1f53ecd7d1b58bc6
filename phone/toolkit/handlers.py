"""Handlers of touches: a function of an app with its arguments, or one of the two things that most touches do.

`do(function, id=3)` calls a function of the app. `opens(screen, id=3)` shows a screen, dialog, menu or sheet, and
`keeps("tab", "Favourites")` keeps a value in the page.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from turncredit.phone.toolkit.tables import Value

__all__ = ["Arguments", "Do", "do", "keeps", "opens"]

Arguments = tuple[tuple[str, Any], ...]
"""Names and values of what a screen or an action gets."""


@dataclass(slots=True, unsafe_hash=True)
class Do:
    """What a touch does: a function of the context, and its arguments."""

    function: Callable[..., None]
    arguments: Arguments = ()

    @property
    def name(self) -> str:
        """The function and its arguments as text, the same in every process."""
        return f"{self.function.__module__}.{self.function.__qualname__}{self.arguments}"


def do(function: Callable[..., None], **arguments: object) -> Do:
    """Return the handler that calls `function(ctx, **arguments)`. Arguments must be hashable data."""
    return Do(function, tuple(arguments.items()))


def opens(screen: Callable[..., object], /, **params: object) -> Do:
    """Return the handler that shows a screen of the app, as `ctx.open(screen, **params)` does."""
    return Do(_open, (("screen", screen.__name__), ("params", tuple(params.items()))))


def keeps(key: str, value: Value) -> Do:
    """Return the handler that keeps a value in the page, as `ctx.set(key, value)` does."""
    return Do(_keep, (("key", key), ("value", value)))


def _open(ctx: Any, screen: str, params: Arguments) -> None:
    ctx.open_named(screen, params)


def _keep(ctx: Any, key: str, value: Value) -> None:
    ctx.set(key, value)
