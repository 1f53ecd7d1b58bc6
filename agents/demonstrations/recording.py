"""Recording an episode that no sampler plays, such as one of a person, so that it can be stored and imitated.

>>> recorder = EpisodeRecorder("You see a door.", {"task": "open-1", "state": "hall"}, seed=0)
>>> recorder.add("open door", "You are outside.", 1.0, True, False, {"state": "garden", "won": True})
>>> recorder.trajectory().won
True
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import SupportsFloat

from turncredit.agents.errors import AgentError
from turncredit.agents.files.trajectory_files import TrajectoryWriter, read_trajectories
from turncredit.agents.json_types import JsonObject
from turncredit.agents.rollouts.env_pool import StepResult, step_result
from turncredit.agents.trajectory import Stop, Trajectory, Turn

__all__ = ["EpisodeRecorder", "append_episode"]


class EpisodeRecorder:
    """Collects the turns of one episode from what the environment returns.

    The turns have no token ids: `tokenize_trajectory` of `turncredit.agents.demonstrations.tokens` adds those of the
    model that imitates.
    """

    def __init__(self, observation: object, info: JsonObject, *, seed: int) -> None:
        """Start an episode.

        Args:
            observation: as returned by `reset`.
            info: as returned by `reset`; `info["task"]` is the id of the task.
            seed: the seed of the reset.
        """
        self.task, self.seed = str(info.get("task", "")), seed
        self.turns: list[Turn] = []
        self._first = self._last = step_result(observation, 0.0, False, False, info)
        self._started = time.monotonic()

    @property
    def ended(self) -> bool:
        """Whether the environment ended or truncated the episode."""
        return self._last.terminated or self._last.truncated

    @property
    def last(self) -> StepResult:
        """What the environment returned last."""
        return self._last

    def add(
        self,
        action: str,
        observation: object,
        reward: SupportsFloat,
        terminated: bool,
        truncated: bool,
        info: JsonObject,
    ) -> None:
        """Add a turn: the action, and what `step` returned.

        Raises:
            AgentError: the episode has ended.
        """
        if self.ended:
            raise AgentError("the episode has ended; record the next one with a new EpisodeRecorder")
        before, after = self._last, step_result(observation, float(reward), bool(terminated), bool(truncated), info)
        valid = before.admissible is None or action in before.admissible if after.valid is None else after.valid
        extras = {**self._first.extras, **after.extras}
        seen, listed = before.observation, before.admissible
        images = tuple(image.compressed() for image in before.images)
        turn = Turn((), (), (), 0, seen, action, action, before.state, after.reward, valid, listed, extras,
                    results=before.results, free=before.free, images=images, shown=images)  # fmt: skip
        self.turns.append(turn)
        self._last = after

    def trajectory(self, member: int = 0) -> Trajectory:
        """Return the episode so far. One that has not ended counts as not won, with the stop reason "turns".

        Args:
            member: number of the episode among those of its task, for the trajectory's id.
        """
        last: StepResult = self._last
        stop: Stop = "terminated" if last.terminated else "truncated" if last.truncated else "turns"
        rewarded = bool(self.turns) and self.turns[-1].reward > 0
        won = last.won if last.won is not None else last.terminated and rewarded
        return Trajectory(
            id=f"{self.task}#{member}@{self.seed}",
            task=self.task,
            task_type=last.task_type if last.task_type is not None else self._first.task_type,
            seed=self.seed,
            turns=tuple(self.turns),
            stop=stop,
            won=won and self.ended,
            score=float(won and self.ended) if last.score is None else last.score,
            final_state=last.state,
            final_observation=last.observation,
            error=None,
            seconds=time.monotonic() - self._started,
        )


def append_episode(path: Path, trajectory: Trajectory) -> Trajectory:
    """Append an episode to a file of demonstrations, and return it as it was stored.

    Its number (in the id) is that of the next episode in the file, so that ids are unique.

    Raises:
        StoreError: the name ends in no known format, or the file is damaged.
        OSError: the file cannot be written.
    """
    count = sum(1 for _ in read_trajectories(path)) if path.exists() else 0
    stored = replace(trajectory, id=f"{trajectory.task}#{count}@{trajectory.seed}")
    with TrajectoryWriter(path, append=True) as writer:
        writer.write(stored)
    return stored
