"""Evaluation: a fixed `Panel` of tasks, and the `EvaluationResult` of one player on it.

Every rate has an interval and its n, and panels are fixed so that `turnwise.evaluation.comparison` can pair results
task by task. Episodes that ended as ``error`` say nothing about the player: they are left out of every rate, and
counted.

Not included: several episodes of one task in a result, for which pairing would need a model of the spread within tasks.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import gymnasium

from turnwise.agents.agent import Agent
from turnwise.agents.errors import EngineFailed, EvaluationError, Interrupted
from turnwise.agents.files.json_files import read_json, validated, write_json
from turnwise.agents.rollouts.env_pool import EnvPool, MakeEnv
from turnwise.agents.rollouts.rollout import RolloutReport, rollout
from turnwise.agents.samplers.base import Samples
from turnwise.agents.samplers.wrappers import as_sampler
from turnwise.agents.trajectory import Group, Trajectory
from turnwise.envs import make as make_env
from turnwise.evaluation.statistics import wilson
from turnwise.processes.memory_use import memory_use

VERSION = 1
ATTEMPTS = 2
"""How often an episode is played if it ends as an error."""


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
        write_json(Path(path), {"version": VERSION, "panel": panel_json(self)})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Panel:
        """Return the panel of a file.

        Raises:
            EvaluationError: the file is not a panel.
            OSError: the file cannot be read.
        """
        return validated(cls, read_json(Path(path), "a panel", "panel", VERSION)["panel"], f"{path} is not a panel")


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
    truncated: int = 0
    """Turns whose answer was cut at the limit of tokens."""
    prompt_tokens: int = 0
    """Tokens of the prompts of all turns; 0 if nobody counted them."""
    response_tokens: int = 0
    cost: float | None = None
    """Price of the requests, if the sampler knows prices."""
    refused: int = 0
    """Turns whose answer the model or its server refused."""
    empty: int = 0
    """Turns for which a server answered without any text."""
    harm: bool | None = None
    """Whether the agent obeyed instructions of an attacker; None if the task had none."""
    counted: int | None = None
    """Turns whose tokens are known; the others count nothing. None in files that do not say."""
    priced: int | None = None
    """Turns whose price is known."""

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
            trajectory.truncated_answers,
            trajectory.prompt_tokens,
            trajectory.response_tokens,
            trajectory.cost,
            trajectory.refused_answers,
            trajectory.empty_answers,
            trajectory.harm,
            trajectory.counted_answers,
            trajectory.priced_answers,
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
    truncated: float | None = None
    """Share of turns whose answer was cut at the limit of tokens."""
    prompt_tokens: float | None = None
    """Tokens of the prompts of an episode, too few where `counted` is below 1; None if nobody counted tokens."""
    response_tokens: float | None = None
    cost: float | None = None
    """Price of an episode; None if no price is known."""
    refused: float | None = None
    """Share of turns whose answer was refused."""
    empty: float | None = None
    """Share of turns whose answer was empty."""
    harm: Rate | None = None
    """Share of the attacked episodes in which the agent obeyed; None if no episode was attacked."""
    counted: float | None = None
    """Share of turns whose tokens are known; None if nobody counted tokens, or the file does not say."""
    priced: float | None = None
    """Share of turns whose price is known; None without prices, or if the file does not say."""


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
    memory: Mapping[str, int] = field(default_factory=dict)
    """Most bytes that the process had while it played: "process", and "device" on a GPU."""

    def summary(self) -> EvaluationSummary:
        """Return rates with intervals, and means."""
        good = [row for row in self.rows if row.stop != "error"]
        won = [row for row in good if row.won]
        turns = sum(row.turns for row in good)
        counted = any(row.prompt_tokens or row.response_tokens for row in good)
        attacked = [row for row in good if row.harm is not None]
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
            truncated=sum(row.truncated for row in good) / turns if turns else None,
            prompt_tokens=_mean([row.prompt_tokens for row in good if counted]),
            response_tokens=_mean([row.response_tokens for row in good if counted]),
            cost=_mean([row.cost for row in good if row.cost is not None]),
            refused=sum(row.refused for row in good) / turns if turns else None,
            empty=sum(row.empty for row in good) / turns if turns else None,
            harm=Rate.of(sum(row.harm is True for row in attacked), len(attacked)) if attacked else None,
            counted=_share([row.counted for row in good], turns),
            priced=_share([row.priced for row in good], turns),
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
            "memory": dict(self.memory),
            "summary": asdict(self.summary()),
            "panel": panel_json(self.panel),
            "rows": [asdict(row) for row in self.rows],
        }
        write_json(Path(path), content)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> EvaluationResult:
        """Return the result of a file.

        Raises:
            EvaluationError: the file is not a result.
            OSError: the file cannot be read.
        """
        return validated(
            cls, read_json(Path(path), "an evaluation result", "rows", VERSION), f"{path} is not an evaluation result"
        )


def evaluate(
    agent: Agent,
    sampler: Samples,
    panel: Panel,
    make: MakeEnv | EnvPool,
    *,
    name: str = "",
    concurrency: int = 64,
    deadline: float | None = None,
    processes: int = 1,
    attempts: int = ATTEMPTS,
    on_finish: Callable[[Trajectory], None] | None = None,
) -> EvaluationResult:
    """Return the result of playing every task of the panel once; an episode that ended as an error is played again.

    Args:
        agent: prompts, parser, limits, temperature.
        sampler: the model.
        panel: the tasks and the seed.
        make: makes an environment of the panel; or an `EnvPool` of them.
        name: name of the player.
        concurrency: most episodes at once.
        deadline: seconds for each reset and step; None: no limit.
        processes: how many processes play; see `RolloutOptions`.
        attempts: how often an episode is played at most, if it ends as an error.
        on_finish: called with every trajectory as it finishes, also with those that are played again.

    Raises:
        Interrupted: Ctrl-C; it carries the finished episodes.
    """
    report, played = RolloutReport(), dict[str, Group]()
    for _ in range(attempts):
        missing = [task for task in panel.tasks if task not in played or not played[task].finished]
        if not missing:
            break
        try:
            groups = rollout(agent, sampler, missing, make=make, size=1, seed=panel.seed, concurrency=concurrency,
                             deadline=deadline, processes=processes, on_finish=on_finish, report=report)  # fmt: skip
        except (Interrupted, EngineFailed) as error:
            error.groups = [*(played | _by_task(error.groups or ())).values()]
            raise
        played |= _by_task(groups)
    settings = {
        "prompt": type(agent.prompt).__name__.lower(),
        "parser": agent.parser,
        "max_turns": agent.max_turns,
        "max_tokens": agent.max_tokens,
        "temperature": agent.temperature,
        "top_p": agent.top_p,
        **{name: getattr(agent, name) for name in ("top_k", "min_p") if getattr(agent, name)},
        "version": as_sampler(sampler).version,
    }
    rows = tuple(EpisodeRow.of(played[task].trajectories[0]) for task in panel.tasks if task in played)
    return EvaluationResult(panel, rows, name, report.seconds, settings, memory_use())


def _by_task(groups: Iterable[Group]) -> dict[str, Group]:
    """Return the groups that have an episode by their task."""
    return {group.task: group for group in groups if group.trajectories}


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _share(counts: Sequence[int | None], turns: int) -> float | None:
    """Return a share of all turns; None if it is 0, or if some rows do not say."""
    numbers = [number for number in counts if number is not None]
    return sum(numbers) / turns if turns and len(numbers) == len(counts) and any(numbers) else None


def panel_json(panel: Panel) -> dict[str, Any]:
    """Return a panel as JSON-compatible values."""
    return {"env": panel.env, "kwargs": dict(panel.kwargs), "seed": panel.seed, "tasks": list(panel.tasks)}
