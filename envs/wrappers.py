"""Wrappers that limit the turns of an episode.

EndGuard    an episode that has ended takes no further steps, and is terminated or truncated, never both
TurnLimit   truncates an episode after a number of turns
"""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from turncredit.envs.errors import NotReset, StepAfterEnd
from turncredit.envs.info import STEP_LIMIT, Environment, ResetOptions, ResetResult, StepResult

__all__ = ["EndGuard", "TurnLimit"]


class EndGuard(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Raise on a step after the end, and never report an episode as both terminated and truncated.

    Gymnasium's time limit answers further steps, and reports both if the task ends on the last turn. Learners bootstrap
    the value after a truncation, but nothing follows a finished task. In an environment with a time limit, a task may
    have a shorter one of its own: `info["step_limit"]`.
    """

    def __init__(self, env: Environment) -> None:
        """Wrap `env`."""
        RecordConstructorArgs.__init__(self)
        gymnasium.Wrapper.__init__(self, env)
        self._state = "new"
        self._clock = _time_limit(env)

    def reset(self, *, seed: int | None = None, options: ResetOptions | None = None) -> ResetResult:
        """Start an episode. If this fails, there is no episode to step."""
        self._state = "new"
        result = self.env.reset(seed=seed, options=options)
        self._state = "open"
        return result

    def step(self, action: object) -> StepResult:
        """Return the environment's result, never both terminated and truncated.

        Raises:
            NotReset: called before the first reset.
            StepAfterEnd: the episode has ended.
        """
        if self._state != "open":
            raise StepAfterEnd if self._state == "over" else NotReset
        observation, reward, terminated, truncated, info = self.env.step(action)
        own = info.get(STEP_LIMIT)
        if own is not None and self._clock is not None and self._clock._elapsed_steps >= own:
            truncated = True
        if terminated or truncated:
            self._state = "over"
            truncated = truncated and not terminated
        return observation, reward, terminated, truncated, info


def _time_limit(env: Environment) -> Any:
    """Return Gymnasium's wrapper that limits the turns, or None."""
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, gymnasium.wrappers.TimeLimit):
            return env
        env = env.env
    return None


class TurnLimit(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Truncate an episode after `max_turns` turns, unless the task ends on the last one."""

    def __init__(self, env: Environment, max_turns: int) -> None:
        """Wrap `env`.

        Args:
            env: the environment.
            max_turns: turns after which an episode is truncated, at least 1.

        Raises:
            ValueError: `max_turns` is not a positive integer.
        """
        if isinstance(max_turns, bool) or not isinstance(max_turns, int) or max_turns < 1:
            raise ValueError(f"max_turns must be an integer >= 1, got {max_turns!r}")
        RecordConstructorArgs.__init__(self, max_turns=max_turns)
        gymnasium.Wrapper.__init__(self, env)
        self.max_turns = max_turns
        self._left: int | None = None

    def reset(self, *, seed: int | None = None, options: ResetOptions | None = None) -> ResetResult:
        """Start an episode with `max_turns` turns left."""
        self._left = None
        result = self.env.reset(seed=seed, options=options)
        self._left = self.max_turns
        return result

    def step(self, action: object) -> StepResult:
        """Return the environment's result, truncated on the last turn.

        Raises:
            NotReset: called before the first reset.
            StepAfterEnd: the episode has ended.
        """
        if not self._left:
            raise NotReset if self._left is None else StepAfterEnd
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._left = 0 if terminated or truncated else self._left - 1
        truncated = not terminated and self._left == 0
        return observation, reward, terminated, truncated, info
