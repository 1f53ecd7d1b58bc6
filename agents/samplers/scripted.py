"""Samplers without a model: `Scripted`, `Random`, `Expert`, `Demonstrated`, and `FromCallable` for any player of text.

They make baselines, demonstrations and tests. With a tokenizer they fill in the ids that a model would have sampled for
the same text (log-probability 0: the text was certain); without one the ids stay empty, and
`turnwise.agents.tokens` fills them in later. Left out on purpose: anything that learns.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from turnwise.agents.chat import Tokenizer, codec_of
from turnwise.agents.env_pool import NoPlan
from turnwise.agents.errors import AgentError, choices
from turnwise.agents.parse import parser as parser_of
from turnwise.agents.prompt import View
from turnwise.agents.samplers.base import Completion, Request, task_of
from turnwise.envs.errors import EnvError
from turnwise.envs.info import Demonstrator

__all__ = ["Actor", "Demonstrated", "Expert", "FromCallable", "Random", "Scripted"]


class _Played:
    """What all samplers without a model share: the form of the answer, and nothing to load or cache."""

    context: int | None = None

    def __init__(self, parser: str = "bare", tokenizer: Tokenizer | None = None) -> None:
        self.version = 0
        self.tokenizer = tokenizer
        self._parser = parser_of(parser)

    async def sample(self, request: Request) -> Completion:
        """Return the action of this turn in the form that the agent's parser reads."""
        action = self.action(request)
        text = self._parser.write(action) if action else ""
        tokens = () if self.tokenizer is None else codec_of(self.tokenizer).answer(text)
        return Completion(tokens, (0.0,) * len(tokens), text, self.version, "stop")

    def action(self, request: Request) -> str:
        """Return the action of this turn; "" answers with an empty text."""
        raise NotImplementedError(f"{type(self).__name__} does not say which action to play")

    def forget(self, episode: str) -> None:
        """Nothing is kept for an episode."""

    def load(self, model: object, version: int) -> None:
        """There are no weights: only the version is taken over."""
        self.version = version

    def close(self) -> None:
        """Nothing is held."""


class Scripted(_Played):
    """Plays given actions turn by turn; one list for every task, or one for each."""

    def __init__(
        self,
        actions: Sequence[str] | Mapping[str, Sequence[str]],
        *,
        parser: str = "bare",
        tokenizer: Tokenizer | None = None,
    ) -> None:
        """Keep the script.

        Args:
            actions: the actions in order, or task id -> actions. After the last one the answers are empty.
            parser: name of the form that the agent reads.
            tokenizer: fills in the ids; None leaves them empty.

        """
        super().__init__(parser, tokenizer)
        self._actions = actions

    def action(self, request: Request) -> str:
        """Return the next action of the script.

        Raises:
            AgentError: there is no script for the task.

        """
        script = self._actions
        if isinstance(script, Mapping):
            task = task_of(request.episode)
            if task not in script:
                raise AgentError(choices("task in the script", task, script))
            script = script[task]
        return script[request.turn] if request.turn < len(script) else ""


class Random(_Played):
    """Plays a uniform draw from the admissible actions: the baseline that a policy has to beat."""

    def __init__(self, seed: int = 0, *, parser: str = "bare", tokenizer: Tokenizer | None = None) -> None:
        """Keep the seed; the draw depends on it, on the episode's sampling seed and on the turn alone."""
        super().__init__(parser, tokenizer)
        self._seed = seed

    def action(self, request: Request) -> str:
        """Return one of the admissible actions.

        Raises:
            AgentError: the environment does not list them.

        """
        return _uniform(request, _dice(request, self._seed))


class Expert(_Played):
    """Plays the plan of the environment (`plan()`), with a share of uniform admissible actions as noise.

    Where the environment knows no way to success (games have dead ends), a uniform admissible action is played instead;
    `guesses` holds those turns, since nobody should imitate them.
    """

    def __init__(
        self, noise: float = 0.0, *, seed: int = 0, parser: str = "bare", tokenizer: Tokenizer | None = None
    ) -> None:
        """Keep the noise.

        Args:
            noise: probability [0, 1] that a turn plays a uniform admissible action instead of the plan's next.
            seed: mixed into every draw.
            parser: name of the form that the agent reads.
            tokenizer: fills in the ids; None leaves them empty.

        """
        if not 0 <= noise <= 1:
            raise AgentError(f"noise is {noise}: a probability from 0 to 1 was wanted")
        super().__init__(parser, tokenizer)
        self._noise = noise
        self._seed = seed
        self._plans: dict[str, list[str]] = {}
        self._lost: dict[str, tuple[int, int]] = {}
        self.guesses: set[tuple[str, int]] = set()
        """(episode, turn) of what was drawn because there was no plan."""

    def action(self, request: Request) -> str:
        """Return the next action of the plan, or a random one.

        Raises:
            AgentError: the environment has no `plan()`, or noise is asked for and it lists no actions.
            NoPlan: there is no way to success, and the environment lists no actions to draw from.

        """
        if request.plan is None:
            raise AgentError("the expert needs an environment with plan(); this one has none")
        dice = _dice(request, self._seed)
        if self._noise and dice.random() < self._noise:
            self._plans.pop(request.episode, None)
            return _uniform(request, dice)
        rest = self._plans.get(request.episode)
        # planning is dear: a plan is followed until noise left it, or until its next action is not possible
        if not rest or (request.view.admissible is not None and rest[0] not in request.view.admissible):
            try:
                rest = self._planned(request)
            except (NoPlan, EnvError):
                if request.view.admissible is None:
                    raise
                self.guesses.add((request.episode, request.turn))
                self._plans.pop(request.episode, None)
                return _uniform(request, dice)
        if not rest:
            return ""
        self._plans[request.episode] = rest[1:]
        return rest[0]

    def _planned(self, request: Request) -> list[str]:
        """Ask for a plan; in a dead end ever more seldom, since finding that there is none is the dearest search."""
        assert request.plan is not None
        failures, again = self._lost.get(request.episode, (0, 0))
        if request.turn < again:
            raise NoPlan("there was no plan a few turns ago")
        try:
            plan = list(request.plan())
        except (NoPlan, EnvError):
            self._lost[request.episode] = (failures + 1, request.turn + 2**failures)
            raise
        self._lost.pop(request.episode, None)
        return plan

    def forget(self, episode: str) -> None:
        """Drop the plan of an episode that is over."""
        self._plans.pop(episode, None)
        self._lost.pop(episode, None)


class Actor(Protocol):
    """A player of one episode."""

    def act(self, view: View) -> str:
        """Return the action for what is seen now; it is called once a turn, in order."""


class FromCallable(_Played):
    """Plays with an object of the caller's for every episode: a rule, a search, a person."""

    def __init__(self, make: Callable[[], Actor], *, parser: str = "bare", tokenizer: Tokenizer | None = None) -> None:
        """Keep the maker.

        Args:
            make: returns a fresh player; called at the first turn of every episode.
            parser: name of the form that the agent reads.
            tokenizer: fills in the ids; None leaves them empty.

        """
        super().__init__(parser, tokenizer)
        self._make = make
        self._actors: dict[str, Actor] = {}

    def action(self, request: Request) -> str:
        """Return what the episode's own player does."""
        if request.turn == 0 or request.episode not in self._actors:
            self._actors[request.episode] = self._make()
        return self._actors[request.episode].act(request.view)

    def forget(self, episode: str) -> None:
        """Drop the player of an episode that is over."""
        self._actors.pop(episode, None)


class _Reading:
    """A demonstrator as a player of one episode."""

    def __init__(self, demonstrator: Demonstrator) -> None:
        self._demonstrator = demonstrator

    def act(self, view: View) -> str:
        """Show it what is seen, and at first also how the episode began."""
        if view.turn == 0:
            self._demonstrator.start(view.start)
        return self._demonstrator.act(view.observation, view.admissible or ())


class Demonstrated(FromCallable):
    """Plays with one of an environment's own demonstrators (`turnwise.envs.demonstrators`)."""

    def __init__(
        self, make: Callable[[], Demonstrator], *, parser: str = "bare", tokenizer: Tokenizer | None = None
    ) -> None:
        """Keep the maker.

        Args:
            make: returns a fresh demonstrator; called at the first turn of every episode.
            parser: name of the form that the agent reads.
            tokenizer: fills in the ids; None leaves them empty.

        """
        super().__init__(lambda: _Reading(make()), parser=parser, tokenizer=tokenizer)


def _dice(request: Request, seed: int) -> random.Random:
    # one generator a turn: the draw must not depend on which other episodes were served before
    return random.Random(f"{seed}/{request.seed}/{request.turn}")


def _uniform(request: Request, dice: random.Random) -> str:
    actions = request.view.admissible
    if actions is None:
        raise AgentError("a random action was wanted, but the environment does not list its admissible actions")
    return dice.choice(actions) if actions else ""
