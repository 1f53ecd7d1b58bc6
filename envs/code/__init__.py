"""Programs to be written and repaired in a sandbox, and judged by tests that nobody inside can read or talk to."""

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
