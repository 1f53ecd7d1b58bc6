"""Throughput and memory leaks of browser environments: steps per second with several contexts, and many episodes.

    python benchmarks/browser.py [--contexts 8] [--seconds 20] [--episodes 200] [--env turncredit/WebShopBrowser-v0]

The contexts run in parallel, each in its own thread, with random admissible actions; resets count as time but not as
steps. Then short episodes run one after another in one environment, and the memory of the whole process tree is
compared after the first tenth of them and at the end. For MiniWoB++, resets that start an open page again are compared
with resets that load it anew.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contexts", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--steps", type=int, default=3, help="steps of each of these episodes")
    parser.add_argument("--env", default="turncredit/WebShopBrowser-v0")
    options = parser.parse_args()
    report: dict[str, Any] = {"env": options.env, "load_before": os.getloadavg()[0]}
    for contexts in (1, options.contexts):
        steps, cpu = speed(options.env, contexts, options.seconds)
        report[f"steps_per_second_{contexts}"] = round(steps, 1)
        report[f"cpu_milliseconds_per_step_{contexts}"] = round(1000 * cpu)
    if "MiniWoB" in options.env:
        report |= resets(options.env, options.episodes)
    report |= leaks(options.env, options.episodes, options.steps)
    print(json.dumps(report, indent=2))


def made(name: str) -> Any:
    from turncredit.envs import make

    return make(name, max_episode_steps=-1, **({"level": "tiny"} if "WebShop" in name else {}))


def speed(name: str, contexts: int, seconds: float) -> tuple[float, float]:
    """Return steps a second of all contexts together, and processor seconds of all processes a step, resets included.

    The second tells on a busy machine what the first would be on an idle one.
    """
    envs = [made(name) for _ in range(contexts)]
    counts = [0] * contexts
    for index, env in enumerate(envs):
        env.reset(seed=index)
    end = time.perf_counter() + seconds

    def play(index: int) -> None:
        env, rng = envs[index], random.Random(index)
        over, info = True, {}
        while time.perf_counter() < end:
            if over:
                _, info = env.reset(seed=rng.randrange(10**6))
            _, _, over, _, info = env.step(rng.choice(info["admissible_actions"]))
            counts[index] += 1

    before = processor()
    began = time.perf_counter()
    threads = [threading.Thread(target=play, args=(index,)) for index in range(contexts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    result = sum(counts) / (time.perf_counter() - began), (processor() - before) / max(1, sum(counts))
    for env in envs:
        env.close()
    return result


def resets(name: str, episodes: int) -> dict[str, Any]:
    """Return processor milliseconds of a reset that loads its page, and their ratio to those of one that does not."""
    from turncredit.envs import make

    costs = []
    for reload in (True, False):
        env = make(name, reload=reload)
        for number in range(episodes + 1):
            if number == 1:
                before = processor()
            env.reset(seed=number)
        costs.append((processor() - before) / episodes)
        env.close()
    return {"cpu_milliseconds_per_reset": round(1000 * costs[0]), "started_again": round(costs[0] / costs[1], 1)}


def leaks(name: str, episodes: int, steps: int) -> dict[str, Any]:
    """Play episodes in a row and compare memory and processes after a tenth of them and after all."""
    from turncredit.tools.browser import shared_browser

    env, rng = made(name), random.Random(0)
    seen: dict[int, tuple[float, int]] = {}
    first = max(1, episodes // 10)
    began = time.perf_counter()
    for number in range(1, episodes + 1):
        _, info = env.reset(seed=number)
        for _ in range(steps):
            _, _, over, _, info = env.step(rng.choice(info["admissible_actions"]))
            if over:
                break
        if number in (first, episodes):
            seen[number] = tree()
    seconds = time.perf_counter() - began
    env.close()
    contexts = shared_browser().open_contexts
    shared_browser().close()
    time.sleep(1.0)
    return {
        "episodes": episodes,
        "seconds_per_episode": round(seconds / episodes, 3),
        f"megabytes_after_{first}": round(seen[first][0]),
        f"megabytes_after_{episodes}": round(seen[episodes][0]),
        f"processes_after_{first}": seen[first][1],
        f"processes_after_{episodes}": seen[episodes][1],
        "contexts_left": contexts,
        "processes_left": tree()[1] - 1,
    }


def processor() -> float:
    """Return the CPU seconds of this process and its descendants so far, including those that have ended."""
    total = 0
    for pid in family():
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15]))
    return total / os.sysconf("SC_CLK_TCK")


def tree() -> tuple[float, int]:
    """Return proportional memory in megabytes and number of this process and its descendants."""
    ours = family()
    return sum(map(memory, ours)), len(ours)


def family() -> set[int]:
    """Return the process ids of this process and its descendants."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                parents[int(entry.name)] = int(fields[1])
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return ours


def memory(pid: int) -> float:
    """Return the proportional memory of a process in megabytes."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


if __name__ == "__main__":
    main()
