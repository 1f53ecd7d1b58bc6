"""The order of training tasks: a seeded stream over a fixed list, epoch by epoch, that can be saved and resumed.

In a mixture of environments, each part has a stream of its own, and the parts take turns by their weights, so that
every iteration has the share of each and a part with few tasks repeats them more often. The task rule `uniform` draws
from it.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from turncredit.curriculum.errors import BadState, CurriculumError
from turncredit.curriculum.states import State
from turncredit.rotation import Rotation
from turncredit.task_ids import part_of


class TaskSampler:
    """An endless stream of task ids; every epoch visits each task of a part once, in its own order.

    The stream is a pure function of (tasks, seed, weights), and its position is one number.

    >>> sampler = TaskSampler(["a", "b", "c"], seed=0)
    >>> sorted(sampler.next(3)), sampler.state_dict()["position"]
    (['a', 'b', 'c'], 3)
    >>> TaskSampler(["x/1", "y/1", "x/2"], seed=0, weights={"x": 2, "y": 1}).next(6)
    ['x/2', 'y/1', 'x/1', 'x/1', 'y/1', 'x/2']
    """

    def __init__(self, tasks: Sequence[str], seed: int, weights: Mapping[str, float] | None = None) -> None:
        """Start at the beginning of the stream.

        Args:
            tasks: ids, in a fixed order.
            seed: of the order of each epoch.
            weights: of the parts of a mixture, by their names; empty for one environment.

        Raises:
            CurriculumError: there are no tasks, or none of a part.
        """
        if not tasks:
            raise CurriculumError("the environment lists no task to train on")
        self._seed, self._count = seed, len(tasks)
        self._weights = dict(weights or {})
        self._position = 0
        lists: dict[str, list[str]] = {name: [] for name in self._weights or [""]}
        for task in tasks:
            lists[part_of(task, self._weights)].append(task)
        for name, listed in lists.items():
            if not listed:
                raise CurriculumError(f"the part {name!r} has no task to train on; raise train.distinct_tasks")
        self._epochs = [_Epochs(listed, seed) for listed in lists.values()]
        self._rotation = Rotation(list(self._weights.values()) or [1])

    def next(self, count: int) -> list[str]:
        """Return the next `count` ids of the stream."""
        return [self._next() for _ in range(count)]

    def at(self, position: int) -> str:
        """Return the id at a position of the stream, counted from 0."""
        if not self._weights:
            return self._epochs[0].at(position)
        part, index = self._rotation.at(position)
        return self._epochs[part].at(index)

    def _next(self) -> str:
        self._position += 1
        return self.at(self._position - 1)

    def state_dict(self) -> State:
        """Return the position of the stream, JSON-serializable."""
        weights = {"weights": self._weights} if self._weights else {}
        return {"seed": self._seed, "count": self._count, "position": self._position, **weights}

    def load_state_dict(self, state: State) -> None:
        """Continue at the position of another stream over the same tasks.

        Raises:
            BadState: it had another number of tasks, another seed or other weights.
        """
        mine = self.state_dict()
        for key in ("seed", "count", "weights"):
            if state.get(key) != mine.get(key):
                raise BadState(
                    f"the task sampler of the checkpoint had {key} {state.get(key)}, but this run has {mine.get(key)}"
                )
        self._position = int(state["position"])


class _Epochs:
    """The stream over the tasks of one part, or of all."""

    def __init__(self, tasks: Sequence[str], seed: int) -> None:
        self._tasks, self._seed = tuple(tasks), seed
        self._epoch, self._order = -1, np.zeros(0, dtype=np.int64)

    def at(self, position: int) -> str:
        """Return the id at a position, counted from 0."""
        epoch, index = divmod(position, len(self._tasks))
        if epoch != self._epoch:
            self._epoch = epoch
            self._order = np.random.default_rng([self._seed, epoch]).permutation(len(self._tasks))
        return self._tasks[int(self._order[index])]
