"""File-system tasks: the agent types shell commands in a sandbox; the final files and the answer are graded."""

from turncredit.envs.bash.env import BashEnv
from turncredit.envs.bash.generator import FAMILIES, BashLevel
from turncredit.envs.bash.grading import BashGrade, grade
from turncredit.envs.bash.task import BashTask

__all__ = ["FAMILIES", "BashEnv", "BashGrade", "BashLevel", "BashTask", "grade"]
