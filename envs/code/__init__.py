"""Programming tasks: the agent writes and repairs programs in a sandbox, graded by tests that never enter it."""

from turnwise.envs.code.env import CodeEnv
from turnwise.envs.code.generator import CodeLevel
from turnwise.envs.code.grading import CaseResult, CodeGrade, CodeGrader
from turnwise.envs.code.task import BadTask, CallTest, CodeTask, ScriptTest, StdioTest

__all__ = [
    "BadTask",
    "CallTest",
    "CaseResult",
    "CodeEnv",
    "CodeGrade",
    "CodeGrader",
    "CodeLevel",
    "CodeTask",
    "ScriptTest",
    "StdioTest",
]
