"""The order of training tasks: a seeded stream over a fixed list, epoch by epoch, that can be saved and resumed.

It is what the task rule `uniform` draws from.
"""

from collections.abc import Sequence

import numpy as np

from turnwise.training.errors import CheckpointError, TrainingError
from turnwise.training.states import State


class TaskSampler:
    """An endless stream of task ids; every epoch visits each task once, in its own order.

    The stream is a pure function of (tasks, seed), and its position is one number.

    >>> sampler = TaskSampler(["a", "b", "c"], seed=0)
    >>> sorted(sampler.next(3)), sampler.state_dict()["position"]
    (['a', 'b', 'c'], 3)
    """

    def __init__(self, tasks: Sequence[str], seed: int) -> None:
        """Start at the beginning of the stream.

        Args:
            tasks: ids, in a fixed order.
            seed: of the order of each epoch.

        Raises:
            TrainingError: there are no tasks.
        """
        if not tasks:
            raise TrainingError("the environment lists no task to train on")
        self._tasks = tuple(tasks)
        self._seed = seed
        self._position = 0
        self._epoch, self._order = -1, np.zeros(0, dtype=np.int64)

    def next(self, count: int) -> list[str]:
        """Return the next `count` ids of the stream."""
        return [self._next() for _ in range(count)]

    def at(self, position: int) -> str:
        """Return the id at a position of the stream, counted from 0."""
        epoch, index = divmod(position, len(self._tasks))
        if epoch != self._epoch:
            self._epoch = epoch
            self._order = np.random.default_rng([self._seed, epoch]).permutation(len(self._tasks))
        return self._tasks[int(self._order[index])]

    def _next(self) -> str:
        self._position += 1
        return self.at(self._position - 1)

    def state_dict(self) -> State:
        """Return the position of the stream, JSON-serializable."""
        return {"seed": self._seed, "count": len(self._tasks), "position": self._position}

    def load_state_dict(self, state: State) -> None:
        """Continue at the position of another stream over the same tasks.

        Raises:
            CheckpointError: it had another number of tasks or another seed.
        """
        mine = self.state_dict()
        for key in ("seed", "count"):
            if state.get(key) != mine[key]:
                raise CheckpointError(
                    f"the task sampler of the checkpoint had {key} {state.get(key)}, but this run has {mine[key]}"
                )
        self._position = int(state["position"])
