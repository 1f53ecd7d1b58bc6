"""Evaluation: a fixed `Panel` of tasks, and the `EvaluationResult` of one player on it.

A rate without its interval and its n says nothing, and two rates on different tasks cannot be compared: panels are ids
written down, results are JSON, and `turnwise.agents.comparison` pairs the tasks. Episodes
that ended as ``error`` say nothing about the player: they are left out of every rate, and reported.

Left out on purpose: several episodes of one task in a result (`rollout` makes them; pairing would need a model of the
spread within tasks), and ranking of many results.
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
from turnwise.agents.store import naming
from turnwise.agents.trajectory import Trajectory
from turnwise.envs import make as make_env

VERSION = 1
Record = TypeVar("Record")


@dataclass(frozen=True)
class Panel:
    """Task instances by id, in a fixed order, and the environment that they belong to."""

    env: str
    """Id with Gymnasium."""
    tasks: tuple[str, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Of the environment's construction."""
    seed: int = 0
    """Of every reset."""

    def __post_init__(self) -> None:
        """Refuse a panel that could not be paired."""
        if not self.tasks:
            raise EvaluationError("the panel has no tasks: there is nothing to play")
        task, times = Counter(self.tasks).most_common(1)[0]
        if times > 1:
            raise EvaluationError(f"the panel has the task {task!r} twice: results could not be paired")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the panel as JSON.

        Raises:
            EvaluationError: there is something else than a file at the path.
            OSError: it cannot be written.

        """
        _write(Path(path), {"version": VERSION, "panel": _panel_json(self)})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Panel:
        """Return the panel of a file.

        Raises:
            EvaluationError: the file holds no panel.
            OSError: it cannot be read.

        """
        return _checked(cls, _read(Path(path), "panel")["panel"], f"{path} holds no panel")


def draw(tasks: Sequence[str], count: int, seed: int) -> tuple[str, ...]:
    """Return a sample without replacement, kept in the order of `tasks`; all of them when they are not more.

    A sample and not the first ones: files list their tasks by type, so the first ones would be of few types.

    >>> draw("abcdef", 3, seed=0)
    ('a', 'd', 'f')

    Args:
        tasks: ids.
        count: how many are wanted.
        seed: of the sample.
    """
    chosen = random.Random(seed).sample(range(len(tasks)), min(count, len(tasks)))
    return tuple(tasks[index] for index in sorted(chosen))


def draw_tasks(env: gymnasium.Env[Any, Any], count: int, seed: int) -> tuple[str, ...]:
    """Return a sample of the tasks that an environment lists (see `draw`).

    An environment that makes tasks without end lists some of them: it is asked for more where those do not suffice.

    Args:
        env: has `task_ids`.
        count: how many are wanted.
        seed: of the sample.

    Raises:
        EvaluationError: the environment does not list its tasks.
    """
    listing = getattr(env.unwrapped, "task_ids", None)
    if listing is None:
        raise EvaluationError(f"{env.spec.id if env.spec else env} does not list its tasks: it has no task_ids()")
    tasks = listing()
    return draw(tasks if len(tasks) >= count else listing(count), count, seed)


def make_panel(env_id: str, kwargs: Mapping[str, Any], episodes: int, seed: int = 0) -> Panel:
    """Return the panel of an environment: the same one for every player, wherever it is asked for.

    Args:
        env_id: id with Gymnasium.
        kwargs: of the environment's construction.
        episodes: tasks that are wanted; fewer, if there are not so many.
        seed: of the sample and of every reset.

    Raises:
        EvaluationError: the environment does not list its tasks, or has none.
        EnvError: it cannot be made.
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
    """None when n is 0."""
    low: float
    high: float
    k: int
    n: int

    @classmethod
    def of(cls, k: int, n: int) -> Rate:
        """Return the rate of k in n."""
        return cls(k / n if n else None, *wilson(k, n), k, n)

    def __str__(self) -> str:
        """Return it as in a table: rate, interval, n."""
        if self.value is None:
            return "no episode (n=0)"
        return f"{100 * self.value:.1f} % [{100 * self.low:.1f}, {100 * self.high:.1f}] (n={self.n})"


@dataclass(frozen=True)
class EvaluationSummary:
    """What a table shows. Means are over episodes that did not fail; rates of answers are over their turns."""

    success: Rate
    by_type: Mapping[str, Rate]
    score: float | None
    turns: float | None
    turns_won: float | None
    """Mean number of turns of the episodes that were won."""
    unparsable: float | None
    inadmissible: float | None
    stops: Mapping[str, int]
    errors: int
    """Episodes that failed: in no rate and no mean."""


@dataclass(frozen=True)
class EvaluationResult:
    """One player on one panel: a row for every task, in the panel's order."""

    panel: Panel
    rows: tuple[EpisodeRow, ...]
    name: str = ""
    """What played: a model, a checkpoint."""
    seconds: float = 0.0
    settings: Mapping[str, Any] = field(default_factory=dict)
    """How it was played: temperature and the like, for the reader."""

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
        """Write the result as JSON: panel, rows, and the summary for readers without this package.

        Raises:
            EvaluationError: there is something else than a file at the path.
            OSError: it cannot be written.

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
            EvaluationError: the file holds no result.
            OSError: it cannot be read.

        """
        return _checked(cls, _read(Path(path), "rows"), f"{path} holds no result")


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
        sampler: the player.
        panel: the tasks and the seed.
        make: makes an environment of the panel, or a `EnvPool` of them.
        name: of the player, for tables.
        concurrency: most episodes at once.
        deadline: seconds for each reset and step; None: no limit.
        on_finish: called with every trajectory as it finishes.

    Raises:
        Interrupted: Ctrl-C; it carries what was finished.

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
    """Return what a file holds as the record that it should be, every value of its field's kind."""
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_json(json.dumps(content), strict=True)
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(str(part) for part in problem["loc"])
        raise EvaluationError(f"{complaint}: {place}: {problem['msg'].lower()}") from error


def _write(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON beside the target and rename it: a full disk never costs the file that was there."""
    if path.exists() and not path.is_file():  # renaming would put a file in the place of a device
        raise EvaluationError(f"{path} is a {'folder' if path.is_dir() else 'device'}: the name of a file was wanted")
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.part")
    try:
        with naming(path):
            beside.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def _read(path: Path, key: str) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise EvaluationError(
            f"{path} is no JSON ({error}): a {'result' if key == 'rows' else key} was wanted"
        ) from error
    if not isinstance(content, dict) or key not in content:
        raise EvaluationError(f"{path} holds no {'result' if key == 'rows' else key}: the key {key!r} is missing")
    if content.get("version") != VERSION:
        raise EvaluationError(f"{path}: version {content.get('version')!r} is not known here, {VERSION} was wanted")
    return content
