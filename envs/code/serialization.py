"""Serializes values as JSON, so that two processes that do not trust each other can exchange them.

Numbers, strings and containers become JSON values, some of them tagged objects. An instance of a subclass becomes the
builtin that it extends, so its methods stay behind. All other values are passed to a function of the caller. The source
of this module also runs inside sandboxes, so it only uses the standard library.

Data can be hostile: decoding it takes time in proportion to its size, whatever it holds. Depth and number of values are
limited, and so are keys with equal hashes, since a table of n such keys takes n * n steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

MOST = 200_000  # maximum number of values in one message
DEEPEST = 80
EXACT = 1 << 53
COLLISIONS = 32  # keys of one set or dict with the same hash; honest ones have one or two


class NotPlain(ValueError):
    """A value that cannot be serialized, or data that does not describe a value."""


class RawText(str):
    """A text whose `repr` is itself, since a session reports the `repr` of a value."""

    __slots__ = ()
    __repr__ = str.__str__


def encode(value: object, other: Callable[[Any], Any], stays: Callable[[Any], bool] | None = None) -> Any:
    """Return a value as JSON data.

    Args:
        value: any value.
        other: returns the JSON data of a value that is not plain; it may raise NotPlain.
        stays: whether an instance of a subclass is passed to `other` as well; default: never.

    Raises:
        NotPlain: the value is too large or too deeply nested, or `other` raised it.
    """
    count = 0

    def go(value: Any, depth: int) -> object:
        nonlocal count
        count += 1
        if count > MOST or depth > DEEPEST:
            raise NotPlain("the value is too large or too deep")
        if value is None or value is True or value is False:
            return value
        kind = next((kind for kind in type(value).__mro__ if kind in _PLAIN), None)
        if kind is None or (stays is not None and kind is not type(value) and stays(value)):
            return other(value)
        return _PLAIN[kind](value, lambda inner: go(inner, depth + 1))

    return go(value, 0)


def decode(data: object, other: Callable[[Any], Any]) -> Any:
    """Return the value in JSON data. It consists of builtins only, besides what `other` returns.

    Raises:
        NotPlain: the data does not describe a value, or one that `encode` would refuse.
    """
    count = 0

    def go(data: object, depth: int) -> object:
        nonlocal count
        count += 1
        if count > MOST or depth > DEEPEST:
            raise NotPlain("the value is too large or too deep")
        if data is None or isinstance(data, bool | int | str):
            return data
        if isinstance(data, list):
            return [go(item, depth + 1) for item in data]
        if not isinstance(data, dict) or len(data) != 1:
            raise NotPlain("no value")
        ((mark, inner),) = data.items()
        if mark not in _BACK:
            return other(data)
        try:
            return _BACK[mark](inner, lambda item: go(item, depth + 1))
        except (TypeError, ValueError, LookupError, OverflowError) as error:
            raise NotPlain(f"no value: {error}") from None

    return go(data, 0)


def refuse(value: object) -> Any:
    """Raise NotPlain: the function `other` where only plain data is allowed."""
    raise NotPlain(f"a value of the type {type(value).__name__} is no plain data")


def _whole(value: Any, go: Callable[[Any], Any]) -> object:
    number = int.__add__(value, 0)
    return number if -EXACT < number < EXACT else {"i": hex(number)}


def _text(value: object, go: Callable[[object], object]) -> object:
    text = str.__str__(value)
    try:
        text.encode()
    except UnicodeEncodeError:  # unpaired surrogates, which readers of JSON may replace
        return {"u": text.encode("utf-8", "surrogatepass").hex()}
    return text


def _spread(keys: Iterable[object]) -> list[object]:
    """Return keys that a hash table can hold.

    Raises:
        NotPlain: many have the same hash.
    """
    texts = list(keys)
    counts: dict[str, int] = {}
    for key in texts:
        text = str(hash(key))  # strings are hashed with a secret, so these do not collide
        counts[text] = counts.get(text, 0) + 1
        if counts[text] > COLLISIONS:
            raise NotPlain("too many keys have the same hash")
    return texts


def _dict(data: Any, go: Callable[[Any], Any]) -> dict[object, object]:
    pairs = [(key, item) for key, item in data]
    return dict(zip(_spread(go(key) for key, _ in pairs), [go(item) for _, item in pairs], strict=True))


def _range(data: Any, go: Callable[[Any], Any]) -> range:
    numbers = [go(item) for item in data]
    if any(abs(number) >> 1000 for number in numbers):
        raise NotPlain("a range of numbers that long")  # its length would be a quotient, computed in quadratic time
    return range(*numbers)


_PLAIN: dict[type, Callable[[Any, Callable[[Any], Any]], Any]] = {
    int: _whole,
    float: lambda value, go: {"f": float.hex(value)},
    complex: lambda value, go: {"c": [float.hex(complex.__abs__(0j) + value.real), float.hex(value.imag)]},
    str: _text,
    bytes: lambda value, go: {"b": bytes.hex(value)},
    bytearray: lambda value, go: {"a": bytearray.hex(value)},
    list: lambda value, go: [go(item) for item in list.__iter__(value)],
    tuple: lambda value, go: {"t": [go(item) for item in tuple.__iter__(value)]},
    dict: lambda value, go: {"d": [[go(key), go(item)] for key, item in dict.items(value)]},
    set: lambda value, go: {"s": [go(item) for item in set.__iter__(value)]},
    frozenset: lambda value, go: {"z": [go(item) for item in frozenset.__iter__(value)]},
    range: lambda value, go: {"r": [go(number) for number in (value.start, value.stop, value.step)]},
}
_BACK: dict[str, Callable[[Any, Callable[[Any], Any]], Any]] = {
    "i": lambda data, go: int(data, 16),
    "f": lambda data, go: float.fromhex(data),
    "c": lambda data, go: complex(float.fromhex(data[0]), float.fromhex(data[1])),
    "u": lambda data, go: bytes.fromhex(data).decode("utf-8", "surrogatepass"),
    "b": lambda data, go: bytes.fromhex(data),
    "a": lambda data, go: bytearray.fromhex(data),
    "t": lambda data, go: tuple(go(item) for item in data),
    "d": _dict,
    "s": lambda data, go: set(_spread(go(item) for item in data)),
    "z": lambda data, go: frozenset(_spread(go(item) for item in data)),
    "r": _range,
}
