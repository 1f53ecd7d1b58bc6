"""Household tasks as a Gymnasium environment: generated games, or ALFWorld's own ones, in the original's words.

Observation and action are texts. Reward is 1 at the step that wins and 0 elsewhere; winning terminates. The turn
limit of 50 is Gymnasium's (`max_episode_steps`), so the class itself never truncates.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Final, NamedTuple, Protocol

import gymnasium

from turnwise.envs.errors import BadSnapshot, NoGames, NotReset, StepAfterEnd, UnknownOption, UnknownTask, choices
from turnwise.envs.household.dials import PRESETS, TASK_TYPES, Dials
from turnwise.envs.household.engine import World
from turnwise.envs.household.game import Game, compile_game
from turnwise.envs.household.generator import SPLITS as GENERATED_SPLITS
from turnwise.envs.household.generator import domain_text, grammar_text, source, task_ids
from turnwise.envs.household.library import GameLibrary
from turnwise.envs.household.searcher import Searcher
from turnwise.envs.info import Demonstrator
from turnwise.envs.snapshot import Fields, pack, random_from, random_state, unpack
from turnwise.envs.spaces import Text

GOALS: Final = ("template", "human")
_DEFAULT_COUNT: Final = 1000
_SAVED: Final = ("Household", 1)  # what snapshots are called, and the version of what is in them
_DRAWN_FROM: Final = 10**9  # generated games are drawn from the first so many indices


class HouseholdEnv(gymnasium.Env[str, str]):
    """Find, carry, clean, heat, cool and light things in a household, told in words.

    Args:
        games: None for generated games; "alfworld" for the data in $ALFWORLD_DATA (default ~/.cache/alfworld); else a
            folder of original
            files or a packed file.
        split: "train" or "held_out" for generated games; "train", "valid_seen" or "valid_unseen" for files.
        task_types: only tasks of these types (or of this one, as a str); None for all.
        goals: "template", or "human": tasks in the words of people, drawn anew at each reset (files with annotations
            only).
        domain_randomization: deal the numbers in objects' names anew at each reset (in the split "train" only, as in
            the original).
        level: size and difficulty of generated games: a preset of `Dials`, its text, or dials.
        render_mode: None or "ansi".

    Raises:
        EnvError: there are no such games, or a value is not one of the choices.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"]}  # noqa: RUF012 (Gymnasium's attribute)
    demonstrators: ClassVar[Mapping[str, Callable[[], Demonstrator]]] = {"searcher": Searcher}

    def __init__(
        self,
        games: str | os.PathLike[str] | None = None,
        split: str = "train",
        task_types: str | Sequence[str] | None = None,
        goals: str = "template",
        domain_randomization: bool = False,
        level: str | Dials = "small",
        render_mode: str | None = None,
    ) -> None:
        _choice("goals", goals, GOALS)
        if render_mode is not None:
            _choice("render_mode", render_mode, self.metadata["render_modes"])
        if not isinstance(domain_randomization, bool):
            raise UnknownOption(f"domain_randomization is {domain_randomization!r}; it is True or False")
        types = _types(task_types)
        self.observation_space = Text()
        self.action_space = Text()
        self.render_mode = render_mode
        self._randomized = domain_randomization and split == "train"
        self._human = goals == "human"
        self._games = _Generated(split, types, level) if games is None else _Files(games, split, types)
        if self._human and games is None:
            raise UnknownOption("goals='human' needs games with human descriptions; generated games have none")
        self._world: World | None = None
        self._drawn = _Drawn("")
        self._over = False
        self._shown: tuple[str, str] = ("", "")

    def task_ids(self, count: int | None = None) -> list[str]:
        """Return the ids of the task instances of the split, in a fixed order.

        Args:
            count: how many, from the first on; None: all, or of generated games the first 1,000.
        """
        if count is not None and count < 0:
            raise UnknownOption(f"count is {count}; it must be 0 or more")
        return self._games.ids(count)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: seeds what is drawn: the task where none is asked for, the words of a human goal, randomized names.
            options: {"task": id} to play that task.

        Returns:
            The first observation, which ends with the task, and `info` (see `turnwise.envs.info`).

        Raises:
            UnknownTask: there is no such task.
            UnknownOption: options hold anything else.
        """
        super().reset(seed=seed)
        for key in options or {}:
            _choice("reset option", str(key), ("task",))
        task = (options or {}).get("task")
        if task is not None and not isinstance(task, str):
            raise UnknownTask(f"a task is named by its id, a str; got {task!r}")
        if task is None:
            task = self._games.draw(self.np_random)
        human = int(self.np_random.integers(2**31)) if self._human else None
        names = int(self.np_random.integers(2**63)) if self._randomized else None
        drawn = _Drawn(task, human, names)
        self._world, self._drawn = World(self._game(drawn)), drawn
        self._over = False
        observation = self._world.reset()
        self._shown = ("", observation)
        return observation, self._info(True)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Do one command; what is not admissible changes nothing and is answered "Nothing happens."

        Returns:
            observation, reward (1.0 when this step wins), terminated, truncated (always False), info.

        Raises:
            NotReset: before the first reset.
            StepAfterEnd: the episode has ended.
        """
        world = self._playing()
        if self._over:
            raise StepAfterEnd
        if not isinstance(action, str):
            raise UnknownOption(f"an action is a str such as 'look'; got {type(action).__name__}")
        valid = action.strip() in world.actions()
        observation = world.step(action)
        self._over = world.won
        self._shown = (action, observation)
        return observation, float(self._over), self._over, False, self._info(valid)

    def plan(self) -> list[str]:
        """Return commands from the present state to success, near the shortest way; [] when it is won.

        Raises:
            NotReset: before the first reset.
            EnvError: no way was found.
        """
        from turnwise.envs.household.expert import plan

        world = self._playing()
        return [] if world.won else plan(world)

    def render(self) -> str | None:
        """Return the last command and its answer as the player saw them, for render_mode "ansi"; else None."""
        if self.render_mode != "ansi":
            return None
        action, observation = self._shown
        return f"> {action}\n{observation}\n" if action else f"{observation}\n"

    def snapshot(self) -> bytes:
        """Return the episode at this moment, for `restore` (see `turnwise.envs.info.HasSnapshot`).

        Raises:
            NotReset: before the first reset.
        """
        world = self._playing()
        episode = {
            **self._drawn._asdict(),
            "changes": [[name, list(row), true] for name, row, true in world.changes()],
            "state": world.state_key(),
            "over": self._over,
            "shown": list(self._shown),
            "random": random_state(self),
        }
        return pack(*_SAVED, self._made(), episode)

    def restore(self, data: bytes, /) -> tuple[str, dict[str, Any]]:
        """Go on from a snapshot of an environment with the same games, split, goals and names.

        Returns:
            Observation and `info` of that moment; `valid` is True.

        Raises:
            BadSnapshot: the bytes are none, or torn, or of something else; the present episode goes on.
        """
        saved = unpack(data, *_SAVED, self._made())
        drawn = _Drawn(saved.get("task", str), saved.maybe("human", int), saved.maybe("names", int))
        world = self._world_of(saved, drawn)
        over, shown = saved.get("over", bool), saved.pair("shown")
        self._np_random, self._np_random_seed = random_from(saved)
        self._world, self._drawn, self._over, self._shown = world, drawn, over, shown
        return self._shown[1], self._info(True)

    def _world_of(self, saved: Fields, drawn: _Drawn) -> World:
        """Return the world of a snapshot.

        Raises:
            BadSnapshot: there is no such game here, or it is another one.
        """
        try:
            world = World(self._game(drawn))
            for name, row, true in saved.get("changes", list):
                world.change(str(name), tuple([int(number) for number in row]), bool(true))
        except UnknownTask as error:
            raise BadSnapshot(f"the snapshot's task is not here: {error}") from error
        except (TypeError, ValueError, OverflowError) as error:
            raise BadSnapshot(f"the snapshot's 'changes' are none of the game {drawn.task!r}: {error}") from None
        if world.state_key() != saved.get("state", str):
            raise BadSnapshot(f"the snapshot is of a game {drawn.task!r} that is not the same as the one here")
        return world

    def _game(self, drawn: _Drawn) -> Game:
        game = self._games.get(drawn.task, drawn.human)
        return game if drawn.names is None else game.shuffled(Random(drawn.names))

    def _made(self) -> dict[str, Any]:
        """Return what has to be the same where a snapshot is restored."""
        return {**self._games.made(), "human": self._human, "domain_randomization": self._randomized}

    def _playing(self) -> World:
        if self._world is None:
            raise NotReset
        return self._world

    def _info(self, valid: bool) -> dict[str, Any]:
        world = self._playing()
        won = world.won
        info: dict[str, Any] = {
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


class _Drawn(NamedTuple):
    """What makes an episode's game: the task, the number of the person whose words tell it, the seed of the names."""

    task: str
    human: int | None = None
    names: int | None = None


class _Games(Protocol):
    """Where an environment takes its games from."""

    def made(self) -> dict[str, Any]: ...
    def ids(self, count: int | None) -> list[str]: ...
    def draw(self, rng: Any) -> str: ...
    def get(self, id: str, human: int | None) -> Game: ...


class _Files:
    """Games of a library."""

    def __init__(self, games: str | os.PathLike[str], split: str, task_types: tuple[str, ...] | None) -> None:
        if not isinstance(games, str | os.PathLike):
            raise UnknownOption(f"games is {games!r}; it is None, 'alfworld', or the path of a folder or packed file")
        self._library = GameLibrary.open(_alfworld() if games == "alfworld" else games)
        _choice("split", split, self._library.splits)
        self._tasks = self._library.ids(split, task_types)
        if not self._tasks:
            raise NoGames(
                f"no games of the types {list(task_types or ())} in the split {split!r} of {self._library.path}"
            )
        self._split = split
        self._library.get(self._tasks[0])  # domain and grammar are read now, so that no episode waits for them

    def made(self) -> dict[str, Any]:
        # Not the path: the same files lie elsewhere on another machine.
        digest = blake2b("\n".join(self._tasks).encode(errors="surrogatepass"), digest_size=8).hexdigest()
        return {"games": "files", "split": self._split, "tasks": f"{len(self._tasks):,} tasks ({digest})"}

    def ids(self, count: int | None) -> list[str]:
        return self._tasks[:count]

    def draw(self, rng: Any) -> str:
        return self._tasks[int(rng.integers(len(self._tasks)))]

    def get(self, id: str, human: int | None) -> Game:
        return self._library.get(id, human)


class _Generated:
    """Games made from their ids."""

    def __init__(self, split: str, task_types: tuple[str, ...] | None, level: str | Dials) -> None:
        _choice("split", split, GENERATED_SPLITS)
        if not isinstance(level, str | Dials):
            presets = ", ".join(map(repr, PRESETS))
            raise UnknownOption(f"level is {level!r}; it is one of {presets}, such a text with dials, or Dials")
        dials = Dials.parse(level) if isinstance(level, str) else level
        if task_types is not None:
            dials = replace(dials, types=task_types)
        self._split = split
        self._dials = dials

    def made(self) -> dict[str, Any]:
        return {"games": "generated", "split": self._split, "level": self._dials.text}

    def ids(self, count: int | None) -> list[str]:
        return task_ids(self._split, self._dials, _DEFAULT_COUNT if count is None else count)

    def draw(self, rng: Any) -> str:
        return task_ids(self._split, self._dials, 1, int(rng.integers(_DRAWN_FROM)))[0]

    def get(self, id: str, human: int | None) -> Game:
        return generated(id)


@lru_cache(maxsize=128)
def generated(id: str) -> Game:
    """Return the generated game of a task id, compiled.

    Raises:
        UnknownTask: the text is no id of a generated game.
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
        raise NoGames(f"no ALFWorld games: {where}; pass games=PATH, or games=None for generated ones")
    return path


def _types(given: object) -> tuple[str, ...] | None:
    """The task types asked for: one may stand alone."""
    if given is None:
        return None
    # a str is a sequence too, of letters
    if not isinstance(given, str) and not isinstance(given, Sequence):
        raise UnknownOption(f"task_types is {given!r}; it is a task type, a list of them, or None for all")
    wanted = (given,) if isinstance(given, str) else tuple(given)
    for name in wanted:
        _choice("task type", name, TASK_TYPES)
    if not wanted or len(set(wanted)) < len(wanted):
        raise UnknownOption(f"task_types is {given!r}; it holds at least one task type, and each once")
    return wanted


def _choice(what: str, value: object, known: Sequence[str]) -> None:
    if value not in known:
        raise UnknownOption(f"no {what} {value!r}: {choices(str(value), known)}")


__all__ = ["HouseholdEnv", "generated"]
