"""The bytes of a snapshot: a JSON document that says what it is of, and a digest, so that torn ones are noticed.

An environment puts into it what identifies it ("made": the arguments that matter to the episode) and what the episode
consists of; `unpack` gives the second back where the first is the same. Never pickle: bytes from a stranger must not
run. So whoever restores reads each value with the type that it must have (`Fields`), and refuses the rest.

Left out on purpose: compression, and old versions, which are refused by name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final, TypeVar

import gymnasium
import numpy as np

from turnwise.envs.errors import BadSnapshot

__all__ = ["Fields", "pack", "random_from", "random_state", "unpack"]

_NOUNS: Final = {
    str: "a text",
    int: "a whole number",
    float: "a number with a point",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}
_PARTS: Final = ("snapshot", "version", "made", "episode")

T = TypeVar("T")


class Fields:
    """What a snapshot holds, by name; whatever is not there, or of another type, is a BadSnapshot that names it."""

    def __init__(self, values: object, what: str = "the snapshot") -> None:
        """Keep them.

        Args:
            values: what should be a JSON object.
            what: what errors call it.

        Raises:
            BadSnapshot: it is no object.
        """
        if not isinstance(values, dict):
            raise BadSnapshot(f"{what} is {_short(values)}; it is an object with names")
        self._values = values
        self._what = what

    def get(self, name: str, kind: type[T]) -> T:
        """Return a value of exactly this type (True is no whole number).

        Raises:
            BadSnapshot: it is of another one.
        """
        value = self._values.get(name)
        if type(value) is not kind:
            raise self.wrong(name, _NOUNS[kind])
        return value

    def maybe(self, name: str, kind: type[T]) -> T | None:
        """Return a value of exactly this type, or None for null.

        Raises:
            BadSnapshot: it is neither.
        """
        return None if name in self._values and self._values[name] is None else self.get(name, kind)

    def texts(self, name: str) -> list[str]:
        """Return a list of texts.

        Raises:
            BadSnapshot: it is something else.
        """
        found = self.get(name, list)
        if not all(isinstance(text, str) for text in found):
            raise self.wrong(name, "a list of texts")
        return found

    def pair(self, name: str) -> tuple[str, str]:
        """Return two texts.

        Raises:
            BadSnapshot: it is something else.
        """
        found = self.texts(name)
        if len(found) != 2:
            raise self.wrong(name, "a list of two texts")
        return found[0], found[1]

    def part(self, name: str) -> Fields:
        """Return an object inside.

        Raises:
            BadSnapshot: it is something else.
        """
        return Fields(self._values.get(name), f"{self._what}'s {name!r}")

    def wrong(self, name: str, wanted: str) -> BadSnapshot:
        """Return the error for a value that is not what was wanted."""
        return BadSnapshot(f"{self._what}'s {name!r} is {_short(self._values.get(name))}; it is {wanted}")


def pack(of: str, version: int, made: Mapping[str, Any], episode: Mapping[str, Any]) -> bytes:
    """Return a snapshot.

    Args:
        of: what it is a snapshot of.
        version: of what the environment writes; to be raised when that changes.
        made: the arguments that must be the same where it is restored.
        episode: the episode, in what JSON can say.
    """
    document = {"snapshot": of, "version": version, "made": dict(made), "episode": dict(episode)}
    # Escaped to ASCII, which also carries what UTF-8 cannot (a model may say a lone surrogate).
    return json.dumps(document | {"digest": _digest(document)}).encode("ascii")


def unpack(data: bytes, of: str, version: int, made: Mapping[str, Any]) -> Fields:
    """Return the episode of a snapshot.

    Args:
        data: bytes from anywhere.
        of, version, made: as in `pack`, of the environment that is to go on.

    Raises:
        BadSnapshot: the bytes are none, or torn, or of another environment, version or arguments.
    """
    document = _document(data)
    if document["snapshot"] != of:
        raise BadSnapshot(f"the snapshot is of {_short(document['snapshot'])}, and this is {of!r}")
    if document["version"] != version:
        raise BadSnapshot(
            f"the snapshot has version {_short(document['version'])} of {of!r}, and this release reads {version}"
        )
    _compare(document["made"], json.loads(json.dumps(dict(made))))
    return Fields(document["episode"])


def _document(data: object) -> dict[str, Any]:
    if not isinstance(data, bytes):
        raise BadSnapshot(f"a snapshot is bytes; got {type(data).__name__}")
    try:
        document = json.loads(data)
        whole = isinstance(document, dict) and document.keys() == {*_PARTS, "digest"}
        sound = whole and document["digest"] == _digest({name: document[name] for name in _PARTS})
    except (ValueError, RecursionError) as error:
        reason = "it nests too deeply" if isinstance(error, RecursionError) else error
        raise BadSnapshot(f"these {len(data):,} bytes are no snapshot, or a torn one: {reason}") from None
    if not whole:
        raise BadSnapshot(f"these {len(data):,} bytes are no snapshot: an object with {', '.join(_PARTS)} and digest")
    if not sound:
        raise BadSnapshot("the snapshot has been changed since it was taken: its digest is that of something else")
    return document  # type: ignore[no-any-return]


def _compare(theirs: object, ours: Mapping[str, Any]) -> None:
    """Refuse a snapshot of an environment that was made otherwise; the first difference is named."""
    given = Fields(theirs, "the snapshot's 'made'")._values
    for name in [*ours, *given]:
        if name not in given or name not in ours or given[name] != ours[name]:
            one, other = (_short(made[name]) if name in made else "nothing" for made in (given, ours))
            raise BadSnapshot(
                f"the snapshot is of an environment with {name}={one}, and this one has {name}={other}: "
                "make it with the same arguments"
            )


def _digest(document: Mapping[str, Any]) -> str:
    return blake2b(json.dumps(document, sort_keys=True).encode("ascii"), digest_size=16).hexdigest()


def random_state(env: gymnasium.Env[Any, Any]) -> dict[str, Any] | None:
    """Return the state of an environment's random generator; None where it has not been seeded or used yet.

    Raises:
        BadSnapshot: it has been given a generator of another kind than Gymnasium's.
    """
    generator = env._np_random
    if generator is None:
        return None
    state: Any = generator.bit_generator.state
    if state["bit_generator"] != "PCG64":
        kind = state["bit_generator"]
        raise BadSnapshot(f"the environment draws from {kind}, which cannot be saved; Gymnasium's own generator can")
    bits = {"state": int(state["state"]["state"]), "inc": int(state["state"]["inc"])}
    return bits | {"kept": state["uinteger"] if state["has_uint32"] else None, "seed": env._np_random_seed}


def random_from(saved: Fields, name: str = "random") -> tuple[np.random.Generator | None, int | None]:
    """Return the generator of a saved state, and its seed, for an environment's `_np_random` and `_np_random_seed`.

    Raises:
        BadSnapshot: it is no such state.
    """
    if saved.maybe(name, dict) is None:
        return None, None
    part = saved.part(name)
    kept = part.maybe("kept", int)
    state, inc = part.get("state", int), part.get("inc", int)
    for field, value, bits in (("state", state, 128), ("inc", inc, 128), ("kept", kept or 0, 32)):
        if not 0 <= value < 1 << bits:
            raise part.wrong(field, f"a whole number of {bits} bits")
    generator = np.random.Generator(np.random.PCG64(0))
    generator.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": state, "inc": inc},
        "has_uint32": int(kept is not None),
        "uinteger": kept or 0,
    }
    return generator, part.maybe("seed", int)


def _short(value: object, longest: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= longest else f"{text[: longest - 3]}..."
