"""The bytes of a snapshot: a JSON document with a name, a version and a digest.

The document holds the relevant arguments of the environment ("made") and the episode; `unpack` returns the episode if
name, version and arguments are equal. Snapshots may come from untrusted sources: they are never pickled, and every
value is read with the type that it must have (`Fields`).

Not included: compression, and reading old versions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final, TypeVar

import numpy as np

from turncredit.envs.errors import BadSnapshot
from turncredit.envs.info import Environment

__all__ = ["Fields", "pack", "random_from", "random_state", "unpack"]

_NOUNS: Final = {
    str: "a string",
    int: "an integer",
    float: "a float",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}
_PARTS: Final = ("snapshot", "version", "made", "episode")

T = TypeVar("T")


class Fields:
    """The values of a snapshot by name; a missing value or one of the wrong type raises a BadSnapshot that names it."""

    def __init__(self, values: object, subject: str = "the snapshot") -> None:
        """Keep the values.

        Args:
            values: a JSON object.
            subject: name of the object in error messages.

        Raises:
            BadSnapshot: `values` is not an object.
        """
        if not isinstance(values, dict):
            raise BadSnapshot(f"{subject} must be an object, got {_short(values)}")
        self._values = values
        self._what = subject

    def get(self, name: str, kind: type[T]) -> T:
        """Return a value of exactly this type (True is not an integer).

        Raises:
            BadSnapshot: the value has another type.
        """
        value = self._values.get(name)
        if type(value) is not kind:
            raise self.wrong(name, _NOUNS[kind])
        return value

    def maybe(self, name: str, kind: type[T]) -> T | None:
        """Return a value of exactly this type, or None for null.

        Raises:
            BadSnapshot: the value is neither.
        """
        return None if name in self._values and self._values[name] is None else self.get(name, kind)

    def texts(self, name: str) -> list[str]:
        """Return a list of strings.

        Raises:
            BadSnapshot: the value is something else.
        """
        texts = self.get(name, list)
        if not all(isinstance(text, str) for text in texts):
            raise self.wrong(name, "a list of strings")
        return texts

    def pair(self, name: str) -> tuple[str, str]:
        """Return a list of two strings as a tuple.

        Raises:
            BadSnapshot: the value is something else.
        """
        texts = self.texts(name)
        if len(texts) != 2:
            raise self.wrong(name, "a list of two strings")
        return texts[0], texts[1]

    def part(self, name: str) -> Fields:
        """Return a nested object.

        Raises:
            BadSnapshot: the value is something else.
        """
        return Fields(self._values.get(name), f"{self._what}'s {name!r}")

    def wrong(self, name: str, expected: str) -> BadSnapshot:
        """Return the error for a wrong value."""
        return BadSnapshot(f"{self._what}'s {name!r} must be {expected}, got {_short(self._values.get(name))}")


def pack(of: str, version: int, made: Mapping[str, object], episode: Mapping[str, object]) -> bytes:
    """Return a snapshot.

    Args:
        of: name of the format, such as the environment's.
        version: version of the format; increase it when the contents change.
        made: the arguments that must be equal where the snapshot is restored.
        episode: the episode as JSON-compatible data.
    """
    document = {"snapshot": of, "version": version, "made": dict(made), "episode": dict(episode)}
    # Escaped to ASCII, which can represent lone surrogates; UTF-8 cannot.
    return json.dumps(document | {"digest": _digest(document)}).encode("ascii")


def unpack(data: bytes, of: str, version: int, made: Mapping[str, object]) -> Fields:
    """Return the episode of a snapshot.

    Args:
        data: the bytes, possibly from an untrusted source.
        of, version, made: as in `pack`, of the environment that restores.

    Raises:
        BadSnapshot: the bytes are damaged, or of another environment, version or arguments.
    """
    document = _document(data)
    if document["snapshot"] != of:
        raise BadSnapshot(f"the snapshot is of {_short(document['snapshot'])}, but this is {of!r}")
    if document["version"] != version:
        raise BadSnapshot(f"the snapshot has version {_short(document['version'])} of {of!r}, but {version} is needed")
    _compare(document["made"], json.loads(json.dumps(dict(made))))
    return Fields(document["episode"])


def _document(data: object) -> dict[str, object]:
    if not isinstance(data, bytes):
        raise BadSnapshot(f"a snapshot must be bytes, got {type(data).__name__}")
    try:
        document = json.loads(data)
        whole = isinstance(document, dict) and document.keys() == {*_PARTS, "digest"}
        sound = whole and document["digest"] == _digest({name: document[name] for name in _PARTS})
    except (ValueError, RecursionError) as error:
        reason = "too deeply nested" if isinstance(error, RecursionError) else error
        raise BadSnapshot(f"expected a snapshot, got {len(data):,} bytes that cannot be read: {reason}") from None
    if not whole:
        raise BadSnapshot(
            f"expected a snapshot, got {len(data):,} bytes that are not an object with {', '.join(_PARTS)} and digest"
        )
    if not sound:
        raise BadSnapshot("the snapshot was changed after it was taken: its digest does not match")
    return document  # type: ignore[no-any-return]


def _compare(theirs: object, ours: Mapping[str, object]) -> None:
    """Raise BadSnapshot if the arguments differ."""
    recorded = Fields(theirs, "the snapshot's 'made'")._values
    for name in [*ours, *recorded]:
        if name not in recorded or name not in ours or recorded[name] != ours[name]:
            recorded_value, other = (_short(made[name]) if name in made else "nothing" for made in (recorded, ours))
            raise BadSnapshot(
                f"the snapshot is of an environment with {name}={recorded_value}, but this one has {name}={other}; "
                "make it with the same arguments"
            )


def _digest(document: Mapping[str, object]) -> str:
    return blake2b(json.dumps(document, sort_keys=True).encode("ascii"), digest_size=16).hexdigest()


def random_state(env: Environment) -> dict[str, Any] | None:
    """Return the state of an environment's random generator, or None if it has not been seeded or used yet.

    Raises:
        BadSnapshot: the generator is of another kind than Gymnasium's.
    """
    generator = env._np_random
    if generator is None:
        return None
    state: Any = generator.bit_generator.state
    if state["bit_generator"] != "PCG64":
        kind = state["bit_generator"]
        raise BadSnapshot(
            f"the environment uses the random generator {kind}, which cannot be saved; use Gymnasium's PCG64"
        )
    bits = {"state": int(state["state"]["state"]), "inc": int(state["state"]["inc"])}
    return bits | {"kept": state["uinteger"] if state["has_uint32"] else None, "seed": env._np_random_seed}


def random_from(saved: Fields, name: str = "random") -> tuple[np.random.Generator | None, int | None]:
    """Return the generator of a saved state, and its seed, for an environment's `_np_random` and `_np_random_seed`.

    Raises:
        BadSnapshot: the saved state is invalid.
    """
    if saved.maybe(name, dict) is None:
        return None, None
    part = saved.part(name)
    spare = part.maybe("kept", int)
    state, inc = part.get("state", int), part.get("inc", int)
    for field, value, bits in (("state", state, 128), ("inc", inc, 128), ("kept", spare or 0, 32)):
        if not 0 <= value < 1 << bits:
            raise part.wrong(field, f"an integer of {bits} bits")
    generator = np.random.Generator(np.random.PCG64(0))
    generator.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": state, "inc": inc},
        "has_uint32": int(spare is not None),
        "uinteger": spare or 0,
    }
    return generator, part.maybe("seed", int)


def _short(value: object, longest: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= longest else f"{text[: longest - 3]}..."
