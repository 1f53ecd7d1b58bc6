"""Plays the same games in the original engine and in ours, and compares observations, commands, rewards and ends.

The original (TextWorld and alfworld) is installed in its own virtual environment (--venv, created if missing; takes
minutes and needs a package index). This file runs in both interpreters: with --serve it is the original's side, which
speaks JSON lines on stdin and stdout.

    python benchmarks/household_parity.py --games PATH [--venv FOLDER] [--count 20] [--turns 60] [--seed 0]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

WRONG = ["dance", "Look", "", "go to nowhere 1", "take apple 99 from table 9", "  look  ", "examine", "use"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", action="store_true", help="be the original's side (run by the other side)")
    parser.add_argument(
        "--games", help="folder or packed file of original games; without it, generated ones are played"
    )
    parser.add_argument("--venv", type=Path, default=Path.home() / ".cache" / "turncredit" / "original-household")
    parser.add_argument("--count", type=int, default=20, help="games")
    parser.add_argument("--turns", type=int, default=60, help="turns in each game")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.serve:
        return serve()
    report = compare(options.games, options.venv, options.count, options.turns, options.seed)
    print(json.dumps(report, indent=2))
    return 1 if report["differences"] else 0


# ---- the original's side: only the standard library, textworld and alfworld ----


def serve() -> int:
    import textworld
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
    from textworld.envs.pddl import PddlEnv

    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the planner prints
    sys.argv = sys.argv[:1]  # its translator reads the command line
    env: Any = None
    for line in sys.stdin:
        request = json.loads(line)
        start = time.perf_counter()
        if "load" in request:
            env = AlfredDemangler(PddlEnv(textworld.EnvInfos(won=True, admissible_commands=True)), shuffle=False)
            env.load(request["load"])
            state, reward, done = env.reset(), 0, False
        else:
            state, reward, done = env.step(request["step"])
        answer = {
            "observation": state.feedback,
            "admissible": state.admissible_commands,
            "won": bool(state["won"]),
            "reward": reward,
            "done": bool(done),
            "seconds": time.perf_counter() - start,
        }
        out.write(json.dumps(answer) + "\n")
        out.flush()
    return 0


# ---- our side ----


def install(venv: Path) -> Path:
    """Return the interpreter of a virtual environment with the original in it."""
    python = venv / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    if subprocess.run([python, "-c", "import textworld, alfworld, fast_downward"], capture_output=True).returncode:
        subprocess.run([python, "-m", "pip", "install", "-q", "textworld[pddl]"], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", "alfworld"], check=True)
    return python


class Original:
    """The original engine in its own process."""

    def __init__(self, venv: Path) -> None:
        self.process = subprocess.Popen(
            [install(venv), __file__, "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.file = Path(tempfile.mkdtemp()) / "game.tw-pddl"

    def ask(self, request: dict[str, str]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("the original's process ended; run this file with --serve in its environment to see why")
        return json.loads(line)

    def load(self, game: dict[str, Any]) -> dict[str, Any]:
        self.file.write_text(json.dumps(game))
        return self.ask({"load": str(self.file)})

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def game_file(env: Any, task: str) -> dict[str, Any]:
    """Return the original's file of a task, made from the source that our environment plays."""
    if env.generated:
        from turncredit.envs.household.generator import game_file as generated_file
        from turncredit.envs.household.generator import source

        return generated_file(source(task))
    library = env.library
    record = library.record(task)
    sentence = json.dumps(record["task"])[1:-1]
    return {
        "pddl_domain": library.domain_text(task),
        "grammar": library.grammar_text(task).replace("UNKNOWN GOAL.", sentence),
        "pddl_problem": record["problem"],
        "solvable": True,
        "walkthrough": record["walkthrough"],
    }


class Games:
    """Return our games, generated or from files."""

    def __init__(self, games: str | None) -> None:
        from turncredit.envs.household.env import HouseholdEnv
        from turncredit.envs.household.library import GameLibrary

        self.generated = games is None
        self.library = None if games is None else GameLibrary.open(games)
        splits = ("train", "held_out") if self.library is None else self.library.splits
        self.envs = {split: HouseholdEnv(games, split) for split in splits}
        self.tasks = [(split, task) for split, env in self.envs.items() for task in env.task_ids()]


def compare(games: str | None, venv: Path, count: int, turns: int, seed: int) -> dict[str, Any]:
    """Play random games on both sides; returns counts, speeds and the first differences."""
    rng = random.Random(seed)
    ours, original = Games(games), Original(venv)
    differences: list[str] = []
    steps, theirs_seconds, our_seconds = 0, 0.0, 0.0
    for split, task in rng.sample(ours.tasks, count):
        env = ours.envs[split]
        answer = original.load(game_file(ours, task))
        observation, info = env.reset(options={"task": task})
        command, reward, done = None, 0.0, False
        for turn in range(turns + 1):
            mine = (observation, info["admissible_actions"], info["won"], reward, done)
            theirs = (answer["observation"], answer["admissible"], answer["won"], answer["reward"], answer["done"])
            if mine != theirs:
                differences.append(f"{task}, turn {turn}, {command!r}: {mine!r} is not {theirs!r}")
                break
            if done or turn == turns:
                break
            command = choose(rng, info["admissible_actions"], env)
            answer = original.ask({"step": command})
            start = time.perf_counter()
            observation, reward, done, _, info = env.step(command)
            our_seconds += time.perf_counter() - start
            theirs_seconds += answer["seconds"]
            steps += 1
    original.close()
    return {
        "games": count,
        "steps": steps,
        "original_steps_per_second": round(steps / max(theirs_seconds, 1e-9), 1),
        "our_steps_per_second": round(steps / max(our_seconds, 1e-9), 1),
        "ratio": round(theirs_seconds / max(our_seconds, 1e-9), 1),
        "differences": differences[:5],
    }


def choose(rng: random.Random, admissible: list[str], env: Any) -> str:
    """Return a command: mostly one that changes the world, sometimes nonsense or the expert's next one."""
    draw = rng.random()
    if draw < 0.05:
        return rng.choice(WRONG)
    if draw < 0.15:
        from turncredit.envs.errors import EnvError

        try:
            return (env.plan() or ["look"])[0]
        except EnvError:  # random play can get stuck for good
            return "inventory"
    busy = [command for command in admissible if not command.startswith("go to")]
    return rng.choice(busy if draw < 0.7 else admissible)


if __name__ == "__main__":
    sys.exit(main())
