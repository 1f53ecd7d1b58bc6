"""Code tasks of our own: small programs in many families, to be repaired or written, made from their ids."""

from turnwise.envs.code.generator.level import PRESETS, CodeLevel
from turnwise.envs.code.generator.tasks import SPLITS, generate, task_ids

__all__ = ["PRESETS", "SPLITS", "CodeLevel", "generate", "task_ids"]
