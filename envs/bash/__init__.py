"""Tasks in a file system, done by shell commands in a sandbox, and judged by the files and the answer at the end."""

from turnwise.envs.bash.env import BashEnv
from turnwise.envs.bash.generator import FAMILIES, BashLevel
from turnwise.envs.bash.grading import BashGrade, grade
from turnwise.envs.bash.task import BashTask

__all__ = ["FAMILIES", "BashEnv", "BashGrade", "BashLevel", "BashTask", "grade"]
