"""A thousand episodes at once: steps per second, memory per episode and lost episodes, in process and with workers.

    taskset -c 0,1 python benchmarks/concurrency.py [--episodes 1000] [--turns 30] [--latency 1] [--workers 2]

A sampler plays random actions, each after a wait that is drawn from an exponential distribution with the given mean, as
if a server had computed it. All episodes are begun at once. Each measurement runs in a fresh process. Beside the rate
stands how near it is to that of the waits alone: the longest sum of waits of an episode, divided by the time that all
took. The memory per episode is the growth of this process and its workers from a first small rollout to the highest
value while all are played: environments, conversations and trajectories. The processor time per step is that of this
process, and of this process and its workers.

Then the same without waits, in turns: the rate that the processors allow, and the time of a single step of each kind of
environment, called alone. "code" is an environment that starts processes: what gains from workers, and from threads.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from turncredit.agents.agent import Agent
from turncredit.agents.rollouts.env_pool import EnvPool
from turncredit.agents.rollouts.env_processes import EnvProcesses
from turncredit.agents.rollouts.rollout import RolloutReport, arollout, rollout
from turncredit.agents.trajectory import Group
from turncredit.engines.base import Completion, Request
from turncredit.engines.scripted import Random
from turncredit.envs import maker

ENVS = {"household": "turncredit/Household-v0", "shop": "turncredit/WebShop-v0", "code": "turncredit/Code-v0"}


class Waiting(Random):
    """Plays random actions after a random wait."""

    def __init__(self, latency: float) -> None:
        super().__init__()
        self.latency = latency
        self.waited: dict[str, float] = defaultdict(float)
        """Seconds of all waits of each episode."""

    async def sample(self, request: Request) -> Completion:
        if self.latency:
            draw = random.Random(f"{request.episode} {request.turn}")
            wait = draw.expovariate(1 / self.latency)
            self.waited[request.episode] += wait
            await asyncio.sleep(wait)
        return await super().sample(request)


class MemoryWatch:
    """The most memory that this process and its workers use together, looked at five times a second."""

    def __init__(self, pool: EnvPool) -> None:
        self.pool, self.most, self.start = pool, 0.0, 0.0

    def now(self) -> float:
        """Return the memory in MB."""
        hosts = self.pool.hosts
        pids = [os.getpid(), *(hosts.pids() if isinstance(hosts, EnvProcesses) else ())]
        return sum(map(megabytes, pids))

    async def watch(self) -> None:
        while True:
            self.most = max(self.most, self.now())
            await asyncio.sleep(0.2)


def megabytes(pid: int) -> float:
    """Return the memory of a process that no other shares with it."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Private")) / 1000
    return 0.0


def worker_seconds(pool: EnvPool) -> float:
    """Return the processor time of the workers so far, without that of processes that they started."""
    pids = pool.hosts.pids() if isinstance(pool.hosts, EnvProcesses) else []
    stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(stat[11]) + int(stat[12]) for stat in stats) / os.sysconf("SC_CLK_TCK")


async def watched(memory: MemoryWatch, playing: Any) -> list[Group]:
    watch = asyncio.create_task(memory.watch())
    try:
        return await playing  # type: ignore[no-any-return]
    finally:
        watch.cancel()


def play(name: str, workers: int, threads: bool, episodes: int, turns: int, latency: float) -> dict[str, Any]:
    """Play all episodes at once; return the numbers."""
    make = maker(ENVS[name])
    env = make()
    tasks = env.get_wrapper_attr("task_ids")(episodes)
    tasks = (tasks * (episodes // len(tasks) + 1))[:episodes]
    env.close()
    agent, report = Agent(max_turns=turns), RolloutReport()
    with EnvPool(make, 600.0 if threads else None, workers=workers) as pool:
        rollout(Agent(max_turns=2), Random(), tasks[:8], make=pool, concurrency=8)
        memory = MemoryWatch(pool)
        memory.start = memory.now()
        begun = time.process_time(), worker_seconds(pool)
        sampler = Waiting(latency)
        playing = arollout(agent, sampler, tasks, make=pool, concurrency=episodes, report=report)
        groups = asyncio.run(watched(memory, playing))
        own, others = time.process_time() - begun[0], worker_seconds(pool) - begun[1]
    finished = [one for group in groups for one in group.trajectories if one.stop != "error"]
    return {
        "environment": name,
        "workers": workers,
        "threads": threads,
        "latency": latency,
        "episodes": episodes,
        "lost": episodes - len(finished),
        "steps": report.turns,
        "seconds": report.seconds,
        "steps_a_second": report.turns / report.seconds,
        "of_the_waits": max(sampler.waited.values(), default=0.0) / report.seconds,
        "own_us_a_step": 1e6 * own / report.turns,
        "all_us_a_step": 1e6 * (own + others) / report.turns,
        "megabytes_an_episode": (memory.most - memory.start) / episodes,
    }


def single_steps(name: str, count: int = 2000) -> dict[str, Any]:
    """Return the microseconds of a step that nothing else delays, here and in another process."""
    found: dict[str, Any] = {"environment": name}
    hosts = EnvProcesses(1)
    try:
        kinds = {"here": maker(ENVS[name])(), "elsewhere": hosts.open(maker(ENVS[name])).result()}
        times: dict[str, list[float]] = {kind: [] for kind in kinds}
        for block in range(10):
            for kind, env in kinds.items():
                draw = random.Random(block)
                _, info = env.reset(seed=block)
                begun, ended = time.perf_counter(), False
                for _ in range(count // 10):
                    if ended:
                        _, info = env.reset(seed=block)
                    _, _, terminated, truncated, info = env.step(draw.choice(info["admissible_actions"]))
                    ended = terminated or truncated
                times[kind].append((time.perf_counter() - begun) / (count // 10))
        found |= {f"{kind}_us": 1e6 * min(values) for kind, values in times.items()}
    finally:
        hosts.close()
    return found


def measured(*words: object) -> dict[str, Any]:
    """Return the numbers of one measurement in a fresh process."""
    command = [sys.executable, "-P", __file__, "--one", json.dumps(words)]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(ended.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def show(rows: list[dict[str, Any]], steps: list[dict[str, Any]]) -> None:
    table = Table(title=f"episodes at once, {len(os.sched_getaffinity(0))} cores")
    columns = "environment|workers|mean wait|episodes|lost|steps/s|of the waits|us a step|with workers|MB an episode"
    for column in columns.split("|"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            row["environment"],
            f"{row['workers'] or 'in process'}{', threads' if row['threads'] else ''}",
            f"{row['latency']:g} s",
            f"{row['episodes']:,}",
            str(row["lost"]),
            f"{row['steps_a_second']:,.0f}",
            f"{row['of_the_waits']:.2f}" if row["latency"] else "",
            f"{row['own_us_a_step']:.0f}",
            f"{row['all_us_a_step']:.0f}",
            f"{row['megabytes_an_episode']:.3f}",
        )
    Console(width=130).print(table)
    for row in steps:
        here, elsewhere = row["here_us"], row["elsewhere_us"]
        print(f"one step of {row['environment']}: {here:.0f} us here, {elsewhere:.0f} us in another process")


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--latency", type=float, default=1.0, help="mean wait of a turn in seconds")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    parser.add_argument("--one", help="one measurement: a JSON list; used by the program itself")
    options = parser.parse_args()
    if options.one:
        words = json.loads(options.one)
        print(json.dumps(single_steps(*words) if len(words) == 1 else play(*words)))
        return
    rows = []
    for name in ("household", "shop"):
        for latency in (options.latency, 0.0):
            for workers in (0, options.workers):
                rows.append(measured(name, workers, False, options.episodes, options.turns, latency))
    for workers, threads in ((0, False), (options.workers, False), (options.workers, True)):
        rows.append(measured("code", workers, threads, 64, 8, 0.0))
    steps = [measured(name) for name in ("household", "shop")]
    show(rows, steps)
    result = {"rows": rows, "steps": steps, "lost": sum(row["lost"] for row in rows)}
    print(json.dumps(result))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
