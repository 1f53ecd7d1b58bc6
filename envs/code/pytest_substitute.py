"""A substitute for pytest in the tests' sandbox, with the features that `pytest_suites` accepts.

The source of this module is sent to the sandbox as part of `script_runner`.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def pytest_substitute() -> Any:
    """Return a substitute for pytest with the features that most tests use."""
    module: Any = types.ModuleType("pytest")

    @contextmanager
    def raises(kind: Any, match: str | None = None) -> Iterator[object]:
        about = types.SimpleNamespace(value=None, type=None)
        try:
            yield about
        except kind as error:
            about.value, about.type = error, type(error)
            if match is not None and not re.search(match, str(error)):
                raise AssertionError(f"{str(error)!r} does not match {match!r}") from error
            return
        raise AssertionError(f"{kind} was not raised")

    def parametrize(names: Any, rows: Any, **_: Any) -> Callable[[object], object]:
        listed = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)

        def case(row: Any) -> dict[str, object]:
            if isinstance(row, _Param):
                row = row.values if len(listed) > 1 else row.values[0]
            return dict(zip(listed, row if len(listed) > 1 else [row], strict=True))

        def mark(function: Any) -> object:
            cases = getattr(function, "cases", [{}])
            function.cases = [{**earlier, **more} for earlier in cases for more in map(case, rows)]
            return function

        return mark

    def fail(reason: str = "", **_: Any) -> None:
        raise AssertionError(reason)

    module.raises = raises
    module.approx = lambda value, rel=1e-6, abs=1e-12: _Near(value, rel, abs)
    module.mark = _Marks(parametrize)
    module.param = lambda *values, **_: _Param(values)
    module.fail = fail
    return module


class _Param:
    """One row of parameters."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values


class _Marks:
    """`pytest.mark`: `parametrize` works, all other marks have no effect."""

    def __init__(self, parametrize: Any) -> None:
        self.parametrize = parametrize

    def __getattr__(self, name: str) -> Any:
        """Return a mark without effect, which can be used with and without arguments."""

        def mark(*arguments: Any, **words: Any) -> object:
            bare = len(arguments) == 1 and not words and isinstance(arguments[0], types.FunctionType | type)
            return arguments[0] if bare else mark

        return mark


class _Near:
    """A number, or a list of numbers, that equals approximately equal ones."""

    def __init__(self, value: Any, rel: float, abs_: float) -> None:
        self.value, self.rel, self.abs = value, rel, abs_

    def __eq__(self, other: Any) -> bool:
        if isinstance(self.value, list | tuple):
            same = type(other) is type(self.value) and len(other) == len(self.value)
            pairs = zip(self.value, other, strict=True) if same else ()
            return same and all(_Near(left, self.rel, self.abs) == two for left, two in pairs)
        if type(other) not in (int, float):
            return False
        return bool(abs(self.value - other) <= max(self.abs, self.rel * abs(self.value)))

    __hash__ = None  # type: ignore[assignment]
