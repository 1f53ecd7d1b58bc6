"""The environment of one client of a server or trainer, episode after episode."""

from __future__ import annotations

from collections.abc import Coroutine

from turncredit.agents.errors import EnvFailure
from turncredit.agents.rollouts.env_pool import EnvWorker, MakeEnv, StepResult
from turncredit.envs.errors import DeadlineExceeded, EnvError, EnvironmentDied

__all__ = ["ClientSession"]


class ClientSession:
    """The environment of one client, and the episode in it."""

    def __init__(self, make: MakeEnv, deadline: float | None = None) -> None:
        """Keep how to make the environment; the first reset makes it.

        Args:
            make: makes the environment.
            deadline: seconds for each reset and step; None: no limit.
        """
        self._worker = EnvWorker(make, deadline)
        self._closed = False
        self._task: str | None = None
        self._last: StepResult | None = None
        self._over = False
        self.turns = 0

    async def reset(self, task: str | None = None, seed: int | None = None) -> StepResult:
        """Start an episode.

        Args:
            task: id of the task; None: drawn by the environment.
            seed: seed of the environment.

        Raises:
            EnvFailure: there is no such task, or the environment failed.
        """
        self._last, self._over = None, False
        result = await self._guarded(self._worker.reset(task, seed))
        self._task, self._last, self._over, self.turns = task, result, False, 0
        return result

    async def step(self, action: str) -> StepResult:
        """Take an action.

        Raises:
            EnvFailure: there is no episode, or the environment failed.
        """
        if not self._closed and (self._last is None or self._over):
            state = "has ended" if self._over else "has not begun"
            raise EnvFailure(f"the episode {state}; reset the environment before the next step")
        result = await self._guarded(self._worker.step(action))
        self._last, self._over, self.turns = result, result.terminated or result.truncated, self.turns + 1
        return result

    def facts(self) -> dict[str, object]:
        """Return what is known about the current episode beyond the observation."""
        if (last := self._last) is None:
            return {}
        facts = {"task": last.task or self._task, "task_type": last.task_type, "state": last.state}
        return {**facts, "won": last.won, "score": last.score}

    def close(self) -> None:
        """Close the environment; the session answers with an error from now on."""
        self._closed, self._last = True, None
        self._worker.close()

    async def _guarded(self, call: Coroutine[object, None, StepResult]) -> StepResult:
        """Await a call; an environment that is dead or in an unknown state is discarded."""
        if self._closed:
            call.close()
            raise EnvFailure("the session was closed because nothing was received for too long; connect again")
        try:
            result = await call
        except EnvFailure as failure:
            cause = failure.__cause__
            if not isinstance(cause, EnvError) or isinstance(cause, DeadlineExceeded | EnvironmentDied):
                self._last, self._over = None, False
                self._worker.discard()
            raise
        return result
