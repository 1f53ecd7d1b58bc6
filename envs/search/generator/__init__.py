"""Small worlds of our own, told in passages, and questions about them that need one to four facts.

    about = world("train", "small", 0)                     # things and the corpus of their passages
    puzzles = Puzzles("held_out", "small")
    puzzles.get("held_out/small/000012").question.text     # the same on every machine

The vocabulary is written for this project. Left out on purpose: passages that contradict each other, and questions that
count or compare.
"""

from turnwise.envs.search.generator.level import PRESETS, SearchLevel
from turnwise.envs.search.generator.questions import GeneratedQuestion, Hop, QuestionGenerator
from turnwise.envs.search.generator.world import SPLITS, Entity, SearchWorld, world

__all__ = [
    "PRESETS",
    "SPLITS",
    "Entity",
    "GeneratedQuestion",
    "Hop",
    "QuestionGenerator",
    "SearchLevel",
    "SearchWorld",
    "world",
]
