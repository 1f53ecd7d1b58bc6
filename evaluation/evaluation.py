"""Evaluation: one player on a fixed panel of tasks.

Panels are fixed so that `turncredit.evaluation.comparison` can pair results task by task.

Not included: several episodes of one task in a result, for which pairing would need a model of the spread within tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from turncredit.agents.agent import Agent
from turncredit.agents.errors import EngineFailed, Interrupted
from turncredit.agents.rollouts.env_pool import EnvPool, MakeEnv
from turncredit.agents.rollouts.rollout import RolloutReport, rollout
from turncredit.agents.samplers.base import Samples
from turncredit.agents.samplers.wrappers import as_sampler
from turncredit.agents.trajectory import Group, Trajectory
from turncredit.evaluation.panels import Panel
from turncredit.evaluation.results import EpisodeRow, EvaluationResult
from turncredit.processes import tracing
from turncredit.processes.memory_use import memory_use

ATTEMPTS = 2
"""Maximum number of times that an episode is played if it ends as an error."""


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
        concurrency: maximum number of episodes at once.
        deadline: seconds for each reset and step; None: no limit.
        processes: how many processes play; see `RolloutOptions`.
        attempts: how often an episode is played at most, if it ends as an error.
        on_finish: called with every trajectory as it finishes, also with those that are played again.

    Raises:
        Interrupted: Ctrl-C; it carries the finished episodes.
    """
    report, played, repeated = RolloutReport(), dict[str, Group](), list[EpisodeRow]()
    for _ in range(attempts):
        missing = [task for task in panel.tasks if task not in played or not played[task].finished]
        if not missing:
            break
        try:
            with tracing.span("evaluate", {"turncredit.player": name, "turncredit.env": panel.env}):
                groups = rollout(agent, sampler, missing, make=make, size=1, seed=panel.seed,
                                 concurrency=concurrency, deadline=deadline, processes=processes,
                                 on_finish=on_finish, report=report)  # fmt: skip
        except (Interrupted, EngineFailed) as error:
            error.groups = [*(played | _by_task(error.groups or ())).values()]
            raise
        again = _by_task(groups)
        repeated += [EpisodeRow.of(played[task].trajectories[0]) for task in again if task in played]
        played |= again
    parts = {name: _settings(agent.for_task(f"{name}/")) for name in agent.parts}
    settings = {
        **_settings(agent),
        **({"parts": parts} if parts else {}),
        "version": as_sampler(sampler).version,
    }
    rows = tuple(EpisodeRow.of(played[task].trajectories[0]) for task in panel.tasks if task in played)
    return EvaluationResult(panel, rows, name, report.seconds, settings, memory_use(), tuple(repeated))


def _settings(agent: Agent) -> dict[str, object]:
    return {
        "prompt": type(agent.prompt).__name__.lower(),
        "parser": agent.parser,
        "max_turns": agent.max_turns,
        "max_tokens": agent.max_tokens,
        "temperature": agent.temperature,
        **({} if agent.annealing is None else {"annealing": agent.annealing.name}),
        "top_p": agent.top_p,
        **{name: getattr(agent, name) for name in ("top_k", "min_p") if getattr(agent, name)},
    }


def _by_task(groups: Iterable[Group]) -> dict[str, Group]:
    """Return the groups that have an episode by their task."""
    return {group.task: group for group in groups if group.trajectories}
