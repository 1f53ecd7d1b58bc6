"""Teachers: other models that play episodes of a run in the place of its policy."""

from __future__ import annotations

from dataclasses import dataclass, field

from turnwise.agents.agent import Agent
from turnwise.agents.samplers.base import Sampler, SamplerSettings, parse_sampler
from turnwise.agents.samplers.wrappers import make_sampler
from turnwise.training.config.agents import MakeAgent
from turnwise.training.config.run import Run
from turnwise.training.config.seeds import Seeds

__all__ = ["RunTeachers"]


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

    def __call__(self, name: str) -> tuple[Agent, Sampler]:
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

    def close(self) -> None:
        """Close those that were opened."""
        for _, sampler in self._opened.values():
            sampler.close()
        self._opened.clear()
