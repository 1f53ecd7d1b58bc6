"""Tasks in a file system, done by shell commands in a sandbox, and judged by the files and the answer at the end."""

from turnwise.envs.bash.env import BashEnv
from turnwise.envs.bash.generator import FAMILIES, Level
from turnwise.envs.bash.judge import Verdict, judge
from turnwise.envs.bash.task import Task

__all__ = ["FAMILIES", "BashEnv", "Level", "Task", "Verdict", "judge"]
