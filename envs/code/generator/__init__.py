"""Code tasks of our own: small programs in many families, to be repaired or written, made from their ids."""

from turnwise.envs.code.generator.level import PRESETS, Level
from turnwise.envs.code.generator.make import SPLITS, generated, task_ids

__all__ = ["PRESETS", "SPLITS", "Level", "generated", "task_ids"]
