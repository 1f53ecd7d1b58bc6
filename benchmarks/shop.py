"""Speed of the web shop in one process: loading, resets, steps with their admissible actions, searches, memory.

    python benchmarks/shop.py [--products PATH --attributes PATH] [--original CHECKOUT [--original-python PYTHON]]

Without --products a generated catalogue is used. Play is random: a search on the page with the search bar, a click
elsewhere, and sometimes a search or an action that is refused. "steps_per_second" uses only new queries, so that the
cache of searches does not help; the same play is then repeated with a warm cache.

--original: a checkout of princeton-nlp/WebShop, run alternately by an interpreter with flask, gym, beautifulsoup4,
thefuzz and numpy. Both sides play the same actions; pages, addresses, clickables, rewards and ends are compared, and
the ratio of the speeds is reported. shop_original.py says what it omits.
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
import json, resource, sys, time
import turncredit.envs.shop.env as shop
start, busy = time.perf_counter(), time.process_time()
env = shop.from_keys(tagger="own", **json.loads(sys.argv[1]))
env.reset(seed=0)
env.shop.search("red shoes", 50)
used = time.perf_counter() - start, time.process_time() - busy
print(*used, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--products")
    parser.add_argument("--attributes")
    parser.add_argument("--human")
    parser.add_argument("--observation", default="text")
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--original", type=Path, help="checkout of the original")
    parser.add_argument("--original-python", default=sys.executable)
    parser.add_argument("--original-episodes", type=int, default=40)
    options = parser.parse_args()
    files = {name: getattr(options, name) for name in ("products", "attributes", "human") if getattr(options, name)}
    report = opening(files) | playing(files, options.observation, options.episodes, options.turns)
    if options.original:
        if "attributes" not in files:
            parser.error("--original needs --products and --attributes")
        beside = compare(files, options.original, options.original_python, options.original_episodes, options.turns)
        report |= beside
        # Ours with its searches, the original without; and both without, over the same actions.
        report["ratio"] = round(report["steps_per_processor_second"] / beside["original_steps_per_processor_second"])
        report["ratio_without_search"] = round(beside["ratio_without_search"])
    print(json.dumps(report, indent=2))
    return 1 if report.get("differences") else 0


def opening(files: dict[str, str]) -> dict[str, Any]:
    """Load, reset and search once, without and with a cache, each in a new process."""
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as cache:
        for name in ("cold", "cached"):
            done = subprocess.run(
                [sys.executable, "-c", OPEN, json.dumps(files)],
                env={**os.environ, "TURNCREDIT_CACHE": cache},
                capture_output=True,
                text=True,
                check=True,
            )
            seconds, busy, memory = done.stdout.split()
            result[f"ready_{name}_seconds"] = round(float(seconds), 3)
            result[f"ready_{name}_processor_seconds"] = round(float(busy), 3)  # differs on a busy machine only
            result[f"ready_{name}_megabytes"] = round(float(memory))
    return result


def playing(files: dict[str, str], observation: str, episodes: int, turns: int) -> dict[str, Any]:
    """Play at random twice: with queries that are all new, then the same again."""
    from turncredit.envs.shop.env import from_keys

    env = from_keys(**files, tagger="own", observation=observation)
    env.shop.search("red shoes", 50)
    tasks = env.task_ids()
    tasks = [tasks[number * len(tasks) // episodes] for number in range(episodes)]
    report: dict[str, Any] = {"products": len(env.shop.catalogue)}
    for name in ("", "_again"):
        rng = random.Random(0)
        steps, searches, seconds, busy = 0, 0, 0.0, time.process_time()
        resets: list[float] = []
        for number, task in enumerate(tasks):
            start = time.perf_counter()
            _, info = env.reset(options={"task": task})
            resets.append(time.perf_counter() - start)
            start = time.perf_counter()
            for turn in range(turns):
                action = choose(rng, info, f"{number} {turn}")
                searches += action.startswith("search")
                steps += 1
                _, _, over, _, info = env.step(action)
                if over:
                    break
            seconds += time.perf_counter() - start
        busy = time.process_time() - busy
        report |= {
            f"steps{name}": steps,
            f"searches{name}": searches,
            f"steps_per_second{name}": round(steps / seconds),
            f"steps_per_processor_second{name}": round(steps / busy),  # resets included
            f"reset_milliseconds_median{name}": round(1e3 * statistics.median(resets), 3),
            f"reset_milliseconds_99_percent{name}": round(1e3 * sorted(resets)[int(0.99 * len(resets))], 3),
        }
    report |= searching(env)
    report["megabytes"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return report


def choose(rng: random.Random, info: dict[str, Any], fresh: str) -> str:
    """Return an action: mostly a possible one, sometimes a new search or one that is refused."""
    draw = rng.random()
    listed = info["admissible_actions"]
    if draw < 0.05:
        return "click[nothing of the kind]"
    if draw < 0.1 or listed[0].startswith("search"):
        words = listed[0][7:-1] if listed[0].startswith("search") else "red shirt with long sleeves"
        return f"search[{words} {fresh}]"
    stay = [action for action in listed if action != "click[buy now]"]
    return rng.choice(listed if draw < 0.2 else stay)


def searching(env: Any) -> dict[str, Any]:
    """Time searches for new titles, and for the same titles again."""
    products = env.shop.catalogue
    queries = [f"{products[row].name.lower()} {row}" for row in range(0, len(products), max(1, len(products) // 300))]
    result = {}
    for name in ("new", "again"):
        taken = []
        for query in queries:
            start = time.perf_counter()
            env.shop.search(query, 50)
            taken.append(time.perf_counter() - start)
        result[f"search_{name}_microseconds_median"] = round(1e6 * statistics.median(taken), 1)
    return result


# ---- beside the original ----


ODD = [
    "search_results",
    "item_page",
    '"red" shoes',
    "a]b",
    "(x",
    "<q> shoes",
    "done",
    "\\d+",
    "é “w”",
    "SHOES",
    "Next >",
]


class Words:
    """A tagger for which every word is a noun, as in shop_original.py."""

    name = "words"

    def nouns(self, title: str) -> list[str]:
        return [word.lower() for word in title.split()]


class Original:
    """The original's text environment in its own process."""

    def __init__(self, checkout: Path, python: str, files: dict[str, str]) -> None:
        program = Path(__file__).with_name("shop_original.py")
        self.process = subprocess.Popen(
            [python, program, checkout, files["products"], files["attributes"], files.get("human", "")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, **request: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("the original's process ended; run shop_original.py with its interpreter to see why")
        return json.loads(line)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def compare(files: dict[str, str], checkout: Path, python: str, episodes: int, turns: int) -> dict[str, Any]:
    """Play the same actions on both sides; returns counts, the original's speed, and the first differences."""
    from turncredit.envs.shop import pages
    from turncredit.envs.shop.env import from_keys
    from turncredit.envs.shop.session import parse

    rng = random.Random(1)
    env = from_keys(**files, tagger=Words(), splits="all", goals="synthetic")
    theirs = Original(checkout, python, files)
    differences: list[str] = []
    steps, seconds, ours = 0, 0.0, 0.0
    for task in rng.sample(env.task_ids(), episodes):
        observation, info = env.reset(options={"task": task})
        answer = theirs.ask(reset=int(task))
        action, reward, over = None, 0.0, False
        for turn in range(turns + 1):
            session = env.session
            mine = (observation, pages.rich(session), session.url(), session.clickables(), reward, over)
            parts = ("text", "rich", "url", "clickables", "reward", "done")
            differ = [(one, answer[part]) for one, part in zip(mine, parts, strict=True) if one != answer[part]]
            if differ:
                differences.append(f"task {task}, turn {turn}, {action!r}: {differ[0][0]!r} is not {differ[0][1]!r}")
                break
            if over or turn == turns:
                break
            action = choose(rng, info, rng.choice(ODD) if rng.random() < 0.3 else str(turn))
            if action.startswith("search") and rng.random() < 0.2:
                action = f"search[{rng.choice(ODD)}]"
            asked = parse(action)
            found = [asin for asin, _ in env.shop.search(asked[1], 50)] if asked and asked[0] == "search" else None
            answer = theirs.ask(step=action, found=found)
            start = time.process_time()
            observation, reward, over, _, info = env.step(action)
            ours += time.process_time() - start
            seconds += answer["seconds"]
            steps += 1
    theirs.close()
    return {
        "original_steps": steps,
        "original_steps_per_processor_second": round(steps / seconds, 1),
        "ratio_without_search": seconds / ours,
        "differences": differences[:5],
    }


if __name__ == "__main__":
    sys.exit(main())
