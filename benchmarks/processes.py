"""What a second process saves: the demo's parts with one process and with several, in turns.

    taskset -c 0,1 python benchmarks/processes.py [RUN.toml] [--processes 2] [--rounds 3] [--steps 2] [--episodes 100]

Each round trains a policy from the beginning, once with one process and once with several, for a few iterations after
an evaluation, and takes the seconds of each part from the run's metrics. The table has the seconds of the fastest round
and their ratio. Imitation is sequential, and not shared; demonstrations are.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("demonstrations", "imitation", "evaluation", "rollouts", "updates")


def measure(args: argparse.Namespace, processes: int) -> dict[str, float]:
    """Return the seconds of each part of a short run."""
    with tempfile.TemporaryDirectory() as folder:
        changes = [
            f"processes={processes}",
            f"train.iterations={args.steps}",
            f"evaluation.episodes={args.episodes}",
            f'output="{folder}/run"',
        ]
        command = [sys.executable, "-P", "-m", "turncredit.cli.main", "train", args.run, *changes]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        events = [json.loads(line) for line in (Path(folder) / "run" / "metrics.jsonl").read_text().splitlines()]
    found: dict[str, float] = defaultdict(float)
    for event in events:
        if event["phase"] == "imitation" and "seconds" in event:
            found["demonstrations" if "demonstrations" in event else "imitation"] += event["seconds"]
        elif event["phase"] == "evaluation" and event["iteration"] == 0:
            found["evaluation"] = event["seconds"]
        elif event["phase"] == "train":
            found["rollouts"] += event["rollout_seconds"] / args.steps
            found["updates"] += event["update_seconds"] / args.steps
    return found


def main() -> None:
    """Measure in turns, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", nargs="?", default=str(ROOT / "examples" / "demo.toml"))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--episodes", type=int, default=100)
    args = parser.parse_args()
    counts = (1, args.processes)
    best: dict[tuple[int, str], float] = {}
    for _ in range(args.rounds):
        for count in counts:
            for part, seconds in measure(args, count).items():
                best[count, part] = min(seconds, best.get((count, part), seconds))
    table = Table("part", "one process, s", f"{args.processes} processes, s", "ratio")
    for part in PARTS:
        if (1, part) in best:
            one, several = (best[count, part] for count in counts)
            table.add_row(part, f"{one:.1f}", f"{several:.1f}", f"{several / one:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
