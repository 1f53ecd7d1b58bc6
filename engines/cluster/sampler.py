"""A sampler over the engines of a Ray cluster.

Each engine is a Ray actor with a sampler of its own, made there from the same settings. All that happens here happens
on one background loop, so that engines outlive a rollout and no locks are needed.

An engine may die at any time: its requests are repeated at other engines, and a new one is started in its place and
receives the current weights. Answers depend on the request and the weights alone, so a repeated one is the same.

Not included: engines that draw on the environment's expert, which stays with the driver.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from dataclasses import dataclass, replace
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from turncredit.agents.errors import AgentError, EngineFailed, RequestFailed, SamplerError
from turncredit.agents.models.weights import Weights, WeightSource
from turncredit.engines.background import BackgroundLoop
from turncredit.engines.base import Completion, Request, Sampler, SamplerSettings
from turncredit.engines.cluster.connection import ActorLost, Cluster, ClusterSettings
from turncredit.engines.cluster.engine_host import EngineFacts, EngineHost
from turncredit.engines.cluster.weight_chunks import CHUNK, split_weights
from turncredit.engines.routing import Changes, Engine, EngineState, Routes
from turncredit.engines.token_requests import check_sample
from turncredit.registry import import_rules

__all__ = ["ClusterSampler"]

START_SECONDS = 1800.0
"""Time in which an engine must start; vLLM compiles a large model for minutes."""
CLOSE_SECONDS = 10.0
"""Time in which engines may clean up before their processes are ended."""
MAX_FAILURES = 6
"""Losses of an engine in a row, without an answer in between, after which it is not started again."""
FIRST_STARTS = 2
"""Maximum number of starts of an engine whose process dies at the beginning: what is wrong then is mostly wrong
with all."""
MAX_TRIES = 4
"""Engines that may be lost over one request, after which it is taken for the cause."""
SUSPICIOUS = 2
"""Engines lost over a request, after which it is repeated while no other such request is."""


@dataclass(slots=True, eq=False)
class _Weights:
    """The current weights: references of their chunks in the object store, kept for engines that start again."""

    chunks: list[object]
    version: int
    loads: int
    """How many times weights were sent, with these."""


class ClusterSampler(Sampler):
    """Samples from several engines on a Ray cluster.

    A request goes to the engine that holds its episode's cache, or that of its parent, otherwise to the one with the
    fewest episodes (`turncredit.engines.routing`). Weights go through the object store in chunks; each engine
    loads them as soon as it has answered the requests that it has, or in the middle of them after `interrupt`, if it
    can.
    """

    def __init__(self, name: str, settings: SamplerSettings, cluster: ClusterSettings, *, chunk: int = CHUNK) -> None:
        """Join or start the cluster, and start the engines.

        Args:
            name: name of the sampler that each engine is.
            settings: its settings; `model` names what each engine loads, and there can be no `module`.
            cluster: where, and how many engines.
            chunk: bytes of weights that travel as one object.

        Raises:
            SamplerError: Ray is missing, the cluster cannot be joined or is too small, or a setting is wrong.
            EngineFailed: an engine did not start.
            ModelError: the model cannot be found.
        """
        if settings.module is not None:
            raise SamplerError("engines on a cluster load their model by themselves; a module cannot be shared")
        if Path(settings.model).expanduser().is_dir():  # an engine runs in another folder
            settings = replace(settings, model=str(Path(settings.model).expanduser().resolve()))
        self._name, self._settings, self._plan, self._chunk = name, settings, cluster, chunk
        self._engines = [Engine(number) for number in range(cluster.engines)]
        self._routes = Routes(self._engines)
        self._weights: _Weights | None = None
        self._loads = 0
        self._lost = self._repeated = 0
        self._asked: dict[str, asyncio.Task[Completion]] = {}
        self._suspects = asyncio.Lock()
        self._splitting = self._interrupted = False
        self._held_since = self._held_seconds = 0.0
        self._changed = Changes()  # of the engines' states
        self._idle = Changes()  # engines that have answered all that they had
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._loop = BackgroundLoop("turncredit-cluster")
        self._cluster = Cluster(cluster)
        try:
            self._facts = self._loop.call(self._open())
        except BaseException:
            self.close()
            raise
        self.context, self.images = self._facts.context, self._facts.images
        self.continues = self._facts.continues
        self.tokenizer = (settings.tokenizer or self._facts.tokenizer) if self._facts.has_tokenizer else None

    def metrics(self) -> dict[str, float]:
        """Return counts since the start: engines that can answer, losses of engines, repeated requests, moves."""
        ready = sum(engine.state in (EngineState.READY, EngineState.LOADING) for engine in self._engines)
        return {
            "engines": ready,
            "engines_lost": self._lost,
            "requests_repeated": self._repeated,
            "episodes_moved": self._routes.moved,
        }

    async def sample(self, request: Request) -> Completion:
        """Return an engine's answer to one request; if the engine dies, another one answers.

        Raises:
            ContextOverflow, SamplerError: from the engine.
            RequestFailed: several engines died over this request, or its answer cannot be trained on.
            EngineFailed: all engines have ended, and cannot be started again.
        """
        return await self._loop.run(self._sample(request))

    def forget(self, episode: str) -> None:
        """Drop what is kept for an episode that is over."""
        if not self._closed:
            self._loop.post(self._forget, episode)

    async def use(self, weights: Weights, version: int) -> None:
        """Use new weights from now on, in every engine; requests that arrive meanwhile wait for the new ones.

        Args:
            weights: new weights; adapters are merged.
            version: version of the weights.

        Raises:
            SamplerError: the weights do not fit the engines' model.
            EngineFailed: all engines have ended, and cannot be started again.
        """
        await self._loop.run(self._load(weights.source, version))

    async def interrupt(self) -> None:
        """Let the engines hold the requests in progress until `proceed`; those that cannot answer them first."""
        await self._loop.run(self._interrupt())

    async def proceed(self) -> None:
        """Let the engines go on with the requests that they hold, under the weights that are loaded by now."""
        await self._loop.run(self._proceed())

    async def sleep(self) -> None:
        """Let the engines release their memory until the next `load`, if they can."""
        await self._loop.run(self._tell_all("sleep"))

    def close(self) -> None:
        """End the engines and leave the cluster; one that was started here is stopped."""
        if self._closed:
            return
        self._closed = True
        try:
            self._loop.call(self._end(), 2 * CLOSE_SECONDS)
        except (TimeoutError, SamplerError):
            pass
        finally:
            self._loop.close()
            self._cluster.close()

    # -- requests --

    async def _sample(self, request: Request) -> Completion:
        task = asyncio.current_task()
        assert task is not None
        while (other := self._asked.get(request.episode)) is not None and other.cancelling():
            await asyncio.wait([other])
        if other is not None:
            raise SamplerError(
                f"episode {request.episode} already has a request in progress; ids of episodes must be unique"
            )
        self._asked[request.episode] = task
        try:
            return await self._answer(request)
        finally:
            del self._asked[request.episode]

    async def _answer(self, request: Request) -> Completion:
        """Ask engines until one lives long enough to answer."""
        reason = ""
        for losses in range(MAX_TRIES):
            # One that was there when two engines were lost may be the cause: it takes no other of its kind along.
            async with self._suspects if losses >= SUSPICIOUS else nullcontext():
                try:
                    return await self._ask_engine(request)
                except ActorLost as lost:
                    reason = str(lost)
                    self._repeated += 1
        raise RequestFailed(
            f"episode {request.episode}: {MAX_TRIES} engines were lost over the same request, the last because {reason}"
        )

    async def _ask_engine(self, request: Request) -> Completion:
        """Return the answer of the episode's engine; one that is lost is started again in the background."""
        engine = await self._engine_for(request)
        actor = engine.actor
        engine.busy += 1
        try:
            clock = time.monotonic if self._interrupted else self._clock  # new ones are not held
            answer: Completion | None = await self._ask(actor.sample.remote(request), clock=clock)
        except ActorLost as lost:
            self._lose(engine, actor, str(lost))
            raise
        finally:
            engine.busy -= 1
            if not engine.busy:
                self._idle.notify()  # not those that wait for an engine: nothing has changed for them
        if answer is None:  # its episode was forgotten
            raise asyncio.CancelledError
        engine.failures = 0
        self._routes.answered(request.episode, engine)
        if self._facts.has_tokenizer:
            name = f"engine {engine.number} of the cluster"
            check_sample(request, answer.tokens, answer.logprobs, most=request.max_tokens,
                         vocabulary=self._settings.vocabulary, engine=name)  # fmt: skip
        return answer

    async def _engine_for(self, request: Request) -> Engine:
        """Wait for the engine that a request goes to."""
        engine: Engine | None = None

        def found() -> bool:
            nonlocal engine
            engine = self._routes.choose(request.episode, request.parent)
            return engine is not None or self._all_ended

        await self._until(found)
        if engine is None:
            raise self._failure()
        return engine

    async def _ask(self, reference: object, seconds: float = 0.0, clock: Callable[[], float] = time.monotonic) -> Any:
        """Return what an actor answers; errors of ours are raised, and a failed engine counts as lost."""
        answer = await self._cluster.answer(reference, seconds or self._plan.timeout, clock)
        if isinstance(answer, EngineFailed):
            raise ActorLost(str(answer)) from answer
        if isinstance(answer, AgentError):
            raise answer
        return answer

    def _forget(self, episode: str) -> None:
        engine = self._routes.forget(episode)
        if engine is not None and engine.actor is not None:
            engine.actor.forget.remote(episode)

    # -- weights --

    async def _load(self, weights: WeightSource, version: int) -> None:
        ready = [engine for engine in self._engines if engine.state is EngineState.READY]
        for engine in ready:
            engine.state = EngineState.LOADING
        try:
            self._weights = await self._put(weights, version)
            results = await asyncio.gather(*(self._reload(engine) for engine in ready), return_exceptions=True)
        finally:
            for engine in ready:
                if engine.state is EngineState.LOADING:
                    engine.state = EngineState.READY  # with the weights that it has
            self._notify()
        for result in results:
            if isinstance(result, BaseException):
                raise result
        await self._until(lambda: self._all_ended or any(engine.state is EngineState.READY for engine in self._engines))
        if self._all_ended:
            raise self._failure()
        self.version = version

    async def _put(self, weights: WeightSource, version: int) -> _Weights:
        """Put weights into the object store, which the old ones leave first."""
        self._weights, self._splitting = None, True
        self._loads += 1
        try:
            parts = split_weights(weights, self._chunk, self._type_on_the_way(weights))
            chunks = await asyncio.to_thread(lambda: list(map(self._cluster.put, parts)))
            return _Weights(chunks, version, self._loads)
        finally:
            self._splitting = False
            self._notify()

    def _type_on_the_way(self, weights: WeightSource) -> str:
        """Return the type in which weights travel: that of the engines where a GPU's bus or a network carries them.

        On one machine, main memory takes float32 faster than the processor rounds it.
        """
        device = getattr(weights, "device", None)
        here = self._plan.address == "local" and (device is None or device.type == "cpu")
        return "" if here else self._settings.dtype

    async def _reload(self, engine: Engine) -> None:
        """Load the current weights once the engine has answered what it has, or holds it."""
        actor = engine.actor
        await self._idle.until(lambda: engine.busy == 0 or self._interrupted or engine.actor is not actor)
        if actor is None or engine.actor is not actor:
            return  # it was lost meanwhile, and loads them when it starts
        try:
            await self._send(engine, actor)
        except ActorLost as lost:
            self._lose(engine, actor, str(lost))
            return
        if engine.actor is actor:
            engine.state = EngineState.READY  # before the slowest engine is
            self._notify()

    async def _send(self, engine: Engine, actor: Any) -> None:
        """Load the current weights into an engine."""
        weights = self._weights
        if weights is None:
            return
        await asyncio.gather(*(self._ask(actor.take.remote(*pair)) for pair in enumerate(weights.chunks)))
        await self._ask(actor.load.remote(weights.version))
        engine.loads = weights.loads

    async def _interrupt(self) -> None:
        self._held_since = self._clock()
        self._interrupted = True
        self._idle.notify()
        await self._tell_all("interrupt")

    async def _proceed(self) -> None:
        if self._interrupted:
            self._held_seconds = time.monotonic() - self._held_since
            self._interrupted = False
        await self._tell_all("proceed")

    def _clock(self) -> float:
        """Return seconds, of which those in which requests are held do not count."""
        return self._held_since if self._interrupted else time.monotonic() - self._held_seconds

    async def _tell_all(self, method: str) -> None:
        """Call a method of all engines that are ready; one that is lost is started again in the background."""

        async def tell(engine: Engine) -> None:
            actor = engine.actor
            try:
                await self._ask(getattr(actor, method).remote())
            except ActorLost as lost:
                self._lose(engine, actor, str(lost))

        await asyncio.gather(*(tell(engine) for engine in self._engines if engine.state is EngineState.READY))

    # -- the life of the engines --

    async def _open(self) -> EngineFacts:
        """Start all engines; the first error ends it."""
        await self._cluster.reserve()
        facts = await asyncio.gather(*(self._start_first(engine) for engine in self._engines))
        mine = version_of("turncredit")
        other = next((engine.turncredit for engine in facts if engine.turncredit != mine), None)
        if other:
            raise SamplerError(
                f"a node has turncredit {other}, but this process has {mine}; install the same everywhere"
            )
        return facts[0]

    async def _start_first(self, engine: Engine) -> EngineFacts:
        for left in reversed(range(FIRST_STARTS)):
            try:
                await self._cluster.reserve()
                return await self._start(engine)
            except ActorLost as lost:
                if not left or isinstance(lost.__cause__, EngineFailed):  # it would say so again
                    raise EngineFailed(f"engine {engine.number} of the cluster did not start: {lost}") from lost
                self._lost += 1
        raise AssertionError("unreachable")

    async def _start(self, engine: Engine) -> EngineFacts:
        """Start the process of an engine, and make it ready with the current weights."""
        actor = self._cluster.start(EngineHost, engine.number, import_rules())
        try:
            facts: EngineFacts = await self._ask(actor.open.remote(self._name, self._settings), START_SECONDS)
            await self._until(lambda: not self._splitting)
            loaded: _Weights | None = None
            while self._weights is not loaded:
                loaded = self._weights
                await self._send(engine, actor)
                await self._until(lambda: not self._splitting)  # newer ones may have arrived meanwhile
        except BaseException:
            self._cluster.kill(actor)
            raise
        engine.actor, engine.state = actor, EngineState.READY
        self._notify()
        return facts

    def _lose(self, engine: Engine, actor: object, reason: str) -> None:
        """Give up an engine's process, once, and start another one in the background."""
        if engine.actor is not actor or self._closed:
            return
        engine.actor, engine.state, engine.reason = None, EngineState.STARTING, reason
        engine.failures += 1
        self._lost += 1
        self._routes.lost(engine)
        self._cluster.kill(actor)  # it may hang instead of being dead
        self._background(self._restart(engine))
        self._notify()

    async def _restart(self, engine: Engine) -> None:
        """Start an engine again, unless it was lost too often."""
        while engine.failures < MAX_FAILURES:
            try:
                await self._cluster.reserve()
                await self._start(engine)
                return
            except (ActorLost, AgentError) as error:
                engine.reason = str(error)
                engine.failures += 1
        engine.state = EngineState.ENDED
        self._notify()

    async def _end(self) -> None:
        """Let the engines clean up, and end them."""
        for task in self._tasks:
            task.cancel()
        actors = [engine.actor for engine in self._engines if engine.actor is not None]
        closing = [self._cluster.answer(actor.close.remote(), CLOSE_SECONDS) for actor in actors]
        await asyncio.gather(*closing, *self._tasks, return_exceptions=True)
        for actor in actors:
            self._cluster.kill(actor)

    # -- waiting --

    @property
    def _all_ended(self) -> bool:
        return all(engine.state is EngineState.ENDED for engine in self._engines)

    def _failure(self) -> EngineFailed:
        last = self._engines[-1]
        return EngineFailed(
            f"no engine of the cluster is left: each was lost {MAX_FAILURES} times without an answer in between, "
            f"engine {last.number} because {last.reason}"
        )

    async def _until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition on the engines holds; every change of their state is followed by `_notify`."""
        await self._changed.until(condition)

    def _notify(self) -> None:
        """Let everything that waits for a change of the engines look again."""
        self._changed.notify()
        self._idle.notify()

    def _background(self, work: Coroutine[object, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
