"""Games of TextArena (package `textarena`): the agent plays one seat, the others are played by an opponent.

TextArena repeats the whole history at every move; the agent reads what is new. A game counts invalid moves itself: it
lets a few pass, and then ends with a loss. Games draw from Python's global random generator, which is put back after
each call, so that games in one process do not disturb each other.

Not included: games online, rendering, and games whose opponents must be language models (their moves cannot be drawn).

Source: TextArena (Guertler et al. 2025, arXiv:2504.11442).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import numpy as np

from turncredit.envs.adapters.games import PER_SPLIT, SPLITS, GameOutcome, GlobalSeeds, SeededGame, global_seeds
from turncredit.envs.adapters.opponents import LISTING
from turncredit.envs.adapters.opponents import opponent as find_opponent
from turncredit.envs.errors import EnvError, UnknownOption
from turncredit.envs.validation import integer
from turncredit.installation import needs
from turncredit.registry import suggest

__all__ = ["TextArenaEnv"]

_MISSING: Final = "TextArena's games need the package textarena"
_LISTED: Final = re.compile(r"'(\[[^\]\n]+\])'")
"""A move as games list it: '[4]'."""
_OTHERS_MOVES: Final = 10_000
_DRAWS: Final = 100
"""Games that are drawn for a task until the agent has a move."""
_PROBES: Final = 8
"""Games in which listed moves are tried, when an environment is made."""
_PROBED_MOVES: Final = 200
_NAME_ONE: Final = (
    "an opponent that chooses among listed moves cannot play it: name a function, opponent=module:function"
)
_AGENT: Final = {
    "prompt": "conversation",
    "template": {"system": "You play a game, one move at a time.\n\n", "ask": "\n\nYour move:"},
    "parser": "whole",
    "without_chat_template": {"stop": ["\n\n"]},
}


class _State(Protocol):
    error_count: int
    game_info: Mapping[int, Mapping[str, object]]


class _Game(Protocol):
    state: _State

    def reset(self, num_players: int, seed: int) -> None: ...
    def get_observation(self) -> tuple[int, object]: ...
    def step(self, action: str) -> tuple[bool, object]: ...
    def close(self) -> tuple[Mapping[int, float] | None, Mapping[int, Mapping[str, object]]]: ...


class TextArenaEnv(SeededGame):
    """Play a game of TextArena.

    The reward comes at the end: the game's, from -1 (lost) to 1 (won). The score is that reward for a single player,
    and (reward + 1) / 2 against opponents.

    Args:
        game: id of a game, such as "TicTacToe-v0" or "Wordle-v0".
        opponent: who plays the other seats: "random" and "first" choose among the moves that the game lists; or
            "module:function" (see `turncredit.envs.adapters.opponents`).
        players: number of seats; None: 1 where the game can be played alone, else 2.
        seat: which seat the agent has, from 0; None: the seats take turns from task to task.
        split: "train" or "held_out".
        options: further arguments of the game.
        render_mode: None or "ansi".

    Raises:
        UnknownOption: an argument is invalid, there is no such game, or the opponent chooses among listed moves, and
            the game does not list the allowed ones at every turn.
        EnvError: textarena is not installed, or the game needs data that are not there.
    """

    metadata = SeededGame.metadata | {"agent": _AGENT}
    EXAMPLE_ACTION = "[4]"

    def __init__(
        self,
        game: str = "TicTacToe-v0",
        opponent: object = "random",
        players: int | None = None,
        seat: int | None = None,
        split: str = "train",
        *,
        options: Mapping[str, object] | None = None,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(game, split, render_mode)
        self._make = _maker(game, dict(options or {}))
        self._players = _players(self._make) if players is None else integer("players", players, 1)
        self._own = None if seat is None else integer("seat", seat, 0, self._players - 1)
        self._opponent = find_opponent(opponent)
        self._name = game
        self._game: _Game | None = None
        self._heard: dict[int, str] = {}
        self._seat = 0
        if self._players > 1 and opponent in LISTING:
            _require_listed_moves(self._make, game, self._players)

    def begin(self, seed: int) -> GameOutcome:
        self._seat = seed % self._players if self._own is None else self._own
        for attempt in range(_DRAWS):
            outcome = self._begin(seed + attempt * len(SPLITS) * PER_SPLIT)
            if not outcome.over:
                return outcome
        raise EnvError(
            f"{self._name} was over before the agent's first move in {_DRAWS} draws: choose another opponent, or seat=0"
        )

    def _begin(self, seed: int) -> GameOutcome:
        self._seeds, self._random = GlobalSeeds(seed), np.random.default_rng(seed)
        self._heard = {}
        with global_seeds(self._seeds):
            self._game = self._make()
            try:
                self._game.reset(num_players=self._players, seed=seed)
            except (AssertionError, ValueError, LookupError) as error:
                raise UnknownOption(f"{self._name} cannot be played by {self._players}: {error}") from error
            return self._until_own_move(self._game, over=False)

    def move(self, action: str) -> GameOutcome:
        game = self._game
        assert game is not None
        before = game.state.error_count if hasattr(game.state, "error_count") else 0
        with global_seeds(self._seeds):
            over = bool(game.step(action)[0])
            after = getattr(game.state, "error_count", 0)
            lost = bool(game.state.game_info.get(self._seat, {}).get("invalid_move"))
            return self._until_own_move(game, over, valid=after <= before and not lost)

    def _until_own_move(self, game: _Game, over: bool, valid: bool = True) -> GameOutcome:
        """Let the others play until it is the agent's turn or the game is over."""
        for _ in range(_OTHERS_MOVES):
            if over:
                return self._end(game, valid)
            seat, text = self._read(game)
            if seat == self._seat:
                return GameOutcome(text, valid=valid)
            moves = _listed_moves(text)
            over = bool(game.step(self._opponent(text, moves, self._random))[0])
        raise EnvError(f"{self._name}: the other seats made {_OTHERS_MOVES:,} moves, and it is not the agent's turn")

    def _read(self, game: _Game) -> tuple[int, str]:
        """Return whose turn it is, and what this seat has not read yet."""
        seat, observation = game.get_observation()
        text = str(observation)
        before = self._heard.get(seat, "")
        self._heard[seat] = text
        return seat, (text.removeprefix(before) if before else text).strip()

    def _end(self, game: _Game, valid: bool) -> GameOutcome:
        rewards, facts = game.close()
        reward = float((rewards or {}).get(self._seat, 0.0))
        reason = str(facts.get(self._seat, {}).get("reason") or "")
        score = reward if self._players == 1 else (reward + 1) / 2
        score = min(1.0, max(0.0, score))
        text = f"The game is over. {reason}".strip()
        return GameOutcome(text, reward, valid, over=True, score=score, won=score >= 1.0)


def _listed_moves(text: str) -> list[str]:
    """Return the moves of the last line that lists any: those before it are of rules, or of earlier turns."""
    lists = (list(dict.fromkeys(_LISTED.findall(line))) for line in reversed(text.splitlines()))
    return next((moves for moves in lists if moves), [])


def _require_listed_moves(make: Callable[[], _Game], name: str, players: int) -> None:
    """Play some games with random listed moves of all seats, and see whether they are always listed and allowed.

    Raises:
        UnknownOption: they are not, so that an opponent cannot choose among them.
    """
    for seed in range(_PROBES):
        rng = np.random.default_rng(seed)
        with global_seeds(GlobalSeeds(seed)):
            game, heard = make(), dict[int, str]()
            try:
                game.reset(num_players=players, seed=seed)
            except (AssertionError, ValueError, LookupError):
                return  # reset() says that this number cannot play
            for _ in range(_PROBED_MOVES):
                seat, observation = game.get_observation()
                text, before = str(observation), heard.get(seat, "")
                heard[seat] = text
                moves = _listed_moves(text.removeprefix(before))
                if not moves:
                    raise UnknownOption(f"{name} does not list the moves of every turn; {_NAME_ONE}")
                move, errors = moves[int(rng.integers(len(moves)))], getattr(game.state, "error_count", 0)
                over = bool(game.step(move)[0])
                refused = game.state.game_info.get(seat, {}).get("invalid_move")
                if refused or getattr(game.state, "error_count", 0) > errors:
                    raise UnknownOption(f"{name} lists {move!r} where it is not allowed; {_NAME_ONE}")
                if over:
                    break


def _maker(name: str, options: dict[str, object]) -> Callable[[], _Game]:
    """Return a function that makes a game."""
    try:
        import textarena
        from textarena.envs.registration import ENV_REGISTRY
    except ImportError as missing:
        raise EnvError(needs(_MISSING, "textarena")) from missing
    if name not in ENV_REGISTRY:
        raise UnknownOption(f"unknown game {name!r}{suggest(str(name), sorted(ENV_REGISTRY))}")

    def make() -> _Game:
        try:
            game: _Game = textarena.make(name, **options)
        except TypeError as error:
            raise UnknownOption(f"{name} cannot be made with {options}: {error}") from error
        except (LookupError, OSError, ImportError) as error:
            raise EnvError(f"{name} cannot be made: {' '.join(str(error).replace('*', ' ').split())[:300]}") from error
        return game

    return make


def _players(make: Callable[[], _Game]) -> int:
    """Return how many play a game by default: 1 where that is possible, else 2."""
    with global_seeds(GlobalSeeds(0)):
        try:
            make().reset(num_players=1, seed=0)
        except (AssertionError, ValueError, LookupError):
            return 2
    return 1
