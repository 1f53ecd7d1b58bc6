"""Generated code tasks: small functions of many families, to repair or to write."""

from turnwise.envs.code.generator.level import PRESETS, CodeLevel
from turnwise.envs.code.generator.tasks import SPLITS, generate, task_ids

__all__ = ["PRESETS", "SPLITS", "CodeLevel", "generate", "task_ids"]
