"""What one turn costs the process that plays the episodes: prompts, parsing, the environment, and the event loop.

A sampler answers at random and at once, so that only the driver works. Measured is the processor time of a turn by the
number of episodes at once, in the household, with the prompt as ids of tokens and without a tokenizer. The time of an
environment's own steps is measured apart, by repeating the actions of some episodes.

    python benchmarks/driver.py [--episodes 64 1000] [--turns 15] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from turncredit.agents import Agent, rollout
from turncredit.agents.rollouts.env_pool import EnvPool, MakeEnv
from turncredit.agents.rollouts.rollout import RolloutReport
from turncredit.agents.trajectory import Trajectory
from turncredit.engines.scripted import Random
from turncredit.envs import maker
from turncredit.processes.garbage_collection import collect_garbage_less_often
from turncredit.training.learner.policy import build_policy

WORDS = ["You are in the kitchen. You see a drawer 1, a sink 1. go to drawer 1, open drawer 1, take mug 1. "]


def play(
    make: MakeEnv, tasks: Sequence[str], turns: int, sampler: Random, seconds: dict[str, float]
) -> list[Trajectory]:
    """Play every task once, all at the same time, and add the processor seconds of a turn."""
    with EnvPool(make) as pool:
        rollout(Agent(max_turns=1), sampler, tasks, make=pool, concurrency=len(tasks))  # makes the environments
        report, started = RolloutReport(), time.process_time()
        groups = rollout(
            Agent(max_turns=turns), sampler, tasks, make=pool, concurrency=len(tasks), report=report, seed=1
        )
        seconds["turn"] = (time.process_time() - started) / report.turns
    return [trajectory for group in groups for trajectory in group.trajectories]


def environment_seconds(make: MakeEnv, trajectories: Sequence[Trajectory]) -> float:
    """Return the processor seconds of a turn in the environment alone, its resets included."""
    env, turns, started = make(), 0, time.process_time()
    for trajectory in trajectories:
        env.reset(seed=trajectory.seed, options={"task": trajectory.task})
        for turn in trajectory.turns:
            env.step(turn.action or "")
        turns += len(trajectory.turns)
    env.close()
    return (time.process_time() - started) / turns


def measure(episodes: int, turns: int) -> dict[str, float]:
    """Return milliseconds of processor time of a turn."""
    make = maker("turncredit/Household-v0", level="tiny")
    env = make()
    tasks = env.get_wrapper_attr("task_ids")(episodes)
    env.close()
    _, tokenizer = build_policy(WORDS * 20, hidden=32, layers=1, heads=1, context=8192)
    result: dict[str, float] = {}
    for name, sampler in (("with ids", Random(tokenizer=tokenizer)), ("without ids", Random())):
        seconds: dict[str, float] = {}
        trajectories = play(make, tasks, turns, sampler, seconds)
        result[name] = 1000 * seconds["turn"]
    result["environment"] = 1000 * environment_seconds(make, trajectories[:64])
    return result


def main() -> None:
    """Measure every number of episodes, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, nargs="+", default=[64, 1000])
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    collect_garbage_less_often()
    results = {episodes: measure(episodes, options.turns) for episodes in options.episodes}
    table = Table("episodes at once", "turn, with ids", "turn, without ids", "environment alone", title="ms of a turn")
    for episodes, result in results.items():
        table.add_row(f"{episodes:,}", *(f"{result[name]:.3f}" for name in ("with ids", "without ids", "environment")))
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
