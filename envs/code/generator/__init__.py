"""Generated code tasks: small functions of many families, to repair or to write."""

from turncredit.envs.code.generator.level import PRESETS, CodeLevel
from turncredit.envs.code.generator.tasks import SPLITS, generate, task_ids

__all__ = ["PRESETS", "SPLITS", "CodeLevel", "generate", "task_ids"]
