"""Folders of runs for reports, written without training: a corridor of states, with wins, losses and an error."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from turncredit.agents.files.trajectory_files import TrajectoryWriter
from turncredit.agents.trajectory import Trajectory, Turn
from turncredit.evaluation.panels import Panel
from turncredit.evaluation.results import EpisodeRow, EvaluationResult

TOML = (
    'name = "made"\n[env]\nid = "turncredit/Household-v0"\n[credit]\nmethod = "gigpo"\n'
    "[train]\niterations = 5\nlr = 0.001\n"
)


def turn(number: int, action: str | None, *, text: str | None = None, state: str = "", **values: Any) -> Turn:
    """A turn whose prompt extends that of the turn before."""
    fields: dict[str, Any] = {
        "prompt": tuple(range(4 * number + 3)),
        "response": (7, 8),
        "logprobs": (-0.5, -0.25),
        "version": 1,
        "observation": f"room {number}",
        "text": action or "mumble" if text is None else text,
        "action": action,
        "state": state or f"s{number}",
        "reward": 0.0,
        "valid": action is not None,
    }
    return Turn(**(fields | values))


def episode(task: str, member: int, turns: Sequence[Turn], won: bool, **values: Any) -> Trajectory:
    """An episode that ended by itself."""
    fields: dict[str, Any] = {
        "id": f"{task}#{member}@5",
        "task": task,
        "task_type": "open" if task.startswith("open") else "fetch",
        "seed": 5,
        "turns": tuple(turns),
        "stop": "terminated" if won else "turns",
        "won": won,
        "score": float(won),
        "final_state": "end",
        "final_observation": "the last room",
        "error": None,
        "seconds": 0.5,
    }
    return Trajectory(**(fields | values))


def episodes(iteration: int) -> list[Trajectory]:
    """The episodes of one iteration: a group with wins and losses, one without a win, one with an error."""
    won = [turn(0, "go east"), turn(1, "take key", reward=1.0)]
    loop = [turn(0, "go west", valid=False), *[turn(0, "wait") for _ in range(5)]]
    mute = [turn(0, "go east"), *[turn(1, None) for _ in range(3)]]
    return [
        episode("open-1", 0, won, True),
        episode("open-1", 1, loop, False),
        episode("open-1", 2, [turn(0, "go east"), turn(1, f"sing song {iteration}")], False),
        episode("fetch-2", 0, loop, False),
        episode("fetch-2", 1, mute, False),
        episode("fetch-3", 0, won, True),
        episode("fetch-3", 1, [turn(0, "go east")], False, stop="error", error="the door of room 12 broke"),
    ]


def write_iteration(folder: Path, iteration: int, played: Sequence[Trajectory] | None = None) -> Path:
    """Write the episodes and the event of one iteration."""
    file = folder / "trajectories" / f"{iteration:06d}.jsonl.gz"
    with TrajectoryWriter(file) as writer:
        for one in episodes(iteration) if played is None else played:
            writer.write(one)
    event = {"phase": "train", "iteration": iteration, "episodes": 7, "errors": 1, "success": 2 / 6, "reward": 2 / 6}
    event |= {"turns": 3.0, "entropy": 1.0 / iteration, "odd_number": 3, "seconds": 2.0, "rollout_seconds": 1.0}
    with (folder / "metrics.jsonl").open("a") as metrics:
        metrics.write(json.dumps(event) + "\n")
    return file


def write_run(folder: Path, iterations: int = 3) -> Path:
    """Write a run with two evaluations of twelve tasks, and return its folder."""
    folder.mkdir(parents=True)
    (folder / "run.toml").write_text(TOML)
    (folder / "meta.json").write_text(
        json.dumps({"python": "3.11", "platform": "Linux", "packages": {"turncredit": "0.1", "torch": None}})
    )
    for number in range(1, iterations + 1):
        write_iteration(folder, number)
    for step, won in ((0, "100000000000"), (iterations, "011111100011")):
        evaluation(won).save(_made(folder / "evaluations" / f"{step:06d}.json"))
    return folder


def evaluation(won: str) -> EvaluationResult:
    """An evaluation that won the tasks with a "1"."""
    panel = Panel("turncredit/Household-v0", tuple(f"task-{n}" for n in range(len(won))), {}, 0)
    rows = [
        EpisodeRow(task, "even" if n % 2 == 0 else "odd", won[n] == "1", float(won[n] == "1"), 4, "terminated", 0, 0)
        for n, task in enumerate(panel.tasks)
    ]
    return EvaluationResult(panel, tuple(rows), "made")


def _made(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    return path


def visit(tab: Any, file: Path, route: str) -> Any:
    """Open a page of the report and wait until it is drawn."""
    tab.goto(f"file://{file}{route}")
    tab.wait_for_function("hash => document.getElementById('view').dataset.ready === hash", arg=route)
    return tab.locator("#view")
