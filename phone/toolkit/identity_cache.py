"""A cache of what functions return for the last values that were asked about, which are compared by identity.

Values of a phone never change once made, so the same object has the same result; to compare or hash it would take
longer than to look up where it lies.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

__all__ = ["identity_cache"]

P = ParamSpec("P")
T = TypeVar("T")


def identity_cache(size: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator that keeps the results for the last `size` positional arguments, which never change."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        # The arguments are kept too, so that no other object gets their ids.
        results: OrderedDict[tuple[int, ...], tuple[tuple[object, ...], T]] = OrderedDict()

        @wraps(function)
        def cached(*args: P.args, **kwargs: P.kwargs) -> T:
            if kwargs:  # which the key does not have
                return function(*args, **kwargs)
            key = tuple(map(id, args))
            entry = results.get(key)
            if entry is None:
                entry = results[key] = (args, function(*args, **kwargs))
                if len(results) > size:
                    results.popitem(last=False)
            return entry[1]

        return cached

    return decorate
