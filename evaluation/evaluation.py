"""Evaluation: one player on a fixed panel of tasks.

Panels are fixed so that `turncredit.evaluation.comparison` can pair results task by task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from turncredit.agents.agent import Agent
from turncredit.agents.errors import EngineFailed, EvaluationError, Interrupted
from turncredit.agents.rollouts.env_pool import EnvPool, MakeEnv
from turncredit.agents.rollouts.rollout import RolloutReport, rollout
from turncredit.agents.rollouts.rollout_stream import GroupSpec
from turncredit.agents.trajectory import Group, Trajectory
from turncredit.engines.base import Samples
from turncredit.engines.wrappers import as_sampler
from turncredit.evaluation.panels import Panel
from turncredit.evaluation.results import EpisodeRow, EvaluationResult
from turncredit.processes import tracing
from turncredit.processes.memory_use import memory_use

ATTEMPTS = 2
"""Maximum number of times that an episode is played if it ends as an error."""

_Trial = tuple[int, str]
"""Number of a trial, and a task."""


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
    trials: int = 1,
    on_finish: Callable[[Trajectory], None] | None = None,
) -> EvaluationResult:
    """Return the result of playing every task of the panel; an episode that ended as an error is played again.

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
        trials: how often every task is played, with the seeds panel.seed, panel.seed + 1, ...
        on_finish: called with every trajectory as it finishes, also with those that are played again.

    Raises:
        Interrupted: Ctrl-C; it carries the finished episodes.
        EvaluationError: there are no trials.
    """
    if trials < 1:
        raise EvaluationError(f"trials must be >= 1, got {trials}")
    report, played, repeated = RolloutReport(), dict[_Trial, Trajectory](), list[EpisodeRow]()
    asked = [(trial, task) for trial in range(trials) for task in panel.tasks]

    def of_trial(trajectory: Trajectory) -> Trajectory:
        return replace(trajectory, trial=trajectory.seed - panel.seed)

    def of_groups(groups: Iterable[Group] | None) -> dict[_Trial, Trajectory]:
        members = [of_trial(member) for group in groups or () for member in group.trajectories[:1]]
        return {(member.trial, member.task): member for member in members}

    def finished(trajectory: Trajectory) -> None:
        if on_finish is not None:
            on_finish(of_trial(trajectory))

    for _ in range(attempts):
        missing = [key for key in asked if key not in played or not played[key].finished]
        if not missing:
            break
        specs = [GroupSpec(task, panel.seed + trial, size=1) for trial, task in missing]
        try:
            with tracing.span("evaluate", {"turncredit.player": name, "turncredit.env": panel.env}):
                groups = rollout(agent, sampler, specs, make=make, concurrency=concurrency, deadline=deadline,
                                 processes=processes, on_finish=finished, report=report)  # fmt: skip
        except (Interrupted, EngineFailed) as error:
            members = played | of_groups(error.groups)
            error.groups = [Group(member.task, (member,)) for member in members.values()]
            raise
        again = of_groups(groups)
        repeated += [EpisodeRow.of(played[key]) for key in again if key in played]
        played |= again
    parts = {name: _settings(agent.for_task(f"{name}/")) for name in agent.parts}
    settings = {
        **_settings(agent),
        **({"parts": parts} if parts else {}),
        "version": as_sampler(sampler).version,
    }
    rows = tuple(EpisodeRow.of(played[key]) for key in asked if key in played)
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
