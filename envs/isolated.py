"""An environment in a child process, for environments that may hang, crash or leak memory.

A dead environment stays dead: the agent loop counts the lost episode and makes a new environment.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any, SupportsFloat

import gymnasium

from turnwise.envs.branch import OPTIONAL_METHODS, find_method
from turnwise.envs.errors import DeadlineExceeded, EnvError, EnvironmentDied
from turnwise.tools.deadlines import CallFailed, DeadlinePassed, ProcessDied, WorkerProcess

__all__ = ["Isolated"]


class Isolated(gymnasium.Env[Any, Any]):
    """An environment that runs in a child process, which is killed if a call is late.

    Observations, info and exceptions come through unchanged; an exception carries the child's traceback as a note.
    After a late call (DeadlineExceeded) or the death of the process (EnvironmentDied), every further call raises the
    same error again.
    """

    def __init__(
        self,
        make_fn: Callable[[], gymnasium.Env[Any, Any]],
        seconds: float,
        *,
        start_seconds: float = 60.0,
        start_method: str = "spawn",
    ) -> None:
        """Start the process and make the environment in it.

        Args:
            make_fn: makes the environment; has to be picklable, such as `functools.partial(turnwise.envs.make, "...")`.
            seconds: deadline for each reset, step, plan and close, > 0.
            start_seconds: deadline for starting Python, imports and `make_fn`, > 0.
            start_method: of multiprocessing. "fork" is fast, but unsafe once threads run (torch starts some).

        Raises:
            EnvError: `make_fn` is not picklable.
            DeadlineExceeded: the start took too long.
            EnvironmentDied: the process ended while it started.
        """
        if not seconds > 0 or not start_seconds > 0:
            raise ValueError(f"seconds must be above 0, got {seconds!r} and {start_seconds!r}")
        try:
            pickle.dumps(make_fn)
        except Exception as error:
            raise EnvError(
                f"{make_fn!r} cannot be sent to another process ({error}); "
                'use a function of a module, or functools.partial(turnwise.envs.make, "...")'
            ) from error
        self.seconds = float(seconds)
        self._dead: EnvError | None = None
        start = partial(
            WorkerProcess,
            partial(_serve, make_fn),
            seconds=start_seconds,
            start_method=start_method,
            name="turnwise-env",
        )
        self._worker: WorkerProcess = self._guarded("make", start_seconds, start)
        facts = self._call("_facts")
        self.observation_space = facts["observation_space"]
        self.action_space = facts["action_space"]
        self.metadata = facts["metadata"]
        self.render_mode = facts["render_mode"]
        self.spec = facts["spec"]
        self._optional: frozenset[str] = facts["optional"]

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._worker.pid

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode in the child.

        Raises:
            DeadlineExceeded: it took too long; the child has been killed.
            EnvironmentDied: the process has ended.
        """
        return self._call("reset", seed=seed, options=options)  # type: ignore[no-any-return]

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take an action in the child.

        Raises:
            DeadlineExceeded: it took too long; the child has been killed.
            EnvironmentDied: the process has ended.
        """
        return self._call("step", action)  # type: ignore[no-any-return]

    def render(self) -> Any:
        """Return what the environment renders."""
        return self._call("render")

    def close(self) -> None:
        """Close the environment and end its process."""
        if self._dead is None:
            with contextlib.suppress(EnvError):
                self._call("close")
            self._dead = self._dead or EnvError("the environment has been closed; make a new one")
        self._worker.kill()

    def __getattr__(self, name: str) -> Any:
        """Return an optional method that the environment in the child has."""
        if name not in self.__dict__.get("_optional", ()):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return partial(self._call, name)

    def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the environment in the child."""
        if self._dead is not None:
            raise self._dead
        return self._guarded(method, self.seconds, partial(self._worker.call, self.seconds, method, *args, **kwargs))

    def _guarded(self, method: str, seconds: float, call: Callable[[], Any]) -> Any:
        """Return the result of a call, and remember what kills the process."""
        try:
            return call()
        except CallFailed as error:
            raise EnvError(f"{method}(): {error}") from None
        except DeadlinePassed:
            self._dead = DeadlineExceeded(f"{method}() took longer than {seconds:g} s; the process has been killed")
        except ProcessDied as error:
            message = f"the environment's process ended during {method}(): {error}"
            self._dead = EnvironmentDied(message, error.exit_code)
        raise self._dead


def _serve(make_fn: Callable[[], gymnasium.Env[Any, Any]]) -> Callable[..., Any]:
    """Make the environment in the child, and return the function that calls its methods."""
    env = make_fn()

    def call(method: str, *args: Any, **kwargs: Any) -> Any:
        return _facts(env) if method == "_facts" else find_method(env, method)(*args, **kwargs)

    return call


def _facts(env: gymnasium.Env[Any, Any]) -> dict[str, Any]:
    """Return the attributes that the parent copies."""
    spec = env.spec
    try:
        pickle.loads(pickle.dumps(spec))
    except Exception:
        spec = None
    return {
        "observation_space": env.observation_space,
        "action_space": env.action_space,
        "metadata": env.metadata,
        "render_mode": env.render_mode,
        "spec": spec,
        "optional": frozenset(name for name in OPTIONAL_METHODS if env.has_wrapper_attr(name)),
    }
