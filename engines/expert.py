"""The environment's expert as a sampler."""

from __future__ import annotations

from turncredit.agents.errors import AgentError, NoPlan
from turncredit.agents.models.tokenization import Tokenizer
from turncredit.agents.prompts.prompt import View
from turncredit.engines.base import Planner, Request, SamplerSettings
from turncredit.engines.scripted import ActionSampler, random_action, turn_rng
from turncredit.envs.errors import EnvError

__all__ = ["Expert"]


class Expert(ActionSampler):
    """Follows the environment's `plan()`.

    Planning is expensive, so a plan is followed to its end. A new one is made after a random action, after an action
    that the environment called invalid, and when the next action cannot be admissible. Where the environment has no
    plan (games have dead ends), a random admissible action is played; `guesses` holds those turns, which nobody
    should imitate.
    """

    def __init__(
        self, noise: float = 0.0, *, seed: int = 0, parser: str = "bare", tokenizer: Tokenizer | None = None
    ) -> None:
        """Check the noise.

        Args:
            noise: probability [0, 1] that a turn plays a random admissible action.
            seed: mixed into every draw.
            parser: parser of the agent; answers have its form.
            tokenizer: encodes the answers; None leaves the ids empty.
        """
        if not 0 <= noise <= 1:
            raise AgentError(f"noise must be a probability in [0, 1], got {noise}")
        super().__init__(parser, tokenizer)
        self._noise = noise
        self._seed = seed
        self._planners: dict[str, Planner] = {}
        self._plans: dict[str, list[str]] = {}
        self._failures: dict[str, tuple[int, int]] = {}
        self.guesses: set[tuple[str, int]] = set()
        """(episode, turn) of the actions that were drawn because there was no plan."""

    @classmethod
    def from_settings(cls, settings: SamplerSettings) -> Expert:
        """Follow the environment's plan; the option `noise` lets it make mistakes.

        Raises:
            AgentError: the noise is no probability.
        """
        noise = settings.options.get("noise", 0.0)
        if isinstance(noise, bool) or not isinstance(noise, int | float):
            raise AgentError(f"noise must be a probability in [0, 1], got {noise!r}")
        return cls(noise, seed=settings.seed, parser=settings.parser, tokenizer=settings.tokenizer)

    def attach(self, episode: str, planner: Planner) -> None:
        """Use the planner for the episode."""
        self._planners[episode] = planner

    def action(self, request: Request) -> str:
        """Return the next action of the plan, or a random one.

        Raises:
            AgentError: the environment has no `plan()`, or it lists no actions to draw from.
            NoPlan: there is no way to success, and the environment lists no actions to draw from.
        """
        episode = request.episode
        if episode not in self._planners:
            raise AgentError("the expert needs an environment with plan(), and this one has none")
        rng = turn_rng(request, self._seed)
        if self._noise and rng.random() < self._noise:
            self._plans.pop(episode, None)
            return random_action(request, rng)
        plan = self._plans.get(episode)
        if not plan or not _possible(plan[0], request.view):
            try:
                plan = self._plan(request)
            except (NoPlan, EnvError):
                if request.view.admissible is None:
                    raise
                self.guesses.add((episode, request.turn))
                self._plans.pop(episode, None)
                return random_action(request, rng)
        if not plan:
            return ""
        self._plans[episode] = plan[1:]
        return plan[0]

    def replan(self, episode: str) -> None:
        """Drop the plan of an episode: somebody else chose its last action."""
        self._plans.pop(episode, None)
        self._failures.pop(episode, None)

    def guessed(self, request: Request) -> bool:
        """Return whether there was no plan for the request."""
        return (request.episode, request.turn) in self.guesses

    def forget(self, episode: str) -> None:
        """Drop the plan and the planner of an episode that is over."""
        self.replan(episode)
        self._planners.pop(episode, None)

    def _plan(self, request: Request) -> list[str]:
        """Ask for a plan; after the n-th failure in a row, not before 2^(n-1) turns have passed."""
        failures, earliest = self._failures.get(request.episode, (0, 0))
        if request.turn < earliest:
            raise NoPlan("there was no plan a few turns ago")
        try:
            plan = list(self._planners[request.episode]())
        except (NoPlan, EnvError):
            self._failures[request.episode] = (failures + 1, request.turn + 2**failures)
            raise
        self._failures.pop(request.episode, None)
        return plan


def _possible(action: str, view: View) -> bool:
    """Return whether the next action of a plan may be admissible, given that the one before was valid.

    A list of actions is complete only if the environment has no free forms: with them, a plan may contain actions that
    are not listed.
    """
    if view.valid is False:
        return False
    return view.admissible is None or bool(view.free) or action in view.admissible
