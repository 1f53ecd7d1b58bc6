"""Turn-based games of PettingZoo (package `pettingzoo`, its AEC interface): the agent plays one seat.

An action is the number of a discrete action, or its name where `actions` lists names. PettingZoo's observations are
arrays; the agent reads what the game renders as text, or the array, or what `describe` returns.

Not included: games in which all seats move at once, and actions that are not discrete.

Source: PettingZoo (Terry et al. 2021, arXiv:2009.14471).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import gymnasium
import numpy as np

from turncredit.envs.adapters.games import GameOutcome, GlobalSeeds, SeededGame, global_seeds
from turncredit.envs.adapters.opponents import opponent as find_opponent
from turncredit.envs.errors import EnvError, UnknownOption
from turncredit.installation import needs
from turncredit.registry import CannotLoad, Registry, UnknownName

__all__ = ["PettingZooEnv"]

_MISSING: Final = "PettingZoo's games need the package pettingzoo"
_OTHERS_MOVES: Final = 10_000
_AGENT: Final = {
    "prompt": "conversation",
    "template": {"system": "You play a game, one move at a time.\n\n", "ask": "\n\nYour move:"},
    "parser": "whole",
    "without_chat_template": {"stop": ["\n"]},
}
_CLASSIC: Final = (
    "chess_v6",
    "connect_four_v3",
    "go_v5",
    "hanabi_v5",
    "leduc_holdem_v4",
    "rps_v2",
    "texas_holdem_no_limit_v6",
    "texas_holdem_v4",
    "tictactoe_v3",
)


class _Aec(Protocol):
    agents: list[str]
    possible_agents: list[str]
    agent_selection: str
    metadata: Mapping[str, object]

    def reset(self, seed: int) -> None: ...
    def last(self) -> tuple[object, float, bool, bool, Mapping[str, object]]: ...
    def step(self, action: int | None) -> None: ...
    def render(self) -> object: ...
    def close(self) -> None: ...
    def action_space(self, agent: str) -> object: ...


_MakeGame = Callable[..., _Aec]
_Describe = Callable[[object, str], str]

GAMES: Final[Registry[_MakeGame]] = Registry(
    "game of PettingZoo",
    group="turncredit.pettingzoo",
    lazy={name: f"pettingzoo.classic.{name}:env" for name in _CLASSIC},
)
_DESCRIPTIONS: Final[Registry[_Describe]] = Registry("description", group="turncredit.pettingzoo_descriptions")


class PettingZooEnv(SeededGame):
    """Play a turn-based game of PettingZoo.

    The reward is what the seat earned since its last move. A move that the game does not allow changes nothing, and the
    observation says which are possible. At the end, the score is 1 for a positive sum of rewards, 0.5 for 0, else 0.

    Args:
        game: a classic game such as "tictactoe_v3", or "module:env" for another one.
        opponent: who plays the other seats: "random", "first", or "module:function" (see
            `turncredit.envs.adapters.opponents`).
        seat: name of the agent's seat, such as "player_1"; None: the seats take turns from task to task.
        split: "train" or "held_out".
        describe: "module:function" or a function of observation and seat that returns what the agent reads.
        actions: names of the actions, in their order; None: numbers.
        options: further arguments of the game.
        render_mode: None or "ansi".

    Raises:
        UnknownOption: an argument is invalid, or there is no such game.
        EnvError: pettingzoo, or what the game needs, is not installed.
    """

    metadata = SeededGame.metadata | {"agent": _AGENT}
    EXAMPLE_ACTION = "4"

    def __init__(
        self,
        game: str = "tictactoe_v3",
        opponent: object = "random",
        seat: str | None = None,
        split: str = "train",
        *,
        describe: object = None,
        actions: Sequence[str] | None = None,
        options: Mapping[str, object] | None = None,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(game, split, render_mode)
        self._opponent = find_opponent(opponent)
        self._describe = _description(describe)
        self._names = None if actions is None else [str(name) for name in actions]
        self._game = _game(game, dict(options or {}))
        seats = list(self._game.possible_agents)
        if seat is not None and seat not in seats:
            raise UnknownOption(f"{game} has no seat {seat!r}; choose from {', '.join(seats)}")
        self._own, self._seats, self._seat = seat, seats, seat or seats[0]
        self._total = 0.0

    def __getstate__(self) -> object:
        """Refuse to be pickled: PettingZoo's wrappers lose their attributes."""
        raise TypeError("a game of PettingZoo cannot be pickled")

    def close(self) -> None:
        """Close the game."""
        self._game.close()

    def begin(self, seed: int) -> GameOutcome:
        self._seeds, self._random = GlobalSeeds(seed), np.random.default_rng(seed)
        self._seat = self._own or self._seats[seed % len(self._seats)]
        self._total = 0.0
        with global_seeds(self._seeds):
            self._game.reset(seed=seed)
            return self._until_own_move()

    def move(self, action: str) -> GameOutcome:
        observation, _, _, _, facts = self._game.last()
        number = self._possible(observation, facts, self._seat).get(action.strip())
        if number is None:
            outcome = self._seen(observation, facts)
            listed = ", ".join(outcome.admissible or ())
            text = f"{action.strip()!r:.60} is not possible; choose from {listed}"
            return GameOutcome(text, valid=False, counted=False, admissible=outcome.admissible)
        with global_seeds(self._seeds):
            self._game.step(number)
            return self._until_own_move()

    def _until_own_move(self) -> GameOutcome:
        """Let the others play until it is the agent's turn or its game is over."""
        game = self._game
        for _ in range(_OTHERS_MOVES):
            if not game.agents:
                return self._end(0.0)
            observation, reward, terminated, truncated, facts = game.last()
            over, seat = terminated or truncated, game.agent_selection
            if seat == self._seat:
                self._total += float(reward)
                return self._end(float(reward)) if over else self._seen(observation, facts, float(reward))
            possible = {} if over else self._possible(observation, facts, seat)
            game.step(None if over else self._answer(observation, possible, seat))
        raise EnvError(f"the other seats made {_OTHERS_MOVES:,} moves, and it is not the agent's turn")

    def _answer(self, observation: object, possible: Mapping[str, int], seat: str) -> int:
        """Return the move of another seat."""
        action = self._opponent(self._text(observation, seat), list(possible), self._random)
        if action not in possible:
            raise EnvError(f"the opponent of the seat {seat} answered {action!r:.60}, which is not possible")
        return possible[action]

    def _seen(self, observation: object, facts: Mapping[str, object], reward: float = 0.0) -> GameOutcome:
        possible = tuple(self._possible(observation, facts, self._seat))
        return GameOutcome(self._text(observation, self._seat), reward, admissible=possible)

    def _possible(self, observation: object, facts: Mapping[str, object], seat: str) -> dict[str, int]:
        """Return the possible actions of a seat by name."""
        space = self._game.action_space(seat)
        if not isinstance(space, gymnasium.spaces.Discrete):
            raise UnknownOption(f"only games with discrete actions can be played, and {seat} acts in {space}")
        mask = observation.get("action_mask") if isinstance(observation, Mapping) else None
        mask = facts.get("action_mask") if mask is None else mask
        numbers = range(int(space.n)) if mask is None else np.flatnonzero(np.asarray(mask))
        return {self._names[number] if self._names else str(number): int(number) for number in numbers}

    def _text(self, observation: object, seat: str) -> str:
        if self._describe is not None:
            return self._describe(observation, seat)
        rendered = self._game.render() if getattr(self._game, "render_mode", None) == "ansi" else None
        if isinstance(rendered, str):
            return f"You are {seat}.\n{rendered}"
        values = observation.get("observation") if isinstance(observation, Mapping) else observation
        return f"You are {seat}.\n{np.array2string(np.asarray(values), threshold=10_000)}"

    def _end(self, reward: float) -> GameOutcome:
        score = (np.sign(self._total) + 1) / 2
        text = f"The game is over. You are {self._seat}, and your rewards sum to {self._total:g}."
        return GameOutcome(text, reward, over=True, score=float(score), won=bool(score == 1.0))


def _game(name: str, options: Mapping[str, object]) -> _Aec:
    """Return a game that renders text where it can."""
    try:
        make = GAMES.get(name)
        game = make(**options)
        modes = game.metadata.get("render_modes")
        return make(render_mode="ansi", **options) if isinstance(modes, list) and "ansi" in modes else game
    except UnknownName as error:
        raise UnknownOption(str(error)) from error
    except CannotLoad as error:
        if isinstance(error.__cause__, ImportError) and "pettingzoo" in str(error.__cause__).lower():
            raise EnvError(needs(_MISSING, "pettingzoo")) from error
        raise EnvError(str(error)) from error
    except TypeError as error:
        raise UnknownOption(f"{name} cannot be made with {dict(options)}: {error}") from error


def _description(describe: object) -> _Describe | None:
    if describe is None:
        return None
    try:
        function = _DESCRIPTIONS.get(describe) if isinstance(describe, str) else describe
    except (UnknownName, CannotLoad) as error:
        raise UnknownOption(str(error)) from error
    if not callable(function):
        raise UnknownOption(f"describe must be a function, got {describe!r}")
    return function
