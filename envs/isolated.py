"""An environment in a child process, for what may hang, crash or leak.

Messages over a pipe: (number, method, arguments) there, (number, "value" | "error", payload) back. The child leads a
session of its own, so that a signal from the terminal does not reach it, and so that killing it takes its own children
along; it ends by itself when its parent is gone.

Left out on purpose: shared memory (text is small) and restarting (see `wrappers`).
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Final, SupportsFloat

import gymnasium

from turnwise.envs.errors import DeadlineExceeded, EnvError, EnvironmentDied

__all__ = ["Isolated"]

_OPTIONAL: Final = ("task_ids", "plan", "snapshot", "restore")


class Isolated(gymnasium.Env[Any, Any]):
    """An environment that runs in a child process and is killed when a call is late.

    Observations, info and exceptions come through as they are; an exception carries the child's traceback as a note.
    After a late call (DeadlineExceeded) or the death of the process (EnvironmentDied) every further call raises again.
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
            make_fn: makes the environment; has to pickle, as `functools.partial(turnwise.envs.make, "...")` does.
            seconds: most wall-clock seconds for a reset, step, plan or close, above 0.
            start_seconds: most seconds for starting Python, importing and making.
            start_method: of multiprocessing. "fork" is quick, and unsafe once threads run (torch starts some).

        Raises:
            EnvError: `make_fn` does not pickle.
            DeadlineExceeded: the start took too long.
            EnvironmentDied: the process ended while it started.
        """
        if not seconds > 0 or not start_seconds > 0:
            raise ValueError(f"seconds must be above 0, got {seconds!r} and {start_seconds!r}")
        self.seconds = float(seconds)
        self._dead: EnvError | None = None
        self._closed = False
        self._number = 0
        context = multiprocessing.get_context(start_method)
        self._pipe, theirs = context.Pipe()
        try:
            recipe = pickle.dumps(make_fn)
        except Exception as error:
            raise EnvError(
                f"{make_fn!r} cannot be sent to another process ({error}); "
                'give a function of a module, or functools.partial(turnwise.envs.make, "...")'
            ) from error
        self._process = context.Process(  # type: ignore[attr-defined]
            target=_serve, args=(theirs, recipe), name="turnwise-env", daemon=True
        )
        self._process.start()
        theirs.close()
        facts = self._call("make", timeout=start_seconds)
        self.observation_space = facts["observation_space"]
        self.action_space = facts["action_space"]
        self.metadata = facts["metadata"]
        self.render_mode = facts["render_mode"]
        self.spec = facts["spec"]
        self._optional: frozenset[str] = facts["optional"]

    @property
    def pid(self) -> int | None:
        """Process id of the child."""
        pid: int | None = self._process.pid
        return pid

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode in the child.

        Raises:
            DeadlineExceeded: it took too long; the child has been killed.
            EnvironmentDied: the process is gone.
        """
        return self._call("reset", seed=seed, options=options)  # type: ignore[no-any-return]

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take an action in the child.

        Raises:
            DeadlineExceeded: it took too long; the child has been killed.
            EnvironmentDied: the process is gone.
        """
        return self._call("step", action)  # type: ignore[no-any-return]

    def render(self) -> Any:
        """Return what the environment renders."""
        return self._call("render")

    def close(self) -> None:
        """Close the environment and end its process; a second time, or on a dead one, nothing is left to do."""
        if self._closed:
            return
        self._closed = True
        if self._dead is None:
            with contextlib.suppress(EnvError):
                self._call("close")
            self._dead = self._dead or EnvError("the environment has been closed; make a new one")
        self._end()

    def __getattr__(self, name: str) -> Any:
        """Offer the optional methods that the environment in the child has."""
        if name not in self.__dict__.get("_optional", ()):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return lambda *args, **kwargs: self._call(name, *args, **kwargs)

    def __del__(self) -> None:
        """Leave no process behind."""
        if "_process" in self.__dict__ and not self._closed:
            self._end()

    def _call(self, method: str, *args: Any, timeout: float | None = None, **kwargs: Any) -> Any:
        """Send one call and wait for its answer."""
        if self._dead is not None:
            raise self._dead
        limit = self.seconds if timeout is None else timeout
        self._number += 1
        try:
            self._pipe.send((self._number, method, args, kwargs))
            kind, payload = self._answer(limit)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self._dead = self._death(method)
            raise self._dead from None
        if kind == "late":
            self._end()
            self._dead = DeadlineExceeded(f"{method}() took longer than {limit:g} s; the process has been killed")
            raise self._dead
        if kind == "error":
            raise payload
        return payload

    def _answer(self, limit: float) -> tuple[str, Any]:
        """Return the answer to the last call; answers to calls that were interrupted are passed over."""
        while self._pipe.poll(limit):
            number, kind, payload = self._pipe.recv()
            if number == self._number:
                return kind, payload
        return "late", None

    def _death(self, method: str) -> EnvironmentDied:
        """Say how the child ended."""
        self._process.join(timeout=5.0)
        code = self._process.exitcode
        self._end()
        killed = code is not None and code < 0
        how = f"it was killed by {signal.Signals(-code).name}" if killed else f"exit code {code}"
        return EnvironmentDied(f"the environment's process ended during {method}(): {how}", code)

    def _end(self) -> None:
        """Kill the child with everything that it started, and close the pipe."""
        pid = self._process.pid
        if self._process.is_alive() and pid is not None:
            try:
                # The group is the child's own only once it has called setsid; before that, it is ours.
                if os.getpgid(pid) == pid:
                    os.killpg(pid, signal.SIGKILL)
                else:
                    self._process.kill()
            except ProcessLookupError:
                pass
            self._process.join(timeout=5.0)
        self._pipe.close()


def _serve(pipe: Connection, recipe: bytes) -> None:
    """Be the child: make the environment, then answer calls until the parent closes or is gone."""
    if hasattr(os, "setsid"):
        with contextlib.suppress(OSError):
            os.setsid()
    _follow_parent()
    from turnwise.envs.branch import offered

    env: gymnasium.Env[Any, Any] | None = None
    while True:
        try:
            number, method, args, kwargs = pipe.recv()
        except (EOFError, OSError):
            break
        answer: tuple[str, Any]
        try:
            if method == "make":
                env = pickle.loads(recipe)()
                answer = ("value", _facts(env))
            else:
                assert env is not None
                answer = ("value", offered(env, method)(*args, **kwargs))
        except Exception as error:
            answer = ("error", _portable(error))
        try:
            pipe.send((number, *answer))
        except (BrokenPipeError, ConnectionResetError):
            break
        except Exception as error:
            what = EnvError(f"what {method}() returned cannot be sent between processes: {error}")
            pipe.send((number, "error", what))
        if method == "close":
            break


def _follow_parent() -> None:
    """End this process as soon as its parent has ended, even in the middle of a call."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, name="turnwise-parent", daemon=True).start()


def _facts(env: gymnasium.Env[Any, Any]) -> dict[str, Any]:
    """Return what the parent has to know about the environment, once."""
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
        "optional": frozenset(name for name in _OPTIONAL if env.has_wrapper_attr(name)),
    }


def _portable(error: Exception) -> Exception:
    """Return the error with its traceback as a note, or, where it does not pickle, one that says the same."""
    error.add_note("in the environment's process:\n" + "".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return EnvError(f"{type(error).__name__}: {error}\n{error.__notes__[-1]}")
    return error
