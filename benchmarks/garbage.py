"""What Python's cyclic garbage collector costs environments: steps per second with its default threshold, and with that
of the program `turncredit` and its worker processes, in turns.

    python benchmarks/garbage.py [--seconds 1] [--rounds 5]

Every task is played eight times, as by the agents of a group: up to 50 actions, drawn at random from the admissible
ones. Counted per second of processor time; the ratio is the median over rounds.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import time
from collections.abc import Callable

from turncredit.envs import make
from turncredit.processes.garbage_collection import NEW_OBJECTS

ENVIRONMENTS = ("turncredit/Household-v0", "turncredit/WebShop-v0", "turncredit/Search-v0", "turncredit/Android-v0")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    default, *others = gc.get_threshold()
    report = {}
    for name in ENVIRONMENTS:
        play = player(name)
        play(options.seconds)
        speeds: dict[int, list[float]] = {default: [], NEW_OBJECTS: []}
        for _ in range(options.rounds):
            for threshold, found in speeds.items():
                gc.set_threshold(threshold, *others)
                found.append(play(options.seconds))
        ratio = statistics.median(after / before for before, after in zip(*speeds.values(), strict=True))
        report[name] = {str(key): round(statistics.median(found)) for key, found in speeds.items()}
        report[name]["ratio"] = round(ratio, 2)
    print(json.dumps(report, indent=2))


def player(name: str) -> Callable[[float], float]:
    """Return what plays an environment for a number of seconds and returns its steps per second."""
    env, draw = make(name), random.Random(0)
    tasks = (task for task in env.unwrapped.task_ids(100_000) for _ in range(8))

    def play(seconds: float) -> float:
        count, start = 0, time.process_time()
        while time.process_time() - start < seconds:
            _, info = env.reset(options={"task": next(tasks)})
            for _ in range(50):
                allowed = [action for action in info["admissible_actions"] if action not in ("done", "infeasible")]
                *_, ended, cut, info = env.step(draw.choice(allowed or ["search x"]))
                count += 1
                if ended or cut:
                    break
        return count / (time.process_time() - start)

    return play


if __name__ == "__main__":
    main()
