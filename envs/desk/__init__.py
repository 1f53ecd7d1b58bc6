"""Service desks with simulated users, as in tau-bench: tools, a policy, a database, and a user who may be difficult."""

from turnwise.envs.desk.env import DeskEnv
from turnwise.envs.desk.generator import DOMAINS
from turnwise.envs.desk.level import DeskLevel
from turnwise.envs.desk.users import QUALITIES, USERS, DeskUser, ScriptedUser, UserQuality, UserReply, UserScene

__all__ = [
    "DOMAINS",
    "QUALITIES",
    "USERS",
    "DeskEnv",
    "DeskLevel",
    "DeskUser",
    "ScriptedUser",
    "UserQuality",
    "UserReply",
    "UserScene",
]
