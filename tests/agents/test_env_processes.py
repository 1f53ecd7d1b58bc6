"""Environments in processes of their own: the same trajectories, and what a death, a hang or growth costs."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from toys.corridor import Corridor
from toys.fragile import Deadly, Fragile, Jittery
from toys.waiting import eventually, gone

from turncredit.agents.agent import Agent
from turncredit.agents.errors import AgentError
from turncredit.agents.rollouts.env_pool import EnvPool
from turncredit.agents.rollouts.env_processes import EnvProcesses
from turncredit.agents.rollouts.rollout import RolloutReport, rollout
from turncredit.agents.trajectory import Group, Trajectory
from turncredit.engines.base import Completion, Request
from turncredit.engines.expert import Expert
from turncredit.engines.scripted import Random, Scripted
from turncredit.envs import EnvError, load, make, maker
from turncredit.envs.errors import DeadlineExceeded, EnvironmentDied
from turncredit.processes.concurrent_process import ConcurrentProcess

pytestmark = pytest.mark.waits

WIN = ["take key", "go east", "unlock door", "go east"]
SAFE, BAD = "open-3-1", "open-5-1"
LONG = 60.0


def timeless(groups: list[Group]) -> list[list[Trajectory]]:
    """Return the trajectories without the clock."""
    return [[dataclasses.replace(found, seconds=0.0) for found in group.trajectories] for group in groups]


def without_pids(groups: list[Group]) -> list[list[Trajectory]]:
    """Return the trajectories without the clock and the process ids."""
    return [
        [
            dataclasses.replace(found, turns=tuple(dataclasses.replace(turn, extras={}) for turn in found.turns))
            for found in trajectories
        ]
        for trajectories in timeless(groups)
    ]


def pids(groups: list[Group]) -> Counter[int]:
    """Count the episodes of each process."""
    return Counter(int(one.turns[0].extras["pid"]) for group in groups for one in group.trajectories)


@pytest.mark.parametrize(
    ("env_id", "options", "tasks"),
    [
        ("turncredit/Household-v0", {"level": "tiny"}, 12),
        ("turncredit/WebShop-v0", {}, 6),
        ("turncredit/Code-v0", {"seconds": 30.0}, 2),
        ("turncredit/Android-v0", {}, 3),
        ("toys/Fragile-v0", {"harm": "raise"}, 9),
    ],
)
def test_trajectories_are_the_same_as_in_this_process(env_id: str, options: dict[str, Any], tasks: int) -> None:
    make_env = maker(env_id, **options)
    env = make_env()
    names = env.get_wrapper_attr("task_ids")(tasks)
    env.close()

    def play(workers: int) -> list[list[Trajectory]]:
        with EnvPool(make_env, workers=workers) as pool:
            return without_pids(rollout(Agent(max_turns=8), Random(), names, make=pool, size=2, seed=3))

    here = play(0)
    assert play(2) == here
    assert sum(len(one.turns) for group in here for one in group) > 2 * tasks


def test_a_deadline_changes_no_trajectory_and_the_expert_plans_elsewhere() -> None:
    found = []
    for workers, deadline in ((0, None), (1, None), (1, LONG)):
        with EnvPool(maker("toys/Corridor-v0"), deadline, workers=workers) as pool:
            found.append(timeless(rollout(Agent(), Expert(), Corridor().task_ids(), make=pool)))
    assert found[0] == found[1] == found[2]
    assert all(one.won for group in found[0] for one in group)


def test_environments_are_dealt_evenly_and_kept_for_the_next_rollout() -> None:
    with EnvPool(Fragile, workers=3) as pool:
        first, second = [
            rollout(Agent(), Scripted(WIN), [SAFE] * 6, make=pool, concurrency=6, seed=seed) for seed in (0, 1)
        ]
    assert sorted(pids(first).values()) == [2, 2, 2]
    assert pids(first) == pids(second)
    assert os.getpid() not in pids(first)


def test_a_death_ends_the_episodes_of_its_process_and_no_others() -> None:
    report = RolloutReport()
    with EnvPool(partial(Fragile, "die"), workers=2) as pool:
        groups = rollout(
            Agent(max_turns=4), Scripted(["look"] * 4), [BAD, SAFE], make=pool, size=1, concurrency=2, report=report
        )
        bad, safe = [group.trajectories[0] for group in groups]
        assert (bad.stop, len(bad.turns), safe.stop, len(safe.turns)) == ("error", 2, "turns", 4)
        assert bad.error == (
            "EnvironmentDied in step(): the environment's process ended (killed by SIGKILL, after printing: "
            "the last words)"
        )
        again = rollout(Agent(), Scripted(WIN), [SAFE] * 4, make=pool, concurrency=4, report=report)
        assert all(one.won for group in again for one in group.trajectories)
        assert len(pids(again)) == 2
    assert (report.errors, report.restarts, report.replaced) == (1, 1, 1)


def test_a_task_that_kills_its_process_comes_into_quarantine() -> None:
    report = RolloutReport()
    with EnvPool(partial(Fragile, "die"), workers=1) as pool:
        groups = rollout(
            Agent(max_turns=3), Scripted(["look"] * 3), [BAD], make=pool, size=6, concurrency=1, report=report
        )
    assert len(groups[0].trajectories) == 3
    assert (report.errors, report.quarantined, report.skipped) == (3, [BAD], 3)
    assert report.replaced == 1  # after the first death the task was played in processes of its own


@pytest.mark.parametrize("deadline", [None, LONG])
def test_who_shares_a_process_with_a_killer_is_played_as_if_it_had_been_alone(deadline: float | None) -> None:
    report, looking, size = RolloutReport(), Scripted(["look"] * 4), 6

    def play(*tasks: str, report: RolloutReport | None = None) -> list[Group]:
        with EnvPool(partial(Fragile, "die"), deadline, workers=1) as pool:
            return rollout(
                Agent(max_turns=4), looking, tasks, make=pool, size=size, concurrency=2 * size, report=report
            )

    bad, *others = play(BAD, SAFE, "open-4-2", report=report)
    assert without_pids(others) == without_pids(play(SAFE, "open-4-2"))  # with no failed episode among them
    assert not bad.finished
    assert report.quarantined == [BAD]
    assert (report.errors, report.episodes) == (3, 3 + 2 * size)
    assert report.lost > 0


class Noting(Scripted):
    """Notes in which order requests arrive."""

    def __init__(self) -> None:
        super().__init__(["look"] * 3)
        self.arrived: list[tuple[str, int]] = []

    async def sample(self, request: Request) -> Completion:
        self.arrived.append((request.episode, request.turn))
        await asyncio.sleep(0)
        return await super().sample(request)


def test_answers_in_order_let_requests_meet_in_the_same_order_each_time() -> None:
    orders = []
    for _ in range(3):
        sampler = Noting()
        with EnvPool(Jittery, workers=2, deterministic=True) as pool:
            groups = rollout(Agent(max_turns=3), sampler, [SAFE, "open-4-2"], make=pool, size=4, concurrency=6)
        assert all(len(one.turns) == 3 for group in groups for one in group.trajectories)
        orders.append(sampler.arrived)
    assert orders[0] == orders[1] == orders[2]
    assert len(orders[0]) == 24


def test_deaths_at_random_lose_no_episode_of_the_others_and_shrink_what_one_death_ends() -> None:
    report = RolloutReport()
    hosts = EnvProcesses(2)
    with EnvPool(partial(Deadly, 0.01), hosts=hosts) as pool:
        tasks, looking = Corridor().task_ids(), Scripted(["look"] * 6)
        groups = rollout(Agent(max_turns=6), looking, tasks, make=pool, size=7, concurrency=120, report=report)
    ended = [one for group in groups for one in group.trajectories]
    assert report.lost > 0
    assert len(ended) == 7 * len(tasks)
    assert all(str(one.error).startswith("EnvironmentDied") for one in ended if one.stop == "error")
    assert hosts.capacity < 2 * 60


def test_processes_may_have_more_environments_again_after_a_time_without_deaths() -> None:
    hosts = EnvProcesses(1)
    hosts._most = 8
    with EnvPool(Fragile, hosts=hosts) as pool:
        rollout(Agent(max_turns=1), Scripted(["look"]), [SAFE] * 64, make=pool, concurrency=8)
        assert hosts.capacity == 16
        before = pids(rollout(Agent(max_turns=1), Scripted(["look"]), [SAFE] * 16, make=pool, concurrency=16))
    assert len(before) == 1


def test_a_process_that_has_more_than_it_may_passes_some_on() -> None:
    hosts = EnvProcesses(2, most=8)
    with EnvPool(Fragile, hosts=hosts) as pool:
        assert hosts.capacity == 16
        groups = rollout(Agent(max_turns=1), Scripted(["look"]), [SAFE] * 40, make=pool, concurrency=40)
        assert len(pids(groups)) == 2
        hosts._most = 4
        groups = rollout(Agent(max_turns=1), Scripted(["look"]), [SAFE] * 40, make=pool, concurrency=40)
        assert len(groups) == 40


def test_a_process_that_does_not_start_in_time_ends_who_waits_for_it() -> None:
    def start() -> ConcurrentProcess:
        return ConcurrentProcess(partial(time.sleep, 3600), start_seconds=0.5)

    hosts = EnvProcesses(1, start=start)
    with (
        EnvPool(Fragile, hosts=hosts) as pool,
        pytest.raises(AgentError, match=r"did not start: took longer than 0\.5"),
    ):
        rollout(Agent(), Scripted(WIN), Corridor().task_ids(), make=pool, concurrency=1)


def test_a_hang_costs_one_episode_and_the_process_is_replaced_after_the_others() -> None:
    report = RolloutReport()
    with EnvPool(partial(Fragile, "hang"), 10.0, workers=1) as pool:
        pool.deadline = 60.0  # for construction on a busy machine
        first = rollout(Agent(max_turns=1), Scripted(["look"]), [SAFE] * 3, make=pool, concurrency=3)
        (old,) = pids(first)
        for worker in pool._free:
            assert worker._env is not None
            worker._env.seconds = 4.0
        groups = rollout(
            Agent(max_turns=4), Scripted(["look"] * 4), [BAD, SAFE, SAFE], make=pool, concurrency=3, report=report
        )
        bad, *others = [group.trajectories[0] for group in groups]
        assert (bad.stop, bad.error) == (
            "error",
            "DeadlineExceeded in step(): step() took longer than 4 seconds",
        )
        assert [one.stop for one in others] == ["turns", "turns"]
        again = rollout(Agent(), Scripted(WIN), [SAFE] * 3, make=pool, concurrency=3, report=report)
        assert old not in pids(again)
        assert gone(old)
    assert (report.errors, report.restarts, report.replaced) == (1, 1, 1)


def test_a_process_whose_only_environment_hangs_is_killed() -> None:
    report = RolloutReport()
    with EnvPool(partial(Fragile, "hang"), 10.0, workers=1) as pool:
        pool.deadline = 60.0  # for construction on a busy machine
        (old,) = pids(rollout(Agent(max_turns=1), Scripted(["look"]), [SAFE], make=pool, concurrency=1))
        for worker in pool._free:
            assert worker._env is not None
            worker._env.seconds = 4.0
        (group,) = rollout(Agent(), Scripted(["look"] * 4), [BAD], make=pool, concurrency=1, report=report)
        assert group.trajectories[0].stop == "error"
        assert gone(old)
        rollout(Agent(max_turns=1), Scripted(["look"]), [SAFE], make=pool, concurrency=1, report=report)
    assert (report.errors, report.replaced) == (1, 1)


def test_a_process_that_stopped_costs_its_episodes_and_is_replaced() -> None:
    with EnvPool(partial(Fragile, "stop"), 5.0, workers=1) as pool:
        groups = rollout(Agent(max_turns=3), Scripted(["look"] * 3), [BAD], make=pool)
        assert groups[0].trajectories[0].stop == "error"
        again = rollout(Agent(), Scripted(WIN), [SAFE], make=pool)
        assert again[0].trajectories[0].won


def test_a_process_that_has_grown_is_replaced_between_episodes() -> None:
    report = RolloutReport()
    hosts = EnvProcesses(1, memory_gib=0.2)
    with EnvPool(partial(Fragile, "grow"), hosts=hosts) as pool:
        groups = rollout(Agent(max_turns=3), Scripted(["look"] * 3), [BAD] * 8, make=pool, concurrency=1, report=report)
    assert report.errors == 0
    used = pids(groups)
    assert len(used) > 1
    assert report.replaced == len(used) - 1
    assert all(map(gone, used))


def test_ids_that_only_this_process_knows_are_known_there() -> None:
    import toys.fragile

    assert toys.fragile.Fragile is Fragile
    with EnvPool(maker("toys/Fragile-v0", harm=""), workers=1) as pool:
        assert rollout(Agent(), Scripted(WIN), [SAFE], make=pool)[0].trajectories[0].won


ONE = Fragile()


def test_what_cannot_be_sent_or_started_is_said_at_once() -> None:
    with (
        EnvPool(lambda: Corridor(), workers=1) as pool,
        pytest.raises(EnvError, match="cannot be sent to another process"),
    ):
        rollout(Agent(), Scripted(WIN), [SAFE], make=pool)
    for workers, memory, match in ((0, 0.0, "must be >= 1, got 0"), (1, -1.0, "must be >= 0 GiB"),
                                   (1, float("nan"), "must be >= 0 GiB")):  # fmt: skip
        with pytest.raises(AgentError, match=match):
            EnvProcesses(workers, memory_gib=memory)
    with EnvPool(partial(getattr, ONE, "unwrapped"), workers=1) as pool:  # pickled, so each is a copy
        assert rollout(Agent(), Scripted(WIN), [SAFE] * 2, make=pool)[1].trajectories[0].won


def test_the_old_name_of_the_limit_is_read_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match="write memory_gib"):
        assert EnvProcesses(1, memory=0.5).memory_gib == 0.5


def test_an_environment_elsewhere_is_a_gymnasium_environment() -> None:
    hosts = EnvProcesses(1, threads=True)
    try:
        env = hosts.open(maker("toys/Corridor-v0"), LONG, LONG).result(LONG)
        here = make("toys/Corridor-v0")
        assert (env.observation_space, env.action_space, env.spec) == (
            here.observation_space, here.action_space, here.spec)  # fmt: skip
        assert env.get_wrapper_attr("task_ids")() == here.get_wrapper_attr("task_ids")()
        assert not env.has_wrapper_attr("demonstrate")
        assert env.reset(seed=3) == here.reset(seed=3)
        plan = env.get_wrapper_attr("plan")()
        assert [env.step(action) for action in plan] == [here.step(action) for action in plan]
        env.close()
        house = hosts.open(maker("turncredit/Household-v0", level="tiny"), LONG, LONG).result(LONG)
        house.reset(seed=0)
        data = house.get_wrapper_attr("snapshot")()
        assert load(make("turncredit/Household-v0", level="tiny"), data) == house.get_wrapper_attr("restore")(data)
    finally:
        hosts.close()
    with pytest.raises(EnvironmentDied):
        house.step("look")


def test_a_late_call_raises_and_the_deadlines_need_threads() -> None:
    hosts = EnvProcesses(1)
    with pytest.raises(EnvError, match="threads=True"):
        hosts.open(Fragile, 1.0)
    hosts = EnvProcesses(1, threads=True)
    try:
        env = hosts.open(partial(Fragile, "hang"), 1.0, LONG).result(LONG)
        env.seconds = LONG
        env.reset(seed=0, options={"task": BAD})
        env.step("look")
        env.seconds = 0.3
        with pytest.raises(DeadlineExceeded, match=r"step\(\) took longer than 0\.3 seconds"):
            env.step("look")
        assert env.connection.retired
    finally:
        hosts.close()


def test_processes_that_never_start_end_the_rollout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turncredit.agents.rollouts.env_processes.new_host", partial(sys.exit, 4))
    with (
        EnvPool(Fragile, workers=1) as pool,
        pytest.raises(AgentError, match=r"3 processes for environments did not start: exit code 4"),
    ):
        rollout(Agent(), Scripted(WIN), Corridor().task_ids(), make=pool, concurrency=1)


INTERRUPTED = """
import asyncio, os, sys
sys.path[:0] = {path!r}
from functools import partial
from toys.fragile import Deadly, Fragile, Jittery
from turncredit.agents.agent import Agent
from turncredit.agents.rollouts.env_pool import EnvPool
from turncredit.agents.errors import Interrupted
from turncredit.agents.rollouts.rollout import rollout
from turncredit.engines.scripted import Scripted

class Slow(Scripted):
    async def sample(self, request):
        await asyncio.sleep(0.02)
        print(*pool.hosts.pids(), flush=True)
        return await super().sample(request)

if __name__ == "__main__":
    with EnvPool(partial(Fragile, "start"), {deadline}, workers=2) as pool:
        try:
            rollout(Agent(max_turns=9999), Slow(["look"] * 9999), ["open-5-1"] * 4, make=pool)
        except Interrupted:
            print("interrupted", flush=True)
"""


@pytest.mark.parametrize("deadline", [None, LONG])
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_a_rollout_that_is_interrupted_or_killed(
    end: signal.Signals, deadline: float | None, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(INTERRUPTED.format(path=sys.path, deadline=deadline))
    parent = subprocess.Popen([sys.executable, "-P", str(script)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    lines = (parent.stdout.readline() for _ in range(40))
    workers = [int(word) for word in list(lines)[-1].split()]
    assert len(workers) == 2
    assert eventually(lambda: [os.getsid(pid) for pid in workers] == workers)
    parent.send_signal(end)
    rest = parent.communicate(timeout=LONG)[0]
    assert ("interrupted" in rest) == (end is signal.SIGINT)
    assert all(map(gone, workers))
    assert eventually(lambda: not any(sessions_of(workers)))


def sessions_of(leaders: list[int]) -> list[int]:
    """Return the processes in the sessions of some processes, zombies excepted."""
    found = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) in leaders and fields[0] != "Z":
            found.append(pid)
    return found


def test_closing_takes_no_longer_than_the_environments() -> None:
    pool = EnvPool(Fragile, workers=2)
    rollout(Agent(), Scripted(WIN), [SAFE] * 4, make=pool)
    assert isinstance(pool.hosts, EnvProcesses)
    running = pool.hosts.pids()
    begun = time.monotonic()
    pool.close()
    assert time.monotonic() - begun < 9  # the limit for environments that hang is 10
    assert all(map(gone, running))
