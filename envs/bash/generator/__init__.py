"""Tasks of our own: many families, each with files drawn by chance, a statement, commands that do it, and the end."""

from turnwise.envs.bash.generator.level import PRESETS, Level
from turnwise.envs.bash.generator.make import FAMILIES, SPLITS, generated, task_ids

__all__ = ["FAMILIES", "PRESETS", "SPLITS", "Level", "generated", "task_ids"]
