"""The Ray cluster of this process: joined or started, with room reserved for engines, and left again.

Ray places the engines (a placement group) and finds out that a process has died. Beside `checks`, this is the only
module that imports Ray; everything else sees handles of actors, references, and `ActorLost`.

Not included: Ray Client (``ray://``), since a rollout sends many small requests. Run the driver on a node.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from turncredit.agents.errors import SamplerError
from turncredit.engines.cluster.checks import check_address, own_cores, require_ray
from turncredit.engines.cluster.head import HeadWatch
from turncredit.engines.cluster.settings import ClusterNode, ClusterSettings
from turncredit.processes.deadlines import DeadlinePassed, call_in_thread, wait
from turncredit.processes.failures import complete, message_of

__all__ = ["ActorLost", "Cluster", "ClusterNode", "ClusterSettings"]

SLICE = 5.0
"""Seconds of waiting for an answer between two looks at the head; and in which a cluster without one must be left."""
POLL = 0.2
"""Seconds between two looks at whether room was found, or a clock that stands still goes on."""
LOCAL_WAIT = 20.0
"""Seconds to wait for room on a cluster that was started here, where no nodes join late."""
START = 180
"""Seconds in which a cluster on this machine must start; Ray's own limit of 30 is missed where others compute."""
MAX_CALLS = 10_000
"""Requests of an engine that Ray passes on at once; the engine has a limit of its own."""


class ActorLost(Exception):
    """The process of an actor has died, cannot be reached, or did not answer in time."""


class Cluster:
    """A connection to a Ray cluster, and the room that it reserves for engines.

    Args:
        settings: where, and how much room.

    Raises:
        SamplerError: Ray is missing or of another version than the cluster's, or there is no cluster at the address.
    """

    _lock = threading.Lock()
    _users = 0
    """A process has at most one connection, which all clusters of the process share; the last one ends it."""
    _ours = False
    """Whether the connection was made here, and not by the user's own program."""
    _head: HeadWatch | None = None
    """Looks after the head of the connection, for all clusters of the process."""

    def __init__(self, settings: ClusterSettings) -> None:
        self.settings = settings
        self._ray = require_ray()
        self._room: Any = None
        self._workers_room: Any = None
        self._closed = False
        self._answers = ThreadPoolExecutor(1, thread_name_prefix="turncredit-cluster-answers")
        self._waiting: set[Future[object]] = set()
        with Cluster._lock:
            if not self._ray.is_initialized():
                self._connect()
                Cluster._ours = True
            if Cluster._head is None:
                Cluster._head = HeadWatch(self._ray.get_runtime_context().gcs_address)
            Cluster._head.on_loss.append(self._give_up)
            Cluster._users += 1

    def check_head(self) -> None:
        """Check that the head of the cluster is there.

        Raises:
            EngineFailed: it is lost.
        """
        if self._head is not None:
            self._head.check()

    def _give_up(self) -> None:
        """Let everybody who waits for an actor know that nothing will come."""
        for answer in list(self._waiting):
            with suppress(InvalidStateError):
                answer.set_exception(ActorLost("the head of the cluster is lost"))

    async def _ask_head(self, question: Callable[[], Any]) -> Any:
        """Return what the head answers, asked on a thread, since a call of Ray waits for a head that is gone.

        Raises:
            EngineFailed: it is lost.
        """
        answer = asyncio.wrap_future(call_in_thread(question))
        while not answer.done():
            self.check_head()
            await asyncio.wait([answer], timeout=SLICE)
        return answer.result()

    @property
    def nodes(self) -> list[ClusterNode]:
        """The nodes that are alive."""
        alive = [node for node in self._ray.nodes() if node["Alive"]]
        return [
            ClusterNode(
                node["NodeManagerAddress"], node["Resources"].get("CPU", 0.0), node["Resources"].get("GPU", 0.0)
            )
            for node in alive
        ]

    @property
    def version(self) -> str:
        """Ray's version, the same on all nodes."""
        return str(self._ray.__version__)

    async def reserve(self) -> None:
        """Reserve the room of all engines, spread over the nodes; after the loss of a node, wait until it is regained.

        Raises:
            SamplerError: the nodes have too little room, even after the time for late ones.
            EngineFailed: the head of the cluster is lost.
        """
        from ray.util.placement_group import placement_group, placement_group_table

        settings = self.settings
        if self._room is None:
            bundle = {"CPU": settings.cpus, **({"GPU": settings.gpus} if settings.gpus else {})}
            self._room = await self._ask_head(lambda: placement_group([bundle] * settings.engines, strategy="SPREAD"))
        clock = asyncio.get_running_loop().time
        end = clock() + (0.0 if settings.address == "local" and not self._could_fit() else settings.wait)
        while (await self._ask_head(lambda: placement_group_table(self._room)))["state"] != "CREATED":
            if clock() > end:
                raise SamplerError(self._too_small())
            await asyncio.sleep(POLL)

    def start(self, kind: type, index: int, *arguments: object) -> Any:
        """Return the handle of a new actor in the room of one engine; it may still be starting.

        Args:
            kind: its class.
            index: index of the engine.
            arguments: arguments of the class.
        """
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        self.check_head()
        strategy = PlacementGroupSchedulingStrategy(self._room, placement_group_bundle_index=index)
        return (
            self._ray.remote(kind)
            .options(
                num_cpus=self.settings.cpus,
                num_gpus=self.settings.gpus,
                max_concurrency=MAX_CALLS,
                max_restarts=0,  # a restarted actor has lost its weights; the sampler starts a new one and loads them
                scheduling_strategy=strategy,
            )
            .remote(*arguments)
        )

    @property
    def address(self) -> str:
        """The address at which other nodes reach this process."""
        return "127.0.0.1" if self.settings.address == "local" else str(self._ray.util.get_node_ip_address())

    def reserve_workers(self, count: int, key: str, gpus: float = 0.0) -> None:
        """Reserve room beside the engines, spread over the nodes, and wait for it.

        Args:
            count: number of workers.
            key: that asks for them, for the message.
            gpus: number of GPUs of each worker.

        Raises:
            SamplerError: there is too little room, even after the time for late nodes.
        """
        from ray.util.placement_group import placement_group, remove_placement_group

        settings = self.settings
        each = {name: size for name, size in (("CPU", settings.cpus), ("GPU", gpus)) if size}
        if not each:
            return
        group = placement_group([each] * count, strategy="SPREAD")
        if not group.wait(
            timeout_seconds=min(settings.wait, LOCAL_WAIT) if settings.address == "local" else settings.wait
        ):
            remove_placement_group(group)
            has = _amount(sum(node.cpus for node in self.nodes), sum(node.gpus for node in self.nodes))
            raise SamplerError(
                f"the cluster has no room for {count} workers of {_amount(settings.cpus, gpus)} that {key} asks for: "
                f"it has {has}, of which others use a part; lower {key} or cluster.cpus, or add nodes"
            )
        self._workers_room = group

    def start_worker(
        self, kind: type, *arguments: object, calls: int = MAX_CALLS, gpus: float = 0.0, cpus: float | None = None
    ) -> Any:
        """Return the handle of a new actor in the room of `reserve_workers`; it may still be starting.

        Args:
            kind: its class.
            arguments: arguments of the class.
            calls: that it runs at a time.
            gpus: that it reserves.
            cpus: that it reserves; None: those of the settings; 0: it runs beside that room.
        """
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        self.check_head()
        cpus = self.settings.cpus if cpus is None else cpus
        options: dict[str, object] = {"num_cpus": cpus, "num_gpus": gpus, "max_restarts": 0}
        if self._workers_room is not None and cpus:
            options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(self._workers_room)
        return self._ray.remote(kind).options(max_concurrency=calls, **options).remote(*arguments)

    def answer_of(self, reference: Any) -> Future[Any]:
        """Return the future of what an actor answers; it raises `ActorLost` if the actor has died."""
        answer: Future[Any] = Future()
        answer.set_running_or_notify_cancel()

        self._waiting.add(answer)
        answer.add_done_callback(self._waiting.discard)

        def value_of(reply: Future[Any]) -> Any:
            error = reply.exception()
            if error is not None:
                raise ActorLost(_reason(message_of(error)))
            return reply.result()

        def finish(reply: Future[Any]) -> None:
            complete(answer, lambda: value_of(reply))  # unless it was given up

        def hand_over(future: Future[Any]) -> None:
            """Leave Ray's own thread, on which a call of Ray, such as to end an actor, would wait for ever."""
            try:
                self._answers.submit(finish, future)
            except RuntimeError:  # the cluster was closed meanwhile
                finish(future)

        reference.future().add_done_callback(hand_over)
        return answer

    def put(self, value: object) -> Any:
        """Return the reference of a value that was put into the object store."""
        return self._ray.put(value)

    async def answer(self, reference: Any, seconds: float, clock: Callable[[], float] = time.monotonic) -> Any:
        """Return what an actor answers.

        Args:
            reference: reference of the answer.
            seconds: in which it must come.
            clock: by which they are counted; it may stand still for a while.

        Raises:
            ActorLost: it has died, or did not answer in time.
            EngineFailed: the head of the cluster is lost.
        """
        self.check_head()  # engines go on without it, until Ray ends this process
        due = clock() + seconds
        reply = asyncio.ensure_future(reference)
        try:
            while (left := due - clock()) > 0:
                await asyncio.wait([reply], timeout=min(max(left, POLL), SLICE))
                if reply.done():
                    return reply.result()
                self.check_head()
            reply.cancel()
            raise ActorLost(f"it did not answer within {seconds:g} s")
        except asyncio.CancelledError:
            reply.cancel()
            with suppress(Exception):  # it was best effort, and the actor may be gone
                self._ray.cancel(reference)
            raise
        except self._ray.exceptions.RayError as error:
            raise ActorLost(_reason(str(error))) from error

    def kill(self, actor: object) -> None:
        """End the process of an actor."""
        try:
            self._ray.kill(actor)
        except (self._ray.exceptions.RayError, ValueError):  # the cluster itself is gone
            return

    def close(self) -> None:
        """Give the room back and leave the cluster; one that was started here is stopped."""
        if self._closed:
            return
        self._closed = True
        self._answers.shutdown(wait=False)
        with Cluster._lock:
            Cluster._users -= 1
            lost = Cluster._head is not None and Cluster._head.lost
            if Cluster._head is not None:
                Cluster._head.on_loss.remove(self._give_up)
                if not Cluster._users:
                    Cluster._head.stop()
                    Cluster._head = None
            if not Cluster._users and Cluster._ours:
                Cluster._ours = False
                # This gives the room back, even if the cluster's processes have died; without a head it may never end.
                with suppress(DeadlinePassed):
                    wait(call_in_thread(self._ray.shutdown), SLICE) if lost else self._ray.shutdown()
                if lost:
                    atexit.unregister(self._ray.shutdown)
            elif not lost:
                self._give_back()

    def _give_back(self) -> None:
        """Give the room back on a connection that stays."""
        from ray.util.placement_group import remove_placement_group

        for room in (self._room, self._workers_room):
            if self._ray.is_initialized() and room is not None:
                with suppress(self._ray.exceptions.RayError):  # the cluster itself may be gone
                    remove_placement_group(room)

    def _connect(self) -> None:
        address = check_address(self.settings.address)
        options: dict[str, object] = {"address": address, "log_to_driver": False, "logging_level": logging.ERROR}
        if address == "local":
            options |= {"num_cpus": own_cores(), "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
        try:
            with ExitStack() as during:
                during.enter_context(_sigterm_kept())
                during.enter_context(_variables(CUDA_VISIBLE_DEVICES=self.settings.visible))
                if address == "local":
                    during.enter_context(patient_start())
                self._ray.init(**options)
        except Exception as error:  # Ray raises bare ones, as when a node does not start in time
            raise SamplerError(_not_joined(address, str(error))) from error

    def _could_fit(self) -> bool:
        settings = self.settings
        fitting = [
            min(node.cpus // settings.cpus if settings.cpus else settings.engines, _times(node.gpus, settings.gpus))
            for node in self.nodes
        ]
        return sum(fitting) >= settings.engines

    def _too_small(self) -> str:
        settings, nodes = self.settings, self.nodes
        each = _amount(settings.cpus, settings.gpus)
        has = _amount(sum(node.cpus for node in nodes), sum(node.gpus for node in nodes))
        late = "" if settings.address == "local" else f" within {settings.wait:g} s"
        taken = ", of which others use a part" if self._could_fit() else ""
        count = "1 node has" if len(nodes) == 1 else f"{len(nodes)} nodes have"
        return (
            f"the cluster has no room for {settings.engines} engines of {each}{late}: its {count} {has}{taken}; lower "
            "cluster.engines, or add nodes"
        )


@contextmanager
def _sigterm_kept() -> Iterator[None]:
    """Keep what SIGTERM does in this process: Ray would end it at once, without a checkpoint."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and before is not None:
            signal.signal(signal.SIGTERM, before)


@contextmanager
def patient_start() -> Iterator[None]:
    """Let Ray wait `START` seconds for the head, the node and the node's agents; for the node it has no variable."""
    from ray._private import services

    look = services.get_node

    def wait_for_node(*arguments: str) -> object:
        end = time.monotonic() + START
        while True:
            try:
                return look(*arguments)
            except RuntimeError:  # it has not registered yet; Ray looks again for 30 s in all
                if time.monotonic() > end:
                    raise
                time.sleep(POLL)

    services.get_node = wait_for_node
    try:
        with _variables(RAY_gcs_server_port_wait_time_s=str(START), RAY_agent_register_timeout_ms=str(1000 * START)):
            yield
    finally:
        services.get_node = look


def _times(has: float, need: float) -> float:
    """Return how often a need fits, infinity if there is none."""
    return has // need if need else float("inf")


def _amount(cpus: float, gpus: float) -> str:
    """Return resources in words."""
    return f"{cpus:g} CPU{'' if cpus == 1 else 's'} and {gpus:g} GPU{'' if gpus == 1 else 's'}"


def _not_joined(address: str, text: str) -> str:
    """Return why Ray could not be joined or started; versions that differ are named."""
    versions = re.findall(r"(Ray|Python): (\S+)", text)
    if "Version mismatch" in text and len(versions) == 4:
        cluster, mine = (
            " and ".join(f"{name} {number}" for name, number in part) for part in (versions[:2], versions[2:])
        )
        return f"the cluster at {address} runs {cluster}, but this process has {mine}; install the same on all nodes"
    return f'Ray could not be started or joined at "{address}": {" ".join(text.split())[:300]}'


def _reason(text: str) -> str:
    """Return in one line why an actor was lost."""
    missing = re.search(r"No module named '([\w.]+)'", text)
    if missing:
        return f"its node has no package {missing[1].partition('.')[0]}; install the same packages on all nodes"
    detail = re.search(r"(?:exit detail|because): ?(.*)|(?:dead|died) because (.*)", text)
    line = next((part for part in detail.groups() if part), "") if detail else ""
    return " ".join((line or text.strip().splitlines()[0]).split())[:200] if text.strip() else "Ray gave no reason"


@contextmanager
def _variables(**values: str | None) -> Iterator[None]:
    """Set environment variables for the processes of a cluster that starts; None: leave it as it is."""
    before = {name: os.environ.get(name) for name, value in values.items() if value is not None}
    os.environ.update({name: value for name, value in values.items() if value is not None})
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
