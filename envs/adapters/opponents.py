"""Players of the other seats of a game, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np

from turncredit.envs.errors import UnknownOption
from turncredit.registry import CannotLoad, Registry, UnknownName

__all__ = ["LISTING", "OPPONENTS", "Opponent", "opponent"]

Opponent: TypeAlias = Callable[[str, Sequence[str], np.random.Generator], str]
"""Returns the action of a seat, given what it reads, the actions that are possible as far as they are listed, and the
episode's random generator."""


def _adapt(name: str, loaded: object) -> Opponent:
    if not callable(loaded):
        raise TypeError(f"an opponent is a function of observation, actions and random generator, and {name} is none")
    return loaded


OPPONENTS: Final[Registry[Opponent]] = Registry("opponent", group="turncredit.opponents", adapt=_adapt)


def _random(observation: str, actions: Sequence[str], random: np.random.Generator) -> str:
    return _some(actions)[int(random.integers(len(actions)))]


def _first(observation: str, actions: Sequence[str], random: np.random.Generator) -> str:
    return _some(actions)[0]


def _some(actions: Sequence[str]) -> Sequence[str]:
    if not actions:
        raise UnknownOption("this game lists no actions for the opponent; name a function: opponent=module:function")
    return actions


LISTING: Final = ("random", "first")
"""Names of the opponents that choose among the moves that a game lists."""
OPPONENTS.register("random", _random)
OPPONENTS.register("first", _first)


def opponent(name: object) -> Opponent:
    """Return the opponent with a name, or the function itself.

    Args:
        name: "random" (one of the listed actions), "first" (the first of them), "module:function", or a function.

    Raises:
        UnknownOption: there is no such opponent.
        Untrusted: a file names the function.
    """
    if callable(name):
        return _adapt(repr(name), name)
    if not isinstance(name, str):
        raise UnknownOption(f"opponent must be a name or a function, got {name!r}")
    try:
        return OPPONENTS.get(name)
    except (UnknownName, TypeError) as error:
        raise UnknownOption(str(error)) from error
    except CannotLoad as error:
        raise UnknownOption(str(error)) from error
