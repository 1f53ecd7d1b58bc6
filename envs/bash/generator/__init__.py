"""Tasks of our own: many families, each with files drawn by chance, a statement, commands that do it, and the end."""

from turnwise.envs.bash.generator.level import PRESETS, BashLevel
from turnwise.envs.bash.generator.tasks import FAMILIES, SPLITS, generate, task_ids

__all__ = ["FAMILIES", "PRESETS", "SPLITS", "BashLevel", "generate", "task_ids"]
