"""Generated shell tasks: random files, an instruction, commands that follow it, and the required final files."""

from turncredit.envs.bash.generator.level import PRESETS, BashLevel
from turncredit.envs.bash.generator.tasks import FAMILIES, SPLITS, generate, task_ids

__all__ = ["FAMILIES", "PRESETS", "SPLITS", "BashLevel", "generate", "task_ids"]
