"""The observations of an OpenEnv server as text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["Reading", "read"]

_APART: Final = ("done", "reward", "metadata", "admissible_actions", "free_actions", "valid", "truncated", "image")
"""Fields that are not text for the agent: those of every observation, and those of servers of turncredit."""


@dataclass(frozen=True)
class Reading:
    """What an answer to a reset or step says."""

    text: str
    reward: float
    done: bool
    truncated: bool
    valid: bool
    admissible: tuple[str, ...] | None
    free: tuple[str, ...] | None


def read(data: Mapping[str, object], shown: str | None = None, admissible: str = "admissible_actions") -> Reading:
    """Return what the data of an answer says.

    The text is that of the only field with a value, or one line `name: value` for each field; a number does not stand
    alone. Where there is no other field, it is the observation's metadata.

    Args:
        data: "observation", "reward" and "done", as the server sent them.
        shown: name of the field that the agent reads; None: all.
        admissible: name of the field that lists the possible actions.
    """
    observation = data.get("observation")
    fields = observation if isinstance(observation, Mapping) else {"observation": observation}
    actions = fields.get(admissible)
    free = fields.get("free_actions")
    valid = fields.get("valid")
    reward = data.get("reward")
    return Reading(
        text=_text(fields, shown, admissible),
        reward=float(reward) if isinstance(reward, bool | int | float) else 0.0,
        done=bool(data.get("done")),
        truncated=fields.get("truncated") is True,
        valid=valid if isinstance(valid, bool) else True,
        admissible=_texts(actions),
        free=_texts(free),
    )


def _text(fields: Mapping[str, object], shown: str | None, admissible: str) -> str:
    if shown is not None:
        return _written(fields.get(shown, ""))
    values = {
        name: value for name, value in fields.items() if name not in (*_APART, admissible) and value not in (None, "")
    }
    if not values:
        values = {"": metadata} if (metadata := fields.get("metadata")) else {}
    if len(values) == 1 and not isinstance(value := next(iter(values.values())), int | float):
        return _written(value)
    return "\n".join(f"{name}: {_written(value)}" for name, value in values.items())


def _written(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and set(value) == {"content", "structured_content", "meta", "data", "is_error"}:
        return _written(value["data"] if value["data"] is not None else value["content"])  # the result of a tool
    return json.dumps(value, ensure_ascii=False)


def _texts(value: object) -> tuple[str, ...] | None:
    """Return a list as texts, or None if it is no list."""
    if not isinstance(value, list):
        return None
    return tuple(part if isinstance(part, str) else json.dumps(part, ensure_ascii=False) for part in value)
