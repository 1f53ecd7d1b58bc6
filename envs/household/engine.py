"""The play of one game: a mutable world with the original engine's texts and admissible commands."""

from __future__ import annotations

from dataclasses import dataclass

from turnwise.envs.household.game import Game


@dataclass(frozen=True, slots=True)
class Action:
    """A ground action: schema name (lower case, e.g. "pickupobject") and its arguments by parameter name (no "?")."""

    schema: str
    arguments: tuple[int, ...]  # object indices, in the order of the schema's parameters


class World:
    """Mutable play of a Game; cheap to clone (some microseconds), so that a planner can search on copies.

    Example: ``world = World(game); text = world.reset(); text = world.step("go to cabinet 1"); world.won``
    """

    game: Game

    def __init__(self, game: Game) -> None: ...
    def reset(self) -> str:
        """Go back to the start; return the intro text."""
        raise NotImplementedError

    def step(self, command: str) -> str:
        """Do the command if admissible (else nothing changes and "Nothing happens."); return the feedback."""
        raise NotImplementedError

    def apply(self, command: str) -> bool:
        """Like step without rendering a text (for search); return whether the command was admissible."""
        raise NotImplementedError

    def admissible(self) -> tuple[str, ...]:
        """All admissible commands, sorted."""
        raise NotImplementedError

    def actions(self) -> dict[str, Action]:
        """Admissible commands with the ground action that each stands for."""
        raise NotImplementedError

    @property
    def won(self) -> bool:
        """Whether the goal holds."""
        raise NotImplementedError

    def state_key(self) -> str:
        """32 hex digits: equal exactly when the future behaviour is; stable across processes."""
        raise NotImplementedError

    def clone(self) -> World:
        """An independent copy in the same state."""
        raise NotImplementedError

    def facts(self, predicate: str) -> frozenset[tuple[int, ...]]:
        """Argument tuples (object indices) for which the predicate (lower case) is true now, static ones included."""
        raise NotImplementedError
