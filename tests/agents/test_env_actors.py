"""Environment workers on a Ray cluster: the same trajectories, and what the loss of one costs."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import toys.corridor
from toys.fragile import Fragile
from toys.ray_cluster import small_cluster
from toys.waiting import eventually, gone

ray = pytest.importorskip("ray")

from turncredit.agents.agent import Agent  # noqa: E402
from turncredit.agents.errors import SamplerError  # noqa: E402
from turncredit.agents.rollouts import env_actors  # noqa: E402
from turncredit.agents.rollouts.env_actors import EnvActors  # noqa: E402
from turncredit.agents.rollouts.env_pool import EnvPool  # noqa: E402
from turncredit.agents.rollouts.rollout import Fork, RolloutReport, Snapshots, rollout  # noqa: E402
from turncredit.agents.trajectory import Trajectory  # noqa: E402
from turncredit.engines.base import Completion, Request  # noqa: E402
from turncredit.engines.cluster.connection import ClusterSettings  # noqa: E402
from turncredit.engines.scripted import Random, Scripted  # noqa: E402
from turncredit.envs import maker  # noqa: E402
from turncredit.processes.deadlines import ProcessDied  # noqa: E402

pytestmark = pytest.mark.waits

TASKS = ["open-4-2", "fetch-3-2", "open-5-3"]
CORRIDOR = partial(toys.corridor.Corridor)
BAD = "open-5-3"


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    with small_cluster(3):
        yield


def pool(make: Any, deadline: float | None = None, workers: int = 2) -> EnvPool:
    hosts = EnvActors(workers, ClusterSettings(cpus=1.0), threads=deadline is not None)
    return EnvPool(make, deadline, hosts=hosts)


def played(make: Any, tasks: list[str], sampler: Any = None, **options: Any) -> list[Trajectory]:
    groups = rollout(Agent(max_turns=6), sampler or Random(), tasks, make=make, size=3, seed=1, **options)
    return [dataclasses.replace(one, seconds=0.0) for group in groups for one in group.trajectories]


def test_trajectories_are_those_of_environments_in_this_process() -> None:
    household = maker("turncredit/Household-v0", level="tiny")
    tasks = ["train/tiny/000000", "train/tiny/000001"]
    with pool(household, 60.0) as there:  # below without threads: forks
        assert played(there, tasks) == played(household, tasks)
    with pool(CORRIDOR) as there:  # below with threads: lost workers
        assert played(there, TASKS) == played(CORRIDOR, TASKS)


@pytest.mark.parametrize("what", ["the process of an actor", "an actor"])
def test_the_episodes_of_a_lost_worker_are_begun_again_and_it_is_replaced(what: str) -> None:
    with pool(CORRIDOR, 60.0) as there:
        assert isinstance(there.hosts, EnvActors)
        hosts = there.hosts

        class Kills(Random):
            killed = 0

            async def sample(self, request: Request) -> Completion:
                if request.turn == 1 and not self.killed:
                    (host, *_) = hosts._processes
                    self.killed = host.process.pid
                    assert eventually(lambda: not host.process._calls)  # it ends in no call, of any episode
                    if what == "an actor":
                        hosts._cluster.kill(host.process._actor)  # type: ignore[attr-defined]
                    else:
                        os.kill(self.killed, signal.SIGKILL)
                    assert gone(self.killed)
                return await super().sample(request)

        sampler, report = Kills(), RolloutReport()
        found = played(there, TASKS, sampler, report=report)
        assert sampler.killed
        assert report.lost
        assert (report.errors, report.repaired) == (0, 0)
        assert sum(one.finished for one in found) == 9
        assert report.replaced == 1


def test_a_task_that_ended_a_worker_is_played_in_an_actor_beyond_the_reserved_room() -> None:
    report, looking = RolloutReport(), Scripted(["look"] * 3)
    with pool(partial(Fragile, "die")) as there:
        groups = rollout(Agent(max_turns=3), looking, [BAD, "open-3-1"], make=there, size=4, report=report)
    assert not groups[0].finished
    assert len(groups[1].finished) == 4
    assert (report.errors, report.quarantined) == (3, [BAD])


def test_too_little_room_is_one_sentence() -> None:
    sentence = "no room for 9 workers of 1 CPU and 0 GPUs that env.workers asks for: it has 3 CPUs"
    with pytest.raises(SamplerError, match=sentence):
        EnvActors(9, ClusterSettings(wait=1.0))
    with pool(CORRIDOR) as there:  # the room of the refused ones was given back
        assert played(there, TASKS[:1])


def test_nothing_is_left() -> None:
    there = pool(CORRIDOR)
    played(there, TASKS[:1])
    assert isinstance(there.hosts, EnvActors)
    pids = there.hosts.pids()
    assert pids
    there.close()
    assert all(map(gone, pids))
    assert ray.is_initialized()  # the cluster is not ours


def test_a_worker_that_has_grown_is_replaced_between_episodes() -> None:
    report = RolloutReport()
    hosts = EnvActors(1, ClusterSettings(cpus=1.0), memory_gib=0.2)
    with EnvPool(partial(Fragile, "grow"), hosts=hosts) as pool:
        groups = rollout(Agent(max_turns=3), Scripted(["look"] * 3), [BAD] * 4, make=pool, concurrency=1, report=report)
    assert report.errors == 0
    used = {one.turns[0].extras["pid"] for group in groups for one in group.trajectories}
    assert len(used) > 1
    assert report.replaced == len(used) - 1


def test_an_actor_that_finds_no_room_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    class Remote:
        def remote(self, *_: Any) -> None:
            """Never answer."""

    class Full:
        settings = ClusterSettings(wait=0.1)
        killed = 0

        def start_worker(self, *_: Any, **__: Any) -> Any:
            return SimpleNamespace(pid=Remote(), call=Remote(), end=Remote(), end_lane=Remote())

        def answer_of(self, _: Any) -> Future[Any]:
            return Future()

        def kill(self, _: Any) -> None:
            self.killed += 1

    monkeypatch.setattr(env_actors, "START_SECONDS", 0.1)
    full = Full()
    process = env_actors._ActorProcess(full, threads=False)  # type: ignore[arg-type]
    with pytest.raises(ProcessDied, match="no node of the cluster has room"):
        process.submit(0, None, "make").result(30.0)
    assert process.ended
    assert full.killed == 1
    with pytest.raises(ProcessDied, match="no node"):
        process.submit(0, None, "make").result(0.0)


def test_forks_begin_in_actors_as_they_do_here() -> None:
    household = maker("turncredit/Household-v0", level="tiny")
    task = household().get_wrapper_attr("task_ids")(1)[0]
    snapshots = Snapshots()
    (parent, *_) = played(household, [task], snapshots=snapshots)
    forks = [Fork(parent, turn) for turn in range(len(parent.turns))]

    def of_forks(make: Any, store: Snapshots | None) -> list[Trajectory]:
        groups = rollout(Agent(max_turns=6), Random(), forks, make=make, size=2, snapshots=store)
        return [dataclasses.replace(one, seconds=0.0) for group in groups for one in group.trajectories]

    here = of_forks(household, None)
    assert all(one.finished for one in here)
    with pool(household) as actors:
        assert of_forks(actors, None) == here  # by replay
        assert of_forks(actors, snapshots) == here
