"""Snapshots that are none: torn, changed, or written by a stranger who knows the form."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import strategies as st

from turncredit.envs import BadSnapshot
from turncredit.envs.snapshot import pack

ANY_BYTES = st.one_of(st.binary(), st.text().map(str.encode), st.none(), st.text(), st.builds(bytearray))


def spoilt(data: st.DataObject, good: bytes) -> bytes:
    """Return a snapshot of which an end is missing, or a byte is another one."""
    place = data.draw(st.integers(0, len(good) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != good[place]))
    return data.draw(
        st.sampled_from([good[:place], good[:place] + bytes([byte]) + good[place + 1 :], good[place + 1 :]])
    )


def is_refused(env: Any, bad: bytes, good: bytes) -> bool:
    """Whether spoilt bytes are refused, and the episode of `good` goes on."""
    try:
        env.restore(bad)
    except BadSnapshot:
        return env.snapshot() == good
    return json.loads(bad) == json.loads(good)  # a white space may be another one, and 1.0 may be 1.00


def forged(data: st.DataObject, good: bytes, odd: st.SearchStrategy[Any]) -> bytes:
    """Return a snapshot in which one value or two are odd or gone, with a digest that is right."""
    document = json.loads(good)
    episode = document["episode"]
    for _ in range(data.draw(st.integers(1, 2))):
        place = episode
        name = data.draw(st.sampled_from(sorted(place)))
        if isinstance(place[name], dict) and place[name] and data.draw(st.booleans()):
            place = place[name]
            name = data.draw(st.sampled_from(sorted(place)))
        if data.draw(st.booleans()):
            place[name] = copy.deepcopy(data.draw(odd))
        else:
            del place[name]
        if not episode:
            break
    return pack(document["snapshot"], document["version"], document["made"], episode)
