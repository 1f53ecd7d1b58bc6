"""A catalogue of the original's full size: reading, memory and play, each in its own process.

    python benchmarks/shop_full.py [--products 1180000] [--folder FOLDER] [--keep]

The original file of 1.18 million products is only available from its Drive folder, so a file of the same format is
written: the generated catalogue of level large, repeated with other ids and prices. One sentence in a hundred becomes a
goal, since the original has instructions for a part of its products. It reports the size of the file, seconds and peak
memory of the first opening, which writes the cache, and of the second, which reads it, and steps per second of random
play with new searches.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from turncredit.envs.shop.generator.export import write

STEP = 10_000  # products of one round, which are those of level large
GOALS = 100  # one product in a hundred has a sentence
OPEN = """
import json, sys, time
from pathlib import Path
from turncredit.envs.shop.env import from_keys
def peak():  # of this program alone; what getrusage tells begins with the peak of the one that started it
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024
start, busy = time.perf_counter(), time.process_time()
env = from_keys(tagger="own", splits="all", **json.loads(sys.argv[1]))
env.reset(seed=0)
env.shop.search("red shoes", 50)
report = {"seconds": time.perf_counter() - start, "processor": time.process_time() - busy}
report["megabytes"] = peak()
report["products"], report["goals"] = len(env.shop.catalogue), len(env.task_ids())
"""
PLAY = """
import random
dice, steps, searches, ready = random.Random(0), 0, [], time.perf_counter()
words = sorted({word for task in env.task_ids(400) for word in env.reset(options={"task": task})[0].split()})
while steps < 3000:
    _, info = env.reset(seed=steps)
    for _ in range(15):
        can = info["admissible_actions"]
        find = not can or can[0].startswith("search[")
        action = f"search[{' '.join(dice.sample(words, 4))}]" if find else dice.choice(can)
        before = time.perf_counter()
        _, _, over, _, info = env.step(action)
        if find:
            searches.append(1000 * (time.perf_counter() - before))
        steps += 1
        if over:
            break
report["steps_per_second"] = steps / (time.perf_counter() - ready)
searches.sort()
report["search_ms"] = {"median": searches[len(searches) // 2], "of 99 in 100": searches[99 * len(searches) // 100]}
report["megabytes_after_play"] = peak()
"""
TELL = "print(json.dumps(report))\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--products", type=int, default=1_180_000)
    parser.add_argument("--folder", type=Path, help="where the files and the cache go, and stay with --keep")
    parser.add_argument("--keep", action="store_true")
    asked = parser.parse_args()
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="turncredit-shop-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        report = measure(folder, asked.products)
    finally:
        if not asked.keep:
            shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(report, indent=1))
    return 0


def measure(folder: Path, count: int) -> dict[str, Any]:
    started = time.perf_counter()
    paths = {"products": folder / "products.json", "attributes": folder / "attributes.json"}
    if not paths["products"].exists():
        written(folder, paths, count)
    made = time.perf_counter() - started
    files = {**{name: str(path) for name, path in paths.items()}, "cache": str(folder / "cache")}
    report: dict[str, Any] = {"gigabytes": {n: round(p.stat().st_size / 1e9, 2) for n, p in paths.items()}}
    report["seconds_to_write_the_files"] = round(made)
    for name, code in (("first", OPEN + TELL), ("again", OPEN + PLAY + TELL)):
        done = subprocess.run(
            [sys.executable, "-c", code, json.dumps(files)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(done.stderr)
        report[name] = json.loads(done.stdout)
    sizes = [file.stat().st_size for file in (folder / "cache").rglob("*") if file.is_file()]
    report["gigabytes"]["cache"] = round(sum(sizes) / 1e9, 2)
    return report


def written(folder: Path, paths: dict[str, Path], count: int) -> None:
    """Write the files, a round of our own catalogue after the other."""
    source = write(folder / "one", "large")
    records = [line.rstrip(",") for line in source["products"].read_text(encoding="utf-8").splitlines()[1:-1]]
    said = json.loads(source["attributes"].read_text(encoding="utf-8"))
    products = [json.loads(record) for record in records][:STEP]
    with paths["products"].open("w", encoding="utf-8") as file:
        file.write("[")
        for number, record in enumerate(_records(products, count)):
            file.write(("," if number else "") + "\n" + json.dumps(record))
        file.write("\n]\n")
    with paths["attributes"].open("w", encoding="utf-8") as file:
        file.write("{")
        for number in range(count):
            entry = said[products[number % len(products)]["asin"]]
            if number % GOALS:
                entry = {**entry, "instruction": None, "instruction_attributes": None}
            file.write(("," if number else "") + f"\n{json.dumps(_id(number))}: {json.dumps(entry)}")
        file.write("\n}\n")


def _records(products: list[dict[str, Any]], count: int) -> Iterator[dict[str, Any]]:
    dice = random.Random(0)
    for number in range(count):
        record = dict(products[number % len(products)])
        record["asin"] = _id(number)
        record["pricing"] = f"${dice.uniform(1, 200):.2f}"
        yield record


def _id(number: int) -> str:
    return f"B{number:09d}"


if __name__ == "__main__":
    sys.exit(main())
