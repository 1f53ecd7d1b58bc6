"""A sampler that plays in any environment: mostly its plan, else something admissible, sometimes nonsense."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turncredit.agents.errors import AgentError, NoPlan
from turncredit.agents.models.tokenization import codec_of
from turncredit.engines.base import Completion, Planner, Request, Sampler
from turncredit.engines.scripted import ActionSampler, turn_rng
from turncredit.envs.errors import EnvError


class Wanderer(ActionSampler):
    """Draws each action from the sampling seed and the turn alone."""

    def __init__(self, plans: float = 0.5, **options: Any) -> None:
        super().__init__(**options)
        self._plans = plans
        self._planners: dict[str, Planner] = {}

    def attach(self, episode: str, planner: Planner) -> None:
        self._planners[episode] = planner

    def action(self, request: Request) -> str:
        rng = turn_rng(request, 0)
        draw = rng.random()
        if draw < 0.1:
            return ""
        if draw < 0.2:
            return "no such thing"
        listed = request.view.admissible or ()
        if request.episode in self._planners and (not listed or rng.random() < self._plans):
            try:
                plan = self._planners[request.episode]()
            except (NoPlan, EnvError, AgentError):  # the last where nobody plays the task
                plan = []
            if plan:
                return plan[0]
        return rng.choice(listed) if listed else "no such thing"


class Parrot(Sampler):
    """Gives the same answers in each episode, turn by turn."""

    def __init__(self, answers: Sequence[str], tokenizer: Any = None) -> None:
        self.tokenizer = tokenizer
        self._answers = answers
        self.asked: list[int] = []

    async def sample(self, request: Request) -> Completion:
        self.asked.append(request.turn)
        text = self._answers[request.turn]
        tokens = () if self.tokenizer is None else codec_of(self.tokenizer).response(text, request.end)
        return Completion(tokens, (0.0,) * len(tokens), text, self.version, "stop")
