"""Gymnasium environments whose observations and actions are text, and what keeps them honest.

Importing this registers our environments with Gymnasium. `make` finds those of other packages too and names what was
meant when an id or a keyword is wrong; `check_env` proves that an environment keeps the contract
(`turnwise.envs.info`); `TextEnv` is the short way to write one; the wrappers bound turns and time; `save`, `load` and
`branch` keep an episode and multiply it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnwise.envs.agent_defaults import agent_defaults
from turnwise.envs.branch import branch, load, save
from turnwise.envs.deadline import Deadline
from turnwise.envs.errors import (
    BadSnapshot,
    DeadlineExceeded,
    EnvError,
    EnvironmentDied,
    GameFileError,
    NoExpert,
    NoGames,
    NotReset,
    StepAfterEnd,
    UnknownEnv,
    UnknownOption,
    UnknownTask,
)
from turnwise.envs.info import Demonstrator, HasPlan, HasSnapshot, HasTasks, Info
from turnwise.envs.isolated import Isolated
from turnwise.envs.registration import (
    demonstrators,
    env_ids,
    load_plugins,
    make,
    maker,
    parts_of,
    register,
    register_envs,
    takes,
)
from turnwise.envs.spaces import Text
from turnwise.envs.text import SavableEnv, TextEnv
from turnwise.envs.vector import make_vec
from turnwise.envs.wrappers import EndGuard, TurnLimit

if TYPE_CHECKING:
    from turnwise.envs.check import CheckReport, CheckResult, check_env

__all__ = [
    "BadSnapshot",
    "CheckReport",
    "CheckResult",
    "Deadline",
    "DeadlineExceeded",
    "Demonstrator",
    "EndGuard",
    "EnvError",
    "EnvironmentDied",
    "GameFileError",
    "HasPlan",
    "HasSnapshot",
    "HasTasks",
    "Info",
    "Isolated",
    "NoExpert",
    "NoGames",
    "NotReset",
    "SavableEnv",
    "StepAfterEnd",
    "Text",
    "TextEnv",
    "TurnLimit",
    "UnknownEnv",
    "UnknownOption",
    "UnknownTask",
    "agent_defaults",
    "branch",
    "check_env",
    "demonstrators",
    "env_ids",
    "load",
    "load_plugins",
    "make",
    "make_vec",
    "maker",
    "parts_of",
    "register",
    "register_envs",
    "save",
    "takes",
]

_LAZY = ("CheckReport", "CheckResult", "check_env")


def __getattr__(name: str) -> Any:
    """Import the checker when it is first asked for: playing does not need it."""
    if name in _LAZY:
        from turnwise.envs import check

        return getattr(check, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


register_envs()
