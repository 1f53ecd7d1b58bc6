"""The tasks of an environment in the form in which OpenEnv's task API lists them: {"task": id}, in one split."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cached_property

from turncredit.agents.errors import EnvFailure
from turncredit.agents.rollouts.env_pool import MakeEnv
from turncredit.envs.branch import find_method

__all__ = ["TaskLists", "TaskTable"]


class TaskTable:
    """The tasks of an environment, listed once.

    Args:
        make: makes an environment.
        split: name of the split that has all tasks.
    """

    def __init__(self, make: MakeEnv, split: str) -> None:
        self._make, self.split = make, split

    @cached_property
    def tasks(self) -> list[dict[str, object]] | None:
        """The arguments of reset for each task; None for an environment that cannot list its tasks."""
        env = self._make()
        try:
            if not env.has_wrapper_attr("task_ids"):
                return None
            task_ids: Callable[[], list[str]] = find_method(env, "task_ids")
            return [{"task": task} for task in task_ids()]
        finally:
            env.close()


class TaskLists:
    """The methods of OpenEnv's task API; NotImplementedError says that an environment lists no tasks."""

    table: TaskTable

    async def list_splits(self) -> list[str]:
        """Return the only split."""
        await self._tasks(self.table.split)
        return [self.table.split]

    async def list_tasks(self, split: str) -> list[dict[str, object]]:
        """Return all tasks of the split."""
        return await self._tasks(split)

    async def num_tasks(self, split: str) -> int:
        """Return the number of tasks of the split."""
        return len(await self._tasks(split))

    async def get_task(self, split: str, index: int) -> dict[str, object]:
        """Return a task of the split.

        Raises:
            IndexError: there is none with this number.
        """
        return (await self._tasks(split))[index]

    async def get_task_range(
        self, split: str, start: int | None = None, stop: int | None = None
    ) -> list[dict[str, object]]:
        """Return the tasks from `start` to before `stop`."""
        return (await self._tasks(split))[start:stop]

    async def _tasks(self, split: str) -> list[dict[str, object]]:
        if split != self.table.split:
            raise EnvFailure(f"there is no split {split!r}; all tasks are in {self.table.split!r}")
        tasks = await asyncio.to_thread(lambda: self.table.tasks)
        if tasks is None:
            raise NotImplementedError
        return tasks
