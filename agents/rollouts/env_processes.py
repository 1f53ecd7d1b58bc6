"""Environments in processes of this machine: several in each, dealt to the process that has the fewest.

A process that dies ends the episodes of its environments, and the next ones are played in a new process. A process with
a call that is late, or that has grown beyond its limit, is retired: its other episodes are played to their end, it gets
no new ones, and then it is killed.

How many environments a process may hold adapts to how often processes die: half as many after each death of one that
had played few episodes, twice as many after a time without.
"""

from __future__ import annotations

import itertools
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

from turncredit.agents.errors import AgentError
from turncredit.envs.errors import DeadlineExceeded, EnvError, EnvironmentDied, HostDied
from turncredit.envs.host import MakeEnv, RemoteEnv, new_host, require_portable
from turncredit.processes.concurrent_process import ConcurrentProcess
from turncredit.processes.deadlines import CallFailed, DeadlinePassed, ProcessDied
from turncredit.processes.failures import complete

__all__ = ["EnvProcesses", "HostProcess"]

_CLOSE: Final = 10.0
"""Seconds that an environment may take to close before its process may be killed."""
_STARTS: Final = 3
"""Processes that may fail to start in a row."""
_MOST: Final = 512
"""Environments of a process, at most."""
_FEWEST: Final = 8
"""Environments that a process may always have, however often processes die."""
_STEADY: Final = 8
"""Episodes for each environment of a process after which its death was rare."""


class HostProcess(Protocol):
    """A process that runs the calls of an `EnvHost`: a `ConcurrentProcess`, or what stands for one elsewhere."""

    late: int
    ready: bool
    ended: bool
    error: Exception | None

    @property
    def pid(self) -> int:
        """Its process id, on its machine."""

    def submit(self, lane: int, seconds: float | None, *args: object, **kwargs: object) -> Future[Any]:
        """Call the host; see `ConcurrentProcess.submit`."""

    def end_lane(self, lane: int) -> None:
        """Let go of what an environment has there."""

    def memory(self) -> int:
        """Return the bytes of memory that it uses; 0: unknown."""

    def kill(self) -> None:
        """End it; calls that it still has raise ProcessDied."""


class EnvProcesses:
    """Makes environments in a number of processes, which start when they are first needed."""

    def __init__(
        self,
        workers: int,
        *,
        threads: bool = False,
        memory_gib: float = 0.0,
        most: int = _MOST,
        start: Callable[[], HostProcess] | None = None,
        start_alone: Callable[[], HostProcess] | None = None,
        memory: float | None = None,
    ) -> None:
        """Check the options.

        Args:
            workers: number of processes.
            threads: each environment has a thread of its own in its process, which deadlines need, and environments
                that wait. Without it the environments of a process take turns, which is fastest.
            memory_gib: GiB that a process may use before it is replaced; 0: no limit. (Read from /proc.)
            most: environments that a process may have; fewer after it died.
            start: starts a process with an `EnvHost` elsewhere, such as on a cluster; None: on this machine.
            start_alone: starts one beyond `workers`, for an environment that has to be alone; None: as `start`.
            memory: deprecated name of `memory_gib`.

        Raises:
            AgentError: a value is out of range.
        """
        if memory is not None:
            warnings.warn("EnvProcesses(memory=) is deprecated: write memory_gib", DeprecationWarning, stacklevel=2)
            memory_gib = memory
        if workers < 1:
            raise AgentError(f"the number of processes for environments must be >= 1, got {workers}")
        if not memory_gib >= 0:
            raise AgentError(f"the memory of a process for environments must be >= 0 GiB, got {memory_gib}")
        if most < 1:
            raise AgentError(f"the most environments of a process must be >= 1, got {most}")
        self.workers, self.threads, self.memory_gib = workers, threads, memory_gib
        self._limit = self._most = most
        self._start = start or partial(ConcurrentProcess, new_host, threads=threads, name="turncredit-environments")
        self._start_alone = start_alone or self._start
        self.replaced = 0
        self._processes: list[_Process] = []
        self._numbers = itertools.count()
        self._failed_starts = 0
        self._lock = threading.RLock()

    @property
    def capacity(self) -> int:
        """How many episodes should be played at once, so that no process has more environments than it may have."""
        return self.workers * self._most

    def open(
        self, make: MakeEnv, seconds: float | None = None, start_seconds: float | None = None
    ) -> Future[RemoteEnv]:
        """Return the future of a new environment in the process that has the fewest.

        Args:
            make: makes the environment; has to be picklable.
            seconds: deadline of each call; None: no limit.
            start_seconds: deadline of `make`.

        Raises:
            EnvError: `make` cannot be pickled, or deadlines are wanted without `threads`.
            AgentError: several processes in a row did not start.
        """
        return self._open(self._least_loaded, make, seconds, start_seconds)

    def open_alone(
        self, make: MakeEnv, seconds: float | None = None, start_seconds: float | None = None
    ) -> Future[RemoteEnv]:
        """Return the future of a new environment in a process of its own, which ends with it; see `open`."""
        return self._open(self._new_alone, make, seconds, start_seconds)

    def _open(
        self, choose: Callable[[], _Process], make: MakeEnv, seconds: float | None, start_seconds: float | None
    ) -> Future[RemoteEnv]:
        if seconds is not None and not self.threads:
            raise EnvError("deadlines need EnvProcesses(threads=True)")
        require_portable(make)
        with self._lock:
            connection = _ProcessConnection(self, choose(), next(self._numbers))
        opened: Future[RemoteEnv] = Future()
        opened.set_running_or_notify_cancel()

        def finish(made: Future[Any]) -> None:
            if made.exception() is not None:
                connection.close()
            complete(opened, lambda: RemoteEnv(connection, made.result(), seconds))

        connection.submit("make", start_seconds, make).add_done_callback(finish)
        return opened

    def pids(self) -> list[int]:
        """Return the process ids of the processes that take new environments."""
        with self._lock:
            return [entry.process.pid for entry in self._processes if not entry.retired]

    def close(self) -> None:
        """Close all environments, for a limited time, and end the processes."""
        with self._lock:
            processes, self._processes = self._processes, []
        try:
            for connection in [connection for entry in processes for connection in entry.connections]:
                connection.close()
            wait([future for entry in processes for future in entry.closing], timeout=_CLOSE)
        finally:
            for entry in processes:
                entry.process.kill()

    def _least_loaded(self) -> _Process:
        """Return the process for the next environment; start one if there are fewer than there may be."""
        self._drop_ended()
        usable = [entry for entry in self._processes if not entry.alone and not self.retire_if_needed(entry)]
        if len(usable) < self.workers:
            self._processes.append(_Process(self._start()))
            return self._processes[-1]
        return min(usable, key=lambda entry: len(entry.connections))

    def _new_alone(self) -> _Process:
        """Return a new process beyond the others, which takes no second environment."""
        self._drop_ended()
        self._processes.append(_Process(self._start_alone(), retired=True, alone=True))
        return self._processes[-1]

    def _drop_ended(self) -> None:
        """Forget the processes that have ended."""
        for entry in [entry for entry in self._processes if entry.process.ended]:
            self._remove(entry)
            self._failed_starts = 0 if entry.process.ready else self._failed_starts + 1
            if self._failed_starts >= _STARTS:
                raise AgentError(
                    f"{_STARTS} processes for environments did not start: {entry.process.error}; a script that uses "
                    'them needs `if __name__ == "__main__":` around what it does'
                )

    def _remove(self, entry: _Process) -> None:
        """Forget a process; if it died early, let others have fewer environments."""
        self._processes.remove(entry)
        if entry.alone:
            return
        self.replaced += 1
        if entry.process.ended and entry.process.ready and entry.episodes < _STEADY * entry.crowd:
            self._most = min(self._most, max(_FEWEST, min(self._most, entry.crowd) // 2))

    def count_episode(self, entry: _Process) -> None:
        """Let processes have more environments again when one of them has played many episodes."""
        entry.episodes += 1
        if entry.episodes % (_STEADY * max(1, entry.crowd)) == 0:
            self._most = min(self._limit, 2 * self._most)

    def is_crowded(self, entry: _Process) -> bool:
        """Return whether a process has more environments than it may have, and another has room."""
        if len(entry.connections) <= self._most:
            return False
        with self._lock:
            usable = [other for other in self._processes if not other.retired and not other.process.ended]
            return len(usable) < self.workers or any(len(other.connections) < self._most for other in usable)

    def retire_if_needed(self, entry: _Process) -> bool:
        """Return whether a process takes no new episodes, and decide it now."""
        if not entry.retired:
            grown = self.memory_gib and entry.process.memory() > self.memory_gib * 2**30
            entry.retired = bool(grown or entry.process.late or entry.process.ended)
        return entry.retired

    def kill_if_unused(self, entry: _Process) -> None:
        """Kill a retired process whose last environment has been closed."""
        with self._lock:
            if entry.process.ended and not entry.retired:
                return  # it is found when an environment is opened
            if entry not in self._processes or not self.retire_if_needed(entry) or entry.connections or entry.closing:
                return
            self._remove(entry)
        entry.process.kill()


@dataclass(eq=False, slots=True)
class _Process:
    """A process and its environments."""

    process: HostProcess
    connections: set[_ProcessConnection] = field(default_factory=set)
    closing: set[Future[Any]] = field(default_factory=set)
    retired: bool = False
    alone: bool = False
    """Whether it is beyond the number of processes, for one environment."""
    crowd: int = 0
    """The most environments that it had."""
    episodes: int = 0
    """Episodes that began in it."""


class _ProcessConnection:
    """One environment in a process (`turncredit.envs.host.EnvConnection`)."""

    def __init__(self, owner: EnvProcesses, host: _Process, number: int) -> None:
        self._owner, self._host, self._number = owner, host, number
        self._hangs = False
        host.connections.add(self)
        host.crowd = max(host.crowd, len(host.connections))

    @property
    def retired(self) -> bool:
        return self._owner.retire_if_needed(self._host) or self._owner.is_crowded(self._host)

    def submit(self, method: str, seconds: float | None, *args: object, **kwargs: object) -> Future[Any]:
        if method == "reset":
            self._owner.count_episode(self._host)
        answer: Future[Any] = Future()
        answer.set_running_or_notify_cancel()

        def result_of(call: Future[Any]) -> Any:
            error = call.exception()
            if error is None:
                return call.result()
            self._hangs = self._hangs or isinstance(error, DeadlinePassed)
            raise _env_error(method, seconds, error)

        call = self._host.process.submit(self._number, seconds, self._number, method, *args, **kwargs)
        call.add_done_callback(lambda call: complete(answer, lambda: result_of(call)))
        return answer

    def close(self) -> Future[Any]:
        # Without threads, the environment may have to wait for others, for no known time.
        closed = self.submit("close", _CLOSE if self._owner.threads else None)
        self._host.process.end_lane(self._number)
        self._host.connections.discard(self)
        if self._hangs:
            self._owner.kill_if_unused(self._host)
        else:
            self._host.closing.add(closed)
            closed.add_done_callback(self._is_closed)
        return closed

    def _is_closed(self, closed: Future[Any]) -> None:
        self._host.closing.discard(closed)
        self._owner.kill_if_unused(self._host)


def _env_error(method: str, seconds: float | None, error: BaseException) -> BaseException:
    """Return what an environment's caller is told about a failed call."""
    if isinstance(error, DeadlinePassed):
        return DeadlineExceeded(f"{method}() {error if seconds is None else f'took longer than {seconds:g} seconds'}")
    if isinstance(error, ProcessDied):
        message = f"the environment's process ended ({error})"
        if error.during:
            died = EnvironmentDied(message, error.exit_code)
            died.took_others = True
            return died
        lost = HostDied(message, error.exit_code)
        lost.suspect = error.during is None
        return lost
    if isinstance(error, CallFailed):
        return EnvError(f"{method}(): {error}")
    return error
