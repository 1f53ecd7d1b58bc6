"""Which tasks come next: a seeded stream over a fixed list, epoch by epoch, that can be stopped and continued.

Left out on purpose: curricula and dynamic sampling; they would be other classes with the same three methods.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from turnwise.training.errors import CheckpointError, TrainingError


class TaskSampler:
    """An endless stream of task ids: every epoch visits each task once, in an order of its own.

    The stream is a pure function of (tasks, seed); where it stands is one number.

    >>> sampler = TaskSampler(["a", "b", "c"], seed=0)
    >>> sorted(sampler.next(3)), sampler.state_dict()["position"]
    (['a', 'b', 'c'], 3)
    """

    def __init__(self, tasks: Sequence[str], seed: int) -> None:
        """Start at the beginning of the stream.

        Args:
            tasks: ids, in a fixed order.
            seed: of the orders.

        Raises:
            TrainingError: there is no task.
        """
        if not tasks:
            raise TrainingError("the environment lists no task to train on")
        self._tasks = tuple(tasks)
        self._seed = seed
        self._position = 0
        self._epoch, self._order = -1, np.zeros(0, dtype=np.int64)

    def next(self, count: int) -> list[str]:
        """Give the next `count` ids of the stream."""
        return [self._next() for _ in range(count)]

    def _next(self) -> str:
        epoch, index = divmod(self._position, len(self._tasks))
        if epoch != self._epoch:
            self._epoch = epoch
            self._order = np.random.default_rng([self._seed, epoch]).permutation(len(self._tasks))
        self._position += 1
        return self._tasks[int(self._order[index])]

    def state_dict(self) -> dict[str, Any]:
        """Give where the stream stands, as JSON can hold it."""
        return {"seed": self._seed, "count": len(self._tasks), "position": self._position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where a stream stood.

        Raises:
            CheckpointError: it was a stream over another number of tasks, or of another seed.
        """
        mine = self.state_dict()
        for key in ("seed", "count"):
            if state.get(key) != mine[key]:
                raise CheckpointError(
                    f"the checkpoint's sampler of tasks had {key} {state.get(key)}, this run has {mine[key]}"
                )
        self._position = int(state["position"])
