"""What large rollouts cost beside the environments: deaths of workers, long trajectories on disk, requests that wait.

    taskset -c 0,1 python benchmarks/losses.py [--episodes 1000] [--turns 15] [--share 0.0005] [--json PATH]

- deaths: all episodes begin at once in some workers, and a share of the steps ends the worker. Lost episodes ended as
  an error because another one ended their worker. Alternately they are begun again, or kept as they are.
- order: the requests of two rollouts, with environments whose steps take a random time, are compared, with and without
  answers in order.
- trajectories: episodes of 30 turns and 3,000 tokens a turn are written by the thread of the event loop, or beside it:
  processor time of that thread.
- waiting: as many requests wait for an engine that loads weights as another one answers: processor time of all, if
  every answer wakes everybody who waits, and with the changes that `ClusterSampler` waits for.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from turncredit.agents.agent import Agent
from turncredit.agents.files.background_writer import BackgroundWriter
from turncredit.agents.files.trajectory_files import TrajectoryWriter
from turncredit.agents.rollouts import rollout_stream
from turncredit.agents.rollouts.env_pool import EnvPool
from turncredit.agents.rollouts.env_processes import EnvProcesses
from turncredit.agents.rollouts.rollout import RolloutReport, rollout
from turncredit.agents.rollouts.rollout_stream import MAX_LOSSES
from turncredit.agents.trajectory import Trajectory, Turn
from turncredit.engines.base import Completion, Request
from turncredit.engines.routing import Changes, Engine, EngineState, Routes
from turncredit.engines.scripted import Random
from turncredit.envs import TextEnv


class Line(TextEnv):
    """A line to walk along; a share of the steps ends the process, and every step may take a moment."""

    def __init__(self, deaths: float = 0.0, seconds: float = 0.0) -> None:
        super().__init__(None)
        self.deaths, self.seconds, self.at = deaths, seconds, 0

    def list_tasks(self, count: int | None) -> list[str]:
        return [f"line-{number}" for number in range(count or 1000)]

    def start_task(self, task: str, options: Any) -> str:
        self.at = 0
        return f"You stand at the start of {task}."

    def take_action(self, action: str) -> tuple[str, float, bool]:
        chance = random.SystemRandom()
        if chance.random() < self.deaths:
            os._exit(1)
        time.sleep(chance.uniform(0, self.seconds) if self.seconds else 0)
        self.at += 1
        return f"You are at {self.at}.", 0.0, True

    def is_over(self) -> bool:
        return False

    def get_info(self, valid: bool) -> dict[str, Any]:
        return {"task": self.task_id, "state": str(self.at), "admissible_actions": ["go", "wait"], "valid": valid,
                "score": 0.0, "won": False}  # fmt: skip


class Noting(Random):
    """Plays random actions after a moment, and notes the order of the requests."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[tuple[str, int]] = []

    async def sample(self, request: Request) -> Completion:
        self.order.append((request.episode, request.turn))
        await asyncio.sleep(0)
        return await super().sample(request)


def deaths(episodes: int, turns: int, share: float, workers: int, again: bool) -> dict[str, Any]:
    rollout_stream.MAX_LOSSES = MAX_LOSSES if again else 0
    report, hosts, tasks = RolloutReport(), EnvProcesses(workers), Line().list_tasks(episodes)
    with EnvPool(partial(Line, share), hosts=hosts) as pool:
        groups = rollout(Agent(max_turns=turns), Random(), tasks, make=pool, concurrency=episodes, report=report)
        capacity = hosts.capacity
    ended = [trajectory for group in groups for trajectory in group.trajectories]
    killers = sum("EnvironmentDied" in str(trajectory.error) for trajectory in ended)
    rollout_stream.MAX_LOSSES = MAX_LOSSES
    return {
        "workers": workers,
        "begun_again": again,
        "episodes": episodes,
        "finished": sum(trajectory.finished for trajectory in ended),
        "ended_their_process": killers,
        "lost": len(ended) - killers - sum(trajectory.finished for trajectory in ended),
        "beginnings": episodes + report.lost,
        "at_once_at_the_end": min(capacity, episodes),
        "seconds": report.seconds,
    }


def order(turns: int, deterministic: bool) -> dict[str, Any]:
    orders, seconds = [], []
    for _ in range(2):
        sampler, report = Noting(), RolloutReport()
        with EnvPool(partial(Line, 0.0, 0.004), workers=2, deterministic=deterministic) as pool:
            rollout(Agent(max_turns=1), sampler, ["line-0"] * 64, make=pool, concurrency=64)
            rollout(Agent(max_turns=turns), sampler, Line().list_tasks(64), make=pool, concurrency=64, report=report)
        orders.append(sampler.order)
        seconds.append(report.seconds / report.turns)
    return {"deterministic": deterministic, "repeats": orders[0] == orders[1], "ms_a_turn": 1000 * min(seconds)}


def long_episode(turns: int = 30, tokens: int = 3000) -> Trajectory:
    draw, prompt, played = random.Random(0), (), []
    for number in range(turns):
        prompt += tuple(int(draw.paretovariate(0.6)) % 50_000 for _ in range(tokens - 200))
        response = tuple(int(draw.paretovariate(0.6)) % 50_000 for _ in range(200))
        logprobs = tuple(-draw.random() for _ in response)
        played.append(Turn(prompt, response, logprobs, 0, "o" * 8000, "a" * 600, "go", f"s{number}", 0.0, True))
        prompt += response
    return Trajectory("t#0@0", "t", None, 0, tuple(played), "turns", False, 0.0, "", "", None, 1.0)


def trajectories(beside: bool, episodes: int = 10) -> dict[str, Any]:
    trajectory = long_episode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.jsonl.gz"
        with BackgroundWriter(path) if beside else TrajectoryWriter(path) as writer:
            begun = time.thread_time()
            for _ in range(episodes):
                writer.write(trajectory)
            spent = time.thread_time() - begun
        size = path.stat().st_size
    return {"beside": beside, "ms_an_episode": 1000 * spent / episodes, "megabytes_an_episode": size / episodes / 1e6}


class AllAtEveryAnswer:
    """What wakes everybody at every answer."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._changed.wait()

    def notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def waiting(requests: int, everybody: bool) -> float:
    """Return the seconds in which one engine answers requests while as many wait for another."""

    async def all_of_them() -> float:
        busy, loading = engines = [Engine(0, EngineState.READY), Engine(1, EngineState.READY)]
        routes = Routes(engines)
        for number in range(2 * requests):
            routes.choose(str(number))
        states: Any = AllAtEveryAnswer() if everybody else Changes()
        answers: Any = states if everybody else Changes()
        loading.state = EngineState.LOADING

        async def ask(episode: str) -> None:
            await states.until(lambda: routes.choose(episode) is not None)

        waiting = [asyncio.create_task(ask(episode)) for episode in loading.episodes]
        begun = time.process_time()
        for _ in range(len(busy.episodes)):  # each answer comes by itself
            await asyncio.sleep(0)
            answers.notify()
        loading.state = EngineState.READY
        states.notify()
        await asyncio.gather(*waiting)
        return time.process_time() - begun

    return asyncio.run(all_of_them())


def show(result: dict[str, Any]) -> None:
    for name, rows in result.items():
        table = Table(title=name)
        for column in rows[0]:
            table.add_column(column, justify="right")
        for row in rows:
            table.add_row(*(f"{value:,.4g}" if isinstance(value, float) else str(value) for value in row.values()))
        Console(width=130).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--share", type=float, default=0.0005, help="of the steps that end their process")
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    options = parser.parse_args()
    result = {
        "deaths": [
            deaths(options.episodes, options.turns, options.share, workers, again)
            for workers in (2, 8)
            for again in (False, True)
        ],
        "order": [order(options.turns, deterministic) for deterministic in (False, True)],
        "trajectories": [trajectories(beside) for beside in (False, True)],
        "waiting": [
            {"requests": count, "seconds_all_woken": waiting(count, True), "seconds": waiting(count, False)}
            for count in (500, 1000)
        ],
    }
    show(result)
    print(json.dumps(result))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
