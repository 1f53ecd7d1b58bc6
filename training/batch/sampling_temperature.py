"""The temperatures at which tokens were sampled, as factors of the run's."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from turncredit.agents.agent import Agent
from turncredit.agents.annealing import Annealing
from turncredit.agents.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class SamplingTemperature:
    """At which temperature a run samples.

    Attributes:
        value: > 0, of every token, where neither the episode nor its annealing says otherwise.
        annealing: by which it depends on the position in an answer; None: it does not.
    """

    value: float = 1.0
    annealing: Annealing | None = None

    @classmethod
    def of(cls, agent: Agent) -> "SamplingTemperature":
        """Return that of an agent."""
        return cls(agent.temperature, agent.annealing)

    def varies(self, trajectory: Trajectory) -> bool:
        """Return whether tokens of a trajectory were sampled at another temperature than `value`."""
        return self.annealing is not None or trajectory.temperature is not None

    def factors(self, trajectory: Trajectory, tokens: int) -> NDArray[np.float64]:
        """Return the factors of `value` at which an answer of a trajectory was sampled; float64 [tokens].

        An episode's own temperature takes the place of `value`, and is annealed as well.
        """
        factors = np.ones(tokens) if self.annealing is None else np.asarray(self.annealing.factors(tokens))
        own = trajectory.temperature
        return factors if own is None else factors * (own / self.value)


AT_ONE = SamplingTemperature()
"""Temperature 1 at every token."""
