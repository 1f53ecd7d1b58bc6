"""Programs to be written and repaired in a sandbox, and judged by tests that nobody inside can read or talk to."""

from turnwise.envs.code.env import CodeEnv
from turnwise.envs.code.generator import Level
from turnwise.envs.code.judge import Judge, Outcome, Verdict
from turnwise.envs.code.task import BadTask, Call, Exchange, Script, Task

__all__ = ["BadTask", "Call", "CodeEnv", "Exchange", "Judge", "Level", "Outcome", "Script", "Task", "Verdict"]
