"""File-system tasks: the agent types shell commands in a sandbox; the final files and the answer are graded."""

from turnwise.envs.bash.env import BashEnv
from turnwise.envs.bash.generator import FAMILIES, BashLevel
from turnwise.envs.bash.grading import BashGrade, grade
from turnwise.envs.bash.task import BashTask

__all__ = ["FAMILIES", "BashEnv", "BashGrade", "BashLevel", "BashTask", "grade"]
