"""Programming tasks: the agent writes and repairs programs in a sandbox, graded by tests that never enter it."""

from turncredit.envs.code.env import CodeEnv
from turncredit.envs.code.generator import CodeLevel
from turncredit.envs.code.grading import CaseResult, CodeGrade, CodeGrader
from turncredit.envs.code.task import BadTask, CallTest, CodeTask, ScriptTest, StdioTest

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
