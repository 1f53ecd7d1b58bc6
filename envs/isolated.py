"""An environment in a child process, for environments that may hang, crash or leak memory.

A dead environment stays dead: the agent loop counts the lost episode and makes a new environment.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

from turncredit.envs.errors import DeadlineExceeded, EnvError, EnvironmentDied
from turncredit.envs.host import EnvHost, ProxyEnv, require_portable
from turncredit.envs.info import Environment
from turncredit.processes.deadlines import CallFailed, DeadlinePassed, ProcessDied, WorkerProcess

__all__ = ["Isolated"]


class Isolated(ProxyEnv):
    """An environment that runs in a child process, which is killed if a call is late.

    Observations, info and exceptions come through unchanged; an exception carries the child's traceback as a note.
    After a late call (DeadlineExceeded) or the death of the process (EnvironmentDied), every further call raises the
    same error again.
    """

    def __init__(
        self,
        make_fn: Callable[[], Environment],
        seconds: float,
        *,
        start_seconds: float = 60.0,
        start_method: str = "spawn",
    ) -> None:
        """Start the process and make the environment in it.

        Args:
            make_fn: makes the environment; has to be picklable, such as
            `functools.partial(turncredit.envs.make, "...")`. seconds: deadline for each reset, step, plan and close, >
            0. start_seconds: deadline for starting Python, imports and `make_fn`, > 0.
            start_method: of multiprocessing. "fork" is fast, but unsafe once threads run (torch starts some).

        Raises:
            EnvError: `make_fn` is not picklable.
            DeadlineExceeded: the start took too long.
            EnvironmentDied: the process ended while it started.
        """
        if not seconds > 0 or not start_seconds > 0:
            raise ValueError(f"seconds must be above 0, got {seconds!r} and {start_seconds!r}")
        require_portable(make_fn)
        self.seconds = float(seconds)
        self._dead: EnvError | None = None
        start = partial(
            WorkerProcess,
            partial(_serve, make_fn),
            seconds=start_seconds,
            start_method=start_method,
            name="turncredit-env",
        )
        self._worker: WorkerProcess = self._guarded("make", start_seconds, start)
        self._copy(self._call("facts"))

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._worker.pid

    def close(self) -> None:
        """Close the environment and end its process."""
        if self._dead is None:
            with contextlib.suppress(EnvError):
                self._call("close")
            self._dead = self._dead or EnvError("the environment has been closed; make a new one")
        self._worker.kill()

    def _call(self, method: str, *args: object, **kwargs: Any) -> Any:
        """Call a method of the environment in the child."""
        if self._dead is not None:
            raise self._dead
        return self._guarded(method, self.seconds, partial(self._worker.call, self.seconds, method, *args, **kwargs))

    def _guarded(self, method: str, seconds: float, call: Callable[[], object]) -> Any:
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


def _serve(make_fn: Callable[[], Environment]) -> Callable[..., object]:
    """Make the environment in the child, and return the function that calls its methods."""
    host = EnvHost()
    facts = host.call(0, "make", make_fn)

    def call(method: str, *args: object, **kwargs: Any) -> object:
        return facts if method == "facts" else host.call(0, method, *args, **kwargs)

    return call
