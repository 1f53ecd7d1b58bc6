"""How long an engine may take: seconds in which it holds a request for the learner do not count; without a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("ray")

import torch

from turncredit.agents.prompts.prompt import View
from turncredit.engines.base import Completion, Request, SamplerSettings
from turncredit.engines.cluster import sampler as cluster_sampler
from turncredit.engines.cluster.connection import Cluster, ClusterSettings
from turncredit.engines.cluster.engine_host import EngineHost
from turncredit.engines.cluster.sampler import ClusterSampler
from turncredit.registry import import_rules

VIEW = View("look", "look", ("go east",), 0)


class Interruptible:
    """A sampler without a model, whose first answers wait for `proceed`; or for ever, if so asked."""

    tokenizer = context = None

    def __init__(self, settings: SamplerSettings) -> None:
        self.version, self.goes = 0, asyncio.Event()

    async def sample(self, request: Request) -> Completion:
        if request.max_tokens == 1:
            await asyncio.Event().wait()
        if request.turn == 0:
            await self.goes.wait()
        return Completion((), (), "go east", self.version, "stop")

    async def interrupt(self) -> None:
        self.goes.clear()

    async def proceed(self) -> None:
        self.goes.set()

    def forget(self, episode: str) -> None:
        """Keep nothing."""

    async def load(self, weights: Any, version: int) -> None:
        self.version = version

    def close(self) -> None:
        """Hold nothing."""


class Method:
    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def remote(self, *arguments: Any) -> Any:
        return asyncio.ensure_future(self.function(*arguments))


class Actor:
    def __init__(self) -> None:
        self.host = EngineHost(import_rules())

    def __getattr__(self, name: str) -> Method:
        return Method(getattr(self.host, name))


class InThisProcess(Cluster):
    """A cluster whose actors are objects of this process."""

    def __init__(self, settings: ClusterSettings) -> None:
        self.settings = settings
        self._ray = SimpleNamespace(exceptions=SimpleNamespace(RayError=ConnectionError), cancel=lambda _: None)

    async def reserve(self) -> None:
        """Have room."""

    def start(self, *_: Any) -> Actor:
        return Actor()

    def put(self, value: Any) -> Any:
        return value

    def kill(self, actor: Any) -> None:
        """Let go of it."""

    def close(self) -> None:
        """Hold nothing."""


@pytest.fixture
def sampler(monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterSampler]:
    monkeypatch.setattr(cluster_sampler, "Cluster", InThisProcess)
    sampler = ClusterSampler(f"{__name__}:Interruptible", SamplerSettings(), ClusterSettings(engines=2, timeout=1.0))
    yield sampler
    sampler.close()


def request(number: int, turn: int = 0, **changes: Any) -> Request:
    return Request(f"task#{number}@0", turn, (), (), 7, VIEW, **changes)


async def held_by_engines(sampler: ClusterSampler, requests: int) -> None:
    """Wait until the engines have this many requests."""
    while sum(engine.busy for engine in sampler._engines) < requests:
        await asyncio.sleep(0.001)


def test_requests_that_the_learner_lets_wait_are_not_late(sampler: ClusterSampler) -> None:
    async def held() -> list[Completion]:
        tasks = [asyncio.create_task(sampler.sample(request(number))) for number in range(4)]
        await held_by_engines(sampler, 4)
        await sampler.interrupt()
        await sampler.load({"weight": torch.zeros(1)}, 1)
        await asyncio.sleep(2.0)  # an evaluation
        assert (await sampler.sample(request(9, turn=1))).version == 1
        assert not any(task.done() for task in tasks)
        await sampler.proceed()
        return await asyncio.gather(*tasks)

    assert [one.version for one in asyncio.run(held())] == [1] * 4
    assert sampler.metrics()["engines_lost"] == 0


def test_an_engine_that_hangs_is_late_also_while_others_are_held(sampler: ClusterSampler) -> None:
    async def hangs() -> None:
        task = asyncio.create_task(sampler.sample(request(0)))
        await held_by_engines(sampler, 1)
        await sampler.interrupt()
        await sampler.load({"weight": torch.zeros(1)}, 1)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(sampler.sample(request(9, max_tokens=1)), 2.5)
        await sampler.proceed()
        await task

    asyncio.run(hangs())
    assert sampler.metrics()["engines_lost"] >= 1
