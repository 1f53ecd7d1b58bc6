"""Household tasks as a Gymnasium environment: generated games or ALFWorld's, with the original texts.

The reward is 1 at the step that wins and 0 elsewhere; winning terminates. The limit of 50 turns is part of the
registration (`max_episode_steps`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import ClassVar, Final, NamedTuple

import numpy as np

from turncredit.envs.errors import BadSnapshot, NoGames, NotReset, UnknownOption
from turncredit.envs.household.engine import World
from turncredit.envs.household.game import Game, compile_game
from turncredit.envs.household.generator import SPLITS as GENERATED_SPLITS
from turncredit.envs.household.generator import domain_text, grammar_text, source, task_ids
from turncredit.envs.household.level import PRESETS, TASK_TYPES, HouseholdLevel
from turncredit.envs.household.library import GameLibrary
from turncredit.envs.household.searching_demonstrator import SearchingDemonstrator
from turncredit.envs.info import Demonstrator, Info
from turncredit.envs.snapshot import Fields
from turncredit.envs.text import SavableEnv
from turncredit.envs.validation import choice, flag

__all__ = ["GOALS", "HouseholdEnv", "generated"]

GOALS: Final = ("template", "human")
_DEFAULT_COUNT: Final = 1000
_DRAWN_FROM: Final = 10**9  # generated games are drawn from this many indices


class HouseholdEnv(SavableEnv):
    """Find, carry, clean, heat, cool and light things in a household, told in words.

    An action is one command; one that is not admissible changes nothing, and the observation is "Nothing happens." The
    first observation ends with the task. The seed determines the task, if none is requested, the wording of a human
    goal, and the randomized names.

    Args:
        games: None for generated games; "alfworld" for the data in $ALFWORLD_DATA (default ~/.cache/alfworld); else a
            folder of original files, or one of its splits; one game.tw-pddl; or a packed file.
        split: "train" or "held_out" for generated games; "train", "valid_seen" or "valid_unseen" for files. None for
            "train", or for the only split of the files.
        task_types: a task type, or a list of them; None for all.
        goals: "template", or "human": tasks in people's words, drawn at each reset (only for files with annotations).
        domain_randomization: renumber the objects at each reset (in the split "train" only, as in the original).
        level: size and difficulty of generated games: a preset, such as "small", a text, or a `HouseholdLevel`.
        render_mode: None or "ansi".

    Raises:
        EnvError: there are no such games, or an argument is invalid.
    """

    SNAPSHOT_FORMAT = ("Household", 1)
    demonstrators: ClassVar[Mapping[str, Callable[[], Demonstrator]]] = {"searcher": SearchingDemonstrator}
    read_level = HouseholdLevel.parse

    def __init__(
        self,
        games: str | os.PathLike[str] | None = None,
        split: str | None = None,
        task_types: str | Sequence[str] | None = None,
        goals: str = "template",
        domain_randomization: bool = False,
        level: str | HouseholdLevel = "small",
        render_mode: str | None = None,
    ) -> None:
        super().__init__(render_mode)
        self._human = choice("goals", goals, GOALS) == "human"
        flag("domain_randomization", domain_randomization)
        types = _types(task_types)
        self._games: _GeneratedGames | _LibraryGames = (
            _GeneratedGames(split or "train", types, level) if games is None else _LibraryGames(games, split, types)
        )
        self._randomized = domain_randomization and self._games.split == "train"
        if self._human and games is None:
            raise UnknownOption("goals='human' needs games with annotations, which generated games do not have")
        self._world: World | None = None
        self._drawn = _GameChoice("")
        self._over = False

    def plan(self) -> list[str]:
        """Return commands that lead from the current state to success, close to the fewest; [] if the task is won.

        Raises:
            NotReset: called before the first reset.
            EnvError: success cannot be reached from here.
        """
        from turncredit.envs.household.expert import plan

        world = self._playing()
        return [] if world.won else plan(world)

    def list_tasks(self, count: int | None) -> list[str]:
        return self._games.ids(count)

    def draw_task(self) -> str:
        return self._games.draw(self.np_random)

    def start_task(self, task: str, options: Mapping[str, object]) -> str:
        human = int(self.np_random.integers(2**31)) if self._human else None
        names = int(self.np_random.integers(2**63)) if self._randomized else None
        drawn = _GameChoice(task, human, names)
        self._world, self._drawn, self._over = World(self._game(drawn)), drawn, False
        return self._world.reset()

    def take_action(self, action: str) -> tuple[str, float, bool]:
        world = self._playing()
        valid = action.strip() in world.actions()
        observation = world.step(action)
        self._over = world.won
        return observation, float(self._over), valid

    def is_over(self) -> bool:
        return self._over

    def snapshot_arguments(self) -> dict[str, object]:
        return {**self._games.made(), "human": self._human, "domain_randomization": self._randomized}

    def save_episode(self) -> dict[str, object]:
        world = self._playing()
        return {
            "human": self._drawn.human,
            "names": self._drawn.names,
            "changes": [[name, list(row), true] for name, row, true in world.changes()],
            "state": world.state_key(),
            "over": self._over,
        }

    def load_episode(self, task: str, saved: Fields) -> None:
        drawn = _GameChoice(task, saved.maybe("human", int), saved.maybe("names", int))
        world, over = self._world_of(saved, drawn), saved.get("over", bool)
        self._world, self._drawn, self._over = world, drawn, over

    def _world_of(self, saved: Fields, drawn: _GameChoice) -> World:
        """Return the world of a snapshot.

        Raises:
            UnknownTask: there is no such game.
            BadSnapshot: the game is a different one.
        """
        try:
            world = World(self._game(drawn))
            for name, row, true in saved.get("changes", list):
                world.change(str(name), tuple([int(number) for number in row]), bool(true))
        except (TypeError, ValueError, OverflowError) as error:
            raise BadSnapshot(f"the snapshot's 'changes' do not fit the game {drawn.task!r}: {error}") from None
        if world.state_key() != saved.get("state", str):
            raise BadSnapshot(f"the snapshot is of another version of the game {drawn.task!r}")
        return world

    def _game(self, drawn: _GameChoice) -> Game:
        game = self._games.get(drawn.task, drawn.human)
        return game if drawn.names is None else game.shuffled(Random(drawn.names))

    def _playing(self) -> World:
        if self._world is None:
            raise NotReset
        return self._world

    def get_info(self, valid: bool) -> Info:
        world = self._playing()
        won = world.won
        info: Info = {
            "task": world.game.id,
            "state": world.state_key(),
            "admissible_actions": list(world.admissible()),
            "valid": valid,
            "score": float(won),
            "won": won,
        }
        if world.game.task_type is not None:
            info["task_type"] = world.game.task_type
        return info


class _GameChoice(NamedTuple):
    """Task, number of the human annotation, and seed of the randomized names."""

    task: str
    human: int | None = None
    names: int | None = None


class _LibraryGames:
    """Games of a library."""

    def __init__(self, games: str | os.PathLike[str], split: str | None, task_types: tuple[str, ...] | None) -> None:
        if not isinstance(games, str | os.PathLike):
            raise UnknownOption(
                f"games must be None, 'alfworld', or the path of a folder or packed file, got {games!r}"
            )
        self._library = GameLibrary.open(_alfworld() if games == "alfworld" else games)
        if split is None:
            split = self._library.splits[0] if len(self._library.splits) == 1 else "train"
        choice("split", split, self._library.splits)
        self._tasks = self._library.ids(split, task_types)
        if not self._tasks:
            raise NoGames(
                f"no games of the types {list(task_types or ())} in the split {split!r} of {self._library.path}"
            )
        self.split = split
        self._library.get(self._tasks[0])  # reads domain and grammar before the first episode

    def made(self) -> dict[str, object]:
        # Not the path, which differs between machines.
        digest = blake2b("\n".join(self._tasks).encode(errors="surrogatepass"), digest_size=8).hexdigest()
        return {"games": "files", "split": self.split, "tasks": f"{len(self._tasks):,} tasks ({digest})"}

    def ids(self, count: int | None) -> list[str]:
        return self._tasks[:count]

    def draw(self, rng: np.random.Generator) -> str:
        return self._tasks[int(rng.integers(len(self._tasks)))]

    def get(self, id: str, human: int | None) -> Game:
        return self._library.get(id, human)


class _GeneratedGames:
    """Games generated from their ids."""

    def __init__(self, split: str, task_types: tuple[str, ...] | None, level: str | HouseholdLevel) -> None:
        choice("split", split, GENERATED_SPLITS)
        if not isinstance(level, str | HouseholdLevel):
            presets = ", ".join(map(repr, PRESETS))
            raise UnknownOption(
                f"level must be one of {presets}, a text such as 'small+closed=1', or a HouseholdLevel, got {level!r}"
            )
        level = HouseholdLevel.parse(level) if isinstance(level, str) else level
        if task_types is not None:
            level = replace(level, types=task_types)
        self.split = split
        self._level = level

    def made(self) -> dict[str, object]:
        return {"games": "generated", "split": self.split, "level": self._level.text}

    def ids(self, count: int | None) -> list[str]:
        return task_ids(self.split, self._level, _DEFAULT_COUNT if count is None else count)

    def draw(self, rng: np.random.Generator) -> str:
        return task_ids(self.split, self._level, 1, int(rng.integers(_DRAWN_FROM)))[0]

    def get(self, id: str, human: int | None) -> Game:
        return generated(id)


@lru_cache(maxsize=1024)  # compiling one takes as long as ten steps; one takes 17 to 70 KB
def generated(id: str) -> Game:
    """Return the compiled game of a task id.

    Raises:
        UnknownTask: this is not the id of a generated game.
    """
    game = source(id)
    return compile_game(
        domain_text(),
        grammar_text(),
        game.problem_text,
        task=game.task,
        task_type=game.task_type,
        id=game.id,
        walkthrough=game.walkthrough,
        path=f"generated game {id}",
    )


def _alfworld() -> Path:
    named = os.environ.get("ALFWORLD_DATA")
    path = Path(named) if named else Path.home() / ".cache" / "alfworld"
    if not path.exists():
        where = f"$ALFWORLD_DATA is {named}" if named else f"$ALFWORLD_DATA is not set and there is no {path}"
        raise NoGames(f"ALFWorld's games were not found: {where}; pass games=PATH, or games=None for generated games")
    return path


def _types(task_types: object) -> tuple[str, ...] | None:
    """Return the requested task types."""
    if task_types is None:
        return None
    # a str is a sequence, too
    if not isinstance(task_types, str) and not isinstance(task_types, Sequence):
        raise UnknownOption(f"task_types must be a task type, a list of them, or None, got {task_types!r}")
    types = (task_types,) if isinstance(task_types, str) else tuple(task_types)
    for name in types:
        choice("task type", name, TASK_TYPES)
    if not types or len(set(types)) < len(types):
        raise UnknownOption(f"task_types must hold one or more different task types, got {task_types!r}")
    return types
