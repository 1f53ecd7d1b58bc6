"""Groups per second of synchronous, over-provisioned and asynchronous rollouts, and how far from the bound they are.

The engine answers after a time that is proportional to the number of tokens, and the learner updates for a fixed time;
both only wait, so the figures are those of the loop's schedule and not of this machine. The numbers of turns and of
tokens are those of 1,024 episodes of examples/demo.toml (episode_lengths.json): 67 tokens on average, and 230 in the
longest. `--run FOLDER` takes those of another run.
Everything else is real: the stream of groups, the capacity rule, pauses for new weights, the buffer on disk.

"Interrupted" engines stop in the middle of an answer for new weights, and go on with it; the others finish it first.
`--one-answer` makes an episode one long answer, as those of models that think.

The bound: with all slots busy all the time, slots / (tokens of a group x seconds per token) groups per second, or as
many as the learner can use, whichever is less.

    python benchmarks/asynchronous.py [--iterations 16] [--token 0.03] [--update 1.2] [--json PATH]

Goal: at least 2.5 times the groups per second of synchronous rollouts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium
from rich.console import Console
from rich.table import Table

from turncredit.agents.files.trajectory_files import read_trajectories
from turncredit.engines.base import Completion, Request
from turncredit.envs import register
from turncredit.envs.spaces import Text
from turncredit.training import Run
from turncredit.training.parts import prepare

GOAL = 2.5
TASKS, GROUP = 16, 8
MODES: dict[str, int | dict[str, int]] = {
    "synchronous": 0,
    "8 spare groups": {"spare_groups": 8},
    "16 spare groups": {"spare_groups": 16},
    "staleness 1": 1,
    "staleness 2": 2,
    "staleness 4": 4,
}


class Waiting(gymnasium.Env[str, str]):
    """An environment without content, whose episodes end when the engine says so."""

    observation_space, action_space = Text(10), Text(10)

    def task_ids(self, count: int | None = None) -> list[str]:
        return [f"task-{number}" for number in range(1000)][:count]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        return "go", {"task": (options or {}).get("task", "task-0")}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return "go", 0.0, action == "end", False, {"valid": True}


class WaitingEngine:
    """An engine and its sampler in one, which waits as long as the recorded answers would take."""

    tokenizer = context = None

    def __init__(self, episodes: list[list[int]], seconds_per_token: float) -> None:
        self.episodes, self.seconds_per_token = episodes, seconds_per_token
        self.version = 0
        self.sampler = self
        self.busy = 0.0

    async def sample(self, request: Request) -> Completion:
        answers, version = self.episodes[request.seed % len(self.episodes)], self.version
        await self.compute(answers[request.turn] * self.seconds_per_token)
        text = "end" if request.turn + 1 == len(answers) else "on"
        return Completion((), (), text, version, "stop")

    async def compute(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.busy += seconds

    def load(self, version: int) -> None:
        self.version = version

    async def load_here(self, version: int) -> None:
        self.version = version

    def forget(self, episode: str) -> None:
        """Keep nothing."""

    def make_room(self) -> None:
        """There is no learner."""

    def rest(self) -> None:
        """Go on."""

    def close(self) -> None:
        """Hold nothing."""


class InterruptibleEngine(WaitingEngine):
    """One that stops in the middle of answers, and goes on with them."""

    def __init__(self, episodes: list[list[int]], seconds_per_token: float) -> None:
        super().__init__(episodes, seconds_per_token)
        self.stopped, self.working = asyncio.Event(), asyncio.Event()
        self.working.set()

    async def compute(self, seconds: float) -> None:
        while seconds > 0:
            await self.working.wait()
            started = time.perf_counter()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.stopped.wait(), seconds)
            passed = min(seconds, time.perf_counter() - started)
            seconds -= passed
            self.busy += passed

    async def interrupt(self) -> None:
        self.working.clear()
        self.stopped.set()

    async def proceed(self) -> None:
        self.stopped.clear()
        self.working.set()


ENGINES: dict[str, type[WaitingEngine]] = {"": WaitingEngine, ", interrupted": InterruptibleEngine}


class Silent:
    """A reporter that shows nothing."""

    def tick(self, *_: Any, **__: Any) -> None:
        """Show nothing."""

    def counting(self, *_: Any) -> Any:
        return lambda _: None


def play(
    staleness: int | dict[str, int], engine: WaitingEngine, update: float, iterations: int, folder: Path
) -> dict[str, float]:
    """Return groups per second, share of slots in use, and age of the turns."""
    register("turncredit-benchmarks/Waiting-v0", f"{__name__}:Waiting")
    sizes = {"groups": TASKS, "group_size": GROUP, "concurrency": TASKS * GROUP}
    run = Run.parse(
        {
            "output": str(folder),
            "trajectory_format": "",
            "env": {"id": "turncredit-benchmarks/Waiting-v0"},
            "imitation": {"episodes": 1},
            "evaluation": {"episodes": 0},
            "train": {"iterations": iterations, "staleness": staleness, **sizes},
        }
    )
    prepared = prepare(run)
    rollouts = prepared.rollouts(prepared.agent(None), engine, Silent())  # type: ignore[arg-type]
    ages: list[int] = []
    folder.mkdir(parents=True)
    started = time.perf_counter()
    try:
        for step in range(iterations):
            rollouts.load(step)
            played = rollouts.next(step)
            ages += [step - turn.version for group in played.groups for one in group.trajectories for turn in one.turns]
            time.sleep(update)
    finally:
        seconds = time.perf_counter() - started
        rollouts.close()
    return {
        "groups_per_second": iterations * TASKS / seconds,
        "slots": engine.busy / (seconds * TASKS * GROUP),
        "age": sum(ages) / len(ages),
        "oldest": max(ages),
    }


def main() -> None:
    """Play every mode and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=16)
    parser.add_argument("--token", type=float, default=0.03, help="seconds per token")
    parser.add_argument("--update", type=float, default=1.2, help="seconds of an update")
    parser.add_argument("--run", type=Path, help="take the lengths of this run's episodes")
    parser.add_argument("--one-answer", action="store_true", help="all tokens of an episode are one answer")
    parser.add_argument("--json", type=Path)
    words = parser.parse_args()
    if words.run:
        files = sorted((words.run / "trajectories").glob("*"))
        episodes = [[max(1, len(t.response)) for t in one.turns] for path in files for one in read_trajectories(path)]
    else:
        episodes = json.loads((Path(__file__).parent / "episode_lengths.json").read_text())
    if words.one_answer:
        episodes = [[sum(answers)] for answers in episodes]
    mean = sum(map(sum, episodes)) / len(episodes)
    bound = min(TASKS / (mean * words.token), TASKS / words.update)
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for (name, mode), (how, kind) in product(MODES.items(), ENGINES.items()):
            if how and not mode:
                continue  # nothing is in progress during an update
            place = Path(folder) / f"{name}{how}".replace(" ", "-")
            results[name + how] = play(mode, kind(episodes, words.token), words.update, words.iterations, place)
    first = results["synchronous"]["groups_per_second"]
    table = Table(title=f"bound: {bound:.1f} groups per second; {TASKS} groups of {GROUP}, update {words.update} s")
    for column in ("rollouts", "groups/s", "of the bound", "to synchronous", "slots in use", "mean age", "oldest"):
        first_column = column == "rollouts"
        table.add_column(column, justify="left" if first_column else "right", no_wrap=first_column)
    for name, one in results.items():
        one |= {"of_bound": one["groups_per_second"] / bound, "ratio": one["groups_per_second"] / first}
        numbers = (f"{one['groups_per_second']:.1f}", f"{one['of_bound']:.0%}", f"{one['ratio']:.2f}")
        table.add_row(name, *numbers, f"{one['slots']:.0%}", f"{one['age']:.2f}", f"{one['oldest']:.0f}")
    Console().print(table)
    best = max(one["ratio"] for one in results.values())
    Console().print(f"best: {best:.2f} times synchronous (goal {GOAL})")
    if words.json:
        words.json.write_text(json.dumps({"bound": bound, "modes": results}, indent=2))


if __name__ == "__main__":
    main()
