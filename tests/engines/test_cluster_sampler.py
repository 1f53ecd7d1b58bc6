"""Engines on a real Ray cluster on this machine: the same answers as without, whatever dies."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from toys.corridor import Corridor
from toys.ports import reserved_port
from toys.ray_cluster import small_cluster
from toys.waiting import eventually

ray = pytest.importorskip("ray")
torch = pytest.importorskip("torch")

from turncredit.agents.agent import Agent  # noqa: E402
from turncredit.agents.errors import (  # noqa: E402
    ContextOverflow,
    EngineFailed,
    RequestFailed,
    SamplerError,
)
from turncredit.agents.prompts.prompt import View  # noqa: E402
from turncredit.agents.rollouts.rollout import rollout  # noqa: E402
from turncredit.agents.trajectory import Trajectory, token_versions  # noqa: E402
from turncredit.engines.base import SAMPLERS, Completion, Request, SamplerSettings  # noqa: E402
from turncredit.engines.cluster.connection import Cluster, ClusterSettings  # noqa: E402
from turncredit.engines.cluster.sampler import ClusterSampler  # noqa: E402

pytestmark = pytest.mark.waits

TOY = "toys.cluster_engine:Engine"


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    with small_cluster(4):
        yield


def opened(
    name: str = TOY, engines: int = 2, settings: SamplerSettings | None = None, **options: Any
) -> ClusterSampler:
    timeout = options.pop("timeout", 120.0)
    settings = settings or SamplerSettings(options=options)
    return ClusterSampler(name, settings, ClusterSettings(engines=engines, timeout=timeout), chunk=1000)


@pytest.fixture(scope="module")
def started() -> Iterator[ClusterSampler]:
    """Two engines for the tests that lose none."""
    sampler = opened(seconds=0.02)
    yield sampler
    sampler.close()


@pytest.fixture
def toy(started: ClusterSampler) -> ClusterSampler:
    """The engines with their first weights, and without episodes."""
    for episode in [episode for engine in started._engines for episode in list(engine.episodes)]:
        started.forget(episode)
    assert eventually(lambda: not any(engine.episodes for engine in started._engines))
    asyncio.run(started.load({"scale": torch.tensor(1.0)}, 0))
    return started


def request(number: int = 0, turn: int = 0, **changes: Any) -> Request:
    view = View("look", "look", ("go east",), turn)
    return dataclasses.replace(Request(f"task#{number}@0", turn, (), (), 7, view), **changes)


def ask(sampler: ClusterSampler, *requests: Request) -> list[Completion]:
    async def together() -> list[Completion]:
        return await asyncio.gather(*map(sampler.sample, requests))

    return asyncio.run(together())


def pid(answer: Completion) -> int:
    return int(answer.extras["pid"])  # type: ignore[call-overload]


def timeless(trajectory: Trajectory) -> Trajectory:
    return dataclasses.replace(trajectory, seconds=0.0)


def played(sampler: Any, **options: Any) -> list[Trajectory]:
    agent = Agent(max_turns=6, max_tokens=8)
    groups = rollout(agent, sampler, ["open-4-2", "fetch-3-2", "open-5-3"], make=Corridor, size=3, seed=1, **options)
    return [timeless(trajectory) for group in groups for trajectory in group.trajectories]


def test_a_rollout_gives_the_same_trajectories_as_without_a_cluster() -> None:
    sampler = opened("random")
    try:
        assert sampler.tokenizer is None
        assert played(sampler) == played(SAMPLERS.get("random")(SamplerSettings()))
    finally:
        sampler.close()


@pytest.mark.slow
def test_a_model_plays_the_same_on_two_engines_as_in_this_process(tmp_path: Path) -> None:
    from turncredit.training.learner.policy import build_policy, save_policy

    texts = ["You are in room 1. go east go west take key"] * 3
    module, tokenizer = build_policy(texts, vocab=300, hidden=32, layers=2, heads=2, context=512, seed=1)
    save_policy(module, tokenizer, tmp_path)
    with torch.no_grad():
        for weight in module.parameters():
            weight.mul_(1.3)  # the folder has other weights than those that are loaded
    settings = SamplerSettings(context=512, dtype="float32", tokenizer=tokenizer)
    alone = SAMPLERS.get("transformers")(dataclasses.replace(settings, module=module))
    sampler = opened("transformers", settings=dataclasses.replace(settings, model=str(tmp_path)))
    try:
        for one in (alone, sampler):
            asyncio.run(one.load(module, 3))
        single = played(sampler, concurrency=1)
        assert single == played(alone, concurrency=1)  # bit for bit, with log-probabilities
        together, expected = played(sampler), played(alone)
        assert [[turn.response for turn in one.turns] for one in together] == [
            [turn.response for turn in one.turns] for one in expected
        ]
        for mine, other in zip(together, expected, strict=True):  # other batches round differently
            for turn, same in zip(mine.turns, other.turns, strict=True):
                assert turn.logprobs == pytest.approx(same.logprobs, abs=1e-5)
        assert {turn.version for one in together for turn in one.turns} == {3}
    finally:
        sampler.close()
        alone.close()


def test_an_episode_stays_with_its_engine_and_others_are_spread(toy: ClusterSampler) -> None:
    first = [pid(answer) for answer in ask(toy, *(request(number) for number in range(6)))]
    assert sorted(first.count(answer) for answer in set(first)) == [3, 3]
    assert [pid(answer) for answer in ask(toy, *(request(number, 1) for number in range(6)))] == first
    for number in range(6):
        toy.forget(f"task#{number}@0")
    assert eventually(lambda: not any(engine.episodes for engine in toy._engines))


@pytest.mark.parametrize("how", ["SIGKILL", "ray.kill"])
def test_a_killed_engine_costs_no_answer_and_comes_back_with_the_current_weights(how: str) -> None:
    sampler = opened(seconds=0.3)
    try:
        asyncio.run(sampler.load({"scale": torch.tensor(2.0)}, 5))
        before = ask(sampler, *(request(number) for number in range(4)))
        actor = sampler._engines[0].actor
        victim = pid(ray.get(actor.sample.remote(request(99))))

        async def killed_meanwhile() -> list[Completion]:
            tasks = [asyncio.create_task(sampler.sample(request(number, 1))) for number in range(4)]
            while not all(engine.busy for engine in sampler._engines):
                await asyncio.sleep(0.001)
            ray.kill(actor) if how == "ray.kill" else os.kill(victim, signal.SIGKILL)
            return await asyncio.gather(*tasks)

        answers = asyncio.run(killed_meanwhile())
        assert [answer.text for answer in answers] == ["7 1 2.0"] * 4
        assert victim not in map(pid, answers)
        assert eventually(lambda: sampler.metrics()["engines"] == 2)
        metrics = sampler.metrics()
        assert (metrics["engines_lost"], metrics["requests_repeated"], metrics["episodes_moved"]) == (1, 2, 2)
        new = ask(sampler, *(request(number) for number in range(10, 14)))  # the new engine has the fewest episodes
        assert {answer.version for answer in new} == {5}
        assert victim not in map(pid, new)
        assert not {pid(answer) for answer in new} <= {pid(answer) for answer in before}
    finally:
        sampler.close()


def test_a_request_that_ends_every_engine_fails_alone() -> None:
    sampler = opened(dies_on="task#13@0", engines=1)
    try:

        async def all_of_them() -> list[Any]:
            return await asyncio.gather(*map(sampler.sample, map(request, (1, 13))), return_exceptions=True)

        good, bad = asyncio.run(all_of_them())
        assert isinstance(bad, RequestFailed)
        assert "4 engines were lost over the same request" in str(bad)
        assert isinstance(good, Completion)
        assert ask(sampler, request(1, 1))[0].text == "7 1 1.0"
    finally:
        sampler.close()


def test_engines_that_cannot_start_again_end_the_rollout(tmp_path: Path) -> None:
    sampler = opened(marker=str(tmp_path / "full"), broken_after=True, seconds=0.2)
    try:
        victims = {pid(answer) for answer in ask(sampler, request(0), request(1))}
        (tmp_path / "full").touch()
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
        with pytest.raises(EngineFailed, match=r"no engine of the cluster is left.*the disk is full"):
            ask(sampler, request(0), request(1))
        with pytest.raises(EngineFailed):
            asyncio.run(sampler.load({"scale": torch.tensor(2.0)}, 1))
        assert sampler.metrics()["engines"] == 0
    finally:
        sampler.close()


def test_an_engine_that_hangs_is_replaced(tmp_path: Path) -> None:
    sampler = opened(hangs_on="task#2@0", marker=str(tmp_path / "hung"), timeout=3.0)
    try:
        assert [answer.text for answer in ask(sampler, *map(request, range(4)))] == ["7 0 1.0"] * 4
        assert sampler.metrics()["engines_lost"] == 1
    finally:
        sampler.close()


def test_weights_wait_for_the_requests_in_progress_and_versions_never_go_back() -> None:
    sampler = opened(seconds=0.1)
    seen_versions: dict[int, list[int]] = {}

    async def play(number: int) -> None:
        seen_versions[number] = [(await sampler.sample(request(number, turn))).version for turn in range(12)]

    async def all_together() -> None:
        episodes = [asyncio.create_task(play(number)) for number in range(6)]
        for version in (1, 2, 3):
            await asyncio.sleep(0.2)
            await sampler.load({"scale": torch.tensor(float(version))}, version)
            assert sampler.version == version
        await asyncio.gather(*episodes)

    try:
        asyncio.run(all_together())
        assert all(versions == sorted(versions) for versions in seen_versions.values())
        assert {version for versions in seen_versions.values() for version in versions} >= {0, 3}
        assert ask(sampler, request(50))[0].text == "7 0 3.0"
        asyncio.run(sampler.load({"scale": torch.tensor(9.0)}, 1))  # a resumed run counts from an earlier version
        assert ask(sampler, request(0))[0].version == 1
    finally:
        sampler.close()


def test_engines_that_cannot_be_interrupted_answer_first(toy: ClusterSampler) -> None:
    async def interrupted() -> list[Completion]:
        tasks = [asyncio.create_task(toy.sample(request(number))) for number in range(4)]
        while not all(engine.busy for engine in toy._engines) and not tasks[0].done():
            await asyncio.sleep(0.001)
        await toy.interrupt()
        await toy.load({"scale": torch.tensor(2.0)}, 1)
        await toy.proceed()
        return await asyncio.gather(*tasks)

    assert {answer.version for answer in asyncio.run(interrupted())} == {0}
    assert ask(toy, request(9))[0].version == 1


@pytest.mark.slow
def test_answers_of_a_model_go_on_under_new_weights_and_a_lost_engine_begins_again(tmp_path: Path) -> None:
    from turncredit.training.learner.policy import build_policy, save_policy

    old, tokenizer = build_policy(["a b c d e f g"] * 3, vocab=300, hidden=64, layers=4, heads=2, context=2000, seed=1)
    save_policy(old, tokenizer, tmp_path)
    new = copy.deepcopy(old)
    with torch.no_grad():
        for weight in new.parameters():
            weight.mul_(1.5)
    settings = SamplerSettings(model=str(tmp_path), context=2000, dtype="float32", tokenizer=tokenizer)
    sampler = opened("transformers", settings=settings)
    # The most probable tokens of this model hold no end token, so an answer takes seconds.
    asked = [request(n, prompt=tuple(range(5, 30 + n)), max_tokens=1900, temperature=0.0) for n in range(4)]

    async def interrupted() -> list[Completion]:
        tasks = [asyncio.create_task(sampler.sample(question)) for question in asked]
        while not all(engine.busy for engine in sampler._engines):
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.3)
        await sampler.interrupt()
        assert not any(task.done() for task in tasks)
        ray.kill(sampler._engines[0].actor)
        await sampler.load(new, 1)
        assert (await sampler.sample(request(9, prompt=(5, 6, 7), max_tokens=3))).version == 1  # others are answered
        assert sum(task.done() for task in tasks) <= 2  # those of the lost engine
        await sampler.proceed()
        return await asyncio.gather(*tasks)

    try:
        ask(sampler, *(request(20 + n, prompt=(5, 6, 7), max_tokens=2) for n in range(4)))  # the first pass is slow
        answers = asyncio.run(interrupted())
        assert sampler.metrics()["engines_lost"] == 1
        switched = 0
        for question, answer in zip(asked, answers, strict=True):
            switched += bool(answer.switches)
            versions = token_versions(answer.version, answer.switches, len(answer.tokens))
            assert versions[-1] == 1
            for version, model in enumerate((old, new)):
                with torch.no_grad():
                    logits = model(input_ids=torch.tensor([[*question.prompt, *answer.tokens]])).logits[0].double()
                table = torch.log_softmax(logits, dim=-1)[len(question.prompt) - 1 :]
                for row, token, logprob, its in zip(table, answer.tokens, answer.logprobs, versions, strict=False):
                    assert its != version or float(row[token]) == pytest.approx(logprob, abs=1e-3)
        assert 1 <= switched <= 2  # those of the other engine
    finally:
        sampler.close()


def test_errors_of_an_engine_are_those_of_its_sampler(toy: ClusterSampler) -> None:
    with pytest.raises(ContextOverflow, match="too long"):
        ask(toy, request(prompt=(1, 2)))
    with pytest.raises(SamplerError, match="do not fit: they add bias"):
        asyncio.run(toy.load({"scale": torch.ones(1), "bias": torch.ones(1)}, 1))
    with pytest.raises(SamplerError, match="already has a request in progress"):
        ask(toy, request(), request())
    assert ask(toy, request())[0].version == 0
    assert toy.metrics()["engines_lost"] == 0


def test_cancelled_requests_end_and_do_not_hold_up_new_weights() -> None:
    sampler = opened(seconds=60.0)

    async def cancelled() -> None:
        tasks = [asyncio.create_task(sampler.sample(request(number))) for number in range(4)]
        while sum(engine.busy for engine in sampler._engines) < 4:
            await asyncio.sleep(0.01)
        tasks[0].cancel()
        for number in range(1, 4):
            sampler.forget(f"task#{number}@0")
            tasks[number].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.wait_for(sampler.load({"scale": torch.tensor(3.0)}, 1), 50)

    try:
        asyncio.run(cancelled())
        assert sampler.metrics()["engines_lost"] == 0
    finally:
        sampler.close()


def test_what_cannot_be_used_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SamplerError, match="no room for 9 engines of 1 CPU and 0 GPUs: its 1 node has 4 CPUs"):
        opened(engines=9)
    with pytest.raises(SamplerError, match="no room for 1 engines of 1 CPU and 2 GPUs"):
        ClusterSampler(TOY, SamplerSettings(), ClusterSettings(gpus=2.0))
    with pytest.raises(SamplerError, match="does not exist on an engine's node"):
        opened("transformers", settings=SamplerSettings(model="/no/such/model"))
    with pytest.raises(SamplerError, match="unknown sampler"):
        opened("transformes")
    with pytest.raises(SamplerError, match="module cannot be shared"):
        opened(settings=SamplerSettings(module=object()))
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SamplerError, match=r"install .*\[ray\]"):
        opened()


@pytest.mark.parametrize("address", ["nonsense", "ray://127.0.0.1:1", "host:", "127.0.0.1:99999"])
def test_an_address_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(SamplerError, match=r"cluster\.address must be|can be reached"):
        Cluster(ClusterSettings(address=address))


def test_an_address_where_nothing_answers_is_refused_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with reserved_port() as port:
        address = f"127.0.0.1:{port}"
        with pytest.raises(SamplerError, match=f"no Ray cluster can be reached at {address}"):
            Cluster(ClusterSettings(address=address))


WRONG = [
    ((300, -0.5), "the token id 300, expected an integer from 0 to 256"),
    ((5, float("nan")), "the log-probability nan"),
    ((5, 0.25), "the log-probability 0.25"),
    ((5, None), "the log-probability None"),
]


def test_samples_of_an_engine_are_checked() -> None:
    settings = SamplerSettings(options={"samples": [sample for sample, _ in WRONG]}, vocabulary=257)
    sampler = opened(engines=1, settings=settings)
    try:
        for number, (_, why) in enumerate(WRONG):
            with pytest.raises(RequestFailed, match=re.escape(f"engine 0 of the cluster returned {why}")):
                asyncio.run(sampler.sample(request(number, turn=number)))
        assert sampler.metrics()["engines_lost"] == 0
    finally:
        sampler.close()
