"""Generated worlds, described in passages, and questions about them that need one to four facts.

    about = world("train", "small", 0)                          # entities and the corpus of their passages
    questions = QuestionGenerator("held_out", "small")
    questions.get("held_out/small/000012").question.text        # the same on every machine

Not included: contradictory passages, and questions that count or compare.
"""

from turncredit.envs.search.generator.level import PRESETS, SearchLevel
from turncredit.envs.search.generator.questions import GeneratedQuestion, Hop, QuestionGenerator
from turncredit.envs.search.generator.world import SPLITS, Entity, SearchWorld, world

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
