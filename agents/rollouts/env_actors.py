"""Environment workers on a Ray cluster: an actor for each, which has the process with the environments beside it.

The actor passes calls on to a `ConcurrentProcess` on its own node, so that deadlines, output, threads and deaths are
those of workers on this machine. Only the loss of the actor or of its node is new: it counts as the end of the process.
"""

from __future__ import annotations

import asyncio
import pickle
import threading
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from typing import Any

from turncredit.agents.rollouts.env_processes import EnvProcesses
from turncredit.engines.cluster.connection import ActorLost, Cluster, ClusterSettings
from turncredit.envs.host import new_host
from turncredit.processes.child_process import CallFailed, ProcessDied, answer_bytes, call_bytes
from turncredit.processes.concurrent_process import ConcurrentProcess
from turncredit.processes.deadlines import DeadlinePassed
from turncredit.processes.failures import complete, deliverable, message_of
from turncredit.registry import ImportRules, adopt_import_rules, import_rules

__all__ = ["EnvActors"]

START_SECONDS = 120.0
"""Time in which an actor must start once its node is there."""


class EnvActors(EnvProcesses):
    """Makes environments in actors of a cluster, which start when they are first needed."""

    def __init__(
        self, workers: int, settings: ClusterSettings, *, threads: bool = False, memory_gib: float = 0.0
    ) -> None:
        """Join or start the cluster.

        Args:
            workers: number of actors.
            settings: where; each actor reserves `cpus`.
            threads: see `EnvProcesses`.
            memory_gib: see `EnvProcesses`.

        Raises:
            SamplerError: Ray is missing, or there is no cluster at the address, or it has too little room.
            AgentError: workers is below 1.
        """
        start = partial(self._start_actor, threads, settings.cpus)
        beyond = partial(self._start_actor, threads, 0.0)  # no room is reserved for it
        super().__init__(workers, threads=threads, memory_gib=memory_gib, start=start, start_alone=beyond)
        self._cluster = Cluster(settings)
        try:
            self._cluster.reserve_workers(workers, "env.workers")
        except BaseException:
            self._cluster.close()
            raise

    def _start_actor(self, threads: bool, cpus: float) -> _ActorProcess:
        return _ActorProcess(self._cluster, threads, cpus)

    def close(self) -> None:
        """Close all environments, end the actors, and leave the cluster."""
        try:
            super().close()
        finally:
            self._cluster.close()


class EnvActor:
    """The class of the actor: a process with an `EnvHost`, on the actor's node."""

    def __init__(self, rules: ImportRules, threads: bool) -> None:
        """Find modules where the driver finds them, as far as this node has the folders, and start the process."""
        adopt_import_rules(rules)
        self._process = ConcurrentProcess(new_host, threads=threads, name="turncredit-environments")

    async def call(self, lane: int, seconds: float | None, arguments: bytes) -> tuple[bytes, int]:
        """Return the answer to a call, with its exception if it raised one, as `answer_bytes` writes it.

        The second value is the memory of the process in bytes, as far as it is known.
        """
        return await self._answer(lane, seconds, arguments), self._process.memory()

    async def _answer(self, lane: int, seconds: float | None, arguments: bytes) -> bytes:
        try:
            args, kwargs = pickle.loads(arguments)
            value = await asyncio.wrap_future(self._process.submit(lane, seconds, *args, **kwargs))
            return answer_bytes(0, None, value)
        except BaseException as error:
            return answer_bytes(0, deliverable(error), None)

    async def end_lane(self, lane: int) -> None:
        """Let go of what an environment has here."""
        self._process.end_lane(lane)

    async def pid(self) -> int:
        """Return the process id of the process with the environments."""
        return self._process.pid

    async def end(self) -> None:
        """End the process."""
        self._process.kill()


class _ActorProcess:
    """What stands for the process of an actor (`turncredit.agents.rollouts.env_processes.HostProcess`)."""

    def __init__(self, cluster: Cluster, threads: bool, cpus: float | None = None) -> None:
        self._cluster = cluster
        self._actor = cluster.start_worker(EnvActor, import_rules(), threads, cpus=cpus)
        self._lock = threading.Lock()
        self.late = self._memory = 0
        self.ready = self.ended = False
        self.error: Exception | None = None
        self._calls: set[Future[object]] = set()
        self._pid = cluster.answer_of(self._actor.pid.remote())
        self._start = threading.Timer(cluster.settings.wait + START_SECONDS, self._give_up)
        self._start.daemon = True
        self._start.start()
        self._pid.add_done_callback(lambda _: self._start.cancel())

    @property
    def pid(self) -> int:
        return int(self._pid.result())

    def _give_up(self) -> None:
        """End an actor that did not start, since its node was lost for example, and no other has room."""
        self._over(ProcessDied(None, "its actor did not start: no node of the cluster has room for it", during=False))
        self._cluster.kill(self._actor)
        for call in list(self._calls):
            with suppress(InvalidStateError):
                call.set_exception(self.error)

    def submit(self, lane: int, seconds: float | None, *args: object, **kwargs: object) -> Future[Any]:
        answer: Future[Any] = Future()
        answer.set_running_or_notify_cancel()
        try:
            arguments = call_bytes(args, kwargs)
        except CallFailed as error:
            answer.set_exception(error)
            return answer
        self._calls.add(answer)  # before the actor can be given up, which answers all that are here
        if self.error is not None:
            with suppress(InvalidStateError):
                answer.set_exception(self.error)
            return answer

        def value_of(call: Future[tuple[bytes, int]]) -> Any:
            error, value = self._read(call)
            if error is not None:
                raise error
            return value

        def finish(call: Future[tuple[bytes, int]]) -> None:
            complete(answer, lambda: value_of(call))  # unless it was given up
            self._calls.discard(answer)

        self._cluster.answer_of(self._actor.call.remote(lane, seconds, arguments)).add_done_callback(finish)
        return answer

    def end_lane(self, lane: int) -> None:
        if not self.ended:
            self._actor.end_lane.remote(lane)

    def memory(self) -> int:
        return self._memory  # when it last answered

    def kill(self) -> None:
        self._start.cancel()
        self._over(ProcessDied(None, "it was ended", during=False))
        self._actor.end.remote()  # the actor's own end may leave the process for a moment
        self._cluster.kill(self._actor)

    def _read(self, call: Future[tuple[bytes, int]]) -> tuple[Exception | None, object]:
        """Return the exception or the value of an answer, and remember what it says about the process."""
        lost = call.exception()
        if lost is not None:
            reason = str(lost) if isinstance(lost, ActorLost) else f"{type(lost).__name__}: {message_of(lost)}"
            error: Exception | None = ProcessDied(None, reason, during=False)
            self._over(error)
            return error, None
        self.ready = True
        try:
            answer, self._memory = call.result()
            _, error, value = pickle.loads(answer)
        except BaseException as problem:  # what reading runs is the value's own code
            return CallFailed(f"the result cannot be read: {type(problem).__name__}: {message_of(problem)}"), None
        if isinstance(error, DeadlinePassed):
            with self._lock:
                self.late += 1
        if isinstance(error, ProcessDied):
            self._over(error)
        return error, value

    def _over(self, error: Exception | None) -> None:
        with self._lock:
            if not self.ended:
                self.ended, self.error = True, error
