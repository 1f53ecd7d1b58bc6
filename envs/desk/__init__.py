"""Service desks with simulated users, as in tau-bench: tools, a policy, a database, and a user who may be difficult."""

from turncredit.envs.desk.env import DeskEnv
from turncredit.envs.desk.generator import DOMAINS
from turncredit.envs.desk.level import DeskLevel
from turncredit.envs.desk.users import QUALITIES, USERS, DeskUser, ScriptedUser, UserQuality, UserReply, UserScene

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
