"""What a Harbor trial's folder says beside the trajectory: its task, its reward, and whether it failed.

JOB/TRIAL/agent/trajectory.json    JOB/TRIAL/result.json    JOB/TRIAL/verifier/reward.txt or reward.json
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from turncredit.agents.json_types import JsonObject
from turncredit.tools.bounded_input import MAX_SETTINGS, InputError, read_json, read_text, require_no_link

__all__ = ["Trial", "trial_of"]

_REWARD: Final = "reward"
"""The reward that counts, where there are several."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial.

    Attributes:
        name: of the trial, unique in its job.
        task: that was attempted.
        reward: by the verifier; None: it gave none.
        error: why the trial failed; None: it did not.
    """

    name: str
    task: str
    reward: float | None
    error: str | None


def trial_of(file: Path) -> Trial | None:
    """Return the trial whose agent wrote a trajectory; None for a file that lies in no trial's folder.

    Raises:
        InputError: the trial's files are damaged.
    """
    agent = Path(os.path.abspath(file)).parent  # a link is not followed: it may lead out of the trial
    if agent.name != "agent":
        return None
    folder = agent.parent
    result = _json(folder / "result.json")
    verified = result.get("verifier_result")
    rewards = verified.get("rewards") if isinstance(verified, Mapping) else None
    reward = _reward(rewards)
    if reward is None:
        reward = _reward(_json(folder / "verifier" / "reward.json"))
    if reward is None:
        reward = _text_reward(folder / "verifier" / "reward.txt")
    failure = result.get("exception_info")
    error = None
    if isinstance(failure, Mapping) and reward is None:
        error = f"{failure.get('exception_type')}: {failure.get('exception_message')}"
    task = result.get("task_name")
    named = task if isinstance(task, str) and task else folder.name.rpartition("__")[0]
    return Trial(folder.name, named or folder.name, reward, error)


def _json(path: Path) -> JsonObject:
    value = read_json(require_no_link(path), max_bytes=MAX_SETTINGS) if path.is_file() else {}
    if not isinstance(value, dict):
        raise InputError(f"{path} must hold an object, got {type(value).__name__}")
    return value


def _reward(rewards: object) -> float | None:
    """Return the reward with the usual name, else the mean of all."""
    if not isinstance(rewards, Mapping):
        return None
    values = {
        name: float(value) for name, value in rewards.items() if isinstance(value, int | float) and math.isfinite(value)
    }
    if _REWARD in values:
        return values[_REWARD]
    return sum(values.values()) / len(values) if values else None


def _text_reward(path: Path) -> float | None:
    if not path.is_file():
        return None
    text = read_text(require_no_link(path), max_bytes=MAX_SETTINGS).strip()
    try:
        value = float(text)
    except ValueError as error:
        raise InputError(f"{path} must hold a number, got {text[:40]!r}") from error
    return value if math.isfinite(value) else None
