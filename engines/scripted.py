"""Samplers without a model: `Scripted`, `Random`, and `PlayerSampler` for rules, searches and demonstrators.

They serve as baselines, for demonstrations and in tests. With a tokenizer they return the ids that a model would have
sampled for the same text, with log-probability 0. Without one the ids stay empty, and
`turncredit.agents.demonstrations.tokens` can fill them in later.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from turncredit.agents.errors import AgentError, RequestFailed, look_up
from turncredit.agents.models.tokenization import Tokenizer, codec_of
from turncredit.agents.models.weights import Weights
from turncredit.agents.prompts.parsing import PARSERS, Parser
from turncredit.agents.prompts.prompt import View
from turncredit.engines.base import Completion, Request, Sampler, SamplerSettings, task_of
from turncredit.envs.free_text import random_text
from turncredit.envs.info import Demonstrator
from turncredit.registry import suggest

__all__ = ["ActionSampler", "DemonstratorSampler", "EpisodePlayer", "PlayerSampler", "Random", "Scripted"]


class ActionSampler(Sampler):
    """Base of the samplers that choose actions themselves; subclasses define `action`."""

    images = True

    def __init__(self, parser: str = "bare", tokenizer: Tokenizer | None = None) -> None:
        """Find the parser.

        Args:
            parser: parser of the agent; answers have its form.
            tokenizer: encodes the answers; None leaves the ids empty.
        """
        self.tokenizer = tokenizer
        self._parser = look_up(PARSERS, parser)

    async def sample(self, request: Request) -> Completion:
        """Return the action of this turn in the form of the agent's parser."""
        action = self.action(request)
        text = self.parser_of(request).write(action) if action else ""
        tokens = () if self.tokenizer is None else codec_of(self.tokenizer).response(text, request.end)
        return Completion(tokens, (0.0,) * len(tokens), text, self.version, "stop")

    def parser_of(self, request: Request) -> Parser:
        """Return the parser that reads the answer to a request."""
        return look_up(PARSERS, request.parser) if request.parser else self._parser

    @abstractmethod
    def action(self, request: Request) -> str:
        """Return the action of this turn; "" gives an empty answer."""

    def replan(self, episode: str) -> None:
        """Drop what was planned for an episode: somebody else chose its last action."""

    def guessed(self, request: Request) -> bool:
        """Return whether the answer to a request was a guess, which nobody should imitate."""
        return False

    async def use(self, weights: Weights, version: int) -> None:
        """Take over the version; there are no weights."""
        self.version = version


class Scripted(ActionSampler):
    """Plays given actions turn by turn."""

    def __init__(
        self,
        actions: Sequence[str] | Mapping[str, Sequence[str]],
        *,
        parser: str = "bare",
        tokenizer: Tokenizer | None = None,
    ) -> None:
        """Keep the script.

        Args:
            actions: the actions of every task, or a mapping of task ids to actions. After the last action the answers
                are empty.
            parser: parser of the agent; answers have its form.
            tokenizer: encodes the answers; None leaves the ids empty.
        """
        super().__init__(parser, tokenizer)
        self._actions = actions

    @classmethod
    def from_settings(cls, settings: SamplerSettings) -> Scripted:
        """Play the actions of a script; options: actions.

        Raises:
            AgentError: the settings have no actions.
        """
        actions = settings.options.get("actions")
        if not isinstance(actions, Sequence | Mapping) or isinstance(actions, str):
            raise AgentError(
                f"the sampler scripted needs the option actions, a list or a mapping of tasks to lists; got {actions!r}"
            )
        return cls(actions, parser=settings.parser, tokenizer=settings.tokenizer)

    def action(self, request: Request) -> str:
        """Return the next action of the script.

        Raises:
            AgentError: there is no script for the task.
        """
        script = self._actions
        if isinstance(script, Mapping):
            task = task_of(request.episode)
            if task not in script:
                raise AgentError(f"there is no script for the task {task!r}{suggest(task, script)}")
            script = script[task]
        return script[request.turn] if request.turn < len(script) else ""


class Random(ActionSampler):
    """Plays a uniformly random admissible action; where none is listed, words that it has read as free text."""

    def __init__(self, seed: int = 0, *, parser: str = "bare", tokenizer: Tokenizer | None = None) -> None:
        """Keep the seed; a draw depends on it, on the episode's sampling seed and on the turn alone."""
        super().__init__(parser, tokenizer)
        self._seed = seed

    @classmethod
    def from_settings(cls, settings: SamplerSettings) -> Random:
        """Play a uniformly random admissible action."""
        return cls(settings.seed, parser=settings.parser, tokenizer=settings.tokenizer)

    def action(self, request: Request) -> str:
        """Return one of the admissible actions, or free text.

        Raises:
            AgentError: the environment names neither admissible actions nor forms of free text.
            RequestFailed: it names them no more.
        """
        return random_action(request, turn_rng(request, self._seed))


class EpisodePlayer(Protocol):
    """Chooses the actions of one episode."""

    def act(self, view: View) -> str:
        """Return the action of this turn; called once for each turn, in order."""


class PlayerSampler(ActionSampler):
    """Plays each episode with an object of its own: a rule, a search, a person."""

    def __init__(
        self, make: Callable[[], EpisodePlayer], *, parser: str = "bare", tokenizer: Tokenizer | None = None
    ) -> None:
        """Keep how to make players.

        Args:
            make: returns a new player; called at the first turn of every episode.
            parser: as for `ActionSampler`.
            tokenizer: as for `ActionSampler`.
        """
        super().__init__(parser, tokenizer)
        self._make = make
        self._players: dict[str, EpisodePlayer] = {}

    def action(self, request: Request) -> str:
        """Return the action of the episode's player."""
        if request.turn == 0 or request.episode not in self._players:
            self._players[request.episode] = self._make()
        return self._players[request.episode].act(request.view)

    def forget(self, episode: str) -> None:
        """Drop the player of an episode that is over."""
        self._players.pop(episode, None)


class _DemonstratorPlayer:
    """A demonstrator of an environment as a player."""

    def __init__(self, demonstrator: Demonstrator) -> None:
        self._demonstrator, self._started = demonstrator, False

    def act(self, view: View) -> str:
        """Return the demonstrator's action; in a fork it has seen the first observation, and none between."""
        if not self._started:
            self._demonstrator.start(view.start)
            self._started = True
        return self._demonstrator.act(view.observation, view.admissible or ())


class DemonstratorSampler(PlayerSampler):
    """Plays with one of an environment's own demonstrators (see `turncredit.envs.demonstrators`)."""

    def __init__(
        self, make: Callable[[], Demonstrator], *, parser: str = "bare", tokenizer: Tokenizer | None = None
    ) -> None:
        """Keep how to make demonstrators.

        Args:
            make: returns a new demonstrator; called at the first turn of every episode.
            parser: parser of the agent; answers have its form.
            tokenizer: encodes the answers; None leaves the ids empty.
        """
        super().__init__(lambda: _DemonstratorPlayer(make()), parser=parser, tokenizer=tokenizer)


def turn_rng(request: Request, seed: int) -> random.Random:
    """Return the random generator of one turn; it does not depend on other episodes."""
    return random.Random(f"{seed}/{request.seed}/{request.turn}")


def random_action(request: Request, rng: random.Random) -> str:
    """Return a uniformly random admissible action, or "" if there is none.

    Where none is listed, it is a form of free text that the environment names, with words that the agent has read.

    Raises:
        AgentError: the environment names neither.
        RequestFailed: it did at the start of the episode, but does not now.
    """
    actions = request.view.admissible
    if actions is None:
        if request.view.free:
            return random_text(request.view.free, (request.view.start, request.view.observation), rng)
        if request.turn:
            raise RequestFailed(
                f"turn {request.turn}: a random action needs admissible actions or forms of free text, and the "
                "environment names none any more"
            )
        raise AgentError(
            "a random action needs admissible actions or forms of free text, and the environment names neither in "
            "info['admissible_actions'] and info['free_actions']; `turncredit check` plays texts without meaning"
        )
    return rng.choice(actions) if actions else ""
