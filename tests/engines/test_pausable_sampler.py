"""Pausing a sampler: nothing is in progress while it is paused, nothing is lost, and its idle time is measured."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys.corridor import Corridor

from turncredit.agents.agent import Agent
from turncredit.agents.rollouts.rollout import arollout, rollout
from turncredit.engines.base import Completion, Request
from turncredit.engines.pausable import PausableSampler, Usage
from turncredit.engines.scripted import Random


class Slow(Random):
    """Answers after some rounds of the event loop, and counts what is in progress."""

    def __init__(self) -> None:
        super().__init__()
        self.in_progress = 0
        self.interrupted = False

    async def sample(self, request: Request) -> Completion:
        self.in_progress += 1
        for _ in range(3):
            await asyncio.sleep(0)
        self.in_progress -= 1
        return await super().sample(request)


class Held(Slow):
    """Stops in the middle of answers."""

    async def sample(self, request: Request) -> Completion:
        self.in_progress += 1
        for _ in range(3):
            await asyncio.sleep(0)
            while self.interrupted:
                await asyncio.sleep(0)
        self.in_progress -= 1
        return await Random.sample(self, request)

    async def interrupt(self) -> None:
        self.interrupted = True

    async def proceed(self) -> None:
        self.interrupted = False


@settings(max_examples=30)
@given(pauses=st.lists(st.integers(0, 40), max_size=5), kind=st.sampled_from([Slow, Held]))
def test_a_rollout_with_pauses_is_the_same_rollout(pauses: list[int], kind: type[Slow]) -> None:
    tasks = ["open-3-1", "fetch-4-2"]

    async def run() -> list[list[object]]:
        inner = kind()
        sampler = PausableSampler(inner)
        playing = asyncio.create_task(arollout(Agent(), sampler, tasks, make=Corridor, size=2))
        for rounds in pauses:
            await sampler.resume()
            for _ in range(rounds):
                await asyncio.sleep(0)
            await sampler.pause()
            assert inner.in_progress == 0 or inner.interrupted
            left = inner.in_progress
            for _ in range(20):
                await asyncio.sleep(0)
            assert inner.in_progress == left  # nothing is answered, and nothing new arrives
        await sampler.resume()
        return [[one.turns for one in group.trajectories] for group in await playing]

    plain = rollout(Agent(), Random(), tasks, make=Corridor, size=2)
    assert asyncio.run(run()) == [[one.turns for one in group.trajectories] for group in plain]


def test_a_paused_sampler_is_idle() -> None:
    async def run() -> tuple[float, float]:
        sampler = PausableSampler(Slow())
        waiting = asyncio.create_task(arollout(Agent(), sampler, ["open-3-1"], make=Corridor))
        await asyncio.sleep(0.05)
        idle = sampler.usage()
        await sampler.resume()
        await waiting
        busy = sampler.usage()
        assert busy.idle < busy.seconds
        assert busy.requests > 0
        return idle.idle / idle.seconds, idle.requests

    assert asyncio.run(run()) == (1.0, 0.0)


def test_an_interrupted_sampler_is_idle_though_requests_wait_for_it() -> None:
    async def run() -> tuple[float, float]:
        inner = Held()
        sampler = PausableSampler(inner)
        await sampler.resume()
        playing = asyncio.create_task(arollout(Agent(), sampler, ["open-3-1"], make=Corridor))
        while not inner.in_progress:
            await asyncio.sleep(0)
        await sampler.pause()
        sampler.usage()
        await asyncio.sleep(0.05)
        assert inner.in_progress == 1
        idle = sampler.usage()
        await sampler.resume()
        await playing
        assert sampler.usage().requests > 0
        return idle.idle / idle.seconds, idle.requests

    assert asyncio.run(run()) == (1.0, 0.0)


@pytest.mark.parametrize("kind", [Slow, Held])
def test_seconds_of_a_pause_can_be_left_out_of_the_usage(kind: type[Slow], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("turncredit.engines.pausable.time.perf_counter", lambda: clock[0])

    async def run() -> Usage:
        sampler = PausableSampler(kind())
        await sampler.pause()
        clock[0] += 3.0  # weights are loaded
        clock[0] += 20.0  # an evaluation
        sampler.leave_out(20.0)
        return sampler.usage()

    assert asyncio.run(run()) == Usage(seconds=3.0, idle=3.0, requests=0.0)
