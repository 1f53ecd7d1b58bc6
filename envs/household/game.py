"""One household game, compiled: objects with their names, facts at the start, goal and texts; nothing that changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from turnwise.envs.household.grammar import Grammar
from turnwise.envs.household.pddl import Domain, Formula


@dataclass(frozen=True, slots=True)
class Game:
    """Static part of a game. Objects are integers 0..n-1 in the order of their sorted (lower-case) ids."""

    id: str  # task id, e.g. "train/.../trial_..."
    task: str  # the sentence after "Your task is to: ", with its full stop
    task_type: str | None
    walkthrough: tuple[str, ...]  # () when the source has none
    domain: Domain
    grammar: Grammar
    objects: tuple[str, ...]  # lower-case PDDL ids, sorted
    types: tuple[str, ...]  # declared type of each object
    names: tuple[str, ...]  # what the player reads: "cabinet 3"
    init: Mapping[str, frozenset[tuple[int, ...]]]  # predicate -> argument tuples
    goal: Formula


def compile_game(
    domain: Domain | str,
    grammar: Grammar | str,
    problem: str,
    *,
    task: str | None = None,
    task_type: str | None = None,
    id: str = "",
    walkthrough: tuple[str, ...] = (),
) -> Game:
    """Return the compiled game of a PDDL problem text. `task` replaces "UNKNOWN GOAL." of the grammar."""
    raise NotImplementedError
