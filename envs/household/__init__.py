"""Household tasks in words: an engine for ALFWorld's games, a generator of new ones, and an expert that wins them.

`HouseholdEnv` is the environment; `compile_game` and `World` are the engine under it; `GameLibrary` and `pack` handle
files of games.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turncredit.envs.household.engine import World
    from turncredit.envs.household.env import HouseholdEnv
    from turncredit.envs.household.game import Game, compile_game
    from turncredit.envs.household.library import GameLibrary, pack

__all__ = ["Game", "GameLibrary", "HouseholdEnv", "World", "compile_game", "pack"]

_HOMES = {
    "Game": "game",
    "GameLibrary": "library",
    "HouseholdEnv": "env",
    "World": "engine",
    "compile_game": "game",
    "pack": "library",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that the pieces can be imported one by one."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
