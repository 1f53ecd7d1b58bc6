"""Seeds of a run: one for each purpose, all of them from the run's own."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Seeds:
    """The seeds of everything random in a run.

    >>> Seeds(0).of("tasks") == Seeds(0).of("tasks"), Seeds(0).of("tasks") == Seeds(1).of("tasks")
    (True, False)

    Attributes:
        seed: seed of the run.
    """

    seed: int

    def of(self, purpose: str, number: int = 0) -> int:
        """Return the seed of one purpose: a 31-bit hash of the run's seed, the purpose, and a number."""
        entropy = [self.seed, number, *purpose.encode("ascii")]
        return int(np.random.SeedSequence(entropy).generate_state(1)[0]) >> 1
