"""Samplers of users: subclasses of `Sampler`, and plain objects with as much as they like."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from toys.corridor import Corridor

from turncredit.agents.agent import Agent
from turncredit.agents.errors import AgentError, SamplerError
from turncredit.agents.rollouts.episode import play
from turncredit.agents.rollouts.rollout import rollout
from turncredit.agents.rollouts.rollout_options import RolloutOptions, with_defaults
from turncredit.agents.rollouts.rollout_stream import stream
from turncredit.engines.base import SAMPLERS, Completion, Request, Sampler, SamplerSettings
from turncredit.engines.expert import Expert
from turncredit.engines.scripted import Random
from turncredit.engines.wrappers import SamplerWrapper, as_sampler, make_sampler
from turncredit.evaluation import Panel, evaluate

TASK = "open-3-1"


class Plain:
    """The least that a sampler can be."""

    def __init__(self, settings: SamplerSettings | None = None) -> None:
        self.asked: list[str] = []

    async def sample(self, request: Request) -> Completion:
        self.asked.append(request.episode)
        return Completion((), (), "look", 0, "stop")


class Able(Plain):
    """A plain object with every ability."""

    context, images = 99, True

    def __init__(self, settings: SamplerSettings | None = None) -> None:
        super().__init__(settings)
        self.version = 3
        self.calls: list[Any] = []

    def attach(self, episode: str, planner: Any) -> None:
        self.calls.append(("attach", episode, planner()))

    def forget(self, episode: str) -> None:
        self.calls.append(("forget", episode))

    async def load(self, weights: Any, version: int) -> None:
        self.calls.append(("load", weights))
        self.version = version

    async def interrupt(self) -> None:
        self.calls.append("interrupt")

    async def proceed(self) -> None:
        self.calls.append("proceed")

    async def sleep(self) -> None:
        self.calls.append("sleep")

    def metrics(self) -> dict[str, float]:
        return {"asked": 1.0}

    def notes(self) -> list[str]:
        return self.asked

    def add_notes(self, notes: list[str]) -> None:
        self.asked += notes

    def close(self) -> None:
        self.calls.append("close")


class Least(Sampler):
    """The least that a subclass can be."""

    async def sample(self, request: Request) -> Completion:
        return Completion((), (), "look", self.version, "stop")


async def use_everything(sampler: Sampler) -> None:
    """Call all that a caller may call."""
    sampler.attach(f"{TASK}#0@0", lambda: ["look"])
    await sampler.interrupt()
    await sampler.proceed()
    await sampler.sleep()
    sampler.forget("x")
    sampler.add_notes([])
    sampler.close()


@pytest.mark.parametrize("sampler", [Plain(), Least()])
def test_what_a_sampler_lacks_has_a_default(sampler: Plain | Least) -> None:
    ready = as_sampler(sampler)
    assert (ready.version, ready.tokenizer, ready.context, ready.images, ready.module) == (0, None, None, False, None)
    assert (ready.name, ready.interruptible, ready.metrics(), ready.notes()) == (
        type(sampler).__name__,
        False,
        {},
        None,
    )
    asyncio.run(use_everything(ready))
    with pytest.raises(SamplerError, match=f"the sampler {type(sampler).__name__} has no weights"):
        asyncio.run(ready.load({}, 1))


@pytest.mark.parametrize("wrapper", [as_sampler, SamplerWrapper])
def test_what_a_plain_sampler_has_is_used(wrapper: Any) -> None:
    theirs = Able()
    ready = wrapper(theirs)
    assert (ready.version, ready.context, ready.images, ready.interruptible) == (3, 99, True, True)
    asyncio.run(use_everything(ready))
    assert [call if isinstance(call, str) else call[0] for call in theirs.calls] == [
        "attach",
        "interrupt",
        "proceed",
        "sleep",
        "forget",
        "close",
    ]
    module = object()
    asyncio.run(ready.load(module, 5))
    assert theirs.calls[-1] == ("load", module)  # what the caller gave, as before
    assert ready.version == 5
    theirs.version = 6
    assert ready.version == 6
    assert ready.metrics() == {"asked": 1.0}


def test_a_plain_sampler_plays_wherever_a_sampler_does() -> None:
    theirs = Plain()
    (group,) = rollout(Agent(max_turns=2), theirs, [TASK], make=Corridor, size=2)
    assert [len(member.turns) for member in group.trajectories] == [2, 2]

    async def elsewhere() -> None:
        async for group in stream(Agent(max_turns=1), theirs, [TASK], make=Corridor):
            assert group.trajectories[0].stop == "turns"
        assert (await play(Agent(max_turns=1), theirs, Corridor(), TASK, 0)).stop == "turns"

    asyncio.run(elsewhere())
    result = evaluate(Agent(max_turns=1), theirs, Panel("toys/Corridor-v0", (TASK,), 0), Corridor)
    assert result.settings["version"] == 0
    assert len(theirs.asked) == 7


def test_a_plain_sampler_is_found_by_name() -> None:
    SAMPLERS.register("plain-sampler", Plain)
    for name in ("plain-sampler", f"{__name__}:Plain"):
        sampler = make_sampler(name, SamplerSettings())
        assert isinstance(sampler, Sampler)
        (group,) = rollout(Agent(max_turns=1), sampler, [TASK], make=Corridor)
        assert group.trajectories[0].turns[0].text == "look"


def test_something_else_is_refused() -> None:
    with pytest.raises(AgentError, match=r"must have a method sample\(request\), and int has none"):
        rollout(Agent(), 3, [TASK], make=Corridor)  # type: ignore[arg-type]


def test_a_subclass_without_sample_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="sample"):
        Sampler()  # type: ignore[abstract]


def test_a_sampler_stays_as_it_is() -> None:
    sampler = Expert()
    assert as_sampler(sampler) is sampler
    asyncio.run(sampler.load(None, 4))  # type: ignore[arg-type]
    assert sampler.version == 4


def test_an_interruption_makes_a_sampler_interruptible() -> None:
    class Held(Random):
        async def interrupt(self) -> None:
            """Stop."""

    assert Held().interruptible
    assert SamplerWrapper(Held()).interruptible
    assert not Random().interruptible


def test_options_of_a_rollout_have_one_definition() -> None:
    assert with_defaults({"replacements": 2}) == {**with_defaults({}), "replacements": 2}
    assert set(with_defaults({})) == set(RolloutOptions.__annotations__)
    with pytest.raises(TypeError, match="a rollout has no option 'concurency'; it has concurrency, deadline"):
        rollout(Agent(), Random(), [TASK], make=Corridor, concurency=3)  # type: ignore[call-arg]
