"""Evaluation: a fixed `Panel` of tasks, and the `EvaluationResult` of one player on it.

Every rate has an interval and its n, and panels are fixed so that `turnwise.agents.comparison` can pair results task by
task. Episodes that ended as ``error`` say nothing about the player: they are left out of every rate, and counted.

Not included: several episodes of one task in a result, for which pairing would need a model of the spread within tasks.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import gymnasium

from turnwise.agents.agent import Agent
from turnwise.agents.env_pool import EnvPool, MakeEnv
from turnwise.agents.errors import EvaluationError
from turnwise.agents.rollout import RolloutReport, rollout
from turnwise.agents.samplers.base import Sampler
from turnwise.agents.statistics import wilson
from turnwise.agents.store import name_file_in_errors
from turnwise.agents.trajectory import Trajectory
from turnwise.envs import make as make_env

VERSION = 1
Record = TypeVar("Record")


@dataclass(frozen=True)
class Panel:
    """Ids of task instances in a fixed order, and their environment."""

    env: str
    """Gymnasium id."""
    tasks: tuple[str, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the environment."""
    seed: int = 0
    """Seed of every reset."""

    def __post_init__(self) -> None:
        """Refuse an empty panel, and one whose tasks could not be paired."""
        if not self.tasks:
            raise EvaluationError("the panel has no tasks")
        task, times = Counter(self.tasks).most_common(1)[0]
        if times > 1:
            raise EvaluationError(f"the panel has the task {task!r} twice, so results could not be paired")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the panel as JSON.

        Raises:
            EvaluationError: the path is a folder or a device.
            OSError: the file cannot be written.
        """
        _write(Path(path), {"version": VERSION, "panel": _panel_json(self)})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Panel:
        """Return the panel of a file.

        Raises:
            EvaluationError: the file is not a panel.
            OSError: the file cannot be read.
        """
        return _checked(cls, _read(Path(path), "panel")["panel"], f"{path} is not a panel")


def draw(tasks: Sequence[str], count: int, seed: int) -> tuple[str, ...]:
    """Return a random sample without replacement, in the order of `tasks`; all tasks if there are no more than `count`.

    The first tasks would not do, since files list tasks by type.

    >>> draw("abcdef", 3, seed=0)
    ('a', 'd', 'f')

    Args:
        tasks: ids.
        count: size of the sample.
        seed: seed of the sample.
    """
    chosen = random.Random(seed).sample(range(len(tasks)), min(count, len(tasks)))
    return tuple(tasks[index] for index in sorted(chosen))


def draw_tasks(env: gymnasium.Env[Any, Any], count: int, seed: int) -> tuple[str, ...]:
    """Return a random sample of the tasks that an environment lists (see `draw`).

    An environment that generates tasks lists some of them, and is asked for more if those do not suffice.

    Args:
        env: has `task_ids`.
        count: size of the sample.
        seed: seed of the sample.

    Raises:
        EvaluationError: the environment does not list its tasks.
    """
    listing = getattr(env.unwrapped, "task_ids", None)
    if listing is None:
        raise EvaluationError(f"{env.spec.id if env.spec else env} does not list its tasks: it has no task_ids()")
    tasks = listing()
    return draw(tasks if len(tasks) >= count else listing(count), count, seed)


def make_panel(env_id: str, kwargs: Mapping[str, Any], episodes: int, seed: int = 0) -> Panel:
    """Return the panel of an environment, which depends on the arguments alone.

    Args:
        env_id: Gymnasium id.
        kwargs: arguments of the environment.
        episodes: number of tasks; if there are fewer, all of them.
        seed: seed of the sample and of every reset.

    Raises:
        EvaluationError: the environment does not list its tasks, or has none.
        EnvError: the environment cannot be made.
    """
    env = make_env(env_id, **kwargs)
    try:
        return Panel(env_id, draw_tasks(env, episodes, seed), dict(kwargs), seed)
    finally:
        env.close()


@dataclass(frozen=True, slots=True)
class EpisodeRow:
    """One episode of an evaluation."""

    task: str
    task_type: str | None
    won: bool
    score: float
    turns: int
    stop: str
    unparsable: int
    inadmissible: int
    error: str | None = None

    @classmethod
    def of(cls, trajectory: Trajectory) -> EpisodeRow:
        """Return the row of a trajectory."""
        return cls(
            trajectory.task,
            trajectory.task_type,
            trajectory.won,
            trajectory.score,
            len(trajectory.turns),
            trajectory.stop,
            trajectory.unparsable,
            trajectory.inadmissible,
            trajectory.error,
        )


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate with its 95 % Wilson interval."""

    value: float | None
    """None if n is 0."""
    low: float
    high: float
    k: int
    n: int

    @classmethod
    def of(cls, k: int, n: int) -> Rate:
        """Return the rate of k in n."""
        return cls(k / n if n else None, *wilson(k, n), k, n)

    def __str__(self) -> str:
        """Return the rate with interval and n, in percent."""
        if self.value is None:
            return "no episode (n=0)"
        return f"{100 * self.value:.1f} % [{100 * self.low:.1f}, {100 * self.high:.1f}] (n={self.n})"


@dataclass(frozen=True)
class EvaluationSummary:
    """Statistics of a result. Means are over episodes without an error, and rates of answers over their turns."""

    success: Rate
    by_type: Mapping[str, Rate]
    score: float | None
    turns: float | None
    turns_won: float | None
    """Mean number of turns of the won episodes."""
    unparsable: float | None
    inadmissible: float | None
    stops: Mapping[str, int]
    errors: int
    """Episodes that ended as an error; they are in no rate and no mean."""


@dataclass(frozen=True)
class EvaluationResult:
    """The episodes of one player on one panel, in the panel's order."""

    panel: Panel
    rows: tuple[EpisodeRow, ...]
    name: str = ""
    """Name of the player."""
    seconds: float = 0.0
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Temperature and other options of the agent, for information."""

    def summary(self) -> EvaluationSummary:
        """Return rates with intervals, and means."""
        good = [row for row in self.rows if row.stop != "error"]
        won = [row for row in good if row.won]
        turns = sum(row.turns for row in good)
        types = sorted({row.task_type for row in good if row.task_type is not None})
        return EvaluationSummary(
            success=Rate.of(len(won), len(good)),
            by_type={
                kind: Rate.of(sum(row.task_type == kind for row in won), sum(row.task_type == kind for row in good))
                for kind in types
            },
            score=_mean([row.score for row in good]),
            turns=_mean([row.turns for row in good]),
            turns_won=_mean([row.turns for row in won]),
            unparsable=sum(row.unparsable for row in good) / turns if turns else None,
            inadmissible=sum(row.inadmissible for row in good) / turns if turns else None,
            stops={
                stop: sum(row.stop == stop for row in self.rows) for stop in sorted({row.stop for row in self.rows})
            },
            errors=len(self.rows) - len(good),
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result as JSON: panel, rows, and a summary for readers without this package.

        Raises:
            EvaluationError: the path is a folder or a device.
            OSError: the file cannot be written.
        """
        content = {
            "version": VERSION,
            "name": self.name,
            "seconds": self.seconds,
            "settings": dict(self.settings),
            "summary": asdict(self.summary()),
            "panel": _panel_json(self.panel),
            "rows": [asdict(row) for row in self.rows],
        }
        _write(Path(path), content)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> EvaluationResult:
        """Return the result of a file.

        Raises:
            EvaluationError: the file is not a result.
            OSError: the file cannot be read.
        """
        return _checked(cls, _read(Path(path), "rows"), f"{path} is not an evaluation result")


def evaluate(
    agent: Agent,
    sampler: Sampler,
    panel: Panel,
    make: MakeEnv | EnvPool,
    *,
    name: str = "",
    concurrency: int = 64,
    deadline: float | None = None,
    on_finish: Callable[[Trajectory], None] | None = None,
) -> EvaluationResult:
    """Return the result of playing every task of the panel once.

    Args:
        agent: prompts, parser, limits, temperature.
        sampler: the model.
        panel: the tasks and the seed.
        make: makes an environment of the panel; or an `EnvPool` of them.
        name: name of the player.
        concurrency: most episodes at once.
        deadline: seconds for each reset and step; None: no limit.
        on_finish: called with every trajectory as it finishes.

    Raises:
        Interrupted: Ctrl-C; it carries the finished episodes.
    """
    report = RolloutReport()
    groups = rollout(agent, sampler, panel.tasks, make=make, size=1, seed=panel.seed, concurrency=concurrency,
                     deadline=deadline, on_finish=on_finish, report=report)  # fmt: skip
    rows = tuple(EpisodeRow.of(trajectory) for group in groups for trajectory in group.trajectories)
    settings = {
        "prompt": type(agent.prompt).__name__.lower(),
        "parser": agent.parser,
        "max_turns": agent.max_turns,
        "max_tokens": agent.max_tokens,
        "temperature": agent.temperature,
        "top_p": agent.top_p,
        "version": sampler.version,
    }
    return EvaluationResult(panel, rows, name, report.seconds, settings)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _panel_json(panel: Panel) -> dict[str, Any]:
    return {"env": panel.env, "kwargs": dict(panel.kwargs), "seed": panel.seed, "tasks": list(panel.tasks)}


def _checked(kind: type[Record], content: object, complaint: str) -> Record:
    """Return the record with this content, with the type of every field checked."""
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_json(json.dumps(content), strict=True)
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(str(part) for part in problem["loc"])
        raise EvaluationError(f"{complaint}: {place}: {problem['msg'].lower()}") from error


def _write(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON to a temporary file and rename it, so that a full disk cannot destroy an existing file."""
    if path.exists() and not path.is_file():  # renaming would replace a device with a file
        raise EvaluationError(f"{path} must be a file, and is a {'folder' if path.is_dir() else 'device'}")
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.part")
    try:
        with name_file_in_errors(path):
            beside.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def _read(path: Path, key: str) -> Mapping[str, Any]:
    kind = "an evaluation result" if key == "rows" else f"a {key}"
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise EvaluationError(f"{path} is not {kind}: it is not valid JSON ({error})") from error
    if not isinstance(content, dict) or key not in content:
        raise EvaluationError(f"{path} is not {kind}: the key {key!r} is missing")
    if content.get("version") != VERSION:
        found = content.get("version")
        raise EvaluationError(f"{path} must have version {VERSION} of the format, got {found!r}")
    return content
