"""Gymnasium environments whose observations and actions are text, and what keeps them honest.

Importing this registers our environments with Gymnasium. `make` finds those of other packages too and names what was
meant when an id or a keyword is wrong; `check_env` proves that an environment keeps the contract
(`turncredit.envs.info`); `TextEnv` is the short way to write one; the wrappers bound turns and time; `save`, `load` and
`branch` keep an episode and multiply it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turncredit.envs.agent_defaults import agent_defaults
from turncredit.envs.branch import branch, load, save
from turncredit.envs.deadline import Deadline
from turncredit.envs.errors import (
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
from turncredit.envs.info import Demonstrator, HasPlan, HasSnapshot, HasTasks, Info
from turncredit.envs.isolated import Isolated
from turncredit.envs.registration import (
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
from turncredit.envs.spaces import Text
from turncredit.envs.text import SavableEnv, TextEnv
from turncredit.envs.vector import make_vec
from turncredit.envs.wrappers import EndGuard, TurnLimit

if TYPE_CHECKING:
    from turncredit.envs.check import CheckReport, CheckResult, check_env

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
        from turncredit.envs import check

        return getattr(check, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


register_envs()
