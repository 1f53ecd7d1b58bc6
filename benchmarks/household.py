"""Speed of the household engine in one process: opening, resets, steps with their admissible commands, memory.

    python benchmarks/household.py [--games PATH] [--original VENV] [--episodes 8]

--games: a folder or packed file of original games; default: generated games. --original: a virtual environment with the
original engine (household_parity.py creates one); its speed is then measured in the same run, with the ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

OPEN = """
import resource, sys, time
from turncredit.envs.household.library import GameLibrary
start = time.perf_counter()
count = len(GameLibrary.open(sys.argv[1]).ids(sys.argv[2]))
print(count, time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games")
    parser.add_argument("--original", type=Path)
    parser.add_argument("--count", type=int, default=100, help="games played")
    parser.add_argument("--episodes", type=int, default=8, help="episodes of each game, as in a group")
    parser.add_argument("--turns", type=int, default=50)
    options = parser.parse_args()
    report: dict[str, Any] = {}
    if options.games:
        report |= opening(options.games)
    report |= playing(options.games, options.count, options.episodes, options.turns)
    if options.original:
        from household_parity import compare

        measured = compare(options.games, options.original, 4, options.turns, seed=0)
        report["original_steps_per_second"] = measured["original_steps_per_second"]
        report["ratio"] = round(report["steps_per_second"] / measured["original_steps_per_second"])
        report["differences"] = measured["differences"]
    print(json.dumps(report, indent=2))


def opening(games: str) -> dict[str, Any]:
    """Open all training games without and with a cache, each in a new process."""
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as cache:
        for name in ("cold", "cached"):
            done = subprocess.run(
                [sys.executable, "-c", OPEN, games, "train"],
                env={**os.environ, "TURNCREDIT_CACHE": cache},
                capture_output=True,
                text=True,
                check=True,
            )
            count, seconds, memory = done.stdout.split()
            result["training_games"] = int(count)
            result[f"open_{name}_seconds"] = round(float(seconds), 3)
            result[f"open_{name}_megabytes"] = round(float(memory))
    return result


def playing(games: str | None, count: int, episodes: int, turns: int) -> dict[str, Any]:
    """Play random admissible commands through the environment; a game's first reset reads and compiles it."""
    from turncredit.envs.household.env import HouseholdEnv

    env = HouseholdEnv(games)
    rng = random.Random(0)
    tasks = env.task_ids()
    env.reset(options={"task": tasks[0]})
    first: list[float] = []
    busy_first: list[float] = []
    again: list[float] = []
    steps, seconds, busy = 0, 0.0, 0.0
    for task in rng.sample(tasks[1:], min(count, len(tasks) - 1)):
        for episode in range(episodes):
            start, begun = time.perf_counter(), time.process_time()
            _, info = env.reset(options={"task": task})
            (again if episode else first).append(time.perf_counter() - start)
            if not episode:
                busy_first.append(time.process_time() - begun)
            start, begun = time.perf_counter(), time.process_time()
            for _ in range(turns):
                steps += 1
                _, _, over, _, info = env.step(rng.choice(info["admissible_actions"]))
                if over:
                    break
            seconds += time.perf_counter() - start
            busy += time.process_time() - begun
    return {
        "games": len(first),
        "episodes_of_each": episodes,
        "steps": steps,
        "steps_per_second": round(steps / seconds),
        "steps_per_processor_second": round(steps / busy),  # differs from the line above on a busy machine only
        "first_reset_milliseconds_median": round(1e3 * statistics.median(first), 2),
        "first_reset_milliseconds_95_percent": round(1e3 * sorted(first)[int(0.95 * len(first))], 2),
        "first_reset_processor_milliseconds_95_percent": round(1e3 * sorted(busy_first)[int(0.95 * len(first))], 2),
        "reset_milliseconds_median": round(1e3 * statistics.median(again or first), 3),
        "megabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


if __name__ == "__main__":
    main()
