"""The experts of a turn as a file holds them: without those of its first tokens that are the turn before's."""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping

import numpy as np

from turncredit.agents.errors import StoreError
from turncredit.agents.token_experts import Experts, TurnExperts

TYPES = ("uint8", "uint16")
"""Types that numbers of experts are stored in."""


def experts_record(experts: TurnExperts, previous: TurnExperts | None) -> dict[str, object]:
    """Return what a file holds of the experts of a turn.

    Args:
        experts: of the turn.
        previous: of the turn before in the file.
    """
    shared = experts.shared if previous is not None and experts.before is previous else 0
    own = experts.own if shared else experts.array()
    record: dict[str, object] = {"shape": list(own.shape), "type": own.dtype.name}
    if shared:
        record["shared"] = shared
    return record | {"data": b64encode(own.tobytes()).decode("ascii")}


def experts_of_record(record: object, previous: TurnExperts | None) -> TurnExperts:
    """Return the experts that `experts_record` wrote.

    Args:
        record: from a file.
        previous: of the turn before in it.

    Raises:
        StoreError: the record does not have this form.
    """
    if not isinstance(record, Mapping):
        raise StoreError(f"experts must be an object, got {type(record).__name__}")
    shape, shared = record.get("shape"), record.get("shared", 0)
    lengths = isinstance(shape, list) and len(shape) == 3 and all(type(size) is int and size >= 0 for size in shape)
    most = 0 if previous is None else len(previous)
    if not lengths or type(shared) is not int or not 0 <= shared <= most:
        raise StoreError(
            f"experts must have a shape of three sizes, and share 0 to {most} tokens with the turn before; got "
            f"{shape!r} and {shared!r}"
        )
    if (kind := record.get("type")) not in TYPES:
        raise StoreError(f"experts must have the type {' or '.join(TYPES)}, got {kind!r}")
    try:
        data = b64decode(record.get("data", ""), validate=True)
        own: Experts = np.frombuffer(data, dtype=np.dtype(str(kind))).reshape(shape)
    except (binascii.Error, TypeError, ValueError) as error:
        raise StoreError(f"the data of experts do not have the shape {shape}: {error}") from error
    if previous is not None and shared and (own.shape[1:], own.dtype) != previous.kind:
        raise StoreError("experts have other sizes than those of the turn before, which they share")
    return TurnExperts(own, previous, shared) if shared else TurnExperts(own)
