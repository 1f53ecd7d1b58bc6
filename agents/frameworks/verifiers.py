"""Environments as tasksets of verifiers: each task is a task instance, which the model of the run plays to its end.

A taskset of verifiers is a module, named by its id. household.py:

    from turncredit.agents.frameworks.verifiers import taskset

    Tasks, Episodes = taskset("turncredit/Household-v0", level="tiny")
    __all__ = ["Tasks", "Episodes"]

    vf-eval @ household.toml          with `id = "household"` in [env.taskset]

The model gets the messages that it gets in turncredit, and its answers are parsed by the agent. The sum of the rewards
is verifiers' reward; score, success and turns are metrics.

Not included: images, and native tools: the agent's actions are text.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Final, Protocol

from turncredit.agents.agent import Agent
from turncredit.agents.errors import EnvFailure, RequestFailed
from turncredit.agents.instructions import agent_for
from turncredit.agents.models.weights import Weights
from turncredit.agents.rollouts.env_pool import EnvWorker
from turncredit.agents.rollouts.episode import Episode, EpisodeSpec
from turncredit.agents.trajectory import Trajectory, sampling_seed
from turncredit.engines.base import Completion, Request, Sampler
from turncredit.envs import make, maker
from turncredit.installation import MissingPackage

__all__ = ["taskset"]

_MISSING: Final = "tasksets for verifiers need the package verifiers: pip install verifiers"


class _Segment(Protocol):
    terminated: bool
    last_reply: str


class _RecordedTrace(Protocol):
    stop_condition: str | None

    def record_reward(self, name: str, value: float) -> None: ...
    def record_metrics(self, values: dict[str, float]) -> None: ...


class _Interaction(Protocol):
    trace: _RecordedTrace

    async def turn(self, message: str) -> _Segment: ...


class _Player(Protocol):
    def interaction(self, task: object) -> AbstractAsyncContextManager[_Interaction]: ...


class _Agents(Protocol):
    player: _Player


class _Data(Protocol):
    task: str
    seed: int


class _PlayedTask(Protocol):
    data: _Data


class InteractionSampler(Sampler):
    """The model of a run of verifiers, which keeps the conversation itself."""

    def __init__(self, interaction: _Interaction) -> None:
        """Keep the interaction of one episode."""
        self._interaction = interaction

    async def sample(self, request: Request) -> Completion:
        """Return the model's answer to the last message.

        Raises:
            RequestFailed: the run has ended, for example since its turns or tokens are used up.
        """
        segment = await self._interaction.turn(str(request.messages[-1]["content"]))
        if segment.terminated:
            raise RequestFailed(f"verifiers ended the episode: {self._interaction.trace.stop_condition}")
        return Completion((), (), segment.last_reply, self.version, "stop", {})

    async def use(self, weights: Weights, version: int) -> None:
        """Refuse new weights.

        Raises:
            RequestFailed: always.
        """
        raise RequestFailed("models of verifiers cannot load weights")


def taskset(env_id: str, *, deadline: float = 60.0, **arguments: object) -> tuple[type, type]:
    """Return a taskset and an environment of verifiers, for the `__all__` of a module.

    The taskset's configuration has `tasks` (the number of tasks, default 100, or a list of ids), `seed` of the
    environment, and `max_turns`. The seat of the model is `env.player`.

    Args:
        env_id: id of the environment.
        deadline: seconds for each reset and step.
        arguments: arguments of the environment.

    Raises:
        ImportError: verifiers is not installed.
        EnvError: there is no such environment, or it cannot be made.
    """
    try:
        import verifiers.v1 as vf
        from pydantic import create_model
    except ImportError as missing:
        raise MissingPackage(_MISSING) from missing
    agent = agent_for(env_id, dict(arguments), prompt="conversation")
    system = agent.prompt.template.system.strip() or None
    make_env = maker(env_id, **arguments)
    data_type = create_model(
        "EpisodeData", __base__=vf.TaskData, task=(str, ...), seed=(int, 0), limit=(int | None, None)
    )
    config_type = create_model(
        "EpisodesConfig",
        __base__=vf.TasksetConfig,
        tasks=(int | list[str], 100),
        seed=(int, 0),
        max_turns=(int | None, None),
    )
    seats_type = create_model("SeatsConfig", __base__=vf.EnvConfig, player=(vf.AgentConfig, vf.AgentConfig()))

    class EpisodeTask(vf.Task[data_type, vf.State, vf.TaskConfig]):  # type: ignore[misc]
        """A task instance."""

    class Tasks(vf.Taskset[EpisodeTask, config_type]):  # type: ignore[misc]
        """The task instances of an environment."""

        def load(self) -> Iterator[EpisodeTask]:
            """Yield the tasks."""
            config = self.config
            for task in _ids(env_id, arguments, config.tasks):
                facts = {"name": task, "id": task, "task": task, "seed": config.seed, "limit": config.max_turns}
                yield EpisodeTask(data_type(prompt=None, system_prompt=system, **facts), config.task)

    class TasksetEpisodes(vf.Env[seats_type]):  # type: ignore[misc]
        """Plays the episodes."""

        async def run(self, task: _PlayedTask, agents: _Agents) -> None:
            """Play the episode of a task, and record its reward."""
            worker = EnvWorker(make_env, deadline)
            try:
                async with agents.player.interaction(task) as interaction:
                    played = await _play(agent, interaction, worker, task)
            finally:
                worker.close()
            _record(interaction.trace, played)

    for member in (Tasks, TasksetEpisodes):
        member.__module__ = "turncredit.agents.frameworks.verifiers"
    return Tasks, TasksetEpisodes


def _ids(env_id: str, arguments: dict[str, object], tasks: int | list[str]) -> list[str]:
    """Return the ids of the tasks."""
    if not isinstance(tasks, int):
        return tasks
    env = make(env_id, **arguments)
    try:
        listed: list[str] = env.get_wrapper_attr("task_ids")(tasks)
        return listed
    finally:
        env.close()


async def _play(agent: Agent, interaction: _Interaction, worker: EnvWorker, task: _PlayedTask) -> Trajectory:
    """Return the episode; one that verifiers ended is kept as far as it went."""
    name, seed = task.data.task, task.data.seed
    spec = EpisodeSpec(name, seed, f"{name}#0@{seed}", sampling_seed(f"{name}#0@{seed}"))
    limit = getattr(task.data, "limit", None)
    player = agent if limit is None else replace(agent, max_turns=limit)
    episode = Episode(player, InteractionSampler(interaction), worker, spec)
    played = await episode.play()
    if episode.env_failure is not None:
        raise EnvFailure(str(played.error))
    return played


def _record(trace: _RecordedTrace, played: Trajectory) -> None:
    trace.record_reward("reward", sum(turn.reward for turn in played.turns))
    metrics = {"score": played.score, "won": played.won, "turns": len(played.turns)}
    invalid = sum(turn.valid is False for turn in played.turns)
    trace.record_metrics({name: float(value or 0.0) for name, value in {**metrics, "invalid": invalid}.items()})
