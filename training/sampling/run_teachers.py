"""Teachers: other models that play episodes of a run in the place of its policy."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from turncredit.agents.agent import Agent
from turncredit.agents.demonstrations.tokens import tokenize_trajectory
from turncredit.agents.errors import PromptError
from turncredit.agents.trajectory import Trajectory
from turncredit.engines.base import Sampler, SamplerSettings, parse_sampler
from turncredit.engines.wrappers import make_sampler
from turncredit.training.config.agents import MakeAgent
from turncredit.training.config.run import Run
from turncredit.training.config.seeds import Seeds

__all__ = ["RunTeachers", "in_tokens_of"]


@dataclass(slots=True)
class RunTeachers:
    """Opens the teachers of a run when they are first asked for.

    Attributes:
        run: names them, ENGINE:MODEL or ENGINE:MODEL@URL.
        agents: makes the agent for a tokenizer: each teacher sees its own template.
    """

    run: Run
    agents: MakeAgent
    _opened: dict[str, tuple[Agent, Sampler]] = field(default_factory=dict)

    def player(self, name: str) -> tuple[Agent, Sampler]:
        """Return a teacher and its agent.

        Args:
            name: of the teacher, as the run writes it.

        Raises:
            AgentError: the sampler cannot be made.
        """
        if name not in self._opened:
            engine, model, url = parse_sampler(name)
            settings = SamplerSettings(
                model=model,
                url=url,
                device=self.run.policy.device,
                concurrency=self.run.train.concurrency,
                seed=Seeds(self.run.seed).of("teacher"),
                parser=self.run.agent.parser,
            )
            sampler = make_sampler(engine, settings)
            self._opened[name] = self.agents(sampler.tokenizer), sampler
        return self._opened[name]

    def told(self, trajectory: Trajectory, agent: Agent, sampler: Sampler) -> Trajectory:
        """Return an episode of a teacher in the policy's tokens; see `in_tokens_of`."""
        return in_tokens_of(agent, sampler, trajectory)

    def close(self) -> None:
        """Close those that were opened."""
        for _, sampler in self._opened.values():
            sampler.close()
        self._opened.clear()


def in_tokens_of(agent: Agent, sampler: Sampler, trajectory: Trajectory) -> Trajectory:
    """Return an episode of another model as if the policy had been given and had said the same.

    Its turns have the policy's ids, log-probabilities of 0, and the version of the policy's weights. An episode has
    failed that does not fit into the policy's context, or that the policy's template cannot write; its siblings go on.

    Args:
        agent: of the policy.
        sampler: of the policy; without a tokenizer, the episode stays as it is.
        trajectory: that the other model played.
    """
    if sampler.tokenizer is None:
        return trajectory
    try:
        written = tokenize_trajectory(trajectory, agent, sampler.tokenizer, context=sampler.context)
    except PromptError as refusal:
        turns = tuple(replace(turn, prompt=(), response=(), logprobs=()) for turn in trajectory.turns)
        return replace(trajectory, turns=turns, stop="error", won=False, error=f"{trajectory.teacher}: {refusal}")
    turns = tuple(replace(turn, version=sampler.version, switches=()) for turn in written.turns)
    longest = max((len(turn.prompt) + len(turn.response) for turn in turns), default=0)
    if sampler.context is not None and longest > sampler.context:
        error = f"{trajectory.teacher} played {longest} tokens, which do not fit into the policy's {sampler.context}"
        return replace(written, turns=turns, stop="error", won=False, error=error)
    return replace(written, turns=turns)
